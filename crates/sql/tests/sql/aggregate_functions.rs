//! Aggregate functions of DuckDB and PostgreSQL that DataFusion lacks, with the results of DuckDB
//! 2.0, and of PostgreSQL 15 for WITHIN GROUP, `mode` and fractions that are null.

use std::sync::Arc;

use terrace_sql::Session;

use crate::common::{MIB, check, engine, error, lines, show};

/// Creates a table with nulls in all columns, a NaN, and a group without values.
pub async fn table(session: &Session) {
    let rows = "CREATE TABLE t (id INT, g INT, x INT, y DOUBLE, d DECIMAL(10, 2), s VARCHAR, \
        b BOOLEAN, day DATE);
        INSERT INTO t VALUES (1, 1, 3, 1.5, 10.25, 'b', true, '2024-01-03'),
            (2, 1, 1, 2.5, 3.50, 'a', false, '2024-01-01'),
            (3, 1, 3, NULL, 10.25, 'c', NULL, '2024-01-03'),
            (4, 1, 2, -1, NULL, NULL, true, NULL),
            (5, 2, 5, 'NaN', 7, 'zz', false, '2020-02-29'),
            (6, 2, NULL, 4, 7.00, 'y', false, '2021-01-01'),
            (7, 2, 5, 4, 1, 'y', NULL, '2020-02-29'),
            (8, 3, NULL, NULL, NULL, NULL, NULL, NULL)";
    show(session, rows).await;
}

const ORDERED_SETS: &[(&str, &str)] = &[
    (
        "SELECT g, mode(x), mode() WITHIN GROUP (ORDER BY y), mode(d), mode(s), mode(b), mode(day) \
         FROM t GROUP BY g ORDER BY g",
        "1 3 -1.0 10.25 a true 2024-01-03\n2 5 4.0 7.00 y false 2020-02-29\n3      ",
    ),
    (
        "SELECT mode() WITHIN GROUP (ORDER BY x), mode() WITHIN GROUP (ORDER BY x DESC), \
         mode(x) FILTER (WHERE b), mode([x]) FROM t",
        "3 5 2 [3]",
    ),
    ("SELECT mode(x), quantile_disc(x, 0.5) FROM t WHERE false", " "),
    (
        "SELECT g, quantile_disc(x, 0.5), quantile(s, 0.5), quantile_disc(d, 0.25), \
         quantile_disc(day, 1), quantile_disc(y, [0, 0.5, 1]) FROM t GROUP BY g ORDER BY g",
        "1 2 b 3.50 2024-01-03 [-1.0, 1.5, 2.5]\n2 5 y 1.00 2021-01-01 [4.0, 4.0, NaN]\n3     ",
    ),
    (
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY x), percentile_disc(0) WITHIN GROUP \
         (ORDER BY y), percentile_disc(0.3) WITHIN GROUP (ORDER BY s DESC), \
         percentile_disc(ARRAY[0.25, 0.75, NULL]) WITHIN GROUP (ORDER BY x) FROM t",
        "3 -1.0 y [2, 5, ]",
    ),
    (
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x), percentile_cont(ARRAY[0.25, 0.75, \
         NULL]) WITHIN GROUP (ORDER BY x DESC), quantile_cont(x, [0.25, 0.75]) FROM t",
        "3.0 [4.5, 2.25, ] [2.25, 4.5]",
    ),
    (
        "SELECT percentile_disc(ARRAY[0.25]) WITHIN GROUP (ORDER BY x) IS NULL, \
         percentile_cont(ARRAY[0.25]) WITHIN GROUP (ORDER BY x) IS NULL FROM t WHERE false",
        "true true",
    ),
    (
        "SELECT quantile_disc(x, NULL) IS NULL, quantile_disc(NULL, 0.5), mode(NULL), \
         entropy(NULL), product(NULL), arg_max(NULL, 1), arg_max(1, NULL), max(NULL, 2) FROM t",
        "true   0.0    ",
    ),
];

