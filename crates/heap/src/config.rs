//! How a heap is set up.

use std::sync::Arc;

use terrace_market::Ledger;
use terrace_region::Region;
use terrace_sys::size::{PAGE_BYTES, format_bytes, to_u64};

use crate::error::HeapError;

/// The least memory of a heap: the first block of an arena's metadata, aligned, and one extent.
pub(crate) const BYTES_MIN: usize = 8 << 20;

/// Where the bytes of a heap live.
#[derive(Clone, Debug)]
pub enum HeapMemory {
    /// Local memory: so many bytes of addresses, filled as they are used.
    Dram {
        /// Bytes of addresses.
        bytes: usize,
    },
    /// Memory of one NUMA node.
    Node {
        /// The node's number.
        node: u32,
        /// Bytes of addresses.
        bytes: usize,
    },
    /// A part of a region; several heaps may share one, each with a part of its own.
    Region {
        /// The region.
        region: Arc<Region>,
        /// Where the part begins, a multiple of 4 KiB.
        offset: usize,
        /// Bytes of the part, a multiple of 4 KiB.
        bytes: usize,
    },
}

impl HeapMemory {
    /// All of a region.
    #[must_use]
    pub fn region(region: Arc<Region>) -> Self {
        let bytes = region.len();
        Self::Region { region, offset: 0, bytes }
    }

    /// The kind in one word, as statistics show it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Dram { .. } => "dram",
            Self::Node { .. } => "node",
            Self::Region { .. } => "region",
        }
    }

    /// Bytes of addresses.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Dram { bytes } | Self::Node { bytes, .. } | Self::Region { bytes, .. } => *bytes,
        }
    }
}

/// Where the arena keeps what it knows of its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// In DRAM, wherever the data are: allocating touches nothing of a slow tier.
    Separate,
    /// In the heap's memory, beside the data. Over a region, a child process that is made by `fork`
    /// ends at once.
    Together,
}

impl Metadata {
    /// The name in one word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Separate => "separate",
            Self::Together => "together",
        }
    }
}

/// How an arena takes memory, and whether it gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retain {
    /// It takes the range's addresses at once, splits them, and keeps them for itself.
    On {
        /// Bytes of the largest extent that it takes ahead of need of what is left of the range,
        /// where that is not a length that objects have or holds metadata.
        growth_bytes_max: usize,
    },
    /// It takes what each request needs, and gives back what is freed.
    Off,
}

impl Default for Retain {
    /// On, with extents of at most 8 MiB.
    fn default() -> Self {
        Self::On { growth_bytes_max: 8 << 20 }
    }
}

/// How a heap is set up.
#[derive(Clone, Debug)]
pub struct HeapConfig {
    /// Its name in errors, statistics and the ledger.
    pub name: String,
    /// Where its bytes live.
    pub memory: HeapMemory,
    /// Where its metadata live.
    pub metadata: Metadata,
    /// How it takes memory.
    pub retain: Retain,
    /// Whether each thread keeps objects that it freed, up to 32 KiB each, for its next requests.
    pub thread_caches: bool,
    /// How long freed pages are kept before they are given back, in milliseconds, by a call that
    /// comes then or [`crate::Heap::decay`]; none: for good.
    pub decay_ms: Option<u32>,
    /// The budget that memory in use counts against. A region counts its blocks by itself, so a
    /// heap over one has none.
    pub ledger: Option<Ledger>,
}

impl HeapConfig {
    /// Metadata in DRAM, caches for threads, freed pages given back after a second, no ledger.
    #[must_use]
    pub fn new(name: impl Into<String>, memory: HeapMemory) -> Self {
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
        if let HeapMemory::Region { region, offset, bytes } = &self.memory {
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
