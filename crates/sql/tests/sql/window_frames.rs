//! Frames of windows by distance, with the answers of PostgreSQL 15.

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

/// Keys near the ends of their types, and nulls.
const TABLE: &str = "
    CREATE TABLE f (id BIGINT, b BIGINT, s SMALLINT, n NUMERIC(12, 2), r DOUBLE PRECISION, d DATE,
        m TIMESTAMP, t TIME, v INTERVAL);
    INSERT INTO f VALUES
        (1, 9223372036854775800, 32760, 9999999999.50, 1.5, '2024-01-01', '2024-01-01 00:00',
            '00:30', '1 day'),
        (2, 9223372036854775807, 32767, 9999999999.99, 2.0, '2024-01-02', '2024-01-01 12:00',
            '12:00', '26 hours'),
        (3, -9223372036854775800, -32760, -9999999999.50, -1.5, '2024-01-04', '2200-01-01 00:00',
            '23:30', '2 days'),
        (4, -9223372036854775808, -32768, -9999999999.99, -2.0, '2024-03-01', '1700-01-01 00:00',
            '23:59', '1 month'),
        (5, 0, 0, 0, 0, '2023-12-31', '2024-01-02 00:00', '00:00', '0 days'),
        (6, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (7, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)";

/// Orders and frames, and the numbers of rows in the frames of all rows.
const FRAMES: &[(&str, &str)] = &[
    ("b RANGE BETWEEN CURRENT ROW AND 10 FOLLOWING", "2 1 1 2 1 2 2"),
    ("b RANGE BETWEEN 10 PRECEDING AND CURRENT ROW", "1 2 2 1 1 2 2"),
    ("b NULLS FIRST RANGE BETWEEN 10 PRECEDING AND 10 FOLLOWING", "2 2 2 2 1 2 2"),
    ("b DESC RANGE BETWEEN 10 PRECEDING AND 10 FOLLOWING", "2 2 2 2 1 2 2"),
    ("b DESC NULLS LAST RANGE BETWEEN 10 PRECEDING AND 10 FOLLOWING", "2 2 2 2 1 2 2"),
    ("b RANGE BETWEEN UNBOUNDED PRECEDING AND 10 FOLLOWING", "5 5 2 2 3 7 7"),
    ("b RANGE BETWEEN 10 FOLLOWING AND UNBOUNDED FOLLOWING", "2 2 5 5 4 2 2"),
    ("b NULLS FIRST RANGE BETWEEN 10 PRECEDING AND UNBOUNDED FOLLOWING", "2 2 5 5 3 7 7"),
    ("b NULLS FIRST RANGE BETWEEN UNBOUNDED PRECEDING AND 10 PRECEDING", "5 5 2 2 4 2 2"),
    (
        "b RANGE BETWEEN 9223372036854775807 PRECEDING AND 9223372036854775807 FOLLOWING",
        "3 3 3 2 4 2 2",
    ),
    ("s RANGE BETWEEN 10 PRECEDING AND 10 FOLLOWING", "2 2 2 2 1 2 2"),
    ("s DESC RANGE BETWEEN 10 PRECEDING AND 10 FOLLOWING", "2 2 2 2 1 2 2"),
    ("s RANGE BETWEEN 100000 PRECEDING AND 9223372036854775807 FOLLOWING", "5 5 5 5 5 2 2"),
    ("n RANGE BETWEEN 0.5 PRECEDING AND 0.5 FOLLOWING", "2 2 2 2 1 2 2"),
    ("n RANGE BETWEEN 0.485 PRECEDING AND 0.495 FOLLOWING", "2 1 1 2 1 2 2"),
    ("n RANGE BETWEEN '0.49' PRECEDING AND 99999999999999999999 FOLLOWING", "2 2 5 5 3 2 2"),
    ("r RANGE BETWEEN 0.5 PRECEDING AND 1 FOLLOWING", "2 2 2 2 1 2 2"),
    ("r RANGE BETWEEN 1e308 PRECEDING AND 1e308 FOLLOWING", "5 5 5 5 5 2 2"),
    ("d RANGE BETWEEN '1 day' PRECEDING AND '2 days' FOLLOWING", "3 3 1 1 3 2 2"),
    (
        "d RANGE BETWEEN INTERVAL '12 hours' PRECEDING AND INTERVAL '36 hours' FOLLOWING",
        "2 1 1 1 2 2 2",
    ),
    ("d RANGE BETWEEN INTERVAL '36 hours' FOLLOWING AND '3 months' FOLLOWING", "2 2 1 0 3 2 2"),
    (
        "d DESC NULLS LAST RANGE BETWEEN '1 month' PRECEDING AND '400 years' FOLLOWING",
        "4 4 4 5 4 2 2",
    ),
    ("m RANGE BETWEEN '12 hours' PRECEDING AND '1 day' FOLLOWING", "3 3 1 1 2 2 2"),
    ("m RANGE BETWEEN '400 years' PRECEDING AND '400 years' FOLLOWING", "5 5 4 4 5 2 2"),
    ("m NULLS FIRST RANGE BETWEEN '400 years' PRECEDING AND CURRENT ROW", "2 3 4 1 4 2 2"),
    ("m DESC RANGE BETWEEN '400 years' PRECEDING AND '400 years' FOLLOWING", "5 5 4 4 5 2 2"),
    ("m RANGE BETWEEN UNBOUNDED PRECEDING AND '400 years' FOLLOWING", "5 5 5 4 5 7 7"),
    ("t RANGE BETWEEN '1 hour' PRECEDING AND '30 minutes' FOLLOWING", "2 1 2 2 2 2 2"),
    (
        "t DESC RANGE BETWEEN '1 hour' PRECEDING AND INTERVAL '30 minutes' FOLLOWING",
        "2 1 2 2 2 2 2",
    ),
    ("v RANGE BETWEEN '2 hours' PRECEDING AND '1 day' FOLLOWING", "3 3 1 1 2 2 2"),
    ("id ROWS BETWEEN 1 + 1 PRECEDING AND 2 - 1 FOLLOWING", "2 3 4 4 4 4 3"),
    ("id ROWS BETWEEN '2' PRECEDING AND (1.6) FOLLOWING", "3 4 5 5 5 4 3"),
    ("id GROUPS BETWEEN abs(-1) PRECEDING AND CAST('1' AS INT) FOLLOWING", "2 3 3 3 3 3 2"),
    ("id RANGE BETWEEN 3 - 1 PRECEDING AND '1'::bigint FOLLOWING", "2 3 4 4 4 4 3"),
    (
        "d RANGE BETWEEN '1 day'::interval PRECEDING AND 2 * INTERVAL '1 day' FOLLOWING",
        "3 3 1 1 3 2 2",
    ),
    ("id ROWS BETWEEN 2 * 2 FOLLOWING AND 1 + 1 FOLLOWING", "0 0 0 0 0 0 0"),
    ("id RANGE BETWEEN 1 PRECEDING AND 1 + 1 PRECEDING", "0 0 0 0 0 0 0"),
    ("id RANGE (2) PRECEDING", "1 2 3 3 3 3 3"),
];

/// Frames that PostgreSQL refuses, and its errors.
const REFUSED: &[(&str, &str)] = &[
    ("x RANGE 1 PRECEDING", "is not supported for column type text"),
    ("x RANGE BETWEEN CURRENT ROW AND '1' FOLLOWING", "is not supported for column type text"),
    ("y RANGE 1 PRECEDING", "is not supported for column type boolean"),
    ("u RANGE 1 PRECEDING", "is not supported for column type uuid"),
    ("[k] RANGE 1 PRECEDING", "is not supported for column type integer[]"),
    ("d RANGE 1 PRECEDING", "not supported for column type date and offset type bigint"),
    ("k RANGE 1.5 PRECEDING", "not supported for column type integer and offset type numeric"),
    ("k RANGE INTERVAL '1 day' PRECEDING", "column type integer and offset type interval"),
    ("1.5 * k RANGE 1e0 PRECEDING", "column type numeric and offset type double precision"),
    ("d RANGE 'soon' PRECEDING", "invalid input syntax for type interval: \"soon\""),
    ("d RANGE INTERVAL '-1 day' PRECEDING", "invalid preceding or following size"),
    ("d RANGE BETWEEN CURRENT ROW AND '-1 day' FOLLOWING", "invalid preceding or following size"),
    ("k RANGE -1 PRECEDING", "invalid preceding or following size"),
    ("k RANGE '-1' PRECEDING", "invalid preceding or following size"),
    ("k::float8 RANGE 'NaN' PRECEDING", "invalid preceding or following size"),
    ("k ROWS -1 PRECEDING", "frame starting offset must not be negative"),
    ("k ROWS BETWEEN 1 PRECEDING AND 1 - 2 FOLLOWING", "frame ending offset must not be negative"),
    ("k GROUPS -1 PRECEDING", "frame starting offset must not be negative"),
    ("k ROWS NULL PRECEDING", "frame starting offset must not be null"),
    ("k RANGE BETWEEN 1 PRECEDING AND NULL FOLLOWING", "frame ending offset must not be null"),
    ("k GROUPS BETWEEN 1 PRECEDING AND NULL FOLLOWING", "frame ending offset must not be null"),
    ("k ROWS k PRECEDING", "argument of ROWS must not contain variables"),
    ("k RANGE BETWEEN CURRENT ROW AND k + 1 FOLLOWING", "RANGE must not contain variables"),
    ("k ROWS INTERVAL '1 day' PRECEDING", "ROWS must be type bigint, not type interval"),
    ("k, x RANGE 1 PRECEDING", "requires exactly one ORDER BY column"),
    ("d RANGE '300000 years' PRECEDING", "timestamp out of range"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distances_reach_no_nulls_and_may_be_expressions() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, TABLE).await;
    for (frame, expected) in FRAMES {
        let counts = format!("SELECT id, count(*) OVER (ORDER BY {frame}) AS n FROM f");
        let query = format!("SELECT string_agg(n::text, ' ' ORDER BY id) FROM ({counts}) q");
        assert_eq!(show(&session, &query).await, *expected, "{frame}");
        let named =
            format!("SELECT id, count(*) OVER w AS n FROM f WINDOW w AS (ORDER BY {frame})");
        let query = format!("SELECT string_agg(n::text, ' ' ORDER BY id) FROM ({named}) q");
        assert_eq!(show(&session, &query).await, *expected, "{frame}");
    }
    let explain = "EXPLAIN SELECT sum(id) OVER (ORDER BY b RANGE 10 PRECEDING) FROM f";
    let tree = show(&session, explain).await;
    assert!(tree.contains("RANGE BETWEEN 10 PRECEDING AND CURRENT ROW"), "{tree}");
    assert!(!tree.contains("window frame"), "{tree}");
    let view = "CREATE VIEW v AS SELECT id, sum(id) OVER (ORDER BY d RANGE '1 day'::interval \
        PRECEDING) AS s FROM f WHERE d IS NOT NULL; SELECT s FROM v ORDER BY id";
    assert_eq!(show(&session, view).await, "6\n3\n3\n4\n5");
    // PostgreSQL has no unsigned integers.
    let unsigned = "SELECT x, count(*) OVER (ORDER BY x RANGE BETWEEN 5 PRECEDING AND 3 PRECEDING)
        FROM (VALUES (0::UTINYINT), (1::UTINYINT), (4::UTINYINT)) t(x) ORDER BY x";
    assert_eq!(show(&session, unsigned).await, "0 0\n1 0\n4 2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distances_of_other_types_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let table = "CREATE TABLE g (k INT, x TEXT, y BOOLEAN, d DATE, u UUID);
        INSERT INTO g VALUES (1, 'a', true, '2024-01-01', gen_random_uuid())";
    show(&session, table).await;
    for (frame, cause) in REFUSED {
        let query = format!("SELECT count(*) OVER (ORDER BY {frame}) FROM g");
        let text = error(&session, &query).await;
        assert!(text.contains(cause), "{frame}: {text}");
    }
    let text = error(&session, "SELECT count(*) OVER (GROUPS 1 + 1 PRECEDING) FROM g").await;
    assert!(text.contains("GROUPS mode requires an ORDER BY clause"), "{text}");
}

#[tokio::test]
async fn windows_that_differ_in_the_types_of_their_keys_are_told_apart() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let values = "FROM (VALUES (2), (10)) t(a)";
    let cases = [
        (
            format!(
                "SELECT sum(a) OVER (ORDER BY a::text), sum(a) OVER (ORDER BY a) {values} \
                 ORDER BY a"
            ),
            "12 2\n10 12",
        ),
        (
            format!(
                "SELECT lag(a::text) OVER w, lag(a) OVER v, count(*) OVER w {values} WINDOW w AS \
                 (PARTITION BY a::text), v AS (PARTITION BY a)"
            ),
            "  1\n  1",
        ),
    ];
    for (query, expected) in &cases {
        check(&session, &[(query.as_str(), *expected)]).await;
    }
}
