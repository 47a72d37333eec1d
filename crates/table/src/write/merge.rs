//! Merging of small chunks. Many INSERTs of few rows leave as many chunks, each with a page and an
//! extent of at least 4 KiB per column. A merge rewrites neighbouring chunks as one.
//!
//! Chunks are chosen by size-tiered compaction, as in log-structured merge trees: going back from a
//! chunk, older ones join while they hold no more rows than the newer ones together, and a merge
//! waits until [`WIDTH_MIN`] have come together. So a row is rewritten only when its chunk at least
//! doubles, at most 16 times on its way to a chunk of 65,536 rows, and the number of small chunks
//! of a table hardly exceeds the number of binary digits of their rows. A run of small chunks that
//! is followed by a full chunk cannot grow any more: all of it is merged. Only neighbours are
//! merged, which keeps the order of rows.
//!
//! A merge reads without a lock, as any reader does. It takes the writer's lock of the table to
//! commit, and gives up if a statement has removed one of its chunks meanwhile, or a transaction
//! has rewritten rows of the table: a merge never undoes an UPDATE, DELETE or TRUNCATE, and neither
//! a statement that holds the lock nor such a transaction sees chunks disappear.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::execution::memory_pool::MemoryPool;
use futures::future::LocalBoxFuture;
use terrace_sys::size::to_u64;

use super::chunk_writer::ChunkWriter;
use super::merge_queue::{Mergeable, Merged};
use super::read::next_batch;
use crate::chunk::{CHUNK_BYTES, CHUNK_ROWS, Chunk};
use crate::error::SqlError;
use crate::table::{Table, TableVersion};

/// Minimum number of chunks to merge in a run that still grows.
pub(crate) const WIDTH_MIN: usize = 8;
/// Maximum number of chunks per merge, which bounds the size of its commit.
const WIDTH_MAX: usize = 4_096;
/// A chunk of at least this many rows or encoded bytes, or one whose writer had no room for the
/// next row, is never merged.
const SMALL_ROWS: usize = CHUNK_ROWS / 2;
const SMALL_BYTES: usize = CHUNK_BYTES / 4;
/// Number of batches that are copied into one before they are written: those of small chunks pin a
/// page for each column.
const GATHERED_BATCHES: usize = 64;
/// Number of times that merging on demand tries again after a conflict with a statement.
const CONFLICTS_MAX: usize = 3;

/// Properties of a chunk that decide about its merge.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Size {
    rows: usize,
    /// Encoded bytes of all columns.
    bytes: u64,
    /// True if it may be merged with other chunks.
    is_small: bool,
}

impl Size {
    fn of(chunk: &Chunk) -> Self {
        let bytes = match chunk.is_full {
            true => 0,
            false => chunk.columns.iter().map(|column| column.len_bytes()).sum(),
        };
        let is_small = !chunk.is_full && chunk.rows < SMALL_ROWS && bytes < to_u64(SMALL_BYTES);
        Self { rows: chunk.rows, bytes, is_small }
    }
}

/// Returns the range of neighbouring chunks to be merged next by size-tiered compaction; `None` if
/// no merge is worth its cost.
fn pick(sizes: &[Size]) -> Option<Range<usize>> {
    let open = sizes.iter().rposition(|size| !size.is_small).map_or(0, |last| last + 1);
    for end in (open + 1..=sizes.len()).rev() {
        let width = newest_tier(&sizes[open..end]);
        if width > 0 {
            return Some(end - width..end);
        }
    }
    let mut begin = 0;
    for (at, size) in sizes[..open].iter().enumerate() {
        if !size.is_small {
            if at - begin > 1 {
                return Some(begin..begin + fitting(&sizes[begin..at]).max(2));
            }
            begin = at + 1;
        }
    }
    None
}

/// Returns the range of the first neighbouring chunks that are small, even if merging them is not
/// worth its cost.
fn pick_any(sizes: &[Size]) -> Option<Range<usize>> {
    let begin = sizes.windows(2).position(|pair| pair.iter().all(|size| size.is_small))?;
    let run = sizes[begin..].iter().take_while(|size| size.is_small).count();
    Some(begin..begin + fitting(&sizes[begin..begin + run]).max(2))
}

