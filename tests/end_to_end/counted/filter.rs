//! Which blocks are asked for.

use heapwire_tests::run::{list, number};
use serde_json::Value;

/// What a block must be like.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) from: Option<u64>,
    pub(super) to: Option<u64>,
    pub(super) thread: Option<u64>,
    pub(super) module: Option<String>,
    pub(super) function: Option<String>,
    pub(super) sizes: Option<(u64, u64)>,
}

impl Filter {
    /// As options of a verb.
    pub(super) fn options(&self) -> String {
        let mut options = Vec::new();
        options.extend(self.from.map(|from| format!("--from {from}ns")));
        options.extend(self.to.map(|to| format!("--to {to}ns")));
        options.extend(self.thread.map(|thread| format!("--thread {thread}")));
        options.extend(
            self.module
                .as_ref()
                .map(|module| format!("--module {module}")),
        );
        options.extend(
            self.function
                .as_ref()
                .map(|function| format!("--function {function}")),
        );
        options.extend(self.sizes.map(|(least, most)| match most {
            u64::MAX => format!("--size {least}.."),
            _ => format!("--size {least}..{most}"),
        }));
        options.join(" ")
    }

    /// Whether a block is like that. One that may be of later is not left out for that.
    pub(super) fn takes(&self, block: &Value) -> bool {
        let (time, size) = (number(&block["time_ns"]), number(&block["size"]));
        let stack = list(&block["stack"]);
        let latest = block["latest_ns"].as_u64().unwrap_or(u64::MAX);
        let may_be_of = |from| block["time_is_lower_bound"] == true && latest >= from;
        let has =
            |value: &Value, part: &str| value.as_str().is_some_and(|text| text.contains(part));
        self.from.is_none_or(|from| time >= from || may_be_of(from))
            && self.to.is_none_or(|to| time < to)
            && self.thread.is_none_or(|thread| block["thread"] == thread)
            && self
                .sizes
                .is_none_or(|(least, most)| (least..=most).contains(&size))
            && self
                .module
                .as_ref()
                .is_none_or(|part| has(&stack[0]["module"], part))
            && self
                .function
                .as_ref()
                .is_none_or(|part| stack.iter().any(|frame| has(&frame["function"], part)))
    }
}
