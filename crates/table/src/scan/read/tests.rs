use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use terrace_pool::Pinned;
use terrace_store::MemoryBlocks;

use super::*;
use crate::catalog::IfExists;
use crate::test_support::{Database, batch};

const MIB: usize = 1 << 20;

/// Pins `count` new pages of 1 MiB.
fn hold(database: &Database, count: usize) -> Vec<Pinned> {
    let space = database.pool.create_space("holder", None).expect("a space");
    let page = |_| space.allocate(MIB).expect("a frame").1.downgrade().pin();
    (0..count).map(page).collect()
}

/// A chunk of two columns of a little more than 512 KiB each, while the pool has 1 MiB for both;
/// the limit of pins would allow pinning both.
#[tokio::test]
async fn a_chunk_without_frames_for_all_its_columns_is_copied_column_by_column() {
    let directory = tempfile::tempdir().expect("tempdir");
    let blocks = Arc::new(MemoryBlocks::new(1 << 30));
    let catalog = directory.path().join("catalog.redb");
    let database = Database::open_with(&catalog, blocks, 16 << 20).expect("open");
    let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int64, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    // Values that no encoding makes smaller.
    let value = |row: i64| row.wrapping_mul(0x5851_F42D_4C95_7F2D);
    let column = |sign: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..65_536).map(|row| sign.wrapping_mul(value(row)))))
    };
    let rows = vec![batch(&schema, vec![column(1), column(-1)])];
    let made = database.table_as("t", IfExists::Fail, &schema, rows).await;
    assert_eq!(made.expect("create"), Some(65_536));
    let table = database.find("t").expect("the table");
    let snapshot = table.snapshot();
    let [chunk] = snapshot.chunks.as_slice() else { panic!("one chunk") };
    assert!(chunk.extent_bytes() > 1 << 20, "{} bytes", chunk.extent_bytes());

    let held = hold(&database, 15);
    let pins = Arc::new(PagePins::new(8 << 20));
    let reader = ChunkReader::new("t".into(), &schema, vec![0, 1], Arc::clone(&pins));
    let reader = Arc::new(reader.expect("a reader"));
    let mut blocks = reader.open(chunk).await.expect("the chunk");
    assert!(matches!(blocks.source, Source::Copied(..)), "the chunk was pinned");
    assert_eq!(pins.pinned_bytes(), 0);
    let mut row = 0;
    while let Some(arrays) = blocks.next().await.expect("a block") {
        let [a, b] = [0, 1].map(|n| arrays[n].as_primitive::<Int64Type>().clone());
        for (a, b) in a.values().iter().zip(b.values()) {
            assert_eq!((*a, *b), (value(row), value(row).wrapping_neg()));
            row += 1;
        }
    }
    assert_eq!(row, 65_536);
    drop(held);
    let blocks = reader.open(chunk).await.expect("the chunk");
    assert!(matches!(blocks.source, Source::Segments(..)), "there are frames for both");
}
