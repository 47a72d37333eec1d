//! Operators and functions whose answers depend on types: comparisons with lists, JSONB, intervals,
//! bytes, and literals beside values of a type. The answers are those of PostgreSQL 15, or of
//! DuckDB for what PostgreSQL does not have.

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

/// `x = ANY(list)` and its relatives, whose results are unknown by nulls.
const QUANTIFIED: &[(&str, &str)] = &[
    ("SELECT 1 = ANY(ARRAY[2,NULL]), 1 = ANY(ARRAY[1,NULL]), 1 = ANY([]::int[])", " true false"),
    (
        "SELECT NULL::int = ANY([]::int[]), NULL::int = ANY(ARRAY[1]), 1 = ANY(NULL::int[])",
        "false  ",
    ),
    ("SELECT 1 <> ALL(ARRAY[2,NULL]), 1 <> ALL(ARRAY[1,NULL]), 1 <> ALL([]::int[])", " false true"),
    ("SELECT NULL::int <> ALL([]::int[]), NULL::int <> ALL(ARRAY[1])", "true "),
    ("SELECT NOT (1 = ANY(ARRAY[2,NULL])), 1 <> ALL(NULL::int[])", " "),
    ("SELECT 1 < ANY(ARRAY[0,NULL]), 1 < ANY(ARRAY[2,NULL]), 2 <> ANY(ARRAY[2,2])", " true false"),
    (
        "SELECT 1 >= ALL(ARRAY[1,NULL]), 1 >= ALL(ARRAY[2,NULL]), 3 >= ALL(ARRAY[1,2])",
        " false true",
    ),
    ("SELECT 1 = ALL(ARRAY[1,1]), 1 = ALL(ARRAY[NULL,2])", "true false"),
    (
        "SELECT 'b' = ANY(ARRAY['a','b']), 1 = ANY(ARRAY[1.0,2.5]), 0.0 = ANY([-0.0::double])",
        "true true true",
    ),
    ("SELECT INTERVAL '1 month' = ANY(ARRAY[INTERVAL '30 days'])", "true"),
    (
        "SELECT i, 1 = ANY(l), 1 <> ALL(l) FROM (VALUES (1, ARRAY[1,NULL]), (2, ARRAY[NULL,3]), \
         (3, []::bigint[]), (4, NULL)) t(i, l) ORDER BY i",
        "1 true false\n2  \n3 false true\n4  ",
    ),
    ("SELECT x FROM (VALUES (1), (2), (NULL)) t(x) WHERE x = ANY(ARRAY[2,NULL])", "2"),
    ("SELECT count(*) FROM (VALUES (1), (2), (NULL)) t(x) WHERE x <> ALL(ARRAY[2,NULL])", "0"),
    ("SELECT x FROM (VALUES (1), (2), (NULL)) t(x) WHERE x <> ALL(ARRAY[2]) OR x IS NULL", "1\n"),
];

/// Arrays written as texts, which are of the type of the value beside them.
const ARRAY_TEXTS: &[(&str, &str)] = &[
    ("SELECT 'b' = ANY('{a,b}'), 'c' <> ALL ('{a,\"b c\"}'), 1 = ANY('{}')", "true true false"),
    (
        "SELECT 'b' = ANY('{a,NULL}'), 'a' = ANY('{a,NULL}'), 'NULL' = ANY('{\"NULL\"}')",
        " true true",
    ),
    ("SELECT x FROM (VALUES (1), (2), (NULL)) t(x) WHERE x = ANY('{2,3}')", "2"),
    ("SELECT x FROM (VALUES (1), (2), (NULL)) t(x) WHERE x <> ALL('{2}') AND x < ANY('{2}')", "1"),
    (
        "SELECT d = ANY('{2020-01-01,2021-01-01}'), d > ALL('{2019-12-31}') \
         FROM (VALUES (DATE '2020-01-01')) t(d)",
        "true true",
    ),
    (
        "SELECT x = ANY('{1.55}'), x = ANY('{1.50,2}'), x < ANY('{1.55}') \
         FROM (VALUES (1.5::decimal(3,1))) t(x)",
        "false true true",
    ),
    ("SELECT INTERVAL '1 month' = ANY('{30 days}'), true = ANY('{f,t}')", "true true"),
    ("SELECT x::int[], try_cast(x AS int[]) FROM (VALUES ('{1,NULL}')) t(x)", "[1, ] [1, ]"),
    ("SELECT try_cast(x AS int[]) FROM (VALUES ('{1,x}'), ('1'), ('{}')) t(x)", "[1, ]\n\n[]"),
    (
        "SELECT x::text[] FROM (VALUES ('{a,\"b, c\",\"d\\\"e\"}'), (NULL)) t(x)",
        "[a, b, c, d\"e]\n",
    ),
];

