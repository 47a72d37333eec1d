//! Queries that applications send to PostgreSQL: rows as JSON, functions of FROM under an alias,
//! ages, and texts in quotes as operands. The answers are those of PostgreSQL 15.

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

/// Differences of timestamps, and seconds since 1970.
const MOMENTS: &[(&str, &str)] = &[
    (
        "SELECT (timestamp '2024-01-10 05:00' - timestamp '2024-01-01')::text, \
         extract(day FROM timestamp '2024-01-10 05:00' - timestamp '2024-01-01'), \
         extract(hour FROM timestamp '2024-01-10 05:00' - timestamp '2024-01-01')",
        "9 days 05:00:00 9 5",
    ),
    ("SELECT (timestamp '2024-01-01' - timestamp '2024-01-03 01:00')::text", "-2 days -01:00:00"),
    ("SELECT (date '2024-03-01' - timestamp '2024-02-28 12:00')::text", "1 day 12:00:00"),
    (
        "SELECT (timestamptz '2024-03-02 00:00+00' - timestamptz '2024-03-01 00:00+02')::text",
        "1 day 02:00:00",
    ),
    (
        "SELECT avg(o - timestamp '2024-01-01')::text, sum(o - timestamp '2024-01-01')::text \
         FROM (VALUES (timestamp '2024-01-10'), (timestamp '2024-03-01')) v(o)",
        "34 days 12:00:00 69 days",
    ),
    (
        "SELECT count(*) FROM (VALUES (timestamp '2024-03-31', timestamp '2024-03-01')) v(a, b) \
         WHERE a - b > interval '29 days' AND a - b < '31 days' AND a - b = '1 month'",
        "1",
    ),
    (
        "SELECT extract(epoch FROM timestamptz '2024-05-01 00:00:00.1+00' - timestamptz \
         '2024-01-01 00:00:00+00')",
        "10454400.1",
    ),
    ("SELECT extract(epoch FROM timestamp '2024-01-01 00:00:00.25')", "1704067200.25"),
    ("SELECT date(timestamp '2024-01-01 10:00'), date('2024-02-03') + 1", "2024-01-01 2024-02-04"),
];

/// Forms of intervals.
const INTERVALS: &[(&str, &str)] = &[
    ("SELECT (interval '1 day 2 hours ago')::text", "-1 days -02:00:00"),
    ("SELECT (interval '-1 day +2 hours')::text", "-1 days +02:00:00"),
    ("SELECT (interval '1-2')::text, (interval '-1-2')::text", "1 year 2 mons -1 years -2 mons"),
    ("SELECT 'x' || interval '1 hour', concat(interval '1 day', 'y')", "x01:00:00 1 dayy"),
    ("SELECT (interval '@ 3 days')::text, (interval '-1 year')::text", "3 days -1 years"),
];

/// Texts in quotes beside values of a type.
const LITERALS: &[(&str, &str)] = &[
    ("SELECT 1 + '2', '2' * 3, '7' / 2, 7 % '4'", "3 6 3 3"),
    ("SELECT 2.5 + '1', 2.5 + '1.25', '2' * 1.5::double", "3.5 3.75 3.0"),
    ("SELECT timestamp '2024-01-01' + '1 day', '1 day' + timestamp '2024-01-01'", TWICE),
    ("SELECT (timestamp '2024-01-01' - '2023-12-01')::text", "31 days"),
    ("SELECT date '2024-03-01' - '2024-02-01', '2024-03-01' - date '2024-02-01'", "29 29"),
    ("SELECT (interval '1 day' - '2 hours')::text, (interval '1 day' * '2')::text", HOURS),
];

const TWICE: &str = "2024-01-02T00:00:00 2024-01-02T00:00:00";
const HOURS: &str = "1 day -02:00:00 2 days";

