//! Scans: zero-copy batches, pruned reads, and the statistics for the planner.

use std::ops::Range;

use crate::common::{MIB, engine, eventually, lines, show};
use datafusion::arrow::array::{ArrayData, RecordBatch};
use datafusion::arrow::buffer::Buffer;
use futures::StreamExt;
use terrace_ledger::Class;
use terrace_sql::catalog::LABEL_BYTES;
use terrace_sql::{Engine, Session};

/// Ten chunks, ordered by `id`.
const TABLE: &str = "CREATE TABLE t WITH (encoding = 'plain') AS \
                     SELECT value AS id, value % 10 AS digit, \
                     CASE WHEN value % 3 = 0 THEN NULL ELSE value END AS some, \
                     'a value of more than twelve bytes ' || value AS word \
                     FROM generate_series(1, 655360) ORDER BY id";

async fn filled(dram_bytes: u64) -> (Engine, Session) {
    let engine = engine(dram_bytes);
    let session = engine.session().expect("session");
    show(&session, TABLE).await;
    (engine, session)
}

/// Runs a query and returns its batches.
async fn batches(session: &Session, text: &str) -> Vec<RecordBatch> {
    let statement = session.parse(text).expect("parses").remove(0);
    session.execute(statement).await.expect("starts").collect().await.expect("runs").batches
}

/// Address ranges of all pages of a column.
async fn addresses(engine: &Engine, column: usize) -> Vec<Range<usize>> {
    let table = engine.catalog().table("public", "t").expect("table");
    let mut ranges = Vec::new();
    for chunk in &table.snapshot().chunks {
        for pinned in chunk.space().fetch(&chunk.pages(&[column])).await.expect("fetch") {
            let start = pinned.as_ptr() as usize;
            ranges.push(start..start + pinned.len());
        }
    }
    ranges
}

fn buffers(data: &ArrayData) -> Vec<Buffer> {
    let nulls = data.nulls().map(|nulls| nulls.buffer().clone());
    let own = data.buffers().iter().cloned().chain(nulls);
    own.chain(data.child_data().iter().flat_map(buffers)).collect()
}