#[tokio::test]
async fn arrays_are_written_as_texts() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    check(&session, ARRAY_TEXTS).await;
    let uuid = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11";
    let tables = format!(
        "CREATE TYPE mood AS ENUM ('sad', 'ok');
         CREATE TABLE t (u UUID, m mood, c CHAR(3), l INT[]);
         INSERT INTO t VALUES ('{uuid}', 'ok', 'a', '{{1,2}}'), (NULL, 'sad', 'b', '{{}}')"
    );
    show(&session, &tables).await;
    let of_uuid = format!("SELECT count(*) FROM t WHERE u = ANY('{{{uuid}}}')");
    let cases = [
        (of_uuid.as_str(), "1"),
        ("SELECT m FROM t WHERE m = ANY('{ok}')", "ok"),
        ("SELECT c = ANY('{\"a \",x}') FROM t ORDER BY c", "true\nfalse"),
        ("SELECT l FROM t ORDER BY c", "[1, 2]\n[]"),
        (
            "SELECT l = '{1,2}', '{1}' < l, l @> '{2}', '{}' <@ l FROM t ORDER BY c LIMIT 1",
            "true true true true",
        ),
        ("SELECT l && '{2,3}', l <> '{1,2}' FROM t ORDER BY c", "true false\nfalse true"),
    ];
    check(&session, &cases).await;
    show(&session, "PREPARE p AS SELECT count(*) FROM t WHERE u = ANY($1)").await;
    for array in [format!("ARRAY['{uuid}']"), format!("'{{{uuid}}}'")] {
        assert_eq!(show(&session, &format!("EXECUTE p({array})")).await, "1", "{array}");
    }
    for (query, expected) in [
        ("SELECT 1 = ANY('1,2')", "malformed array literal: \"1,2\""),
        ("SELECT 1 = ANY('{{1},{2}}')", "malformed array literal"),
        ("SELECT 1 = ANY('{x}')", "'x'"),
        ("SELECT 'a' = ANY(x) FROM (VALUES ('{a}')) t(x)", "no list"),
    ] {
        let text = error(&session, query).await;
        assert!(text.contains(expected), "{query}: {text}");
    }
}

#[tokio::test]
async fn comparisons_with_lists_are_unknown_by_nulls() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    check(&session, QUANTIFIED).await;
    show(&session, "CREATE TABLE l (n INT, l INT[]); INSERT INTO l VALUES (1, [1, NULL]), (2, [])")
        .await;
    check(
        &session,
        &[("SELECT n, 2 = ANY(l), 2 < ALL(l) FROM l ORDER BY n", "1  false\n2 false true")],
    )
    .await;
    let uuid = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11";
    show(&session, &format!("CREATE TABLE u (u UUID); INSERT INTO u VALUES ('{uuid}')")).await;
    let query = format!("SELECT count(*) FROM u WHERE u = ANY(ARRAY['{uuid}', NULL])");
    assert_eq!(show(&session, &query).await, "1");
    let text = error(&session, "SELECT 1 = ANY(2)").await;
    assert!(text.contains("no list"), "{text}");
}

