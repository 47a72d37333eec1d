//! Functions whose answers or memory were wrong, with the values of PostgreSQL 15, or of DuckDB 2.0
//! where PostgreSQL has no such function.

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

/// Calls with constants; PostgreSQL's values.
const POSTGRES: &[(&str, &str)] = &[
    (
        "SELECT date_trunc('millisecond', TIMESTAMP '1969-12-31 23:59:59.123456'), \
         date_trunc('microsecond', TIMESTAMP '1969-12-31 23:59:59.123456')",
        "1969-12-31T23:59:59.123 1969-12-31T23:59:59.123456",
    ),
    (
        "SELECT ceil(9.5::decimal(2,1)), floor(-9.5::decimal(2,1)), ceil(-0.5::decimal(2,1))",
        "10 -10 0",
    ),
    (
        "SELECT ceil(2.5::float8), floor(-2.5::float8), ceil(7), floor(12::decimal(4,0))",
        "3.0 -3.0 7.0 12",
    ),
    (
        "SELECT ARRAY[NULL, 1] < ARRAY[2], ARRAY[1, NULL] > ARRAY[1, 2], ARRAY[NULL] = \
         ARRAY[NULL], \
         ARRAY[1] <= ARRAY[1, 0], ARRAY[1, 2] >= NULL, ARRAY[NULL, 1]::bigint[] BETWEEN \
         ARRAY[1] AND ARRAY[NULL, 2]::bigint[]",
        "false true true true  true",
    ),
    (
        "SELECT array_length(ARRAY[]::bigint[], 1), array_length(ARRAY[1,2], 1), \
         array_length(ARRAY[1,2], 2)",
        " 2 ",
    ),
    (
        "SELECT lpad('abc', -1), rpad('abc', -5, 'x'), lpad('abc', 5, ''), rpad('abc', 2), \
         lpad('h\u{e4}', 6, 'xyz')",
        "  abc ab xyzxh\u{e4}",
    ),
    (
        "SELECT replace('abc', '', 'x'), replace('aXaX', 'X', '--'), repeat('ab', -1), \
         repeat('ab', 2)",
        "abc a--a--  abab",
    ),
    (
        "SELECT regexp_replace('abcbd', 'b(.)', '<\\1>', 'g'), regexp_replace('Abab', 'a', 'x', \
         'i'), regexp_replace('ab', 'x*', '-', 'g')",
        "a<c><d> xbab -a-b-",
    ),
    (
        "SELECT '[1]'::jsonb || '3', '{\"a\": 1}'::jsonb || '{\"b\": 2}', '3' || '[1]'::jsonb, \
         '[1]'::jsonb || NULL",
        "[1, 3] {\"a\": 1, \"b\": 2} [3, 1] ",
    ),
    ("SELECT lcm(7.25, 0.50), lcm(4, -6), gcd(7.25, 0.50), gcd(12, 18)", "14.50 12 0.25 6"),
    (
        "SELECT round(2.5::float8), round(3.5::float8), round(-2.5::float8), round(2.5::float4), \
         round(2.5), round(0.5::float8), round('NaN'::float8)",
        "2.0 4.0 -2.0 2.0 3 0.0 NaN",
    ),
    (
        "SELECT array_to_string(ARRAY['2024-01-02 03:04:05.5'::timestamp, NULL], ',', '-'), \
         array_to_string(ARRAY['2024-01-02 03:04:05+00'::timestamptz], ','), \
         array_to_string(ARRAY[INTERVAL '1 day 2 hours'], ','), \
         array_to_string(ARRAY['\\x00ff'::bytea], ',')",
        "2024-01-02 03:04:05.5,- 2024-01-02 03:04:05+00 1 day 02:00:00 \\x00ff",
    ),
    (
        "SELECT ln(1), log(100), log(2.0, 8.0), exp(0), power(-8, 3), power(0, 2), \
         power('Infinity'::float8, 2), ln('Infinity'::float8), ln('NaN'::float8), cos(0), acos(1)",
        "0.0 2.0 3.0 1.0 -512.0 0.0 inf inf NaN 1.0 0.0",
    ),
    ("SELECT length('\\x00ff00'::bytea), char_length('h\u{e4}'), character_length(NULL)", "3 2 "),
    (
        "SELECT pg_typeof(array_position(ARRAY['a'], 'a')), pg_typeof(cardinality(ARRAY[1])), \
         pg_typeof(array_ndims(ARRAY[1])), pg_typeof(array_positions(ARRAY[1], 1))",
        "bigint bigint bigint bigint[]",
    ),
    ("SELECT regr_r2(y, x) FROM (VALUES (1.0, 1.0), (1.0, 2.0)) t(y, x)", "1.0"),
    ("SELECT regr_r2(y, x) FROM (VALUES (1.0, 2.0), (3.0, 2.0)) t(y, x)", ""),
    (
        "SELECT bit_and(x) OVER w, bit_or(x) OVER w, bool_and(x > 2) OVER w, bool_or(x > 5) OVER \
         w FROM (VALUES (1, 6), (2, 3), (3, 5), (4, NULL), (5, NULL)) t(id, x) WINDOW w AS (ORDER \
         BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) ORDER BY id",
        "6 6 true true\n2 7 true true\n1 7 true false\n5 5 true false\n   ",
    ),
];

