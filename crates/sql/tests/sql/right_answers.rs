//! Results that DataFusion, or an earlier version, gets wrong.

use crate::common::{MIB, check, engine, error, show};
use terrace_sql::Session;

const DRAM: u64 = 64 * MIB;

/// Tables whose columns have the same names.
async fn same_names(session: &Session) {
    let make = "CREATE TABLE a AS SELECT value AS k, value % 7 AS d FROM generate_series(1, 1000);
                CREATE TABLE b AS SELECT value AS k, value % 11 AS d FROM generate_series(1, 1000);
                CREATE TABLE c AS SELECT value AS d FROM generate_series(0, 4)";
    show(session, make).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_of_tables_with_the_same_column_names_keep_their_rows() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    same_names(&session).await;
    let joined = |kind: &str| {
        format!("SELECT count(*), sum(a.d) FROM a {kind} b ON a.k = b.k JOIN c ON b.d = c.d")
    };
    for kind in ["LEFT JOIN", "JOIN"] {
        assert_eq!(show(&session, &joined(kind)).await, "454 1365", "{kind}");
    }
    let groups = "SELECT a.d, count(*) FROM a JOIN b ON a.k = b.k JOIN c ON b.d = c.d \
                  GROUP BY a.d ORDER BY a.d";
    let groups = show(&session, groups).await;
    assert_eq!(groups.lines().count(), 7, "{groups}");
    // The filter of a top-k operator, and that of a semi join on a key whose name is that of
    // another column on the other side.
    let top = "SELECT b.d FROM a JOIN b ON a.k = b.k ORDER BY b.d DESC, a.k LIMIT 1";
    assert_eq!(show(&session, top).await, "10");
    let semi = "SELECT count(*) FROM a WHERE a.d < 3 AND a.d IN (SELECT b.k - 1 FROM b)";
    assert_eq!(show(&session, semi).await, "428");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_filter_of_a_join_reaches_the_scan_of_its_column() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let make = "CREATE TABLE users AS SELECT value AS id, value % 100 AS region_id
                    FROM generate_series(1, 30000);
                CREATE TABLE orders AS SELECT value AS id, value * 7 % 30000 + 1 AS user_id
                    FROM generate_series(1, 100000);
                CREATE TABLE items AS SELECT value AS id, value * 3 % 100000 + 1 AS order_id
                    FROM generate_series(1, 200000)";
    show(&session, make).await;
    let joined = "SELECT count(*) FROM users u LEFT JOIN orders o ON o.user_id = u.id \
                  JOIN items i ON i.order_id = o.id WHERE i.id < 18000";
    assert_eq!(show(&session, joined).await, "17999");
}