/// The order of `jsonb`, in which numbers are equal if their values are.
const JSONB: &[(&str, &str)] = &[
    (
        "SELECT '1'::jsonb = '1.0', '[1, 2.50]'::jsonb = '[1.0,2.5]', '{\"a\":1}'::jsonb < \
         '{\"a\":1.5}', '[]'::jsonb < 'null'::jsonb, '\"a\"'::jsonb < '1'::jsonb",
        "true true true true true",
    ),
    ("SELECT '1'::jsonb < 'true'::jsonb, '[1]'::jsonb < '{}'::jsonb", "true true"),
    (
        "SELECT count(*) FROM (SELECT DISTINCT j FROM (VALUES ('1'::jsonb), ('1.0'), ('1.00'), \
         ('2')) t(j)) q",
        "2",
    ),
    ("SELECT count(DISTINCT j) FROM (VALUES ('1'::jsonb), ('1.0'), ('2')) t(j)", "2"),
    (
        "SELECT j, count(*) FROM (VALUES ('1'::jsonb), ('1'), ('1'), ('2')) t(j) GROUP BY j \
         ORDER BY j DESC",
        "2 1\n1 3",
    ),
    (
        "SELECT count(*) FROM (VALUES ('1'::jsonb), ('1.0'), ('2')) t(j) GROUP BY j ORDER BY 1",
        "1\n2",
    ),
    (
        "SELECT j FROM (VALUES ('{}'::jsonb), ('[]'), ('[1]'), ('10'), ('9.5'), ('\"b\"'), \
         ('true'), ('null'), ('{\"a\":1}')) t(j) ORDER BY j",
        "[]\nnull\n\"b\"\n9.5\n10\ntrue\n[1]\n{}\n{\"a\": 1}",
    ),
    (
        "SELECT ('{\"a\": 1.0}'::jsonb -> 'a') = '1', \
         ('{\"a\": 1.0}'::jsonb -> 'a') = ('{\"b\": 1}'::jsonb -> 'b')",
        "true true",
    ),
    (
        "SELECT count(*) FROM (VALUES ('1'::jsonb), ('2')) a(j) JOIN (VALUES ('1.0'::jsonb), \
         ('3.0')) b(j) ON a.j = b.j",
        "1",
    ),
    ("SELECT typeof('1'::jsonb), typeof(to_jsonb(1)), typeof('1'::json)", "JSONB JSONB JSON"),
];

#[tokio::test]
async fn values_of_jsonb_are_compared_as_such() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    check(&session, JSONB).await;
    show(
        &session,
        "CREATE TABLE j (n INT, j JSONB); INSERT INTO j VALUES (1, '1'), (2, '1.0'), (3, '[2]'),
            (4, '{\"b\": 1, \"a\": 2.0}'), (5, NULL)",
    )
    .await;
    let cases = [
        ("SELECT n FROM j WHERE j = '1.00' ORDER BY n", "1\n2"),
        ("SELECT n FROM j WHERE j = '{\"a\": 2, \"b\": 1.0}'", "4"),
        ("SELECT n FROM j WHERE j IN ('[2.0]', '7') ORDER BY n", "3"),
        ("SELECT count(*) FROM j x JOIN j y ON x.j = y.j", "6"),
        ("SELECT count(*) FROM (SELECT j FROM j UNION SELECT '1.000'::jsonb) q", "4"),
        (
            "SELECT n FROM j x WHERE (SELECT count(*) FROM j y WHERE y.j = x.j) = 2 ORDER BY n",
            "1\n2",
        ),
        ("SELECT n, rank() OVER (ORDER BY j) FROM j WHERE n < 4 ORDER BY n", "1 1\n2 1\n3 3"),
    ];
    check(&session, &cases).await;
}

