//! Memory behind a heap or a store of objects.

use std::sync::Arc;

use crate::Region;

/// Memory that holds the bytes of a heap or of a store of objects.
#[derive(Clone, Debug)]
pub enum Backing {
    /// Local memory: a range of addresses that takes memory as it is used.
    Dram {
        /// Bytes of address space to reserve.
        bytes: usize,
    },
    /// Memory of one NUMA node.
    Node {
        /// Number of the node.
        node: u32,
        /// Bytes of address space to reserve.
        bytes: usize,
    },
    /// A part of a region, which may be larger than DRAM. Several heaps and stores may share a
    /// region, each with an exclusive part.
    Region {
        /// The region.
        region: Arc<Region>,
        /// Offset of the part in the region, a multiple of 4 KiB.
        offset: usize,
        /// Bytes of the part, a multiple of 4 KiB.
        bytes: usize,
    },
}

impl Backing {
    /// Returns the memory of a whole region.
    #[must_use]
    pub fn region(region: Arc<Region>) -> Self {
        let bytes = region.len();
        Self::Region { region, offset: 0, bytes }
    }

    /// Returns the kind in one word, as statistics show it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Dram { .. } => "dram",
            Self::Node { .. } => "node",
            Self::Region { .. } => "region",
        }
    }

    /// Returns the bytes of address space.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Dram { bytes } | Self::Node { bytes, .. } | Self::Region { bytes, .. } => *bytes,
        }
    }
}
