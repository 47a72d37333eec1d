//! `generate_series` and `range` of timestamps and decimals, as tables and as lists; the values are
//! those of PostgreSQL 15, or of DuckDB where PostgreSQL has no such call.

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

const TABLES: &[(&str, &str)] = &[
    (
        "SELECT d::text FROM generate_series('2024-01-01'::date, '2024-01-03', '1 day') AS t(d)",
        "2024-01-01 00:00:00\n2024-01-02 00:00:00\n2024-01-03 00:00:00",
    ),
    (
        "SELECT d::date FROM generate_series('2024-05-01'::timestamp, '2024-5-2', '1 day') AS d",
        "2024-05-01\n2024-05-02",
    ),
    (
        "SELECT d::text FROM generate_series('2024-05-02', '2024-05-01', INTERVAL '-12 hours') d",
        "2024-05-02 00:00:00\n2024-05-01 12:00:00\n2024-05-01 00:00:00",
    ),
    // A month is added to the value before.
    (
        "SELECT d::date FROM generate_series(timestamp '2024-01-31', '2024-04-30', '1 month') d",
        "2024-01-31\n2024-02-29\n2024-03-29\n2024-04-29",
    ),
    (
        "SELECT count(*), min(d)::text, max(d)::text \
         FROM generate_series(timestamp '0001-01-01', '9999-01-01', '1 year') d",
        "9999 0001-01-01 00:00:00 9999-01-01 00:00:00",
    ),
    (
        "SELECT pg_typeof(d) FROM generate_series(date '2024-01-01', '2024-01-01', '1 day') d",
        "timestamp without time zone",
    ),
    (
        "SELECT count(*) FROM generate_series(timestamp '1920-01-01', '2120-01-03', '1 h')",
        "1753225",
    ),
    (
        "SELECT d::date FROM range(date '2024-01-01', date '2024-01-03', '1 day') d",
        "2024-01-01\n2024-01-02",
    ),
    ("SELECT count(*) FROM generate_series(NULL::timestamp, '2024-01-01', '1 day')", "0"),
    ("SELECT count(*) FROM generate_series(timestamp '2024-01-02', '2024-01-01', '1 day')", "0"),
    (
        "SELECT d::date FROM generate_series(timestamp '2024-01-01', '2024-01-03', '1 day') d \
         ORDER BY d DESC LIMIT 1",
        "2024-01-03",
    ),
    // An ascending step of both signs, by months of 30 days.
    (
        "SELECT d::date FROM generate_series(timestamp '2024-01-31', '2024-03-31', \
         '1 month -1 day') d",
        "2024-01-31\n2024-02-28\n2024-03-27",
    ),
    (
        "SELECT count(*) FROM generate_series((SELECT 1), \
         (SELECT count(*) + 2 FROM (VALUES (1)) t))",
        "3",
    ),
    ("SELECT * FROM generate_series(-1, 2 - 2)", "-1\n0"),
    ("SELECT * FROM generate_series(1.0, 3.0, 0.5)", "1.0\n1.5\n2.0\n2.5\n3.0"),
    ("SELECT * FROM generate_series(1.0, 3.0, 0.55)", "1.00\n1.55\n2.10\n2.65"),
    ("SELECT * FROM generate_series(3, 1.5, -1)", "3.0\n2.0"),
    ("SELECT * FROM range(1, 2.0)", "1.0"),
    // Nearest to the greatest value of 38 digits, whose successor is out of range.
    (
        "SELECT count(*) FROM generate_series(9999999999999999999999999999999999998.0, \
         9999999999999999999999999999999999999, 1)",
        "2",
    ),
    (
        "SELECT d::text FROM unnest(generate_series(date '2024-01-01', date '2024-01-02', \
         INTERVAL '1 day')) t(d)",
        "2024-01-01 00:00:00\n2024-01-02 00:00:00",
    ),
    (
        "SELECT a, d::date FROM (VALUES (1, date '2920-01-01'), (2, NULL), (3, '2920-01-02')) \
         x(a, b), generate_series(b, timestamp '2920-01-02', '1 day') t(d) ORDER BY 1, 2",
        "1 2920-01-01\n1 2920-01-02\n3 2920-01-02",
    ),
];

const LISTS: &[(&str, &str)] = &[
    (
        "SELECT generate_series('2920-01-01'::date, '2920-01-02'::date, '1 day')::text AS d",
        "2920-01-01 00:00:00\n2920-01-02 00:00:00",
    ),
    ("SELECT len(range(timestamp '2024-01-01', NULL, INTERVAL '1 day'))", ""),
    ("SELECT list_transform(range(0.0, 0.3, 0.1), x -> x * 2)", "[0.0, 0.2, 0.4]"),
    ("SELECT a, generate_series(1, a) FROM (VALUES (1), (2)) t(a) ORDER BY 1, 2", "1 1\n2 1\n2 2"),
    ("SELECT range(3), range(1, 3), range(5, 1, -2), range(NULL::int)", "[0, 1, 2] [1, 2] [5, 3] "),
];