/// A constant column below an outer join has two values above it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constants_of_outer_joins_are_sorted() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT value AS k FROM generate_series(1, 4)").await;
    show(&session, "CREATE TABLE u AS SELECT value AS k FROM generate_series(2, 3)").await;
    let flags = "(SELECT k, 'x' AS flag FROM u)";
    let left = format!("t LEFT JOIN {flags} f ON t.k = f.k");
    let right = format!("{flags} f RIGHT JOIN t ON t.k = f.k");
    let full = format!("{flags} f FULL JOIN t ON t.k = f.k AND t.k < 9");
    let unequal = format!("t LEFT JOIN {flags} f ON t.k = f.k AND t.k + f.k > 1 OR t.k * f.k = 0");
    let filtered = "t LEFT JOIN (SELECT k, k % 2 AS flag FROM u WHERE k IN (2, 3)) f ON t.k = f.k";
    for from in [&left, &right, &full, &unequal] {
        let sorted = format!("SELECT t.k FROM {from} ORDER BY f.flag, t.k");
        assert_eq!(show(&session, &sorted).await, "2\n3\n1\n4", "{from}");
        let ranked = format!("SELECT t.k, rank() OVER (ORDER BY f.flag) FROM {from} ORDER BY 1");
        assert_eq!(show(&session, &ranked).await, "1 3\n2 1\n3 1\n4 3", "{from}");
        let grouped = format!("SELECT f.flag, count(*) FROM {from} GROUP BY f.flag ORDER BY 1");
        assert_eq!(show(&session, &grouped).await, "x 2\n 2", "{from}");
    }
    let sorted = format!("SELECT t.k FROM {filtered} ORDER BY f.flag, t.k");
    assert_eq!(show(&session, &sorted).await, "2\n3\n1\n4");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_compared_by_their_columns() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE p (a INT, b INT)").await;
    show(&session, "INSERT INTO p VALUES (1, NULL), (1, 2), (NULL, NULL), (3, 1)").await;
    let of_filter = [
        ("(a, b) = (1, 2)", 1),
        ("(a, b) = (1, NULL)", 0),
        ("(a, b) <> (1, 2)", 1),
        ("NOT ((a, b) = (1, 2))", 1),
        ("(a, b) < (1, 3)", 1),
        ("(a, b) <= (3, 1)", 3),
        ("(a, b) > (1, 1)", 2),
        ("(a, b) >= (3, 1)", 1),
        ("(a, b) IN ((1, 2), (3, 1))", 2),
        ("(a, b) NOT IN ((1, 2), (3, 4))", 1),
        ("(a, b) IS NULL", 1),
        ("(a, b) IS NOT NULL", 2),
    ];
    for (condition, rows) in of_filter {
        let query = format!("SELECT count(*) FROM p WHERE {condition}");
        assert_eq!(show(&session, &query).await, rows.to_string(), "{condition}");
    }
    let joined = "SELECT count(*) FROM p x JOIN p y ON (x.a, x.b) = (y.a, y.b)";
    assert_eq!(show(&session, joined).await, "2");
    let unknown = "SELECT ((1, NULL) = (1, 2)) IS NULL AS a, \
                   ((1, NULL) IN ((1, 2))) IS NULL AS b, ((NULL, 1) < (1, 2)) IS NULL AS c, \
                   (1, NULL) = (2, 2) AS d";
    assert_eq!(show(&session, unknown).await, "true true true false");
    let deep = format!("SELECT ({0}) < ({0})", vec!["1"; 5000].join(", "));
    assert!(error(&session, &deep).await.contains("nested"));
    let lengths = error(&session, "SELECT (1, 2) = (1, 2, 3)").await;
    assert!(lengths.contains("a row of 2 with a row of 3"), "{lengths}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn similar_to_matches_the_whole_value() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let cases = [
        ("'abc' SIMILAR TO 'a%'", "true"),
        ("'abc' SIMILAR TO '(a|b)%'", "true"),
        ("'abc' SIMILAR TO 'b'", "false"),
        ("'abc' SIMILAR TO 'a_c'", "true"),
        ("'abc' NOT SIMILAR TO 'a%'", "false"),
        ("'a.c' SIMILAR TO 'a.c'", "true"),
        ("'abc' SIMILAR TO 'a.c'", "false"),
        ("'50%' SIMILAR TO '[0-9]+x%' ESCAPE 'x'", "true"),
        ("CAST(NULL AS VARCHAR) SIMILAR TO 'a'", ""),
    ];
    for (condition, answer) in cases {
        assert_eq!(show(&session, &format!("SELECT {condition}")).await, answer, "{condition}");
    }
    let pattern = error(&session, "SELECT x SIMILAR TO x FROM (VALUES ('a')) v(x)").await;
    assert!(pattern.contains("SIMILAR TO"), "{pattern}");
}