/// Functions of FROM whose only column has the name of their alias.
const FUNCTIONS: &[(&str, &str)] = &[
    ("SELECT n FROM unnest(ARRAY[3,1,2]) n ORDER BY n DESC", "3\n2\n1"),
    ("SELECT u.u || u FROM unnest('{a,b}'::text[]) AS u ORDER BY u", "aa\nbb"),
    (
        "SELECT t.id, tag FROM (VALUES (1, ARRAY['a','b'])) t(id, tags), unnest(t.tags) tag \
         ORDER BY tag",
        "1 a\n1 b",
    ),
    ("SELECT k FROM jsonb_object_keys('{\"a\": 1, \"b\": 2}') k ORDER BY k", "a\nb"),
    ("SELECT key, value FROM jsonb_each_text('{\"a\": \"x\"}')", "a x"),
    (
        "SELECT id, e->>'p', e.value->>'p' FROM (VALUES (1, '[{\"p\":1},{\"p\":2}]'::jsonb)) \
         t(id, j), jsonb_array_elements(t.j) e ORDER BY 2",
        "1 1 1\n1 2 2",
    ),
    (
        "SELECT r.* FROM jsonb_to_recordset('[{\"a\":1,\"b\":\"x\",\"c\":[1]},{\"a\":2}]') \
         AS r(a int, b text, c jsonb) ORDER BY a",
        "1 x [1]\n2  ",
    ),
    (
        "SELECT id, r.a + 1 FROM (VALUES (1, '[{\"a\": 5}, {\"a\": 6}]'::jsonb)) t(id, j), \
         jsonb_to_recordset(t.j) AS r(a int) ORDER BY 2",
        "1 6\n1 7",
    ),
    ("SELECT a, b FROM json_to_record('{\"a\": 1, \"b\": \"y\"}') AS x(a int, b text)", "1 y"),
    ("SELECT w FROM string_to_table('a,b', ',') AS w ORDER BY w", "a\nb"),
    ("SELECT regexp_split_to_table('a1b22c', '\\d+') ORDER BY 1", "a\nb\nc"),
    ("SELECT x FROM (SELECT string_to_table('b,a', ',') AS x) s ORDER BY x", "a\nb"),
    ("SELECT string_to_table FROM (SELECT string_to_table('b', ',')) s", "b"),
];

/// Patterns.
const PATTERNS: &[(&str, &str)] = &[
    ("SELECT substring('foobar' FROM 'o(.)b'), substring('foobar', 'o.b')", "o oob"),
    ("SELECT substring('foobar' FROM 'z') IS NULL, substring('hello' FROM 2 FOR 3)", "true ell"),
    ("SELECT 'x' LIKE ANY (ARRAY['y','x']), 'x' ILIKE ANY (ARRAY['Y','X'])", "true true"),
    ("SELECT 'x' LIKE ANY (ARRAY['y','z']), 'x' NOT LIKE ANY (ARRAY['x','z'])", "false true"),
    ("SELECT 'x' LIKE ANY (ARRAY['y', NULL]) IS NULL", "true"),
    ("SELECT 'ab' LIKE ALL (ARRAY['a%','%b']), 'ab' NOT LIKE ALL (ARRAY['a%','c'])", "true false"),
];

#[tokio::test]
async fn expressions_have_the_answers_of_postgresql() {
    let session = engine(DRAM).session().expect("session");
    for cases in [MOMENTS, INTERVALS, LITERALS, FUNCTIONS, PATTERNS] {
        check(&session, cases).await;
    }
    for (statement, expected) in [
        ("SELECT 1 + 'a'", "'a'"),
        ("SELECT substr('abc', 'x')", "substr"),
        ("SELECT * FROM jsonb_to_recordset('[]')", "name them with their types"),
        ("SELECT * FROM (DELETE FROM t RETURNING a) x", "a change of rows as a subquery"),
    ] {
        let found = error(&session, statement).await;
        assert!(found.contains(expected), "{statement}: {found}");
    }
}

