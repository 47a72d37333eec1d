//! Joins the partitions that were not in memory when their probe rows arrived, one by one.
//!
//! A partition that fits is pinned and gets a hash table. One that does not fit is scattered,
//! together with its probe rows, by further bits of the hash. If that does not help, as with one
//! key in most rows, the partition is joined in blocks of pages that fit, each with all of its
//! probe rows.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use terrace_sys::size::{to_u64, to_usize};

use super::build::{FANOUT, LEVELS, Scatter};
use super::probe::Prober;
use super::spec::{HASH, Keys, Spec};
use super::table::{Granted, Probe, Table, index};
use crate::rows::{Access, Columns, RowLayout, RowPages};
use crate::stream::give_way;

/// Number of blocks up to which a partition is joined in blocks rather than scattered again.
const BLOCKS_FEW: u64 = 3;

/// A build partition and its probe rows.
struct Waiting {
    build: Arc<RowPages>,
    probe: RowPages,
    level: u32,
    /// True if scattering has left nearly all rows in this partition.
    stuck: bool,
}

impl Prober {
    pub(super) async fn join_waiting(&mut self, waiting: Vec<Option<RowPages>>) -> Result<()> {
        let build = Arc::clone(&self.build);
        let level = u32::from(build.parts.len() == FANOUT);
        let mut work = Vec::new();
        for (part, probe) in build.parts.iter().zip(waiting) {
            if let Some(mut probe) = probe {
                self.grant.count_spilled(probe.unpin());
                work.push(Waiting { build: Arc::clone(&part.rows), probe, level, stuck: false });
            }
        }
        // Other streams may still be probing the tables in memory; the last one needs their room.
        if build.is_last_reader() {
            build.demote_all();
        }
        while let Some(item) = work.pop() {
            self.join_one(item, &mut work).await?;
            if self.output.is_done() {
                return Ok(());
            }
            // Small partitions are joined without waiting for a batch or a page.
            give_way().await;
        }
        Ok(())
    }

    async fn join_one(&mut self, item: Waiting, work: &mut Vec<Waiting>) -> Result<()> {
        self.build.relieve();
        let view = item.build.view(Arc::clone(&self.grant));
        let pages = view.pages();
        let bytes = Table::bytes_for(&view, 0..pages);
        if self.grant.try_grow(bytes) {
            let table = Table::new(view, 0..pages, Arc::clone(&self.grant), &self.spec).await?;
            let left = self.join_table(table, item.probe).await?;
            work.extend(left.map(|probe| Waiting { probe, ..item }));
            return Ok(());
        }
        drop(view);
        // Reading the probe rows a few times is cheaper than writing and reading all rows again.
        let block = bytes / BLOCKS_FEW;
        let fits_few = self.grant.try_grow(block);
        if fits_few {
            self.grant.shrink(block);
        }
        if fits_few || item.level >= LEVELS || item.stuck || pages < 2 {
            return self.join_blocks(item).await;
        }
        self.scatter(item, work).await
    }

    async fn scatter(&mut self, item: Waiting, work: &mut Vec<Waiting>) -> Result<()> {
        let all = item.build.rows();
        let memory = Arc::clone(&self.memory);
        let split = async |rows: RowPages| -> Result<Vec<(RowPages, bool)>> {
            let (memory, bytes) = (memory.as_ref(), self.build.open_bytes);
            let mut scatter = Scatter::new(memory, &self.grant, &rows, item.level, true, bytes);
            scatter.take(rows).await?;
            Ok(scatter.finish())
        };
        let build = split(item.build.view(Arc::clone(&self.grant))).await?;
        let probe = split(item.probe).await?;
        for ((build, _), (probe, _)) in build.into_iter().zip(probe) {
            if probe.rows() == 0 {
                continue;
            }
            let stuck = build.rows() > all - all / 8;
            let build = Arc::new(build);
            work.push(Waiting { build, probe, level: item.level + 1, stuck });
        }
        Ok(())
    }

