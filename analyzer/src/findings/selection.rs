//! Which blocks are asked for, and up to which moment the trace is followed.

use crate::report::{Address, Block, Frame, Stack};

/// The moment that a trace is followed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Nanoseconds since the first recorded process began.
    Time(u64),
    /// Each process's moment of most live bytes.
    Peak,
}

/// What a block must be like to be shown. All that is asked for must hold; of a list, one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Handed out so many nanoseconds after the first recorded process began, or later.
    pub from: Option<u64>,
    /// Handed out before.
    pub to: Option<u64>,
    /// Handed to one of these threads.
    pub threads: Vec<u64>,
    /// Handed out to code in a module whose path has one of these in it.
    pub modules: Vec<String>,
    /// A function of its stack has one of these in its name.
    pub functions: Vec<String>,
    /// Its site has this in the name of its function, its file and line, or its address.
    pub site: Option<String>,
    /// Lowest and highest size.
    pub sizes: Option<(u64, u64)>,
    /// So many nanoseconds old when its process, or what is looked at of it, ends.
    pub min_age: Option<u64>,
    /// Of a process that had not ended at the time up to which the trace is followed.
    pub of_running: bool,
}

impl Selection {
    /// Whether blocks of a site can be asked for.
    pub(crate) fn takes_site(&self, stack: Stack) -> bool {
        let selection = Self {
            modules: self.modules.clone(),
            functions: self.functions.clone(),
            ..Self::default()
        };
        let block = Block {
            address: Address(0),
            size: 0,
            thread: None,
            time_ns: None,
            time_is_lower_bound: false,
            latest_ns: None,
            log_line: None,
            inherited: false,
            stack,
        };
        selection.takes(&block, 0)
    }

    /// Whether it depends on times which blocks are taken.
    pub(crate) fn asks_for_times(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.min_age.is_some()
    }

    /// Whether a block that is taken may not fit, as only a lower bound of its time is known.
    pub(crate) fn is_unsure_of(&self, block: &Block) -> bool {
        let is_early = |from| block.time_ns.is_some_and(|time| time < from);
        let may_be_after = |to| block.latest_ns.is_none_or(|latest| latest >= to);
        let may_not_fit = self.from.is_some_and(is_early)
            || self.to.is_some_and(may_be_after)
            || self.min_age.is_some();
        block.time_is_lower_bound && may_not_fit
    }

    /// Whether `block` is asked for; `end` is the last moment that was looked at.
    #[must_use]
    pub fn takes(&self, block: &Block, end: u64) -> bool {
        let time = block.time_ns;
        let is_any = |asked: &[String], has: &dyn Fn(&str) -> bool| {
            asked.is_empty() || asked.iter().any(|part| has(part))
        };
        // A block that may be of later is not left out for that.
        let may_be_of = |from| block.latest_ns.is_none_or(|latest| latest >= from);
        let is_from = |from| {
            time.is_some_and(|time| time >= from || block.time_is_lower_bound && may_be_of(from))
        };
        self.from.is_none_or(is_from)
            && self.to.is_none_or(|to| time.is_some_and(|time| time < to))
            && self
                .min_age
                .is_none_or(|age| time.is_some_and(|time| end.saturating_sub(time) >= age))
            && (self.threads.is_empty()
                || block
                    .thread
                    .is_some_and(|thread| self.threads.contains(&thread)))
            && self
                .sizes
                .is_none_or(|(least, most)| (least..=most).contains(&block.size))
            && is_any(&self.modules, &|part| {
                let module = block
                    .stack
                    .first()
                    .and_then(|frame| frame.module.as_deref());
                module.is_some_and(|path| path.contains(part))
            })
            && is_any(&self.functions, &|part| {
                let names = block
                    .stack
                    .iter()
                    .filter_map(|frame| frame.function.as_deref());
                names.into_iter().any(|name| name.contains(part))
            })
            && self
                .site
                .as_deref()
                .is_none_or(|part| at_call(&block.stack).any(|frame| is_named(frame, part)))
    }
}

/// The frames of the innermost call: those merged into one function, and that one.
fn at_call(stack: &[Frame]) -> impl Iterator<Item = &Frame> {
    let outermost = stack.iter().position(|frame| !frame.inlined);
    let length = outermost.map_or(stack.len(), |last| last + 1);
    stack[..length].iter()
}