/// Calls with constants; DuckDB's values.
const DUCKDB: &[(&str, &str)] = &[
    (
        "SELECT quantile_cont(d, 0.5), quantile_cont(d::timestamp, 0.25), quantile_cont(d, 0.0) \
         FROM (VALUES (DATE '2024-01-01'), (DATE '2024-01-02'), (DATE '2024-01-05'), (DATE \
         '2024-01-06')) t(d)",
        "2024-01-03T12:00:00 2024-01-01T18:00:00 2024-01-01T00:00:00",
    ),
    ("SELECT date_part('epoch', INTERVAL '14 months 36 hours')", "36871200.0"),
    ("SELECT epoch_ms(TIME '13:04:05.678912'), epoch_us(TIME '00:00:00.000001')", "47045678 1"),
    (
        "SELECT round(2.5::double, 1000), trunc(-2.5::double, 400), round(2.5::double, 1)",
        "2.5 -2.5 2.5",
    ),
    (
        "SELECT json_merge_patch(NULL, '[1]'), json_merge_patch('{\"a\": 1}', NULL, '{\"b\": 2}')",
        "[1] {\"b\":2}",
    ),
    (
        "SELECT [NULL, 'x']::text, concat([1, NULL]), quote_literal([NULL, 'a,b']), []::text, \
         [[1], NULL]::text",
        "[NULL, x] [1, NULL] '[NULL, ''a,b'']' [] [[1], NULL]",
    ),
    (
        "SELECT {'a': NULL, 'b': [1, NULL]}::varchar, list_zip([1, 2], ['a', NULL])::varchar, \
         MAP {'k': 1}::varchar, row(1, 'x')::varchar",
        "{'a': NULL, 'b': [1, NULL]} [(1, a), (2, NULL)] {k=1} (1, x)",
    ),
    (
        "SELECT ['2024-01-02 03:04:05'::timestamp]::text, [INTERVAL '1 day']::text",
        "['2024-01-02 03:04:05'] [1 day]",
    ),
    ("SELECT string_agg(l, ';') FROM (VALUES ([1, NULL]), (NULL), ([2])) t(l)", "[1, NULL];[2]"),
    (
        "SELECT length([1, 2]), char_length(['a']), character_length(['b', NULL, 'a']), \
         length([]::varchar[])",
        "2 1 3 0",
    ),
    ("SELECT list_distinct([1, NULL, 1, 2, NULL]), array_distinct(['a', 'a'])", "[1, 2] [a]"),
    ("SELECT list_sum([]), list_avg([]), list_count([]), list_max([NULL])", "  0 "),
    (
        "SELECT len(element_at(MAP {'a': 1}, 'b')), element_at(MAP {'a': 1}, 'a'), \
         len(map_extract(MAP {'a': NULL}, 'a'))",
        "0 [1] 1",
    ),
    (
        "SELECT wavg(x, id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM \
         (VALUES (1, 6), \
         (3, 2)) t(id, x) ORDER BY id",
        "6.0\n3.0",
    ),
];

