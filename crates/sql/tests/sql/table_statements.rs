//! TRUNCATE of several tables, LOCK TABLE, DISCARD TEMP, SET TIME ZONE and `pg_sleep`.

use std::time::{Duration, Instant};

use terrace_sql::TransactionStatus;

use crate::common::{MIB, check, engine, error, show, try_show};

const DRAM: u64 = 64 * MIB;
const MAKE: &str = "CREATE TABLE t (k INT, id SERIAL); INSERT INTO t (k) VALUES (1), (2);
                    CREATE TABLE u AS SELECT 3 AS k";

#[tokio::test]
async fn truncate_empties_all_its_tables_or_none() {
    let session = engine(DRAM).session().expect("session");
    show(&session, MAKE).await;
    show(&session, "CREATE VIEW v AS SELECT 1 AS k").await;
    error(&session, "TRUNCATE t, missing").await;
    error(&session, "TRUNCATE t, v").await;
    check(&session, &[("SELECT count(*) FROM t", "2"), ("TRUNCATE t, u, public.t", "3")]).await;
    let count = "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM u)";
    check(&session, &[(count, "0 0")]).await;
    // The numbers of a sequence go on unless the statement says otherwise.
    let add = "INSERT INTO t (k) VALUES (4); INSERT INTO u VALUES (5); SELECT id FROM t";
    check(
        &session,
        &[
            (add, "3"),
            ("TRUNCATE TABLE ONLY t CONTINUE IDENTITY RESTRICT", "1"),
            (add, "4"),
            ("TRUNCATE t, u RESTART IDENTITY CASCADE", "3"),
            (add, "1"),
        ],
    )
    .await;
    show(&session, "BEGIN; TRUNCATE t, u").await;
    check(&session, &[(count, "0 0"), ("ROLLBACK", "")]).await;
    check(&session, &[(count, "1 1")]).await;
    show(&session, "BEGIN READ ONLY").await;
    let refused = error(&session, "TRUNCATE t, u").await;
    assert!(refused.contains("READ ONLY"), "{refused}");
    show(&session, "ROLLBACK").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncate_waits_for_the_locks_of_all_its_tables() {
    let engine = engine(DRAM);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    show(&one, MAKE).await;
    show(&one, "BEGIN; UPDATE u SET k = 4").await;
    show(&other, "SET terrace.lock_timeout = '50ms'").await;
    let late = error(&other, "TRUNCATE t, u").await;
    assert!(late.contains("lock timeout"), "{late}");
    check(&other, &[("SELECT count(*) FROM t", "2")]).await;
    show(&one, "COMMIT").await;
    check(&other, &[("TRUNCATE t, u", "3")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_a_table_lasts_until_the_end_of_the_transaction() {
    let engine = engine(DRAM);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    show(&one, MAKE).await;
    let alone = error(&one, "LOCK TABLE t").await;
    assert!(alone.contains("no transaction in progress"), "{alone}");
    show(&other, "SET terrace.lock_timeout = '50ms'").await;
    for mode in ["", "IN EXCLUSIVE MODE", "IN SHARE ROW EXCLUSIVE MODE", "IN ROW EXCLUSIVE MODE"] {
        show(&one, &format!("BEGIN; LOCK TABLE t, u {mode}")).await;
        let late = error(&other, "UPDATE u SET k = k + 1").await;
        assert!(late.contains("lock timeout"), "{mode}: {late}");
        let began = Instant::now();
        let held = error(&other, "BEGIN; LOCK t NOWAIT").await;
        assert!(held.contains("could not obtain lock"), "{mode}: {held}");
        assert!(began.elapsed() < Duration::from_secs(20), "{mode}");
        assert_eq!(other.transaction_status(), TransactionStatus::Failed);
        show(&other, "ROLLBACK; SELECT * FROM t").await;
        show(&one, "UPDATE u SET k = k + 1; COMMIT").await;
    }
    // The snapshot of the transaction is all that a reader locks.
    show(&one, "BEGIN; LOCK TABLE t IN ACCESS SHARE MODE").await;
    show(&other, "UPDATE t SET k = 9").await;
    check(&one, &[("SELECT sum(k) FROM t", "3"), ("COMMIT; SELECT sum(k) FROM t", "18")]).await;
    show(&one, "CREATE VIEW v AS SELECT 1 AS k").await;
    let refused = error(&one, "BEGIN; LOCK TABLE v").await;
    assert!(refused.contains("no table"), "{refused}");
    show(&one, "ROLLBACK").await;
    let missing = error(&one, "BEGIN; LOCK TABLE missing").await;
    assert!(missing.contains("missing"), "{missing}");
}

/// Of two sessions that lock a table first, the second reads what the first has added.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_has_waited_for_a_lock_reads_the_rows_of_before() {
    let engine = engine(DRAM);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    show(&one, MAKE).await;
    show(&one, "BEGIN; LOCK TABLE u; INSERT INTO u SELECT max(k) + 1 FROM u").await;
    let (second, _) = tokio::join!(
        show(&other, "BEGIN; LOCK TABLE u; INSERT INTO u SELECT max(k) + 1 FROM u; COMMIT"),
        async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            show(&one, "COMMIT").await
        }
    );
    assert_eq!(second, "");
    check(&one, &[("SELECT string_agg(k::text, ' ' ORDER BY k) FROM u", "3 4 5")]).await;
}

#[tokio::test]
async fn discard_temp_drops_the_temporary_objects() {
    let session = engine(DRAM).session().expect("session");
    show(&session, MAKE).await;
    show(&session, "DISCARD TEMP").await;
    show(
        &session,
        "CREATE TEMP TABLE t (k INT, id SERIAL); CREATE TEMP SEQUENCE s;
         CREATE TEMP TABLE w AS SELECT 1 AS k; CREATE TEMP VIEW x AS SELECT * FROM w",
    )
    .await;
    check(&session, &[("SELECT count(*) FROM t", "0")]).await;
    show(&session, "DISCARD TEMP").await;
    check(&session, &[("SELECT count(*) FROM t", "2")]).await;
    for gone in ["SELECT * FROM w", "SELECT * FROM x", "SELECT nextval('s')"] {
        error(&session, gone).await;
    }
    show(&session, "CREATE TEMP TABLE w AS SELECT 1 AS k").await;
}

#[tokio::test]
async fn set_time_zone_takes_names_offsets_and_default() {
    let session = engine(DRAM).session().expect("session");
    for (set, shown) in [
        ("SET TIME ZONE 'Europe/Berlin'", "2024-07-01 14:00:00+02"),
        ("SET TIME ZONE LOCAL", "2024-07-01 12:00:00+00"),
        ("SET TIME ZONE -7", "2024-07-01 05:00:00-07"),
        ("SET TIME ZONE 5.5", "2024-07-01 17:30:00+05:30"),
        ("SET TIME ZONE DEFAULT", "2024-07-01 12:00:00+00"),
        ("BEGIN; SET LOCAL TIME ZONE 'Asia/Tokyo'", "2024-07-01 21:00:00+09"),
        ("COMMIT", "2024-07-01 12:00:00+00"),
    ] {
        show(&session, set).await;
        let text = show(&session, "SELECT timestamptz '2024-07-01 12:00:00+00'::text").await;
        assert_eq!(text, shown, "{set}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pg_sleep_waits_for_each_row_and_ends_with_its_query() {
    let engine = engine(DRAM);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    let began = Instant::now();
    check(&one, &[("SELECT pg_sleep(0.05) FROM range(3)", "\n\n")]).await;
    assert!(began.elapsed() >= Duration::from_millis(150), "{:?}", began.elapsed());
    check(&one, &[("SELECT pg_sleep(NULL) IS NULL, pg_sleep(-1) IS NULL", "true false")]).await;
    let began = Instant::now();
    let (sleeper, ()) = tokio::join!(try_show(&one, "SELECT pg_sleep(3600)"), async {
        let find = "SELECT id FROM terrace.queries WHERE statement LIKE '%pg_sleep(3600)' \
                    AND statement NOT LIKE '%terrace%'";
        let mut id = String::new();
        while id.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
            id = show(&other, find).await;
        }
        show(&other, &format!("CANCEL QUERY {id}")).await;
    });
    sleeper.expect_err("cancelled");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}
