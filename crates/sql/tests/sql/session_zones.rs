//! Texts of timestamps, and instants in the session's time zone, as in PostgreSQL 15.

use crate::common::{MIB, check, engine, error, show};

#[tokio::test]
async fn texts_of_timestamps_and_floats() {
    let session = engine(64 * MIB).session().expect("session");
    let cases = [
        ("SELECT TIMESTAMP '2024-06-01 12:00:00.5'::text", "2024-06-01 12:00:00.5"),
        ("SELECT 'at ' || TIMESTAMP '2024-06-01 12:00:00'", "at 2024-06-01 12:00:00"),
        ("SELECT concat(TIMESTAMP '2024-06-01 12:00:00', 1)", "2024-06-01 12:00:001"),
        ("SELECT string_agg(TIMESTAMP '2024-06-01 12:00:00'::text, ',')", "2024-06-01 12:00:00"),
        ("SELECT format('%s', TIMESTAMP '2024-06-01 12:00:00')", "2024-06-01 12:00:00"),
        ("SELECT TIMESTAMPTZ '2024-06-01 12:00:00+02'::text", "2024-06-01 10:00:00+00"),
        ("SELECT '-Infinity'::float8::text || 'Infinity'::float8::text", "-InfinityInfinity"),
        ("SELECT 'NaN'::float8::text", "NaN"),
    ];
    check(&session, &cases).await;
}

#[tokio::test]
async fn instants_are_local_in_the_zone_of_the_session() {
    let session = engine(64 * MIB).session().expect("session");
    show(&session, "CREATE TABLE t (z TIMESTAMPTZ)").await;
    show(&session, "INSERT INTO t VALUES ('2024-06-01 23:30:00+00')").await;
    show(&session, "SET timezone = 'Europe/Berlin'").await;
    show(&session, "INSERT INTO t VALUES ('2024-06-02 01:30:00')").await;
    let cases = [
        ("SELECT count(DISTINCT z) FROM t", "1"),
        ("SELECT DISTINCT z::text, z::date FROM t", "2024-06-02 01:30:00+02 2024-06-02"),
        ("SELECT DISTINCT z::timestamp::text FROM t", "2024-06-02 01:30:00"),
        ("SELECT DISTINCT z::time FROM t", "01:30:00"),
        ("SELECT DISTINCT date_trunc('day', z)::text FROM t", "2024-06-02 00:00:00+02"),
        ("SELECT DISTINCT extract(hour FROM z), date_part('day', z) FROM t", "1 2"),
        ("SELECT DISTINCT to_char(z, 'YYYY-MM-DD HH24:MI') FROM t", "2024-06-02 01:30"),
        ("SELECT DISTINCT z = TIMESTAMP '2024-06-02 01:30:00' FROM t", "true"),
    ];
    check(&session, &cases).await;
    show(&session, "SET timezone = 'Asia/Kolkata'").await;
    check(&session, &[("SELECT DISTINCT z::text FROM t", "2024-06-02 05:00:00+05:30")]).await;
}

#[tokio::test]
async fn ranks_are_bigint() {
    let session = engine(64 * MIB).session().expect("session");
    let ranks = "SELECT row_number() OVER () AS n, rank() OVER () - 1 AS m, ntile(2) OVER () AS p, \
                 dense_rank() OVER () AS q";
    show(&session, &format!("CREATE TABLE t AS {ranks}")).await;
    let types = "SELECT DISTINCT data_type FROM information_schema.columns WHERE table_name = 't'";
    let own = format!("SELECT arrow_typeof(n), arrow_typeof(m) FROM ({ranks}) r");
    let cases = [
        (types, "Int64"),
        ("SELECT arrow_typeof(n), m, p, q FROM t", "Int64 0 1 1"),
        (own.as_str(), "Int64 Int64"),
    ];
    check(&session, &cases).await;
    let few = format!("SELECT n FROM ({ranks}) r WHERE n <= 3");
    check(&session, &[(few.as_str(), "1")]).await;
}