fn is_named(frame: &Frame, part: &str) -> bool {
    let line = frame.line.map_or(0, |line| line);
    let place = frame.file.as_ref().map(|file| format!("{file}:{line}"));
    frame.address == part
        || frame.function.as_ref().is_some_and(|it| it.contains(part))
        || place.is_some_and(|it| it.ends_with(part) || it.contains(&format!("{part}:")))
}

#[cfg(test)]
mod tests {
    use super::Selection;
    use crate::report::{Address, Block, Frame};

    fn block() -> Block {
        let frame = |function: &str, line, inlined| Frame {
            address: "0x401136".into(),
            module: Some("/opt/app".into()),
            build_id: None,
            offset: None,
            function: Some(function.into()),
            file: Some("/src/list.c".into()),
            line: Some(line),
            column: None,
            inlined,
        };
        Block {
            address: Address(0x1000),
            size: 64,
            thread: Some(7),
            time_ns: Some(1000),
            time_is_lower_bound: false,
            latest_ns: None,
            log_line: None,
            inherited: false,
            stack: [
                frame("push", 12, true),
                frame("insert", 40, false),
                frame("main", 9, false),
            ]
            .into(),
        }
    }

    #[test]
    fn all_that_is_asked_for_must_hold() {
        let takes = |selection: Selection| selection.takes(&block(), 5000);
        let any = Selection::default;
        assert!(takes(any()));
        assert!(takes(Selection {
            from: Some(1000),
            to: Some(1001),
            ..any()
        }));
        assert!(!takes(Selection {
            from: Some(1001),
            ..any()
        }));
        assert!(!takes(Selection {
            to: Some(1000),
            ..any()
        }));
        assert!(takes(Selection {
            min_age: Some(4000),
            ..any()
        }));
        assert!(!takes(Selection {
            min_age: Some(4001),
            ..any()
        }));
        assert!(takes(Selection {
            threads: vec![8, 7],
            ..any()
        }));
        assert!(!takes(Selection {
            threads: vec![8],
            ..any()
        }));
        assert!(takes(Selection {
            sizes: Some((64, 64)),
            ..any()
        }));
        assert!(!takes(Selection {
            sizes: Some((65, 99)),
            ..any()
        }));
        assert!(takes(Selection {
            modules: vec!["app".into()],
            ..any()
        }));
        assert!(!takes(Selection {
            modules: vec!["libc".into()],
            ..any()
        }));
        assert!(takes(Selection {
            functions: vec!["x".into(), "main".into()],
            ..any()
        }));
        assert!(!takes(Selection {
            functions: vec!["x".into()],
            ..any()
        }));
    }

    #[test]
    fn a_block_of_a_pause_is_taken_wherever_that_lies() {
        let within = |time, latest_ns| Block {
            time_ns: Some(time),
            time_is_lower_bound: true,
            latest_ns,
            ..block()
        };
        let asked = Selection {
            from: Some(1000),
            to: Some(2000),
            ..Selection::default()
        };
        for (block, is_taken, is_unsure) in [
            (within(500, None), true, true),
            (within(500, Some(1000)), true, true),
            (within(500, Some(999)), false, false),
            (within(1000, Some(1999)), true, false),
            (within(1000, Some(2000)), true, true),
            (within(2000, None), false, false),
        ] {
            assert_eq!(asked.takes(&block, 5000), is_taken, "{block:?}");
            let is_unsure_of = is_taken && asked.is_unsure_of(&block);
            assert_eq!(is_unsure_of, is_unsure, "{block:?}");
        }
    }

    #[test]
    fn a_site_is_a_function_a_line_or_an_address_of_the_innermost_call() {
        for (site, is_taken) in [
            ("push", true),
            ("insert", true),
            ("main", false),
            ("list.c:12", true),
            ("list.c:9", false),
            ("list.c", true),
            ("0x401136", true),
            ("c:1", false),
        ] {
            let asked = Selection {
                site: Some(site.into()),
                ..Selection::default()
            };
            assert_eq!(asked.takes(&block(), 0), is_taken, "{site}");
        }
    }
}
