//! Types of columns: UUID, JSON, VARCHAR(n), CHAR(n), BYTEA, TIME, INTERVAL, HUGEINT, STRUCT and
//! MAP. Values and errors are PostgreSQL 15's, or DuckDB 2.0's where only that has the type;
//! CHAR(n) has no trailing blanks.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, engine_in, error, show};
use crate::file_functions::Home;

const DRAM: u64 = 64 * MIB;

/// A table with a column of each type, and three rows, of which the last has nulls alone.
const ALL: &str =
    "CREATE TABLE a (n INT, u UUID, j JSON, jb JSONB, v VARCHAR(5), c CHAR(5), b BLOB,
        t TIME, i INTERVAL, h HUGEINT, s STRUCT(x INTEGER, y VARCHAR), m MAP(VARCHAR, INTEGER));
    INSERT INTO a VALUES
        (1, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '{ \"a\":1}', '{ \"b\":1, \"a\":2}',
        'ab   ', 'ab ', '\\x00ff', '12:34:56.789', '1 month 2 days 03:04:05',
        99999999999999999999999999999999999999,
        named_struct('x', 1, 'y', 'q'), MAP {'k': 7}),
        (2, '{00000000000000000000000000000001}', '[]', 'null', 'abcde', 'abcde', 'plain',
        '00:00:00', '-1 days', -1, NULL, NULL),
        (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)";

/// The rows of [`ALL`], with texts for bytes and intervals.
const ROWS: &str =
    "SELECT n, u, j, jb, v || '|', c || '|', b::text, t, i::text, h, s, m FROM a ORDER BY n";

const ANSWER: &str =
    "1 a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 { \"a\":1} {\"a\": 2, \"b\": 1} ab   | ab| \
    \\x00ff 12:34:56.789 1 mon 2 days 03:04:05 99999999999999999999999999999999999999 \
    {x: 1, y: q} {k: 7}
2 00000000-0000-0000-0000-000000000001 [] null abcde| abcde| \\x706c61696e 00:00:00 -1 days -1
3";

async fn all(session: &Session) {
    show(session, ALL).await;
    assert_eq!(trimmed(&show(session, ROWS).await), trimmed(ANSWER));
}

/// Lines without blanks at their ends.
fn trimmed(text: &str) -> String {
    text.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn every_type_stores_values_and_nulls() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    all(&session).await;
    show(&session, "CREATE TABLE b AS SELECT * FROM a; DROP TABLE a; ALTER TABLE b RENAME TO a")
        .await;
    assert_eq!(trimmed(&show(&session, ROWS).await), trimmed(ANSWER));
    let twice = "INSERT INTO a SELECT n + 3, u, j, jb, v, c, b, t, i, h, s, m FROM a";
    show(&session, twice).await;
    let cases = [
        ("SELECT count(*), count(u), count(DISTINCT u) FROM a", "6 4 2"),
        (
            "SELECT u, count(*) FROM a WHERE u IS NOT NULL GROUP BY u ORDER BY u LIMIT 1",
            "00000000-0000-0000-0000-000000000001 2",
        ),
        ("SELECT count(*) FROM a x JOIN a y ON x.u = y.u", "8"),
        ("SELECT count(*) FROM a x JOIN a y ON x.b = y.b AND x.i = y.i AND x.t = y.t", "8"),
        ("SELECT count(*) FROM a x JOIN a y USING (h)", "8"),
        (
            "SELECT max(t), min(t), max(h), min(v) FROM a",
            "12:34:56.789 00:00:00 99999999999999999999999999999999999999 ab   ",
        ),
        ("SELECT n FROM a ORDER BY b, n LIMIT 3", "1\n4\n2"),
    ];
    check(&session, &cases).await;
}

