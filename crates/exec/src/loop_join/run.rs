//! Execution of one right stream: rounds of right rows, each joined with every block of the left
//! side.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use datafusion::arrow::compute::take;
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use terrace_sys::size::to_u64;

use super::build::Left;
use super::pairs::Pairs;
use super::range::{RangeFilter, Terms, index};
use super::spec::{LoopSpec, Picked};
use crate::Grant;
use crate::block::{Lease, copy_to_heap};
use crate::hash_join::{JoinMetrics, Output};
use crate::sort::piece::batch_bytes;
use crate::stream::give_way;

/// Steps without an output batch between two yields to other tasks.
const STEPS_AT_ONCE: usize = 16;

/// A batch of right rows of a round, with a flag per row that has a match, if the join needs it.
struct Part {
    batch: RecordBatch,
    matched: Vec<bool>,
    terms: Option<Terms>,
    _lease: Lease,
}

/// The rows of a block of the left side.
struct LeftRows {
    batch: RecordBatch,
    /// Number of the first row.
    first: u64,
    terms: Option<Terms>,
}

/// State of one right stream.
pub(super) struct Runner {
    pub(super) spec: Arc<LoopSpec>,
    pub(super) grant: Arc<dyn Grant>,
    pub(super) left: Arc<Left>,
    pub(super) output: Output,
    pub(super) metrics: JoinMetrics,
}

impl Runner {
    /// Joins the whole input.
    pub(super) async fn run(mut self, mut input: SendableRecordBatchStream) -> Result<()> {
        while !self.is_decided() {
            let round = self.gather(&mut input).await?;
            if round.is_empty() {
                break;
            }
            self.join(round).await?;
        }
        drop(input);
        if self.left.is_last_stream() && self.spec.emits_left() {
            self.emit_left().await?;
        }
        self.output.finish().await
    }

