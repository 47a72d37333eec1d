//! Execution of one probe stream: joins its batches, then spilled partitions, then emits build rows
//! without a match.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, new_null_array};
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{JoinType, Result};
use datafusion::execution::SendableRecordBatchStream;

use super::build::{Build, FANOUT, partition_of};
use super::metrics::JoinMetrics;
use super::spec::{NUMBER, Spec};
use super::table::{Flags, Probe, Step, Table, index};
use crate::rows::{Access, RowAddress, RowPages};
use crate::stream::{Emitter, give_way, next_batch};
use crate::{Grant, QueryMemory};

/// Output of a join stream: emits rows in batches of the session's size, up to the fetch limit.
pub(crate) struct Output {
    emitter: Emitter,
    coalescer: Option<BatchCoalescer>,
    left: usize,
    metrics: JoinMetrics,
}

impl Output {
    pub(crate) fn new(
        emitter: Emitter,
        schema: &SchemaRef,
        batch_size: usize,
        fetch: Option<usize>,
        metrics: JoinMetrics,
    ) -> Self {
        // Batches without columns cannot be coalesced.
        let coalescer = (!schema.fields().is_empty()).then(|| {
            BatchCoalescer::new(Arc::clone(schema), batch_size)
                .with_biggest_coalesce_batch_size(Some(batch_size / 2))
        });
        Self { emitter, coalescer, left: fetch.unwrap_or(usize::MAX), metrics }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.left == 0
    }

    pub(crate) async fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let Some(coalescer) = &mut self.coalescer else {
            self.emit(batch).await;
            return Ok(());
        };
        coalescer.push_batch(batch)?;
        self.emit_completed().await;
        Ok(())
    }

    pub(crate) async fn finish(&mut self) -> Result<()> {
        if let Some(coalescer) = &mut self.coalescer {
            coalescer.finish_buffered_batch()?;
            self.emit_completed().await;
        }
        Ok(())
    }

    async fn emit_completed(&mut self) {
        while let Some(batch) = self.coalescer.as_mut().and_then(|it| it.next_completed_batch()) {
            self.emit(batch).await;
        }
    }

    async fn emit(&mut self, batch: RecordBatch) {
        let rows = batch.num_rows().min(self.left);
        if rows == 0 {
            return;
        }
        self.left -= rows;
        let batch = if rows < batch.num_rows() { batch.slice(0, rows) } else { batch };
        self.metrics.output(rows);
        self.emitter.emit(batch).await;
    }
}

/// State of one probe stream.
pub(super) struct Prober {
    pub(super) spec: Arc<Spec>,
    pub(super) memory: Arc<dyn QueryMemory>,
    pub(super) grant: Arc<dyn Grant>,
    pub(super) build: Arc<Build>,
    pub(super) output: Output,
    /// Row pages without rows, from which null build rows are resolved.
    pub(super) nulls: RowPages,
    pub(super) metrics: JoinMetrics,
}

impl Prober {
    /// Joins the whole input, and emits all output of this stream.
    pub(super) async fn run(mut self, mut input: SendableRecordBatchStream) -> Result<()> {
        let mut waiting: Vec<Option<RowPages>> = Vec::new();
        waiting.resize_with(self.build.parts.len(), || None);
        if !self.is_decided() {
            while let Some(batch) = next_batch(&mut input, &self.grant, || {
                self.unpin(&mut waiting);
                self.build.demote_all();
                Ok(())
            })
            .await
            {
                let batch = batch?;
                self.keep_peace(&mut waiting).await;
                self.metrics.probed(batch.num_rows());
                match self.build.whole() {
                    Some(table) => self.probe_whole(&table, batch).await?,
                    None => self.probe_parts(batch, &mut waiting).await?,
                }
                if self.output.is_done() {
                    return Ok(());
                }
                if self.spec.null_aware && self.build.has_probe_nulls() {
                    // No build row is known to have no match: none is emitted.
                    waiting.clear();
                    break;
                }
            }
            drop(input);
            self.join_waiting(waiting).await?;
        }
        if self.build.is_last_probe() && self.spec.emits_build() {
            self.build.demote_all();
            self.emit_build().await?;
        }
        self.output.finish().await
    }

