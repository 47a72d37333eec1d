//! Execution of a [`PagedAggregateExec`](super::PagedAggregateExec) for one partition of the plan.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::{Result, exec_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, RecordOutput,
};
use terrace_sys::size::to_usize;

use super::early_flush::{Advice, Early, Probe};
use super::program::{Converters, Evaluated, Program};
use super::spill::{Cursor, Pages, Part};
use super::table::Table;
use crate::memory::{ObliviousGrant, QueryMemory};
use crate::stream::{Emitter, generate, give_way, next_batch};

/// Bytes that a grant must still have for a whole batch to be aggregated at once.
const AMPLE_BYTES: u64 = 4 << 20;
/// Readahead in pages while groups are emitted.
const AHEAD_PAGES: usize = 4;
/// Bytes of groups that are pinned to be emitted at once, unless one group is larger.
const EMIT_BYTES: u64 = 4 << 20;
/// Bytes of keys that are aggregated at once when the grant has less than that.
const PIECE_BYTES: usize = 128 << 10;

/// Parameters of a run, apart from its program and input.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) memory: Arc<dyn QueryMemory>,
    pub(super) partition: usize,
    pub(super) batch_rows: usize,
    /// Condition on which a partial aggregation passes rows through.
    pub(super) probe: Probe,
    pub(super) metrics: Metrics,
}

/// Metrics shown by `EXPLAIN ANALYZE`.
#[derive(Debug)]
pub(super) struct Metrics {
    baseline: BaselineMetrics,
    /// Number of spills, and bytes of pages that they unpinned.
    spills: Count,
    spilled_bytes: Count,
    peak_bytes: Gauge,
    /// Rows that were passed through unaggregated.
    through: Count,
}

impl Metrics {
    pub(super) fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        Self {
            baseline: BaselineMetrics::new(set, partition),
            spills: MetricBuilder::new(set).spill_count(partition),
            spilled_bytes: MetricBuilder::new(set).spilled_bytes(partition),
            peak_bytes: MetricBuilder::new(set).gauge("peak_pinned_bytes", partition),
            through: MetricBuilder::new(set).counter("skipped_aggregation_rows", partition),
        }
    }
}

/// Returns the stream of groups of one partition; it does no work before it is polled.
pub(super) fn start(
    program: Program,
    input: SendableRecordBatchStream,
    setting: Setting,
) -> SendableRecordBatchStream {
    let schema = Arc::clone(program.output_schema());
    let memory = Arc::clone(&setting.memory);
    generate("PagedAggregateExec", &memory, schema, move |emitter| async move {
        let program = Arc::new(program);
        let mut run = Run::new(program, setting, emitter);
        let table = run.take_in(input).await?;
        if run.program.hands_on() {
            return run.hand_on(table).await;
        }
        let mut open = Vec::new();
        run.conclude(table, &mut open).await?;
        while let Some((part, level)) = open.pop() {
            if part.is_one_group() && run.program.picks() {
                run.combine_one(part, level).await?;
                continue;
            }
            let table = run.combine(part, level).await?;
            run.conclude(table, &mut open).await?;
        }
        Ok(())
    })
}

struct Run {
    program: Arc<Program>,
    pages: Pages,
    batch_rows: usize,
    probe: Probe,
    metrics: Metrics,
    emitter: Emitter,
}

impl Run {
    fn new(program: Arc<Program>, setting: Setting, emitter: Emitter) -> Self {
        let Setting { memory, partition, batch_rows, probe, metrics } = setting;
        let grant = memory.register(&format!("PagedAggregate[{partition}]"));
        let grant = match program.options().oblivious {
            true => Arc::new(ObliviousGrant::new(grant)),
            false => grant,
        };
        let pages = Pages { space: memory.space().clone(), grant };
        Self { program, pages, batch_rows, probe, metrics, emitter }
    }

    /// Creates an empty table for the input.
    fn table(&self) -> Result<Table> {
        Table::new(&self.program, &self.pages, 0)
    }

    /// Aggregates the whole input into a table, which may spill.
    async fn take_in(&mut self, mut input: SendableRecordBatchStream) -> Result<Table> {
        if self.program.hands_on() {
            return self.take_in_to_hand_on(input).await;
        }
        let mut table = self.table()?;
        while let Some(batch) =
            next_batch(&mut input, &self.pages.grant, || self.unpin(&mut table)).await
        {
            for set in self.evaluate(&batch?)? {
                for piece in self.pieces(set) {
                    self.take(&mut table, &piece)?;
                    self.settle(&mut table, None).await?;
                }
            }
        }
        self.without_input(&mut table, false)?;
        Ok(table)
    }

