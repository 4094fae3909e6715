//! `heapwire mtrace` prints what mtrace(1) prints, and has its statuses.
//!
//! The expected output was worked out from what the script does with each kind of line; where the script is installed,
//! it is asked as well.

#[cfg(target_arch = "x86_64")]
use crate::keep::{Keep, LINE};
use heapwire_tests::run::{Run, command, is_installed, on, prose};
use heapwire_tests::scratch::Scratch;
use object::{Object, ObjectSymbol};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const HEAD: &str =
    "\nMemory not freed:\n-----------------\n           Address     Size     Caller\n";
const NONE: &str = "No memory leaks.\n";

/// A log, what is printed before the blocks, and the blocks that are left.
type Case = (&'static str, &'static str, &'static str);

const CASES: &[Case] = &[
    // Nothing, and nothing but the marks.
    ("", "", ""),
    ("= Start\n= End\n", "", ""),
    // One block for each way to name a caller.
    (
        "@ ./gw:[0x4011d2] + 0x9310 0x40\n@ ./gw:(poll+1d)[0x1233] + 0x9320 0x41\n@ [0x7f01] + 0x9330 0x42\n+ 0x9340 0x43\n@ poll.c:71 + 0x9350 0x44\n@ [0x52]:poll + 0x9360 0x45\n",
        "",
        "0x0000000000009310     0x40  at 0x4011d2
0x0000000000009320     0x41  at 0x1233
0x0000000000009330     0x42  at 0x7f01
0x0000000000009340     0x43  at \n0x0000000000009350     0x44  at poll.c:71
0x0000000000009360     0x45  at l @ 0x52\n",
    ),
    // Sizes: none, zero, wider than the column, wider than a number.
    (
        "+ 0x10\n+ 0x20 0\n+ 0x30 0x123456789a\n+ 0x40 0x123456789abcdef01\n",
        "",
        "0x0000000000000010        0  at \n0x0000000000000020        0  at \n0x0000000000000030 0x123456789a  at \n0x0000000000000040 0xffffffffffffffff  at \n",
    ),
    // Addresses are texts: another spelling is another block, and the order is that of texts.
    (
        "+ 0xA0 0x1\n+ 0x9 0x1\n+ 0x00a0 0x1\n+ a0 0x1\n- 0xa0\n",
        "- 0x00000000000000a0 Free 5 was never alloc'd \n",
        "0x00000000000000a0      0x1  at \n0x0000000000000009      0x1  at \n0x00000000000000a0      0x1  at \n",
    ),
    // An address that is handed out twice keeps its first block; only the first caller is taken apart.
    (
        "@ ./gw:[0x11] + 0x500 0x8\n@ ./gw:(f+2)[0x12] + 0x500 0x9\n@ ./gw:[0x13] - 0x500\n@ ./gw:[0x14] - 0x500\n",
        "+ 0x0000000000000500 Alloc 2 duplicate: 0x11 ./gw:(f+2)[0x12]\n- 0x0000000000000500 Free 4 was never alloc'd 0x14\n",
        "",
    ),
    // Reallocs of what is known, what is not, and onto what is live.
    (
        "+ 0x600 0x8\n@ [0x1] < 0x600\n@ [0x1] > 0x640 0x18\n@ [0x2] < 0x700\n@ [0x2] > 0x640 0x28\n@ [0x3] ! 0x640 0xffffffff\n",
        "- 0x0000000000000700 Realloc 4 was never alloc'd 0x2\n+ 0x0000000000000640 Realloc 5 duplicate: 0x00000018 0x1 0x2\n",
        "0x0000000000000640     0x18  at 0x1\n",
    ),
    // Calls that failed; the second half of a realloc is believed all the same.
    (
        "@ [0x1] + (nil) 0x7fffffff\n@ [0x2] > (nil) 0x3\n- (nil)\n- (nil)\n",
        "- 000000000000000000 Free 4 was never alloc'd \n",
        "",
    ),
    // Lines of others, and line ends of other systems.
    (
        "listening on port 7\r\n  @ ./gw:[0x1]\t+ 0x40 0x4 and more\r\n< menu >\r\n@ ./g w:[0x2] + 0x50 0x5\r\n",
        "- 000000000000000000 Realloc 3 was never alloc'd \n",
        "0x0000000000000040      0x4  at 0x1\n",
    ),
    // Cut short.
    (
        "@ ./gw:[0x1] + 0x7f0",
        "",
        "0x00000000000007f0        0  at 0x1\n",
    ),
    // One name for each address, whoever was first with it.
    (
        "@ [0x9]:main - 0x8\n@ ./gw:[0x9] + 0x10 0x1\n",
        "- 0x0000000000000008 Free 1 was never alloc'd n @ 0x9\n",
        "0x0000000000000010      0x1  at n @ 0x9\n",
    ),
];

fn script() -> Option<Command> {
    let path = Path::new("/usr/bin/mtrace");
    path.exists().then(|| Command::new(path))
}

#[test]
fn logs_are_reported_as_the_script_does_it() {
    let scratch = Scratch::new("drop_in");
    for (log, before, left) in CASES {
        let file = scratch.write("log", log);
        let run = on(&["mtrace"], &file);
        let (blocks, status) = match *left {
            "" => (NONE.to_owned(), 0),
            left => (format!("{HEAD}{left}"), 1),
        };
        assert_eq!(run.stdout, format!("{before}{blocks}"), "of {log}");
        assert_eq!(run.status, status, "of {log}");
        let has_blank = log.contains("./g w:");
        assert_eq!(
            prose(&run.stderr).contains("1 record with a blank"),
            has_blank,
            "{log}"
        );
        if let Some(mut script) = script() {
            let its = Run::of(script.arg(&file));
            assert_eq!((its.stdout, its.status), (run.stdout, run.status), "{log}");
        }
    }
}

#[test]
fn arguments_follow_the_scripts_rules() {
    let scratch = Scratch::new("drop_in_arguments");
    let log = scratch.write("log", "+ 0x10 0x1\n");
    let log = log.to_str().unwrap();
    let folder = scratch.path().to_str().unwrap();
    let missing = scratch.join("missing");
    let missing = missing.to_str().unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--help"], 0, "Usage: "),
        (&["--h", log, log, log], 0, "Usage: "),
        (&["--v"], 0, "heapwire mtrace "),
        (
            &["--vx"],
            1,
            "heapwire mtrace: unrecognized option `--vx'\n",
        ),
        (&["-h"], 1, "heapwire mtrace: unrecognized option `-h'\n"),
        (
            &["--", log],
            1,
            "heapwire mtrace: unrecognized option `--'\n",
        ),
        (&["-"], 1, "heapwire mtrace: unrecognized option `-'\n"),
        (&[], 255, ""),
        (&[log, log, log], 255, ""),
        (&[missing], 2, ""),
        (&[log, "--help"], 2, ""), // a program, and a log of that name
        (&[folder], 0, NONE),
        (&[log], 1, HEAD),
    ];
    for (arguments, status, begin) in cases {
        let run = Run::of(command().arg("mtrace").args(*arguments));
        assert_eq!(run.status, *status, "{arguments:?}");
        assert!(
            run.stdout.starts_with(begin),
            "{arguments:?}: {}",
            run.stdout
        );
        assert!(!begin.is_empty() || run.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn packed_logs_and_standard_input_are_read_as_well() {
    let scratch = Scratch::new("drop_in_packed");
    let log = "+ 0x10 0x1\n- 0x20\n";
    let file = scratch.write("log", log);
    let expected = on(&["mtrace"], &file);
    let packed = scratch.join("log.gz");
    let mut gzip = Command::new("gzip");
    let packs = gzip
        .arg("-c")
        .arg(&file)
        .stdout(std::fs::File::create(&packed).unwrap());
    assert!(packs.status().unwrap().success());
    assert_eq!(on(&["mtrace"], &packed), expected);
    // Alone, `-` is an option that nobody knows, as with the script; behind a program it is standard input.
    let run = Run::with_input(command().args(["mtrace", "/none", "-"]), log.into());
    assert_eq!((run.status, run.stdout), (expected.status, expected.stdout));
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn of<'w>(&mut self, words: &[&'w str]) -> &'w str {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let thrown = usize::try_from(self.0 >> 33).unwrap();
        words[thrown % words.len()]
    }
}