/// Arithmetic with intervals.
const INTERVALS: &[(&str, &str)] = &[
    ("SELECT (INTERVAL '1 day' * 2)::text, (2 * INTERVAL '1 day')::text", "2 days 2 days"),
    (
        "SELECT (INTERVAL '1 month' / 2)::text, (INTERVAL '1 day' * 1.5)::text",
        "15 days 1 day 12:00:00",
    ),
    (
        "SELECT (INTERVAL '1 hour' / 3)::text, (-INTERVAL '1 mon 2 days')::text",
        "00:20:00 -1 mons -2 days",
    ),
    (
        "SELECT (INTERVAL '1 year' * -0.5)::text, (INTERVAL '3 days' / 2.0)::text",
        "-6 mons 1 day 12:00:00",
    ),
    ("SELECT (INTERVAL '1 day 02:03:04' * 10)::text", "10 days 20:30:40"),
    ("SELECT (INTERVAL '1 day' * NULL::int) IS NULL, (NULL::interval * 2) IS NULL", "true true"),
    (
        "SELECT greatest(INTERVAL '1 month', INTERVAL '29 days', NULL)::text, \
         least(INTERVAL '1 month', INTERVAL '31 days')::text, \
         greatest(INTERVAL '1 month', INTERVAL '40 days')::text",
        "1 mon 1 mon 40 days",
    ),
    (
        "SELECT n, min(i) OVER (ORDER BY n)::text, max(i) OVER (ORDER BY n ROWS BETWEEN 1 \
         PRECEDING AND CURRENT ROW)::text, sum(i) OVER (ORDER BY n)::text FROM (VALUES (1, \
         INTERVAL '1 month'), (2, INTERVAL '40 days'), (3, INTERVAL '20 days')) t(n, i) ORDER BY n",
        "1 1 mon 1 mon 1 mon\n2 1 mon 40 days 1 mon 40 days\n3 20 days 40 days 1 mon 60 days",
    ),
    (
        "SELECT typeof(DATE '2024-01-31' + INTERVAL '1 month'), \
         DATE '2024-01-31' + INTERVAL '1 month', DATE '2024-03-31' - INTERVAL '1 month'",
        "TIMESTAMP 2024-02-29T00:00:00 2024-02-29T00:00:00",
    ),
    (
        "SELECT INTERVAL '1 day' + DATE '2024-01-01', DATE '2024-01-01' + INTERVAL '12 hours'",
        "2024-01-02T00:00:00 2024-01-01T12:00:00",
    ),
    (
        "SELECT DATE '2024-02-29' = DATE '2024-01-31' + INTERVAL '1 month', \
         DATE '2024-01-02' BETWEEN DATE '2024-01-01' AND DATE '2024-01-01' + INTERVAL '1 day', \
         DATE '2024-01-01' < DATE '2024-01-01' + INTERVAL '1 hour'",
        "true true true",
    ),
    ("SELECT DATE '9999-12-01' + INTERVAL '1 day'", "9999-12-02T00:00:00"),
    (
        "SELECT avg(i)::text, sum(i)::text, count(i) FROM (VALUES (INTERVAL '1 month'), \
         (INTERVAL '2 days'), (NULL)) t(i)",
        "16 days 1 mon 2 days 2",
    ),
    (
        "SELECT n, avg(i) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)::text FROM \
         (VALUES (1, INTERVAL '1 day'), (2, INTERVAL '2 days'), (3, INTERVAL '4 hours')) t(n, i) \
         ORDER BY n",
        "1 1 day\n2 1 day 12:00:00\n3 1 day 02:00:00",
    ),
    (
        "SELECT g, avg(i)::text FROM (VALUES (1, INTERVAL '1 day'), (1, INTERVAL '3 days'), (2, \
         NULL)) t(g, i) GROUP BY g ORDER BY g",
        "1 2 days\n2 ",
    ),
];

#[tokio::test]
async fn intervals_are_numbers_of_units() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    check(&session, INTERVALS).await;
    show(
        &session,
        "CREATE TABLE t (i INTERVAL); INSERT INTO t VALUES ('1 month'), ('1 day');
         CREATE TABLE u (i INTERVAL, n INT);
         INSERT INTO u VALUES ('30 days', 1), ('24 hours', 2), ('1 day', 3), ('2 days', 4)",
    )
    .await;
    let cases = [
        (
            "SELECT i::text, (SELECT count(*) FROM u WHERE u.i = t.i), \
             (SELECT sum(n) FROM u WHERE u.i = t.i) FROM t ORDER BY i",
            "1 day 2 5\n1 mon 1 1",
        ),
        ("SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.i = t.i AND n > 2)", "1"),
        ("SELECT n FROM u WHERE i * 2 = INTERVAL '2 days' ORDER BY n", "2\n3"),
    ];
    check(&session, &cases).await;
    for (query, expected) in [
        ("SELECT INTERVAL '1 day' / 0", "division by zero"),
        ("SELECT INTERVAL '100000000 years' * 10", "out of range"),
    ] {
        let text = error(&session, query).await;
        assert!(text.contains(expected), "{query}\n{text}");
    }
}

