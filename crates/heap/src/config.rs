//! Configuration of a heap.

use terrace_ledger::Ledger;
use terrace_region::Backing;
use terrace_sys::size::{PAGE_BYTES, format_bytes, to_u64};

use crate::error::HeapError;

/// Minimum size of a heap: the first block of an arena's metadata, aligned, and one extent.
pub(crate) const BYTES_MIN: usize = 8 << 20;

/// Placement of the arena's metadata, which describe its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// In DRAM, separate from the data: allocation never touches a slow tier.
    Separate,
    /// In the heap's memory, beside the data. Over a region, a child process made by `fork` ends at
    /// once.
    Together,
}

impl Metadata {
    /// Returns the name in one word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Separate => "separate",
            Self::Together => "together",
        }
    }
}

/// Retention policy of an arena: how it takes extents, and if it returns them to the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retain {
    /// The arena takes the addresses of the range at once, splits them, and retains them.
    On {
        /// Maximum bytes of an extent taken ahead of need from the remainder of the range. There is
        /// a remainder if the range's length is no size class, or if metadata lie in the range.
        growth_bytes_max: usize,
    },
    /// The arena takes an extent for each request, and gives back what is freed.
    Off,
}

impl Default for Retain {
    /// On, with extents of at most 8 MiB.
    fn default() -> Self {
        Self::On { growth_bytes_max: 8 << 20 }
    }
}

/// Configuration of a heap.
#[derive(Clone, Debug)]
pub struct HeapConfig {
    /// Name in errors, statistics and the ledger.
    pub name: String,
    /// Memory that holds the data.
    pub memory: Backing,
    /// Placement of the metadata.
    pub metadata: Metadata,
    /// Retention policy of the arena.
    pub retain: Retain,
    /// True if each thread caches objects that it freed, up to 32 KiB each, for its next requests.
    pub thread_caches: bool,
    /// Milliseconds that freed pages are kept before they are given back, by a call made after that
    /// time or by [`crate::Heap::decay`]; `None` never purges them.
    pub decay_ms: Option<u32>,
    /// Budget that memory in use is charged to. `None` for a heap over a region, which charges its
    /// blocks itself.
    pub ledger: Option<Ledger>,
}

impl HeapConfig {
    /// Returns the defaults: metadata in DRAM, thread caches, freed pages given back after a
    /// second, no ledger.
    #[must_use]
    pub fn new(name: impl Into<String>, memory: Backing) -> Self {
        Self {
            name: name.into(),
            memory,
            metadata: Metadata::Separate,
            retain: Retain::default(),
            thread_caches: true,
            decay_ms: Some(1000),
            ledger: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), HeapError> {
        let wrong = |reason| Err(HeapError::Config { heap: self.name.clone(), reason });
        let bytes = self.memory.bytes();
        if bytes < BYTES_MIN || !bytes.is_multiple_of(PAGE_BYTES) {
            let (least, has) = (format_bytes(to_u64(BYTES_MIN)), bytes);
            return wrong(format!("{has} bytes: it takes {least} at least, in pages of 4 KiB"));
        }
        if let Backing::Region { region, offset, bytes } = &self.memory {
            let end = offset.checked_add(*bytes);
            let all = region.len();
            if !offset.is_multiple_of(PAGE_BYTES) || end.is_none_or(|end| end > all) {
                return wrong(format!(
                    "{bytes} bytes at {offset} are no pages of region {}, which has {all}",
                    region.name()
                ));
            }
            if self.ledger.is_some() {
                return wrong("a region counts its blocks itself: leave the ledger out".to_owned());
            }
        }
        if let Retain::On { growth_bytes_max } = self.retain
            && growth_bytes_max < PAGE_BYTES
        {
            return wrong(format!("growth of {growth_bytes_max} bytes: 4096 is the least"));
        }
        Ok(())
    }
}
