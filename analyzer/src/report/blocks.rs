//! Single blocks.

use super::{Stack, Warning, is_false};
use serde::ser::{Error, SerializeSeq};
use serde::{Serialize, Serializer};
use std::sync::Arc;
use std::{fmt, io};

/// The single blocks of `blocks --live`.
#[derive(Clone, Debug, Serialize)]
pub struct LiveBlocks {
    /// The moment at which they are live.
    pub at: LiveAt,
    /// That moment, in nanoseconds since the first recorded process began, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ns: Option<u64>,
    /// What was asked for: only what fits is listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<String>,
    /// One entry a process image.
    pub processes: Vec<ProcessBlocks>,
    /// As in a [report](super::Report).
    pub warnings: Vec<Warning>,
}

/// A moment at which blocks are live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LiveAt {
    /// The end of the trace.
    End,
    /// Each process's moment of most live bytes.
    Peak,
    /// A time.
    Time,
}

/// Live blocks of one process image, in order of number.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessBlocks {
    /// Its pid.
    pub pid: Option<u64>,
    /// Its command line.
    #[serde(skip)]
    pub command: Option<Vec<String>>,
    /// Its executable.
    #[serde(skip)]
    pub exe: Option<String>,
    /// An `exec` replaced it by another program, with which its blocks went.
    #[serde(skip)]
    pub is_replaced: bool,
    /// Its end is not in the trace, or was not its own will.
    #[serde(skip)]
    pub is_cut: bool,
    /// It ended before the time at which blocks are to be live, so that none is.
    #[serde(skip_serializing_if = "is_false")]
    pub ended: bool,
    /// The blocks.
    pub blocks: BlockList,
}

/// Where a list of blocks takes them from, each time that it is gone through: they may be more than there is room for as they are shown.
pub trait BlockSource: Send + Sync {
    /// All of them; an error, which is the last then, where they can no longer be read.
    fn blocks(&self) -> Box<dyn Iterator<Item = io::Result<Block>> + '_>;
}

impl BlockSource for Vec<Block> {
    fn blocks(&self) -> Box<dyn Iterator<Item = io::Result<Block>> + '_> {
        Box::new(self.iter().cloned().map(Ok))
    }
}

/// Blocks in order of number, and what they come to.
#[derive(Clone)]
pub struct BlockList {
    source: Arc<dyn BlockSource>,
    pub(crate) sums: BlockSums,
}

/// What blocks come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockSums {
    pub(crate) number: usize,
    pub(crate) bytes: u64,
    pub(crate) inherited: usize,
    pub(crate) inherited_bytes: u64,
    /// When the last was handed out.
    pub(crate) last_ns: Option<u64>,
}

impl BlockList {
    /// Goes through them once.
    ///
    /// # Errors
    ///
    /// They cannot be read.
    pub fn of(source: impl BlockSource + 'static) -> io::Result<Self> {
        let mut sums = BlockSums::default();
        for block in source.blocks() {
            let block = block?;
            sums.number += 1;
            sums.bytes = sums.bytes.saturating_add(block.size);
            if block.inherited {
                sums.inherited += 1;
                sums.inherited_bytes = sums.inherited_bytes.saturating_add(block.size);
            }
            sums.last_ns = sums.last_ns.max(block.time_ns);
        }
        Ok(Self {
            source: Arc::new(source),
            sums,
        })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sums.number
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sums.number == 0
    }

    /// The blocks, as far as they can still be read.
    pub fn iter(&self) -> impl Iterator<Item = Block> + '_ {
        self.source.blocks().map_while(Result::ok)
    }
}

impl fmt::Debug for BlockList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sums.fmt(f)
    }
}

impl Serialize for BlockList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.sums.number))?;
        for block in self.source.blocks() {
            list.serialize_element(&block.map_err(S::Error::custom)?)?;
        }
        list.end()
    }
}

/// An address, shown as `0x…`. Lists of blocks can be long, so it is no text until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub u64);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One block that was never released.
#[derive(Clone, Debug, Serialize)]
pub struct Block {
    /// Its address.
    pub address: Address,
    /// Requested bytes; after a realloc, the last ones.
    pub size: u64,
    /// Kernel tid of the thread that it was handed to.
    pub thread: Option<u64>,
    /// Nanoseconds since the first recorded process began.
    pub time_ns: Option<u64>,
    /// The call was then or later: the thread did not read the clock for it.
    #[serde(skip_serializing_if = "is_false")]
    pub time_is_lower_bound: bool,
    /// If that is a lower bound: when the call was at the latest, about an eighth of the pause too late at most. `None` if nothing tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_ns: Option<u64>,
    /// Line of a text log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_line: Option<u64>,
    /// Whether a parent process allocated it before the fork.
    pub inherited: bool,
    /// Where it was handed out, or resized last.
    pub stack: Stack,
}
