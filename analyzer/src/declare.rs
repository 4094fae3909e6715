//! What a stream declares of its process and its modules: the texts of SPEC.md 4.1 and 4.2.

use crate::address::{LoadBias, Machine};
use crate::sites::Module;
use crate::trace::Source;
use crate::trace::parse;
use heapwire_format::{Op, Record, TEXT_CHUNK};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The key of a repetition: number of the declaration that is repeated.
const SINCE: &[u8] = b"since";

/// How many process declarations of a stream are tried until one has its whole text.
const TRIED: usize = 8;

/// When recording began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Began {
    /// With the program image.
    Exec,
    /// In a forked child.
    Fork,
    /// Calls may have gone before; also where nothing is said.
    Late,
}

/// Where a child's stream branches off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForkPoint {
    /// Stream tag of the parent.
    pub(crate) parent: u32,
    /// The child inherits what the parent did with numbers below this one.
    pub(crate) number: u64,
}

/// The declaration of a process image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessDeclaration {
    /// That of the declaration which this one repeats, if it does.
    pub(crate) number: u64,
    pub(crate) pid: u64,
    /// Nanoseconds since 1970.
    pub(crate) wall_clock: u64,
    /// The trace's clock at that moment.
    pub(crate) clock: u64,
    pub(crate) parent_pid: Option<u64>,
    pub(crate) exe: Option<String>,
    pub(crate) arguments: Vec<String>,
    /// Bytes of the command line that are not in `arguments`.
    pub(crate) arguments_cut: bool,
    pub(crate) began: Began,
    pub(crate) fork: Option<ForkPoint>,
    /// `e_machine` of the recorder.
    pub(crate) machine: Option<u64>,
    /// Bytes of a pointer.
    pub(crate) word: Option<u64>,
    pub(crate) big_endian: bool,
    /// The module whose `malloc` comes before the recorder's; empty = the executable.
    pub(crate) own_malloc: Option<String>,
    /// The first of the allocator's functions of which another comes before the recorder's, where that is not `malloc`.
    pub(crate) own_function: Option<String>,
    /// The module that calls are forwarded to.
    pub(crate) allocator: Option<String>,
}

impl ProcessDeclaration {
    /// Finds the first whole declaration in the first sources of a stream; one without its text where no text is whole.
    pub(crate) fn find<'s>(sources: impl Iterator<Item = &'s Source> + Clone) -> Option<Self> {
        let mut declared: Vec<_> = sources
            .clone()
            .filter_map(|source| {
                let slot = &source.slots()[source.process_slot? as usize];
                let record = Record::decode(slot);
                Some((record.full_number(source.place.reference), record))
            })
            .collect();
        declared.sort_by_key(|(number, _)| *number);
        let (number, first) = declared.first()?;
        let whole = declared.iter().take(TRIED).find_map(|(number, record)| {
            let text = find_text(sources.clone(), *number, record)?;
            Some(Self::new(*number, record, &text))
        });
        Some(whole.unwrap_or_else(|| Self::new(*number, first, &[])))
    }

    fn new(number: u64, record: &Record, text: &[u8]) -> Self {
        let mut declaration = Self {
            number,
            pid: record.ptr,
            wall_clock: record.size,
            clock: record.pc,
            parent_pid: None,
            exe: None,
            arguments: Vec::new(),
            arguments_cut: false,
            began: Began::Late,
            fork: None,
            machine: None,
            word: None,
            big_endian: false,
            own_malloc: None,
            own_function: None,
            allocator: None,
        };
        let mut parent = None;
        let mut fork = None;
        for (key, value) in parse::entries(text) {
            match key {
                SINCE => declaration.number = parse::decimal(value).unwrap_or(number),
                b"exe" => declaration.exe = Some(readable(value)),
                b"arg" => declaration.arguments.push(readable(value)),
                b"args-cut" => declaration.arguments_cut = parse::decimal(value) != Some(0),
                b"ppid" => declaration.parent_pid = parse::decimal(value),
                b"parent" => parent = parse::hexadecimal(value),
                b"fork" => fork = parse::decimal(value),
                b"began" => {
                    declaration.began = match value {
                        b"exec" => Began::Exec,
                        b"fork" => Began::Fork,
                        _ => Began::Late,
                    }
                }
                b"machine" => declaration.machine = parse::decimal(value),
                b"word" => declaration.word = parse::decimal(value),
                b"own-function" => declaration.own_function = Some(readable(value)),
                b"allocator" => declaration.allocator = Some(readable(value)),
                b"own-malloc" => declaration.own_malloc = Some(readable(value)),
                b"order" => declaration.big_endian = value == b"big",
                _ => {}
            }
        }
        declaration.fork = parent
            .and_then(|tag| u32::try_from(tag).ok())
            .zip(fork)
            .map(|(parent, number)| ForkPoint { parent, number });
        declaration
    }

    /// The number that the stream's first record has.
    pub(crate) fn first_number(&self) -> u64 {
        self.fork.map_or(1, |fork| fork.number)
    }

    /// How return addresses of the target are looked up.
    pub(crate) fn machine(&self) -> Machine {
        self.machine.map_or(Machine::Other, Machine::of_elf)
    }

    /// The machine as `uname -m` would say, for those that have one usual name.
    pub(crate) fn machine_name(&self) -> Option<String> {
        let name = match (self.machine?, self.word, self.big_endian) {
            (3, ..) => "i686",
            (8, Some(4), false) => "mipsel",
            (8, Some(4), true) => "mips",
            (8, Some(8), false) => "mips64el",
            (8, Some(8), true) => "mips64",
            (20, ..) => "ppc",
            (21, _, false) => "ppc64le",
            (21, _, true) => "ppc64",
            (22, ..) => "s390x",
            (40, ..) => "arm",
            (62, Some(4), _) => "x32",
            (62, ..) => "x86_64",
            (183, ..) => "aarch64",
            (243, Some(4), _) => "riscv32",
            (243, ..) => "riscv64",
            (258, ..) => "loongarch64",
            (other, ..) => return Some(format!("machine {other}")),
        };
        Some(name.to_owned())
    }
}

