//! The records of `dump`, replayed one after the other.

use heapwire_tests::run::on;
use std::collections::BTreeMap;
use std::path::Path;

/// One record of a heap call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) op: String,
    pub(super) number: u64,
    pub(super) thread: u64,
    pub(super) time: u64,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) pc: u64,
}

/// A mark of the program.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) number: u64,
    pub(super) id: u64,
    pub(super) label: String,
    pub(super) time: u64,
}

/// The records of one process image.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// The parent's stream and the fork point.
    pub(super) fork: Option<(String, u64)>,
    pub(super) begin: u64,
    pub(super) calls: Vec<Call>,
    pub(super) marks: Vec<Mark>,
    pub(super) pid: u64,
    /// The time of the last record of any kind, or when it was seen to end.
    pub(super) last: u64,
    /// It says that it ended.
    pub(super) has_ended: bool,
}

/// A block that is live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) number: u64,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) pc: u64,
    pub(super) thread: u64,
    pub(super) time: u64,
    pub(super) inherited: bool,
}

/// What a process image came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    pub(super) live: BTreeMap<u64, Live>,
    pub(super) totals: BTreeMap<&'static str, u64>,
    pub(super) own_bytes: u64,
    /// Number of the record at the peak.
    pub(super) peak: Option<u64>,
    /// After each call its time, and the own bytes and blocks that are live.
    pub(super) steps: Vec<(u64, u64, u64)>,
    /// Number of the last block that each thread was handed.
    last: BTreeMap<u64, u64>,
    /// Blocks of each site that were released before their thread was handed another.
    pub(super) temporary: BTreeMap<u64, u64>,
}

/// The streams of a trace by their tags, in order of appearance.
pub(super) fn dumped(trace: &Path) -> Vec<(String, Stream)> {
    let run = on(&["dump"], trace);
    let mut streams: Vec<(String, Stream)> = Vec::new();
    for line in run.stdout.lines() {
        let (line, text) = line.split_once(" text=").unwrap_or((line, ""));
        let fields: BTreeMap<&str, &str> = line
            .split(' ')
            .filter_map(|word| word.split_once('='))
            .collect();
        let of = |name: &str| {
            let text = fields[name];
            match text.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
                None => text.parse().unwrap_or(0),
            }
        };
        let time = of("time_ns");
        if fields["op"] == "observed-end" {
            let mut images = streams.iter_mut().map(|(_, stream)| stream);
            let image = images.rfind(|stream| stream.pid == of("pid")).unwrap();
            image.last = image.last.max(time);
            continue;
        }
        let tag = fields["stream"].to_owned();
        if streams.last().is_none_or(|(last, _)| *last != tag) {
            streams.push((
                tag,
                Stream {
                    begin: time,
                    ..Stream::default()
                },
            ));
        }
        let stream = &mut streams.last_mut().unwrap().1;
        stream.last = stream.last.max(time);
        match fields["op"] {
            "process" => {
                stream.pid = of("ptr");
                stream.fork = fork(text);
            }
            "end" | "exec" => stream.has_ended = true,
            "mark" => stream.marks.push(Mark {
                number: of("number"),
                id: of("ptr"),
                label: text.trim_matches('"').to_owned(),
                time,
            }),
            op if fields.contains_key("family") => stream.calls.push(Call {
                op: op.to_owned(),
                number: of("number"),
                thread: of("thread"),
                time: of("time_ns"),
                address: of("ptr"),
                size: of("size"),
                pc: of("pc"),
            }),
            _ => {}
        }
    }
    streams
}

/// The parent's stream and the fork point in the text of a declaration.
fn fork(text: &str) -> Option<(String, u64)> {
    let keys = || text.trim_matches('"').split("\\x00");
    let key = |name: &str| keys().find_map(|key| key.strip_prefix(name));
    let fork = key("fork=").and_then(|number| number.parse().ok());
    key("parent=").map(str::to_owned).zip(fork)
}