/// Extracts the value of a metric from the text of EXPLAIN ANALYZE.
fn metric(plan: &str, name: &str) -> String {
    let (_, rest) =
        plan.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("{name}: {plan}"));
    rest.chars().take_while(|c| !matches!(c, ',' | ']')).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_point_into_the_pages() {
    let (engine, session) = filled(1024 * MIB).await;
    for (column, name) in ["id", "digit", "some", "word"].into_iter().enumerate() {
        let pages = addresses(&engine, column).await;
        let batches = batches(&session, &format!("SELECT {name} FROM t")).await;
        assert!(engine.pins().pinned_bytes() > 0);
        let mut checked = 0;
        for batch in &batches {
            for buffer in buffers(&batch.column(0).to_data()) {
                let at = buffer.as_ptr() as usize;
                assert!(pages.iter().any(|page| page.contains(&at)), "{name} was copied");
                checked += 1;
            }
        }
        assert!(checked >= 80, "{checked} buffers of {name}");
    }
    eventually("the pins are gone", || engine.pins().pinned_bytes() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn above_the_limit_of_pins_batches_are_copies() {
    let (engine, session) = filled(64 * MIB).await;
    let limit = engine.pins().limit_bytes();
    let statement = session.parse("SELECT * FROM t").expect("parses").remove(0);
    let mut handle = session.execute(statement).await.expect("starts");
    let (mut kept, mut most, mut most_copied) = (Vec::new(), 0, 0);
    while let Some(batch) = handle.stream.next().await {
        kept.push(batch.expect("batch"));
        most = most.max(engine.pins().pinned_bytes());
        most_copied = most_copied.max(engine.pins().copied_bytes());
    }
    let rows: usize = kept.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 655_360);
    assert!(most_copied > 0, "no copy is in an account");
    assert_eq!(engine.pins().copied_bytes(), 0);
    // One column of a chunk per partition is pinned while it is copied.
    assert!(most <= limit + 16 * MIB, "{most} bytes pinned, {limit} allowed");
    let query = "EXPLAIN (ANALYZE, FORMAT INDENT) SELECT max(word || 'x') FROM t";
    let plan = show(&session, query).await;
    assert_ne!(metric(&plan, "chunks_copied"), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_memory_for_copies_batches_are_copied_one_by_one() {
    let (engine, session) = filled(64 * MIB).await;
    let expected = batches(&session, "SELECT * FROM t").await;
    let expected: Vec<String> = expected.iter().flat_map(lines).collect();
    assert_eq!(expected.len(), 655_360);
    // Takes all memory but the pool's floor.
    let hog = engine.ledger().register("hog", Class::Other);
    let mut idle = 0;
    while idle < 3 {
        engine.pool().release(u64::MAX);
        let available = engine.ledger().available();
        idle = if available > 0 && hog.try_grow(available).is_ok() { 0 } else { idle + 1 };
    }
    let statement = session.parse("SELECT * FROM t").expect("parses").remove(0);
    let mut handle = session.execute(statement).await.expect("starts");
    let (mut found, mut most_copied) = (Vec::new(), 0);
    let mut kept = Vec::new();
    while let Some(batch) = handle.stream.next().await {
        let batch = batch.expect("batch");
        found.extend(lines(&batch));
        most_copied = most_copied.max(engine.pins().copied_bytes());
        // Held pins force most chunks to be copied.
        if kept.len() < 16 {
            kept.push(batch);
        }
    }
    assert!(most_copied < MIB, "{most_copied}");
    let sorted = |mut lines: Vec<String>| {
        lines.sort_unstable();
        lines
    };
    assert!(sorted(found) == sorted(expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_that_no_row_can_come_from_are_not_read() {
    let (_engine, session) = filled(256 * MIB).await;
    let cases = [
        ("SELECT sum(digit) FROM t WHERE id > 650000", "1", "9"),
        ("SELECT sum(digit) FROM t WHERE id BETWEEN 70000 AND 140000", "2", "8"),
        ("SELECT sum(digit) FROM t WHERE id IN (5, 655000)", "2", "8"),
        ("SELECT sum(digit) FROM t WHERE id > 10 AND word > 'b'", "0", "10"),
        ("SELECT count(*) FROM t WHERE id < 0", "0", "10"),
        ("SELECT sum(digit) FROM t WHERE digit = 3", "10", "0"),
    ];
    for (query, scanned, pruned) in cases {
        let plan = show(&session, &format!("EXPLAIN (ANALYZE, FORMAT INDENT) {query}")).await;
        assert_eq!(metric(&plan, "chunks_scanned"), scanned, "{query}\n{plan}");
        assert_eq!(metric(&plan, "chunks_pruned"), pruned, "{query}\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_and_top_k_prune_while_they_run() {
    let (_engine, session) = filled(256 * MIB).await;
    show(&session, "CREATE TABLE few AS SELECT 600000 + value AS id FROM generate_series(1, 5)")
        .await;
    show(&session, "SET datafusion.execution.target_partitions = 1").await;
    let join = "SELECT count(t.word) FROM t JOIN few ON t.id = few.id";
    assert_eq!(show(&session, join).await, "5");
    let plan = show(&session, &format!("EXPLAIN (ANALYZE, FORMAT INDENT) {join}")).await;
    let scan =
        plan.lines().find(|line| line.contains("chunks=10")).unwrap_or_else(|| panic!("{plan}"));
    assert_eq!(metric(scan, "chunks_scanned"), "1", "{plan}");
    let top = "SELECT id, word FROM t ORDER BY id LIMIT 3";
    assert!(show(&session, top).await.starts_with("1 a value"));
    let plan = show(&session, &format!("EXPLAIN (ANALYZE, FORMAT INDENT) {top}")).await;
    assert_eq!(metric(&plan, "chunks_pruned"), "9", "{plan}");
    let last = "SELECT word, id AS n FROM t ORDER BY n DESC NULLS LAST LIMIT 3";
    assert!(show(&session, last).await.ends_with("655358"));
    let plan = show(&session, &format!("EXPLAIN (ANALYZE, FORMAT INDENT) {last}")).await;
    assert_eq!(metric(&plan, "chunks_pruned"), "9", "{plan}");
}

/// The table scanned by the first input of the first partitioned join of a plan.
fn build_side(plan: &str) -> String {
    let is_join = |line: &&str| line.contains("PagedHashJoinExec: mode=Partitioned");
    let mut lines = plan.lines().skip_while(|line| !is_join(line));
    let scan = lines.find(|line| line.contains("table=")).unwrap_or_else(|| panic!("{plan}"));
    let (_, name) = scan.split_once("table=public.").unwrap_or_else(|| panic!("{plan}"));
    name.chars().take_while(|c| c.is_alphanumeric()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_wide_rows_are_put_into_the_table_rather_than_many_narrow_ones() {
    let (_engine, session) = filled(256 * MIB).await;
    let columns: Vec<String> = (0..12).map(|n| format!("value + {n} AS c{n}")).collect();
    let wide = format!(
        "CREATE TABLE wide AS SELECT value AS id, value % 1000 AS kind, value / 1000 AS kilo, {} \
         FROM generate_series(1, 150000)",
        columns.join(", ")
    );
    show(&session, &wide).await;
    show(&session, "SET datafusion.execution.target_partitions = 2").await;
    // 15 MiB of columns, and 10 MiB.
    let sums: Vec<String> = (0..12).map(|n| format!("sum(wide.c{n})")).collect();
    let query =
        format!("SELECT sum(t.digit), {} FROM t JOIN wide ON t.id = wide.id", sums.join(", "));
    let plan = show(&session, &format!("EXPLAIN (FORMAT INDENT) {query}")).await;
    assert_eq!(build_side(&plan), "wide", "{plan}");
    assert!(show(&session, &query).await.starts_with("675000 "));
    // Two keys that identify a row together are not estimated by one of them, which has many
    // matches: the join has 150,000 rows, not 45 million.
    show(
        &session,
        "CREATE TABLE pairs AS SELECT value % 1000 AS one, value / 1000 AS other, value AS id \
         FROM generate_series(1, 300000)",
    )
    .await;
    let both = "(SELECT pairs.id FROM wide JOIN pairs ON wide.kind = pairs.one \
                AND wide.kilo = pairs.other) AS both";
    let query = format!("SELECT count(both.id), sum(t.digit) FROM t JOIN {both} ON both.id = t.id");
    assert_eq!(show(&session, &query).await, "150000 675000");
    let plan = show(&session, &format!("EXPLAIN (FORMAT INDENT) {query}")).await;
    assert_eq!(build_side(&plan), "wide", "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_of_decimals_keep_their_order() {
    let (_engine, session) = filled(256 * MIB).await;
    let table = "CREATE TABLE prices AS SELECT value AS id, value % 2 AS kind, \
                 CAST(value AS DECIMAL(9, 1)) AS price FROM generate_series(1, 6)";
    show(&session, table).await;
    let list =
        |order: &str| format!("array_to_string(array_agg(price * price ORDER BY id {order}), ' ')");
    let (up, down) = (list("ASC"), list("DESC"));
    let both = format!("SELECT kind, {up}, {down} FROM prices GROUP BY kind ORDER BY kind");
    let expected = "0 4.00 16.00 36.00 36.00 16.00 4.00\n1 1.00 9.00 25.00 25.00 9.00 1.00";
    assert_eq!(show(&session, &both).await, expected);
    let turned = format!("SELECT kind, {down}, {up} FROM prices GROUP BY kind ORDER BY kind");
    let expected = "0 36.00 16.00 4.00 4.00 16.00 36.00\n1 25.00 9.00 1.00 1.00 9.00 25.00";
    assert_eq!(show(&session, &turned).await, expected);
}

/// A filter above a join reduces the estimated rows of the other side, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_join_above_leaves_counts_below_it() {
    let (_engine, session) = filled(256 * MIB).await;
    for text in [
        "SET datafusion.execution.target_partitions = 2",
        "CREATE TABLE other AS SELECT value AS id FROM generate_series(1, 300000)",
        "CREATE TABLE kinds AS SELECT value AS digit, 'kind ' || value AS name \
         FROM generate_series(0, 9)",
    ] {
        show(&session, text).await;
    }
    let of = |filter: &str| {
        format!(
            "SELECT count(*) FROM t JOIN other ON t.id = other.id \
             JOIN kinds ON kinds.digit = t.digit WHERE {filter}"
        )
    };
    let (one, all) = (of("kinds.name = 'kind 3'"), of("kinds.name > 'a'"));
    let plan = show(&session, &format!("EXPLAIN (FORMAT INDENT) {one}")).await;
    assert_eq!(build_side(&plan), "t", "one row in ten of 655,360: {plan}");
    let plan = show(&session, &format!("EXPLAIN (FORMAT INDENT) {all}")).await;
    assert_eq!(build_side(&plan), "other", "{plan}");
    assert_eq!(show(&session, &one).await, "30000");
    assert_eq!(show(&session, &all).await, "300000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_projection_reads_its_columns_and_a_limit_its_chunks() {
    let (_engine, session) = filled(256 * MIB).await;
    let table = "SELECT sum(bytes) FROM terrace.segments WHERE column_name = 'digit'";
    let digits: u64 = show(&session, table).await.parse().expect("bytes");
    let plan = show(&session, "EXPLAIN (ANALYZE, FORMAT INDENT) SELECT sum(digit) FROM t").await;
    assert_eq!(total_bytes(&session, "SELECT sum(digit) FROM t").await, digits, "{plan}");
    assert_eq!(total_bytes(&session, "SELECT count(*) FROM t").await, 0);
    let all = total_bytes(&session, "SELECT id FROM t").await;
    let some = total_bytes(&session, "SELECT id FROM t LIMIT 10").await;
    assert!(some <= all / 4, "{some} of {all}");
    assert_eq!(batches(&session, "SELECT id FROM t LIMIT 10").await[0].num_rows(), 10);
}

/// Bytes of segments that a query requested.
async fn total_bytes(session: &Session, text: &str) -> u64 {
    let statement = session.parse(text).expect("parses").remove(0);
    let mut handle = session.execute(statement).await.expect("starts");
    while let Some(batch) = handle.stream.next().await {
        batch.expect("batch");
    }
    let progress = handle.query().progress();
    progress.dram_bytes + progress.remote_bytes + progress.store_bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_planner_knows_rows_bounds_and_distinct_values() {
    let (_engine, session) = filled(256 * MIB).await;
    let query = "EXPLAIN (FORMAT INDENT) SELECT count(*), min(id), max(id) FROM t";
    let plan = show(&session, query).await;
    assert!(plan.contains("PlaceholderRowExec"), "answered from statistics: {plan}");
    assert_eq!(show(&session, "SELECT count(*), min(id), max(id) FROM t").await, "655360 1 655360");
    show(&session, "SET datafusion.explain.show_statistics = true").await;
    let plan = show(&session, "EXPLAIN (FORMAT INDENT) SELECT digit FROM t").await;
    for part in
        ["Rows=Exact(655360)", "Min=Exact(Int64(0))", "Max=Exact(Int64(9))", "Distinct=Inexact(10)"]
    {
        assert!(plan.contains(part), "{part}: {plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_goes_from_nothing_to_everything() {
    let (_engine, session) = filled(256 * MIB).await;
    let statement = session.parse("SELECT word FROM t WHERE digit = 1").expect("parses").remove(0);
    let mut handle = session.execute(statement).await.expect("starts");
    let query = handle.query().clone();
    assert_eq!(query.progress().rows_total, Some(655_360));
    let mut last = 0.0;
    while let Some(batch) = handle.stream.next().await {
        batch.expect("batch");
        let now = query.progress().fraction().expect("known");
        assert!((last..=1.0).contains(&now), "{now} after {last}");
        last = now;
    }
    assert_eq!(query.progress().fraction(), Some(1.0));
    assert_eq!(query.rows_returned(), 65_536);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_query_reads_the_version_it_began_with() {
    let (engine, session) = filled(256 * MIB).await;
    let statement = session.parse("SELECT word FROM t").expect("parses").remove(0);
    let mut handle = session.execute(statement).await.expect("starts");
    let first = handle.stream.next().await.expect("a batch").expect("a batch").num_rows();
    show(&session, "DELETE FROM t WHERE id > 100").await;
    show(&session, "DROP TABLE t").await;
    let mut rows = first;
    while let Some(batch) = handle.stream.next().await {
        rows += batch.expect("batch").num_rows();
    }
    assert_eq!(rows, 655_360);
    drop(handle);
    let store = engine.pool().store().expect("store").clone();
    eventually("the store is empty", || store.stats().used_bytes == LABEL_BYTES).await;
}
