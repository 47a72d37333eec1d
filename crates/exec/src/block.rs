//! Blocks: batches stored in pages, in Arrow's own layout.
//!
//! Operators that read in order what they stored (sorted runs, the rows of a window, the build side
//! of a cross join) keep it in *blocks*. A block is one page with the buffers of some arrays one
//! after the other, 64-byte aligned; their offsets are kept beside it. Writing a block is a copy,
//! reading it back is zero-copy: the arrays' buffers are the pinned page. So any type of Arrow can
//! be stored, and its kernels compare and gather values in the page.
//!
//! A block that is not pinned is not charged to a grant. Dropping it frees its page.

pub(crate) mod batch;
mod plan;
mod shape;

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::buffer::{Buffer, MutableBuffer};
use terrace_pool::{Fetch, PAGE_MAX_BYTES, PageRef, Pinned, Space};

use crate::blocking::{allocate, pin};
use crate::error::{ExecError, Result};
use crate::memory::Grant;

pub use plan::BlockPlan;
pub(crate) use plan::{copy_to_heap, detach};
use shape::Shape;

/// Divisor of the DRAM that a single block must leave free, so that other pages fit beside it.
const BLOCK_RESERVE_SHARE: u64 = 4;
/// Bytes up to which a block is never refused.
const BLOCK_BYTES_SMALL: u64 = 1 << 20;

/// Bytes charged to a grant, which are released on drop.
#[derive(Debug)]
pub struct Lease {
    grant: Arc<dyn Grant>,
    bytes: u64,
    /// True if the bytes are charged as heap, false if as pages of the pool.
    is_heap: bool,
}

impl Lease {
    /// Asks `grant` for `bytes`; `None` if it refuses.
    pub fn ask(grant: &Arc<dyn Grant>, bytes: u64) -> Option<Self> {
        let asked = grant.try_grow(bytes);
        asked.then(|| Self { grant: Arc::clone(grant), bytes, is_heap: false })
    }

    /// As [`Lease::ask`], for batches that are not in pages of the pool.
    pub fn ask_heap(grant: &Arc<dyn Grant>, bytes: u64) -> Option<Self> {
        let asked = grant.try_grow_heap(bytes);
        asked.then(|| Self { grant: Arc::clone(grant), bytes, is_heap: true })
    }

    /// Charges `bytes` to `grant` even beyond its limit: for memory without which the operator
    /// cannot continue.
    pub fn take(grant: &Arc<dyn Grant>, bytes: u64) -> Self {
        grant.grow(bytes);
        Self { grant: Arc::clone(grant), bytes, is_heap: false }
    }

    /// As [`Lease::take`], for batches that are not in pages of the pool.
    pub fn take_heap(grant: &Arc<dyn Grant>, bytes: u64) -> Self {
        grant.grow_heap(bytes);
        Self { grant: Arc::clone(grant), bytes, is_heap: true }
    }

    /// Returns the bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the grant that the bytes are charged to.
    pub(crate) fn grant(&self) -> &Arc<dyn Grant> {
        &self.grant
    }

    /// Asks for `bytes` more; false if the grant refuses them.
    pub fn try_extend(&mut self, bytes: u64) -> bool {
        let extended = match self.is_heap {
            true => self.grant.try_grow_heap(bytes),
            false => self.grant.try_grow(bytes),
        };
        self.bytes += if extended { bytes } else { 0 };
        extended
    }

    /// Charges `bytes` more, even beyond the limit of the grant.
    pub fn extend(&mut self, bytes: u64) {
        match self.is_heap {
            true => self.grant.grow_heap(bytes),
            false => self.grant.grow(bytes),
        }
        self.bytes += bytes;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        match self.is_heap {
            true => self.grant.shrink_heap(self.bytes),
            false => self.grant.shrink(self.bytes),
        }
    }
}