#[tokio::test]
async fn definitions_are_shown_so_that_they_run_again() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let types = "n INTEGER, u UUID, j JSON, jb JSONB, v VARCHAR(5), c CHAR(5), p VARCHAR, b BYTEA, \
        t TIME, t0 TIME(0), i INTERVAL, h DECIMAL(38,0), s STRUCT<x INTEGER, y STRUCT<z UUID>[]>, \
        m MAP(VARCHAR, VARCHAR(3)), l UUID[]";
    show(&session, &format!("CREATE TABLE d ({types})")).await;
    let described = show(&session, "DESCRIBE d").await;
    let expected = "n INTEGER YES\nu UUID YES\nj JSON YES\njb JSONB YES\nv VARCHAR(5) YES\n\
        c CHAR(5) YES\np VARCHAR YES\nb BYTEA YES\nt TIME YES\nt0 TIME(0) YES\ni INTERVAL YES\n\
        h DECIMAL(38,0) YES\ns STRUCT<x INTEGER, y STRUCT<z UUID>[]> YES\n\
        m MAP(VARCHAR, VARCHAR(3)) YES\nl UUID[] YES";
    assert_eq!(described, expected);
    let created = show(&session, "SHOW CREATE TABLE d").await;
    let created = &created[created.find("CREATE TABLE").expect("a statement")..];
    show(&session, "DROP TABLE d").await;
    show(&session, created).await;
    assert_eq!(show(&session, "DESCRIBE d").await, described);
}

#[tokio::test]
async fn texts_that_are_no_values_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    all(&session).await;
    for (statement, expected) in [
        ("INSERT INTO a (u) VALUES ('x')", "column u: invalid input syntax for type uuid: \"x\""),
        ("INSERT INTO a (u) SELECT v FROM a", "invalid input syntax for type uuid: \"ab   \""),
        ("INSERT INTO a (j) VALUES ('{')", "column j: invalid input syntax for type json"),
        ("INSERT INTO a (jb) VALUES ('{''a'': 1}')", "invalid input syntax for type json"),
        ("INSERT INTO a (v) VALUES ('abcdef')", "value too long for type character varying(5)"),
        ("INSERT INTO a (c) VALUES ('abcdef')", "value too long for type character(5)"),
        ("UPDATE a SET v = v || 'x' WHERE n = 2", "value too long for type character varying(5)"),
        ("UPDATE a SET u = 'y'", "invalid input syntax for type uuid: \"y\""),
        ("INSERT INTO a (b) VALUES ('\\xz')", "bytes"),
        ("INSERT INTO a (t) VALUES ('25:00')", "25:00"),
        ("INSERT INTO a (i) VALUES ('soon')", "soon"),
        ("INSERT INTO a (h) VALUES (99999999999999999999999999999999999999 + 1)", "out of range"),
        ("INSERT INTO a (h) VALUES ('100000000000000000000000000000000000000')", "too large"),
        ("SELECT 'x'::uuid", "invalid input syntax for type uuid: \"x\""),
        ("SELECT n FROM a WHERE u = 'x'", "invalid input syntax for type uuid: \"x\""),
    ] {
        let text = error(&session, statement).await;
        assert!(text.contains(expected), "{statement}\n{text}");
    }
    assert_eq!(trimmed(&show(&session, ROWS).await), trimmed(ANSWER));
}

#[tokio::test]
async fn types_without_their_meaning_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    for (of, expected) in [
        ("UHUGEINT", "say HUGEINT"),
        ("BIT(3)", "say BOOLEAN"),
        ("BIT VARYING(3)", "say BOOLEAN"),
        ("BINARY(3)", "say BYTEA"),
        ("VARBINARY(3)", "say BYTEA"),
        ("TIMETZ", "say TIME"),
        ("TIME(2)", "say TIME"),
        ("INTERVAL YEAR TO MONTH", "say INTERVAL"),
        ("VARCHAR(0)", "length 0"),
        ("CHAR(10485761)", "10485760"),
    ] {
        let text = error(&session, &format!("CREATE TABLE w (x {of})")).await;
        assert!(text.contains(expected), "{of}\n{text}");
    }
}

