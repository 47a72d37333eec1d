//! Results of aggregate functions: overflowing sums, NaNs, ordered values.

use std::sync::Arc;

use crate::common::{MIB, engine, error, lines, show};
use terrace_sql::Session;

fn session(dram_bytes: u64) -> Session {
    engine(dram_bytes).session().expect("session")
}

const MAX: &str = "9223372036854775807";
const NINES: &str = "CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sum_that_does_not_fit_is_an_error() {
    let session = session(64 * MIB);
    let numbers = format!("(VALUES (1, {MAX}), (1, 1), (2, 5)) t(g, x)");
    let decimals = format!("(VALUES (1, {NINES}), (1, 1), (2, 5)) t(g, x)");
    show(&session, &format!("CREATE TABLE n AS SELECT g, x FROM {numbers}")).await;
    show(&session, &format!("CREATE TABLE d AS SELECT g, x FROM {decimals}")).await;
    for (table, name) in [("n", "bigint out of range"), ("d", "decimal(38, 0) out of range")] {
        for sum in [
            "SELECT sum(x) FROM t WHERE g = 1",
            "SELECT g, sum(x) FROM t GROUP BY g",
            "SELECT g, sum(x), count(*) FROM t GROUP BY ROLLUP (g)",
            "SELECT g, x, sum(x) FROM t GROUP BY GROUPING SETS ((g), (x), (g, x))",
            "SELECT sum(DISTINCT x) FROM t WHERE g = 1",
            "SELECT g, sum(DISTINCT x), count(*), max(x) FROM t GROUP BY g",
            "SELECT sum(x) FILTER (WHERE g = 1) FROM t",
            "SELECT sum(x) OVER (ORDER BY x DESC) FROM t",
            "SELECT sum(x) OVER () FROM t",
            "SELECT sum(x) OVER (PARTITION BY g) FROM t",
            "SELECT sum(x) OVER (ORDER BY g, x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
        ] {
            let sum = sum.replace("FROM t", &format!("FROM {table}"));
            let text = error(&session, &sum).await;
            assert!(text.contains(name) && text.contains("sum"), "{sum}\n{text}");
        }
        let fits = format!("SELECT g, sum(x) FROM {table} WHERE g = 2 GROUP BY g");
        assert_eq!(show(&session, &fits).await, "2 5");
        let slides = "sum(x) OVER (ORDER BY x ROWS BETWEEN CURRENT ROW AND CURRENT ROW)";
        let slides =
            format!("SELECT count(*) FROM (SELECT {slides} AS s FROM {table}) WHERE s > 0");
        assert_eq!(show(&session, &slides).await, "3");
    }
    let unsigned = "SELECT sum(CAST(x AS BIGINT UNSIGNED)) FROM (VALUES \
                    (CAST('18446744073709551615' AS BIGINT UNSIGNED)), (1)) t(x)";
    assert!(error(&session, unsigned).await.contains("out of range"));
    let wide = format!("SELECT sum(CAST(x AS DECIMAL(38, 0))) FROM {numbers}");
    assert_eq!(show(&session, &wide).await, "9223372036854775813");
}

/// Creates a table in which any three consecutive rows sum to 1, despite the largest integers.
async fn extremes(session: &Session) {
    let rows = format!(
        "SELECT value AS n, CASE value % 3 WHEN 0 THEN {MAX} WHEN 1 THEN -{MAX} \
                        ELSE 1 END AS x FROM generate_series(0, 299999)"
    );
    show(session, &format!("CREATE TABLE t AS {rows}")).await;
}

/// Partial sums of the rows that a thread sees first may overflow, as long as the total does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_of_rows_does_not_make_a_sum_overflow() {
    let session = session(64 * MIB);
    extremes(&session).await;
    assert_eq!(show(&session, "SELECT sum(x) FROM t").await, "100000");
    let groups = "SELECT count(*), min(s), max(s), sum(s) FROM \
                  (SELECT n / 3 AS g, sum(x) AS s FROM t GROUP BY g)";
    assert_eq!(show(&session, groups).await, "100000 1 1 100000");
    let slides = "SELECT min(s), max(s) FROM (SELECT n, sum(x) OVER (ORDER BY n ROWS BETWEEN 2 \
                  PRECEDING AND CURRENT ROW) AS s FROM t) WHERE n > 1";
    assert_eq!(show(&session, slides).await, "1 1");
    let distinct = "SELECT sum(DISTINCT x), sum(DISTINCT x + 0) FILTER (WHERE n < 10) FROM t";
    assert_eq!(show(&session, distinct).await, "1 1");
}