const ROWS_AND_LISTS: &[(&str, &str)] = &[
    (
        "SELECT g, arg_max(s, x), arg_min(s, x), max_by(x, day), min_by(id, y), arg_max(id, y) \
         FROM t GROUP BY g ORDER BY g",
        "1 b a 3 4 2\n2 zz zz 5 6 5\n3     ",
    ),
    (
        "SELECT arg_max(s, x, 2), max_by(id, y, 1), arg_min(id, id, 3), arg_max_null(s, -id), \
         arg_min_null(s, d), arg_max({'a': x}, id), arg_max(id, {'a': x}) FROM t",
        "[y, zz] [5] [1, 2, 3] b y {a: } 6",
    ),
    (
        "SELECT g, min(x, 2), max(x, 2), max(s, 2), max(y, 2), max([x], 1) FROM t GROUP BY g \
         ORDER BY g",
        "1 [1, 2] [3, 3] [c, b] [2.5, 1.5] [[3]]\n2 [5, 5] [5, 5] [zz, y] [NaN, 4.0] [[]]\n\
         3     [[]]",
    ),
    ("SELECT max(x, 999999), arg_max(s, x, 2) IS NULL FROM t WHERE id > 6", "[5] false"),
    (
        "SELECT g, histogram(x), histogram(s), histogram(b) FROM t GROUP BY g ORDER BY g",
        "1 {1: 1, 2: 1, 3: 2} {a: 1, b: 1, c: 1} {false: 1, true: 2}\n\
         2 {5: 2} {y: 2, zz: 1} {false: 2}\n3   ",
    ),
    (
        "SELECT histogram(y), histogram(day) FROM t",
        "{-1.0: 1, 1.5: 1, 2.5: 1, 4.0: 2, NaN: 1} \
         {2020-02-29: 2, 2021-01-01: 1, 2024-01-01: 1, 2024-01-03: 2}",
    ),
    (
        "SELECT g, any_value(x), first(x ORDER BY id), last(x ORDER BY id), any_value(x ORDER BY \
         id DESC), arbitrary(s ORDER BY id DESC) FROM t GROUP BY g ORDER BY g",
        "1 3 3 2 2 \n2 5 5 5 5 y\n3     ",
    ),
    (
        "SELECT any_value([x]), any_value({'a': x}), any_value(NULL), any_value(x) FILTER (WHERE \
         id > 5) FROM t",
        "[3] {a: 3}  5",
    ),
    (
        "SELECT list(x ORDER BY id), array_agg(DISTINCT x ORDER BY x), list(DISTINCT x ORDER BY x \
         DESC NULLS LAST) FROM t",
        "[3, 1, 3, 2, 5, , 5, ] [1, 2, 3, 5, ] [5, 3, 2, 1, ]",
    ),
    (
        "SELECT string_agg(s ORDER BY id), group_concat(s, '-' ORDER BY id), listagg(s, ';' ORDER \
         BY id DESC), listagg(s, ';') WITHIN GROUP (ORDER BY id DESC), string_agg(x, ',' ORDER BY \
         id) FROM t",
        "b,a,c,zz,y,y b-a-c-zz-y-y y;y;zz;c;a;b y;y;zz;c;a;b 3,1,3,2,5,5",
    ),
];

