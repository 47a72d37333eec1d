//! Results of groups over joins that DataFusion gets wrong.

use crate::common::{MIB, check, engine, error, show};
use terrace_sql::Session;

const DRAM: u64 = 64 * MIB;

/// Creates a view of groups over a join, one side of which has a key.
async fn groups(session: &Session, join: &str) {
    let make = format!(
        "CREATE TABLE t AS SELECT * FROM (VALUES ('a', 5), ('b', 3), ('a', 4)) v(name, v);
         CREATE TABLE u AS SELECT * FROM (VALUES (1), (1), (2)) v(x);
         CREATE TABLE w AS SELECT * FROM (VALUES (1), (2), (3)) v(x);
         CREATE VIEW g AS SELECT k.x, t.name, max(t.v) AS m
             FROM t {join} GROUP BY k.x, t.name"
    );
    show(session, &make).await;
}

/// A key of one side of a join is not a key of the groups.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_side_of_a_join_are_no_keys_of_its_groups() {
    let keys = "(SELECT x FROM u GROUP BY x) k";
    for join in [
        format!("CROSS JOIN {keys}"),
        format!("JOIN {keys} ON k.x < t.v"),
        format!("LEFT JOIN {keys} ON k.x < t.v"),
        "CROSS JOIN (SELECT DISTINCT x FROM u) k".to_owned(),
        "CROSS JOIN LATERAL (SELECT u.x FROM u WHERE u.x < t.v GROUP BY u.x) k".to_owned(),
    ] {
        let engine = engine(DRAM);
        let session = engine.session().expect("session");
        groups(&session, &join).await;
        let cases = [
            ("SELECT x, m, name FROM g ORDER BY x, m", "1 3 b\n1 5 a\n2 3 b\n2 5 a"),
            ("SELECT DISTINCT ON (x, m) x, name FROM g ORDER BY x, m", "1 b\n1 a\n2 b\n2 a"),
            ("SELECT count(*) FROM (SELECT DISTINCT x, m FROM g)", "4"),
            ("SELECT count(*) FROM (SELECT x FROM g GROUP BY x, m)", "4"),
            ("SELECT count(*) FROM (SELECT x, count(*) FROM g GROUP BY x, m HAVING m > 3)", "2"),
            ("SELECT x, max(m), count(*) FROM g GROUP BY x ORDER BY x", "1 5 2\n2 5 2"),
            ("SELECT w.x FROM w LEFT JOIN g ON w.x = g.x ORDER BY 1", "1\n1\n2\n2\n3"),
            ("SELECT x, sum(m) OVER (ORDER BY x) AS s FROM g ORDER BY x", "1 8\n1 8\n2 16\n2 16"),
            (
                "WITH h AS (SELECT x, name, m FROM g) SELECT w.x, h.m, h.name \
                 FROM h JOIN w ON w.x = h.x ORDER BY w.x, h.m",
                "1 3 b\n1 5 a\n2 3 b\n2 5 a",
            ),
        ];
        check(&session, &cases).await;
    }
}

/// Columns determined by a key of a relation are not grouped by unless they are named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_that_are_not_grouped_by_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    groups(&session, "CROSS JOIN (SELECT x FROM u GROUP BY x) k").await;
    let keyed = "(SELECT x, count(*) AS n FROM u GROUP BY x) k";
    let refused = error(&session, &format!("SELECT x, n FROM {keyed} GROUP BY x")).await;
    assert!(refused.contains("k.n") && refused.contains("GROUP BY"), "{refused}");
    let cases = [
        (format!("SELECT x, n FROM {keyed} GROUP BY x, n ORDER BY x, n"), "1 2\n2 1"),
        (format!("SELECT x, max(n) FROM {keyed} GROUP BY x ORDER BY x"), "1 2\n2 1"),
        (format!("SELECT x, n FROM {keyed} ORDER BY x, n DESC"), "1 2\n2 1"),
        (format!("SELECT DISTINCT ON (x, n) n FROM {keyed} ORDER BY x, n"), "2\n1"),
    ];
    for (query, answer) in &cases {
        check(&session, &[(query.as_str(), *answer)]).await;
    }
}

/// A repeated key is one key, even if it is a constant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_come_again_are_one() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    groups(&session, "CROSS JOIN (SELECT x FROM u GROUP BY x) k").await;
    let cases = [
        ("SELECT q.c FROM (SELECT 9 AS c FROM u) q GROUP BY q.c, q.c", "9"),
        (
            "SELECT q.c, q.x FROM (SELECT 9 AS c, x FROM u) q GROUP BY q.c, q.x, q.c ORDER BY x",
            "9 1\n9 2",
        ),
        ("SELECT DISTINCT x, x AS y FROM (SELECT x FROM u GROUP BY x, x) ORDER BY 1", "1 1\n2 2"),
        ("SELECT x, m FROM g GROUP BY x, m, x ORDER BY x, m", "1 3\n1 5\n2 3\n2 5"),
    ];
    check(&session, &cases).await;
}

