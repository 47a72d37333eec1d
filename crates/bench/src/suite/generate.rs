//! Generation of tables in parts, as record batches.
//!
//! TPC-H's generator keeps 300 MiB of text, from which comments are cut, for the life of its
//! process. A process with a memory budget therefore runs the generator in a child process
//! ([`crate::suite::feed`]).

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

use datafusion::arrow::array::RecordBatch;

use crate::error::{BenchError, Result};
use crate::suite::table::Generated;

/// Number of rows of a batch: one block of a segment.
pub const BATCH_ROWS: usize = 8_192;

/// Number of batches that a thread may be ahead of the consumer.
const BATCHES_AHEAD: usize = 8;

/// Message of a lane: a batch, the end of a part (`None`), or the error that stopped it.
type Handed = Result<Option<RecordBatch>>;

/// Generates a table with `threads` threads and passes the batches to `take` in table order.
///
/// # Errors
/// The first error of the generator or of `take`, after which generation stops.
pub fn generate<T: Generated>(
    table: T,
    scale: f64,
    threads: NonZeroUsize,
    mut take: impl FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let parts = table.part_count(scale);
    let lanes = i32::try_from(threads.get()).unwrap_or(i32::MAX).min(parts);
    std::thread::scope(|scope| {
        let receivers: Vec<Receiver<Handed>> =
            (0..lanes).map(|lane| start_lane(scope, table, scale, (lane, lanes, parts))).collect();
        for receiver in receivers.iter().cycle().take(usize::try_from(parts).unwrap_or(0)) {
            // A lane ends each part with `None`. A lane whose channel is closed has panicked, which
            // the scope propagates.
            while let Ok(handed) = receiver.recv() {
                let Some(batch) = handed? else { break };
                take(batch)?;
            }
        }
        Ok(())
    })
}

/// Starts a thread that generates every `lanes`-th part, beginning with part `lane`.
fn start_lane<'scope, T: Generated>(
    scope: &'scope Scope<'scope, '_>,
    table: T,
    scale: f64,
    (lane, lanes, parts): (i32, i32, i32),
) -> Receiver<Handed> {
    let (sender, receiver) = sync_channel(BATCHES_AHEAD);
    scope.spawn(move || {
        let mut part = lane + 1;
        while part <= parts {
            if send_part(&sender, table, scale, (part, parts)).is_none() {
                return;
            }
            part += lanes;
        }
    });
    receiver
}

/// Sends the batches of a part and its end mark; `None` if the receiver is gone or the lane has
/// sent an error.
fn send_part<T: Generated>(
    sender: &SyncSender<Handed>,
    table: T,
    scale: f64,
    (part, parts): (i32, i32),
) -> Option<()> {
    let reader = match table.part(scale, part, parts) {
        Ok(reader) => reader,
        Err(error) => {
            // The receiver may be gone; then the error is dropped.
            let _ = sender.send(Err(error));
            return None;
        }
    };
    for batch in reader {
        let failed = batch.is_err();
        sender.send(batch.map(Some).map_err(BenchError::from)).ok()?;
        if failed {
            return None;
        }
    }
    sender.send(Ok(None)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpch::table::Table;

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
        assert!(Table::Orders.part_count(0.2) > 2);
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
            Err(BenchError::input("enough"))
        });
        assert!(result.is_err());
        assert_eq!(taken, 1);
    }
}
