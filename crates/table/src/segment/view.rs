//! Compaction of string and binary views: keeps the bytes that the rows of a block use, each value
//! once if it is repeated nearby, and rewrites the views to point to them.

use datafusion::arrow::array::{Array, GenericByteViewArray};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::ByteViewType;

use super::error::SegmentError;
use super::format::{narrow, wide};
use crate::sketch::hash_bytes;

/// Maximum length of a value that is stored inside its view.
const INLINE_BYTES: u32 = 12;
/// Entries of the table of recent values. Columns with few distinct long values (a ship
/// instruction, a clerk) shrink to those values; the table fits the L1 cache.
const RECENT: usize = 1024;
/// Number of look-ups after which the table is dropped for a column without repeated values.
const TRIAL: u32 = 1024;
/// The table stays in use if at least one look-up in this many was a hit.
const WORTHWHILE: u32 = 8;

/// Bytes to copy from one of the array's data buffers.
#[derive(Copy, Clone, Debug)]
pub(super) struct Run {
    buffer: u32,
    offset: u32,
    len: u32,
}

/// The compacted form of a view array.
pub(super) struct Compacted {
    /// Views, which point into one data buffer.
    pub views: Buffer,
    /// Runs that this buffer consists of.
    pub runs: Vec<Run>,
    /// Length of the buffer.
    pub len: usize,
}

/// Rewrites the views of `array` to point into one buffer without dead bytes.
///
/// # Errors
/// [`SegmentError::TooLong`] if that buffer would exceed 4 GiB.
pub(super) fn compact<T: ByteViewType>(
    array: &GenericByteViewArray<T>,
) -> Result<Compacted, SegmentError> {
    let mut compactor = Compactor::new(array.data_buffers());
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let mut views = Vec::with_capacity(array.len());
    for (row, &view) in array.views().iter().enumerate() {
        let null = nulls.is_some_and(|nulls| nulls.is_null(row));
        views.push(if null { 0 } else { compactor.place(view)? });
    }
    let Compactor { runs, len, .. } = compactor;
    Ok(Compacted { views: Buffer::from_vec(views), runs, len })
}

/// Copies the runs into `out`, which has exactly their length.
pub(super) fn write_runs(buffers: &[Buffer], runs: &[Run], out: &mut [u8]) {
    let mut at = 0;
    for run in runs {
        let (offset, len) = (wide(run.offset), wide(run.len));
        let source = &buffers[wide(run.buffer)].as_slice()[offset..offset + len];
        out[at..at + len].copy_from_slice(source);
        at += len;
    }
}

struct Compactor<'a> {
    buffers: &'a [Buffer],
    runs: Vec<Run>,
    len: usize,
    recent: Option<Box<[Option<Seen>; RECENT]>>,
    lookups: u32,
    hits: u32,
}

/// An entry of the table of recent values: source and destination of the value.
#[derive(Copy, Clone)]
struct Seen {
    source: Run,
    offset: u32,
}

impl<'a> Compactor<'a> {
    fn new(buffers: &'a [Buffer]) -> Self {
        let recent = (!buffers.is_empty()).then(|| Box::new([None; RECENT]));
        Self { buffers, runs: Vec::new(), len: 0, recent, lookups: 0, hits: 0 }
    }

    /// Returns the view that replaces `view` in the compacted array.
    fn place(&mut self, view: u128) -> Result<u128, SegmentError> {
        // A view is, from the lowest bits: length, four bytes of prefix, buffer, offset; or the
        // length and up to twelve bytes of the value.
        #[expect(clippy::cast_possible_truncation, reason = "the four fields of a view")]
        let [len, prefix, buffer, offset] =
            [view as u32, (view >> 32) as u32, (view >> 64) as u32, (view >> 96) as u32];
        if len <= INLINE_BYTES {
            return Ok(view);
        }
        let offset = self.offset_of(Run { buffer, offset, len })?;
        Ok(u128::from(len) | u128::from(prefix) << 32 | u128::from(offset) << 96)
    }

    /// Returns the offset of the bytes of `source` in the compacted buffer.
    fn offset_of(&mut self, source: Run) -> Result<u32, SegmentError> {
        let slot = self.recent.is_some().then(|| self.slot_of(source));
        if let Some(offset) = slot.and_then(|slot| self.find(slot, source)) {
            return Ok(offset);
        }
        let offset = narrow(self.len)?;
        self.len += wide(source.len);
        self.append(source);
        if let (Some(recent), Some(slot)) = (&mut self.recent, slot) {
            recent[slot] = Some(Seen { source, offset });
        }
        self.give_up_if_fruitless();
        Ok(offset)
    }

    fn slot_of(&self, source: Run) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "only the low bits are wanted")]
        let hash = hash_bytes(self.bytes(source)) as usize;
        hash % RECENT
    }

    fn find(&mut self, slot: usize, source: Run) -> Option<u32> {
        self.lookups += 1;
        let seen = self.recent.as_ref().and_then(|recent| recent[slot])?;
        if self.bytes(seen.source) != self.bytes(source) {
            return None;
        }
        self.hits += 1;
        Some(seen.offset)
    }

    fn give_up_if_fruitless(&mut self) {
        if self.lookups >= TRIAL && self.hits < self.lookups / WORTHWHILE {
            self.recent = None;
        }
    }

    fn bytes(&self, run: Run) -> &'a [u8] {
        let offset = wide(run.offset);
        &self.buffers[wide(run.buffer)].as_slice()[offset..offset + wide(run.len)]
    }

    /// Adds a run, joined to the previous one if they are adjacent.
    fn append(&mut self, run: Run) {
        match self.runs.last_mut() {
            Some(last)
                if last.buffer == run.buffer
                    && last.offset.checked_add(last.len) == Some(run.offset)
                    && last.len.checked_add(run.len).is_some() =>
            {
                last.len += run.len;
            }
            _ => self.runs.push(run),
        }
    }
}
