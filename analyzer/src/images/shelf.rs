//! Live blocks of images that have ended: in memory as many as one image had or as are few, the others in a file without a name. What is
//! held at once is so not of all images that ever were.

use crate::nameless;
use crate::replay::{Block, LiveBlock, Moment, Wanted};
use crate::sites::SiteId;
use heapwire_format::Family;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Blocks that may always be held: 16 MiB of them.
const FEW: usize = 1 << 18;
/// Bytes of a block in the file.
const BYTES: usize = 48;
/// Blocks that are read at once.
const AT_ONCE: usize = 1 << 10;

/// The live blocks of an image, in order of number.
#[derive(Clone, Debug)]
pub(crate) enum Listed {
    Held(Arc<Vec<LiveBlock>>),
    Filed {
        file: Arc<File>,
        /// Where they begin.
        at: u64,
        number: usize,
    },
}

/// Puts them where they are kept.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// Which blocks these are.
    pub(crate) wanted: Wanted,
    file: Option<Arc<File>>,
    /// Bytes of the file that are in use.
    used: u64,
    /// Blocks that are held.
    held: usize,
    /// Most blocks that an image had.
    most: usize,
}

impl Shelf {
    /// An empty one for the blocks that are wanted.
    pub(crate) fn of(wanted: Wanted) -> Self {
        Self {
            wanted,
            file: None,
            used: 0,
            held: 0,
            most: 0,
        }
    }

    /// Keeps the blocks of one more image. Where there is no room for a file they stay in memory.
    pub(crate) fn put(&mut self, blocks: Vec<LiveBlock>) -> Listed {
        self.most = self.most.max(blocks.len());
        if self.held + blocks.len() > self.most.max(FEW)
            && let Ok(filed) = self.file(&blocks)
        {
            return filed;
        }
        self.held += blocks.len();
        Listed::Held(Arc::new(blocks))
    }

    fn file(&mut self, blocks: &[LiveBlock]) -> io::Result<Listed> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::new(nameless::file()?),
        };
        let at = self.used;
        let mut out = BufWriter::new(At(&file, at));
        for block in blocks {
            out.write_all(&encoded(block))?;
        }
        out.flush()?;
        drop(out);
        self.used += (blocks.len() * BYTES) as u64;
        self.file = Some(Arc::clone(&file));
        Ok(Listed::Filed {
            file,
            at,
            number: blocks.len(),
        })
    }
}

impl Default for Listed {
    fn default() -> Self {
        Self::Held(Arc::default())
    }
}

impl Listed {
    /// The blocks; an error, which is the last then, where the file cannot be read.
    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = io::Result<LiveBlock>> + '_> {
        match self {
            Self::Held(blocks) => Box::new(blocks.iter().copied().map(Ok)),
            Self::Filed { file, at, number } => {
                let chunks = (0..*number).step_by(AT_ONCE).map(move |first| {
                    let length = AT_ONCE.min(number - first);
                    let mut bytes = vec![0; length * BYTES];
                    file.read_exact_at(&mut bytes, at + (first * BYTES) as u64)?;
                    Ok(bytes)
                });
                Box::new(chunks.flat_map(|chunk| {
                    let (bytes, error) = match chunk {
                        Ok(bytes) => (bytes, None),
                        Err(error) => (Vec::new(), Some(Err(error))),
                    };
                    let (blocks, _) = bytes.as_chunks();
                    let blocks: Vec<_> = blocks.iter().map(decoded).collect();
                    blocks.into_iter().chain(error)
                }))
            }
        }
    }
}

/// Writes to a place in a file.
struct At<'f>(&'f File, u64);

impl Write for At<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write_at(bytes, self.1)?;
        self.1 += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn encoded(live: &LiveBlock) -> [u8; BYTES] {
    let LiveBlock {
        address,
        block,
        is_inherited,
    } = live;
    let of = block.handed_out;
    let rest = u64::from(block.family as u8) << 1 | u64::from(*is_inherited);
    let words = [
        *address,
        block.size,
        block.number,
        of.clock,
        u64::from(of.site.raw()) << 32 | u64::from(of.tid),
        rest,
    ];
    let mut bytes = [0; BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

#[expect(clippy::cast_possible_truncation, reason = "halves and bytes of words")]
fn decoded(bytes: &[u8; BYTES]) -> io::Result<LiveBlock> {
    let (words, _) = bytes.as_chunks();
    let word = |at: usize| u64::from_ne_bytes(words[at]);
    let site = SiteId::of_raw((word(4) >> 32) as u32);
    Ok(LiveBlock {
        address: word(0),
        block: Block {
            size: word(1),
            number: word(2),
            handed_out: Moment {
                clock: word(3),
                site: site.ok_or(io::ErrorKind::InvalidData)?,
                tid: word(4) as u32,
            },
            family: Family::from_flags((word(5) >> 1) as u8),
        },
        is_inherited: word(5) & 1 != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::{FEW, Listed, Shelf, Wanted};
    use crate::replay::{Block, LiveBlock, Moment};
    use crate::sites::SiteId;
    use heapwire_format::Family;

    fn block(number: u32) -> LiveBlock {
        let (wide, [low, ..]) = (u64::from(number), number.to_le_bytes());
        LiveBlock {
            address: wide << 4,
            block: Block {
                size: wide ^ 5,
                number: wide,
                handed_out: Moment {
                    clock: wide * 3,
                    site: SiteId::of_raw(number % 7 + 1).unwrap(),
                    tid: number,
                },
                family: Family::from_flags(low % 3),
            },
            is_inherited: number.is_multiple_of(2),
        }
    }

    #[test]
    fn what_is_laid_aside_comes_back_as_it_was() {
        let mut shelf = Shelf::of(Wanted::All);
        let few = u32::try_from(FEW).unwrap();
        let sizes = [few, 0, 1, 5000, few + 1, 3];
        let all: Vec<(Vec<LiveBlock>, Listed)> = sizes
            .iter()
            .map(|size| {
                let blocks: Vec<_> = (1..=*size).map(block).collect();
                (blocks.clone(), shelf.put(blocks))
            })
            .collect();
        for (blocks, listed) in &all {
            let found: Vec<_> = listed.iter().collect::<Result<_, _>>().unwrap();
            assert!(found == *blocks);
        }
        let is_filed = |(_, listed): &(_, Listed)| matches!(listed, Listed::Filed { .. });
        let filed: Vec<bool> = all.iter().map(is_filed).collect();
        assert_eq!(filed, [false, false, true, true, true, true]);
        assert!(shelf.held <= FEW + 1, "no more than one image had");
    }
}
