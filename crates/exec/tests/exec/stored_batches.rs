//! Batches that are stored and read again, against the rows themselves.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::Int64Type;
use terrace_exec::FixedMemory;
use terrace_exec::StoredBatches;
use terrace_testkit::{Rng, with_seed};

use crate::common::{assert_freed, memory};

/// Returns rows whose numbers are from `first` on, and a text of each.
fn rows(first: i64, count: usize, bytes: usize) -> RecordBatch {
    let numbers = first..first + i64::try_from(count).unwrap();
    let text = |number: i64| format!("{number} {}", "x".repeat(bytes));
    let texts = StringViewArray::from_iter_values(numbers.clone().map(text));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    RecordBatch::try_from_iter([("n", numbers), ("t", Arc::new(texts) as ArrayRef)]).unwrap()
}

/// Asserts that the batch with a row has it, and begins with the row that it says.
async fn check(stored: &StoredBatches, row: u64) {
    let (first, batch) = stored.batch_with(row).await.unwrap().unwrap();
    let numbers = batch.column(0).as_primitive::<Int64Type>();
    let place = usize::try_from(row - first).unwrap();
    assert_eq!(u64::try_from(numbers.value(0)).unwrap(), first);
    assert_eq!(u64::try_from(numbers.value(place)).unwrap(), row);
    let texts = batch.column(1).as_string_view();
    assert!(texts.value(place).starts_with(&format!("{row} ")));
}

/// Stores batches of random sizes, and reads random rows of them meanwhile.
async fn store(memory: &FixedMemory, mut rng: Rng) {
    let schema = rows(0, 1, 1).schema();
    let mut stored = StoredBatches::new(memory, "Cursor", &schema);
    let mut count = 0_i64;
    for turn in 0..200 {
        let (batch, bytes) = match rng.index(3) {
            0 => (1, rng.index(100)),
            1 => (rng.index(50), rng.index(1000)),
            _ => (rng.index(6000), rng.index(200)),
        };
        // A slice of longer buffers, which are not kept.
        let batch = rows(count - 7, batch + 7, bytes).slice(7, batch);
        count += i64::try_from(batch.num_rows()).unwrap();
        stored.append(batch).unwrap();
        assert_eq!(stored.rows(), u64::try_from(count).unwrap(), "turn {turn}");
        for _ in 0..3 {
            if stored.rows() > 0 {
                check(&stored, rng.below(stored.rows())).await;
            }
        }
    }
    assert!(stored.batch_with(stored.rows()).await.unwrap().is_none());
    assert!(stored.bytes() > 12 << 20, "{} bytes", stored.bytes());
    assert!(memory.held_bytes() <= 8 << 20, "{} bytes are held", memory.held_bytes());
}

#[test]
fn rows_are_found_by_their_numbers() {
    with_seed(|seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (_space, memory) = memory(8 << 20, 4 << 20);
        runtime.block_on(store(&memory, Rng::new(seed)));
        assert_freed(&memory, "stored batches");
    });
}

#[tokio::test]
async fn a_long_batch_is_cut_and_rows_without_columns_are_counted() {
    let (_space, memory) = memory(32 << 20, 8 << 20);
    let batch = rows(0, 100, 200_000);
    let mut stored = StoredBatches::new(&memory, "Cursor", &batch.schema());
    stored.append(batch).unwrap();
    let (_, part) = stored.batch_with(50).await.unwrap().unwrap();
    assert!(part.num_rows() < 50, "{} rows", part.num_rows());
    check(&stored, 0).await;
    check(&stored, 99).await;
    drop(stored);
    let empty = rows(0, 5_000, 1).project(&[]).unwrap();
    let mut stored = StoredBatches::new(&memory, "Cursor", &empty.schema());
    for _ in 0..3 {
        stored.append(empty.clone()).unwrap();
    }
    assert_eq!(stored.rows(), 15_000);
    for row in [0, 9_999, 10_000, 14_999] {
        let (first, batch) = stored.batch_with(row).await.unwrap().unwrap();
        assert!(row < first + u64::try_from(batch.num_rows()).unwrap());
    }
    drop(stored);
    assert_freed(&memory, "stored batches");
}