#[tokio::test]
async fn values_are_compared_as_their_types_are() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    all(&session).await;
    let upper = "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'";
    let cases = [
        (format!("SELECT n FROM a WHERE u = {upper}"), "1"),
        (format!("SELECT n FROM a WHERE u IN ('00000000000000000000000000000000', {upper})"), "1"),
        (format!("SELECT n FROM a WHERE u >= {upper}::uuid"), "1"),
        (format!("SELECT n FROM a WHERE {upper} <> u"), "2"),
        (format!("SELECT n FROM a WHERE u BETWEEN {upper} AND {upper}"), "1"),
        (format!("SELECT n FROM a WHERE u IN (SELECT {upper})"), "1"),
        (format!("SELECT n FROM a JOIN (SELECT {upper} AS k) q ON u = k"), "1"),
        (format!("SELECT CASE u WHEN {upper} THEN 'it' ELSE 'no' END FROM a WHERE n = 1"), "it"),
        ("SELECT n FROM a WHERE c = 'ab      '".to_owned(), "1"),
        ("SELECT n FROM a WHERE jb = '{\"b\": 1,\"a\":2}'".to_owned(), "1"),
        ("SELECT length(c), jb -> 'a' FROM a WHERE n = 1".to_owned(), "2 2"),
        ("SELECT n FROM a WHERE b = '\\x00ff'".to_owned(), "1"),
        ("SELECT n FROM a WHERE b = X'00FF'".to_owned(), "1"),
        ("SELECT n FROM a WHERE t < '01:00'".to_owned(), "2"),
        ("SELECT n FROM a WHERE h > 9223372036854775807".to_owned(), "1"),
        ("SELECT s.y, m['k'] FROM a WHERE n = 1".to_owned(), "q 7"),
    ];
    for (query, answer) in cases {
        assert_eq!(show(&session, &query).await, answer, "{query}");
    }
}

#[tokio::test]
async fn casts_check_and_shorten() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let cases = [
        ("SELECT 'abcdef'::varchar(3), 'ab cd'::char(3) || '|', 'xyz'::char", "abc ab| x"),
        ("SELECT 12345::varchar(2)", "12"),
        ("SELECT TRY_CAST('x' AS UUID) IS NULL", "true"),
        (
            "SELECT '{A0EEBC999C0B4EF8BB6D6BB9BD380A11}'::uuid::text",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        (
            "SELECT UUID 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        ("SELECT length(gen_random_uuid()::text), uuid() = uuid()", "36 false"),
        (
            "SELECT '\\x4142'::bytea::text, 'a\\000'::bytea::text, X'4a'::text",
            "\\x4142 \\x6100 \\x4a",
        ),
        (
            "SELECT ('1 year 2 mons'::interval)::text, (INTERVAL '25 hours')::varchar",
            "1 year 2 mons 25:00:00",
        ),
        ("SELECT '12:00:00.5'::time, TIME '01:02:03'", "12:00:00.500 01:02:03"),
        ("SELECT 170::hugeint * 100000000000000000000", "17000000000000000000000"),
        (
            "SELECT MAP {'a': 1}::MAP(VARCHAR, BIGINT), named_struct('x', 1)::STRUCT(x BIGINT)",
            "{a: 1} {x: 1}",
        ),
        (
            "SELECT ['A0EEBC999C0B4EF8BB6D6BB9BD380A11']::uuid[]",
            "[a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11]",
        ),
    ];
    check(&session, &cases).await;
}

#[tokio::test]
async fn intervals_are_equal_if_their_durations_are() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(
        &session,
        "CREATE TABLE i (n INT, i INTERVAL); INSERT INTO i VALUES (1, '1 month'), (2, '30 days'),
            (3, '720 hours'), (4, '31 days'), (5, '-1 days'), (6, NULL), (7, '29 days 23:59:59')",
    )
    .await;
    let cases = [
        ("SELECT n FROM i ORDER BY i, n", "5\n7\n1\n2\n3\n4\n6"),
        ("SELECT n FROM i ORDER BY i DESC NULLS LAST, n", "4\n1\n2\n3\n7\n5\n6"),
        ("SELECT n FROM i WHERE i = '1 month' ORDER BY n", "1\n2\n3"),
        ("SELECT n FROM i WHERE i > INTERVAL '30 days' ORDER BY n", "4"),
        ("SELECT n FROM i WHERE i IN ('720:00:00', '31 days') ORDER BY n", "1\n2\n3\n4"),
        ("SELECT n FROM i WHERE i BETWEEN '-1 days' AND '29 days 23:59:59' ORDER BY n", "5\n7"),
        ("SELECT count(*) FROM i GROUP BY i ORDER BY i", "1\n1\n3\n1\n1"),
        ("SELECT count(*) FROM (SELECT DISTINCT i FROM i) q", "5"),
        ("SELECT count(DISTINCT i), count(i) FROM i", "4 6"),
        ("SELECT max(i)::text, min(i)::text FROM i", "31 days -1 days"),
        ("SELECT count(*) FROM i x JOIN i y ON x.i = y.i", "12"),
        ("SELECT count(*) FROM i x JOIN i y USING (i)", "12"),
        ("SELECT count(*) FROM i WHERE i IN (SELECT '30 days'::interval)", "3"),
        ("SELECT n, rank() OVER (ORDER BY i) FROM i WHERE n < 5 ORDER BY n", "1 1\n2 1\n3 1\n4 4"),
        ("SELECT count(*) OVER (PARTITION BY i) FROM i WHERE n < 3", "2\n2"),
        ("SELECT count(*) FROM (SELECT i FROM i UNION SELECT '720 hours'::interval) q", "5"),
        ("SELECT count(*) FROM (SELECT i FROM i EXCEPT SELECT '1 month'::interval) q", "4"),
        (
            "SELECT INTERVAL '1 day' = INTERVAL '24 hours', \
             INTERVAL '1 year' > INTERVAL '360 days'",
            "true false",
        ),
        ("SELECT DISTINCT ON (i) n FROM i ORDER BY i, n LIMIT 3", "5\n7\n1"),
        (
            "SELECT count(*), i IS NULL, grouping(i) FROM i GROUP BY ROLLUP (i) ORDER BY 3, i",
            "1 false 0\n1 false 0\n3 false 0\n1 false 0\n1 true 0\n7 true 1",
        ),
        (
            "SELECT n % 2, min(n), count(*), i IS NULL FROM i WHERE n < 4 GROUP BY GROUPING SETS \
             ((n % 2, i), (i), ()) ORDER BY 1, 3, 4",
            "0 2 1 false\n1 1 2 false\n 1 3 false\n 1 3 true",
        ),
        (
            "SELECT count(*) FROM (VALUES ('1'::jsonb), ('1.0'), ('2')) t(j) GROUP BY CUBE (j) \
             ORDER BY 1",
            "1\n2\n3",
        ),
        ("SELECT sum(i)::text FROM i WHERE n < 3", "1 mon 30 days"),
    ];
    check(&session, &cases).await;
}

