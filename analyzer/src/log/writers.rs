//! Logs of several processes in one file, where whatever collected them put the writer before each line: `[4711] @ …`.

use memchr::memmem;

/// One of those who wrote to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writer<'l> {
    stamp: &'l [u8],
    /// Lines without a stamp are of the first.
    is_first: bool,
}

impl<'l> Writer<'l> {
    /// The writers of a log, if there are several that began sessions; else none.
    pub(super) fn several(log: &'l [u8]) -> Vec<Self> {
        let mut writers: Vec<Self> = Vec::new();
        if log.starts_with(b"= Start") || memmem::find(log, b"\n= Start").is_some() {
            // The recorder puts the pids of children before their lines, not that of their parent.
            writers.push(Self {
                stamp: b"",
                is_first: true,
            });
        }
        for mark in memmem::find_iter(log, b"] = Start") {
            let begin = memchr::memrchr(b'\n', &log[..mark]).map_or(0, |end| end + 1);
            if let Some(stamp) = stamp(&log[begin..])
                && !writers.iter().any(|writer| writer.stamp == stamp)
                && writers.len() < MOST
            {
                writers.push(Self {
                    stamp,
                    is_first: writers.is_empty(),
                });
            }
        }
        if writers.len() < 2 {
            writers.clear();
        }
        writers
    }

    pub(super) fn wrote(&self, line: &[u8]) -> bool {
        stamp(line).map_or(self.is_first, |stamp| stamp == self.stamp)
    }
}

/// Writers that are told apart: each costs a pass over the log.
const MOST: usize = 64;

/// `[4711]` at the begin of a line.
fn stamp(line: &[u8]) -> Option<&[u8]> {
    let digits = line.strip_prefix(b"[")?;
    let length = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    (length > 0 && digits.get(length) == Some(&b']')).then(|| &line[..length + 2])
}

#[cfg(test)]
mod tests {
    use super::Writer;

    #[test]
    fn lines_are_of_those_who_stand_before_them() {
        let writers = Writer::several(b"[7] = Start\n[8] = Start\n[7] = Start\n");
        let [one, other] = writers[..] else {
            panic!("{writers:?}");
        };
        assert!(one.wrote(b"[7] + 0x10 0x1") && !other.wrote(b"[7] + 0x10 0x1"));
        assert!(!one.wrote(b"[8] - 0x10") && other.wrote(b"[8] - 0x10"));
        assert!(one.wrote(b"= End") && !other.wrote(b"= End"));
        assert!(Writer::several(b"[7] = Start\n[8] + 0x10 0x1\n[0x7] = Start\n").is_empty());
        let writers = Writer::several(b"= Start\n[8] = Start\n+ 0x10 0x1\n");
        let [parent, child] = writers[..] else {
            panic!("{writers:?}");
        };
        assert!(parent.wrote(b"+ 0x10 0x1") && !child.wrote(b"+ 0x10 0x1"));
        assert!(!parent.wrote(b"[8] - 0x10") && child.wrote(b"[8] - 0x10"));
        assert!(Writer::several(b"= Start\n= Start\n").is_empty());
    }
}
