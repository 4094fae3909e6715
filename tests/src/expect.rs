//! Reads out of a sample's comments what a report must show, and the same out of a report.
//!
//! The comments are described in `samples/src/lib.rs`.

use crate::run::{list, number};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// Name of the file without folders.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
}

/// What is found at a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// A block of so many bytes that was never released.
    Leak(u64),
    /// A block of so many bytes that a child inherited and never released.
    Inherited(u64),
    /// A wrong release of this kind.
    Error(String),
}

/// How often each finding is made at each line.
pub type Findings = BTreeMap<(Line, Finding), u64>;

/// What a sample says about itself.
#[derive(Clone, Debug, Default)]
pub struct Expectations {
    /// Exit status as a shell has it.
    pub status: i32,
    /// How the process images end, in order of their beginning.
    pub ends: Vec<String>,
    /// Totals of the first process image.
    pub totals: Vec<(String, u64)>,
    /// Flags for the compiler.
    pub flags: Vec<String>,
    /// Sources of shared libraries, relative to the sample.
    pub plugins: Vec<String>,
    /// What must be found, and nothing else.
    pub findings: Findings,
    /// What may be found, as often as it happens.
    pub perhaps: BTreeSet<(Line, Finding)>,
    /// Names of the sample's own files.
    pub files: Vec<String>,
}

impl Expectations {
    /// Reads the comments of the sample at `path` and of its plugins.
    ///
    /// # Panics
    ///
    /// Where a file cannot be read or a comment is not understood.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let mut expect = Self::default();
        expect.add(path);
        for plugin in expect.plugins.clone() {
            expect.add(&path.with_file_name(plugin));
        }
        if expect.ends.is_empty() {
            expect.ends.push("normal".to_owned());
        }
        expect
    }

    fn add(&mut self, path: &Path) {
        let text =
            fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file = file_name(&path.to_string_lossy());
        for (text, line) in text.lines().zip(1..) {
            let file = file.clone();
            if let Some((_, comment)) = text.split_once("//~ ") {
                let place = Line { file, line };
                match finding(comment) {
                    Some((finding, 0)) => {
                        self.perhaps.insert((place, finding));
                    }
                    Some((finding, count)) => {
                        *self.findings.entry((place, finding)).or_default() += count;
                    }
                    None => panic!("{}:{line}: {comment}", path.display()),
                }
            } else if let Some((_, comment)) = text.split_once("//@ ") {
                self.directive(comment)
                    .unwrap_or_else(|| panic!("{}:{line}: {comment}", path.display()));
            }
        }
        self.files.push(file);
    }

    fn directive(&mut self, comment: &str) -> Option<()> {
        let (name, rest) = comment.split_once(' ')?;
        let words = rest.split_whitespace().map(str::to_owned);
        match name {
            "status" => self.status = rest.trim().parse().ok()?,
            "ends" => self.ends.extend(words),
            "flags" => self.flags.extend(words),
            "plugin" => self.plugins.extend(words),
            "totals" => {
                for total in rest.split_whitespace() {
                    let (name, value) = total.split_once('=')?;
                    self.totals.push((name.to_owned(), value.parse().ok()?));
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// What the output of `blocks --live` and of `report` show at the lines of the sample's own files.
    #[must_use]
    pub fn found(&self, blocks: &Value, report: &Value) -> Findings {
        let mut found = Findings::new();
        for process in list(&blocks["processes"]) {
            for block in list(&process["blocks"]) {
                let size = number(&block["size"]);
                let finding = if block["inherited"] == true {
                    Finding::Inherited(size)
                } else {
                    Finding::Leak(size)
                };
                self.count(&mut found, &block["stack"], finding);
            }
        }
        for process in list(&report["processes"]) {
            for error in list(&process["errors"]) {
                let kind = error["kind"].as_str().unwrap_or_default().to_owned();
                self.count(&mut found, &error["stack"], Finding::Error(kind));
            }
        }
        found
    }

    fn count(&self, found: &mut Findings, stack: &Value, finding: Finding) {
        if let Some(place) = self.own_line(stack).map(|line| (line, finding))
            && !self.perhaps.contains(&place)
        {
            *found.entry(place).or_default() += 1;
        }
    }

    /// The innermost line of `stack` that lies in a file of the sample.
    #[must_use]
    pub fn own_line(&self, stack: &Value) -> Option<Line> {
        list(stack).iter().find_map(|frame| {
            let file = file_name(frame["file"].as_str()?);
            let line = frame["line"].as_u64()?;
            self.files.contains(&file).then_some(Line { file, line })
        })
    }
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// `leak 3 x 48`, `inherited 1 x 48`, `double-free`, `mismatched-free x 2`; and `perhaps inherited 90`, whose count is 0.
fn finding(comment: &str) -> Option<(Finding, u64)> {
    let words: Vec<&str> = comment.split_whitespace().collect();
    Some(match words[..] {
        ["leak", count, "x", size] => (Finding::Leak(size.parse().ok()?), count.parse().ok()?),
        ["inherited", count, "x", size] => {
            (Finding::Inherited(size.parse().ok()?), count.parse().ok()?)
        }
        ["perhaps", "inherited", size] => (Finding::Inherited(size.parse().ok()?), 0),
        [kind @ ("double-free" | "invalid-free" | "mismatched-free")] => {
            (Finding::Error(kind.to_owned()), 1)
        }
        [
            kind @ ("double-free" | "invalid-free" | "mismatched-free"),
            "x",
            count,
        ] => (Finding::Error(kind.to_owned()), count.parse().ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Finding, finding};

    #[test]
    fn comments_say_what_and_how_often() {
        assert_eq!(finding("leak 3 x 48"), Some((Finding::Leak(48), 3)));
        let double = Finding::Error("double-free".to_owned());
        assert_eq!(finding("double-free"), Some((double.clone(), 1)));
        assert_eq!(finding("double-free x 2"), Some((double, 2)));
        assert_eq!(finding("leak 48"), None);
        assert_eq!(finding("double-fre"), None);
    }
}