/// Timestamps of a UNION beside dates and literals, with values of other types in other columns.
const UNIONS: &[(&str, &str)] = &[
    (
        "SELECT t::text FROM (SELECT TIMESTAMP '9999-01-01' AS t UNION SELECT '9998-01-01') \
         ORDER BY 1",
        "9998-01-01 00:00:00\n9999-01-01 00:00:00",
    ),
    (
        "SELECT DISTINCT arrow_typeof(t) FROM (SELECT date '2024-01-01' AS t UNION ALL \
         SELECT timestamp '2024-01-01') x",
        "Timestamp(\u{b5}s)",
    ),
    (
        "SELECT t::date, id FROM (SELECT timestamp '2024-01-01' AS t, \
         'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid AS id UNION ALL \
         SELECT date '2024-01-02', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A12') x ORDER BY 1",
        "2024-01-01 a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\n\
         2024-01-02 a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12",
    ),
    (
        "SELECT count(*) FROM (SELECT timestamp '9999-01-01' AS t, timestamp '9999-01-01' AS u \
         UNION ALL SELECT '9998-01-01', '9998-1-1' UNION ALL SELECT NULL, NULL) x \
         WHERE t > '9990-01-01' AND u < '9999-12-31'",
        "2",
    ),
    (
        "SELECT count(*) FROM (SELECT date '2024-01-01' AS t UNION ALL \
         SELECT timestamp '2024-01-01' UNION ALL SELECT timestamp '2024-01-02') x \
         WHERE t < '9999-12-31'",
        "3",
    ),
];

#[tokio::test]
async fn series_are_those_of_postgresql() {
    let session = engine(DRAM).session().expect("session");
    for cases in [TABLES, LISTS, UNIONS] {
        check(&session, cases).await;
    }
}

/// Days are those of the session's time zone; hours are of one length.
#[tokio::test]
async fn days_of_instants_follow_the_clock() {
    let session = engine(DRAM).session().expect("session");
    show(&session, "SET timezone = 'Europe/Berlin'").await;
    let cases = [
        (
            "SELECT d::text FROM generate_series(timestamptz '2024-03-30', '2024-04-01', \
             '1 day') d",
            "2024-03-30 00:00:00+01\n2024-03-31 00:00:00+01\n2024-04-01 00:00:00+02",
        ),
        (
            "SELECT d::text FROM generate_series(timestamptz '2024-03-31', '2024-03-31 12:00', \
             '6 hours') d",
            "2024-03-31 00:00:00+01\n2024-03-31 07:00:00+02",
        ),
        (
            "SELECT d = date_trunc('day', now()) FROM generate_series(current_date, now(), \
             '1 day') d",
            "true",
        ),
        (
            "SELECT d::text FROM generate_series(date_trunc('month', timestamptz '2024-07-31'), \
             timestamp '2024-07-02', '1 day') d",
            "2024-07-01 00:00:00+02\n2024-07-02 00:00:00+02",
        ),
        (
            "SELECT generate_series(t, d, '1 day')::text FROM (VALUES (date '2024-03-31', \
             timestamptz '2024-04-01')) x(t, d)",
            "2024-03-31 00:00:00+01\n2024-04-01 00:00:00+02",
        ),
        (
            "SELECT count(*) FROM generate_series(timestamptz '1970-01-01', '2024-01-01', \
             '1 minute')",
            "28401121",
        ),
        (
            "SELECT date_bin('1 day', timestamptz '2024-06-15 12:00', '2024-06-01')::text",
            "2024-06-15 00:00:00+02",
        ),
    ];
    check(&session, &cases).await;
}