/// Arrays of equal length in a page, which is freed on drop.
#[derive(Debug)]
pub struct Block {
    space: Space,
    /// One page, or several when the arrays are longer than the largest page.
    pages: Vec<PageRef>,
    bytes: u64,
    rows: usize,
    shapes: Vec<Shape>,
}

impl Block {
    /// Writes the arrays of `plan` into a new page of `space` and leaves it pinned.
    ///
    /// # Errors
    /// [`ExecError::BatchTooLarge`] if memory cannot hold it, and as [`Space::allocate`].
    pub fn write(space: &Space, plan: BlockPlan) -> Result<(Self, Vec<Pinned>)> {
        refuse_too_large(space, &plan)?;
        let mut block = Self {
            space: space.clone(),
            pages: Vec::new(),
            bytes: plan.bytes(),
            rows: plan.rows(),
            shapes: Vec::new(),
        };
        let mut pins = Vec::new();
        if plan.len() <= PAGE_MAX_BYTES {
            let (page, mut guard) = allocate(space, plan.len())?;
            block.pages.push(page);
            plan.copy_to(&mut guard);
            pins.push(guard.downgrade().pin());
        } else {
            let mut bytes = vec![0; plan.len()];
            plan.copy_to(&mut bytes);
            for part in bytes.chunks(PAGE_MAX_BYTES) {
                let (page, mut guard) = allocate(space, part.len())?;
                block.pages.push(page);
                guard[..part.len()].copy_from_slice(part);
                pins.push(guard.downgrade().pin());
            }
        }
        block.shapes = plan.into_shapes();
        Ok((block, pins))
    }

    /// Returns the number of rows of each array.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the bytes that the block holds while it is pinned.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Starts to load and pin the block's pages.
    pub fn fetch(&self) -> Fetch {
        self.space.fetch(&self.pages)
    }

    /// Starts to read the block into memory, without pinning it.
    pub fn prefetch(&self) {
        self.space.prefetch(&self.pages);
    }

    /// Waits for `fetch`, the block's own, and returns its pins; retries for about half a minute
    /// while all frames are held.
    ///
    /// # Errors
    /// As [`Fetch`], if frames did not come free in a long time.
    pub async fn pin(&self, fetch: Fetch) -> Result<Vec<Pinned>> {
        Ok(pin(&self.space, &self.pages, fetch).await?)
    }

    /// Returns the arrays. They refer to the pinned page, which stays pinned until the last of them
    /// is dropped; if the block has several pages, the arrays are copies on the heap.
    pub fn arrays(&self, pins: Vec<Pinned>) -> Vec<ArrayRef> {
        let bytes = match <[Pinned; 1]>::try_from(pins) {
            Ok([pin]) => Buffer::from(Bytes::from_owner(pin)),
            Err(pins) => {
                let mut bytes = MutableBuffer::new(pins.iter().map(|pin| pin.len()).sum());
                pins.iter().for_each(|pin| bytes.extend_from_slice(pin));
                Buffer::from(bytes)
            }
        };
        self.shapes.iter().map(|shape| shape.array(&bytes)).collect()
    }
}

/// Refuses a block that is larger than memory, instead of waiting for frames that never come free.
fn refuse_too_large(space: &Space, plan: &BlockPlan) -> Result<()> {
    let (rows, bytes) = (plan.rows(), plan.bytes());
    if bytes <= BLOCK_BYTES_SMALL {
        return Ok(());
    }
    let dram = space.pool_handle().stats().tiers.into_iter().next();
    let dram_bytes = dram.map_or(u64::MAX, |dram| dram.capacity_bytes);
    match bytes > dram_bytes - dram_bytes / BLOCK_RESERVE_SHARE {
        true => Err(ExecError::BatchTooLarge { rows, bytes, dram_bytes }),
        false => Ok(()),
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        for page in &self.pages {
            let freed = self.space.free(*page);
            debug_assert!(freed.is_ok(), "a page of this space: {freed:?}");
        }
    }
}
