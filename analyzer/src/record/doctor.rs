//! `heapwire doctor`: says beforehand what would keep a program from being recorded, and why its lines might be missing.

use super::program::{self, Looked};
use super::{library, name, not_executed};
use heapwire::report::escape;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

/// Where the recorder finds its settings: `getenv` does not answer yet when it begins.
const SETTINGS: &str = "/proc/self/environ";

/// What the doctor has to say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    /// One finding a line.
    pub(crate) lines: Vec<String>,
    /// Whether anything would keep the program from being recorded.
    pub(crate) is_hindered: bool,
}

impl Diagnosis {
    fn fine(&mut self, line: impl Into<String>) {
        self.lines.push(format!("  ok  {}", line.into()));
    }

    fn note(&mut self, line: impl Into<String>) {
        self.lines.push(format!("note  {}", line.into()));
    }

    fn hindrance(&mut self, line: impl Into<String>) {
        self.lines.push(format!("  NO  {}", line.into()));
        self.is_hindered = true;
    }
}

/// Looks at this machine and, if there is one, at the program that `command` names. Runs nothing.
pub(crate) fn diagnose(command: &[OsString]) -> Diagnosis {
    let mut diagnosis = Diagnosis::default();
    match library::installed() {
        Ok(path) => diagnosis.fine(format!("the recorder is at {}", shown(&path))),
        Err(error) => {
            diagnosis.hindrance(format!("the recorder cannot be put anywhere: {error:#}"));
        }
    }
    if fs::exists(SETTINGS).is_ok_and(|is_there| is_there) {
        diagnosis.fine("/proc is there");
    } else {
        diagnosis.hindrance("/proc is not mounted: the recorder reads settings and modules there");
    }
    match name(command).map(|name| (name, program::find(name))) {
        Err(_) => diagnosis.note("name a program to have it looked at: heapwire doctor -- CMD"),
        Ok((_, Ok(path))) => look(&path, &mut diagnosis),
        Ok((name, Err(error))) => {
            let error = format!("{:#}", not_executed(name, error).error);
            diagnosis.hindrance(escape(&error));
        }
    }
    diagnosis
}

fn look(path: &Path, diagnosis: &mut Diagnosis) {
    let Looked {
        obstacle,
        own,
        is_linked,
        has_lines,
        name,
        is_dynamic: _,
    } = program::look_at(path);
    let runs = name.as_deref().unwrap_or(OsStr::new("it"));
    let (path, runs) = (shown(path), shown(Path::new(runs)));
    if path.rsplit('/').next() == Some(&runs) {
        diagnosis.fine(format!("{path} can be executed"));
    } else {
        diagnosis.fine(format!("{path} can be executed; what runs is {runs}"));
    }
    match obstacle {
        Some(obstacle) => diagnosis.hindrance(format!("{runs} {obstacle}")),
        None if is_linked => diagnosis.fine(format!("{runs} has the recorder linked in")),
        None => diagnosis.fine(format!("{runs} loads the recorder")),
    }
    if let Some(function) = own {
        diagnosis.hindrance(format!(
            "{runs} defines {function} itself: its own calls do not pass through the recorder"
        ));
    }
    if has_lines {
        diagnosis.fine(format!(
            "{runs} has debug information: functions, files and lines"
        ));
    } else {
        diagnosis.note(format!(
            "{runs} has no debug information: lines need a build with -g, or --debug-dir for the report"
        ));
    }
}

fn shown(path: &Path) -> String {
    escape(&path.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::diagnose;

    #[test]
    fn a_dynamic_program_is_fine_and_a_missing_one_is_not() {
        let own = std::env::current_exe().unwrap().into_os_string();
        let diagnosis = diagnose(&[own]);
        assert!(!diagnosis.is_hindered, "{diagnosis:?}");
        assert!(
            diagnosis
                .lines
                .iter()
                .any(|line| line.contains("debug information: functions"))
        );
        let diagnosis = diagnose(&["/no/such/program".into()]);
        assert!(diagnosis.is_hindered);
        assert!(
            diagnosis.lines.last().unwrap().contains("No such file"),
            "{diagnosis:?}"
        );
    }

    #[test]
    fn without_a_program_the_machine_is_looked_at() {
        let diagnosis = diagnose(&[]);
        assert_eq!(diagnosis.lines.len(), 3, "{diagnosis:?}");
    }
}
