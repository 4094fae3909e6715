//! The tools that are compared, and how each is put below a program.

use heapwire_tests::build::{compile, recorder, workspace};
use heapwire_tests::run::without_recorder;
use heapwire_tests::scratch::Scratch;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MTRACE: &str = "libc_malloc_debug.so.0";
const HEAPTRACK: &str = "/usr/lib/heaptrack/libheaptrack_preload.so";

/// One way to run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Nothing,
    File,
    /// A file, with records as they are.
    Plain,
    Null,
    Mtrace,
    /// heaptrack's recorder alone.
    HeaptrackRecorder,
    /// The command heaptrack, which interprets while it records.
    Heaptrack,
    LeakSanitizer,
}

/// Where they are.
pub(crate) struct Tools {
    recorder: PathBuf,
    start_mtrace: PathBuf,
    leak_sanitizer: Option<PathBuf>,
    out: PathBuf,
}

impl Tools {
    pub(crate) fn find(scratch: &Scratch) -> Self {
        let start_mtrace = scratch.join("start_mtrace.so");
        let source = workspace().join("tests/benches/overhead/start_mtrace.c");
        compile(&source, &start_mtrace, &["-shared", "-fPIC"]);
        let leak_sanitizer = Command::new("cc")
            .arg("-print-file-name=liblsan.so")
            .output();
        let leak_sanitizer = leak_sanitizer.ok().and_then(|output| {
            let path = String::from_utf8(output.stdout).ok()?;
            fs::canonicalize(path.trim()).ok() // a file that is not there is named without its folder
        });
        Self {
            recorder: recorder(scratch),
            start_mtrace,
            leak_sanitizer,
            out: scratch.join("out"),
        }
    }

    /// Those that are there, the program alone first.
    pub(crate) fn all(&self) -> Vec<Tool> {
        let mut tools = vec![
            Tool::Nothing,
            Tool::File,
            Tool::Plain,
            Tool::Null,
            Tool::Mtrace,
        ];
        if Path::new(HEAPTRACK).exists() {
            tools.extend([Tool::HeaptrackRecorder, Tool::Heaptrack]);
        }
        if self.leak_sanitizer.is_some() {
            tools.push(Tool::LeakSanitizer);
        }
        tools
    }

    /// The command that runs `program` below `tool`. `starts_itself`: the program calls `mtrace` if it is told to.
    pub(crate) fn command(&self, tool: Tool, program: &Path, starts_itself: bool) -> Command {
        let _ = fs::remove_file(&self.out); // each round starts with a new file
        if tool == Tool::Heaptrack {
            let mut command = without_recorder(Command::new("heaptrack"));
            command.arg("-o").arg(&self.out).arg(program);
            return command;
        }
        let mut command = without_recorder(Command::new(program));
        let preload = |command: &mut Command, library: &Path| {
            command.env("LD_PRELOAD", library);
        };
        match tool {
            Tool::Nothing | Tool::Heaptrack => {}
            Tool::File | Tool::Plain | Tool::Null => {
                preload(&mut command, &self.recorder);
                let null = Path::new("/dev/null");
                let out = if tool == Tool::Null { null } else { &self.out };
                command.env("HEAPWIRE_OUT", out);
                if tool == Tool::Plain {
                    command.env("HEAPWIRE_PACK", "0");
                }
            }
            Tool::Mtrace => {
                let with_start = format!("{MTRACE}:{}", self.start_mtrace.display());
                let library = if starts_itself { MTRACE } else { &with_start };
                preload(&mut command, Path::new(library));
                command.env("MALLOC_TRACE", &self.out);
            }
            Tool::HeaptrackRecorder => {
                preload(&mut command, Path::new(HEAPTRACK));
                command.env("DUMP_HEAPTRACK_OUTPUT", &self.out);
            }
            Tool::LeakSanitizer => {
                let library = self.leak_sanitizer.as_deref().unwrap_or(Path::new(""));
                preload(&mut command, library);
                command.env("LSAN_OPTIONS", "exitcode=0");
            }
        }
        command
    }

    /// A file that a program may write besides.
    pub(crate) fn out(&self) -> &Path {
        &self.out
    }
}

impl Tool {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "alone",
            Self::File => "heapwire to a file",
            Self::Plain => "heapwire to a file, not packed",
            Self::Null => "heapwire to /dev/null",
            Self::Mtrace => "mtrace",
            Self::HeaptrackRecorder => "heaptrack's recorder",
            Self::Heaptrack => "heaptrack",
            Self::LeakSanitizer => "LeakSanitizer",
        }
    }
}