/// Days and months of an interval are those of the session's time zone, as in PostgreSQL 15.
const MOVED: &[(&str, &str)] = &[
    (
        "SELECT (timestamptz '2024-03-09 12:00' + interval '1 day')::text, \
         (timestamptz '2024-03-09 02:30' + interval '1 day')::text, \
         (timestamptz '2024-11-02 01:30' + interval '1 day')::text, \
         (timestamptz '2024-03-10 12:00' - interval '1 day')::text, \
         (timestamptz '2024-03-09 12:00' + interval '24 hours')::text, \
         (interval '1 month 1 hour' + timestamptz '2024-02-10 12:00')::text",
        "2024-03-10 12:00:00-04 2024-03-10 03:30:00-04 2024-11-03 01:30:00-05 \
         2024-03-09 12:00:00-05 2024-03-10 13:00:00-04 2024-03-10 13:00:00-04",
    ),
    (
        "SELECT (date_trunc('month', t) + i)::text FROM (VALUES \
         (timestamptz '2024-03-05 12:00', interval '1 month'), \
         (timestamptz '2024-11-03 12:00', interval '1 month'), (NULL, interval '1 day'), \
         (timestamptz '2024-03-05 12:00', interval '1 hour')) x(t, i) ORDER BY 1",
        "2024-03-01 01:00:00-05\n2024-04-01 00:00:00-04\n2024-12-01 00:00:00-05\n",
    ),
    (
        "SELECT (timestamptz '2024-07-01 16:00Z' - timestamp '2024-07-01 12:00')::text, \
         (timestamp '2024-07-01 12:00' - timestamptz '2024-07-01 16:00Z')::text, \
         (timestamptz '2024-07-01 16:00Z' - date '2024-07-01')::text",
        "00:00:00 00:00:00 12:00:00",
    ),
    (
        "SELECT t = ANY(ARRAY[l]), t = l FROM (VALUES (timestamptz '2024-07-01 16:00Z', \
         timestamp '2024-07-01 12:00')) x(t, l)",
        "true true",
    ),
    (
        "SELECT age(timestamptz '2024-03-10 12:00', timestamptz '2024-03-09 12:00')::text, \
         age(timestamptz '2024-07-01 16:00Z', timestamptz '2024-03-01 02:00')::text, \
         age(timestamptz '2024-07-01 16:00Z', timestamp '2024-07-01 12:00')::text",
        "1 day 4 mons 10:00:00 00:00:00",
    ),
    (
        "SELECT (timestamptz '2024-01-01 00:00Z' AT TIME ZONE '+05:30')::text, \
         (timestamptz '2024-01-01 00:00Z' AT TIME ZONE '-08')::text, \
         (timestamp '2024-01-01' AT TIME ZONE '+05:30')::text",
        "2023-12-31 18:30:00 2024-01-01 08:00:00 2024-01-01 00:30:00-05",
    ),
    (
        "SELECT '2021-03-04T10:00:00+02:00'::timestamp, '2021-03-04 10:00Z'::timestamp, \
         '2021-03-04 10:00:00.5 Europe/Berlin'::timestamp",
        "2021-03-04T10:00:00 2021-03-04T10:00:00 2021-03-04T10:00:00.500",
    ),
    (
        "SELECT to_timestamp(0)::text, extract(epoch FROM to_timestamp(x))::int \
      FROM (VALUES (1700000000)) t(x)",
        "1969-12-31 19:00:00-05 1700000000",
    ),
    // Local times that a clock change skips or repeats.
    (
        "SELECT (timestamp '2024-03-10 02:30'::timestamptz)::text, l::timestamptz::text \
         FROM (VALUES (timestamp '2024-11-03 01:30')) x(l)",
        "2024-03-10 03:30:00-04 2024-11-03 01:30:00-05",
    ),
    // An interval of a cast from a timestamp to a date is not that of the column.
    ("SELECT count(*) FROM u WHERE d = t::date", "2"),
    ("SELECT count(*) FROM u WHERE d < t::date", "0"),
    ("SELECT count(*) FROM u WHERE t::time < l::time", "0"),
    ("SELECT count(*) FROM u WHERE l::time < t::time", "1"),
    ("SELECT count(*) FROM u WHERE l::text > '2024'", "2"),
];

#[tokio::test]
async fn intervals_count_in_the_zone_of_the_session() {
    let session = engine(64 * MIB).session().expect("session");
    show(
        &session,
        "SET timezone = 'America/New_York'; CREATE TABLE u (t timestamptz, l timestamp, d date); \
         INSERT INTO u VALUES ('2024-07-01 16:00Z', '2024-07-01 12:00', '2024-07-01'), \
         ('2024-07-01 02:00Z', '2024-07-01 02:00', '2024-06-30')",
    )
    .await;
    check(&session, MOVED).await;
    show(&session, "SET TIME ZONE 5.5").await;
    let cases =
        [("SELECT (timestamptz '2024-01-01 00:00Z'::timestamp)::text", "2024-01-01 05:30:00")];
    check(&session, &cases).await;
}