    /// Aggregates the input of a partial aggregation: flushes groups early or passes rows through
    /// where [`Early`] advises it or memory is scarce. Returns the table of the last groups.
    async fn take_in_to_hand_on(&mut self, mut input: SendableRecordBatchStream) -> Result<Table> {
        let mut table = self.table()?;
        let converters = self.program.converters()?;
        let mut early = Early::new(converters.is_some().then_some(self.probe));
        let (mut handed_on, mut lets_through) = (false, false);
        while let Some(batch) =
            next_batch(&mut input, &self.pages.grant, || self.unpin(&mut table)).await
        {
            let batch = batch?;
            if lets_through && let Some(resumed) = self.pages.grant.suspended() {
                resumed.await;
            }
            if lets_through && let Some(converters) = &converters {
                let groups = self.convert(&batch, converters)?;
                self.let_through(groups).await;
                continue;
            }
            for set in self.evaluate(&batch)? {
                for piece in self.pieces(set) {
                    self.take(&mut table, &piece)?;
                    let mut advice = early.note(piece.rows(), table.groups());
                    lets_through |= advice == Advice::LetThrough;
                    if lets_through {
                        // The rest of the batch is passed through, too: no group waits while rows
                        // pass through.
                        advice = Advice::LetThrough;
                    }
                    let groups = table.groups();
                    if self.settle_by_handing_on(&mut table, advice).await? {
                        handed_on = true;
                        early.hand_on(groups);
                    }
                }
            }
        }
        self.without_input(&mut table, handed_on)?;
        Ok(table)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<Vec<Evaluated>> {
        let _timer = self.metrics.baseline.elapsed_compute().timer();
        self.program.evaluate(batch)
    }

    fn take(&self, table: &mut Table, piece: &Evaluated) -> Result<()> {
        let _timer = self.metrics.baseline.elapsed_compute().timer();
        table.take(piece)
    }

    /// Adds the groups that exist even without input.
    fn without_input(&self, table: &mut Table, handed_on: bool) -> Result<()> {
        if table.is_empty() && !handed_on {
            for set in self.program.without_input()? {
                table.take(&set)?;
            }
        }
        Ok(())
    }

    fn convert(&self, batch: &RecordBatch, converters: &Converters) -> Result<RecordBatch> {
        let _timer = self.metrics.baseline.elapsed_compute().timer();
        self.program.convert(batch, converters)
    }

    /// Emits rows that were converted to groups of one row each.
    async fn let_through(&mut self, groups: RecordBatch) {
        self.metrics.through.add(groups.num_rows());
        self.emitter.emit(groups.record_output(&self.metrics.baseline)).await;
    }

    /// Returns a batch whole if the grant has `AMPLE_BYTES` left, else in pieces of about
    /// `PIECE_BYTES` of keys: the caller checks the grant after each, so at most one piece is
    /// appended after a refusal.
    fn pieces(&self, batch: Evaluated) -> impl Iterator<Item = Evaluated> + use<> {
        let rows = batch.rows();
        let grant = &self.pages.grant;
        let is_ample = grant.try_grow(AMPLE_BYTES);
        if is_ample {
            grant.shrink(AMPLE_BYTES);
        }
        let pieces = if is_ample { 1 } else { batch.bytes().div_ceil(PIECE_BYTES) };
        let step = rows.div_ceil(pieces.max(1)).max(1);
        let from = (0..rows).step_by(step);
        from.map(move |from| match step >= rows {
            true => batch.clone(),
            false => batch.slice(from, step.min(rows - from)),
        })
    }

    /// Flushes the groups if `advice` says so, memory is scarce, their states are long or the query
    /// is suspended; waits while it is suspended. Returns true if it flushed.
    async fn settle_by_handing_on(&mut self, table: &mut Table, advice: Advice) -> Result<bool> {
        let suspended = self.pages.grant.suspended();
        let wanted = advice != Advice::Keep || table.should_hand_on() || suspended.is_some();
        let hands_on = wanted && !table.is_empty();
        if hands_on {
            let full = std::mem::replace(table, self.table()?);
            self.hand_on(full).await?;
        }
        if let Some(resumed) = suspended {
            resumed.await;
        }
        Ok(hands_on)
    }

    /// Aggregates the spilled rows of a partition into a table of `level`.
    async fn combine(&mut self, mut part: Part, level: u32) -> Result<Table> {
        let mut table = Table::new(&self.program, &self.pages, level)?;
        let (mut rows, mut beside) = (Cursor::default(), Cursor::default());
        loop {
            let count = part.rows_at_once(self.batch_rows);
            let groups = rows.next(&mut part.rows, count).await?;
            if groups.is_empty() {
                return Ok(table);
            }
            let states = match &mut part.beside {
                Some(pages) => beside.next(pages, groups.len()).await?,
                None => Vec::new(),
            };
            {
                let _timer = self.metrics.baseline.elapsed_compute().timer();
                let batch = table.read(&part, &groups, &states)?;
                table.take(&batch)?;
            }
            self.settle(&mut table, Some(&mut part)).await?;
            give_way().await;
        }
    }

    /// Spills if memory was refused or the grant wants bytes back, and waits while the query is
    /// suspended; then `part`, the partition being read, is unpinned too.
    async fn settle(&self, table: &mut Table, part: Option<&mut Part>) -> Result<()> {
        self.metrics.peak_bytes.set_max(to_usize(self.pages.grant.held_bytes()));
        let suspended = self.pages.grant.suspended();
        if suspended.is_some() {
            self.unpin(table)?;
        } else if table.should_let_go() && !self.program.options().oblivious {
            self.let_go(table)?;
        }
        if let Some(resumed) = suspended {
            if let Some(part) = part {
                part.rows.unpin();
                part.beside.as_mut().map(|pages| pages.unpin());
            }
            resumed.await;
        }
        Ok(())
    }

    /// Unpins the groups for a suspension.
    fn unpin(&self, table: &mut Table) -> Result<()> {
        if table.is_empty() || self.program.options().oblivious {
            return Ok(());
        }
        self.let_go(table)
    }

    fn let_go(&self, table: &mut Table) -> Result<()> {
        let _timer = self.metrics.baseline.elapsed_compute().timer();
        let bytes = table.let_go()?;
        self.pages.grant.count_spilled(bytes);
        self.metrics.spills.add(1);
        self.metrics.spilled_bytes.add(to_usize(bytes));
        Ok(())
    }

    /// Emits the groups of a table that never spilled; else queues its partitions in `open`.
    async fn conclude(&mut self, mut table: Table, open: &mut Vec<(Part, u32)>) -> Result<()> {
        if table.has_let_go() {
            self.let_go(&mut table)?;
            let level = table.level() + 1;
            open.extend(table.into_parts().into_iter().map(|part| (part, level)));
            return Ok(());
        }
        let beside = table.evaluate_beside(Vec::new())?;
        self.emit(table, &beside).await
    }

    /// Emits the states of a partial aggregation's table.
    async fn hand_on(&mut self, mut table: Table) -> Result<()> {
        self.metrics.peak_bytes.set_max(to_usize(self.pages.grant.held_bytes()));
        let beside = table.states_beside()?;
        self.emit(table, &beside).await
    }

    /// Computes and emits a partition that is one group, however large: values that an aggregate
    /// reads in order are sorted in pages.
    async fn combine_one(&mut self, mut part: Part, level: u32) -> Result<()> {
        let mut table = Table::with_aside(&self.program, &self.pages, level, true)?;
        let mut pickers = self.program.pickers(&self.pages)?;
        let (mut rows, mut beside) = (Cursor::default(), Cursor::default());
        loop {
            let count = part.rows_at_once(self.batch_rows);
            let groups = rows.next(&mut part.rows, count).await?;
            if groups.is_empty() {
                break;
            }
            let states = match &mut part.beside {
                Some(pages) => beside.next(pages, groups.len()).await?,
                None => Vec::new(),
            };
            let batch = table.read(&part, &groups, &states)?;
            for (picker, arguments) in pickers.iter_mut().zip(batch.arguments.iter()) {
                if let Some(picker) = picker {
                    picker.push(&arguments.columns[0]).await?;
                }
            }
            table.take(&batch)?;
            self.metrics.peak_bytes.set_max(to_usize(self.pages.grant.held_bytes()));
        }
        if table.groups() != 1 {
            return exec_err!("{} groups have the same hash", table.groups());
        }
        drop(part);
        let mut picked = Vec::new();
        for picker in pickers.into_iter().flatten() {
            picked.push(picker.finish().await?);
        }
        let beside = table.evaluate_beside(picked)?;
        self.emit(table, &beside).await
    }

    /// Emits the groups of a table that never spilled; `beside` has the output columns of states
    /// outside of the rows. No page is pinned while the consumer processes a batch: it may need
    /// frames, and this operator cannot give pins back before it is polled again.
    async fn emit(&mut self, mut table: Table, beside: &[ArrayRef]) -> Result<()> {
        table.forget_places();
        let keeps_pins = self.program.options().oblivious;
        if !keeps_pins {
            table.rows().unpin();
        }
        let group_bytes = table.rows().bytes() / table.rows().rows().max(1);
        let at_once = to_usize(EMIT_BYTES / group_bytes.max(1)).clamp(1, self.batch_rows);
        let (mut cursor, mut from) = (Cursor::default(), 0);
        loop {
            if let Some(resumed) = self.pages.grant.suspended() {
                resumed.await;
            }
            let addresses = cursor.next(table.rows(), at_once).await?;
            let (Some(first), Some(last)) = (addresses.first(), addresses.last()) else {
                return Ok(());
            };
            let batch = {
                let _timer = self.metrics.baseline.elapsed_compute().timer();
                let columns = table.output(&addresses, from, beside)?;
                RecordBatch::try_new(Arc::clone(self.program.output_schema()), columns)?
            };
            from += addresses.len();
            let (next, end) = (last.page() + 1, table.rows().pages());
            if !keeps_pins {
                table.rows().unpin_pages(first.page()..next);
            }
            table.rows().prefetch(next.min(end)..(next + AHEAD_PAGES).min(end));
            let batch = batch.record_output(&self.metrics.baseline);
            self.emitter.emit(batch).await;
        }
    }
}