#[test]
fn lines_of_any_shape_are_reported_as_the_script_does_it() {
    const CALLERS: &[&str] = &[
        "",
        "@ ./gw:[0x10] ",
        "@ ./lib.so:(f+1f)[0x10] ",
        "@ [0x30]:main ",
        "@ gw.c:4 ",
        "@ a[0x1]:b[0x2] ",
        "@ a:[0x1][0x2] ",
        "@ a:[0x1]] ",
        "@ :[0x9] ",
        "@ a:[0x]: ",
        "@ [[0x8] ",
        "@\t",
    ];
    const OPS: &[&str] = &["+", "-", "<", ">", "!", "=", "@", "+-"];
    const ADDRESSES: &[&str] = &[
        " 0x10", " 0x20", " 0x10", " 0X20", " (nil)", " 0x", " x1_0", " 10", "",
    ];
    const SIZES: &[&str] = &[" 0x10", " 0", " 7f", " zz", "", " 0x1 x"];
    const ENDS: &[&str] = &["\n", "\n", "\r\n", "\n\n"];
    let Some(_) = script() else {
        return; // nobody to compare with
    };
    let scratch = Scratch::new("drop_in_dice");
    let mut dice = Dice(1);
    for _ in 0..60 {
        let mut log = String::new();
        for _ in 0..12 {
            for part in [CALLERS, OPS, ADDRESSES, SIZES, ENDS] {
                log.push_str(dice.of(part));
            }
        }
        let file = scratch.write("log", &log);
        let run = on(&["mtrace"], &file);
        let its = Run::of(script().unwrap().arg(&file));
        assert_eq!((run.stdout, run.status), (its.stdout, its.status), "{log}");
    }
}

