//! Moments that the program or its user marked.

use crate::event::Event;

/// Marks that are kept; what begins later counts to the last.
const MOST: usize = 1 << 16;
/// Bytes of a label that are kept.
const LABEL: usize = 200;

/// One mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Number of its record.
    pub(crate) number: u64,
    /// Nanoseconds of the traced machine's clock.
    pub(crate) clock: u64,
    /// As the program gave it.
    pub(crate) id: u64,
    pub(crate) label: String,
}

/// The marks of a process image, in order.
#[derive(Debug, Default)]
pub(super) struct Marks(Vec<Mark>);

impl Marks {
    pub(super) fn add(&mut self, event: &Event) {
        if self.0.len() < MOST {
            self.0.push(Mark {
                number: event.number,
                clock: event.clock,
                id: event.record.ptr,
                label: String::new(),
            });
        }
    }

    /// Gives the mark of number `number`, which came last, its label.
    pub(super) fn label(&mut self, number: u64, text: &[u8]) {
        if let Some(mark) = self.0.last_mut()
            && mark.number == number
        {
            let text = &text[..text.len().min(LABEL)];
            mark.label = String::from_utf8_lossy(text).into_owned();
        }
    }

    pub(super) fn finish(self) -> Vec<Mark> {
        self.0
    }
}