#[tokio::test]
async fn columns_are_added_altered_and_have_defaults() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t (n INT, s VARCHAR); INSERT INTO t VALUES (1, 'abc'), (2, 'de')")
        .await;
    show(
        &session,
        "ALTER TABLE t ADD COLUMN u UUID DEFAULT '{A0EEBC999C0B4EF8BB6D6BB9BD380A11}',
            ADD i INTERVAL DEFAULT '1 month', ADD b BLOB DEFAULT '\\x01', ADD g UUID DEFAULT uuid(),
            ADD w TIME DEFAULT '01:00', ADD m MAP(VARCHAR, INT), ADD c CHAR(2)",
    )
    .await;
    let cases = [
        (
            "SELECT DISTINCT u, i::text, b::text, w, m, c FROM t",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 1 mon \\x01 01:00:00  ",
        ),
        ("SELECT count(DISTINCT g) FROM t", "2"),
    ];
    check(&session, &cases).await;
    let text = error(&session, "ALTER TABLE t ALTER s TYPE VARCHAR(2)").await;
    assert!(text.contains("value too long for type character varying(2)"), "{text}");
    show(&session, "ALTER TABLE t ALTER s TYPE VARCHAR(2) USING s::varchar(2)").await;
    check(&session, &[("SELECT s FROM t ORDER BY n", "ab\nde")]).await;
    let text = error(&session, "INSERT INTO t (s) VALUES ('abc')").await;
    assert!(text.contains("value too long"), "{text}");
    show(&session, "ALTER TABLE t ALTER s TYPE VARCHAR; INSERT INTO t (s) VALUES ('abc')").await;
    let text = error(&session, "ALTER TABLE t ALTER s TYPE UUID").await;
    assert!(text.contains("USING CAST(s AS UUID)"), "{text}");
    show(&session, "UPDATE t SET s = u; ALTER TABLE t ALTER s TYPE UUID USING s::uuid").await;
    show(&session, "ALTER TABLE t ALTER u TYPE TEXT, ALTER i TYPE TEXT, ALTER b TYPE TEXT").await;
    check(&session, &[("SELECT DISTINCT s = u::uuid, i, b FROM t", "true 1 mon \\x01")]).await;
    for (definition, expected) in [
        ("u UUID DEFAULT 'x'", "default 'x'"),
        ("v VARCHAR(2) DEFAULT 'abc'", "value too long"),
        ("j JSON DEFAULT '{'", "json"),
    ] {
        let text = error(&session, &format!("CREATE TABLE w ({definition})")).await;
        assert!(text.contains(expected), "{definition}\n{text}");
    }
}

