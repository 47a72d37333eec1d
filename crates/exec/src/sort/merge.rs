//! k-way merge of runs to one stream of rows.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BinaryArray};
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::compute::interleave;
use terrace_pool::{Fetch, Space};

use super::key::SortKeys;
use super::piece::Sorted;
use super::run::{OpenBlock, Run};
use super::sizes::SortSizes;
use super::tree::Tree;
use crate::block::{Block, Lease, detach};
use crate::error::Result;
use crate::memory::Grant;
use crate::stream::give_way;

/// Maximum number of rows of a run's block.
const RUN_BLOCK_ROWS: usize = 1 << 16;

/// Position of a merge in one of its runs.
#[derive(Debug)]
struct Cursor {
    run: Run,
    block: Arc<OpenBlock>,
    prefixes: ScalarBuffer<u64>,
    row: usize,
    /// Index of `block` among the merge's sources.
    source: usize,
    /// The block after this one, being fetched.
    ahead: Option<(Lease, Fetch)>,
}

/// Context of a merge: its keys, pages, grant and sizes.
#[derive(Clone, Debug)]
pub(crate) struct MergeContext {
    pub(crate) keys: Arc<SortKeys>,
    pub(crate) space: Space,
    pub(crate) grant: Arc<dyn Grant>,
    /// Number of columns of a row in a block, before its keys.
    pub(crate) width: usize,
    pub(crate) sizes: SortSizes,
}

/// A merge of runs whose first blocks are pinned.
#[derive(Debug)]
pub(crate) struct Merge {
    context: MergeContext,
    cursors: Vec<Cursor>,
    tree: Tree,
    /// The blocks that `picks` are from: the cursors' and those just exhausted.
    sources: Vec<Arc<OpenBlock>>,
    picks: Vec<(usize, usize)>,
}

/// Result of a merge of runs.
pub(crate) struct Merged {
    pub(crate) run: Run,
    /// The columns of its last row.
    pub(crate) last: Option<Vec<ArrayRef>>,
    /// Remaining runs that were not merged, because the query was suspended.
    pub(crate) rest: Vec<Run>,
}

impl Merge {
    /// Opens a merge of `runs`. `leases` are for the first blocks of those runs that are not
    /// pinned, in their order; missing ones are taken beyond the grant.
    ///
    /// # Errors
    /// If a block cannot be read.
    pub(crate) async fn open(
        context: MergeContext,
        runs: Vec<Run>,
        leases: Vec<Lease>,
    ) -> Result<Self> {
        let closed = runs.iter().filter(|run| run.open.is_none());
        let fetches: VecDeque<Fetch> =
            closed.filter_map(|run| run.blocks.front().map(Block::fetch)).collect();
        let mut on_their_way = leases.into_iter().zip(fetches);
        let mut cursors = Vec::with_capacity(runs.len());
        for mut run in runs {
            let Some(front) = run.blocks.front() else { continue };
            let block = match run.open.take() {
                Some(open) => open,
                None => {
                    let (lease, fetch) = on_their_way.next().unwrap_or_else(|| {
                        (Lease::take(&context.grant, front.bytes()), front.fetch())
                    });
                    let pins = front.pin(fetch).await?;
                    Arc::new(OpenBlock::new(front, pins, context.width, lease))
                }
            };
            let (row, source) = (run.skip, cursors.len());
            let prefixes = block.prefixes.clone();
            let mut cursor = Cursor { run, block, prefixes, row, source, ahead: None };
            cursor.look_ahead(&context.grant);
            cursors.push(cursor);
        }
        let sources = cursors.iter().map(|cursor| Arc::clone(&cursor.block)).collect();
        let heads: Vec<_> =
            cursors.iter().map(|cursor| cursor.prefixes.get(cursor.row).copied()).collect();
        let tree = Tree::new(&heads, |prefix, left, right| {
            tie(&context.keys, &cursors, prefix, left, right)
        });
        Ok(Self { context, cursors, tree, sources, picks: Vec::new() })
    }

    /// Returns the number of runs that are merged.
    pub(crate) fn runs(&self) -> usize {
        self.cursors.len()
    }

