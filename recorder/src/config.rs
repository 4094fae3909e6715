//! What the user asked for, read once from the environment.

use crate::auxiliary;
use crate::cell::StartCell;
use crate::extent::HAS_LOGS;
use crate::output::Kind;
use crate::sync::Relaxed;
use crate::sys;
use crate::text::{self, Text};
use core::sync::atomic::AtomicUsize;
use heapwire_format::{ARMOUR_NARROW, ARMOUR_WIDE, ArmourHead};

/// Longest path, with its zero byte.
pub(crate) const PATH: usize = 4096;
const OPTIONS: usize = 256;
/// What the names of our variables begin with.
const PREFIX: &[u8] = b"HEAPWIRE_";
/// What follows, in the order of the numbers below. To compare with one after the other is a tenth of the code that a match of texts is.
const KEYS: &[u8] = b"OUT=ON_FULL=FORMAT=SUM=PACK=CULL=ARMOUR=WAIT=";
const OUT: u32 = 0;
const ON_FULL: u32 = 1;
const FORMAT: u32 = 2;
const SUM: u32 = 3;
const PACK: u32 = 4;
const CULL: u32 = 5;
const ARMOUR: u32 = 6;
/// The room in lines where the user wants none.
const NO_LINES: usize = 1;
/// How long a frame waits for a slow reader unless the user says otherwise.
const WAIT_MILLISECONDS: u64 = 10_000;

/// Where the trace goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Nowhere: nothing is recorded.
    Nothing,
    /// To a file, whose name may hold %p and %e.
    File,
    /// To a descriptor that is open already.
    Descriptor(i32),
}

/// The settings. Stored when the first image starts; a forked child has the same.
pub(crate) struct Config {
    pub(crate) target: Target,
    /// Whether records are dropped rather than waited for.
    pub(crate) drops: bool,
    /// How long a frame waits for a slow reader.
    pub(crate) wait_milliseconds: u64,
    sums: bool,
    /// Whether blocks that are released soon are left out.
    pub(crate) culls: bool,
    /// The user's `0` or `1`, or 0.
    packs: u8,
    /// Whether lines of glibc's mtrace are written.
    pub(crate) is_log: bool,
    /// Whether the user said that none are.
    is_no_log: bool,
    /// Whether the program says by calls of `mtrace` and `muntrace` when to record.
    pub(crate) is_by_call: bool,
    /// What a line of the user's number of columns takes, or [`NO_LINES`]; 0 where the user says nothing.
    line_room: usize,
    path: [u8; PATH],
    path_length: usize,
    options: [u8; OPTIONS],
    options_length: usize,
}

/// The settings of this process.
pub(crate) static CONFIG: StartCell<Config> = StartCell::new(Config::NOTHING);

/// What is behind the path of a file beside the one that the user named.
const BESIDE: &[u8] = b".%p";
/// Its length where it counts. The only setting that changes: the file that the user named is another process's.
static BESIDE_LENGTH: AtomicUsize = AtomicUsize::new(0);

/// From now on the output is a file beside the one that the user named, unless that is one a process.
pub(crate) fn go_beside(config: &Config) {
    if !config.is_per_process() {
        BESIDE_LENGTH.store(BESIDE.len(), Relaxed); // read when a file is opened, which nobody else does then
    }
}

impl Config {
    /// All zero, so that it takes no room in the file.
    const NOTHING: Self = Self {
        target: Target::Nothing,
        drops: false,
        wait_milliseconds: 0,
        sums: false,
        culls: false,
        packs: 0,
        is_log: false,
        is_no_log: false,
        is_by_call: false,
        line_room: 0,
        path: [0; PATH],
        path_length: 0,
        options: [0; OPTIONS],
        options_length: 0,
    };

    /// The absolute path as given, before %p and %e are filled in; with the pid behind it after `go_beside`.
    pub(crate) fn path(&self) -> &[u8] {
        let more = BESIDE_LENGTH.load(Relaxed);
        let length = self.path_length.wrapping_add(more);
        self.path.get(..length).unwrap_or_default()
    }

    /// Takes what MALLOC_TRACE says when the program calls `mtrace`.
    pub(crate) fn take_malloc_trace(&mut self, value: &[u8]) {
        self.take_target(value);
        self.is_by_call = self.target != Target::Nothing;
        self.is_log = self.is_by_call && !self.is_no_log; // what that variable has always meant
    }

    /// Whether lines of glibc's mtrace are written.
    pub(crate) fn is_log(&self) -> bool {
        HAS_LOGS && self.is_log
    }

    /// Whether each process image has a file of its own.
    pub(crate) fn is_per_process(&self) -> bool {
        self.path().windows(2).any(|pair| pair == b"%p")
    }

    /// Whether payloads on an output of this kind are summed.
    pub(crate) fn sums(&self, kind: Kind) -> bool {
        self.sums || matches!(kind, Kind::Terminal | Kind::Socket)
    }

