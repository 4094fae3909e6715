//! Which processes a trace declares, found without reading all of it.
//!
//! Goes from header to header; only frames that begin with a declaration, and the memory of lanes, are read whole.

use heapwire_format::{
    FRAME_MAGIC, FrameKind, Header, LANES_PAGE, LaneHeader, LanesTable, Op, Record, Unpacker,
    entries,
};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Most bytes of a payload that are looked at. A declaration, text and all, is far smaller, and so are lanes.
const MOST_PAYLOAD: usize = 2 << 20;
/// Bytes to search at once where a frame is damaged.
const SEARCH: usize = 64 << 10;
/// Frames to look at for the first declaration.
const FIRST_FRAMES: usize = 64;

/// A process, as its trace declares it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Declared {
    pub(crate) pid: u64,
    pub(crate) parent: Option<u64>,
    /// The tag of its stream, and that of the one that it was forked from. A daemon's parent is gone, and is another one then.
    pub(crate) stream: u32,
    pub(crate) forked_from: Option<u32>,
}

/// The first process that the trace declares.
///
/// Lanes come first and name the pid; the declaration itself may have gone into a frame by then.
pub(crate) fn first(path: &Path) -> Option<Declared> {
    let file = File::open(path).ok()?;
    let mut found: Option<Declared> = None;
    for (at, header) in Frames::of(&file).take(FIRST_FRAMES) {
        let Some(declared) = declared_in(&file, at, &header) else {
            continue;
        };
        if found.is_none_or(|first| first.pid == declared.pid) {
            found = Some(declared);
        }
        if declared.parent.is_some() {
            break;
        }
    }
    found
}

/// Whether the trace declares process `pid`.
pub(crate) fn declares(file: &File, pid: u64) -> bool {
    Frames::of(file)
        .filter_map(|(at, header)| declared_in(file, at, &header))
        .any(|declared| declared.pid == pid)
}

/// Headers of a file with their places.
struct Frames<'f> {
    file: &'f File,
    at: u64,
}

impl<'f> Frames<'f> {
    fn of(file: &'f File) -> Self {
        Self { file, at: 0 }
    }

    /// The next place from here on that begins like a frame.
    fn search(&self, from: u64) -> Option<u64> {
        let mut from = from;
        loop {
            let bytes = read(self.file, from, SEARCH)?;
            let mut places = bytes.windows(FRAME_MAGIC.len());
            if let Some(found) = places.position(|place| place == FRAME_MAGIC) {
                return from.checked_add(found as u64);
            }
            let step = bytes.len().checked_sub(FRAME_MAGIC.len() - 1)?;
            from = from.checked_add(step.max(1) as u64)?;
        }
    }
}

impl Iterator for Frames<'_> {
    type Item = (u64, Header);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let bytes = read(self.file, self.at, Header::SIZE)?;
            if let Ok(header) = Header::decode(&bytes) {
                let at = self.at;
                self.at = at.checked_add(header.frame_length())?;
                return Some((at, header));
            }
            self.at = self.search(self.at.checked_add(1)?)?;
        }
    }
}

fn declared_in(file: &File, at: u64, header: &Header) -> Option<Declared> {
    let payload = at.checked_add(u64::from(header.header_length))?;
    let length = usize::try_from(header.payload_length)
        .ok()?
        .min(MOST_PAYLOAD);
    match header.kind {
        FrameKind::RECORDS => {
            let record = Record::decode(read(file, payload, Record::SIZE)?.first_chunk()?);
            if record.op != Op::PROCESS {
                return None;
            }
            declaration(header.stream, &records(&read(file, payload, length)?))
        }
        FrameKind::PACKED => {
            let bytes = read(file, payload, length)?;
            let mut records = Unpacker::new(header.first, &bytes).peekable();
            if records.peek()?.op != Op::PROCESS {
                return None;
            }
            let most = MOST_PAYLOAD / Record::SIZE; // a byte can be a record
            declaration(header.stream, &records.take(most).collect::<Vec<_>>())
        }
        FrameKind::LANES => {
            let padding = payload.next_multiple_of(LANES_PAGE as u64) - payload;
            let bytes = read(file, payload, length)?;
            let table = bytes.get(usize::try_from(padding).ok()?..)?;
            declared_in_lanes(header.stream, table)
        }
        _ => None,
    }
}

/// Lanes name the pid; the parent may be in a slot, or in frames by now.
fn declared_in_lanes(stream: u32, bytes: &[u8]) -> Option<Declared> {
    let table = LanesTable::decode(bytes)?;
    let mut slots = Vec::new();
    for lane in 0..table.lanes {
        let at = u64::from(table.headers_at) + u64::from(lane) * u64::from(table.header_size);
        let Some(header) = usize::try_from(at)
            .ok()
            .and_then(|at| LaneHeader::decode(bytes.get(at..)?))
        else {
            break;
        };
        let slots_at = usize::try_from(header.slots_at).ok()?;
        let length = (header.slots as usize).saturating_mul(Record::SIZE);
        let end = slots_at.saturating_add(length).min(bytes.len());
        slots.extend(records(bytes.get(slots_at..end).unwrap_or_default()));
        if slots.len() > MOST_PAYLOAD / Record::SIZE {
            break; // lanes that overlap are damage
        }
    }
    Some(declaration(stream, &slots).unwrap_or(Declared {
        pid: u64::from(table.pid),
        stream,
        ..Declared::default()
    }))
}