#[tokio::test]
async fn seconds_of_an_instant_do_not_depend_on_the_time_zone() {
    let session = engine(DRAM).session().expect("session");
    show(&session, "SET timezone = 'Europe/Berlin'").await;
    check(
        &session,
        &[
            ("SELECT epoch(timestamptz '2024-01-01 00:00:00.25+00')", "1704067200.25"),
            ("SELECT epoch_ms(timestamptz '2024-01-01 00:00:00.25+00')", "1704067200250"),
            ("SELECT epoch_us(timestamptz '2024-01-01 00:00+00')", "1704067200000000"),
            (
                "SELECT extract(epoch FROM timestamptz '2024-01-01 00:00:00.25+00'), \
                 epoch(timestamp '2024-01-01 00:00:00.25')",
                "1704067200.25 1704067200.25",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_name_of_a_relation_is_its_row() {
    let session = engine(DRAM).session().expect("session");
    show(
        &session,
        "CREATE TABLE c (id INT, name TEXT, body JSONB);
         INSERT INTO c VALUES (1, 'Ann', '{\"k\": [1]}'), (2, NULL, NULL);
         CREATE TABLE o (c_id INT, v INT); INSERT INTO o VALUES (1, 7), (1, 8), (3, NULL)",
    )
    .await;
    check(
        &session,
        &[
            ("SELECT row_to_json(c) FROM c WHERE id = 1", ROW),
            ("SELECT to_jsonb(x) FROM (SELECT id, name FROM c) x WHERE id = 2", NULLS),
            ("SELECT json_agg(x ORDER BY v) FROM (SELECT v FROM o WHERE v > 0) x", LIST),
            ("SELECT count(c), count(*) FROM c", "2 2"),
            ("SELECT c.name FROM c WHERE c IS NOT NULL", "Ann"),
            (
                "SELECT c.id, count(o), json_agg(o ORDER BY v)::text FROM c LEFT JOIN o \
                 ON o.c_id = c.id GROUP BY c.id ORDER BY c.id",
                "1 2 [{\"c_id\":1,\"v\":7}, {\"c_id\":1,\"v\":8}]\n2 0 [null]",
            ),
            ("SELECT c.id FROM c LEFT JOIN o ON o.c_id = c.id WHERE o IS NULL", "2"),
            ("SELECT (SELECT json_agg(o ORDER BY v) FROM o WHERE o.c_id = c.id) FROM c", OF_EACH),
            ("SELECT t FROM (VALUES ('a', 1)) v(t, n), o AS t WHERE v = 7", "a"),
        ],
    )
    .await;
    let refused = error(&session, "SELECT to_json(o) FROM c LEFT JOIN o ON true").await;
    assert!(refused.contains("a row of o, which an outer join may add"), "{refused}");
}

const ROW: &str = "{\"id\":1,\"name\":\"Ann\",\"body\":{\"k\": [1]}}";
const NULLS: &str = "{\"id\": 2, \"name\": null}";
const LIST: &str = "[{\"v\":7}, {\"v\":8}]";
const OF_EACH: &str = "[{\"c_id\":1,\"v\":7}, {\"c_id\":1,\"v\":8}]\n";

/// VALUES within the query of an INSERT have types of their own, as in the statements of
/// SQLAlchemy; those of the INSERT itself have the types of the table.
#[tokio::test]
async fn values_of_queries_are_inserted() {
    let session = engine(DRAM).session().expect("session");
    show(
        &session,
        "CREATE TABLE author (id BIGINT, name VARCHAR, is_active BOOLEAN);
         CREATE TABLE d (x DATE, n NUMERIC(5, 2));
         INSERT INTO author (id, name, is_active) SELECT p0::BIGINT, p1::VARCHAR, p2::BOOLEAN \
         FROM (VALUES (12, 'T3', true, 0), (13, 'T4', false, 1)) AS sen(p0, p1, p2, counter) \
         ORDER BY counter;
         WITH v(id, nm, z) AS (VALUES (18, 'T8', 1)) INSERT INTO author (id, name) \
         SELECT id, nm FROM v;
         INSERT INTO author (id) SELECT 5 WHERE (1, 2) IN (VALUES (1, 2), (3, 4));
         INSERT INTO author (id, name) SELECT 6, 'x' WHERE 1 IN (VALUES (1), (2));
         INSERT INTO author (id, name) SELECT c, 'y' FROM (SELECT count(*) AS c \
         FROM (VALUES (1, 2, 3), (4, 5, 6)) z(a, b, c2)) q;
         INSERT INTO author (id) VALUES ((SELECT max(x) FROM (VALUES (1, 2), (7, 8)) v(x, y)));
         INSERT INTO author (id) SELECT x * 10 FROM (VALUES (12.6)) v(x);
         INSERT INTO author (id, name) (SELECT 1, 'u' UNION ALL VALUES (3, 'v'));
         INSERT INTO d VALUES ('2024-01-02', '1.5'), (NULL, 2)",
    )
    .await;
    let cases = [
        (
            "SELECT * FROM author ORDER BY id",
            "1 u \n2 y \n3 v \n5  \n6 x \n7  \n12 T3 true\n13 T4 false\n18 T8 \n126  ",
        ),
        ("SELECT * FROM d ORDER BY x", "2024-01-02 1.50\n 2.00"),
    ];
    check(&session, &cases).await;
}

/// Columns of an outer query in a subquery of FROM within a subquery, and `LATERAL unnest`.
const NESTED: &[(&str, &str)] = &[
    (
        "SELECT a.id, (SELECT sum(q) FROM (SELECT rating AS q FROM e WHERE e.a_id = a.id) t) \
         FROM a ORDER BY 1",
        "1 11\n2 ",
    ),
    (
        "SELECT a.id, EXISTS (SELECT 1 FROM (SELECT e.rating FROM e WHERE e.a_id = a.id) t) \
         FROM a ORDER BY 1",
        "1 true\n2 false",
    ),
    (
        "SELECT a.id, (SELECT q FROM (SELECT sum(rating) AS q FROM e WHERE e.a_id = a.id) t), \
         (SELECT q FROM (SELECT count(*) AS q FROM e WHERE e.a_id = a.id) t) FROM a ORDER BY 1",
        "1 11 2\n2  0",
    ),
    (
        "SELECT a.id, (SELECT count(*) FROM (SELECT rating FROM (SELECT * FROM e \
         WHERE e.a_id = a.id) e2) x) FROM a ORDER BY 1",
        "1 2\n2 0",
    ),
    (
        "SELECT a.id FROM a WHERE a.id IN (SELECT a_id FROM (SELECT a_id FROM e \
         WHERE e.a_id = a.id) x)",
        "1",
    ),
    (
        "SELECT a.id FROM a WHERE a.id NOT IN (SELECT a_id FROM (SELECT a_id FROM e \
         WHERE e.a_id = a.id) x)",
        "2",
    ),
    (
        "SELECT a.id, x.rating FROM a LEFT JOIN LATERAL (SELECT * FROM (SELECT * FROM e \
         WHERE e.a_id = a.id) y WHERE rating > 5) x ON true ORDER BY 1",
        "1 6\n2 ",
    ),
    (
        "SELECT l.id, t FROM l LEFT JOIN LATERAL unnest(l.tags) t ON true ORDER BY 1, 2",
        "1 a\n1 b\n2 \n3 ",
    ),
    ("SELECT l.id, t FROM l CROSS JOIN LATERAL unnest(l.tags) t ORDER BY 1, 2", "1 a\n1 b"),
    ("SELECT l.id, t FROM l, LATERAL unnest(l.tags) t ORDER BY 1, 2", "1 a\n1 b"),
    (
        "SELECT l.id, t, n FROM l LEFT JOIN LATERAL unnest(l.tags) WITH ORDINALITY u(t, n) \
         ON true ORDER BY 1, 2",
        "1 a 1\n1 b 2\n2  \n3  ",
    ),
    (
        "SELECT l.id, t FROM l LEFT JOIN LATERAL unnest(l.tags) t ON t = 'b' ORDER BY 1",
        "1 b\n2 \n3 ",
    ),
    ("SELECT * FROM LATERAL unnest(array[1, 2], array[3, 4]) u(a, b)", "1 3\n2 4"),
];

/// Forms that were read as an alias, or without an effect.
const FORMS: &[(&str, &str)] = &[
    ("SELECT 1_000_000, 1_0.5, 1_0e1", "1000000 10.5 100.0"),
    (
        "SELECT x ISNULL, x NOTNULL FROM (VALUES (1), (NULL)) t(x) ORDER BY x",
        "false true\ntrue false",
    ),
    ("SELECT count(*) FROM (VALUES (1), (NULL)) t(x) WHERE x + 1 ISNULL AND NOT x NOTNULL", "1"),
    ("SELECT array[1.5, 2.5]::int[], array[array[1.5]]::int[][]", "[2, 3] [[2]]"),
    ("SELECT x::int[] FROM (VALUES (array[1.5::float8, 2.5::float8]), (NULL)) t(x)", "[2, 2]\n"),
    ("SELECT jsonb_array_elements('[1,\"a\",{\"b\":2}]')", "1\n\"a\"\n{\"b\": 2}"),
    ("SELECT jsonb_object_keys('{\"b\":1,\"aa\":2,\"a\":3}')", "a\nb\naa"),
    ("SELECT jsonb_extract_path('{\"a\":{\"b\":2}}', 'a')", "{\"b\": 2}"),
];

#[tokio::test]
async fn nested_queries_name_outer_columns() {
    let session = engine(DRAM).session().expect("session");
    show(
        &session,
        "CREATE TABLE a (id INT); INSERT INTO a VALUES (1), (2); \
         CREATE TABLE e (a_id INT, rating INT); INSERT INTO e VALUES (1, 5), (1, 6); \
         CREATE TABLE l (id INT, tags TEXT[]); \
         INSERT INTO l VALUES (1, '{a,b}'), (2, '{}'), (3, NULL)",
    )
    .await;
    check(&session, NESTED).await;
    check(&session, FORMS).await;
    let shown = show(&session, "SHOW TABLES").await;
    assert_eq!(shown.lines().count(), 3, "{shown}");
}
