//! Standard output, and whether there is one. Where it is closed, the run-time library opens `/dev/null` in its place before `main`,
//! so that a result would be lost with no error.

use std::io::{self, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Relaxed: it is stored before there is a second thread.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    let found = rustix::io::fcntl_getfd(rustix::stdio::stdout());
    IS_CLOSED.store(found == Err(rustix::io::Errno::BADF), Relaxed);
}

#[expect(
    unsafe_code,
    reason = "only what runs before the run-time library sees it"
)]
// Sound: the section holds pointers to such functions, which the loader calls once; this one needs nothing of the run-time library.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK: extern "C" fn() = look;

/// Standard output as it was when the program began.
pub(crate) struct Stdout(StdoutLock<'static>);

impl Stdout {
    pub(crate) fn lock() -> Self {
        Self(io::stdout().lock())
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if IS_CLOSED.load(Relaxed) {
            return Err(rustix::io::Errno::BADF.into());
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
