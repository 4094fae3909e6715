//! How many processes a report is of: an `exec` makes one run another program, which is a row of its own.

use crate::report::Process;
use crate::report::format::{count, counted};
use std::collections::BTreeMap;
use std::fmt;

/// Processes, and the programs that they ran one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Population {
    pub(super) processes: u64,
    programs: u64,
}

impl Population {
    /// Of process images, each told by its pid and how it ended.
    ///
    /// What an `exec` replaced goes on as another image of its pid. Other images of one pid are processes of several runs.
    pub(super) fn of<'e>(images: impl Iterator<Item = (Option<u64>, &'e str)>) -> Self {
        let (mut programs, mut nameless) = (0, 0);
        let mut by_pid: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (pid, end) in images {
            programs += 1;
            let Some(pid) = pid else {
                nameless += 1;
                continue;
            };
            let (all, replaced) = by_pid.entry(pid).or_default();
            *all += 1;
            *replaced += u64::from(end == "exec");
        }
        // The program that came after the last `exec` need not have been recorded.
        let named = by_pid
            .values()
            .map(|(all, replaced)| (all - replaced).max(1));
        Self {
            processes: nameless + named.sum::<u64>(),
            programs,
        }
    }

    pub(super) fn of_processes<'p>(images: impl IntoIterator<Item = &'p Process>) -> Self {
        Self::of(images.into_iter().map(|of| (of.pid, of.end)))
    }

    /// The number of processes where their noun stands already, such as `2 with 3 programs`.
    pub(super) fn figure(self) -> String {
        format!("{}{}", count(self.processes), self.with_programs())
    }

    /// How many programs they ran, if that is another number.
    pub(super) fn programs(self) -> Option<String> {
        (self.programs != self.processes).then(|| counted(self.programs, "program"))
    }

    fn with_programs(self) -> String {
        let programs = self.programs();
        programs.map_or_else(String::new, |programs| format!(" with {programs}"))
    }

    /// What a row is that stands for one image.
    pub(super) fn noun(self) -> &'static str {
        match self.programs() {
            None => "process",
            Some(_) => "program",
        }
    }
}

impl fmt::Display for Population {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processes = counted(self.processes, "process");
        write!(f, "{processes}{}", self.with_programs())
    }
}

#[cfg(test)]
mod tests {
    use super::Population;

    fn population(images: &[(u64, &'static str)]) -> String {
        let pid = |pid: u64| Some(pid).filter(|pid| *pid > 0);
        let images = images.iter().map(|(it, end)| (pid(*it), *end));
        Population::of(images).to_string()
    }

    #[test]
    fn an_exec_makes_a_process_run_another_program() {
        for (images, expected) in [
            (&[][..], "0 processes"),
            (&[(7, "normal")], "1 process"),
            (&[(7, "normal"), (8, "signal")], "2 processes"),
            (&[(7, "exec"), (7, "normal")], "1 process with 2 programs"),
            // In whatever order the inputs are named.
            (
                &[
                    (7, "cut"),
                    (8, "exec"),
                    (7, "exec"),
                    (8, "normal"),
                    (7, "exec"),
                ],
                "2 processes with 5 programs",
            ),
            // Of what came after the last exec nothing was recorded.
            (&[(7, "exec"), (7, "exec")], "1 process with 2 programs"),
            (&[(7, "exec"), (8, "normal")], "2 processes"),
            // A pid that was given again, or in two recordings.
            (&[(1, "normal"), (1, "cut")], "2 processes"),
            // Sessions of a log.
            (&[(0, "normal"), (0, "unknown")], "2 processes"),
        ] {
            assert_eq!(population(images), expected, "{images:?}");
        }
    }
}
