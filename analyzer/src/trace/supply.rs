//! The sources of one stream, in the order of the input.

use super::ahead::{self, Ahead, judge};
use super::frames::{Found, Frames, Rest};
use super::index::Run;
use super::judge::{Content, Judged};
use super::source::Holder;
use super::{Reading, Source, Trace, TraceError};
use std::io;
use std::mem;
use std::sync::Arc;
use std::vec::IntoIter;

/// Where the sources of a stream come from.
pub(crate) struct Supply {
    /// Place among the streams.
    pub(crate) stream: usize,
    from: From,
}

enum From {
    /// An input that is read once.
    Alone(Box<Ahead>),
    /// Parts of stored inputs.
    Runs(IntoIter<Run>, Option<Box<Frames>>),
    End,
}

impl Supply {
    /// One of which nothing is left.
    pub(crate) fn ended(stream: usize) -> Self {
        Self {
            stream,
            from: From::End,
        }
    }
}

impl Supply {
    /// For other threads to read ahead, where it is an input that is read once.
    pub(crate) fn reading(&self) -> Option<Arc<ahead::Reading>> {
        match &self.from {
            From::Alone(ahead) => Some(ahead.reading()),
            _ => None,
        }
    }

    /// Whether it comes from an input that is read once.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.from, From::Alone(_))
    }
}

/// What came.
pub(crate) enum Supplied {
    Sources(Vec<Source>),
    /// There are other streams: all that is left is indexed now. What comes next goes on where this one stopped.
    Several,
    End,
}

impl Trace {
    /// The one stream that the trace seems to have. `None`: an index knows the streams.
    pub(crate) fn alone(&mut self) -> Option<Supply> {
        match mem::replace(&mut self.reading, Reading::Alone) {
            Reading::Begun(frames, found) => Some(Supply {
                stream: 0,
                from: From::Alone(Box::new(Ahead::of(frames, found))),
            }),
            other => {
                self.reading = other;
                None
            }
        }
    }

    /// The sources of an indexed stream.
    pub(crate) fn supply(&self, stream: usize) -> Supply {
        let from = match &self.reading {
            Reading::Indexed(index) => From::Runs(index.runs(stream).into_iter(), None),
            _ => From::End,
        };
        Supply { stream, from }
    }

    /// The next sources of a stream.
    pub(crate) fn next_sources(&mut self, supply: &mut Supply) -> Result<Supplied, TraceError> {
        loop {
            let judged = match mem::replace(&mut supply.from, From::End) {
                From::Alone(ahead) => match self.next_alone(ahead)? {
                    Alone::Judged(ahead, judged) => {
                        supply.from = From::Alone(ahead);
                        judged
                    }
                    Alone::Several => {
                        supply.from = self.supply(supply.stream).from;
                        return Ok(Supplied::Several);
                    }
                    Alone::End => return Ok(Supplied::End),
                },
                from @ From::Runs(..) => {
                    supply.from = from;
                    match self.next_of_runs(supply)? {
                        Some(judged) => judged,
                        None => return Ok(Supplied::End),
                    }
                }
                From::End => return Ok(Supplied::End),
            };
            let mut sources = Vec::new();
            for one in judged {
                self.commit(one, &mut sources);
            }
            if !sources.is_empty() {
                let sources = sources.into_iter().map(|(_, source)| source);
                return Ok(Supplied::Sources(sources.collect()));
            }
        }
    }

    /// The records of the frame that an indexed stream begins with, wherever that lies; none where its records are lost.
    pub(crate) fn first_sources(&self, stream: usize) -> Result<Vec<Source>, TraceError> {
        let first = self.streams[stream].first_frame;
        let (Reading::Indexed(index), Some((rest, offset))) = (&self.reading, first) else {
            return Ok(Vec::new());
        };
        let rest = &index.rests[rest];
        let found = rest.frame(offset);
        let found = found.map_err(|error| self.failed(rest.input(), error))?;
        Ok(sources(found.map(Judged::of)))
    }

    /// Sources as [`next_sources`](Self::next_sources) gives them, without counting what they show.
    pub(crate) fn peek_sources(
        &self,
        supply: &mut Supply,
    ) -> Result<Option<Vec<Source>>, TraceError> {
        let judged = self.next_of_runs(supply)?;
        Ok(judged.map(sources))
    }

