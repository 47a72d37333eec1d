//! Memory that holds the bytes of a store's objects.

use std::sync::Arc;

use terrace_region::{Advice, Backing, Part, Region};
use terrace_sys::identity::ProcessMark;
use terrace_sys::map::Mapping;
use terrace_sys::size::{PAGE_BYTES, format_bytes, to_u64};

use crate::error::ObjectError;
use crate::groups::run::{GRANULE_BYTES, SLAB_BYTES, START_BITS};

/// Largest memory that the first granule in a group's run word can address: 4 TiB.
const MEMORY_BYTES_MAX: usize = GRANULE_BYTES << START_BITS;

/// Memory of the slabs.
pub(crate) enum Memory {
    Mapped {
        mapping: Mapping,
        len: usize,
    },
    /// A part of a region, and the process whose threads handle the region's page faults.
    Region(Part, ProcessMark),
}

impl Memory {
    pub(crate) fn new(memory: &Backing, huge: bool) -> Result<Self, ObjectError> {
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
            Backing::Region { region, offset, .. } => return part(region, *offset, len),
            Backing::Dram { .. } => None,
            Backing::Node { node, .. } => Some(*node),
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
            // Without huge pages everything works, some 15 % more slowly.
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

    /// Discards these bytes. An optimistic reader may still read them before it checks the version,
    /// and finds zeros or the old bytes.
    pub(crate) fn give_up(&self, offset: usize, len: usize) {
        match self {
            // Miri would see a race between such a reader and the write of zeros that stands for
            // the kernel's.
            Self::Mapped { .. } if cfg!(miri) => {}
            Self::Mapped { mapping, .. } => {
                // Pages that are locked in memory stay; they are used again all the same.
                let _ = mapping.decommit(offset, len);
            }
            Self::Region(part, _) => advise(part, offset, len, Advice::Unused),
        }
    }

    /// Marks the bytes as used from now on.
    pub(crate) fn take(&self, offset: usize, len: usize) {
        if let Self::Region(part, _) = self {
            advise(part, offset, len, Advice::Used);
        }
    }

    /// Discards the first `len` bytes, and leaves them to other users of the region. Does nothing
    /// in a child process (fork), which has no part in the region.
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
    // Overrides the advice given by an earlier user.
    advise(&part, 0, len, Advice::Used);
    Ok(Memory::Region(part, ProcessMark::new()))
}

fn advise(part: &Part, offset: usize, len: usize, advice: Advice) {
    let told = part.advise(offset, len, advice);
    debug_assert!(told.is_ok(), "slabs lie in their region: {told:?}");
}
