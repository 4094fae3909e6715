//! Adds to a trace how the process ended, as its parent saw it (SPEC.md 4.5).

use super::child::monotonic_ns;
use super::declared::declares;
use heapwire_format::{FRAME_MAGIC, FrameKind, Header, OBSERVER, Op, Record, trailer};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Appends the wait status of `pid` to the trace, if it is one and declares that process.
pub(crate) fn append(trace: &Path, pid: u32, wait_status: i32) -> io::Result<()> {
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(trace)?;
    let mut start = [0; FRAME_MAGIC.len()];
    if !file.metadata()?.is_file() {
        return Ok(());
    }
    file.read_exact_at(&mut start, 0)?;
    if start == FRAME_MAGIC && declares(&file, u64::from(pid)) {
        // One write: other processes may append to the file at the same time.
        (&file).write_all(&frame(pid, wait_status))?;
    }
    Ok(())
}

fn frame(pid: u32, wait_status: i32) -> Vec<u8> {
    let record = Record {
        op: Op::OBSERVED_END,
        flags: 0,
        time: 0,
        number: 1,
        ptr: u64::from(pid),
        size: u64::from(wait_status.cast_unsigned()),
        pc: 0,
        base: 0,
    };
    let header = Header {
        payload_length: 40,
        first: 1,
        clock: monotonic_ns(),
        ..Header::new(FrameKind::RECORDS, OBSERVER, 0)
    };
    const { assert!(Record::SIZE == 40) };
    [&header.encode()[..], &record.encode(), &trailer(0)].concat()
}

#[cfg(test)]
mod tests {
    use super::{append, frame};
    use heapwire_format::{FrameKind, Header, Op, Record, trailer};
    use std::fs;

    #[test]
    fn only_a_trace_of_that_process_grows() {
        let path = std::env::temp_dir().join(format!("heapwire-observed-{}", std::process::id()));
        let process = Record {
            op: Op::PROCESS,
            flags: 0,
            time: 0,
            number: 1,
            ptr: 42,
            size: 0,
            pc: 0,
            base: 0,
        };
        let mut header = Header::new(FrameKind::RECORDS, 1, 0);
        header.payload_length = 40;
        let trace = [&header.encode()[..], &process.encode(), &trailer(0)].concat();

        fs::write(&path, &trace).unwrap();
        append(&path, 43, 9).unwrap();
        assert_eq!(fs::read(&path).unwrap(), trace);
        append(&path, 42, 9).unwrap();
        let grown = fs::read(&path).unwrap();
        assert_eq!(grown.len(), trace.len() + frame(42, 9).len());
        let end = Record::decode(grown[trace.len() + Header::SIZE..].first_chunk().unwrap());
        assert_eq!((end.op, end.ptr, end.size), (Op::OBSERVED_END, 42, 9));

        fs::write(&path, b"some text of the user").unwrap();
        append(&path, 42, 9).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"some text of the user");
        fs::remove_file(&path).unwrap();
    }
}
