//! Calls a function that can take forever, and does not wait that long.
//!
//! The C++ demangler backtracks: a name of a hundred bytes can keep it busy for years, and nothing can stop it. So
//! it works on a thread of its own, which is left behind once a single name has taken it too much time. That is
//! measured as the time it was running, so that a busy machine does not change a report.

use crate::symbols::STACK;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Running time that one name may take; honest ones need microseconds.
const MOST: Duration = Duration::from_millis(100);

/// How often a thread that is late is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Threads that may be left behind, in all; after that, no name is tried.
const MOST_LEFT_BEHIND: usize = 3;

/// Threads left behind so far. They run until the process ends.
static LEFT_BEHIND: AtomicUsize = AtomicUsize::new(0);

/// `work` done on each of `items`; `None` where it gave none or took too long.
pub(super) fn map(items: Vec<String>, work: fn(&str) -> Option<String>) -> Vec<Option<String>> {
    let items = Arc::new(items);
    let mut done = Vec::new();
    while done.len() < items.len() && LEFT_BEHIND.load(Relaxed) < MOST_LEFT_BEHIND {
        let Some(worker) = Worker::start(Arc::clone(&items), done.len(), work) else {
            break;
        };
        while done.len() < items.len() {
            let Some(result) = worker.next() else {
                LEFT_BEHIND.fetch_add(1, Relaxed); // a count: it orders nothing
                done.push(None);
                break;
            };
            done.push(result);
        }
    }
    done.resize(items.len(), None);
    done
}

/// A thread that works on items, one after the other.
struct Worker {
    results: Receiver<Option<String>>,
    clock: Arc<OnceLock<Clock>>,
}

impl Worker {
    /// Starts on the items from `first`; `None` where the system gives no thread.
    fn start(
        items: Arc<Vec<String>>,
        first: usize,
        work: fn(&str) -> Option<String>,
    ) -> Option<Self> {
        let (sender, results): (Sender<Option<String>>, _) = channel();
        let clock = Arc::new(OnceLock::new());
        let its_clock = Arc::clone(&clock);
        thread::Builder::new()
            .name("demangle".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                its_clock.get_or_init(Clock::of_this_thread);
                for item in &items[first..] {
                    if sender.send(work(item)).is_err() {
                        return; // left behind
                    }
                }
            })
            .ok()?;
        Some(Self { results, clock })
    }

    /// The next result; `None` once the thread has run for too long without one.
    fn next(&self) -> Option<Option<String>> {
        let mut begin = None;
        loop {
            match self.results.recv_timeout(LOOK) {
                Ok(result) => return Some(result),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = self.clock.get().map(Clock::read);
            match (begin, now) {
                (Some(begin), Some(now)) if now.saturating_sub(begin) > MOST => return None,
                (None, now) => begin = now,
                _ => {}
            }
        }
    }
}

/// How long a thread has been running.
enum Clock {
    /// Linux counts it in this file.
    Running(String),
    /// Nobody does; then the time that passed has to do.
    Passed(Instant),
}

impl Clock {
    fn of_this_thread() -> Self {
        let path = fs::read_link("/proc/thread-self").ok();
        let path = path.map(|path| format!("/proc/{}/schedstat", path.display()));
        path.filter(|path| running(path).is_some())
            .map_or_else(|| Self::Passed(Instant::now()), Self::Running)
    }

    fn read(&self) -> Duration {
        match self {
            Self::Running(path) => running(path).unwrap_or(Duration::MAX),
            Self::Passed(start) => start.elapsed(),
        }
    }
}

/// The first number in a `schedstat` file: nanoseconds on a processor.
fn running(path: &str) -> Option<Duration> {
    let text = fs::read_to_string(path).ok()?;
    let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::map;
    use std::time::{Duration, Instant};

    #[test]
    fn one_that_takes_forever_is_left_behind() {
        let work = |item: &str| match item {
            "forever" => loop {
                std::hint::spin_loop();
            },
            "none" => None,
            item => Some(item.to_uppercase()),
        };
        let start = Instant::now();
        let items = ["a", "forever", "b", "none", "c"]
            .map(str::to_owned)
            .to_vec();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            map(items, work),
            [text("A"), None, text("B"), None, text("C")]
        );
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