    /// Whether frames on it are packed.
    pub(crate) fn packs(&self, kind: Kind) -> bool {
        match self.packs {
            b'0' => false,
            b'1' => true,
            _ => kind != Kind::Device, // nobody reads what goes to /dev/null
        }
    }

    /// Bytes of a frame that each of its lines takes; 0 = frames are written as they are.
    pub(crate) fn line_room(&self, kind: Kind) -> usize {
        match self.line_room {
            _ if self.is_log() => 0,
            0 if kind == Kind::Terminal => ArmourHead::room(ARMOUR_NARROW),
            0 | NO_LINES => 0,
            room => room,
        }
    }

    /// Whether the user wants lines, whatever the output is.
    pub(crate) fn wants_lines(&self) -> bool {
        self.line_room > NO_LINES && !self.is_log()
    }

    /// The settings as text.
    pub(crate) fn options(&self) -> &[u8] {
        self.options.get(..self.options_length).unwrap_or_default()
    }

    /// Reads the environment into `self`, using `room` for one entry at a time.
    pub(crate) fn read(&mut self, room: &mut [u8]) {
        if auxiliary::is_secure() {
            return; // the environment may be another user's
        }
        self.wait_milliseconds = WAIT_MILLISECONDS;
        // `getenv` does not answer yet when `.preinit_array` runs, so the kernel is asked.
        auxiliary::each_entry(b"/proc/self/environ\0", room, &mut |entry, _| {
            if entry.starts_with(PREFIX) {
                self.take(entry);
            }
        });
    }

    fn take(&mut self, entry: &[u8]) {
        let named = entry.strip_prefix(PREFIX).unwrap_or_default();
        let Some((key, value)) = known(named) else {
            return;
        };
        let (number, is_one) = (number(value), value == b"1");
        match key {
            OUT => return self.take_target(value),
            ON_FULL => self.drops = value == b"drop",
            FORMAT => {
                self.is_log = value == b"mtrace";
                self.is_no_log = value == b"hwt";
            }
            SUM => self.sums = is_one,
            PACK => self.packs = value.first().copied().unwrap_or(0),
            CULL => self.culls = is_one,
            ARMOUR => {
                self.line_room = match number {
                    None => 0,
                    Some(0) => NO_LINES,
                    Some(columns) => {
                        ArmourHead::room((columns as usize).clamp(ARMOUR_NARROW, ARMOUR_WIDE))
                    }
                };
            }
            _ => {
                if let Some(seconds) = number {
                    self.wait_milliseconds = u64::from(seconds).saturating_mul(1000);
                }
            }
        }
        self.remember_option(entry);
    }

    fn remember_option(&mut self, entry: &[u8]) {
        let mut text = Text::new(
            self.options
                .get_mut(self.options_length..)
                .unwrap_or_default(),
        );
        if entry.len() < text.left() {
            if self.options_length != 0 {
                text.push(b" ");
            }
            text.push(entry);
            self.options_length = self.options_length.wrapping_add(text.bytes().len());
        }
    }

    fn take_target(&mut self, value: &[u8]) {
        if value.is_empty() {
            return;
        }
        if let Some(fd) = descriptor(value) {
            self.target = Target::Descriptor(fd);
            return;
        }
        let mut length = 0;
        if value.first() != Some(&b'/') {
            // Relative to where the program begins, wherever it goes later.
            let Ok(with_end) = sys::current_folder(&mut self.path) else {
                return;
            };
            length = with_end.saturating_sub(1);
            if let Some(place) = self.path.get_mut(length) {
                *place = b'/';
                length = length.wrapping_add(1);
            }
        }
        let mut text = Text::new(self.path.get_mut(length..).unwrap_or_default());
        if value.len().wrapping_add(BESIDE.len()) < text.left() {
            text.push(value);
            text.push(BESIDE);
            self.path_length = length.wrapping_add(value.len());
            self.target = Target::File;
        }
    }
}

/// The number of the key that an entry begins with, and the value behind it.
fn known(entry: &[u8]) -> Option<(u32, &[u8])> {
    let (mut key, mut rest) = (0u32, Some(entry));
    for byte in KEYS {
        rest = rest
            .and_then(|rest| rest.split_first().filter(|(first, _)| *first == byte))
            .map(|(_, rest)| rest);
        if *byte == b'=' {
            if let Some(value) = rest {
                return Some((key, value));
            }
            (key, rest) = (key.wrapping_add(1), Some(entry));
        }
    }
    None
}

/// The descriptor that a target names, if it names one.
fn descriptor(value: &[u8]) -> Option<i32> {
    if value == b"/dev/stdout" {
        return Some(1);
    }
    if value == b"/dev/stderr" {
        return Some(2);
    }
    let mut names = [&b"fd:"[..], b"/proc/self/fd/", b"/dev/fd/"].into_iter();
    let digits = names.find_map(|name| value.strip_prefix(name))?;
    i32::try_from(number(digits)?).ok()
}

