//! Results of joins that DataFusion gets wrong.

use std::time::Duration;

use terrace_sql::Session;

use crate::common::{MIB, check, engine, show};

const DRAM: u64 = 64 * MIB;

/// A key of a join may combine columns of several tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_several_tables_are_kept() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let make = "CREATE TABLE a AS SELECT * FROM (VALUES (1), (2)) v(x);
                CREATE TABLE b AS SELECT * FROM (VALUES (10), (20)) v(y);
                CREATE TABLE c AS SELECT * FROM (VALUES (11, 1), (22, 2), (33, 3)) v(z, w);
                CREATE TABLE d AS SELECT * FROM (VALUES (1, 12), (2, 24)) v(x, s)";
    show(&session, make).await;
    let both = "1 10 11\n2 20 22";
    let cases = [
        ("a CROSS JOIN b JOIN c ON a.x + b.y = c.z AND a.x = c.w", both),
        ("a JOIN b ON true JOIN c ON c.z = a.x + b.y AND c.w = a.x", both),
        ("a, b, c WHERE a.x + b.y = c.z AND a.x = c.w", both),
        ("a CROSS JOIN b JOIN c ON a.x + b.y = c.z", both),
        ("c JOIN (a CROSS JOIN b) ON a.x + b.y = c.z AND a.x = c.w", both),
        (
            "a JOIN d ON d.x = a.x JOIN b ON true JOIN c ON a.x + b.y = c.z AND d.s = c.z + c.w",
            both,
        ),
        (
            "a JOIN b ON true JOIN c ON a.x + b.y = c.z JOIN d ON a.x + c.z = d.s AND d.x = c.w",
            both,
        ),
        ("a JOIN b ON true JOIN c ON a.x + b.y IS NOT DISTINCT FROM c.z AND a.x = c.w", both),
        ("a JOIN b ON true LEFT JOIN c ON a.x + b.y = c.z AND a.x = c.w WHERE c.z > 20", "2 20 22"),
    ];
    for (from, answer) in cases {
        let query = format!("SELECT a.x, b.y, c.z FROM {from} ORDER BY 1, 2");
        check(&session, &[(query.as_str(), answer)]).await;
    }
}

/// A key of a join may simplify to a constant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_constants_are_kept() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let make = "CREATE TABLE u (b BOOLEAN, x REAL);
                INSERT INTO u VALUES (NULL, 2.25), (true, 1), (false, 1)";
    show(&session, make).await;
    let of = |condition: &str| {
        format!("SELECT count(*) FROM u l JOIN u m ON true JOIN u r ON (l.b = ({condition}))")
    };
    let cases = [
        (of("r.x IN (CAST(NULL AS DOUBLE))"), "0"),
        (of("r.x = CAST(NULL AS DOUBLE) AND r.x IS NULL"), "9"),
        (of("r.x = CAST(NULL AS DOUBLE) AND r.x IS NOT NULL"), "0"),
        (of("r.x IS NULL OR true"), "9"),
        (of("r.x IS NULL AND false"), "9"),
        (of("r.b IS NOT DISTINCT FROM r.b"), "9"),
    ];
    for (query, answer) in &cases {
        check(&session, &[(query.as_str(), *answer)]).await;
    }
    let distinct = "SELECT count(*) FROM u l JOIN u r ON l.b IS NOT DISTINCT FROM \
                    (r.x IN (CAST(NULL AS DOUBLE)))";
    check(&session, &[(distinct, "3")]).await;
}

/// Only rows within the bounds of others are compared with them: all pairs of these tables would
/// take minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_by_ranges_compares_few_pairs() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let make = "CREATE TABLE visits AS SELECT value * 10 AS start, value * 10 + 4 AS stop,
                  CASE WHEN value % 1000 = 0 THEN NULL ELSE value END AS v
                  FROM generate_series(1, 200000);
                CREATE TABLE events AS SELECT value * 8 AS at, value * 8 + 2 AS until
                  FROM generate_series(1, 200000)";
    show(&session, make).await;
    let within = "FROM visits JOIN events ON at BETWEEN start AND stop";
    let beside = "FROM visits JOIN events ON start BETWEEN at - 1 AND at + 1 AND v % 2 = 0";
    let overlap = "FROM visits JOIN events ON start <= until AND at <= stop";
    let without = "FROM visits WHERE NOT EXISTS (SELECT 1 FROM events
                   WHERE at >= start AND at <= stop)";
    let outer = "FROM visits LEFT JOIN events ON at > start AND at < stop";
    let by_null = "FROM visits JOIN events ON v > at AND v < until";
    let cases = [
        (within, "120000"),
        (beside, "39840"),
        (overlap, "160000"),
        (without, "80000"),
        (outer, "200000"),
        (by_null, "24999"),
    ];
    for (from, answer) in cases {
        let query = format!("SELECT count(*) {from}");
        check(&session, &[(query.as_str(), answer)]).await;
    }
}

