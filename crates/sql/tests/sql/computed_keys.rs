//! Keys of windows, sorts and ordered aggregates that are computed, frames of RANGE over intervals
//! and times of day, and lists of what an outer query has, with the rows of PostgreSQL 15.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

async fn tables(session: &Session) {
    let tables = "CREATE TABLE k (id INT, a INT, b INT, iv INTERVAL, tm TIME);
        INSERT INTO k VALUES (1, 1, 2, '1 hour', '01:00'), (2, 1, -2, '90 minutes', '01:30'),
            (3, 2, 5, '1 day', '23:30'), (4, 2, -3, '25 hours', '00:15'),
            (5, 2, NULL, NULL, NULL), (6, 1, -4, '-1 hour', '12:00')";
    show(session, tables).await;
}

/// Keys whose order DataFusion does not find by itself.
const KEYS: &[(&str, &str)] = &[
    (
        "SELECT id, row_number() OVER (PARTITION BY a ORDER BY abs(floor(b)), id) FROM k \
         ORDER BY id",
        "1 1\n2 2\n3 2\n4 1\n5 3\n6 3",
    ),
    (
        "SELECT id, sum(id) OVER (PARTITION BY abs(floor(b))) FROM k ORDER BY id",
        "1 3\n2 3\n3 3\n4 4\n5 5\n6 6",
    ),
    (
        "SELECT id, sum(id) OVER (PARTITION BY sqrt(abs(a + b)), -floor(b) ORDER BY id) FROM k \
         ORDER BY id",
        "1 1\n2 2\n3 3\n4 4\n5 5\n6 6",
    ),
    (
        "SELECT id, sum(id) OVER (PARTITION BY a ORDER BY a + b > 0, id) FROM k ORDER BY id",
        "1 9\n2 2\n3 7\n4 4\n5 12\n6 8",
    ),
    (
        "SELECT id, count(*) OVER (ORDER BY CASE WHEN abs(a + b) > 2 THEN 1 ELSE 0 END), \
         max(id) OVER (ORDER BY lower('B' || b) > 'b3', id) FROM k ORDER BY id",
        "1 6 1\n2 3 2\n3 6 6\n4 3 4\n5 3 6\n6 6 6",
    ),
    (
        "SELECT array_agg(id ORDER BY abs(floor(b)) DESC, id), count(*) FROM k",
        "[5, 3, 6, 4, 1, 2] 6",
    ),
    (
        "SELECT a, array_agg(id ORDER BY abs(b - a), id) FROM k GROUP BY a \
         ORDER BY abs(floor(a)) DESC",
        "2 [3, 4, 5]\n1 [1, 2, 6]",
    ),
    ("SELECT id FROM k ORDER BY acos(b / 10.0), id", "3\n1\n2\n4\n6\n5"),
    (
        "SELECT o.id, (SELECT i.id FROM k i WHERE i.id <> o.id ORDER BY abs(i.b - o.b), i.id \
         LIMIT 1) FROM k o ORDER BY o.id",
        "1 3\n2 4\n3 1\n4 2\n5 1\n6 4",
    ),
    (
        "SELECT o.id, i.id FROM k o, LATERAL (SELECT i.id FROM k i WHERE i.id <> o.id \
         ORDER BY abs(i.b - o.b), i.id LIMIT 2) i ORDER BY o.id, abs(floor(i.id))",
        "1 2\n1 3\n2 4\n2 6\n3 1\n3 2\n4 2\n4 6\n5 1\n5 2\n6 2\n6 4",
    ),
    (
        "SELECT id, count(*) OVER (ORDER BY x - y) FROM (SELECT id, TIMESTAMP '2024-01-01' + iv \
         AS x, TIMESTAMP '2024-01-01' AS y FROM k) q ORDER BY id",
        "1 2\n2 3\n3 4\n4 5\n5 6\n6 1",
    ),
];

