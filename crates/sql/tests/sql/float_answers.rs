//! Floating-point numbers: the zeros are equal, all NaNs are equal and above all other numbers.

use crate::common::{MIB, check, engine, error, show};
use terrace_sql::Session;

const DRAM: u64 = 64 * MIB;

/// Two zeros of different signs, and infinity, from which NaN is computed.
async fn zeros(session: &Session) {
    let make = "CREATE TABLE t (k DOUBLE, v VARCHAR);
                INSERT INTO t VALUES (CAST('-0.0' AS DOUBLE), 'b'), (0.0, 'a'),
                    (CAST('Infinity' AS DOUBLE), 'c')";
    show(session, make).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zeros_are_equal_as_keys() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    zeros(&session).await;
    let list = "SELECT count(*) FROM t WHERE k IN (998.75, 3.5, 4.5, 5.5, 6.5, 0.0)";
    let percent = "SELECT v, percent_rank() OVER (PARTITION BY k ORDER BY v) FROM t ORDER BY v";
    let peers = "SELECT v, count(*) OVER (ORDER BY k) FROM t ORDER BY v";
    let cases = [
        ("SELECT v FROM t ORDER BY k, v", "a\nb\nc"),
        ("SELECT v FROM t ORDER BY k DESC, v", "c\na\nb"),
        ("SELECT v FROM t ORDER BY k, v LIMIT 1", "a"),
        (list, "2"),
        ("SELECT count(DISTINCT k) FROM t", "2"),
        ("SELECT DISTINCT ON (k) v FROM t ORDER BY k, v", "a\nc"),
        ("SELECT first_value(v ORDER BY k, v) FROM t", "a"),
        ("SELECT string_agg(v, '' ORDER BY k, v) FROM t", "abc"),
        (percent, "a 0.0\nb 1.0\nc 0.0"),
        (peers, "a 2\nb 2\nc 3"),
        ("SELECT count(CASE k WHEN 0.0 THEN 1 END) FROM t", "2"),
        ("SELECT count(nullif(k, 0.0)) FROM t", "1"),
        ("SELECT k FROM t WHERE v = 'b'", "-0.0"),
    ];
    check(&session, &cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_computed_nan_is_above_all_numbers() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    zeros(&session).await;
    show(&session, "CREATE TABLE n AS SELECT k - k AS x, -(k - k) AS y, v FROM t").await;
    let cases = [
        ("SELECT CAST('-nan' AS DOUBLE) > 5, TRY_CAST('-NaN' AS REAL) > 5", "true true"),
        ("SELECT count(*) FROM t WHERE k - k > 5", "1"),
        ("SELECT count(*) FROM t WHERE -(k - k) > 5", "1"),
        ("SELECT count(*) FROM t WHERE k BETWEEN 1 AND k - k", "1"),
        ("SELECT v FROM t ORDER BY k - k DESC, v LIMIT 1", "c"),
        ("SELECT count(*) FROM (SELECT DISTINCT k - k FROM t)", "2"),
        ("SELECT count(*) FROM n WHERE x > 5", "1"),
        ("SELECT count(*) FROM n WHERE y > 5", "1"),
        ("SELECT min(x), max(x) FROM n", "0.0 NaN"),
        ("SELECT max(k - k) OVER (ORDER BY v DESC) FROM t LIMIT 1", "NaN"),
        ("SELECT avg(k - k) <= -2.5 FROM t", "false"),
        ("SELECT v FROM t GROUP BY v HAVING sum(k - k) > 1", "c"),
        ("SELECT sum(k * s) > 1 FROM t CROSS JOIN (VALUES (1), (-1)) w(s)", "true"),
        ("SELECT count(*) FROM n WHERE x IN (1, 2, 3, 4, CAST('NaN' AS DOUBLE))", "1"),
    ];
    check(&session, &cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_leaves_a_frame_leaves_no_trace() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let make = "CREATE TABLE f (k INT, x DOUBLE);
                INSERT INTO f VALUES (1, CAST('Infinity' AS DOUBLE)), (2, 1e20), (3, 1), (4, 3)";
    show(&session, make).await;
    let of = |what: &str| {
        format!("SELECT {what} OVER (ORDER BY k ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) FROM f")
    };
    assert_eq!(show(&session, &of("sum(x)")).await, "inf\n1e20\n4.0\n3.0");
    assert_eq!(show(&session, &of("avg(x)")).await, "inf\n5e19\n2.0\n3.0");
    assert_eq!(show(&session, &of("var_pop(x)")).await, "NaN\n2.5e39\n1.0\n0.0");
    let all = "SELECT sum(x) OVER (ORDER BY k ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) \
               FROM f ORDER BY k";
    assert_eq!(show(&session, all).await, "inf\n1e20\n4.0\n3.0");
}

/// Chunks are pruned by the bounds of their numbers, also when zeros are made canonical.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_best_numbers_prune_chunks() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let make =
        "CREATE TABLE f AS SELECT CAST(value AS DOUBLE) AS x FROM generate_series(1, 300000);
                INSERT INTO f SELECT CAST(value AS DOUBLE) FROM generate_series(300001, 600000)";
    show(&session, make).await;
    let best = "SELECT x FROM f ORDER BY x LIMIT 2";
    assert_eq!(show(&session, best).await, "1.0\n2.0");
}

/// Parquet statistics leave NaN out, and a NaN in a file may have any bits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nan_of_a_file_is_found() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("numbers.parquet");
    let file = file.display();
    let make = format!(
        "COPY (SELECT CASE WHEN value = 3 THEN CAST('NaN' AS DOUBLE) ELSE value END AS v
               FROM generate_series(1, 50)) TO '{file}'"
    );
    show(&session, &make).await;
    for (filter, rows) in
        [("v > 100", "1"), ("NOT (v < 100)", "1"), ("v <> 1", "49"), ("v > 49", "2")]
    {
        let query = format!("SELECT count(*) FROM '{file}' WHERE {filter}");
        assert_eq!(show(&session, &query).await, rows, "{filter}");
    }
    let best = format!("SELECT v FROM '{file}' ORDER BY v DESC LIMIT 1");
    assert_eq!(show(&session, &best).await, "NaN");
}

