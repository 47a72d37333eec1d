//! Texts of timestamps, and instants in the session's time zone, as in PostgreSQL 15.

use crate::common::{MIB, check, engine, show};

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