/// Two lists that one value is compared with are not merged by the text of their members, and null
/// is not in any list.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_one_value_are_not_mixed_up() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let rows = "CREATE TABLE t AS SELECT * FROM (VALUES (1, 1, 2, 1, 3), (2, 3, 4, 5, 2), \
                (NULL, 1, 2, 1, 3)) v(x, a, b, c, d)";
    show(&session, rows).await;
    let of_filter = [
        ("x IN (a, b) AND x IN (c, d)", "1"),
        ("x IN (a, b, 9) AND x NOT IN (d, 7, 8)", "1"),
        ("x NOT IN (a, b, 9) OR x NOT IN (c, d, 5, 6)", "2"),
        ("x NOT IN (1) OR x NOT IN (2)", "1 2"),
        ("NOT (x IN (1, 5) AND x IN (3, 4))", "1 2"),
        ("NOT ((x = 1 OR x = 2) AND (x = 3 OR x = 4))", "1 2"),
        ("x > 0 AND NOT (x NOT IN (1, 2) AND (a = 1 OR x IN (2, 7)) AND x IN (1, 3))", "1 2"),
        ("CAST(x AS SMALLINT) NOT IN (1, 5) OR x + 0 NOT IN (2, 4)", "1 2"),
        ("NOT (x NOT IN (1) OR x IN (x))", ""),
        ("NOT (x NOT IN (1, 2) OR x IN (x, 9))", ""),
        ("NOT (x NOT IN (1, 2) OR x IN (7, x, a, b))", ""),
        ("NOT ((x <> 1 AND NOT x = 2) OR x IN (7, x, a, b))", ""),
        ("(NOT x <> 1 OR x = 2) AND x NOT IN (7, b, c, d)", ""),
        ("NOT (x IN (1, 3) OR x NOT IN (1, 2, x, 3))", "2"),
        ("NOT (x = 1 OR x = 3) AND NOT x NOT IN (1, 2, x, 3)", "2"),
        ("x <> 1 AND NOT (x = 3 OR x NOT IN (1, 2, x, 3))", "2"),
        ("x = 1 OR NOT (x <> 5 AND x IN (1, 2, x, 3))", "1"),
        ("NOT (x IN (a, b) AND true) OR x NOT IN (c, d, 5)", "2"),
    ];
    for (condition, found) in of_filter {
        let query = format!("SELECT x FROM t WHERE {condition} ORDER BY x");
        assert_eq!(show(&session, &query).await.replace('\n', " "), found, "{condition}");
    }
    let of_value = [
        ("x IN (a, b, 7) AND x IN (c, d, 8)", "true false "),
        ("x IN (1, 5) AND x IN (3, 4)", "false false "),
        ("x IN (1, 5) AND x NOT IN (1, 5, 6)", "false false "),
        ("x NOT IN (1, 5, NULL) OR x NOT IN (2, 3, 4)", "true  "),
        ("(x = 1 OR x = 2) AND (x = 3 OR x = 4)", "false false "),
    ];
    for (value, found) in of_value {
        let query = format!("SELECT {value} FROM t ORDER BY x");
        assert_eq!(show(&session, &query).await.replace('\n', " "), found, "{value}");
    }
    let nested = "SELECT x FROM (SELECT * FROM t WHERE x IN (a, b)) WHERE x IN (c, d)";
    assert_eq!(show(&session, nested).await, "1");
    show(&session, "DELETE FROM t WHERE x NOT IN (1) OR x NOT IN (7)").await;
    assert_eq!(show(&session, "SELECT a, count(*) FROM t GROUP BY a").await, "1 1");
    show(&session, "UPDATE t SET a = 5 WHERE NOT (x IN (1, 5) AND x IN (3, 4))").await;
    assert_eq!(show(&session, "SELECT a, x FROM t").await, "1 ");
}

/// A LIMIT over a join returns the first rows of the requested order, also if the join does not
/// preserve the order of its input.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_rows_of_joins_in_order_are_those_of_the_order() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "SET datafusion.execution.target_partitions = 1").await;
    let tables = "CREATE TABLE l AS SELECT value AS x FROM generate_series(1, 100) g(value);
                  CREATE TABLE r AS SELECT value % 100 + 1 AS x, (value * 7919) % 100003 AS n
                  FROM generate_series(1, 100000) g(value)";
    show(&session, tables).await;
    let first = "SELECT w.n, w.place FROM l JOIN (SELECT n, x, row_number() OVER (ORDER BY n) \
                 AS place FROM r) w ON l.x = w.x ORDER BY w.n LIMIT 3";
    assert_eq!(show(&session, first).await, "1 1\n2 2\n3 3");
    let plan = show(&session, &format!("EXPLAIN (FORMAT INDENT) {first}")).await;
    let mut paged = plan.lines().filter(|line| line.contains("PagedHashJoinExec"));
    assert!(paged.all(|join| !join.contains("fetch=")), "{plan}");
}

