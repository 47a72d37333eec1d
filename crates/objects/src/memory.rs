//! Where the bytes of a store's objects live.

use std::sync::Arc;

use terrace_region::{Advice, Part, Region};
use terrace_sys::identity::ProcessMark;
use terrace_sys::map::Mapping;
use terrace_sys::size::{PAGE_BYTES, format_bytes, to_u64};

use crate::error::ObjectError;
use crate::group::START_BITS;
use crate::slabs::{GRANULE_BYTES, SLAB_BYTES};

/// What groups can say of where their runs begin: 4 TiB.
const MEMORY_BYTES_MAX: usize = GRANULE_BYTES << START_BITS;

/// Where the bytes of a store's objects live, at most 4 TiB. What finds them is in DRAM always.
///
/// Objects of more than 2 MiB take whole slabs of 2 MiB.
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
    /// A part of a region: objects may be more than DRAM in sum. Several stores may share a region,
    /// each with a part of its own.
    Region {
        /// The region.
        region: Arc<Region>,
        /// Where the part begins, a multiple of 4 KiB.
        offset: usize,
        /// Bytes of the part.
        bytes: usize,
    },
}

impl ObjectMemory {
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

/// The memory itself. It gives out addresses; what lies there is the business of the groups.
pub(crate) enum Memory {
    Mapped {
        mapping: Mapping,
        len: usize,
    },
    /// With the process whose threads answer for the region.
    Region(Part, ProcessMark),
}

impl Memory {
    pub(crate) fn new(memory: &ObjectMemory, huge: bool) -> Result<Self, ObjectError> {
        let len = memory.bytes();
        if len < SLAB_BYTES {
            let (has, least) = (format_bytes(to_u64(len)), format_bytes(to_u64(SLAB_BYTES)));
            return Err(ObjectError::Config(format!("memory of {has}: {least} is the least")));
        }
        if len > MEMORY_BYTES_MAX {
            let (has, most) = (format_bytes(to_u64(len)), format_bytes(to_u64(MEMORY_BYTES_MAX)));
            return Err(ObjectError::Config(format!("memory of {has}: {most} is the most")));
        }
        let node = match memory {
            ObjectMemory::Region { region, offset, .. } => return part(region, *offset, len),
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
            Self::Region(part, _) => part.as_ptr(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Mapped { len, .. } => *len,
            Self::Region(part, _) => part.len(),
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
            Self::Region(part, _) => advise(part, offset, len, Advice::Unused),
        }
    }

    /// The bytes are used from here on.
    pub(crate) fn take(&self, offset: usize, len: usize) {
        if let Self::Region(part, _) = self {
            advise(part, offset, len, Advice::Used);
        }
    }

    /// Nobody needs the first `len` bytes any more, and who has the region may use them. A child
    /// of the process (fork) has no part in the region.
    pub(crate) fn end(&self, len: usize) {
        if let Self::Region(part, owner) = self
            && owner.is_here()
        {
            advise(part, 0, len, Advice::Unused);
            let region = part.region();
            if let Err(error) = region.evict(to_u64(part.offset()), to_u64(len)) {
                tracing::warn!(region = region.name(), %error, "ended objects stay in memory");
            }
            advise(part, 0, len, Advice::Used);
        }
    }
}

fn part(region: &Arc<Region>, offset: usize, len: usize) -> Result<Memory, ObjectError> {
    let end = offset.checked_add(len);
    if !offset.is_multiple_of(PAGE_BYTES) || end.is_none_or(|end| end > region.len()) {
        return Err(ObjectError::Config(format!(
            "{len} bytes at {offset} are no pages of region {}, which has {}",
            region.name(),
            region.len()
        )));
    }
    let part = Part::take(region, "an object store", offset, len);
    let part = part.map_err(|error| ObjectError::Config(error.to_string()))?;
    // Whatever was said of them before.
    advise(&part, 0, len, Advice::Used);
    Ok(Memory::Region(part, ProcessMark::new()))
}

fn advise(part: &Part, offset: usize, len: usize, advice: Advice) {
    let told = part.advise(offset, len, advice);
    debug_assert!(told.is_ok(), "slabs lie in their region: {told:?}");
}