/// A join treats the zeros as equal also if its rows are sorted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zeros_are_equal_in_joins_whose_rows_are_sorted() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let tables = "CREATE TABLE l (x DOUBLE); INSERT INTO l VALUES (0.0), (1.0);
                  CREATE TABLE r (x DOUBLE, n BIGINT);
                  INSERT INTO r VALUES (CAST('-0.0' AS DOUBLE), 3), (0.0, 2), (1.0, 1)";
    show(&session, tables).await;
    let sorted = "SELECT r.n FROM l JOIN r ON l.x = r.x ORDER BY r.n";
    let ranked =
        "SELECT r.n, row_number() OVER (ORDER BY r.n) FROM l JOIN r ON l.x = r.x ORDER BY 1";
    check(&session, &[(sorted, "1\n2\n3"), (ranked, "1 1\n2 2\n3 3")]).await;
    for query in [sorted, ranked] {
        let plan = show(&session, &format!("EXPLAIN (FORMAT INDENT) {query}")).await;
        let plan = plan.replace("PagedHashJoin", "");
        assert!(!plan.contains("HashJoin"), "{plan}");
    }
}

/// Integers of more than 24 bits, which a REAL cannot distinguish.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn integers_and_reals_meet_in_double_precision() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let make = "CREATE TABLE n (i INTEGER, b BIGINT, r REAL);
                INSERT INTO n VALUES (16777216, 1, 16777216), (16777217, 2, 16777216),
                    (3, 3, 0.1)";
    show(&session, make).await;
    let cases = [
        ("SELECT b FROM n WHERE i = r", "1"),
        ("SELECT b FROM n WHERE r <> i ORDER BY b", "2\n3"),
        ("SELECT b FROM n WHERE i BETWEEN r AND r ORDER BY b", "1"),
        ("SELECT b FROM n WHERE i IN (r, 3) ORDER BY b", "1\n3"),
        ("SELECT b FROM n WHERE i NOT IN (SELECT r FROM n) ORDER BY b", "2\n3"),
        ("SELECT b FROM n WHERE r IN (SELECT i FROM n WHERE b = 2)", ""),
        ("SELECT n.b FROM n JOIN n m ON n.i = m.r ORDER BY n.b", "1\n1"),
        ("SELECT count(*) FROM n JOIN (SELECT r AS i FROM n) m USING (i)", "2"),
        (
            "SELECT CASE i WHEN r THEN 'same' ELSE 'other' END FROM n ORDER BY b",
            "same\nother\nother",
        ),
        ("SELECT r * b FROM n WHERE b = 3", "0.30000000447034836"),
        ("SELECT i + r FROM n WHERE b = 2", "33554433.0"),
        ("SELECT r / 3 < 0.0333333345 FROM n WHERE b = 3", "true"),
        // Alternatives of one value stay as narrow as their types.
        ("SELECT coalesce(r, i), CASE WHEN b = 3 THEN r ELSE i END FROM n WHERE b = 3", "0.1 0.1"),
        ("SELECT r || 'x' || i FROM n WHERE b = 3", "0.1x3"),
    ];
    check(&session, &cases).await;
    show(&session, "UPDATE n SET b = 0 WHERE i = r; DELETE FROM n WHERE r < i AND b = 3").await;
    check(&session, &[("SELECT b, i FROM n ORDER BY b", "0 16777216\n2 16777217")]).await;
}