fn number(digits: &[u8]) -> Option<u32> {
    u32::try_from(text::number(digits, 10)?).ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Config, Kind, Target};

    fn taken(entries: &[&[u8]]) -> Config {
        let mut config = Config::NOTHING;
        entries.iter().for_each(|entry| config.take(entry));
        config
    }

    #[test]
    fn descriptors_are_known_by_all_their_names() {
        for (value, fd) in [
            (&b"fd:3"[..], 3),
            (b"/proc/self/fd/10", 10),
            (b"/dev/fd/2", 2),
            (b"/dev/stdout", 1),
            (b"/dev/stderr", 2),
        ] {
            let entry = [b"HEAPWIRE_OUT=", value].concat();
            assert_eq!(taken(&[&entry]).target, Target::Descriptor(fd));
        }
    }

    #[test]
    fn a_path_becomes_absolute_and_says_whether_it_is_per_process() {
        let config = taken(&[b"HEAPWIRE_OUT=/tmp/%e.%p.hwt"]);
        assert_eq!(
            (config.target, config.path()),
            (Target::File, &b"/tmp/%e.%p.hwt"[..])
        );
        assert!(config.is_per_process());
        let config = taken(&[b"HEAPWIRE_OUT=x=y.hwt"]);
        let here = std::env::current_dir().unwrap().join("x=y.hwt");
        assert_eq!(config.path(), here.as_os_str().as_encoded_bytes());
        assert!(!config.is_per_process());
    }

    #[test]
    fn nothing_is_recorded_without_a_target() {
        assert_eq!(taken(&[b"HEAPWIRE_OUT="]).target, Target::Nothing);
        assert_eq!(taken(&[b"HEAPWIRE_SUM=1"]).target, Target::Nothing);
        let too_long = [&b"HEAPWIRE_OUT=/"[..], &[b'a'; super::PATH]].concat();
        assert_eq!(taken(&[&too_long]).target, Target::Nothing);
    }

    #[test]
    fn lines_are_written_where_that_is_asked_for_or_was_always_meant() {
        let log = |entries: &[&[u8]], malloc_trace: &[u8]| {
            let mut config = taken(entries);
            config.take_malloc_trace(malloc_trace);
            (config.is_by_call, config.is_log)
        };
        assert_eq!(log(&[], b""), (false, false));
        assert_eq!(log(&[], b"/l"), (true, true));
        assert_eq!(log(&[b"HEAPWIRE_FORMAT=hwt"], b"/l"), (true, false));
        assert!(taken(&[b"HEAPWIRE_OUT=/l", b"HEAPWIRE_FORMAT=mtrace"]).is_log);
        assert!(!taken(&[b"HEAPWIRE_OUT=/l", b"HEAPWIRE_FORMAT=x"]).is_log);
    }

    #[test]
    fn options_are_kept_for_the_declaration() {
        let config = taken(&[
            b"HEAPWIRE_WAIT=3",
            b"HEAPWIRE_ON_FULL=drop",
            b"HEAPWIRE_NEW=1",
        ]);
        assert_eq!(config.options(), b"HEAPWIRE_WAIT=3 HEAPWIRE_ON_FULL=drop");
        assert!(config.drops && config.wait_milliseconds == 3000 && !config.sums);
    }

    #[test]
    fn lines_are_as_wide_as_the_user_says_within_limits() {
        let room = |entries: &[&[u8]]| {
            let config = taken(entries);
            let kinds = [Kind::Terminal, Kind::Socket];
            (
                kinds.map(|kind| config.line_room(kind)),
                config.wants_lines(),
            )
        };
        assert_eq!(room(&[]), ([47, 0], false));
        assert_eq!(room(&[b"HEAPWIRE_ARMOUR=0"]), ([0, 0], false));
        assert_eq!(room(&[b"HEAPWIRE_ARMOUR="]), ([47, 0], false));
        for (value, expected) in [
            (&b"1"[..], 47),
            (b"100", 65),
            (b"252", 179),
            (b"4294967295", 179),
        ] {
            let entry = [b"HEAPWIRE_ARMOUR=", value].concat();
            assert_eq!(room(&[&entry]), ([expected; 2], true));
        }
    }

    #[test]
    fn frames_are_packed_unless_the_user_or_the_output_says_otherwise() {
        let packs = |entries: &[&[u8]]| {
            let config = taken(entries);
            [Kind::File, Kind::Pipe, Kind::Device].map(|kind| config.packs(kind))
        };
        assert_eq!(packs(&[]), [true, true, false]);
        assert_eq!(packs(&[b"HEAPWIRE_PACK=1"]), [true; 3]);
        assert_eq!(packs(&[b"HEAPWIRE_PACK=0"]), [false; 3]);
    }
}