/// What `heapwire mtrace` with `words` says of a log of one allocation by `caller`: the name of the caller, and the run.
#[cfg(target_arch = "x86_64")]
fn named(words: &[&str], caller: &str, scratch: &Scratch) -> (String, Run) {
    let log = scratch.write("log", format!("@ {caller} + 0x602010 0x20\n"));
    let run = Run::of(
        command()
            .current_dir(scratch.path())
            .arg("mtrace")
            .args(words)
            .arg(log),
    );
    let name = run
        .stdout
        .split_once("     0x20  at ")
        .map_or("", |(_, rest)| rest.trim_end());
    (name.to_owned(), run)
}

#[test]
#[cfg(target_arch = "x86_64")]
fn callers_are_named_where_the_script_is_right_and_where_it_is_wrong() {
    let scratch = Scratch::new("drop_in_names");
    let pie = Keep::build(&scratch, "pie", &["-pie", "-fPIE"]);
    let fixed = Keep::build(&scratch, "fixed", &["-no-pie"]);
    let source = scratch.join("keep.c");
    let line = format!("{}:{LINE}", source.display());
    std::fs::copy(scratch.join("pie"), scratch.join("my app")).unwrap();
    let (call, offset) = (pie.call, pie.call - pie.function);
    let of_fixed = fixed.call - 0x40_0000;
    let loaded = 0x5555_5555_4000 + call;
    let cases = [
        ("./pie", format!("./pie:[{call:#x}]"), true),
        ("./pie", format!("./pie:(keep+{offset:x})[{call:#x}]"), true),
        ("./fixed", format!("./fixed:[{of_fixed:#x}]"), false),
        ("./fixed", format!("./fixed:[{:#x}]", fixed.call), true),
        ("./pie", format!("pie:[{call:#x}]"), true),
        ("./pie", format!("./work: busy:[{call:#x}]"), false),
        (
            "./pie",
            format!("./pie:(keep+{offset:#x})[{loaded:#x}]"),
            false,
        ),
        ("./my app", format!("./my app:[{call:#x}]"), false),
        ("./fixed", format!("[{:#x}]", fixed.call), true),
    ];
    for (program, caller, script_is_right) in &cases {
        let (name, run) = named(&[program], caller, &scratch);
        assert_eq!(name, line, "{caller}");
        assert_eq!(run.stderr.is_empty(), *script_is_right, "{}", run.stderr);
        let (name, run) = named(&["--strict-compat", program], caller, &scratch);
        assert_eq!(name == line, *script_is_right, "{caller}: {name}");
        if let Some(mut script) = script()
            && !program.contains(' ')
        {
            script.current_dir(scratch.path());
            let its = Run::of(script.arg(program).arg(scratch.join("log")));
            assert_eq!(
                (its.stdout, its.status),
                (run.stdout, run.status),
                "{caller}"
            );
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn one_address_in_two_modules_has_two_names() {
    let scratch = Scratch::new("drop_in_twins");
    let call = Keep::build(&scratch, "one", &["-pie", "-fPIE"]).call;
    std::fs::create_dir(scratch.join("other")).unwrap();
    let moved = format!("-ffile-prefix-map={}=/elsewhere", scratch.path().display());
    let twin = Keep::build(&scratch, "other/two.so", &["-pie", "-fPIE", &moved]).call;
    assert_eq!(call, twin);
    let log = scratch.write(
        "log",
        format!("@ ./one:[{call:#x}] + 0x10 0x1\n@ ./other/two.so:[{call:#x}] + 0x20 0x2\n"),
    );
    let asked = |words: &[&str]| {
        let run = Run::of(
            command()
                .current_dir(scratch.path())
                .arg("mtrace")
                .args(words)
                .arg("./one")
                .arg(&log),
        );
        let names = run
            .stdout
            .lines()
            .filter_map(|line| line.split_once("  at "));
        names.map(|(_, name)| name.to_owned()).collect::<Vec<_>>()
    };
    let here = format!("{}:{LINE}", scratch.join("keep.c").display());
    assert_eq!(
        asked(&[]),
        [here.clone(), format!("/elsewhere/keep.c:{LINE}")]
    );
    assert_eq!(asked(&["--strict-compat"]), [here.clone(), here]);
}

/// Functions of two units that lie in turns, as a linker may put them.
#[test]
fn callers_in_several_units_are_all_named() {
    const PAIRS: usize = 40;
    let scratch = Scratch::new("drop_in_units");
    let mut sources = [String::new(), String::new()];
    let mut order = String::new();
    for at in 0..PAIRS {
        for (unit, source) in sources.iter_mut().enumerate() {
            let _ = writeln!(source, "int f{unit}_{at}(int it)\n{{\n\treturn it + 1;\n}}");
            let _ = writeln!(order, "*(.text.f{unit}_{at})");
        }
    }
    sources[0].push_str("int main(void) { return 0; }\n");
    let mut link = Command::new("cc");
    link.current_dir(scratch.path());
    link.args(["-g", "-O0", "-ffunction-sections", "-o", "turns"]);
    for (unit, source) in sources.iter().enumerate() {
        link.arg(scratch.write(&format!("unit{unit}.c"), source));
    }
    let turns = format!("SECTIONS {{ .turns : {{ {order} }} }} INSERT AFTER .text;\n");
    let built = Run::of(link.arg("-T").arg(scratch.write("order.ld", turns)));
    assert_eq!(built.status, 0, "{}", built.stderr);
    let bytes = std::fs::read(scratch.join("turns")).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let (mut log, mut expected) = (String::new(), Vec::new());
    for symbol in file.symbols() {
        let name = symbol.name().unwrap();
        let Some((unit, at)) = name.strip_prefix('f').and_then(|it| it.split_once('_')) else {
            continue;
        };
        let (Ok(unit), Ok(at)) = (unit.parse::<u64>(), at.parse::<u64>()) else {
            continue;
        };
        let block = 0x1000 + 0x100 * at + 0x10 * unit;
        let begin = symbol.address();
        let _ = writeln!(log, "@ ./turns:[{begin:#x}] + {block:#x} 0x1");
        let source = scratch.join(&format!("unit{unit}.c"));
        expected.push((block, format!("{}:{}", source.display(), 4 * at + 2)));
    }
    expected.sort_unstable();
    let log = scratch.write("log", log);
    let run = Run::of(
        command()
            .current_dir(scratch.path())
            .args(["mtrace", "--strict-compat", "./turns"])
            .arg(&log),
    );
    let names = run
        .stdout
        .lines()
        .filter_map(|line| line.split_once("  at "));
    let names: Vec<_> = names.map(|(_, name)| name.to_owned()).collect();
    assert_eq!(
        names,
        expected.into_iter().map(|it| it.1).collect::<Vec<_>>()
    );
    assert_eq!(names.len(), 2 * PAIRS);
    if let Some(mut script) = script() {
        script.current_dir(scratch.path());
        let its = Run::of(script.arg("./turns").arg(&log));
        assert_eq!((its.stdout, its.status), (run.stdout, run.status));
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn an_address_without_a_line_is_not_lost() {
    let scratch = Scratch::new("drop_in_lineless");
    let call = Keep::build(&scratch, "gw", &["-pie", "-fPIE", "-g0"]).call;
    let caller = format!("./gw:[{call:#x}]");
    assert_eq!(named(&["./gw"], &caller, &scratch).0, format!("{call:#x}"));
    assert_eq!(
        named(&["--strict-compat", "./gw"], &caller, &scratch).0,
        "??:?"
    );
}

#[test]
fn nothing_that_a_log_names_is_run() {
    let scratch = Scratch::new("drop_in_shell");
    let program = scratch.write("gw", "#!/bin/sh\necho > started\n");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let log = scratch.write(
        "log",
        "@ ;echo${IFS}x>started;:[0x1] + 0x10 0x1\n@ `echo>started`:[0x2] + 0x20 0x1\n@ $(echo>started)[0x3] + 0x30 0x1\n@ |echo>started:[0x4] + 0x40 0x1\n",
    );
    for words in [
        &["mtrace", "./gw"][..],
        &["mtrace", "--strict-compat", "./gw"],
        &["report", "--exe", "./gw"],
        &["mtrace", ";echo>started"],
    ] {
        let run = Run::of(command().current_dir(scratch.path()).args(words).arg(&log));
        assert!(run.status < 2, "{words:?}: {}", run.stderr);
        assert!(!scratch.join("started").exists(), "{words:?}");
    }
}

/// The script starts its program, a shell and addr2line.
#[test]
#[cfg(target_arch = "x86_64")]
fn no_other_program_is_started() {
    if !is_installed("strace") {
        return;
    }
    let scratch = Scratch::new("drop_in_alone");
    let call = Keep::build(&scratch, "gw", &["-pie", "-fPIE"]).call;
    let log = scratch.write("log", format!("@ ./gw:[{call:#x}] + 0x602010 0x20\n"));
    let calls = scratch.join("calls");
    for words in [
        &["mtrace", "./gw"][..],
        &["mtrace", "--strict-compat", "./gw"],
        &["report", "--exe", "./gw"],
    ] {
        let mut strace = Command::new("strace");
        strace.current_dir(scratch.path());
        strace.args(["-f", "-e", "trace=execve,execveat,fork,vfork", "-o"]);
        strace.arg(&calls).arg(command().get_program());
        let run = Run::of(strace.args(words).arg(&log));
        assert!(run.stdout.contains("keep.c:"), "{}", run.stdout);
        let calls = std::fs::read_to_string(&calls).unwrap();
        let made = calls.lines().filter(|line| line.contains('('));
        let own = made.filter(|line| line.contains("execve(")).count();
        assert_eq!((own, calls.matches("fork(").count()), (1, 0), "{calls}");
        assert!(!calls.contains("execveat("), "{calls}");
    }
}