    /// Releases the blocks that were fetched ahead of their use.
    pub(crate) fn stop_looking_ahead(&mut self) {
        self.cursors.iter_mut().for_each(|cursor| cursor.ahead = None);
    }

    /// Returns the rows not yet returned, as runs of which nothing is pinned.
    pub(crate) fn close(self) -> Vec<Run> {
        let rest = self.cursors.into_iter().filter(|cursor| !cursor.run.blocks.is_empty());
        rest.map(|cursor| Run { skip: cursor.row, open: None, ..cursor.run }).collect()
    }

    /// Returns the number of the next rows, `rows` or as many as remain, and all their columns;
    /// `None` at the end.
    ///
    /// # Errors
    /// If a block cannot be read, or the rows are too long for their type.
    pub(crate) async fn next_columns(
        &mut self,
        rows: usize,
    ) -> Result<Option<(usize, Vec<ArrayRef>)>> {
        self.pick(rows).await?;
        if self.picks.is_empty() {
            return Ok(None);
        }
        let columns = (0..self.context.width).map(|column| self.gather(column));
        let stored = columns.collect::<Result<Vec<_>>>()?;
        let keys = self.picks.iter().map(|(source, row)| self.sources[*source].key(*row));
        let columns = self.context.keys.restore(stored, keys)?;
        let count = self.picks.len();
        self.forget();
        Ok(Some((count, columns)))
    }

    /// Returns the next rows with their keys.
    async fn next_sorted(&mut self, rows: usize) -> Result<Option<Sorted>> {
        self.pick(rows).await?;
        if self.picks.is_empty() {
            return Ok(None);
        }
        let columns = (0..self.context.width).map(|column| self.gather(column));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let picks = self.picks.iter();
        let prefixes = picks.map(|(source, row)| self.sources[*source].prefixes[*row]).collect();
        let encoded = self.gather_keys()?;
        self.forget();
        Ok(Some(Sorted { columns, prefixes, encoded }))
    }

    /// Merges the runs into one run of small blocks that are not pinned; with `limit` only that
    /// many first rows. If the query is suspended, it unpins everything, waits, and returns the
    /// run so far with the runs that remain.
    ///
    /// # Errors
    /// As [`Merge::next_columns`], and if a page cannot be allocated.
    pub(crate) async fn into_run(mut self, limit: Option<usize>) -> Result<Merged> {
        let (mut rows, mut bytes) = (0, 0);
        for cursor in &self.cursors {
            rows += cursor.run.rows();
            bytes += cursor.run.bytes();
        }
        let row_bytes = (bytes / (rows as u64).max(1)).max(1);
        let block_rows =
            usize::try_from(self.context.sizes.block_bytes / row_bytes).unwrap_or(RUN_BLOCK_ROWS);
        let block_rows = block_rows.clamp(1, RUN_BLOCK_ROWS);
        let grant = Arc::clone(&self.context.grant);
        let mut left = limit.unwrap_or(usize::MAX);
        let (mut run, mut last) = (Run::default(), None);
        while left > 0
            && let Some(sorted) = self.next_sorted(block_rows.min(left)).await?
        {
            left -= sorted.rows();
            last = Some(sorted.last_row(&self.context.keys)?);
            let plan = sorted.plan()?;
            let lease = Lease::take(&grant, plan.bytes());
            let (block, pins) = Block::write(&self.context.space, plan)?;
            grant.count_spilled(block.bytes());
            run.blocks.push_back(block);
            drop((pins, lease));
            if let Some(resumed) = grant.suspended().filter(|_| left > 0) {
                let rest = self.close();
                resumed.await;
                return Ok(Merged { run, last, rest });
            }
            give_way().await;
        }
        Ok(Merged { run, last, rest: Vec::new() })
    }

    /// Picks rows until there are `rows` or no more.
    async fn pick(&mut self, rows: usize) -> Result<()> {
        self.picks.reserve(rows.saturating_sub(self.picks.len()));
        while let Some(exhausted) = self.pick_while_pinned(rows) {
            let cursor = &mut self.cursors[exhausted];
            let head = if cursor.advance(&self.context).await? {
                cursor.source = self.sources.len();
                self.sources.push(Arc::clone(&cursor.block));
                cursor.prefixes.first().copied()
            } else {
                None
            };
            let (keys, cursors) = (&self.context.keys, &self.cursors);
            self.tree.replay(exhausted, head, |prefix, left, right| {
                tie(keys, cursors, prefix, left, right)
            });
        }
        Ok(())
    }