/// The text of a declaration at `number`, if all of it is in the sources.
fn find_text<'s>(
    sources: impl Iterator<Item = &'s Source>,
    number: u64,
    declaration: &Record,
) -> Option<Vec<u8>> {
    let length = declaration.base;
    let chunks = length.div_ceil(TEXT_CHUNK as u64);
    let numbers = number..number.checked_add(1)?.checked_add(chunks)?;
    let mut found = BTreeMap::new();
    let overlapping =
        sources.filter(|source| source.lowest < numbers.end && numbers.start <= source.highest);
    for source in overlapping {
        let place = source.place.order();
        for (index, slot) in source.slots().iter().enumerate() {
            let number = source.number(index);
            if let Some(number) = number.filter(|number| numbers.contains(number)) {
                let first = found.entry(number).or_insert((place, slot));
                // Of copies the first in place is taken.
                if place < first.0 {
                    *first = (place, slot);
                }
            }
        }
    }
    if found.len() as u64 != chunks + 1 {
        return None;
    }
    let mut records = found.values().map(|(_, slot)| Record::decode(slot));
    if records.next().as_ref() != Some(declaration) {
        return None;
    }
    let mut text = Vec::new();
    for record in records {
        let (bytes, used) = record.text();
        text.extend_from_slice(&bytes[..used]);
        (record.op == Op::TEXT).then_some(())?;
    }
    (text.len() as u64 == length).then_some(text)
}

/// A module as a module-loaded record and its text declare it, and the number of the declaration that this one repeats, if it does.
pub(crate) fn module(record: &Record, text: &[u8], machine: Machine) -> (Module, Option<u64>) {
    let mut since = None;
    let mut module = Module {
        path: None,
        build_id: None,
        base: record.ptr,
        size: record.size,
        bias: Some(LoadBias(record.pc)),
        machine,
        file: None,
    };
    for (key, value) in parse::entries(text) {
        match key {
            b"path" => {
                module.path = (!value.is_empty()).then(|| OsStr::from_bytes(value).into());
            }
            b"build-id" => module.build_id = parse::hex_bytes(value),
            SINCE => since = parse::decimal(value),
            _ => {}
        }
    }
    (module, since)
}

/// Bytes of the trace as text; what is not UTF-8 is replaced.
pub(crate) fn readable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