impl Counted {
    /// Replays `calls` as long as `goes_on`.
    fn of(
        calls: &[Call],
        inherited: &BTreeMap<u64, Live>,
        goes_on: impl Fn(&Call) -> bool,
    ) -> Self {
        let mut counted = Self::default();
        for live in inherited.values() {
            let live = Live {
                inherited: true,
                ..live.clone()
            };
            counted.live.insert(live.address, live);
        }
        let mut open: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for call in calls.iter().take_while(|call| goes_on(call)) {
            counted.call(call, open.entry(call.thread).or_default());
            let blocks = counted.own().count() as u64;
            counted.steps.push((call.time, counted.own_bytes, blocks));
        }
        counted
    }

    fn call(&mut self, call: &Call, open: &mut Vec<u64>) {
        match call.op.as_str() {
            "allocated" => {
                self.add("allocations", 1);
                self.hand_out(call);
            }
            "released" => {
                self.add("releases", 1);
                self.release(call.address);
            }
            "realloc-old" => open.push(call.address),
            // The old block is live until the new one is there.
            "realloc-new" => {
                self.add("reallocations", 1);
                self.end(open.pop().unwrap());
                self.hand_out(call);
            }
            "realloc-freed" => {
                self.add("releases", 1);
                self.release(open.pop().unwrap());
            }
            "realloc-failed" => {
                self.add("failed", 1);
                open.pop();
            }
            other => panic!("{other}"),
        }
    }

    fn add(&mut self, what: &'static str, count: u64) {
        *self.totals.entry(what).or_default() += count;
    }

    fn release(&mut self, address: u64) {
        if let Some(live) = self.live.get(&address)
            && self.last.get(&live.thread) == Some(&live.number)
        {
            *self.temporary.entry(live.pc).or_default() += 1;
            self.add("temporary", 1);
        }
        self.end(address);
    }

    fn end(&mut self, address: u64) {
        if let Some(live) = self.live.remove(&address)
            && !live.inherited
        {
            self.own_bytes -= live.size;
        }
    }

    fn hand_out(&mut self, call: &Call) {
        self.end(call.address);
        let live = Live {
            number: call.number,
            address: call.address,
            size: call.size,
            pc: call.pc,
            thread: call.thread,
            time: call.time,
            inherited: false,
        };
        self.last.insert(call.thread, call.number);
        self.live.insert(call.address, live);
        self.own_bytes += call.size;
        self.add("allocated_bytes", call.size);
        if self.own_bytes > self.totals.get("peak_bytes").copied().unwrap_or(0) {
            self.totals.insert("peak_bytes", self.own_bytes);
            self.totals.insert("peak_blocks", self.own().count() as u64);
            self.peak = Some(call.number);
        }
    }

    pub(super) fn own(&self) -> impl Iterator<Item = &Live> {
        self.live.values().filter(|live| !live.inherited)
    }

    /// The blocks in order of number.
    pub(super) fn blocks(&self) -> Vec<Live> {
        let mut blocks: Vec<Live> = self.live.values().cloned().collect();
        blocks.sort_by_key(|live| (live.number, live.address));
        blocks
    }
}

/// What the stream at `index` inherited.
pub(super) fn inherited(streams: &[(String, Stream)], index: usize) -> BTreeMap<u64, Live> {
    let Some((parent, point)) = &streams[index].1.fork else {
        return BTreeMap::new();
    };
    let parent = streams.iter().position(|(tag, _)| tag == parent).unwrap();
    let above = inherited(streams, parent);
    Counted::of(&streams[parent].1.calls, &above, |call| {
        call.number < *point
    })
    .live
}

pub(super) fn counted(
    streams: &[(String, Stream)],
    goes_on: impl Fn(usize, &Call) -> bool + Copy,
) -> Vec<Counted> {
    let each = (0..streams.len()).map(|index| {
        let above = inherited(streams, index);
        Counted::of(&streams[index].1.calls, &above, |call| goes_on(index, call))
    });
    each.collect()
}
