//! A stream: what the frame headers of one process image claim.

use heapwire_format::{FrameKind, Header, LanesTable, Op, PACKED_START, Record};

/// What is known of the frames of one process image.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// Stream tag.
    pub(crate) tag: u32,
    /// There are records.
    pub(crate) has_records: bool,
    /// Records that the recorder counted as lost.
    pub(crate) lost: u32,
    /// Holes that the recorder passed.
    pub(crate) void: u32,
    /// All numbers below this one were taken.
    pub(crate) taken: u64,
    /// Lowest number that a header says its frame begins with.
    pub(crate) first: Option<u64>,
    /// Where that frame is: stored part of the inputs, and offset.
    pub(super) first_frame: Option<(usize, u64)>,
    /// Pid in the table of its lanes.
    pub(crate) lanes_pid: Option<u32>,
    /// Records that the recorder left out on purpose.
    pub(crate) culled: u32,
    /// Its frames that are there, copies among them, and whether the first is.
    frames: u64,
    highest_frame: u32,
    has_first_frame: bool,
}

impl Stream {
    pub(crate) fn new(tag: u32) -> Self {
        Self {
            tag,
            has_records: false,
            lost: 0,
            void: 0,
            taken: 0,
            first: None,
            first_frame: None,
            lanes_pid: None,
            culled: 0,
            frames: 0,
            highest_frame: 0,
            has_first_frame: false,
        }
    }

    /// Takes note that a frame is there, whatever became of its records.
    pub(super) fn note_frame(&mut self, header: &Header) {
        self.frames += 1;
        self.highest_frame = self.highest_frame.max(header.frame);
        self.has_first_frame |= header.frame == 0;
    }

    /// Whether frames are missing, as their numbers tell.
    pub(crate) fn lacks_frames(&self) -> bool {
        !self.has_first_frame || self.frames <= self.highest_frame.into()
    }

    /// Takes over the counts of a frame's header.
    pub(crate) fn note(&mut self, header: &Header) {
        self.lost = self.lost.max(header.lost);
        self.void = self.void.max(header.void);
        self.culled = self.culled.max(header.culled);
        self.taken = self.taken.max(header.settled);
        self.note_first(header);
    }

    /// Takes over where the numbers of a frame begin.
    pub(crate) fn note_first(&mut self, header: &Header) {
        if header.first != 0 && matches!(header.kind, FrameKind::RECORDS | FrameKind::PACKED) {
            let first = self.first.get_or_insert(header.first);
            *first = header.first.min(*first);
        }
    }

    /// Takes over what the table of lanes says: where the disk was full, no header says it.
    pub(crate) fn note_table(&mut self, table: &LanesTable) {
        self.lanes_pid = self.lanes_pid.or(Some(table.pid));
        self.lost = self.lost.max(table.lost);
        self.void = self.void.max(table.void);
        self.taken = self.taken.max(table.taken);
    }

    /// Takes over what the header of a frame says whose records cannot be used.
    pub(crate) fn note_torn(&mut self, header: &Header) {
        self.note(header);
        if holds_records(header) {
            self.note_taken(header.first);
        }
    }

    /// A frame whose records cannot be used began with the record of this number; 0 = with none.
    pub(crate) fn note_taken(&mut self, first: u64) {
        if first != 0 {
            self.taken = self.taken.max(first.saturating_add(1));
        }
    }

    /// The image left no trace but memory that it never used.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_records && self.lanes_pid.is_none() && self.taken == 0
    }
}

/// Whether a frame with this header has room for a record.
pub(crate) fn holds_records(header: &Header) -> bool {
    let payload = header.payload_length as usize;
    match header.kind {
        FrameKind::PACKED => payload > PACKED_START,
        _ => payload >= Record::SIZE,
    }
}

/// How a process ended, as its parent saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) pid: u64,
    /// As `waitpid` gives it.
    pub(crate) wait_status: u64,
    /// The clock when the parent saw it.
    pub(crate) clock: u64,
    /// Streams that appeared before it.
    pub(crate) streams_before: usize,
}

impl Observed {
    pub(crate) fn of(record: &Record, clock: u64, streams_before: usize) -> Option<Self> {
        (record.op == Op::OBSERVED_END).then_some(Self {
            pid: record.ptr,
            wait_status: record.size,
            clock: clock.saturating_add(u64::from(record.time) * 1_000_000),
            streams_before,
        })
    }
}