    /// Returns true if the build side alone decides the result, so that the probe input need not be
    /// read: no probe row can be emitted, and no build row can have a match.
    fn is_decided(&self) -> bool {
        use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, RightSemi};
        match self.spec.join_type {
            Inner | LeftSemi | RightSemi => self.build.matchable == 0,
            Left | LeftAnti | LeftMark => self.build.rows == 0,
            _ => false,
        }
    }

    /// Returns the memory that the grants want back: drops tables of the build side and unpins the
    /// probe rows in `waiting`. Waits while the query is suspended.
    async fn keep_peace(&mut self, waiting: &mut [Option<RowPages>]) {
        self.build.relieve();
        let suspended = self.grant.suspended();
        if suspended.is_some() || self.grant.excess_bytes() > 0 {
            self.unpin(waiting);
        }
        if let Some(resumed) = suspended {
            self.build.demote_all();
            resumed.await;
        }
    }

    fn unpin(&self, waiting: &mut [Option<RowPages>]) {
        for rows in waiting.iter_mut().flatten() {
            self.grant.count_spilled(rows.unpin());
        }
    }

    async fn probe_whole(&mut self, table: &Table, batch: RecordBatch) -> Result<()> {
        let keys = match table.needs_hashes() {
            true => self.spec.keys(&self.spec.probe_keys, &batch)?,
            false => self.spec.unhashed(&self.spec.probe_keys, &batch)?,
        };
        if self.spec.null_aware {
            self.build.note_probe(batch.num_rows(), &keys);
        }
        let valid: Option<Vec<u32>> = keys.valid.as_ref().map(|valid| {
            (0..index(batch.num_rows())).filter(|row| valid.is_valid(*row as usize)).collect()
        });
        let mut probe = Probe::new(&self.spec, batch, keys)?;
        self.join_picks(table, &mut probe, valid.as_deref(), true).await?;
        if !self.spec.emits_pairs() {
            self.emit_probe(&probe, None).await?;
        }
        Ok(())
    }

    /// Joins the rows `picks` of a batch, or all of them, with a table and emits their pairs. With
    /// `in_order`, probe rows without a match are emitted between these, in the order of the batch.
    pub(super) async fn join_picks(
        &mut self,
        table: &Table,
        probe: &mut Probe,
        picks: Option<&[u32]>,
        in_order: bool,
    ) -> Result<()> {
        let timer = self.metrics.join_timer();
        let mut matches = table.look_up(&self.spec, probe, picks)?;
        drop(timer);
        loop {
            let timer = self.metrics.join_timer();
            let flags = self.build.flags.as_ref();
            let step = table.next(&self.spec, probe, &mut matches, flags, in_order)?;
            drop(timer);
            match step {
                Step::Batch(batch) => self.output.push(batch).await?,
                // One batch may have more pairs than can be checked in a minute.
                Step::Nothing => give_way().await,
                Step::End => return Ok(()),
            }
            if self.output.is_done() {
                return Ok(());
            }
        }
    }

    /// Joins the rows whose partitions are in memory, and appends the others to `waiting`, which
    /// has an element per partition.
    async fn probe_parts(
        &mut self,
        batch: RecordBatch,
        waiting: &mut [Option<RowPages>],
    ) -> Result<()> {
        let keys = self.spec.keys(&self.spec.probe_keys, &batch)?;
        if self.spec.null_aware {
            self.build.note_probe(batch.num_rows(), &keys);
        }
        let mut picks = vec![Vec::new(); waiting.len()];
        let mut decided = Vec::new();
        for row in 0..batch.num_rows() {
            if keys.valid.as_ref().is_some_and(|valid| valid.is_null(row)) {
                decided.push(index(row));
                continue;
            }
            let part = if waiting.len() < FANOUT { 0 } else { partition_of(keys.hashes[row], 0) };
            picks[part].push(index(row));
        }
        let mut probe = Probe::new(&self.spec, batch, keys)?;
        let mut columns = None;
        for (part, picks) in picks.into_iter().enumerate().filter(|(_, picks)| !picks.is_empty()) {
            if let Some(table) = self.build.parts[part].table() {
                self.join_picks(&table, &mut probe, Some(&picks), false).await?;
                decided.extend(picks);
                continue;
            }
            if self.build.parts[part].rows.rows() == 0 {
                decided.extend(picks);
                continue;
            }
            if columns.is_none() {
                columns = Some(self.spec.probe_columns(&probe.batch)?);
            }
            let rows = waiting[part].get_or_insert_with(|| {
                let (space, grant) = (self.memory.space().clone(), Arc::clone(&self.grant));
                let rows = RowPages::new(space, grant, self.spec.probe_layout.clone());
                rows.with_open_limit(self.build.open_bytes)
            });
            let Some(columns) = &columns else { continue };
            if !rows.try_reserve(columns, picks.len()) {
                self.grant.count_spilled(rows.unpin_full());
            }
            rows.append(columns, Some(&picks), Some(&probe.hashes), None)?;
            self.grant.count_spilled(rows.unpin_full());
        }
        if self.spec.emits_probe() {
            decided.sort_unstable();
            self.emit_probe(&probe, Some(&decided)).await?;
        }
        Ok(())
    }

    /// Emits probe rows that the join type emits by their match or lack of one; of all rows, or of
    /// those in `decided`.
    pub(super) async fn emit_probe(
        &mut self,
        probe: &Probe,
        decided: Option<&[u32]>,
    ) -> Result<()> {
        use JoinType::{Full, Right, RightAnti, RightMark, RightSemi};
        let wanted = |row: &u32| match self.spec.join_type {
            RightSemi => probe.matched[*row as usize],
            RightAnti | Right | Full => !probe.matched[*row as usize],
            RightMark => true,
            _ => false,
        };
        let picks: Vec<u32> = match decided {
            Some(rows) => rows.iter().copied().filter(wanted).collect(),
            None => (0..index(probe.batch.num_rows())).filter(wanted).collect(),
        };
        if picks.is_empty() {
            return Ok(());
        }
        let marks = picks.iter().map(|row| Some(probe.matched[*row as usize]));
        let marks: ArrayRef = Arc::new(BooleanArray::from_iter(marks));
        let batch = {
            let rows = self.nulls.resolve(picks.iter().map(|_| RowAddress::NONE))?;
            self.spec.output(Some(&rows), &probe.batch, &picks, Some(&marks))?
        };
        self.output.push(batch).await
    }

    /// Emits the build rows that the join type emits by their match or lack of one.
    async fn emit_build(&mut self) -> Result<()> {
        let build = Arc::clone(&self.build);
        let Some(flags) = &build.flags else { return Ok(()) };
        if self.spec.null_aware && build.has_probe_nulls() {
            return Ok(());
        }
        let unmatchable = match self.spec.null_aware && build.has_probe_rows() {
            true => None,
            false => build.unmatchable.as_ref(),
        };
        let nulls = self.spec.null_probe()?;
        for origin in build.parts.iter().map(|part| &part.rows).chain(unmatchable) {
            let mut view = origin.view(Arc::clone(&self.grant));
            for page in 0..view.pages() {
                view.pin_pages(page..page + 1, Access::Read).await?;
                if page + 1 < view.pages() {
                    view.prefetch(page + 1..page + 2);
                }
                let wanted = self.wanted_rows(&view, page, flags)?;
                for wanted in wanted.chunks(self.spec.batch_size) {
                    let batch = {
                        let rows = view.resolve(wanted.iter().map(|(address, _)| *address))?;
                        let marks = wanted.iter().map(|(_, marked)| Some(*marked));
                        let marks: ArrayRef = Arc::new(BooleanArray::from_iter(marks));
                        let picks = vec![0; wanted.len()];
                        self.spec.output(Some(&rows), &nulls, &picks, Some(&marks))?
                    };
                    self.output.push(batch).await?;
                    if self.output.is_done() {
                        return Ok(());
                    }
                }
                view.unpin_pages(page..page + 1);
                if let Some(resumed) = self.grant.suspended() {
                    resumed.await;
                }
            }
        }
        Ok(())
    }

    /// Returns the rows of a page that the join emits at the end, each with true if it has a match.
    fn wanted_rows(
        &self,
        view: &RowPages,
        page: usize,
        flags: &Flags,
    ) -> Result<Vec<(RowAddress, bool)>> {
        use JoinType::{Full, Left, LeftAnti, LeftMark, LeftSemi};
        let numbers = view.resolve(view.addresses(page))?.extras(NUMBER);
        let rows = view.addresses(page).zip(numbers);
        let marked = rows.map(|(address, number)| (address, flags.is_set(number)));
        let join_type = self.spec.join_type;
        let wanted = marked.filter(|(_, marked)| match join_type {
            Left | Full | LeftAnti => !marked,
            LeftSemi => *marked,
            LeftMark => true,
            _ => false,
        });
        Ok(wanted.collect())
    }
}

impl Spec {
    /// Returns a batch of one probe row with every column null.
    fn null_probe(&self) -> Result<RecordBatch> {
        let fields = self.probe_schema.fields().iter();
        let fields: Vec<_> = fields.map(|it| it.as_ref().clone().with_nullable(true)).collect();
        let columns: Vec<_> = fields.iter().map(|it| new_null_array(it.data_type(), 1)).collect();
        let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(1));
        let schema = Arc::new(Schema::new(fields));
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }
}