    /// Returns true if the left side is empty and the join type then emits no right row.
    fn is_decided(&self) -> bool {
        use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, RightSemi};
        let needs_left = matches!(
            self.spec.join_type,
            Inner | Left | LeftAnti | LeftMark | LeftSemi | RightSemi
        );
        self.left.rows == 0 && needs_left
    }

    /// Reads the right rows of the next round, up to a quarter of the left side's bytes if the
    /// grant allows it: longer rounds read the left side less often.
    async fn gather(&self, input: &mut SendableRecordBatchStream) -> Result<Vec<Part>> {
        let enough = self.left.bytes / 4;
        let (mut parts, mut bytes) = (Vec::new(), 0);
        while bytes <= enough {
            if let Some(resumed) = self.grant.suspended() {
                resumed.await;
            }
            let Some(batch) = input.next().await.transpose()? else { break };
            if batch.num_rows() == 0 {
                continue;
            }
            self.metrics.probed(batch.num_rows());
            let own = to_u64(batch_bytes(&batch)) + self.terms_bytes(batch.num_rows());
            bytes += own.max(1);
            let lease = Lease::ask_heap(&self.grant, own);
            let is_last = lease.is_none() || bytes > enough;
            let lease = lease.unwrap_or_else(|| Lease::take_heap(&self.grant, own));
            // Rows that are kept for the round must not keep the pages of a scan pinned.
            let batch = if parts.is_empty() && is_last { batch } else { copied(&batch)? };
            let matched = match self.spec.emits_right() {
                true => vec![false; batch.num_rows()],
                false => Vec::new(),
            };
            let terms = self.terms(JoinSide::Right, &batch);
            parts.push(Part { batch, matched, terms, _lease: lease });
            if is_last || self.grant.excess_bytes() > 0 {
                break;
            }
        }
        Ok(parts)
    }

    /// Joins the rows of a round with all of the left side.
    async fn join(&mut self, mut round: Vec<Part>) -> Result<()> {
        let left = Arc::clone(&self.left);
        for (n, block) in left.blocks.iter().enumerate() {
            if let Some(resumed) = self.grant.suspended() {
                resumed.await;
            }
            let (_lease, batch) = block.read(&self.spec, &self.grant).await?;
            let _terms_lease = Lease::take_heap(&self.grant, self.terms_bytes(batch.num_rows()));
            let terms = self.terms(JoinSide::Left, &batch);
            let rows = LeftRows { batch, first: block.rows.start, terms };
            if let Some(next) = left.blocks.get(n + 1) {
                next.prefetch();
            }
            for part in &mut round {
                self.join_part(&rows, part).await?;
                if self.output.is_done() {
                    return Ok(());
                }
            }
        }
        if self.spec.emits_right() {
            for part in &round {
                self.emit_right(part).await?;
            }
        }
        Ok(())
    }

    /// Returns the terms of rows of a side by which pairs are limited, if the filter has a range.
    fn terms(&self, side: JoinSide, rows: &RecordBatch) -> Option<Terms> {
        self.spec.range.as_ref().and_then(|range| range.terms(side, rows))
    }

    fn terms_bytes(&self, rows: usize) -> u64 {
        self.spec.range.as_ref().map_or(0, |_| RangeFilter::bytes(rows))
    }

    /// Joins rows of a block with rows of a batch.
    async fn join_part(&mut self, rows: &LeftRows, part: &mut Part) -> Result<()> {
        let left = Arc::clone(&self.left);
        let once = left.flags.as_ref().filter(|_| self.spec.emits_left_once());
        let is_decided = |row: u32| once.is_some_and(|it| it.is_set(rows.first + u64::from(row)));
        let count = index(rows.batch.num_rows());
        let undecided = || (0..count).filter(|row| !is_decided(*row)).collect();
        let right = (index(part.batch.num_rows()), part.terms.as_ref());
        let mut pairs = Pairs::new((count, rows.terms.as_ref()), undecided, right);
        let right_once = self.spec.emits_right_once();
        for n in 0_usize.. {
            let timer = self.metrics.join_timer();
            let matched = &part.matched;
            let is_matched = |row: u32| right_once && matched[row as usize];
            let Some((of_left, of_right)) =
                pairs.next(self.spec.batch_size, is_decided, is_matched)
            else {
                break;
            };
            let batch = self.pairs(rows, (&part.batch, &mut part.matched), of_left, of_right)?;
            drop(timer);
            match batch {
                Some(batch) => self.output.push(batch).await?,
                None if n.is_multiple_of(STEPS_AT_ONCE) => give_way().await,
                None => {}
            }
            if self.output.is_done() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Records which of some pairs match, and returns a batch of those if pairs are emitted.
    fn pairs(
        &self,
        rows: &LeftRows,
        (right, matched): (&RecordBatch, &mut [bool]),
        of_left: UInt32Array,
        of_right: UInt32Array,
    ) -> Result<Option<RecordBatch>> {
        if of_left.is_empty() {
            return Ok(None);
        }
        let left_rows = Picked::of(&rows.batch, &of_left);
        let (of_left, of_right) =
            match self.spec.passing(left_rows, Picked::of(right, &of_right))? {
                Some(passing) => (picked(&of_left, &passing)?, picked(&of_right, &passing)?),
                None => (of_left, of_right),
            };
        if of_left.is_empty() {
            return Ok(None);
        }
        if let Some(flags) = &self.left.flags {
            of_left.values().iter().for_each(|row| flags.set(rows.first + u64::from(*row)));
        }
        for row in of_right.values() {
            if let Some(matched) = matched.get_mut(*row as usize) {
                *matched = true;
            }
        }
        if !self.spec.emits_pairs() {
            return Ok(None);
        }
        let (left, right) = (Picked::of(&rows.batch, &of_left), Picked::of(right, &of_right));
        self.spec.output(left, right, None).map(Some)
    }

    async fn emit_right(&mut self, part: &Part) -> Result<()> {
        let of_right: UInt32Array = (0..)
            .zip(&part.matched)
            .filter(|(_, matched)| self.spec.wants_right(**matched))
            .map(|(row, _)| row)
            .collect();
        if of_right.is_empty() {
            return Ok(());
        }
        let marked = of_right.values().iter().map(|row| Some(part.matched[*row as usize]));
        let marks: ArrayRef = Arc::new(marked.collect::<BooleanArray>());
        let left = Picked { batch: None, rows: &of_right };
        let right = Picked { batch: Some(&part.batch), rows: &of_right };
        self.output.push(self.spec.output(left, right, Some(&marks))?).await
    }

    /// Emits the left rows that the join type emits by their match or lack of one.
    async fn emit_left(&mut self) -> Result<()> {
        let left = Arc::clone(&self.left);
        let Some(flags) = &left.flags else { return Ok(()) };
        for block in &left.blocks {
            if let Some(resumed) = self.grant.suspended() {
                resumed.await;
            }
            let (_lease, rows) = block.read(&self.spec, &self.grant).await?;
            let matched = |row: u32| flags.is_set(block.rows.start + u64::from(row));
            let wanted: Vec<u32> = (0..index(rows.num_rows()))
                .filter(|row| self.spec.wants_left(matched(*row)))
                .collect();
            for chosen in wanted.chunks(self.spec.batch_size) {
                let marked = chosen.iter().map(|row| Some(matched(*row)));
                let marks: ArrayRef = Arc::new(marked.collect::<BooleanArray>());
                let of_left = UInt32Array::from(chosen.to_vec());
                let left = Picked { batch: Some(&rows), rows: &of_left };
                let right = Picked { batch: None, rows: &of_left };
                self.output.push(self.spec.output(left, right, Some(&marks))?).await?;
                if self.output.is_done() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

fn picked(rows: &UInt32Array, picks: &UInt32Array) -> Result<UInt32Array> {
    use datafusion::arrow::array::AsArray;
    use datafusion::arrow::datatypes::UInt32Type;
    Ok(take(rows, picks, None)?.as_primitive::<UInt32Type>().clone())
}

/// Copies a batch to new buffers.
fn copied(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = copy_to_heap(batch.num_rows(), batch.columns())?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}