#[tokio::test]
async fn calls_have_the_values_of_postgresql_and_duckdb() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    check(&session, POSTGRES).await;
    check(&session, DUCKDB).await;
}

/// Columns, negative lengths among them, have the values of constants.
#[tokio::test]
async fn columns_have_the_values_of_constants() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t (s VARCHAR, n BIGINT, l BIGINT[], d DECIMAL(2,1), m TIMESTAMP)")
        .await;
    show(
        &session,
        "INSERT INTO t VALUES ('abc', -1, [NULL, 1], 9.5, TIMESTAMP '1969-12-31 23:59:59.123456'), \
         ('abc', 5, [], -9.5, TIMESTAMP '2024-02-29 00:00:00.9876'), (NULL, 2, NULL, NULL, NULL)",
    )
    .await;
    let cases = [
        (
            "SELECT lpad(s, n, 'xy'), rpad(s, n), repeat(s, n) FROM t ORDER BY n",
            "  \n  \nxyabc abc   abcabcabcabcabc",
        ),
        ("SELECT ceil(d), floor(d) FROM t ORDER BY n", "10 9\n \n-9 -10"),
        (
            "SELECT l < [2], array_length(l, 1), list_distinct(l) FROM t ORDER BY n",
            "false 2 [1]\n  \ntrue  []",
        ),
        (
            "SELECT date_trunc('millisecond', m) FROM t ORDER BY n",
            "1969-12-31T23:59:59.123\n\n2024-02-29T00:00:00.987",
        ),
        ("SELECT count(*) FROM t a JOIN t b ON a.l > b.l", "1"),
        ("SELECT l::text, length(l) FROM t ORDER BY n", "[NULL, 1] 2\n \n[] 0"),
        ("SELECT round(d::float8), array_to_string([m], ',') FROM t WHERE n = 5", DOUBLES),
        ("SELECT ln(n::float8) > 0 FROM t WHERE n > 1 ORDER BY n", "true\ntrue"),
        (
            "SELECT extract(second FROM m), date_part('milliseconds', m) FROM t ORDER BY n",
            "59.123456 59123.456\n \n0.987600 987.600",
        ),
        (
            "SELECT extract(second FROM TIME '01:02:03.5'), extract(second FROM INTERVAL \
             '1 hour 61.5 seconds'), extract(second FROM INTERVAL '-1.5 seconds'), \
             extract(microseconds FROM TIME '00:00:01.5'), \
             second(TIMESTAMP '2024-01-01 00:00:05.5')",
            "3.500000 1.500000 -1.500000 1500000 5",
        ),
    ];
    check(&session, &cases).await;
}

const DOUBLES: &str = "-10.0 2024-02-29 00:00:00.9876";

