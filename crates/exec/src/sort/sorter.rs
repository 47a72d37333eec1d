//! The sort of one partition.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::Result;

use super::merge::{Merge, MergeContext, Merged};
use super::piece::{Piece, batch_bytes};
use super::run::{OpenBlock, Run};
use crate::Grant;
use crate::block::{Block, Lease};

/// Minimum number of runs that are merged at a time, regardless of the grant.
const FAN_IN_MIN: usize = 4;

/// Sorter of the rows of one partition: takes batches, and returns a merge of all rows.
#[derive(Debug)]
pub(crate) struct Sorter {
    context: MergeContext,
    piece: Piece,
    /// Sorted pieces that are still pinned.
    fresh: Vec<Run>,
    /// Sorted runs that are not pinned.
    runs: Vec<Run>,
    /// Number of rows wanted, if there is a limit.
    limit: Option<usize>,
}

impl Sorter {
    /// Creates a sorter; with `limit`, only that many first rows are wanted.
    pub(crate) fn new(context: MergeContext, limit: Option<usize>) -> Self {
        Self { context, piece: Piece::default(), fresh: Vec::new(), runs: Vec::new(), limit }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// If keys cannot be computed, or pages cannot be allocated.
    pub(crate) async fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.give_back().await?;
        let rows = batch.num_rows();
        let step = (rows * self.context.sizes.piece_bytes / batch_bytes(&batch).max(1)).max(1);
        for start in (0..rows).step_by(step) {
            let part = batch.slice(start, step.min(rows - start));
            let keys = self.context.keys.evaluate(&part)?;
            let bytes = batch_bytes(&part) as u64;
            let lease = match Lease::ask_heap(&self.context.grant, bytes) {
                Some(lease) => lease,
                None => {
                    self.sort_piece().await?;
                    Lease::take_heap(&self.context.grant, bytes)
                }
            };
            self.piece.push(part, keys, Some(lease));
            if self.piece.bytes() >= self.context.sizes.piece_bytes {
                self.sort_piece().await?;
            }
        }
        Ok(())
    }

    /// Unpins as many bytes as the grant is in excess, and waits while the query is suspended.
    async fn give_back(&mut self) -> Result<()> {
        if let Some(resumed) = self.context.grant.suspended() {
            // Unpinned pieces are merged after the suspension, and nothing is written for it now.
            self.unpin(u64::MAX);
            self.sort_piece().await?;
            self.unpin(u64::MAX);
            resumed.await;
        }
        let excess = self.context.grant.excess_bytes();
        if excess > 0 {
            self.unpin(excess);
        }
        Ok(())
    }

    pub(crate) fn grant(&self) -> &Arc<dyn Grant> {
        &self.context.grant
    }

    /// Unpins sorted pieces until `bytes` are released or none is pinned.
    pub(crate) fn unpin(&mut self, bytes: u64) {
        let mut left = bytes;
        while left > 0
            && let Some(mut run) = self.fresh.pop()
        {
            run.open = None;
            self.context.grant.count_spilled(run.bytes());
            left = left.saturating_sub(run.bytes());
            self.runs.push(run);
        }
    }

    /// Sorts the piece into a block, pinned if the grant has room for it.
    async fn sort_piece(&mut self) -> Result<()> {
        if self.piece.rows() == 0 {
            return Ok(());
        }
        let piece = std::mem::take(&mut self.piece);
        let plan = piece.sort_stored(&self.context.keys, self.limit)?.plan()?;
        drop(piece);
        let mut lease = Lease::ask(&self.context.grant, plan.bytes());
        if lease.is_none() && !self.fresh.is_empty() {
            self.merge_fresh().await?;
            lease = Lease::ask(&self.context.grant, plan.bytes());
        }
        let (block, pins) = Block::write(&self.context.space, plan)?;
        match lease {
            Some(lease) => {
                let open = OpenBlock::new(&block, pins, self.context.width, lease);
                self.fresh.push(Run::of(block, Some(open)));
            }
            None => {
                self.context.grant.count_spilled(block.bytes());
                self.runs.push(Run::of(block, None));
            }
        }
        Ok(())
    }

