//! Tests of the placement of segments by statements.

use std::sync::Arc;

use terrace_table::catalog::DEFAULT_SCHEMA;
use terrace_table::chunk::Chunk;
use terrace_table::table::TableVersion;

use super::{Engine, EngineConfig};

/// Asserts that from most chunks to the next a column continues right behind, or nearly so: the
/// heap fills some holes.
fn assert_columns_lie_together(version: &TableVersion) {
    let chunks = version.chunks.len();
    assert!(chunks > 10, "a table of {chunks} chunks");
    for column in 0..version.schema().fields().len() {
        let bytes_of = |chunk: &Arc<Chunk>| {
            let copied = chunk.columns[column].placement.copied().expect("it is in the heap");
            copied.bytes().as_ptr_range()
        };
        let places: Vec<_> = version.chunks.iter().map(bytes_of).collect();
        let near = places.windows(2).filter(|pair| {
            let gap = pair[1].start.addr().abs_diff(pair[0].end.addr());
            gap < pair[0].end.addr() - pair[0].start.addr()
        });
        let near = near.count();
        assert!(near + 4 > chunks, "column {column}, {near} near: {places:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_of_a_column_lie_together() {
    let engine = Engine::open(&EngineConfig::new(256 << 20)).expect("engine");
    let session = engine.session().expect("session");
    let texts = [
        "CREATE HEAP asked WITH (size = '128MiB')",
        "CREATE TABLE t WITH (encoding = 'plain') AS SELECT value AS a, value + 1 AS b, \
         value + 2 AS c, value + 3 AS d FROM generate_series(1, 1000000)",
        "ALTER TABLE t SET TIER asked",
    ];
    for text in texts {
        session.sql(text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    let table = engine.catalog().table(DEFAULT_SCHEMA, "t").expect("a table");
    assert_columns_lie_together(&table.snapshot());
}