/// Function that chooses the range of neighbouring chunks to be merged next.
type Pick = fn(&[Size]) -> Option<Range<usize>>;

/// Sum of the rows and bytes of chunks, limited to those of one chunk.
#[derive(Default)]
struct Sum {
    rows: usize,
    bytes: u64,
}

impl Sum {
    /// Adds a chunk. Returns false if the sum has no room for it.
    fn add(&mut self, size: &Size) -> bool {
        let (rows, bytes) = (self.rows + size.rows, self.bytes + size.bytes);
        if rows > CHUNK_ROWS || bytes > to_u64(CHUNK_BYTES) {
            return false;
        }
        (self.rows, self.bytes) = (rows, bytes);
        true
    }
}

/// Returns the number of chunks to be merged, counted from the newest: those of one tier, if they
/// are enough or fill a chunk. The newest chunk is not rewritten to add fewer rows than its own.
fn newest_tier(sizes: &[Size]) -> usize {
    let (mut sum, mut width, mut fills) = (Sum::default(), 0, false);
    for size in sizes.iter().rev().take(WIDTH_MAX) {
        if width > 0 && size.rows > sum.rows {
            break;
        }
        if !sum.add(size) {
            fills = true;
            break;
        }
        width += 1;
    }
    let is_enough = width >= WIDTH_MIN || fills && width > 1;
    let newest = sizes.last().map_or(0, |size| size.rows);
    if is_enough && newest <= sum.rows - newest { width } else { 0 }
}

/// Returns the number of chunks, counted from the oldest, whose rows fit into one chunk.
fn fitting(sizes: &[Size]) -> usize {
    let mut sum = Sum::default();
    sizes.iter().take(WIDTH_MAX).take_while(|size| sum.add(size)).count()
}

impl Table {
    /// Returns true if some of its chunks are worth a merge.
    pub(crate) fn wants_merge(&self) -> bool {
        !self.is_dropped() && self.pick(&self.snapshot(), pick).is_some()
    }

    /// Returns the number of chunks that a merge might take now or later.
    pub fn small_chunks(&self) -> usize {
        self.snapshot().chunks.iter().filter(|chunk| Size::of(chunk).is_small).count()
    }

    fn pick(&self, version: &TableVersion, pick: Pick) -> Option<Range<usize>> {
        // A placement requested for a single chunk holds for as long as the chunk exists.
        let fixed = self.placement_requests().chunks();
        let sizes = version.chunks.iter().map(|chunk| {
            let size = Size::of(chunk);
            Size { is_small: size.is_small && !fixed.contains(&chunk.id), ..size }
        });
        pick(&sizes.collect::<Vec<_>>())
    }

    /// Merges the range of small chunks that size-tiered compaction chooses next, if there is one.
    /// `is_stopped` is polled between chunks.
    ///
    /// # Errors
    /// Errors of the pool, the store and the catalog. Then nothing has changed.
    pub(crate) async fn merge_some(
        self: &Arc<Self>,
        memory: &Arc<dyn MemoryPool>,
        is_stopped: impl Fn() -> bool,
    ) -> Result<Merged, SqlError> {
        self.merge_picked(memory, is_stopped, pick).await
    }