    /// Merges the pinned pieces into one run.
    async fn merge_fresh(&mut self) -> Result<()> {
        let fresh = std::mem::take(&mut self.fresh);
        let merge = Merge::open(self.context.clone(), fresh, Vec::new()).await?;
        let Merged { run, rest, .. } = merge.into_run(self.limit).await?;
        self.runs.push(run);
        self.runs.extend(rest);
        Ok(())
    }

    /// Returns the number of rows that are kept.
    pub(crate) fn rows(&self) -> usize {
        let runs = self.fresh.iter().chain(&self.runs);
        runs.map(Run::rows).sum::<usize>() + self.piece.rows()
    }

    /// Drops all rows after the first `limit`. Returns the columns of the last row kept, if there
    /// are `limit` rows.
    ///
    /// # Errors
    /// As [`Sorter::finish`].
    pub(crate) async fn shorten(&mut self) -> Result<Option<Vec<ArrayRef>>> {
        let Merged { run, last, rest } = self.finish().await?.into_run(self.limit).await?;
        let enough = self.limit.is_some_and(|limit| run.rows() >= limit);
        self.runs.push(run);
        self.runs.extend(rest);
        Ok(last.filter(|_| enough))
    }

    /// Returns a merge of all rows, in their order.
    ///
    /// # Errors
    /// As [`Sorter::push`], and if a page cannot be read.
    pub(crate) async fn finish(&mut self) -> Result<Merge> {
        self.sort_piece().await?;
        let mut runs = std::mem::take(&mut self.fresh);
        runs.append(&mut self.runs);
        self.merge(runs).await
    }

    /// Opens a merge of `runs`; first merges some of them to fewer runs, until the first blocks of
    /// all runs fit the grant.
    ///
    /// # Errors
    /// As [`Sorter::finish`].
    pub(crate) async fn merge(&self, mut runs: Vec<Run>) -> Result<Merge> {
        let context = &self.context;
        loop {
            runs.sort_by_key(|run| (run.open.is_none(), run.rows()));
            let closed = runs.iter().filter(|run| run.open.is_none());
            let mut leases: Vec<_> =
                closed.map_while(|run| Lease::ask(&context.grant, run.head_bytes())).collect();
            let pinned = runs.iter().filter(|run| run.open.is_some()).count();
            if pinned + leases.len() == runs.len() || runs.len() <= FAN_IN_MIN {
                return Ok(Merge::open(context.clone(), runs, leases).await?);
            }
            // Pinned pieces have the room that the heads of the others need.
            let (first, leases) = if pinned > 1 {
                leases.clear();
                (pinned, leases)
            } else {
                let at_once = (pinned + leases.len()).saturating_sub(1).max(FAN_IN_MIN);
                let too_many = runs.len() - (pinned + leases.len());
                let first = (too_many + 2).min(at_once);
                leases.truncate(first - pinned.min(first));
                (first, leases)
            };
            let rest = runs.split_off(first);
            let merge = Merge::open(context.clone(), runs, leases).await?;
            let merged = merge.into_run(self.limit).await?;
            runs = rest;
            runs.push(merged.run);
            runs.extend(merged.rest);
        }
    }

    /// Waits while the query is suspended, with nothing pinned; while the grant is in excess, stops
    /// reading ahead and merges fewer runs at a time.
    ///
    /// # Errors
    /// As [`Sorter::finish`].
    pub(crate) async fn adapt(&self, mut merge: Merge) -> Result<Merge> {
        if let Some(resumed) = self.context.grant.suspended() {
            let runs = merge.close();
            resumed.await;
            return self.merge(runs).await;
        }
        if self.context.grant.excess_bytes() > 0 {
            merge.stop_looking_ahead();
        }
        if self.context.grant.excess_bytes() > 0 && merge.runs() > FAN_IN_MIN {
            let runs = merge.close();
            return self.merge(runs).await;
        }
        Ok(merge)
    }
}