/// Answers of PostgreSQL 15 in America/New_York.
const OF_COLUMNS: &[(&str, &str)] = &[
    (
        "SELECT (t AT TIME ZONE z)::text, (l AT TIME ZONE z)::text FROM (VALUES \
         (1, timestamptz '2024-07-01 12:00Z', timestamp '2024-07-01 12:00', 'Europe/Berlin'), \
         (2, timestamptz '2024-07-01 12:00Z', timestamp '2024-07-01 12:00', 'utc'), \
         (3, timestamptz '2024-07-01 12:00Z', timestamp '2024-07-01 12:00', NULL), \
         (4, NULL, NULL, 'UTC'), \
         (5, timestamptz '2024-07-01 12:00Z', timestamp '2024-07-01 12:00', '+05:30')) \
         x(i, t, l, z) ORDER BY i",
        "2024-07-01 14:00:00 2024-07-01 06:00:00-04\n2024-07-01 12:00:00 2024-07-01 08:00:00-04\n\
         \x20\n\x20\n2024-07-01 06:30:00 2024-07-01 13:30:00-04",
    ),
    (
        "SELECT date_trunc('day', timestamptz '2024-07-01 23:30Z', 'Europe/Berlin')::text, \
         date_trunc('month', timestamptz '2024-07-01 02:30Z', 'UTC')::text",
        "2024-07-01 18:00:00-04 2024-06-30 20:00:00-04",
    ),
    (
        "SELECT '2024-07-01Z'::timestamptz::text, '2024-07-01+02'::timestamptz::text, \
         'January 8, 1999'::date::text, '8-Jan-1999 04:05'::timestamp::text, \
         'epoch'::timestamptz::text",
        "2024-06-30 20:00:00-04 2024-06-30 18:00:00-04 1999-01-08 1999-01-08 04:05:00 \
         1969-12-31 19:00:00-05",
    ),
    (
        "SELECT '2024-01-01 10:00:00.7'::timestamp(0)::text, \
         '2024-01-01 10:00:00.1235'::timestamp(3)::text, \
         (timestamp '1969-12-31 23:59:59.5')::timestamp(0)::text, \
         (timestamptz '2024-01-01 10:00:00.5Z')::timestamptz(0)::text",
        "2024-01-01 10:00:01 2024-01-01 10:00:00.124 1969-12-31 23:59:59 2024-01-01 05:00:01-05",
    ),
];

#[tokio::test]
async fn zones_of_columns_and_rounded_moments_are_those_of_postgres() {
    let session = engine(64 * MIB).session().expect("session");
    show(&session, "SET TIME ZONE 'America/New_York'").await;
    for (query, answer) in OF_COLUMNS {
        assert_eq!(show(&session, query).await, *answer, "{query}");
    }
    let query = "SELECT timestamp '2024-07-01' AT TIME ZONE z FROM (VALUES ('UTC'), ('Mars')) x(z)";
    assert!(error(&session, query).await.contains("'Mars' is no time zone"));
}

/// The words stand for the day and the moment of the statement, in the zone of the session.
#[tokio::test]
async fn words_for_days_are_dates() {
    let session = engine(64 * MIB).session().expect("session");
    let cases = [
        ("SELECT 'today'::date = current_date, DATE 'tomorrow' - current_date", "true 1"),
        ("SELECT TIMESTAMP 'yesterday' = (current_date - 1)::timestamp", "true"),
        ("SELECT 'now'::timestamptz = now(), ' NOW '::timestamp = now()::timestamp", "true true"),
        ("SELECT 'now'::date = current_date, 'now'::time = now()::time", "true true"),
        ("SELECT 'today'::timestamptz = current_date::timestamptz", "true"),
        ("SELECT count(*) FROM (VALUES (current_date)) t(d) WHERE d < 'tomorrow'::date", "1"),
        ("SELECT 'today'::text, TRY_CAST('today' AS date) = current_date", "today true"),
    ];
    check(&session, &cases).await;
    show(&session, "SET timezone = 'Pacific/Kiritimati'").await;
    let local = "SELECT 'today'::timestamptz = date_trunc('day', now())";
    check(&session, &[(local, "true")]).await;
    assert!(error(&session, "SELECT 'someday'::date").await.contains("someday"));
}