    /// Merges neighbouring small chunks until no two of them are left, even if that is not worth
    /// its cost. Ends early if statements keep removing them meanwhile, or if a transaction has
    /// rewritten rows of the table.
    ///
    /// # Errors
    /// Errors of the pool, the store and the catalog. Then earlier merges stay.
    pub async fn merge_small(
        self: &Arc<Self>,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<(), SqlError> {
        let mut conflicts = 0;
        // Each merge leaves fewer chunks, unless memory is too short to write them as one.
        for _ in 0..self.current()?.chunks.len() {
            match self.merge_picked(memory, || false, pick_any).await? {
                Merged::Done => {}
                Merged::Conflict if conflicts < CONFLICTS_MAX => conflicts += 1,
                Merged::Conflict | Merged::Nothing | Merged::Stopped => break,
            }
        }
        Ok(())
    }

    /// Merges the range of chunks that `pick` chooses in the current version, if it chooses one.
    async fn merge_picked(
        self: &Arc<Self>,
        memory: &Arc<dyn MemoryPool>,
        is_stopped: impl Fn() -> bool,
        pick: Pick,
    ) -> Result<Merged, SqlError> {
        let version = self.current()?;
        let Some(range) = self.pick(&version, pick) else { return Ok(Merged::Nothing) };
        // The version is dropped: its other chunks may be replaced while this runs.
        let chunks = version.chunks[range].to_vec();
        drop(version);
        let Some(writer) = self.rewrite_chunks(&chunks, memory, is_stopped).await? else {
            return Ok(Merged::Stopped);
        };
        let changes = writer.finish().await?;
        let lock = self.lock_writer().await;
        let now = self.current()?;
        // Chunk ids are not reused.
        let here: HashSet<u64> = now.chunks.iter().map(|chunk| chunk.id).collect();
        // A transaction that has rewritten chunks relies on the others to stay until it commits.
        let is_locked = self.locks().is_in_transaction(self.as_ref());
        if is_locked || !chunks.iter().all(|chunk| here.contains(&chunk.id)) {
            self.merged().conflicts.fetch_add(1, Ordering::Relaxed);
            return Ok(Merged::Conflict);
        }
        drop(now);
        let written: Vec<_> = changes.added().map(Arc::clone).collect();
        let removed = chunks.iter().map(|chunk| chunk.id).collect();
        self.commit(lock, changes.merging(removed)).await?;
        self.merged().count(&chunks, &written);
        Ok(Merged::Done)
    }

    /// Rewrites the rows of `chunks`; returns `None` if it was stopped.
    async fn rewrite_chunks(
        self: &Arc<Self>,
        chunks: &[Arc<Chunk>],
        memory: &Arc<dyn MemoryPool>,
        is_stopped: impl Fn() -> bool,
    ) -> Result<Option<ChunkWriter>, SqlError> {
        let place = chunks.first().map_or(0, |chunk| chunk.place);
        let mut writer = ChunkWriter::new(Arc::clone(self), memory).at(place).unchecked();
        let reader = self.reader((0..self.schema().fields().len()).collect())?;
        let mut batches = Vec::new();
        for chunk in chunks {
            if is_stopped() {
                return Ok(None);
            }
            let mut blocks = reader.open(chunk).await?;
            while let Some(batch) = next_batch(&mut blocks, reader.schema()).await? {
                batches.push(batch);
                if batches.len() == GATHERED_BATCHES {
                    push(&mut writer, &mut batches).await?;
                }
            }
        }
        push(&mut writer, &mut batches).await?;
        Ok(Some(writer))
    }
}

impl Mergeable for Table {
    fn id(&self) -> u64 {
        self.id()
    }

    fn full_name(&self) -> String {
        self.full_name()
    }

    fn wants_merge(&self) -> bool {
        self.wants_merge()
    }

    fn has_transactions(&self) -> bool {
        self.locks().has_transactions()
    }

    fn merge<'a>(
        self: Arc<Self>,
        memory: &'a Arc<dyn MemoryPool>,
        is_stopped: &'a dyn Fn() -> bool,
    ) -> LocalBoxFuture<'a, Result<Merged, SqlError>> {
        Box::pin(async move { self.merge_some(memory, is_stopped).await })
    }

    fn count_failure(&self) {
        self.merged().failed();
    }
}

