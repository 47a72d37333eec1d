//! Where the bytes of a store's objects live.

use std::sync::Arc;

use terrace_region::{Advice, Region};
use terrace_sys::map::Mapping;
use terrace_sys::size::{format_bytes, to_u64};

use crate::error::ObjectError;
use crate::slabs::SLAB_BYTES;

/// Where the bytes of a store's objects live. What finds them is in DRAM always.
#[derive(Clone, Debug)]
pub enum ObjectMemory {
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
    /// All of a region: objects may be more than DRAM in sum.
    Region(Arc<Region>),
}

impl ObjectMemory {
    /// The kind in one word, as statistics show it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Dram { .. } => "dram",
            Self::Node { .. } => "node",
            Self::Region(_) => "region",
        }
    }

    /// Bytes of addresses.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Dram { bytes } | Self::Node { bytes, .. } => *bytes,
            Self::Region(region) => region.len(),
        }
    }
}

/// The memory itself. It gives out addresses; what lies there is the business of the groups.
pub(crate) enum Memory {
    Mapped { mapping: Mapping, len: usize },
    Region(Arc<Region>),
}

impl Memory {
    pub(crate) fn new(memory: &ObjectMemory, huge: bool) -> Result<Self, ObjectError> {
        let len = memory.bytes();
        if len < SLAB_BYTES {
            let (has, least) = (format_bytes(to_u64(len)), format_bytes(to_u64(SLAB_BYTES)));
            return Err(ObjectError::Config(format!("memory of {has}: {least} is the least")));
        }
        let node = match memory {
            ObjectMemory::Region(region) => return Ok(Self::Region(Arc::clone(region))),
            ObjectMemory::Dram { .. } => None,
            ObjectMemory::Node { node, .. } => Some(*node),
        };
        let failed = |what: &str| {
            let what = format!("{what} of {} for objects", format_bytes(to_u64(len)));
            move |source| ObjectError::Memory { what, source }
        };
        let mapping = Mapping::reserve(len).map_err(failed("addresses"))?;
        if let Some(node) = node {
            mapping.bind(node).map_err(failed(&format!("memory on node {node}")))?;
        }
        if huge {
            // Without them objects are found as well, some 15 % more slowly.
            let _ = mapping.advise_huge(true);
        }
        Ok(Self::Mapped { mapping, len })
    }

    #[inline]
    pub(crate) fn start(&self) -> *mut u8 {
        match self {
            Self::Mapped { mapping, .. } => mapping.as_ptr(),
            Self::Region(region) => region.as_ptr(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Mapped { len, .. } => *len,
            Self::Region(region) => region.len(),
        }
    }

    /// Nobody needs these bytes any more. They may still be read by who looks before it asks
    /// whether it should have, and are then zeros or what they were.
    pub(crate) fn give_up(&self, offset: usize, len: usize) {
        match self {
            // Miri sees such a reader as a race with whoever writes zeros in the kernel's place.
            Self::Mapped { .. } if cfg!(miri) => {}
            Self::Mapped { mapping, .. } => {
                // Pages that are locked in memory stay: they are used again all the same.
                let _ = mapping.decommit(offset, len);
            }
            Self::Region(region) => advise(region, offset, len, Advice::Unused),
        }
    }

    /// The bytes are used from here on.
    pub(crate) fn take(&self, offset: usize, len: usize) {
        if let Self::Region(region) = self {
            advise(region, offset, len, Advice::Used);
        }
    }
}

fn advise(region: &Region, offset: usize, len: usize, advice: Advice) {
    let told = region.advise(to_u64(offset), to_u64(len), advice);
    debug_assert!(told.is_ok(), "slabs lie in their region: {told:?}");
}