/// Functions and operators of bytes.
const BYTES: &[(&str, &str)] = &[
    (
        "SELECT ('\\x01'::bytea || '\\x02'::bytea)::text, octet_length('\\x010203'::bytea), \
         bit_length('\\x01'::bytea), length('\\x010203'::bytea)",
        "\\x0102 3 8 3",
    ),
    (
        "SELECT substring('\\x010203'::bytea FROM 2 FOR 1)::text, \
         substr('\\x010203'::bytea, 2)::text, substring('\\x010203'::bytea FOR 2)::text",
        "\\x02 \\x0203 \\x0102",
    ),
    (
        "SELECT position('\\x02'::bytea IN '\\x010203'::bytea), \
         position('\\x09'::bytea IN '\\x01'::bytea)",
        "2 0",
    ),
    (
        "SELECT get_byte('\\x010203'::bytea, 1), set_byte('\\x010203'::bytea, 1, 255)::text, \
         get_bit('\\x02'::bytea, 1), set_bit('\\x00'::bytea, 3, 1)::text",
        "2 \\x01ff03 1 \\x08",
    ),
    (
        "SELECT overlay('\\x010203'::bytea PLACING '\\xffff'::bytea FROM 2 FOR 1)::text, \
         overlay('\\x010203'::bytea PLACING '\\xff'::bytea FROM 2)::text",
        "\\x01ffff03 \\x01ff03",
    ),
    (
        "SELECT trim('\\x01'::bytea FROM '\\x01020301'::bytea)::text, \
         ltrim('\\x0102'::bytea, '\\x01'::bytea)::text, \
         rtrim('\\x0102'::bytea, '\\x02'::bytea)::text",
        "\\x0203 \\x02 \\x01",
    ),
    (
        "SELECT '\\x0102ff'::bytea LIKE '\\001%'::bytea, '\\x0102'::bytea NOT LIKE \
         '\\001'::bytea, '\\x41'::bytea LIKE '_'::bytea",
        "true true true",
    ),
    (
        "SELECT string_agg((b::text || n) || c, ' ' ORDER BY b) FROM (SELECT b, \
         rank() OVER (ORDER BY b) AS n, count(*) OVER (ORDER BY b) AS c \
         FROM (VALUES ('\\x02'::bytea), ('\\x01'::bytea), ('\\x01'::bytea)) v(b)) q",
        "\\x0112 \\x0112 \\x0233",
    ),
    // Texts have the same functions.
    (
        "SELECT substring('abc' FROM 2 FOR 1), position('c' IN 'abc'), trim('x' FROM 'xax'), \
         overlay('abc' PLACING 'x' FROM 2), octet_length('ab'), substring('abc' FOR 2)",
        "b 3 a axc 2 ab",
    ),
];

#[tokio::test]
async fn bytes_have_the_functions_of_texts() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    check(&session, BYTES).await;
    let text = error(&session, "SELECT get_byte('\\x01'::bytea, 1)").await;
    assert!(text.contains("index 1 out of valid range, 0..0"), "{text}");
}

/// Literals beside values of a type.
const LITERALS: &[(&str, &str)] = &[
    ("VALUES (DATE '2020-01-01'), ('2021-01-01')", "2020-01-01\n2021-01-01"),
    (
        "SELECT typeof(c) FROM (VALUES ('2020-01-01'), (DATE '2021-01-01'), (NULL)) t(c)",
        "DATE\nDATE\nDATE",
    ),
    (
        "SELECT typeof(c), c FROM (VALUES ('11111111-1111-1111-1111-111111111111'::uuid), \
         ('A1111111-1111-1111-1111-111111111111')) t(c)",
        "UUID 11111111-1111-1111-1111-111111111111\nUUID a1111111-1111-1111-1111-111111111111",
    ),
    ("SELECT c + 1 FROM (VALUES (1::bigint), ('5')) t(c)", "2\n6"),
    ("SELECT c::text FROM (VALUES (INTERVAL '1 day'), ('2 hours')) t(c)", "1 day\n02:00:00"),
    ("VALUES ('1'::json), ('{}'), (NULL)", "1\n{}\n"),
    (
        "SELECT coalesce(NULL::date, '2021-01-01'), typeof(coalesce(NULL::date, '2021-01-01')), \
         typeof(ifnull(NULL::timestamp, '2021-01-01'))",
        "2021-01-01 DATE TIMESTAMP",
    ),
    ("SELECT coalesce(NULL, 'a'), coalesce(NULL::int, 2), ifnull(NULL, 'b'), nvl(1, 2)", "a 2 b 1"),
];