/// Values and errors of PostgreSQL 15.
#[tokio::test]
async fn floats_are_not_divided_by_zero() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let table = "CREATE TABLE d (k INT, x DOUBLE, y DOUBLE, r REAL);
        INSERT INTO d VALUES (1, 1, 2, 4), (2, 'NaN', 0, 'NaN'), (3, NULL, 0, NULL),
            (4, 1, NULL, 8)";
    show(&session, table).await;
    check(
        &session,
        &[
            ("SELECT x / y FROM d ORDER BY k", "0.5\nNaN\n\n"),
            ("SELECT x / 2, r / 2 FROM d WHERE k = 1", "0.5 2.0"),
            ("SELECT 'NaN'::DOUBLE / 0, NULL::DOUBLE / 0, 0 / 'inf'::DOUBLE", "NaN  0.0"),
            ("SELECT x / nullif(y, 0) FROM d WHERE k < 3 ORDER BY k", "0.5\n"),
            ("SELECT 7.5::DOUBLE % 2", "1.5"),
        ],
    )
    .await;
    for query in [
        "SELECT 1::DOUBLE / 0",
        "SELECT 1::REAL / 0",
        "SELECT 0::DOUBLE / 0",
        "SELECT 'inf'::DOUBLE / 0.0",
        "SELECT 1.5::DOUBLE % 0",
        "SELECT r / 0 FROM d",
        "SELECT 1 / y FROM d",
        "SELECT sum(x / (y - 2)) FROM d",
        "SELECT list_transform([1e0, 0e0], v -> 1 / v)",
    ] {
        let text = error(&session, query).await;
        assert!(text.contains("division by zero"), "{query}: {text}");
    }
}

#[tokio::test]
async fn finite_numbers_do_not_become_infinite() {
    let session = engine(64 * MIB).session().expect("session");
    for (value, message) in [
        ("'1e400'::float8", "\"1e400\" is out of range for type double precision"),
        ("1e400", "\"1e400\" is out of range for type double precision"),
        ("'-1e39'::float4", "\"-1e39\" is out of range for type real"),
        ("'3.4028236e38'::real", "\"3.4028236e38\" is out of range for type real"),
        ("1e39::real", "is out of range for type real"),
        ("x::real FROM (VALUES (1.5e0), (1e300)) t(x)", "is out of range for type real"),
        (
            "x::real FROM (VALUES ('1.5'), ('1e300')) t(x)",
            "\"1e300\" is out of range for type real",
        ),
    ] {
        let given = error(&session, &format!("SELECT {value}")).await;
        assert!(given.contains(message), "{value}: {given}");
    }
    let cases = [
        ("SELECT TRY_CAST('1e400' AS float8) IS NULL, TRY_CAST(1e39 AS real) IS NULL", "true true"),
        ("SELECT '3.4028235e38'::real > 1, 'infinity'::real, '-inf'::float8", "true inf -inf"),
        ("SELECT 'Infinity'::float8::real, 'NaN'::float8::real", "inf NaN"),
        (
            "SELECT TRY_CAST(x AS real) FROM (VALUES ('1.5'), ('1e300'), (NULL), ('x')) t(x)",
            "1.5\n\n\n",
        ),
    ];
    check(&session, &cases).await;
}