    /// Picks rows until there are enough, or until one run is at the end of its block: returns that
    /// run.
    fn pick_while_pinned(&mut self, rows: usize) -> Option<usize> {
        let Self { context, cursors, tree, picks, .. } = self;
        while picks.len() < rows {
            let winner = tree.winner()?;
            let cursor = &mut cursors[winner];
            picks.push((cursor.source, cursor.row));
            cursor.row += 1;
            let head = cursor.prefixes.get(cursor.row).copied();
            if head.is_none() {
                return Some(winner);
            }
            let (keys, cursors) = (&context.keys, &*cursors);
            tree.replay(winner, head, |prefix, left, right| {
                tie(keys, cursors, prefix, left, right)
            });
        }
        None
    }

    fn gather(&self, column: usize) -> Result<ArrayRef> {
        let arrays: Vec<&dyn Array> =
            self.sources.iter().map(|source| source.columns[column].as_ref()).collect();
        let gathered = interleave(&arrays, &self.picks)?;
        // The result must not refer to the pages, and so keep them pinned.
        detach(gathered)
    }

    fn gather_keys(&self) -> Result<Option<BinaryArray>> {
        if self.sources.iter().all(|source| source.encoded.is_none()) {
            return Ok(None);
        }
        let none = BinaryArray::from(vec![&b""[..]]);
        let arrays: Vec<&dyn Array> = self
            .sources
            .iter()
            .map(|source| match &source.encoded {
                Some(keys) => keys as &dyn Array,
                None => &none as &dyn Array,
            })
            .collect();
        let keys = self.picks.iter().map(|(source, row)| {
            let has_keys = self.sources[*source].encoded.is_some();
            (*source, if has_keys { *row } else { 0 })
        });
        let gathered = interleave(&arrays, &keys.collect::<Vec<_>>())?;
        Ok(gathered.as_any().downcast_ref::<BinaryArray>().cloned())
    }

    /// Clears the picks, and drops the exhausted blocks.
    fn forget(&mut self) {
        self.picks.clear();
        self.sources.clear();
        for cursor in self.cursors.iter_mut().filter(|cursor| !cursor.run.blocks.is_empty()) {
            cursor.source = self.sources.len();
            self.sources.push(Arc::clone(&cursor.block));
        }
    }
}

impl Cursor {
    /// Moves to the run's next block; `false` at the end of the run.
    async fn advance(&mut self, context: &MergeContext) -> Result<bool> {
        self.run.blocks.pop_front();
        self.run.skip = 0;
        self.row = 0;
        let Some(front) = self.run.blocks.front() else {
            return Ok(false);
        };
        let (lease, fetch) = self
            .ahead
            .take()
            .unwrap_or_else(|| (Lease::take(&context.grant, front.bytes()), front.fetch()));
        let pins = front.pin(fetch).await?;
        self.block = Arc::new(OpenBlock::new(front, pins, context.width, lease));
        self.prefixes = self.block.prefixes.clone();
        self.look_ahead(&context.grant);
        Ok(true)
    }

    /// Reads ahead: fetches the next block, pinned if the grant has room, else only into memory.
    fn look_ahead(&mut self, grant: &Arc<dyn Grant>) {
        let Some(next) = self.run.blocks.get(1) else { return };
        match Lease::ask(grant, next.bytes()) {
            Some(lease) => self.ahead = Some((lease, next.fetch())),
            None => next.prefetch(),
        }
    }
}

/// Compares the current rows of two cursors with equal prefix.
fn tie(keys: &SortKeys, cursors: &[Cursor], prefix: u64, left: usize, right: usize) -> Ordering {
    if !keys.is_open(prefix) {
        return Ordering::Equal;
    }
    let key = |cursor: usize| {
        let cursor = &cursors[cursor];
        cursor.block.key(cursor.row)
    };
    key(left).cmp(key(right))
}