#[tokio::test]
async fn literals_take_the_types_of_values_beside_them() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    check(&session, LITERALS).await;
    show(&session, "CREATE TYPE mood AS ENUM ('sad', 'ok')").await;
    let text = "CREATE TABLE t (v VARCHAR); INSERT INTO t VALUES (DATE '2020-01-01'), ('hello')";
    show(&session, text).await;
    let cases = [
        ("SELECT c FROM (VALUES ('ok'::mood), ('sad')) t(c) ORDER BY c", "sad\nok"),
        ("SELECT v FROM t ORDER BY v", "2020-01-01\nhello"),
    ];
    check(&session, &cases).await;
    let text = error(&session, "VALUES (DATE '2020-01-01'), ('hello')").await;
    assert!(text.contains("hello"), "{text}");
}

#[tokio::test]
async fn rows_are_stored_in_structs_by_position() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(
        &session,
        "CREATE TABLE r (n INT, s STRUCT(x INTEGER, y STRUCT(z VARCHAR, w BIGINT)));
         INSERT INTO r VALUES (1, row(1, row('a', 2))), (2, (3, ('b', NULL))), (3, NULL);
         INSERT INTO r (s, n) VALUES (row('5', row('c', 6)), 4);
         INSERT INTO r VALUES (5, {'y': {'z': 'd', 'w': 8}, 'x': 7})",
    )
    .await;
    let cases = [(
        "SELECT n, s FROM r ORDER BY n",
        "1 {x: 1, y: {z: a, w: 2}}\n2 {x: 3, y: {z: b, w: }}\n3 \n4 {x: 5, y: {z: c, w: 6}}\n\
         5 {x: 7, y: {z: d, w: 8}}",
    )];
    check(&session, &cases).await;
}

#[tokio::test]
async fn positions_beyond_all_lists_are_no_errors() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let (least, most) = (i64::MIN, i64::MAX);
    let slice = |from: i64, to: i64, step: i64| {
        format!("SELECT array_slice([1,2,3], ({from}::hugeint)::bigint, {to}, {step})")
    };
    for (query, expected) in [
        (slice(1, 3, most), "[1]"),
        (slice(3, 1, -most), "[3]"),
        (slice(least, most, 1), "[1, 2, 3]"),
        (slice(most, most, 1), "[]"),
        (slice(2, most, 1), "[2, 3]"),
        (format!("SELECT array_slice([1,2,3], 3, 1, ({least}::hugeint)::bigint)"), "[3]"),
        (format!("SELECT [1,2,3][{most}], [1,2,3][-{most}], [1,2,3][3000000000]"), "  "),
        (
            format!("SELECT list_extract(l, i) FROM (VALUES ([1,2], {most}), ([3], 1)) t(l, i)"),
            "\n3",
        ),
        (
            format!(
                "SELECT l[:{most}:{most}] FROM (VALUES ([1,2,3]), ([]::bigint[]), (NULL)) t(l)"
            ),
            "[1]\n[]\n",
        ),
    ] {
        assert_eq!(show(&session, &query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn integer_quotients_are_whole() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let cases = [
        ("SELECT 7::hugeint // 2, -7::hugeint // 2, 7 // 2::hugeint", "3 -3 3"),
        ("SELECT typeof(7::hugeint // 2), 7::double // 2, 7 // 2", "DECIMAL(38,0) 3.5 3"),
        ("SELECT h // 2 * 2 FROM (VALUES (7::hugeint), (8::hugeint)) t(h)", "6\n8"),
    ];
    check(&session, &cases).await;
    let text = error(&session, "SELECT 7::hugeint // 0").await;
    assert!(text.contains("division by zero"), "{text}");
}