/// Frames of RANGE with distances.
const FRAMES: &[(&str, &str)] = &[
    (
        "SELECT id, sum(id) OVER (ORDER BY iv RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND \
         INTERVAL '30 minutes' FOLLOWING) FROM k ORDER BY id",
        "1 3\n2 3\n3 3\n4 7\n5 5\n6 6",
    ),
    (
        "SELECT id, sum(id) OVER (ORDER BY iv DESC RANGE BETWEEN CURRENT ROW AND '1 day' \
         FOLLOWING) FROM k ORDER BY id",
        "1 7\n2 9\n3 6\n4 10\n5 5\n6 6",
    ),
    (
        "SELECT id, count(*) OVER (ORDER BY iv NULLS FIRST RANGE BETWEEN UNBOUNDED PRECEDING \
         AND INTERVAL '1 month' FOLLOWING) FROM k ORDER BY id",
        "1 6\n2 6\n3 6\n4 6\n5 1\n6 6",
    ),
    (
        "SELECT id, sum(id) OVER (ORDER BY tm RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND \
         INTERVAL '1 hour' FOLLOWING) FROM k ORDER BY id",
        "1 7\n2 3\n3 3\n4 5\n5 5\n6 6",
    ),
    (
        "SELECT id, count(*) OVER (ORDER BY tm DESC RANGE INTERVAL '23 hours' PRECEDING) FROM k \
         ORDER BY id",
        "1 4\n2 3\n3 1\n4 4\n5 1\n6 2",
    ),
];

/// Lists of the columns of outer queries, and of WITH queries.
const LISTS: &[(&str, &str)] = &[
    ("WITH c AS (SELECT 7 AS x) SELECT [1, (SELECT x FROM c)][-1]", "7"),
    ("WITH c AS (SELECT 7 AS x) SELECT ([(SELECT x FROM c), 2])[-3]", ""),
    ("WITH c AS (SELECT 7 AS x) SELECT a FROM k WHERE [id] = [(SELECT x - 4 FROM c)]", "2"),
    (
        "SELECT id, s.l FROM k, LATERAL (SELECT ARRAY[k.id, k.a] AS l) s WHERE id < 3 ORDER BY id",
        "1 [1, 1]\n2 [2, 1]",
    ),
    ("SELECT u.x FROM k, unnest([k.id, k.a]) u(x) WHERE id = 3 ORDER BY x", "2\n3"),
    (
        "SELECT id FROM k WHERE EXISTS (SELECT 1 FROM k q WHERE [q.a] = [k.a] AND q.b > k.b) \
         ORDER BY id",
        "2\n4\n6",
    ),
    ("SELECT (SELECT [k.id, q.a] FROM k q WHERE q.id = k.id) FROM k WHERE id = 4", "[4, 2]"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_any_expressions() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, KEYS).await;
    let sorted = "SET datafusion.execution.target_partitions = 4;
        CREATE TABLE g AS SELECT i AS a, i % 7 AS b FROM generate_series(1, 100000) t(i);
        SELECT a FROM g WHERE a > 5 ORDER BY abs(floor(a - 50)) + abs(a + b), a LIMIT 2";
    assert_eq!(show(&session, sorted).await, "7\n14");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_have_distances_of_intervals_and_times() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, FRAMES).await;
    for distance in ["INTERVAL '-1 day'", "'-1 day'"] {
        let frame = format!("ORDER BY DATE '2024-01-01' + id RANGE {distance} PRECEDING");
        let text = error(&session, &format!("SELECT sum(id) OVER ({frame}) FROM k")).await;
        assert!(text.contains("invalid preceding or following size"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_hold_what_outer_queries_have() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, LISTS).await;
    let view = "CREATE VIEW v AS WITH c AS (SELECT 7 AS x) SELECT ARRAY[1, (SELECT x FROM c)] AS l;
        SELECT l FROM v";
    assert_eq!(show(&session, view).await, "[1, 7]");
    let text = show(&session, "SHOW CREATE TABLE v").await;
    assert!(text.contains("ARRAY[1, (SELECT x FROM c)]"), "{text}");
}