/// A semi or anti join stops at a row's first match: these tables have billions of pairs, which
/// would take minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_match_is_enough_for_semi_and_anti_joins() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let make =
        "CREATE TABLE a AS SELECT value % 3 AS k, value AS v, repeat('a', value % 3 + 1) AS s
                  FROM generate_series(1, 300000);
                CREATE TABLE b AS SELECT value % 4 AS k, value AS v, repeat('a', value % 4) AS s
                  FROM generate_series(1, 200000);
                CREATE TABLE c AS SELECT * FROM b WHERE k > 1";
    show(&session, make).await;
    let count = |condition: &str| format!("SELECT count(*) FROM a WHERE {condition}");
    let cases = [
        (count("k IN (SELECT k FROM c)"), "100000"),
        (count("k NOT IN (SELECT k FROM c)"), "200000"),
        (count("s IN (SELECT s FROM c)"), "200000"),
        (count("EXISTS (SELECT 1 FROM c WHERE c.k = a.k)"), "100000"),
        (count("NOT EXISTS (SELECT 1 FROM c WHERE c.k = a.k)"), "200000"),
        (count("k IN (SELECT k FROM c) OR v = 1"), "100001"),
        (count("s NOT IN (SELECT s FROM c) OR v = 2"), "100001"),
        (count("EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.v <> a.v)"), "300000"),
        (count("NOT EXISTS (SELECT 1 FROM b WHERE b.s = a.s AND b.v <> a.v)"), "0"),
        ("SELECT count(*) FROM b WHERE k IN (SELECT k FROM a)".to_owned(), "150000"),
        ("SELECT count(*) FROM b WHERE k NOT IN (SELECT k FROM a)".to_owned(), "50000"),
        (
            "SELECT count(*) FROM b WHERE EXISTS (SELECT 1 FROM a WHERE a.k = b.k AND a.v <> b.v)"
                .to_owned(),
            "150000",
        ),
    ];
    for (query, answer) in &cases {
        answers_soon(&session, query, answer).await;
    }
}

/// Checks the answer of a query, which takes less than a minute.
async fn answers_soon(session: &Session, query: &str, answer: &str) {
    let case = [(query, answer)];
    let answered = tokio::time::timeout(Duration::from_secs(60), check(session, &case)).await;
    assert!(answered.is_ok(), "not within a minute: {query}");
}

/// A join may have equalities of both kinds. The tables have billions of pairs with equal `k`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_by_equalities_of_both_kinds_compare_few_pairs() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let make = "CREATE TABLE a AS SELECT value % 3 AS k,
                  CASE WHEN value % 1000 > 0 THEN value END AS v FROM generate_series(1, 200000);
                CREATE TABLE b AS SELECT * FROM a";
    show(&session, make).await;
    let mixed = "a.k = b.k AND a.v IS NOT DISTINCT FROM b.v";
    let reversed = "a.v = b.v AND a.k IS NOT DISTINCT FROM b.k";
    let cases = [
        (format!("SELECT count(*) FROM a JOIN b ON {mixed}"), "213134"),
        (format!("SELECT count(*) FROM a LEFT JOIN b ON {mixed}"), "213134"),
        (format!("SELECT count(*) FROM a FULL JOIN b ON {mixed}"), "213134"),
        (format!("SELECT count(*) FROM a FULL JOIN b ON {reversed}"), "200200"),
        (format!("SELECT count(*) FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE {mixed})"), "0"),
        (
            format!("SELECT count(*) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE {reversed})"),
            "199800",
        ),
    ];
    for (query, answer) in &cases {
        answers_soon(&session, query, answer).await;
    }
}

/// Nulls equal nulls only where the condition says so, whatever the type of the columns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_by_equalities_of_both_kinds_match_nulls() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    for (of, one, other) in [
        ("INT", "0", "1"),
        ("REAL", "0", "'NaN'"),
        ("BOOLEAN", "false", "true"),
        ("TEXT", "''", "'a'"),
        ("BYTEA", "'\\x'", "'\\x00'"),
        ("DATE", "'1970-01-01'", "'2024-02-29'"),
        ("TIMESTAMPTZ", "'1970-01-01 00:00:00+00'", "'2024-02-29 12:00:00+00'"),
        ("DECIMAL(10, 2)", "0", "1.25"),
        (
            "UUID",
            "'00000000-0000-0000-0000-000000000000'",
            "'00000000-0000-0000-0000-000000000001'",
        ),
        ("INT[]", "'{}'", "'{1}'"),
        ("JSONB", "'0'", "'{}'"),
    ] {
        let rows = format!(
            "(NULL, NULL), (1, NULL), (1, {one}), (2, {one}), (NULL, {one}), (1, {other}),
             (2, NULL), (2, {other})"
        );
        let make = format!(
            "CREATE TABLE l (k INT, v {of}); INSERT INTO l VALUES {rows};
             CREATE TABLE r (k INT, v {of}); INSERT INTO r VALUES {rows}, (1, NULL), (3, {one})"
        );
        show(&session, &make).await;
        for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
            let counted = |condition: &str| {
                format!("SELECT count(*), count(l.k), count(r.k) FROM l {join} r ON {condition}")
            };
            let pairs = [
                (
                    "l.k = r.k AND l.v IS NOT DISTINCT FROM r.v",
                    "l.k = r.k AND (l.v = r.v OR l.v IS NULL AND r.v IS NULL)",
                ),
                (
                    "l.v = r.v AND l.k IS NOT DISTINCT FROM r.k",
                    "l.v = r.v AND (l.k = r.k OR l.k IS NULL AND r.k IS NULL)",
                ),
            ];
            for (query, same) in pairs {
                let expected = show(&session, &counted(same)).await;
                assert_eq!(show(&session, &counted(query)).await, expected, "{of}: {join} {query}");
            }
        }
        show(&session, "DROP TABLE l; DROP TABLE r").await;
    }
}