const NUMBERS: &[(&str, &str)] = &[
    (
        "SELECT g, product(x), round(geomean(x), 12), round(geometric_mean(x), 12) FROM t GROUP \
         BY g ORDER BY g",
        "1 18.0 2.059767143907 2.059767143907\n2 25.0 5.0 5.0\n3   ",
    ),
    (
        "SELECT round(kurtosis(x), 12), round(kurtosis_pop(x), 12), round(skewness(x), 12), \
         round(entropy(x), 12), round(entropy(s), 12), mad(x), mad(d), mad(y) FROM t",
        "-1.310507674144 -1.306459773992 0.040531674281 1.918295834054 2.251629167388 1.5 3.25 \
         1.25",
    ),
    (
        "SELECT g, round(kurtosis(id), 12), round(kurtosis_pop(id), 12), skewness(id), \
         round(entropy(id), 12), mad(id) FROM t GROUP BY g ORDER BY g",
        "1 -1.2 -1.36 0.0 2.0 1.0\n2  -1.5 0.0 1.584962500721 1.0\n3    0.0 0.0",
    ),
    (
        "SELECT kurtosis(x), kurtosis_pop(x), skewness(x), entropy(x), mad(x), product(x), \
         fsum(x), favg(x), sem(x), wavg(x, id), geomean(x), count_if(b) FROM t WHERE false",
        "   0.0        ",
    ),
    ("SELECT kurtosis(1), kurtosis_pop(1), skewness(1), entropy(1), mad(1) FROM t", "   0.0 0.0"),
    (
        "SELECT fsum(y) FILTER (WHERE id < 5), kahan_sum(d), sumkahan(x), favg(d), fsum(x), \
         weighted_avg(x, d), round(wavg(x, id), 12), round(sem(x), 12), sum(x * d) FROM t",
        "3.0 39.0 19.0 6.5 19.0 3.28125 3.727272727273 0.597060701672 105.00",
    ),
    ("SELECT count_if(b), countif(x > 2), count_if(x > 100), count_if(NULL) FROM t", "2 4 0 "),
    (
        "SELECT sum_no_overflow(x), count(), round(mean(x), 12), every(b), bool_or(b), \
         round(variance(x), 12), max(b), min(b), approx_count_distinct(x) FROM t",
        "19 8 3.166666666667 false true 2.566666666667 true false 4",
    ),
    (
        "SELECT mode(DISTINCT x), product(DISTINCT x), mad(DISTINCT x), entropy(DISTINCT x), \
         histogram(DISTINCT x), round(kurtosis(DISTINCT id), 12), arg_max(DISTINCT s, x), \
         mad(DISTINCT x) FILTER (WHERE g = 1), max(DISTINCT x, 3) FROM t",
        "1 30.0 1.0 2.0 {1: 1, 2: 1, 3: 1, 5: 1} -1.2 zz 1.0 [5, 3, 2]",
    ),
    (
        "SELECT g, b, grouping(g, b) AS n, grouping_id(g, b), count(*) FROM t WHERE g > 1 GROUP \
         BY CUBE (g, b) ORDER BY n, g, b",
        "2 false 0 0 2\n2  0 0 1\n3  0 0 1\n2  1 1 3\n3  1 1 1\n false 2 2 2\n  2 2 2\n  3 3 4",
    ),
    ("SELECT g FROM t GROUP BY g HAVING mode(x) > 2 ORDER BY arg_max(id, id) DESC", "2\n1"),
];