/// A key of one grouping set varies in the groups of another. The first aggregate determines the
/// order of the rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_grouping_sets_come_in_their_whole_order() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE p AS SELECT * FROM (VALUES (1, 1), (2, 1), (1, 2)) v(k, n)").await;
    let sets = "FROM p GROUP BY GROUPING SETS ((n), (k)) ORDER BY n NULLS LAST, k";
    let first = "string_agg(n::text, '' ORDER BY k DESC, n)";
    let cases = [
        (
            format!("SELECT {first}, array_agg(n * 10 + k ORDER BY k, n) {sets}"),
            "11 [11, 12]\n2 [21]\n12 [11, 21]\n1 [12]",
        ),
        (
            format!(
                "SELECT {first}, first_value(k ORDER BY k, n), last_value(k ORDER BY k, n) {sets}"
            ),
            "11 1 2\n2 1 1\n12 1 1\n1 2 2",
        ),
        (
            format!(
                "SELECT {first}, string_agg(k::text, '' ORDER BY k, n) FROM p GROUP BY ROLLUP (k) \
                  ORDER BY k NULLS LAST"
            ),
            "12 11\n1 2\n112 112",
        ),
    ];
    for (query, answer) in &cases {
        check(&session, &[(query.as_str(), *answer)]).await;
    }
}

/// A number within a grouping set is a position of the select list, as it is alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_in_grouping_sets_are_positions() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT * FROM (VALUES (1, 5), (1, 6), (2, 5)) v(a, b)").await;
    let select = "SELECT a + 1 AS k, b, count(*) FROM t";
    for (by_position, by_name) in [
        ("ROLLUP (1, 2)", "ROLLUP (a + 1, b)"),
        ("CUBE (1, 2)", "CUBE (a + 1, b)"),
        ("GROUPING SETS ((1), (2), ())", "GROUPING SETS ((a + 1), (b), ())"),
    ] {
        let answer = |keys: &str| format!("{select} GROUP BY {keys} ORDER BY 1, 2");
        let expected = show(&session, &answer(by_name)).await;
        check(&session, &[(&answer(by_position), &expected)]).await;
    }
    let message = error(&session, &format!("{select} GROUP BY ROLLUP (4)")).await;
    assert!(message.contains("position 4") && message.contains("3 columns"), "{message}");
    let message = error(&session, "SELECT *, 1 AS x FROM t GROUP BY ROLLUP (2)").await;
    assert!(message.contains("behind a wildcard"), "{message}");
}

/// NOT NULL belongs to the tables that a query reads, and not to a table with its rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_with_the_rows_of_a_query_has_no_constraints() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let make = "CREATE TABLE t (a INT NOT NULL, b TEXT NOT NULL);
                INSERT INTO t VALUES (1, 'x');
                CREATE TABLE u AS SELECT * FROM t;
                CREATE OR REPLACE TABLE t AS SELECT a, b FROM t;
                INSERT INTO u VALUES (NULL, NULL);
                INSERT INTO t VALUES (NULL, NULL)";
    show(&session, make).await;
    check(&session, &[("SELECT count(*), count(a), count(b) FROM u", "2 1 1")]).await;
    check(&session, &[("SELECT count(*), count(a), count(b) FROM t", "2 1 1")]).await;
}

/// A position in ORDER BY stands for any column of the result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_are_those_of_computed_columns_too() {
    let session = engine(DRAM).session().expect("session");
    let table = "CREATE TABLE t AS SELECT n, n % 2 AS x FROM generate_series(1, 5) s(n)";
    show(&session, &format!("{table}; CREATE SEQUENCE q")).await;
    let cases = [
        ("SELECT -x, count(*) FROM t GROUP BY x ORDER BY 1", "-1 3\n0 2"),
        ("SELECT abs(-x), sum(n) FROM t GROUP BY x ORDER BY 1 DESC, 2", "1 9\n0 6"),
        (
            "SELECT x + 1, count(*) FROM t GROUP BY ROLLUP (x) ORDER BY 1 NULLS FIRST",
            " 5\n1 2\n2 3",
        ),
        ("SELECT count(*) + 1 FROM t ORDER BY 1", "6"),
        (
            "SELECT max(n) - min(n), x FROM t GROUP BY x HAVING count(*) > 1 ORDER BY 1, 2",
            "2 0\n4 1",
        ),
        ("SELECT DISTINCT x + 1 FROM t GROUP BY x, n ORDER BY 1", "1\n2"),
        ("SELECT x::text || 'a', count(*) FROM t GROUP BY 1 ORDER BY 1", "0a 2\n1a 3"),
        ("SELECT x + 1, count(*) FROM t GROUP BY ALL ORDER BY ALL", "1 2\n2 3"),
        ("SELECT rank() OVER (ORDER BY count(*)), x FROM t GROUP BY x ORDER BY 1", "1 0\n2 1"),
        ("SELECT 10 - nextval('q') FROM t GROUP BY x ORDER BY 1", "8\n9"),
        ("SELECT nextval('q')", "3"),
        (
            "SELECT (SELECT max(y.n) FROM t y WHERE y.x = t.x), count(*) FROM t GROUP BY x \
             ORDER BY 1",
            "4 2\n5 3",
        ),
        ("SELECT unnest(array_agg(n)) + 1 FROM t GROUP BY x ORDER BY 1", "2\n3\n4\n5\n6"),
        ("SELECT x % 2 AS a, a + 1, count(*) FROM t GROUP BY x ORDER BY 2", "0 1 2\n1 2 3"),
    ];
    check(&session, &cases).await;
}