/// Writes batches as one, or one by one if they cannot be joined.
async fn push(writer: &mut ChunkWriter, batches: &mut Vec<RecordBatch>) -> Result<(), SqlError> {
    let batches = std::mem::take(batches);
    let Some(first) = batches.first() else { return Ok(()) };
    if let Ok(joined) = concat_batches(&first.schema(), &batches) {
        drop(batches);
        return writer.push(joined).await;
    }
    for batch in batches {
        writer.push(batch).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use terrace_testkit::{Rng, with_seed};

    use super::*;

    /// Chunks of a table, and the number of rows that were written to them, including by merges.
    #[derive(Default)]
    struct Model {
        sizes: Vec<Size>,
        written: usize,
        inserted: usize,
    }

    impl Model {
        fn insert(&mut self, mut rows: usize) {
            self.inserted += rows;
            while rows > 0 {
                let taken = rows.min(CHUNK_ROWS);
                self.push(self.sizes.len(), taken);
                rows -= taken;
            }
        }

        fn push(&mut self, at: usize, rows: usize) {
            self.written += rows;
            let is_small = rows < SMALL_ROWS;
            self.sizes.insert(at, Size { rows, bytes: to_u64(rows), is_small });
        }

        /// Merges chunks that are worth it, once or until none are.
        fn merge(&mut self, again: bool) {
            while let Some(range) = pick(&self.sizes) {
                assert!(range.len() > 1 && range.end <= self.sizes.len());
                let merged: Vec<Size> = self.sizes.drain(range.clone()).collect();
                assert!(merged.iter().all(|size| size.is_small));
                let rows: usize = merged.iter().map(|size| size.rows).sum();
                for (nth, taken) in (0..rows).step_by(CHUNK_ROWS).enumerate() {
                    self.push(range.start + nth, (rows - taken).min(CHUNK_ROWS));
                }
                assert!(self.sizes.iter().map(|size| size.rows).sum::<usize>() == self.inserted);
                if !again {
                    break;
                }
            }
        }
    }

    #[test]
    fn single_rows_leave_few_chunks_and_are_written_a_few_times() {
        for each in [1, 23] {
            let mut model = Model::default();
            for row in 1..=100_000 {
                model.insert(1);
                if row % each == 0 {
                    model.merge(true);
                    assert!(model.sizes.len() < 40, "{} at {row}", model.sizes.len());
                }
            }
            let factor = model.written / model.inserted;
            assert!(factor <= 12, "each row was written {factor} times, merged each {each}");
        }
    }

    #[test]
    fn chunks_stay_few_whatever_is_inserted() {
        with_seed(|seed| {
            let mut rng = Rng::new(seed);
            for _ in 0..50 {
                let mut model = Model::default();
                let most = [2, 100, 10_000, 40_000, 200_000][rng.index(5)];
                for _ in 0..400 {
                    model.insert(1 + rng.index(most));
                    model.merge(rng.one_in(2));
                }
                model.merge(true);
                let bulk = model.inserted.div_ceil(CHUNK_ROWS);
                let (chunks, factor) = (model.sizes.len(), model.written / model.inserted);
                assert!(chunks <= 3 * bulk + 40, "{chunks} chunks for {bulk}, up to {most}");
                assert!(factor <= 16, "written {factor} times, up to {most}");
            }
        });
    }

    #[test]
    fn a_database_of_single_rows_is_merged_at_once() {
        let mut model = Model::default();
        (0..10_000).for_each(|_| model.insert(1));
        model.merge(true);
        assert!(model.sizes.len() < 10 && model.written <= 4 * model.inserted);
    }

    #[test]
    fn large_and_full_chunks_are_left_alone() {
        let size = |rows, is_small| Size { rows, bytes: 1, is_small };
        let (large, small) = (size(CHUNK_ROWS, false), size(1, true));
        assert_eq!(pick(&[]), None);
        assert_eq!(pick(&[large; 100]), None);
        assert_eq!(pick(&[large, small, large, small]), None, "no neighbours");
        assert_eq!(pick(&[small, large, small, small, large, small]), Some(2..4));
        assert_eq!(pick(&[small; 7]), None);
        assert_eq!(pick(&[[large; 1].as_slice(), &[small; 8]].concat()), Some(1..9));
        let hidden = [[small; 45].as_slice(), &[size(10_000, true)], &[small; 3]].concat();
        assert_eq!(pick(&hidden), Some(0..45), "behind one that is not written again for them");
        let wide = Size { rows: 10, bytes: to_u64(SMALL_BYTES) - 1, is_small: true };
        assert_eq!(pick(&[wide; 9]), Some(5..9), "they fill a chunk by their bytes");
    }
}