const WINDOWS: &[(&str, &str)] = &[
    (
        "SELECT id, mode(x) OVER (PARTITION BY g), product(x) OVER (PARTITION BY g ORDER BY id), \
         arg_max(s, x) OVER (ORDER BY id), count_if(b) OVER (ORDER BY id), histogram(x) OVER \
         (PARTITION BY g) FROM t ORDER BY id",
        "1 3 3.0 b 1 {1: 1, 2: 1, 3: 2}\n2 3 3.0 b 1 {1: 1, 2: 1, 3: 2}\n\
         3 3 9.0 b 1 {1: 1, 2: 1, 3: 2}\n4 3 18.0 b 2 {1: 1, 2: 1, 3: 2}\n5 5 5.0 zz 2 {5: 2}\n\
         6 5 5.0 zz 2 {5: 2}\n7 5 25.0 zz 2 {5: 2}\n8   zz 2 ",
    ),
    (
        "SELECT id, first(x) OVER w, last(x) OVER w, any_value(x) OVER w, list(x) OVER w, \
         arg_min(s, x) OVER w, max(x, 2) OVER w, quantile_disc(x, 0.5) OVER w FROM t WINDOW w AS \
         (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) ORDER BY id",
        "1 3 1 3 [3, 1] a [3, 1] 1\n2 3 3 3 [3, 1, 3] a [3, 3] 3\n3 1 2 1 [1, 3, 2] a [3, 2] 2\n\
         4 3 5 3 [3, 2, 5] c [5, 3] 3\n5 2  2 [2, 5, ] zz [5, 2] 2\n6 5 5 5 [5, , 5] zz [5, 5] 5\n\
         7   5 [, 5, ] y [5] 5\n8 5  5 [5, ] y [5] 5",
    ),
    (
        "SELECT id, lag(x IGNORE NULLS) OVER (ORDER BY id), lead(x IGNORE NULLS) OVER (ORDER BY \
         id), first_value(x IGNORE NULLS) OVER (ORDER BY id DESC), last_value(x IGNORE NULLS) \
         OVER (ORDER BY id), nth_value(x, 3 IGNORE NULLS) OVER (ORDER BY id), first(x IGNORE \
         NULLS) OVER (ORDER BY id DESC) FROM t ORDER BY id",
        "1  1 5 3  5\n2 3 3 5 1  5\n3 1 2 5 3 3 5\n4 3 5 5 2 3 5\n5 2 5 5 5 3 5\n6 5 5 5 5 3 5\n\
         7 5  5 5 3 5\n8 5   5 3 ",
    ),
    (
        "SELECT id, lag(x) OVER (ORDER BY id), lead(x, 2, 0) OVER (ORDER BY id), ntile(3) OVER \
         (ORDER BY id), cume_dist() OVER (ORDER BY id), round(percent_rank() OVER (ORDER BY id), \
         6), nth_value(x, 2) OVER (ORDER BY id), rank() OVER (ORDER BY g) FROM t ORDER BY id \
         LIMIT 4",
        "1  3 1 0.125 0.0  1\n2 3 2 1 0.25 0.142857 1 1\n3 1 5 1 0.375 0.285714 1 1\n\
         4 3  2 0.5 0.428571 1 1",
    ),
    (
        "SELECT sum(m) FROM (SELECT quantile_disc(value, 0.5) OVER (ORDER BY value) AS m FROM \
         generate_series(1, 1000))",
        "250500",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_those_of_the_judges() {
    let session = engine(64 * MIB).session().expect("session");
    table(&session).await;
    for cases in [ORDERED_SETS, ROWS_AND_LISTS, NUMBERS, WINDOWS] {
        check(&session, cases).await;
    }
}

/// The statements that are refused, and a part of the error.
const REFUSED: &[(&str, &str)] = &[
    ("SELECT quantile_disc(x, 1.5) FROM t", "fraction 1.5 is not between 0 and 1"),
    ("SELECT quantile_disc(x, [0.5, -1]) FROM t", "fraction -1 is not between 0 and 1"),
    ("SELECT quantile_disc(x, d) FROM t", "argument 2 of quantile_disc must be a constant"),
    ("SELECT quantile_disc(x, 'a') FROM t", "takes a fraction between 0 and 1"),
    ("SELECT quantile_disc(x) FROM t", "takes a value and a fraction"),
    ("SELECT percentile_cont([0.5]) WITHIN GROUP (ORDER BY s) FROM t", "use percentile_disc"),
    ("SELECT mode() FROM t", "mode takes one value"),
    ("SELECT mode(x ORDER BY id) FROM t", "mode takes one value"),
    ("SELECT max(x, 0) FROM t", "the length of the list of max is from 1 to 999999"),
    ("SELECT arg_max(s, x, NULL) FROM t", "the length of the list of arg_max is from 1"),
    ("SELECT arg_max(s, x, 1000000) FROM t", "the length of the list of arg_max is from 1"),
    ("SELECT min(x, id) FROM t", "argument 2 of min must be a constant"),
    ("SELECT min(x, 1.5) FROM t", "is an integer"),
    ("SELECT arg_max(s) FROM t", "arg_max takes a value and a key"),
    ("SELECT arg_max(s, x ORDER BY id) FROM t", "arg_max has no ORDER BY of its own"),
    ("SELECT arg_max(DISTINCT s, x, 2) FROM t", "arg_max has no DISTINCT"),
    ("SELECT count_if(DISTINCT b) FROM t", "count_if has no DISTINCT"),
    ("SELECT every(b IGNORE NULLS) FROM t", "every has no IGNORE NULLS"),
    ("SELECT product(s) FROM t", "product takes numbers"),
    ("SELECT mad(day) FROM t", "mad takes numbers"),
    ("SELECT weighted_avg(x) FROM t", "weighted_avg takes a number and a weight"),
    ("SELECT rank(3) WITHIN GROUP (ORDER BY x) FROM t", "rank(...) WITHIN GROUP"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_without_a_meaning_are_refused() {
    let session = engine(64 * MIB).session().expect("session");
    table(&session).await;
    for (query, part) in REFUSED {
        let text = error(&session, query).await;
        assert!(text.contains(part), "{query}\n{text}");
    }
}

/// Aggregates of a million rows in 300,000 groups.
const MANY_GROUPS: &[(&str, &str)] = &[
    ("sum(m) FROM (SELECT g, mode(x) AS m", "52192802"),
    ("sum(m) FROM (SELECT g, quantile_disc(x, 0.5) AS m", "138003527"),
    ("sum(length(m)) FROM (SELECT g, quantile_disc(s, 0.5) AS m", "2361206"),
    ("sum(m[1] + m[2]) FROM (SELECT g, quantile_cont(x, [0.25, 0.75]) AS m", "302400592.75"),
    ("sum(m) FROM (SELECT g, mad(x) AS m", "65657798.0"),
    ("round(sum(m), 3) FROM (SELECT g, entropy(x % 3) AS m", "323203.0"),
    ("sum(cardinality(m)) FROM (SELECT g, histogram(x % 3) AS m", "667789"),
    ("sum(m[1]) + sum(m[2]) FROM (SELECT g, max(x, 2) AS m", "414604600"),
    ("sum(m[1]) + sum(m[2]) FROM (SELECT g, arg_max(x, id, 2) AS m", "302400434"),
    ("sum(length(m)) FROM (SELECT g, arg_min(s, id) AS m", "2366221"),
    ("count(m) FROM (SELECT g, any_value(s) AS m", "300000"),
    ("sum(m) FROM (SELECT g, product(DISTINCT x % 5) AS m", "1415652.0"),
    ("round(sum(m), 3) FROM (SELECT g, skewness(x) AS m", "0.301"),
    ("sum(m) FROM (SELECT g, count_if(x > 500) AS m", "503470"),
];

/// Groups spill in 32 MiB, and with them the values of their aggregates.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups_fit_a_small_budget() {
    let session = engine(32 * MIB).session().expect("session");
    show(&session, BIG).await;
    let mut spilled_in_all = 0;
    for (query, answer) in MANY_GROUPS {
        let query = format!("SELECT count(*), {query} FROM big GROUP BY g)");
        let (found, spilled) = run(&session, &query).await;
        assert_eq!(found, format!("300000 {answer}"), "{query}");
        spilled_in_all += spilled;
    }
    assert!(spilled_in_all > 100 * MIB, "{spilled_in_all} bytes spilled");
}

const BIG: &str = "CREATE TABLE big AS SELECT value AS id, value % 300000 AS g, value * 7919 % \
    1009 \
                   AS x, 'text ' || value * 7919 % 977 AS s FROM generate_series(1, 1000000)";

/// One group of a million rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_group_fits_a_small_budget() {
    let session = engine(32 * MIB).session().expect("session");
    show(&session, BIG).await;
    let cases = [
        ("quantile_disc(id, 0.5)", "500000"),
        ("mad(id)", "250000.0"),
        ("round(entropy(x), 6)", "9.97871"),
        ("cardinality(histogram(x))", "1009"),
        ("mode(id % 1000 + id * 7919 % 1000)", "1000"),
        ("max(id, 3), arg_max(x, id, 2)", "[1000000, 999999, 999998] [724, 877]"),
        ("product(DISTINCT x % 5 + 1)", "120.0"),
    ];
    for (aggregate, answer) in cases {
        let query = format!("SELECT {aggregate} FROM big");
        assert_eq!(show(&session, &query).await, answer, "{query}");
    }
}

/// The values of one group do not fit memory: they are sorted in pages where that gives the result,
/// and refused where an accumulator would need all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_group_may_be_larger_than_memory() {
    let session = engine(32 * MIB).session().expect("session");
    let rows = "FROM generate_series(1, 6000000)";
    let cases = [
        ("mode(value % 1000003), quantile_disc(value, 0.5)", "1 3000000"),
        ("median(value)", "3000000.5"),
        ("mode() WITHIN GROUP (ORDER BY value % 1000003 DESC)", "999985"),
        ("percentile_disc(0.25) WITHIN GROUP (ORDER BY value DESC)", "4500001"),
        ("mode(CAST(value % 1000 AS VARCHAR)), count(*)", "0 6000000"),
    ];
    for (aggregates, answer) in cases {
        let query = format!("SELECT {aggregates} {rows}");
        let (found, spilled) = run(&session, &query).await;
        assert_eq!(found, answer, "{query}");
        assert!(spilled > 16 * MIB, "{query}: {spilled} bytes spilled");
    }
    for aggregate in [
        "mad(value)",
        "length(string_agg(repeat('x', 20) || value, ',' ORDER BY value % 1000))",
        "cardinality(histogram(value))",
        "mode([value])",
    ] {
        let text = error(&session, &format!("SELECT {aggregate} {rows}")).await;
        assert!(text.contains("keeps of one group take"), "{aggregate}\n{text}");
    }
    assert_eq!(show(&session, "SELECT mode(1)").await, "1");
}

/// Returns the rows of a query, and the bytes that it spilled.
async fn run(session: &Session, text: &str) -> (String, u64) {
    let statement = session.parse(text).expect("parses").remove(0);
    let handle = session.execute(statement).await.expect("starts");
    let query = Arc::clone(handle.query());
    let output = handle.collect().await.unwrap_or_else(|error| panic!("{text}\n{error}"));
    let lines: Vec<_> = output.batches.iter().flat_map(lines).collect();
    (lines.join("\n"), query.spilled().bytes())
}
