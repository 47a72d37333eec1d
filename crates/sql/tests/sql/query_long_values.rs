//! Values and batches that are large compared to memory.

use std::time::{Duration, Instant};

use crate::common::{MIB, engine, error, show, try_show};

/// Three times the memory, in one or two batches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_long_texts_is_taken_in_pieces() {
    let session = engine(64 * MIB).session().expect("session");
    let texts = "SELECT value AS id, value % 2 AS g, repeat('x', 200000) || value AS p \
                 FROM generate_series(1, 1000)";
    show(&session, &format!("CREATE TABLE t AS {texts}")).await;
    for (query, expected) in [
        ("SELECT sum(length(p)) FROM (SELECT p FROM t ORDER BY p DESC)", "200002893"),
        ("SELECT max(length(p)) FROM (SELECT p, count(*) OVER (PARTITION BY g) FROM t)", "200004"),
    ] {
        assert_eq!(show(&session, query).await, expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_fit_is_refused_at_once() {
    let session = engine(32 * MIB).session().expect("session");
    let began = Instant::now();
    let group = "SELECT count(*) FROM (SELECT repeat('x', 17000000 + value) AS p \
                 FROM generate_series(1, 3) GROUP BY p)";
    let text = error(&session, group).await;
    assert!(text.contains("longer than a page"), "{text}");
    let text = "SELECT sum(length(p)) FROM (SELECT p, row_number() OVER \
                (PARTITION BY g ORDER BY p) FROM (SELECT value % 2 AS g, \
                repeat('x', 30000000 + value) AS p FROM generate_series(1, 6)))";
    if let Err(error) = try_show(&session, text).await {
        let text = error.to_string();
        assert!(text.contains("memory is") || text.contains("longer than a page"), "{text}");
    }
    assert!(began.elapsed() < Duration::from_secs(10), "after {:?}", began.elapsed());
    assert_eq!(show(&session, "SELECT 1").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_beyond_two_gibibytes_are_a_limit() {
    let session = engine(64 * MIB).session().expect("session");
    for query in [
        "SELECT count(x) FROM (SELECT repeat('x', 1048576) AS x, value FROM range(9000)) t \
         WHERE length(x) > value",
        "CREATE TABLE t AS SELECT repeat('x', 1048576) AS x, value FROM range(9000)",
    ] {
        let text = error(&session, query).await;
        assert!(text.contains("program limit exceeded"), "{query}\n{text}");
    }
    assert_eq!(show(&session, "SELECT 1").await, "1");
}