/// Arguments without a result, with the errors of PostgreSQL.
#[tokio::test]
async fn arguments_beyond_the_domain_of_a_function_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT * FROM (VALUES (1.0::float8), (0.0), (-1.0)) t(x)")
        .await;
    let zero = "cannot take logarithm of zero";
    let negative = "cannot take logarithm of a negative number";
    let cases = [
        ("SELECT ln(0)", zero),
        ("SELECT ln(-1.5::float8)", negative),
        ("SELECT ln(0::numeric)", zero),
        ("SELECT log(0), log10(1)", zero),
        ("SELECT log10(-1)", negative),
        ("SELECT log2(0)", zero),
        ("SELECT log(2, 0)", zero),
        ("SELECT log(-2, 8)", negative),
        ("SELECT log(1, 8)", "division by zero"),
        ("SELECT ln(x) FROM t WHERE x >= 0", zero),
        ("SELECT ln(x) FROM t WHERE x <> 0", negative),
        ("SELECT sqrt(-1)", "cannot take square root of a negative number"),
        ("SELECT power(0, -1)", "zero raised to a negative power is undefined"),
        ("SELECT power(-8, 0.5)", "a negative number raised to a non-integer power"),
        ("SELECT (-8) ^ 0.5", "a negative number raised to a non-integer power"),
        ("SELECT power(10::float8, 400)", "value out of range: overflow"),
        ("SELECT power(10::float8, -400)", "value out of range: underflow"),
        ("SELECT exp(1000)", "value out of range: overflow"),
        ("SELECT acos(2), asin(1)", "input is out of range"),
        ("SELECT asin(-2)", "input is out of range"),
        ("SELECT acosh(0.5)", "input is out of range"),
        ("SELECT atanh(2)", "input is out of range"),
        ("SELECT sin('Infinity'::float8)", "input is out of range"),
        ("SELECT 'infinity'::date", "dates and timestamps have no infinity"),
        ("SELECT '-infinity'::timestamptz", "dates and timestamps have no infinity"),
    ];
    for (query, message) in cases {
        let refused = error(&session, query).await;
        assert!(refused.contains(message), "{query}\n{refused}");
    }
    let lenient = "SELECT try_cast('infinity' AS timestamp) IS NULL";
    assert_eq!(show(&session, lenient).await, "true");
    let guarded = "SELECT CASE WHEN x > 0 THEN ln(x) END FROM t ORDER BY x DESC";
    assert_eq!(show(&session, guarded).await, "0.0\n\n");
}

/// A result that would be huge is refused before it is made.
#[tokio::test]
async fn huge_results_are_refused_by_name_and_size() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT value AS n, 'x' AS s FROM generate_series(1, 5000)")
        .await;
    let cases = [
        (
            "SELECT length(repeat('x', 1000000000000))",
            "repeat: the texts of a batch of rows would have 1000000000000 bytes",
        ),
        (
            "SELECT sum(length(repeat(s, 1000000))) FROM t",
            "repeat: the texts of a batch of rows would have",
        ),
        ("SELECT lpad('x', 9223372036854775807)", "lpad: the texts of a batch"),
        ("SELECT max(rpad(s, 1000000, 'ab')) FROM t", "rpad: the texts of a batch"),
        (
            "SELECT length(replace(repeat('x', 1000000), 'x', repeat('y', 1000000)))",
            "replace: the texts of a batch",
        ),
        (
            "SELECT length(regexp_replace(repeat('x', 1000000), 'x', repeat('y', 1000000), 'g'))",
            "regexp_replace: the texts of a batch",
        ),
        (
            "SELECT max(length(concat(s, repeat('y', 10000000)))) FROM t",
            "concat: the texts of a batch",
        ),
        ("SELECT max(len(range(0, n * 100000))) FROM t", "range: a list of"),
        ("SELECT max(len(generate_series(1, n * 100000))) FROM t", "generate_series: a list of"),
        ("SELECT max(len(array_repeat(repeat('x', 10000), n))) FROM t", "array_repeat: a list of"),
        ("SELECT to_timestamp('NaN'::float8)", "to_timestamp: NaN is out of range of timestamps"),
        ("SELECT to_timestamp('Infinity'::float8)", "to_timestamp: inf is out of range"),
        ("SELECT to_timestamp_micros(9223372036854775807)", "to_timestamp_micros: 92233720"),
        ("SELECT make_timestamp(9223372036854775807)", "a timestamp is out of range"),
        ("SELECT list_select([1, 2], [1, NULL])", "list_select: a position is NULL"),
        (
            "SELECT jsonb_set('{}'::jsonb, [NULL, 'x'], '1')",
            "jsonb_set: step 1 of the path is NULL",
        ),
        (
            "SELECT array_resize([1], -1)",
            "array_resize: the length of a list is -1; it cannot be negative",
        ),
    ];
    for (query, message) in cases {
        let refused = error(&session, query).await;
        assert!(refused.contains(message), "{query}\n{refused}");
    }
}