#[tokio::test]
async fn files_hold_every_type() {
    let home = Home::new();
    let session = &home.session;
    all(session).await;
    let columns = "n, u, j, jb, v, c, b, t, i, h";
    for file in ["a.csv", "a.parquet"] {
        let path = home.text(&format!("'@/{file}'"));
        show(session, &format!("COPY (SELECT {columns} FROM a) TO {path}")).await;
        show(session, "CREATE TABLE b (LIKE a)").await;
        show(session, &format!("COPY b ({columns}) FROM {path}")).await;
        let rows = |table: &str| {
            format!("SELECT n, u, j, jb, v, c, b::text, t, i::text, h FROM {table} ORDER BY n")
        };
        assert_eq!(show(session, &rows("b")).await, show(session, &rows("a")).await, "{file}");
        show(session, "DROP TABLE b").await;
    }
}

#[tokio::test]
async fn types_survive_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    {
        let engine = engine_in(directory.path(), DRAM);
        all(&engine.session().expect("session")).await;
        engine.close().expect("closed");
    }
    let engine = engine_in(directory.path(), DRAM);
    let session = engine.session().expect("session");
    assert_eq!(trimmed(&show(&session, ROWS).await), trimmed(ANSWER));
    let text = error(&session, "INSERT INTO a (u) VALUES ('x')").await;
    assert!(text.contains("invalid input syntax for type uuid"), "{text}");
    let described = show(&session, "DESCRIBE a").await;
    assert!(described.contains("v VARCHAR(5) YES\nc CHAR(5) YES\nb BYTEA YES"), "{described}");
}

/// Rows beyond the budget of 64 MiB, by an index that a join and a sort bring out of order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_spill_every_type() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(
        &session,
        "CREATE TABLE w (n BIGINT, u UUID, b BLOB, t TIME, i INTERVAL, h HUGEINT, c CHAR(40),
            m MAP(VARCHAR, BIGINT), s STRUCT(x BIGINT, y VARCHAR));
        INSERT INTO w SELECT value, md5(value::text)::uuid, md5(value::text)::bytea,
            TIME '00:00:00' + to_seconds(value % 86400), to_days(value % 1000000),
            value::hugeint * 10000000000000000000, 'row ' || value, MAP {'n': value},
            named_struct('x', value, 'y', md5(value::text))
            FROM generate_series(1, 300000)",
    )
    .await;
    let cases = [
        ("SELECT count(*), count(DISTINCT u) FROM w", "300000 300000"),
        (
            "SELECT count(*) FROM w x JOIN w y ON x.u = y.u AND x.b = y.b AND x.i = y.i \
            WHERE x.m['n'] = y.s.x AND x.h = y.h AND x.t = y.t AND x.c = y.c",
            "300000",
        ),
        (
            "SELECT count(*), sum(k) FROM (SELECT u, b, i, t, h, count(*) AS k FROM w \
            GROUP BY u, b, i, t, h) q",
            "300000 300000",
        ),
        (
            "SELECT count(*) FROM (SELECT n, lag(n) OVER (ORDER BY i, u) AS before FROM w) q \
            WHERE n = before + 1",
            "299999",
        ),
    ];
    check(&session, &cases).await;
    let last = "SELECT n, u, i::text, h, m, s.x FROM w ORDER BY h DESC, u LIMIT 1";
    let last = show(&session, last).await;
    assert!(last.starts_with("300000 ") && last.ends_with("{n: 300000} 300000"), "{last}");
}