    /// Joins probe rows with a table of their whole partition, and frees their pages. If the grant
    /// wants memory back, it stops and returns the remaining rows; but not before as many rows were
    /// probed as the table has, so that rebuilding tables costs no more than probing.
    async fn join_table(
        &mut self,
        mut table: Table,
        mut rows: RowPages,
    ) -> Result<Option<RowPages>> {
        let mut owed = table.rows.rows();
        for page in 0..rows.pages() {
            let count = to_u64(rows.rows_in(page));
            if count == 0 {
                continue;
            }
            if let Some(resumed) = self.grant.suspended() {
                table.rows.unpin();
                rows.unpin();
                resumed.await;
                table.rows.pin_all(Access::Read).await?;
            }
            if owed == 0 && self.grant.excess_bytes() > 0 {
                return Ok(Some(rows));
            }
            owed = owed.saturating_sub(count);
            let mut probe = self.probe_page(&mut rows, page).await?;
            self.join_picks(&table, &mut probe, None, false).await?;
            if self.spec.emits_probe() {
                self.emit_probe(&probe, None).await?;
            }
            if self.output.is_done() {
                return Ok(None);
            }
            rows.free_pages(page..page + 1);
        }
        Ok(None)
    }

    /// Joins a partition block by block, each with all probe rows.
    async fn join_blocks(&mut self, item: Waiting) -> Result<()> {
        let mut rows = item.probe;
        let pages = item.build.pages();
        // Number of match flags: one per probe row, true if it has a match in any block.
        let flagged = if self.spec.emits_probe() { to_usize(rows.rows()) } else { 0 };
        let _flags = Granted::take(to_u64(flagged), &self.grant);
        let mut matched = vec![false; flagged];
        let mut from = 0;
        while from < pages || (from == 0 && pages == 0) {
            let view = item.build.view(Arc::clone(&self.grant));
            let mut to = (from + 1).min(pages);
            let least = Table::bytes_for(&view, from..to);
            let mut granted = least;
            if !self.grant.try_grow(least) {
                self.grant.grow(least);
            }
            while to < pages {
                let more = Table::bytes_for(&view, from..to + 1);
                if !self.grant.try_grow(more - granted) {
                    break;
                }
                (granted, to) = (more, to + 1);
            }
            let mut table = Table::new(view, from..to, Arc::clone(&self.grant), &self.spec).await?;
            let is_last = to >= pages;
            let mut at = 0;
            for page in 0..rows.pages() {
                if let Some(resumed) = self.grant.suspended() {
                    table.rows.unpin();
                    rows.unpin();
                    resumed.await;
                    table.rows.pin_pages(from..to, Access::Read).await?;
                }
                let mut probe = self.probe_page(&mut rows, page).await?;
                let len = probe.matched.len();
                probe.matched.copy_from_slice(&matched[at..at + len]);
                self.join_picks(&table, &mut probe, None, false).await?;
                matched[at..at + len].copy_from_slice(&probe.matched);
                at += len;
                if is_last && self.spec.emits_probe() {
                    self.emit_probe(&probe, None).await?;
                }
                if self.output.is_done() {
                    return Ok(());
                }
                rows.unpin_pages(page..page + 1);
            }
            from = to.max(1);
        }
        Ok(())
    }

    /// Reads the probe rows of a page as a batch.
    async fn probe_page(&mut self, rows: &mut RowPages, page: usize) -> Result<Probe> {
        rows.pin_pages(page..page + 1, Access::Read).await?;
        if page + 1 < rows.pages() {
            rows.prefetch(page + 1..page + 2);
        }
        let borrowed = rows.resolve(rows.addresses(page))?;
        let columns = (0..self.spec.probe_schema.fields().len())
            .map(|column| borrowed.gather(column))
            .collect::<crate::Result<Vec<_>>>()?;
        let options = datafusion::arrow::array::RecordBatchOptions::new()
            .with_row_count(Some(borrowed.len()));
        let schema = Arc::clone(&self.spec.probe_schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let hashes = borrowed.extras(HASH);
        let exprs = self.spec.probe_keys.iter();
        let evaluate = |key: &datafusion::physical_expr::PhysicalExprRef| {
            key.evaluate(&batch)?.into_array(batch.num_rows())
        };
        let arrays = exprs.map(evaluate).collect::<Result<Vec<_>>>()?;
        debug_assert_eq!(index(hashes.len()), index(batch.num_rows()));
        Probe::new(&self.spec, batch, Keys { arrays, hashes, valid: None })
    }
}

impl Spec {
    /// Prepares the columns of a probe batch for appending.
    pub(super) fn probe_columns(&self, batch: &RecordBatch) -> Result<Columns> {
        if batch.num_columns() == 0 {
            return Ok(RowLayout::no_columns(batch.num_rows()));
        }
        Ok(self.probe_layout.prepare(batch.columns())?)
    }
}