/// Doubles do not represent all integers beyond 2^53, so the average would depend on the order of
/// rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn averages_of_integers_are_exact() {
    let session = session(64 * MIB);
    extremes(&session).await;
    let third = "0.3333333333333333";
    let over = |frame: &str| {
        format!(
            "SELECT min(a), max(a) FROM (SELECT n, avg(x) OVER ({frame}) AS a FROM t) WHERE n > 1"
        )
    };
    let moving = over("ORDER BY n ROWS BETWEEN 2 PRECEDING AND CURRENT ROW");
    for twice in [
        "SELECT avg(x), avg(DISTINCT x) FROM t",
        "SELECT avg(x), avg(x) FILTER (WHERE n < 3) FROM t",
        "SELECT min(a), max(a) FROM (SELECT avg(x) AS a FROM t GROUP BY n / 3)",
        "SELECT min(a), max(a) FROM (SELECT avg(DISTINCT x) AS a, avg(n) FROM t GROUP BY n / 30)",
        &moving,
        &over(""),
    ] {
        assert_eq!(show(&session, twice).await, format!("{third} {third}"), "{twice}");
    }
    let unsigned = "(SELECT value % 1 AS g, CAST(x AS BIGINT UNSIGNED) AS x FROM \
                    generate_series(1, 1), (VALUES ('18446744073709551615'), ('1')) v(x))";
    for columns in ["avg(x)", "avg(DISTINCT x)", "avg(DISTINCT avg(x)) OVER ()"] {
        for grouping in ["", "GROUP BY g"] {
            let sql = format!("SELECT {columns} FROM {unsigned} {grouping}");
            assert_eq!(show(&session, &sql).await, "9.223372036854776e18", "{sql}");
        }
    }
    for (average, expected) in [
        ("avg(CAST(x AS SMALLINT))", "1.5"),
        ("avg(x)", "1.5"),
        ("avg(CAST(NULL AS INT)) IS NULL", "true"),
        ("avg(NULL) IS NULL", "true"),
        ("arrow_typeof(avg(x))", "Float64"),
    ] {
        let sql = format!("SELECT {average} FROM (VALUES (1), (2), (NULL)) t(x)");
        assert_eq!(show(&session, &sql).await, expected, "{average}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truth_values_are_counted_by_sums() {
    let session = session(64 * MIB);
    let rows = "(VALUES (1, true), (1, false), (2, NULL), (2, true), (2, true)) t(g, b)";
    for (query, answer) in [
        ("sum(b), avg(b), sum(DISTINCT b), sum(g > 1)", "3 0.75 1 3"),
        ("sum(b) FILTER (WHERE g = 2), pg_typeof(sum(b)), sum(b) > 2", "2 bigint true"),
        ("max(s) FROM (SELECT sum(b) OVER (ORDER BY g) AS s", "3"),
    ] {
        let closing = if query.contains("FROM") { ")" } else { "" };
        let query = format!("SELECT {query} FROM {rows}{closing}");
        assert_eq!(show(&session, &query).await, answer, "{query}");
    }
    let groups = format!("SELECT g, sum(b), avg(b) FROM {rows} GROUP BY g ORDER BY g");
    assert_eq!(show(&session, &groups).await, "1 1 0.5\n2 2 1.0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn averages_of_decimals_are_rounded() {
    let session = session(64 * MIB);
    let table = "CREATE TABLE t AS SELECT n % 2 AS g, n, CAST(x AS DECIMAL(4, 2)) AS x, \
                 CAST(x AS DECIMAL(38, 2)) AS wide, CAST(x AS DECIMAL(50, 2)) AS wider \
                 FROM (VALUES (1, 0.01), (3, 0.01), (5, 0.00), (2, -0.01), (4, -0.01), (6, 0)) \
                 t(n, x)";
    show(&session, table).await;
    for (columns, expected) in [
        ("avg(x), avg(wide), avg(wider)", "0.0066666666666667 0.006667 0.0066666666666667"),
        ("avg(DISTINCT x), avg(DISTINCT wide)", "0.0050000000000000 0.005000"),
        ("avg(wide) FILTER (WHERE n < 4), avg(x) FILTER (WHERE n > 9) IS NULL", "0.010000 true"),
    ] {
        for grouping in ["WHERE g = 1", "WHERE g = 1 GROUP BY g", "GROUP BY g HAVING g = 1"] {
            let sql = format!("SELECT {columns} FROM t {grouping}");
            assert_eq!(show(&session, &sql).await, expected, "{sql}");
        }
    }
    let negative = "SELECT avg(x), avg(wide), arrow_typeof(avg(x)) FROM t WHERE g = 0";
    let expected = "-0.0066666666666667 -0.006667 Decimal128(38, 16)";
    assert_eq!(show(&session, negative).await, expected);
    let moving = "SELECT sum(a) FROM (SELECT avg(x) OVER (PARTITION BY g ORDER BY n ROWS BETWEEN 2 \
                  PRECEDING AND CURRENT ROW) AS a, n FROM t) WHERE n = 5";
    assert_eq!(show(&session, moving).await, "0.0066666666666667");
    // Their sum has 39 digits; the average of thirds does not fit.
    let nines = "(VALUES (CAST(repeat('9', 38) AS DECIMAL(38, 0))), \
                 (CAST(repeat('9', 38) AS DECIMAL(38, 0))), (CAST('0' AS DECIMAL(38, 0)))) t(x)";
    let wide = format!("SELECT CAST(avg(CAST(x AS DECIMAL(40, 0))) AS VARCHAR) FROM {nines}");
    assert_eq!(show(&session, &wide).await, format!("{}.{}", "6".repeat(38), "0".repeat(16)));
    let narrow = error(&session, &format!("SELECT avg(x) FROM {nines}")).await;
    let words = "decimal(38, 4) out of range: the result of avg does not fit";
    assert!(narrow.contains(words), "{narrow}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_of_groups_that_spill_are_right() {
    let session = session(32 * MIB);
    let rows = "SELECT value % 120000 AS g, CAST(value AS DECIMAL(20, 2)) AS d, value AS x, \
                repeat('key that makes a group wider ', 5) || (value % 120000) AS k \
                FROM generate_series(1, 360000)";
    show(&session, &format!("CREATE TABLE t AS {rows}")).await;
    let sums = "SELECT count(*), sum(sx), sum(sd), sum(sx) = sum(sd), sum(ax) FROM \
                (SELECT k, sum(x) AS sx, avg(x) AS ax, sum(d) AS sd, array_agg(x) AS l FROM t \
                GROUP BY k)";
    let (found, spilled) = run(&session, sums).await;
    assert_eq!(found, "120000 64800180000 64800180000.00 true 21600060000.0");
    assert!(spilled > 0);
    let text =
        error(&session, &format!("SELECT k, sum(x + {MAX} / 2), array_agg(x) FROM t GROUP BY k"))
            .await;
    assert!(text.contains("bigint out of range"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_a_number_is_above_infinity() {
    let session = session(64 * MIB);
    // 0.0 / 0.0 has its sign set on x86-64.
    let number = |text: &str| format!("CAST('{text}' AS DOUBLE)");
    let negative = "CAST('inf' AS DOUBLE) - CAST('inf' AS DOUBLE)";
    let rows = [
        (1, "1".to_owned()),
        (1, number("NaN")),
        (1, "0.5".to_owned()),
        (2, number("inf")),
        (3, number("-inf")),
        (4, negative.to_owned()),
        (4, number("inf")),
        (5, negative.to_owned()),
        (6, "NULL".to_owned()),
        (6, "2".to_owned()),
    ];
    let rows = rows.map(|(g, x)| format!("SELECT {g} AS g, CAST({x} AS DOUBLE) AS x"));
    show(&session, &format!("CREATE TABLE t AS {}", rows.join(" UNION ALL "))).await;
    let expected = ["1 0.5 NaN", "2 inf inf", "3 -inf -inf", "4 inf NaN", "5 NaN NaN", "6 2.0 2.0"];
    for float in ["DOUBLE", "REAL", "f16"] {
        let x = match float {
            "f16" => "arrow_cast(x, 'Float16')".to_owned(),
            float => format!("CAST(x AS {float})"),
        };
        let from = format!("(SELECT g, {x} AS x FROM t)");
        let grouped = format!("SELECT g, min(x), max(x) FROM {from} GROUP BY g ORDER BY g");
        let found = show(&session, &grouped).await.replace("6 2 2", "6 2.0 2.0");
        let expected = expected.join("\n");
        assert_eq!(found.trim_end(), expected, "{float}");
        for (n, line) in expected.lines().enumerate() {
            let (_, values) = line.split_once(' ').expect("a group and values");
            let alone = format!("SELECT min(x), max(x) FROM {from} WHERE g = {}", n + 1);
            assert_eq!(show(&session, &alone).await.replace("2 2", "2.0 2.0"), values, "{alone}");
            let window = format!(
                "SELECT DISTINCT min(x) OVER w, max(x) OVER w FROM {from} \
                                  WHERE g = {} WINDOW w AS (PARTITION BY g)",
                n + 1
            );
            assert_eq!(show(&session, &window).await.replace("2 2", "2.0 2.0"), values, "{window}");
        }
    }
    let slides = "SELECT max(x) OVER (ORDER BY n ROWS 1 PRECEDING), min(x) OVER (ORDER BY n ROWS 1 \
                  PRECEDING) FROM (VALUES (1, 0.5), (2, CAST('NaN' AS DOUBLE)), (3, 1), (4, 2)) \
                  t(n, x) ORDER BY n";
    assert_eq!(show(&session, slides).await, "0.5 0.5\nNaN 0.5\nNaN 1.0\n2.0 1.0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extremes_of_a_table_with_nans_do_not_depend_on_statistics() {
    let session = session(64 * MIB);
    let rows = "SELECT value AS id, value % 3 AS g, CASE WHEN value = 70000 THEN \
                CAST('inf' AS DOUBLE) - CAST('inf' AS DOUBLE) ELSE CAST(value AS DOUBLE) END AS x \
                FROM generate_series(1, 200000)";
    show(&session, &format!("CREATE TABLE t AS {rows}")).await;
    assert_eq!(show(&session, "SELECT min(x) FROM t").await, "1.0");
    assert_eq!(show(&session, "SELECT min(x), max(x), count(x) FROM t").await, "1.0 NaN 200000");
    assert_eq!(show(&session, "SELECT max(x) FROM t WHERE id <> 70000").await, "200000.0");
    let groups = "SELECT g, max(x) FROM t GROUP BY g ORDER BY g";
    assert_eq!(show(&session, groups).await, "0 199998.0\n1 NaN\n2 200000.0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zeros_are_one_value_and_so_are_nans() {
    let session = session(64 * MIB);
    let rows = "SELECT value AS id, value % 4 AS k, \
                CASE value % 4 WHEN 0 THEN CAST('0' AS DOUBLE) WHEN 1 THEN CAST('-0' AS DOUBLE) \
                WHEN 2 THEN CAST('NaN' AS DOUBLE) \
                ELSE CAST('inf' AS DOUBLE) - CAST('inf' AS DOUBLE) END \
                AS x FROM generate_series(1, 4000)";
    show(
        &session,
        &format!("CREATE TABLE t AS SELECT id, k, CAST(x AS DOUBLE) AS x FROM ({rows})"),
    )
    .await;
    for (query, expected) in [
        ("SELECT count(DISTINCT x) FROM t", "2"),
        ("SELECT count(DISTINCT x), count(*) FROM t", "2 4000"),
        ("SELECT count(DISTINCT x), count(DISTINCT id), sum(id) > 0 FROM t", "2 4000 true"),
        ("SELECT count(*) FROM (SELECT DISTINCT x FROM t)", "2"),
        ("SELECT count(*) FROM (SELECT x, count(*) FROM t GROUP BY x)", "2"),
        ("SELECT count(*) FROM (SELECT x, k / 2 AS h FROM t GROUP BY x, h)", "2"),
        ("SELECT cardinality(array_agg(DISTINCT x)) FROM t", "2"),
        ("SELECT k / 2, count(DISTINCT x) FROM t GROUP BY k / 2 ORDER BY 1", "0 1\n1 1"),
        ("SELECT count(*) FROM t a JOIN t b ON a.x = b.x WHERE a.id <= 4 AND b.id <= 8", "16"),
        ("SELECT count(*) FROM (SELECT x FROM t UNION SELECT x FROM t)", "2"),
        ("SELECT count(*) FROM t WHERE id <= 4 AND x IN (SELECT x FROM t WHERE k IN (1, 3))", "4"),
    ] {
        assert_eq!(show(&session, query).await, expected, "{query}");
    }
    show(&session, "SET datafusion.optimizer.hash_join_single_partition_threshold = 0").await;
    show(&session, "SET datafusion.optimizer.hash_join_single_partition_threshold_rows = 0").await;
    let join = "SELECT count(*) FROM t a JOIN t b ON a.x = b.x WHERE a.id <= 4 AND b.id <= 8";
    assert_eq!(show(&session, join).await, "16");
}

/// Runs a query and returns its rows as text, and the bytes that it spilled.
async fn run(session: &Session, text: &str) -> (String, u64) {
    let statement = session.parse(text).expect("parses").remove(0);
    let handle = session.execute(statement).await.expect("starts");
    let query = Arc::clone(handle.query());
    let output = handle.collect().await.unwrap_or_else(|error| panic!("{text}\n{error}"));
    let lines: Vec<_> = output.batches.iter().flat_map(lines).collect();
    (lines.join("\n"), query.spilled().bytes())
}

/// Ordered aggregates over groups that spill, compared with ample memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordered_aggregates_of_groups_that_spill_are_right() {
    let (ample, tiny) = (session(1024 * MIB), session(32 * MIB));
    let rows = "CREATE TABLE s AS SELECT value AS id, value * 7919 % 400009 AS k, \
                repeat('payload text ', 100) || value AS p FROM generate_series(1, 40000)";
    for session in [&ample, &tiny] {
        show(session, rows).await;
    }
    let mut spilled_in_all = 0;
    for function in [
        "first_value(p ORDER BY k)",
        "last_value(p ORDER BY k)",
        "nth_value(p, 2 ORDER BY k)",
        "string_agg(p, ',' ORDER BY k)",
        "array_to_string(array_agg(p ORDER BY k DESC), ',')",
        "first_value(p ORDER BY k) FILTER (WHERE id % 5 > 0)",
    ] {
        let query = format!(
            "SELECT count(m), min(right(m, 5)), max(right(m, 5)), sum(length(m)), \
             sum(ascii(right(m, 1)) * g) \
             FROM (SELECT id % 10000 AS g, {function} AS m FROM s GROUP BY g)"
        );
        let expected = show(&ample, &query).await;
        let (found, spilled) = run(&tiny, &query).await;
        assert_eq!(found, expected, "{query}");
        spilled_in_all += spilled;
    }
    let first = "SELECT count(*), min(right(p, 5)), max(right(p, 5)), sum(length(p)) FROM (SELECT \
                 DISTINCT ON (id % 20000) id % 20000, p FROM s ORDER BY id % 20000, k)";
    let expected = show(&ample, first).await;
    let (found, spilled) = run(&tiny, first).await;
    assert_eq!(found, expected, "{first}");
    spilled_in_all += spilled;
    assert!(spilled_in_all > 50 * MIB, "{spilled_in_all} bytes spilled");
}

/// Ordered lists of 600,000 values need no more memory than the values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordered_lists_of_many_values_fit_a_small_budget() {
    const ROWS: usize = 600_000;
    let session = session(64 * MIB);
    show(&session, "SET datafusion.execution.target_partitions = 3").await;
    let rows = format!(
        "CREATE TABLE s AS SELECT value AS id, value * 7919 % 600011 AS k, \
         value % 100 || '' AS p FROM generate_series(1, {ROWS})"
    );
    show(&session, &rows).await;
    let mut sorted: Vec<_> = (1..=ROWS).map(|id| (id * 7919 % 600_011, id)).collect();
    sorted.sort_unstable();
    let list = |keep: &dyn Fn(usize) -> bool, text: &dyn Fn(usize) -> usize| {
        let kept = sorted.iter().filter(|(_, id)| keep(*id));
        kept.map(|(_, id)| text(*id).to_string()).collect::<Vec<_>>()
    };
    let all = list(&|_| true, &|id| id % 100).join(",");
    assert_eq!(show(&session, "SELECT string_agg(p, ',' ORDER BY k) FROM s").await, all);
    for list in ["string_agg(p, ',' ORDER BY k)", "array_agg(p ORDER BY k DESC)"] {
        let plan = show(&session, &format!("EXPLAIN (FORMAT INDENT) SELECT {list} FROM s")).await;
        let in_order = ["mode=Single", "PagedSortPreservingMergeExec", "PagedSortExec"];
        assert!(in_order.iter().all(|node| plan.contains(node)), "{plan}");
    }
    let mut ids = list(&|id| id % 5 > 0, &|id| id);
    ids.reverse();
    let array = "SELECT array_to_string(array_agg(id ORDER BY k DESC) FILTER (WHERE id % 5 > 0), \
                 ' '), count(*) FROM s";
    assert_eq!(show(&session, array).await, format!("{} {ROWS}", ids.join(" ")));
    let groups = "SELECT id % 3 AS g, string_agg(p, '' ORDER BY k), max(k) FROM s \
                  GROUP BY GROUPING SETS ((id % 3), ()) ORDER BY g NULLS LAST";
    let of = |g: Option<usize>| {
        let texts = list(&|id| g.is_none_or(|g| id % 3 == g), &|id| id % 100).concat();
        let last = sorted.iter().rev().find(|(_, id)| g.is_none_or(|g| id % 3 == g));
        let name = g.map_or_else(String::new, |g| g.to_string());
        format!("{name} {texts} {}", last.map_or(0, |(k, _)| *k))
    };
    let expected = [Some(0), Some(1), Some(2), None].map(of).join("\n");
    assert_eq!(show(&session, groups).await, expected);
    // The group's key is not part of the order of the rows within a group.
    let keyed = "SELECT g, sum(length(t)) FROM (SELECT g, string_agg(p, '' ORDER BY w, g, k) AS t \
                 FROM (SELECT id % 3 AS g, p, k, repeat(p, 100) AS w FROM s) GROUP BY g) \
                 GROUP BY g ORDER BY g";
    let of = |g: usize| format!("{g} {}", list(&|id| id % 3 == g, &|id| id % 100).concat().len());
    assert_eq!(show(&session, keyed).await, [0, 1, 2].map(of).join("\n"));
    // Two orders, of which the input can only have one.
    let two = "SELECT id % 3 AS g, array_to_string(array_agg(id ORDER BY k), ' '), \
               array_to_string(array_agg(id ORDER BY k DESC), ' ') \
               FROM s WHERE id < 1000 GROUP BY 1 ORDER BY 1";
    let of = |g: usize| {
        let mut ids = list(&|id| id < 1000 && id % 3 == g, &|id| id);
        let up = ids.join(" ");
        ids.reverse();
        format!("{g} {up} {}", ids.join(" "))
    };
    assert_eq!(show(&session, two).await, [0, 1, 2].map(of).join("\n"));
}

/// Each list has its own order, also with DISTINCT and next to a list of the opposite order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_several_orders_stand_side_by_side() {
    let session = session(64 * MIB);
    let rows = "CREATE TABLE l AS SELECT * FROM (VALUES (1, 'a', 3), (1, 'b', 2), (1, 'c', 2), \
                (2, 'd', 1), (2, 'e', NULL), (2, 'b', 7), (1, NULL, 1)) v(g, s, x)";
    show(&session, rows).await;
    let cases = [
        (
            "SELECT string_agg(DISTINCT s, ',' ORDER BY s DESC) AS a, \
             string_agg(DISTINCT s, ',' ORDER BY s) AS b FROM l",
            "e,d,c,b,a a,b,c,d,e",
        ),
        (
            "SELECT string_agg(s, ',' ORDER BY s DESC) AS a, \
             string_agg(DISTINCT s, ',' ORDER BY s) AS b FROM l",
            "e,d,c,b,b,a a,b,c,d,e",
        ),
        (
            "SELECT g, array_agg(DISTINCT x ORDER BY x DESC NULLS LAST) AS a, \
             array_agg(DISTINCT x ORDER BY x NULLS FIRST) AS b FROM l GROUP BY g ORDER BY g",
            "1 [3, 2, 1] [1, 2, 3]\n2 [7, 1, ] [, 1, 7]",
        ),
        (
            "SELECT g, string_agg(s, ',' ORDER BY x, s) AS a, \
             string_agg(s, ',' ORDER BY x DESC, s) AS b FROM l GROUP BY g ORDER BY g",
            "1 b,c,a a,b,c\n2 d,b,e e,b,d",
        ),
        (
            "SELECT string_agg(s, ',' ORDER BY x, s) AS a, string_agg(s, ',' ORDER BY s DESC) AS b \
             FROM l",
            "d,b,c,a,b,e e,d,c,b,b,a",
        ),
    ];
    for (query, answer) in cases {
        assert_eq!(show(&session, query).await, answer, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_of_constants_stays_above_a_row_of_no_rows() {
    let session = session(64 * MIB);
    show(&session, "CREATE TABLE t AS SELECT 1 AS v WHERE false").await;
    let cases = [
        ("SELECT n FROM (SELECT count(*) AS n, 1 AS k FROM t) WHERE k = 2", ""),
        ("SELECT n FROM (SELECT count(*) AS n, NULL::INT AS k FROM t) WHERE k > 1", ""),
        ("SELECT n FROM (SELECT count(*) AS n, 1 AS k FROM t) WHERE k = 1 AND n = 0", "0"),
        ("SELECT k FROM (SELECT 1 AS k FROM t GROUP BY CUBE (v)) WHERE k = 2", ""),
        ("SELECT k FROM (SELECT 1 AS k FROM t GROUP BY CUBE (v)) WHERE k IN (1, NULL)", "1"),
        ("SELECT k FROM (SELECT 1 AS k, v FROM t GROUP BY ROLLUP (v)) WHERE k = 2 AND v = 3", ""),
    ];
    for (query, answer) in cases {
        assert_eq!(show(&session, query).await, answer, "{query}");
    }
    // All rows of a group, or none.
    show(&session, "CREATE TABLE u AS SELECT value % 50 AS k FROM generate_series(1, 5000)").await;
    let whole = "SELECT count(*) FROM (SELECT k, count(*) AS n FROM u GROUP BY k) \
                 WHERE random() < 0.5 AND n <> 100";
    assert_eq!(show(&session, whole).await, "0");
}

/// A key of a grouping set is null in the rows of other sets, even if it is constant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_grouping_sets_are_in_no_order_until_they_are_sorted() {
    let session = session(64 * MIB);
    show(&session, "CREATE TABLE t (v BIGINT); INSERT INTO t VALUES (3), (3), (NULL), (4)").await;
    let cases = [
        (
            "SELECT v, count(*) FROM t WHERE v = 3 GROUP BY ROLLUP (v) ORDER BY v NULLS FIRST",
            " 2\n3 2",
        ),
        ("SELECT 5 AS c, count(*) FROM t GROUP BY ROLLUP (c) ORDER BY c NULLS LAST", "5 4\n 4"),
        ("SELECT 5 AS c, count(*) FROM t GROUP BY ROLLUP (c) ORDER BY c NULLS FIRST", " 4\n5 4"),
    ];
    let sets = "SELECT count(*) FROM t a LEFT JOIN t b ON true \
                GROUP BY GROUPING SETS ((b.v, DATE '2024-03-04'), ()) ORDER BY 1";
    for partitions in [1, 4] {
        let partitions = format!("SET datafusion.execution.target_partitions = {partitions}");
        show(&session, &partitions).await;
        for (query, answer) in cases {
            assert_eq!(show(&session, query).await, answer, "{query}");
        }
        show(&session, "SET datafusion.execution.batch_size = 1").await;
        assert_eq!(show(&session, sets).await, "4\n4\n8\n16");
    }
}
