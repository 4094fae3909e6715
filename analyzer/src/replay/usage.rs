//! Live bytes and blocks, by site and in all, and what they were at the peak.

use crate::sites::SiteId;

const PAGE: usize = 64;

/// What one site has handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SiteUsage {
    pub(crate) live_bytes: u64,
    pub(crate) live_blocks: u64,
    /// Blocks ever handed out.
    pub(crate) handed_out: u64,
    /// Blocks released before the same thread allocated again.
    pub(crate) temporary: u64,
    /// Requested bytes of all blocks ever handed out.
    pub(crate) handed_out_bytes: u64,
    /// Blocks that a realloc made larger.
    pub(crate) grown: u64,
    /// By so many bytes.
    pub(crate) grown_bytes: u64,
    at_peak: (u64, u64),
    /// The peak that `at_peak` was saved for.
    saved_for: u64,
}

/// The moment of most live bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeakMoment {
    pub(crate) bytes: u64,
    pub(crate) blocks: u64,
    /// Nanoseconds of the traced machine's clock.
    pub(crate) clock: u64,
    /// Number of the record.
    pub(crate) number: u64,
}

/// The account of one process image. Sums saturate, since sizes in a trace can be any.
#[derive(Default)]
pub(crate) struct Usage {
    /// By site, in pages: a process may use few of the many sites of a report.
    pages: Vec<Option<Box<[SiteUsage; PAGE]>>>,
    pub(crate) live_bytes: u64,
    pub(crate) live_blocks: u64,
    pub(crate) peak: PeakMoment,
    /// Counts the peaks, so that a site knows whether its saved value is of the last one.
    peaks: u64,
}

impl Usage {
    /// Books a block that begins at a site.
    #[inline]
    pub(crate) fn acquire(&mut self, site: SiteId, size: u64) {
        let usage = self.site(site);
        usage.live_bytes = usage.live_bytes.saturating_add(size);
        usage.live_blocks += 1;
        usage.handed_out += 1;
        usage.handed_out_bytes = usage.handed_out_bytes.saturating_add(size);
        self.live_blocks += 1;
        self.live_bytes = self.live_bytes.saturating_add(size);
    }

    /// Books a block that ends.
    #[inline]
    pub(crate) fn release(&mut self, site: SiteId, size: u64) {
        let usage = self.site(site);
        usage.live_bytes = usage.live_bytes.saturating_sub(size);
        usage.live_blocks = usage.live_blocks.saturating_sub(1);
        self.live_blocks = self.live_blocks.saturating_sub(1);
        self.live_bytes = self.live_bytes.saturating_sub(size);
    }

    /// Notes that what is booked now is a peak, if it is one.
    #[inline]
    pub(crate) fn note_peak(&mut self, clock: u64, number: u64) {
        if self.live_bytes <= self.peak.bytes {
            return;
        }
        self.peaks += 1;
        self.peak = PeakMoment {
            bytes: self.live_bytes,
            blocks: self.live_blocks,
            clock,
            number,
        };
    }

    pub(crate) fn note_growth(&mut self, site: SiteId, bytes: u64) {
        let usage = self.site(site);
        usage.grown += 1;
        usage.grown_bytes = usage.grown_bytes.saturating_add(bytes);
    }

    pub(crate) fn note_temporary(&mut self, site: SiteId) {
        self.site(site).temporary += 1;
    }

    /// The account of a site, about to change: what it holds is what it held at the last peak, if it did not
    /// change since, so now is the time to save it.
    #[inline]
    fn site(&mut self, site: SiteId) -> &mut SiteUsage {
        let (page, at) = (site.index() / PAGE, site.index() % PAGE);
        if page >= self.pages.len() {
            self.pages.resize(page + 1, None);
        }
        let page = self.pages[page].get_or_insert_with(|| Box::new([SiteUsage::default(); PAGE]));
        let usage = &mut page[at];
        if usage.saved_for != self.peaks {
            usage.saved_for = self.peaks;
            usage.at_peak = (usage.live_bytes, usage.live_blocks);
        }
        usage
    }

    /// The sites that handed out anything.
    pub(crate) fn sites(&self) -> impl Iterator<Item = (SiteId, &SiteUsage)> {
        self.pages
            .iter()
            .enumerate()
            .filter_map(|(page, usages)| Some((page, usages.as_deref()?)))
            .flat_map(|(page, usages)| SiteId::all_from(page * PAGE).zip(usages))
            .filter(|(_, usage)| usage.handed_out > 0)
    }

    /// Bytes and blocks that a site held at the peak.
    pub(crate) fn at_peak(&self, usage: &SiteUsage) -> (u64, u64) {
        if usage.saved_for == self.peaks {
            usage.at_peak
        } else {
            (usage.live_bytes, usage.live_blocks)
        }
    }
}
