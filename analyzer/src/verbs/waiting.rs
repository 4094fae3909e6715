//! A line on standard error, where that is a terminal, while somebody waits for a result: how much is read, how fast, and
//! how long it will take.

use crate::signals::Held;
use heapwire::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// What takes less than this is not worth a line.
const PATIENCE: Duration = Duration::from_millis(400);
/// Time between two looks at how far it is.
const TICK: Duration = Duration::from_millis(100);
/// A terminal that takes nothing for so long gets the result without the line being taken away.
const STUCK: Duration = Duration::from_secs(2);

const KNOWN: &str =
    "{wide_bar} {percent:>3} %  {bytes} of {total_bytes}  {bytes_per_sec}  {eta} left";
const UNKNOWN: &str = "{bytes} read  {bytes_per_sec}  {elapsed}";

/// The line, until the first byte of the result is written.
pub(crate) struct Waiting(Mutex<Option<Shown>>);

struct Shown {
    /// Dropped to say that the result is there.
    stop: Sender<()>,
    /// Closed when the line is gone.
    gone: Receiver<()>,
}

impl Waiting {
    /// Begins to wait.
    pub(crate) fn begin() -> Self {
        let shown = io::stderr().is_terminal().then(|| {
            let (stop, stopped) = mpsc::channel::<()>();
            let (going, gone) = mpsc::channel::<()>();
            let signals = Held::watched();
            thread::spawn(move || {
                let _going = going;
                // Rate and time count from here on.
                let bar = bar(ProgressDrawTarget::hidden());
                if stopped.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                signals.hold();
                show(&bar, heapwire::progress());
                bar.set_draw_target(ProgressDrawTarget::stderr());
                while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout)
                    && !signals.came()
                {
                    show(&bar, heapwire::progress());
                }
                bar.finish_and_clear();
                signals.release();
            });
            Shown { stop, gone }
        });
        Self(Mutex::new(shown))
    }

    /// Takes the line away.
    pub(crate) fn end(&self) {
        let shown = self.0.lock().ok().and_then(|mut shown| shown.take());
        if let Some(Shown { stop, gone }) = shown {
            drop(stop);
            let _ = gone.recv_timeout(STUCK); // what it shows is no part of the result
        }
    }

    /// `out`, to which nothing is written while there is a line.
    pub(crate) fn until<W: Write>(&self, out: W) -> Until<'_, W> {
        Until { waiting: self, out }
    }
}

/// See [`Waiting::until`].
pub(crate) struct Until<'w, W> {
    waiting: &'w Waiting,
    out: W,
}

impl<W: Write> Write for Until<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.end();
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn bar(target: ProgressDrawTarget) -> ProgressBar {
    ProgressBar::with_draw_target(None, target)
}

fn show(bar: &ProgressBar, progress: Progress) {
    let is_known = progress.expected > 0;
    if is_known && bar.length() != Some(progress.expected) {
        bar.set_length(progress.expected);
    }
    let template = if is_known { KNOWN } else { UNKNOWN };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_position(if is_known {
        progress.read.min(progress.expected)
    } else {
        progress.read
    });
}

#[cfg(test)]
mod tests {
    use super::{bar, show};
    use heapwire::Progress;
    use indicatif::{ProgressDrawTarget, TermLike};
    use std::io;
    use std::sync::{Arc, Mutex};

    /// A terminal that keeps what is written.
    #[derive(Clone, Debug, Default)]
    struct Paper(Arc<Mutex<String>>);

    impl TermLike for Paper {
        fn width(&self) -> u16 {
            100
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write_str(line)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn shown(read: u64, expected: u64) -> String {
        let paper = Paper::default();
        let bar = bar(ProgressDrawTarget::term_like(Box::new(paper.clone())));
        show(&bar, Progress { read, expected });
        bar.force_draw();
        paper.0.lock().unwrap().clone()
    }

    #[test]
    fn a_file_has_an_end_and_a_stream_has_none() {
        let file = shown(512 << 20, 2 << 30);
        assert!(file.contains(" 25 %  512.00 MiB of 2.00 GiB"), "{file}");
        assert!(file.contains("/s") && file.contains("left"), "{file}");
        let stream = shown(3 << 20, 0);
        assert!(stream.contains("3.00 MiB read"), "{stream}");
        assert!(stream.contains("/s") && !stream.contains('%'), "{stream}");
    }

    #[test]
    fn what_is_read_again_is_no_more_than_all() {
        let line = shown(5 << 20, 4 << 20);
        assert!(line.contains("100 %  4.00 MiB of 4.00 MiB"), "{line}");
    }
}
