//! Generating the tables, in parts, as record batches.
//!
//! The generator keeps 300 MiB of text that the comments are cut from for the life of its process.
//! A process with a memory budget therefore lets another one generate ([`crate::tpch::feed`]).

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

use datafusion::arrow::array::{RecordBatch, RecordBatchReader};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

use crate::error::Result;
use crate::tpch::table::Table;

/// Rows of a batch: one block of a segment.
pub const BATCH_ROWS: usize = 8_192;

/// Rows of a part, roughly: the unit in which threads generate ahead of the consumer.
const PART_ROWS: u64 = 131_072;

/// Batches a thread may be ahead of the consumer.
const BATCHES_AHEAD: usize = 8;

/// One part of a table, `part` counting from 1.
pub fn part_reader(
    table: Table,
    scale: f64,
    part: i32,
    parts: i32,
) -> Box<dyn RecordBatchReader + Send> {
    macro_rules! reader {
        ($arrow:ident, $generator:ident) => {
            Box::new($arrow::new($generator::new(scale, part, parts)).with_batch_size(BATCH_ROWS))
        };
    }
    match table {
        Table::Region => reader!(RegionArrow, RegionGenerator),
        Table::Nation => reader!(NationArrow, NationGenerator),
        Table::Supplier => reader!(SupplierArrow, SupplierGenerator),
        Table::Part => reader!(PartArrow, PartGenerator),
        Table::PartSupp => reader!(PartSuppArrow, PartSuppGenerator),
        Table::Customer => reader!(CustomerArrow, CustomerGenerator),
        Table::Orders => reader!(OrderArrow, OrderGenerator),
        Table::LineItem => reader!(LineItemArrow, LineItemGenerator),
    }
}

/// In how many parts a table of this scale is generated.
pub fn part_count(table: Table, scale: f64) -> i32 {
    let rows = match table {
        // Four lines an order on average; a part is a range of orders.
        Table::LineItem => Table::Orders.row_count(scale).map(|orders| orders * 4),
        other => other.row_count(scale),
    };
    i32::try_from(rows.unwrap_or(0).div_ceil(PART_ROWS)).unwrap_or(i32::MAX).max(1)
}

/// Generates a table with `threads` threads and hands the batches to `take` in table order.
///
/// # Errors
/// The first error of `take`, after which generation stops.
pub fn generate(
    table: Table,
    scale: f64,
    threads: NonZeroUsize,
    mut take: impl FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let parts = part_count(table, scale);
    let lanes = i32::try_from(threads.get()).unwrap_or(i32::MAX).min(parts);
    std::thread::scope(|scope| {
        let receivers: Vec<Receiver<Option<RecordBatch>>> =
            (0..lanes).map(|lane| start_lane(scope, table, scale, (lane, lanes, parts))).collect();
        for receiver in receivers.iter().cycle().take(usize::try_from(parts).unwrap_or(0)) {
            // A lane ends each part with `None`; one that is gone has panicked, and the scope
            // passes that on.
            while let Ok(Some(batch)) = receiver.recv() {
                take(batch)?;
            }
        }
        Ok(())
    })
}

/// A thread that generates every `lanes`-th part, beginning with part `lane`.
fn start_lane<'scope>(
    scope: &'scope Scope<'scope, '_>,
    table: Table,
    scale: f64,
    (lane, lanes, parts): (i32, i32, i32),
) -> Receiver<Option<RecordBatch>> {
    let (sender, receiver) = sync_channel(BATCHES_AHEAD);
    scope.spawn(move || {
        let mut part = lane + 1;
        while part <= parts {
            if send_part(&sender, part_reader(table, scale, part, parts)).is_none() {
                return;
            }
            part += lanes;
        }
    });
    receiver
}

/// Sends the batches of a part and its end mark; `None` when nobody listens any more.
fn send_part(
    sender: &SyncSender<Option<RecordBatch>>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> Option<()> {
    // The generator's batches are computed, never decoded: it has no error to report.
    for batch in reader.flatten() {
        sender.send(Some(batch)).ok()?;
    }
    sender.send(None).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(table: Table, scale: f64, threads: usize) -> Vec<RecordBatch> {
        let mut batches = Vec::new();
        let threads = NonZeroUsize::new(threads).expect("threads");
        generate(table, scale, threads, |batch| {
            batches.push(batch);
            Ok(())
        })
        .expect("generated");
        batches
    }

    #[test]
    fn threads_do_not_change_the_order() {
        let one: Vec<RecordBatch> = rows(Table::Orders, 0.2, 1);
        let three = rows(Table::Orders, 0.2, 3);
        assert!(part_count(Table::Orders, 0.2) > 2);
        assert_eq!(one, three);
        let count: usize = one.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(u64::try_from(count).ok(), Table::Orders.row_count(0.2));
    }

    #[test]
    fn an_error_stops_the_generation() {
        let mut taken = 0;
        let threads = NonZeroUsize::new(2).expect("threads");
        let result = generate(Table::LineItem, 0.1, threads, |_| {
            taken += 1;
            Err(crate::error::BenchError::input("enough"))
        });
        assert!(result.is_err());
        assert_eq!(taken, 1);
    }
}
