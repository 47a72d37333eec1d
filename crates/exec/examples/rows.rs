//! Speed of appending to row pages and gathering from them, and of Arrow's `take`.
//!
//! `cargo run --release -p terrace-exec --example rows`

#![allow(clippy::print_stdout, clippy::cast_possible_truncation, reason = "an example")]

use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{Array, ArrayRef, Int64Array, StringViewArray, UInt32Array};
use datafusion::arrow::compute::take;
use terrace_exec::rows::{RowLayout, RowPages};
use terrace_exec::{FixedMemory, QueryMemory, Result};
use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig};

const ROWS: usize = 1_500_000;
const BATCH: usize = 8192;

fn main() -> Result<()> {
    let pool = Pool::new(PoolConfig::new("rows", Ledger::new(2 << 30)))?;
    let memory = FixedMemory::new(pool.create_space("rows", None)?, 1 << 30);
    let integers = || -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..ROWS as i64).map(|n| n * 7919 % 1_000_003)))
    };
    let strings = |long: bool| -> ArrayRef {
        let text =
            |n: usize| format!("Customer#{:09}{}", n, if long { " of the west" } else { "" });
        let text = |n: usize| if long { text(n) } else { format!("C{n:07}") };
        Arc::new(StringViewArray::from_iter_values((0..ROWS).map(text)))
    };
    bench("3 int64", &memory, vec![integers(), integers(), integers()], 24)?;
    bench("8 int64", &memory, (0..8).map(|_| integers()).collect(), 64)?;
    bench("int64 + 8-byte string", &memory, vec![integers(), strings(false)], 24)?;
    bench("int64 + 30-byte string", &memory, vec![integers(), strings(true)], 54)
}

/// Measures each three times and keeps the best; `bytes` of values per row.
fn bench(name: &str, memory: &FixedMemory, columns: Vec<ArrayRef>, bytes: usize) -> Result<()> {
    let types: Vec<_> = columns.iter().map(|column| column.data_type().clone()).collect();
    let layout = RowLayout::new(&types, 8)?;
    let random: Vec<u32> = (0..ROWS as u64).map(|n| (n * 1_000_003 % ROWS as u64) as u32).collect();
    let in_order: Vec<u32> = (0..ROWS as u32).collect();
    let hashes = vec![1_u64; BATCH];
    let mut best = [f64::MAX; 5];
    for _ in 0..3 {
        let mut pages =
            RowPages::new(memory.space().clone(), memory.register("rows"), layout.clone());
        let mut addresses = Vec::with_capacity(ROWS);
        let start = Instant::now();
        for from in (0..ROWS).step_by(BATCH) {
            let len = BATCH.min(ROWS - from);
            let batch: Vec<ArrayRef> = columns.iter().map(|it| it.slice(from, len)).collect();
            let batch = layout.prepare(&batch)?;
            pages.append(&batch, None, Some(&hashes), Some(&mut addresses))?;
        }
        best[0] = best[0].min(start.elapsed().as_secs_f64());
        for (slot, order) in [(1, &in_order), (2, &random)] {
            let gather = time(order, |picks| {
                let rows = pages.resolve(picks.iter().map(|n| addresses[*n as usize]))?;
                (0..columns.len()).try_for_each(|column| rows.gather(column).map(drop))
            })?;
            let taken = time(order, |picks| {
                let picks = UInt32Array::from(picks.to_vec());
                columns.iter().try_for_each(|it| Ok(take(it, &picks, None).map(drop)?))
            })?;
            best[slot] = best[slot].min(gather);
            best[slot + 2] = best[slot + 2].min(taken);
        }
    }
    let speed = |seconds: f64| (ROWS * bytes) as f64 / seconds / 1e9;
    println!(
        "{name}, GB/s: append {:.2}; in order gather {:.2}, take {:.2}; at random gather {:.2}, \
         take {:.2}",
        speed(best[0]),
        speed(best[1]),
        speed(best[3]),
        speed(best[2]),
        speed(best[4])
    );
    Ok(())
}

fn time(order: &[u32], mut work: impl FnMut(&[u32]) -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    order.chunks(BATCH).try_for_each(&mut work)?;
    Ok(start.elapsed().as_secs_f64())
}