fn records(bytes: &[u8]) -> Vec<Record> {
    bytes.as_chunks().0.iter().map(Record::decode).collect()
}

/// The process that `records` declare, with what its text says of the parent.
fn declaration(stream: u32, records: &[Record]) -> Option<Declared> {
    let process = records.iter().find(|record| record.op == Op::PROCESS)?;
    let text: Vec<u8> = (1..)
        .map_while(|step| {
            let number = process.number.wrapping_add(step);
            records
                .iter()
                .find(|record| record.op == Op::TEXT && record.number == number)
        })
        .flat_map(|record| {
            let (bytes, used) = record.text();
            bytes.into_iter().take(used)
        })
        .take(usize::try_from(process.base).unwrap_or(usize::MAX))
        .collect();
    let value = |wanted: &[u8]| {
        let (_, value) = entries(&text).find(|(key, _)| *key == wanted)?;
        std::str::from_utf8(value).ok()
    };
    Some(Declared {
        pid: process.ptr,
        parent: value(b"ppid").and_then(|pid| pid.parse().ok()),
        stream,
        forked_from: value(b"parent").and_then(|tag| u32::from_str_radix(tag, 16).ok()),
    })
}

/// Up to `length` bytes from `at`; `None` where there are none or they cannot be read.
fn read(file: &File, at: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut bytes[filled..], at.checked_add(filled as u64)?) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    bytes.truncate(filled);
    (filled > 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Declared, declares, first};
    use heapwire_format::{
        FrameKind, Header, LANES_PAGE, LaneHeader, LanesTable, Op, Record, text_records, trailer,
    };
    use std::fs::{self, File};
    use std::path::PathBuf;

    struct Trace(PathBuf);

    impl Trace {
        fn of(name: &str, bytes: &[u8]) -> Self {
            let path = std::env::temp_dir().join(format!("heapwire-{name}-{}", std::process::id()));
            fs::write(&path, bytes).unwrap();
            Self(path)
        }
    }

    impl Drop for Trace {
        fn drop(&mut self) {
            fs::remove_file(&self.0).unwrap();
        }
    }

    fn frame(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
        let mut header = Header::new(kind, 1, 0);
        header.payload_length = u32::try_from(payload.len()).unwrap();
        [&header.encode()[..], payload, &trailer(0)].concat()
    }

    fn declaration(pid: u64, text: &[u8]) -> Vec<u8> {
        let process = Record {
            op: Op::PROCESS,
            flags: 0,
            time: 0,
            number: 1,
            ptr: pid,
            size: 0,
            pc: 0,
            base: text.len() as u64,
        };
        let records = std::iter::once(process).chain(text_records(text, 2));
        records.flat_map(|record| record.encode()).collect()
    }

    fn declared(parent: Option<u64>, forked_from: Option<u32>) -> Option<Declared> {
        Some(Declared {
            pid: 42,
            parent,
            stream: 1,
            forked_from,
        })
    }

    #[test]
    fn declarations_are_found_behind_other_frames_and_damage() {
        let text = b"exe=/bin/a-name-that-fills-more-than-one-record\0ppid=41\0parent=c0ffee11\0";
        let bytes = [
            frame(FrameKind::PADDING, &[0; 300]),
            b"foreign \x89HWT\r\n\xff\x1a bytes".to_vec(),
            frame(FrameKind::RECORDS, &declaration(42, text)),
            frame(FrameKind::RECORDS, &declaration(43, b"")),
        ];
        let trace = Trace::of("declared", &bytes.concat());
        assert_eq!(first(&trace.0), declared(Some(41), Some(0xC0FF_EE11)));
        let file = File::open(&trace.0).unwrap();
        assert!(declares(&file, 43));
        assert!(!declares(&file, 41));
    }

    #[test]
    fn lanes_declare_their_process() {
        let table = LanesTable {
            stream: 1,
            pid: 42,
            lanes: 1,
            headers_at: 64,
            header_size: 64,
            lost: 0,
            void: 0,
            taken: 0,
        };
        let lane = LaneHeader {
            tid: 42,
            thread: 1,
            slots_at: 128,
            slots: 4,
            base_number: 1,
            base_clock: 0,
        };
        let lanes = |slots: &[u8]| {
            let padding = vec![0; LANES_PAGE - Header::SIZE];
            let table = [&table.encode()[..], &lane.encode(), slots].concat();
            frame(FrameKind::LANES, &[padding, table].concat())
        };
        let empty = Trace::of("lanes", &lanes(&[0; 160]));
        assert_eq!(first(&empty.0), declared(None, None));
        let moved = [
            lanes(&[0; 160]),
            frame(FrameKind::RECORDS, &declaration(42, b"ppid=9\0")),
        ];
        let moved = Trace::of("moved", &moved.concat());
        assert_eq!(first(&moved.0), declared(Some(9), None));
        let filled = Trace::of("filled", &lanes(&declaration(42, b"ppid=7\0")));
        assert_eq!(first(&filled.0), declared(Some(7), None));
    }

    #[test]
    fn other_files_declare_nothing() {
        for bytes in [&b""[..], b"text", &[0x89, b'H'], &[0; 100_000]] {
            let trace = Trace::of("other", bytes);
            assert_eq!(first(&trace.0), None);
        }
    }
}