#[tokio::test]
async fn moments_are_those_of_microseconds() {
    let session = engine(DRAM).session().expect("session");
    let cases = [
        ("SELECT to_timestamp(253402300799.5)::text", "9999-12-31 23:59:59.5+00"),
        ("SELECT to_timestamp('2500-01-01', 'YYYY-MM-DD')::text", "2500-01-01 00:00:00+00"),
        ("SELECT pg_typeof(to_timestamp(0))", "timestamp with time zone"),
        (
            "SELECT to_timestamp(x)::text FROM (VALUES (0), (-1), (NULL)) t(x) ORDER BY x",
            "1969-12-31 23:59:59+00\n1970-01-01 00:00:00+00\n",
        ),
        (
            "SELECT date_bin('15 minutes', timestamp '3000-01-01 00:07:00', '2001-01-01')::text",
            "3000-01-01 00:00:00",
        ),
        (
            "SELECT date_bin('7 days', t, '2001-01-01')::date \
             FROM (VALUES (timestamp '2000-12-31'), (NULL), ('2001-01-08')) x(t) ORDER BY t",
            "2000-12-25\n2001-01-08\n",
        ),
        (
            "SELECT date_bin('1 hour', timestamptz '2024-01-01 10:59+00')::text",
            "2024-01-01 10:00:00+00",
        ),
        (
            "SELECT b, arrow_typeof(b) FROM (SELECT date_bin('15 minutes', time '10:07:00') AS b)",
            "10:00:00 Time64(\u{b5}s)",
        ),
        // Of months, as DataFusion: the bins of an origin within a month.
        (
            "SELECT date_bin('1 month', timestamp '2024-02-10', '2024-01-15')::date, \
             date_bin('1 month', timestamp '2024-02-01 03:00', '2024-01-01 06:00')::text, \
             date_bin('1 month', timestamp '2023-12-31', '2024-01-31')::date",
            "2024-01-15 2024-01-01 06:00:00 2023-12-31",
        ),
        (
            "SELECT date_bin('100 nanoseconds', '2024-01-01 00:00:00.00000015'::timestamp(9)), \
             date_bin('1 hour', '1969-12-31 23:59:59.9999999'::timestamp(9))",
            "2024-01-01T00:00:00.000000100 1969-12-31T23:00:00",
        ),
        (
            "SELECT len(range('2024-01-01'::timestamp(9), \
             '2024-01-01 00:00:00.0000003'::timestamp(9), INTERVAL '100 nanoseconds'))",
            "3",
        ),
    ];
    check(&session, &cases).await;
}

#[tokio::test]
async fn errors_say_what_would_be_right() {
    let session = engine(DRAM).session().expect("session");
    let cases = [
        (
            "SELECT * FROM generate_series(timestamp '2024-01-01', '2024-01-02', '0')",
            "the step is zero",
        ),
        (
            "SELECT * FROM generate_series(timestamp '2024-01-01', '2024-03-02', '1 mon -29 days')",
            "the step does not lead on from the value",
        ),
        ("SELECT * FROM generate_series(date '2024-01-01', date '2024-01-02')", "and an interval"),
        ("SELECT generate_series(date '2024-01-01', 5, INTERVAL '1 day')", "and an interval"),
        ("SELECT generate_series(1.5::float8, 2)", "takes integers, decimals, or two timestamps"),
        ("SELECT * FROM generate_series(1.0, 2.0, 0.0)", "the step is zero"),
        (
            "SELECT range(timestamp '0001-01-01', '9999-01-01', INTERVAL '1 second')",
            "a list is too long",
        ),
        (
            "SELECT date_bin('1 mon 1 day', timestamp '2024-01-01', '2001-01-01')",
            "date_bin: a width of months",
        ),
        (
            "SELECT date_bin('1 day', timestamp '2024-06-15', timestamptz '2001-01-01')",
            "both have time zones or both have none",
        ),
        ("SELECT * FROM generate_series(1, 1 / 0)", "division by zero"),
        ("SELECT to_timestamp()", "to_timestamp takes the seconds since 1970"),
    ];
    for (statement, expected) in cases {
        let found = error(&session, statement).await;
        assert!(found.contains(expected), "{statement}: {found}");
    }
}

#[tokio::test]
async fn parameters_of_series_have_the_types_of_the_others() {
    let session = engine(DRAM).session().expect("session");
    let prepared = "PREPARE a AS SELECT * FROM generate_series($1::numeric(5, 5), 0.5, 0.1); \
        PREPARE b AS SELECT d::date FROM generate_series($1::timestamp, $2, '1 day') d; \
        CREATE VIEW v AS SELECT d::date AS d FROM generate_series(date '2024-01-01', \
        timestamp '2024-01-02' + INTERVAL '12 hours', '1 day') AS d";
    show(&session, prepared).await;
    let cases = [
        ("EXECUTE a(0.25)", "0.25000\n0.35000\n0.45000"),
        ("EXECUTE b('2024-01-01', '2024-01-02')", "2024-01-01\n2024-01-02"),
        ("SELECT * FROM v", "2024-01-01\n2024-01-02"),
    ];
    check(&session, &cases).await;
    let shown = show(&session, "SHOW CREATE VIEW v").await;
    assert!(!shown.contains("(SELECT"), "{shown}");
}

/// A volatile side is evaluated where it is written.
#[tokio::test]
async fn volatile_comparisons_keep_their_order() {
    let session = engine(DRAM).session().expect("session");
    show(&session, "CREATE SEQUENCE s; CREATE TABLE q (x INT); INSERT INTO q VALUES (0)").await;
    let query = "SELECT x FROM q WHERE nextval('s') > x + currval('s') - 1";
    check(&session, &[(query, "0")]).await;
}