/// Queries over the table `far`, and their rows.
const FAR: &[(&str, &str)] = &[
    ("SELECT '9999-12-31 23:59:59'::timestamp", "9999-12-31T23:59:59"),
    ("SELECT TIMESTAMP '9999-12-31' > now()::timestamp", "true"),
    ("SELECT n FROM far WHERE a = '9999-12-31 23:59:59.999999'", "1"),
    ("SELECT n FROM far WHERE a BETWEEN '0001-01-01' AND '9999-12-31' ORDER BY n", "2\n3"),
    (
        "SELECT n FROM far WHERE a IN ('9999-12-31 23:59:59.999999', '0001-01-01') ORDER BY n",
        "1\n2",
    ),
    ("SELECT n FROM far WHERE d = '9999-12-31'::timestamp", "1"),
    ("SELECT n FROM far WHERE a > d ORDER BY n", "1\n3"),
    ("SELECT n FROM far WHERE z < '9999-01-01' ORDER BY n", "2\n3"),
    ("SELECT n FROM far WHERE z = '0001-01-01 00:00:00+00'", "2"),
    ("SELECT coalesce(a, '9999-12-31') FROM far WHERE n = 4", "9999-12-31T00:00:00"),
    (
        "SELECT CASE WHEN n = 4 THEN '9999-12-31' ELSE a END FROM far WHERE n > 2 ORDER BY n",
        "2024-05-06T07:08:09\n9999-12-31T00:00:00",
    ),
    ("SELECT greatest(a, '9999-12-31') FROM far WHERE n = 3", "9999-12-31T00:00:00"),
    (
        "SELECT a - INTERVAL '1 day', date_trunc('year', a), extract(year FROM a) FROM far
      WHERE n = 1",
        "9999-12-30T23:59:59.999999 9999-01-01T00:00:00 9999",
    ),
    (
        "SELECT a::date, a::text, d::timestamp FROM far WHERE n = 2",
        "0001-01-01 0001-01-01 00:00:00 0001-01-01T00:00:00",
    ),
    (
        "SELECT a AT TIME ZONE 'UTC', z AT TIME ZONE 'UTC' FROM far WHERE n = 1",
        "9999-12-31T23:59:59.999999Z 9999-12-31T00:00:00",
    ),
    (
        "SELECT max(a), min(z), count(DISTINCT a) FROM far",
        "9999-12-31T23:59:59.999999 0001-01-01T00:00:00Z 3",
    ),
    ("SELECT n FROM far ORDER BY a, n", "2\n3\n1\n4"),
    ("SELECT count(*) FROM (SELECT a FROM far UNION SELECT '9999-12-31'::timestamp) q", "5"),
    ("SELECT count(*) FROM far x JOIN far y ON x.a > y.d", "5"),
    (
        "SELECT sum(extract(year FROM g)) FROM generate_series(TIMESTAMP '2024-01-01',
         TIMESTAMP '2026-01-01', INTERVAL '1 year') t(g)",
        "6075",
    ),
    ("SELECT '9999-12-31 23:59:59'::timestamp_s", "9999-12-31T23:59:59"),
    (
        "SELECT 86400::timestamp, n::bigint::timestamp FROM far WHERE n = 1",
        "1970-01-02T00:00:00 1970-01-01T00:00:01",
    ),
];

/// Timestamps are microseconds, which reach beyond all years of four digits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timestamps_reach_the_year_9999() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(
        &session,
        "CREATE TABLE far (n INT, a TIMESTAMP, z TIMESTAMPTZ, d DATE); INSERT INTO far VALUES
            (1, '9999-12-31 23:59:59.999999', '9999-12-31 00:00:00+00', '9999-12-31'),
            (2, '0001-01-01', '0001-01-01 00:00:00+00', '0001-01-01'),
            (3, '2024-05-06 07:08:09', '2024-05-06 07:08:09+00', '2024-05-06'),
            (4, NULL, NULL, NULL)",
    )
    .await;
    check(&session, FAR).await;
    let text = "SELECT '9999-12-31'::timestamp_ns";
    let error = error(&session, text).await;
    assert!(error.contains("Nanosecond"), "{text}: {error}");
    let shown = show(&session, "SHOW CREATE TABLE far").await;
    assert!(
        shown.contains("a TIMESTAMP,") && shown.contains("z TIMESTAMP WITH TIME ZONE,"),
        "{shown}"
    );
}