/// Local times that a clock change skips or repeats, as in PostgreSQL 15.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_times_at_changes_of_clocks() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let cases = [
        ("2024-10-27 02:30:00", "Europe/Berlin", "2024-10-27T02:30:00+01:00"),
        ("2024-03-31 02:30:00", "Europe/Berlin", "2024-03-31T03:30:00+02:00"),
        ("2024-07-31 02:30:00", "Europe/Berlin", "2024-07-31T02:30:00+02:00"),
        ("2024-03-10 02:15:00", "America/New_York", "2024-03-10T03:15:00-04:00"),
        ("2024-11-03 01:15:00", "America/New_York", "2024-11-03T01:15:00-05:00"),
        ("2024-11-03 01:15:00", "+05:30", "2024-11-03T01:15:00-05:30"),
    ];
    for (time, zone, moment) in cases {
        let query = format!("SELECT TIMESTAMP '{time}' AT TIME ZONE '{zone}'");
        assert_eq!(show(&session, &query).await, moment, "{query}");
    }
}

/// Operators are streams that poll each other: tokio's task budget and the thread's stack suffice
/// for any number of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_tables_are_joined() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT 1 AS a").await;
    for tables in [150, 300] {
        let join = |n: usize| format!("JOIN t t{n} ON t{n}.a = t{}.a", n - 1);
        let joins = (1..tables).map(join).collect::<Vec<_>>().join(" ");
        let query = format!("SELECT count(*) FROM t t0 {joins}");
        assert_eq!(show(&session, &query).await, "1", "{tables} tables");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_that_do_not_fit_are_errors() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(
        &session,
        "CREATE TABLE n AS SELECT 9223372036854775807 AS b, CAST(2147483647 AS INT) AS i, \
                    CAST(127 AS TINYINT) AS t, CAST(-32768 AS SMALLINT) AS s, \
                    CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)) AS d",
    )
    .await;
    for overflowing in [
        "SELECT 9223372036854775807 + 1",
        "SELECT 4000000000 * 4000000000",
        "SELECT x + 1 FROM (SELECT 9223372036854775807 AS x)",
        "SELECT b + 1 FROM n",
        "SELECT -2 - b FROM n",
        "SELECT i + CAST(1 AS INT) FROM n",
        "SELECT t * t FROM n",
        "SELECT -s FROM n",
        "SELECT d + d FROM n",
        "SELECT d * 10 FROM n",
        "SELECT 1 FROM n WHERE b + 1 > 0",
        "SELECT sum(b + 1) FROM n",
    ] {
        let message = error(&session, overflowing).await;
        assert!(message.contains("out of range"), "{overflowing}: {message}");
    }
    check(
        &session,
        &[
            ("SELECT b - 1 FROM n", "9223372036854775806"),
            ("SELECT CASE WHEN b < 0 THEN b * 2 ELSE 1 END FROM n", "1"),
            ("SELECT -9223372036854775807 - 1", "-9223372036854775808"),
            ("SELECT 1 + 2 * 3 - 4", "3"),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn casts_round_and_literals_are_decimals() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t (b BIGINT); INSERT INTO t VALUES (1.7), (2.5), (-2.5)").await;
    check(
        &session,
        &[
            ("SELECT b FROM t ORDER BY b", "-3\n2\n3"),
            ("SELECT CAST(2.5 AS INT) AS a, CAST(CAST(2.5 AS DOUBLE) AS INT) AS b", "3 2"),
            ("SELECT CAST(x AS BIGINT) FROM (VALUES (CAST(0.6 AS DOUBLE))) v(x)", "1"),
            ("SELECT 0.1 + 0.2", "0.3"),
            ("SELECT 10.0 / 3, 2.0 / 3", "3.3333333333333333 0.6666666666666667"),
            (
                "SELECT sum(x) / count(x) FROM (VALUES (1.00), (2.00), (2.00)) v(x)",
                "1.6666666666666667",
            ),
            ("SELECT x / 7, -x / 7.0 FROM (VALUES (100)) v(x)", "14 -14.2857142857142857"),
            ("SELECT 1.005::DECIMAL(10, 2)", "1.01"),
            (
                "SELECT 12345678901234567890123456789012345678",
                "12345678901234567890123456789012345678",
            ),
        ],
    )
    .await;
    show(&session, "UPDATE t SET b = b + 0.6 WHERE b = 2").await;
    assert_eq!(show(&session, "SELECT b FROM t ORDER BY b").await, "-3\n3\n3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_that_become_bytes_are_read() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t (y BYTEA); INSERT INTO t VALUES ('\\x00ff'), ('a\\134b')").await;
    check(
        &session,
        &[
            ("SELECT encode('\\x00ff'::bytea, 'hex'), encode('ab'::bytea, 'hex')", "00ff 6162"),
            ("SELECT encode(y, 'hex') FROM t ORDER BY 1", "00ff\n615c62"),
            ("SELECT count(*) FROM t WHERE y = '\\x00ff'", "1"),
            ("SELECT TRY_CAST('\\x0' AS BYTEA) IS NULL", "true"),
            ("SELECT count(*) FROM t WHERE y = CAST(chr(97) || '\\\\' || 'b' AS BYTEA)", "1"),
        ],
    )
    .await;
    let odd = error(&session, "SELECT '\\x0'::bytea").await;
    assert!(odd.contains("\\x00ff"), "{odd}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floats_that_meet_decimals_stay_floats() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(
        &session,
        "CREATE TABLE f AS SELECT CAST(x AS DOUBLE) AS x FROM \
                    (VALUES ('NaN'), ('Infinity'), ('1e300'), ('0.5'), ('0.25')) t(x)",
    )
    .await;
    show(&session, "CREATE TABLE d AS SELECT 0.5 AS x").await;
    check(
        &session,
        &[
            ("SELECT count(*) FROM f WHERE x > 0.4", "4"),
            ("SELECT count(*) FROM f WHERE x IN (0.5, 0.25)", "2"),
            ("SELECT count(*) FROM f WHERE x BETWEEN 0.1 AND 0.6", "2"),
            ("SELECT max(CASE WHEN x > 0 THEN x ELSE 0.5 END) FROM f WHERE x < 1e301", "1e300"),
            ("SELECT min(coalesce(x, 0.5)) FROM f", "0.25"),
            ("SELECT min(greatest(x, 0.3)) FROM f", "0.3"),
            ("SELECT count(*) FROM (SELECT x FROM f UNION SELECT 0.5)", "5"),
            ("SELECT count(*) FROM f JOIN d USING (x)", "1"),
            ("SELECT count(*) FROM f JOIN d ON f.x >= d.x", "4"),
            ("SELECT max(x) FROM (VALUES (0.5), (CAST('Infinity' AS DOUBLE))) v(x)", "inf"),
            ("SELECT count(*) FROM f WHERE x IN (SELECT x FROM d)", "1"),
        ],
    )
    .await;
    assert_eq!(show(&session, "DELETE FROM f WHERE x > 0.4").await, "4");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_mean_what_they_say() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(
        &session,
        "CREATE TABLE emp AS SELECT value AS id, 'n' || value AS name \
                    FROM generate_series(1, 10000)",
    )
    .await;
    check(
        &session,
        &[
            ("SELECT false IS NOT DISTINCT FROM false AND false", "false"),
            ("SELECT 2 ^ 3", "8.0"),
            ("SELECT -2 ^ 2", "4.0"),
            ("SELECT count(*) FROM (FROM emp)", "10000"),
            (
                "SELECT TIMESTAMPTZ '2024-01-01 00:00:00+02' AT TIME ZONE 'Europe/Berlin'",
                "2023-12-31T23:00:00",
            ),
            (
                "SELECT (TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE 'Europe/Berlin') \
                 AT TIME ZONE 'UTC'",
                "2024-07-01T10:00:00",
            ),
            (
                "SELECT TIMESTAMPTZ '2024-01-01 00:00:00+02' AT TIME ZONE 'europe/berlin'",
                "2023-12-31T23:00:00",
            ),
        ],
    )
    .await;
    let drawn = show(&session, "SELECT count(*) FROM emp TABLESAMPLE BERNOULLI (10)").await;
    let drawn: i64 = drawn.parse().expect("a number");
    assert!((500..2000).contains(&drawn), "{drawn} of 10000 rows");
    let ten = "SELECT count(*), count(e.name) FROM emp e TABLESAMPLE (10 ROWS)";
    assert_eq!(show(&session, ten).await, "10 10");
    for refused in [
        "CREATE INDEX ix ON emp (id)",
        "CREATE UNIQUE INDEX ix ON emp (id)",
        "SELECT count(*) FROM emp a JOIN emp b",
        "SELECT count(*) FROM emp TABLESAMPLE BERNOULLI (10) REPEATABLE (1)",
        "SELECT count(*) FROM emp TABLESAMPLE BERNOULLI (200)",
        "SELECT TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE 'Nowhere/Land'",
    ] {
        error(&session, refused).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deep_statements_run_or_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 1000)").await;
    let many = |n: usize, part: &str, with: &str| vec![part; n].join(with);
    let ors: Vec<String> = (0..20_000).map(|n| format!("a = {n}")).collect();
    let ors = format!("SELECT count(*) FROM t WHERE {}", ors.join(" OR "));
    assert_eq!(show(&session, &ors).await, "1000");
    let unions = format!("SELECT count(*) FROM ({})", many(3000, "SELECT 1 AS a", " UNION ALL "));
    assert_eq!(show(&session, &unions).await, "3000");
    let list: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
    let list = format!("SELECT count(*) FROM t WHERE a IN ({})", list.join(", "));
    assert_eq!(show(&session, &list).await, "1000");
    let nested = format!("SELECT {}1{}", "(".repeat(300), ")".repeat(300));
    assert_eq!(show(&session, &nested).await, "1");
    let within = |open: &str, n: usize, core: &str, close: &str| {
        format!("SELECT 1 WHERE {}{core}{}", open.repeat(n), close.repeat(n))
    };
    let exists = |n| within("EXISTS (SELECT 1 WHERE ", n, "true", ")");
    assert_eq!(show(&session, &exists(16)).await, "1");
    let calls = |n| within("abs(", n, "1", ")") + " = 1";
    assert_eq!(show(&session, &calls(100)).await, "1");
    for (deep, most) in [(exists(30), "at most 16"), (calls(900), "at most 200")] {
        let message = error(&session, &deep).await;
        assert!(message.contains(most), "{message}");
    }
    let sum = format!("SELECT sum({}) FROM t", many(100, "a", " + "));
    assert_eq!(show(&session, &sum).await, (500_500_u64 * 100).to_string());
    for deep in [
        format!("SELECT {}", many(10_000, "1", " + ")),
        format!("SELECT {}", many(1_000_000, "1", " + ")),
        format!("SELECT {}1{}", "(".repeat(40_000), ")".repeat(40_000)),
        format!("SELECT {} 1", "- ".repeat(30_000)),
        format!("SELECT {}1{}", "(SELECT ".repeat(3000), ")".repeat(3000)),
    ] {
        let message = error(&session, &deep).await;
        assert!(message.len() < 1000, "{}", &message[..1000]);
    }
    assert_eq!(show(&session, "SELECT count(*) FROM t").await, "1000");
}

/// DataFusion derives a filter from one aggregate that drops rows needed by another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_over_chunks_see_all_rows() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let make = "CREATE TABLE g (k INT, v INT); INSERT INTO g VALUES (10, NULL); \
                INSERT INTO g VALUES (1, 2000)";
    show(&session, make).await;
    show(&session, "SET datafusion.execution.target_partitions = 2").await;
    let both = "SELECT max(k), max(v + 24) FROM g";
    assert_eq!(show(&session, both).await, "10 2024");
}

/// A repeated key of an order, also after simplification of expressions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_an_order_may_come_again() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let make = "CREATE TABLE z (d SMALLINT, x REAL); INSERT INTO z VALUES (NULL, -1.25)";
    show(&session, make).await;
    let on = "SELECT DISTINCT ON (d) x FROM z ORDER BY d DESC NULLS LAST, d DESC NULLS FIRST, x";
    let same = "SELECT first_value(x ORDER BY d, d + 0, x, d DESC), last_value(x ORDER BY x, x) \
                FROM z GROUP BY d";
    check(&session, &[(on, "-1.25"), (same, "-1.25 -1.25")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_and_operators_are_those_of_postgres() {
    let session = engine(64 * MIB).session().expect("session");
    let shifted = "SELECT lag(a, NULL) OVER (ORDER BY a), lead(a, NULL, 7) OVER (ORDER BY a), \
                   lag(a, 1) OVER (ORDER BY a) FROM (VALUES (1), (2)) AS v(a)";
    assert_eq!(show(&session, shifted).await, "  \n  1");
    let frames = [
        ("min(a) OVER (ORDER BY a DESC NULLS FIRST)", "DESC NULLS LAST", "3\n1\n\n"),
        ("max(a) OVER (ORDER BY a NULLS FIRST)", "ASC NULLS LAST", "1\n3\n\n"),
        (
            "count(a) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
            "ASC NULLS LAST",
            "0\n1\n1\n2",
        ),
    ];
    for (window, order, answer) in frames {
        let rows = "(VALUES (NULL), (1), (3), (NULL)) AS v(a)";
        let text = format!("SELECT {window} AS w FROM {rows} ORDER BY w {order}");
        assert_eq!(show(&session, &text).await, answer, "{text}");
    }
    let joined = "SELECT 'x' || 2 * 3, 'a' || 1 + 2 = 'a3', 'abc' LIKE 'a' || '%', \
                  'a' || 'b' < 'a' || 'c' AND true";
    assert_eq!(show(&session, joined).await, "x6 true true true");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_name_the_column_and_the_call() {
    let session = engine(64 * MIB).session().expect("session");
    show(&session, "CREATE TABLE t (a BIGINT NOT NULL, b TEXT)").await;
    show(&session, "INSERT INTO t VALUES (1, 'one')").await;
    for change in [
        "INSERT INTO t VALUES (NULL, 'x')",
        "INSERT INTO t VALUES (2, 'y'), (NULL, 'x')",
        "INSERT INTO t (b) VALUES ('x')",
        "INSERT INTO t SELECT NULL, 'y'",
        "UPDATE t SET a = NULL",
    ] {
        let refused = error(&session, change).await;
        assert!(refused.starts_with("table public.t, column a: "), "{change}: {refused}");
    }
    assert_eq!(show(&session, "SELECT * FROM t").await, "1 one");
    let call = error(&session, "SELECT sum('x')").await;
    assert!(call.starts_with("No function matches"), "{call}");
    let zero = error(&session, "SELECT a / 0 FROM t").await;
    assert_eq!(zero, "division by zero");
}

/// Only the logical plan, not the physical plan, knows that some keys are never null.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_may_be_null_by_their_columns_alone_are_grouped() {
    let session = engine(64 * MIB).session().expect("session");
    let rows = "(VALUES (1, 2), (2, 1), (NULL, 1), (3, NULL)) v(a, b)";
    show(&session, &format!("CREATE TABLE t AS SELECT * FROM {rows}")).await;
    let case = "CASE WHEN a <= b THEN a ELSE 8 END";
    for (query, answer) in [
        (format!("SELECT DISTINCT {case} AS c FROM t ORDER BY c"), "1\n8"),
        (format!("SELECT {case} AS c, count(*) FROM t GROUP BY c ORDER BY c"), "1 1\n8 3"),
        (format!("SELECT count(DISTINCT {case}) FROM t"), "2"),
        (
            "SELECT DISTINCT nullif(2, -avg(8) * 3 + -count(*) * - +CAST(NULL AS INT)) AS c FROM t"
                .to_owned(),
            "2.0",
        ),
    ] {
        assert_eq!(show(&session, &query).await, answer, "{query}");
    }
}

/// Dates and timestamps in the forms that PostgreSQL 15 reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moments_are_read_in_short_forms() {
    let session = engine(DRAM).session().expect("session");
    show(
        &session,
        "CREATE TABLE m (at TIMESTAMP, d DATE); INSERT INTO m VALUES \
        ('2024-05-01 08:00', '2024-5-1'), ('20240501', '2024-05-01 23:59:59')",
    )
    .await;
    check(
        &session,
        &[
            (
                "SELECT * FROM m ORDER BY at DESC",
                "2024-05-01T08:00:00 2024-05-01\n2024-05-01T00:00:00 2024-05-01",
            ),
            ("SELECT count(*) FROM m WHERE at >= '2024-05-01 8:00'", "1"),
            ("SELECT TIMESTAMP '2024-1-31 8:05 pm' + INTERVAL '1 hour'", "2024-01-31T21:05:00"),
            (
                "SELECT '2024-05-01 08:00+02'::TIMESTAMPTZ = '2024-05-01 06:00:00Z'::TIMESTAMPTZ",
                "true",
            ),
            ("SELECT TRY_CAST('2024-13-01 08:00' AS TIMESTAMP) IS NULL", "true"),
        ],
    )
    .await;
    check(&session, &[("SELECT '080000'::TIME, '10:11'::TIME", "08:00:00 10:11:00")]).await;
    assert!(error(&session, "SELECT '8'::TIME").await.contains("'8'"));
    let refused = error(&session, "SELECT 'x'::TIMESTAMP").await;
    assert!(refused.contains("'x'"), "{refused}");
}