    /// Whether a source lies in a frame of an indexed input, so that it can be read again.
    pub(crate) fn can_read_again(&self, source: &Source) -> bool {
        source.place.holder == Holder::Frame && self.rest_of(source).is_some()
    }

    /// Reads such a source.
    pub(crate) fn read_again(&self, source: &Source) -> Result<Source, TraceError> {
        let (input, offset) = source.place.frame;
        let found = self.rest_of(source).map(|rest| rest.frame(offset));
        let found = found
            .transpose()
            .map_err(|error| self.failed(input, error))?;
        match found.flatten().map(Judged::of).map(|it| it.content) {
            Some(Content::Records(source, _)) => Ok(source),
            _ => Err(self.failed(input, io::ErrorKind::UnexpectedEof.into())), // it was there before
        }
    }

    fn rest_of(&self, source: &Source) -> Option<&Rest> {
        let Reading::Indexed(index) = &self.reading else {
            return None;
        };
        let (input, offset) = source.place.frame;
        index.rests.iter().find(|rest| rest.reaches(input, offset))
    }

    /// Has the rest of an input indexed, as if it held other streams.
    pub(crate) fn expect_several(&mut self, supply: &mut Supply) -> Result<(), TraceError> {
        if let From::Alone(ahead) = mem::replace(&mut supply.from, From::End) {
            self.index_rest(*ahead, false)?;
            supply.from = self.supply(supply.stream).from;
        }
        Ok(())
    }

    fn index_rest(&mut self, ahead: Ahead, with_last: bool) -> Result<(), TraceError> {
        let rest = ahead.into_rest(with_last, self.inputs[0].store());
        let rest = rest.map_err(|error| self.failed(0, error))?;
        self.index(vec![rest])
    }

    fn next_alone(&mut self, mut ahead: Box<Ahead>) -> Result<Alone, TraceError> {
        let next = ahead.next_block();
        let Some(judged) = next.map_err(|error| self.failed(0, error))? else {
            self.condition.absorb(&ahead.condition());
            return Ok(Alone::End);
        };
        let only = self.streams.first().map(|stream| stream.tag);
        let only = only.or_else(|| {
            let mut tags = judged.iter().map(|one| one.header.stream);
            tags.find(|tag| *tag != 0)
        });
        if judged.iter().any(|one| one.is_of_several(only)) {
            self.index_rest(*ahead, true)?;
            return Ok(Alone::Several);
        }
        Ok(Alone::Judged(ahead, judged))
    }

    fn next_of_runs(&self, supply: &mut Supply) -> Result<Option<Vec<Judged>>, TraceError> {
        let From::Runs(runs, current) = &mut supply.from else {
            return Ok(None);
        };
        let Reading::Indexed(index) = &self.reading else {
            return Ok(None);
        };
        let tag = self.streams[supply.stream].tag;
        loop {
            let frames = match current {
                Some(frames) => frames,
                None => {
                    let Some(run) = runs.next() else {
                        return Ok(None);
                    };
                    let part = index.rests[run.rest].part(run.begin, run.end);
                    current.insert(Box::new(part))
                }
            };
            let mut found = Vec::new();
            let goes_on = frames.next_block(&mut found);
            if !goes_on.map_err(|error| self.failed(frames.input(), error))? {
                *current = None;
                continue;
            }
            found.retain(|one| matches!(one, Found::Whole(frame) if frame.header.stream == tag));
            if !found.is_empty() {
                return Ok(Some(judge(found)));
            }
        }
    }
}

/// The sources of frames that are to be believed.
fn sources(judged: impl IntoIterator<Item = Judged>) -> Vec<Source> {
    let sources = judged.into_iter().flat_map(|one| match one.content {
        Content::Records(source, _) => vec![source],
        Content::Lanes(lanes, ..) => lanes,
        _ => Vec::new(),
    });
    sources.filter(Source::is_kept).collect()
}

enum Alone {
    Judged(Box<Ahead>, Vec<Judged>),
    Several,
    End,
}
