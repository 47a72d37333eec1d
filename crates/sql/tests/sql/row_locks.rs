//! FOR UPDATE and FOR SHARE: locks of rows that a query reads, to the end of its transaction.

use std::time::Duration;

use terrace_sql::{Session, TransactionStatus};

use crate::common::{MIB, check, engine, error, show, try_show};

const DRAM: u64 = 64 * MIB;

const MAKE: &str = "CREATE TABLE t AS SELECT value AS k, value * 10 AS v \
    FROM generate_series(1, 3); CREATE TABLE u AS SELECT 1 AS k; \
    CREATE VIEW w AS SELECT a.k, b.k AS other FROM t a JOIN u b ON a.k = b.k";

/// Runs a text that fails with a text that contains `part`, and ends its transaction.
async fn fails(session: &Session, text: &str, part: &str) {
    let failed = error(session, text).await;
    assert!(failed.contains(part), "{text}: {failed}");
    if session.transaction_status() != TransactionStatus::Idle {
        show(session, "ROLLBACK").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_rows_are_changed_by_no_other_transaction() {
    let engine = engine(DRAM);
    let [one, other] = [(); 2].map(|()| engine.session().expect("session"));
    show(&one, MAKE).await;
    show(&other, "SET terrace.lock_timeout = '50ms'").await;
    for clause in [
        "FOR UPDATE",
        "FOR NO KEY UPDATE",
        "FOR SHARE",
        "FOR KEY SHARE",
        "FOR UPDATE OF t NOWAIT",
        "FOR UPDATE SKIP LOCKED",
    ] {
        let locked = show(&one, &format!("BEGIN; SELECT v FROM t WHERE k = 2 {clause}")).await;
        assert_eq!(locked, "20", "{clause}");
        for text in [
            "UPDATE t SET v = 0",
            "DELETE FROM t",
            "TRUNCATE t",
            "DROP TABLE t CASCADE",
            "SELECT k FROM t FOR UPDATE",
            "BEGIN; SELECT k FROM t WHERE k = 1 FOR SHARE",
            "BEGIN; SELECT k FROM w FOR UPDATE",
            "BEGIN; UPDATE u SET k = 2 WHERE k = (SELECT k FROM t LIMIT 1 FOR UPDATE)",
        ] {
            fails(&other, text, "lock timeout").await;
        }
        fails(&other, "BEGIN; SELECT k FROM t FOR UPDATE NOWAIT", "could not obtain lock").await;
        fails(&other, "BEGIN; LOCK TABLE t NOWAIT", "could not obtain lock").await;
        let cases = [
            ("SELECT k FROM t FOR UPDATE SKIP LOCKED", ""),
            ("BEGIN; SELECT k FROM t FOR SHARE SKIP LOCKED", ""),
            ("SELECT k FROM u FOR UPDATE NOWAIT", "1"),
            ("SELECT u.k FROM t, u FOR UPDATE OF u SKIP LOCKED LIMIT 1", "1"),
            ("COMMIT; SELECT count(*) FROM t", "3"),
        ];
        check(&other, &cases).await;
        show(&one, "COMMIT").await;
        show(&other, "UPDATE t SET v = k * 10").await;
    }
    // Rows may be added meanwhile.
    show(&one, "BEGIN; SELECT k FROM t FOR UPDATE").await;
    show(&other, "INSERT INTO t VALUES (4, 40)").await;
    check(&one, &[("UPDATE t SET v = v + 1", "3"), ("COMMIT; SELECT sum(v) FROM t", "103")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_statement_reads_what_it_has_waited_for() {
    let engine = engine(DRAM);
    let [one, other] = [(); 2].map(|()| engine.session().expect("session"));
    show(&one, MAKE).await;
    show(&one, "BEGIN; SELECT v FROM t WHERE k = 1 FOR UPDATE; UPDATE t SET v = 11 WHERE k = 1")
        .await;
    let commit = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        show(&one, "COMMIT").await
    };
    let read = "BEGIN; SELECT v FROM t WHERE k = 1 FOR UPDATE";
    let (read, _) = tokio::join!(show(&other, read), commit);
    assert_eq!(read, "11");
    show(&other, "UPDATE t SET v = v + 1 WHERE k = 1; COMMIT").await;
    check(&one, &[("SELECT v FROM t WHERE k = 1", "12")]).await;

    // A transaction that has read the table before is to be run again.
    show(&one, "BEGIN; SELECT v FROM t").await;
    show(&other, "UPDATE t SET v = 13 WHERE k = 1").await;
    fails(&one, "SELECT v FROM t FOR UPDATE", "by another transaction").await;
    show(&one, "BEGIN; SELECT v FROM t").await;
    show(&other, "INSERT INTO t VALUES (5, 50)").await;
    check(&one, &[("SELECT count(*) FROM (SELECT k FROM t FOR UPDATE) q; COMMIT", "")]).await;
    // Outside of a transaction nothing stays locked.
    check(&one, &[("SELECT v FROM t WHERE k = 1 FOR UPDATE", "13")]).await;
    show(&other, "SET terrace.lock_timeout = '1s'; UPDATE t SET v = 14 WHERE k = 1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_take_each_job_once() {
    const TAKE: &str = "BEGIN; UPDATE jobs SET is_taken = true WHERE id = (SELECT id FROM jobs \
        WHERE NOT is_taken ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id";
    let engine = engine(DRAM);
    let owner = engine.session().expect("session");
    let make = "CREATE TABLE jobs AS SELECT value AS id, false AS is_taken \
                FROM generate_series(1, 12)";
    show(&owner, make).await;
    let work = |session: Session| async move {
        let mut taken = Vec::new();
        while show(&session, "SELECT count(*) FROM jobs WHERE NOT is_taken").await != "0" {
            let job = show(&session, TAKE).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            show(&session, "COMMIT").await;
            // Nothing, while another worker takes one.
            taken.extend(job.parse::<i64>());
        }
        taken
    };
    let workers = [(); 3].map(|()| tokio::spawn(work(engine.session().expect("session"))));
    let mut taken = Vec::new();
    for worker in workers {
        taken.extend(worker.await.expect("a worker"));
    }
    taken.sort_unstable();
    assert_eq!(taken, (1..=12).collect::<Vec<_>>());
    check(&owner, &[("SELECT count(*) FROM jobs WHERE is_taken", "12")]).await;
}

#[tokio::test]
async fn queries_of_locked_tables_are_skipped_and_no_others() {
    let engine = engine(DRAM);
    let [one, other] = [(); 2].map(|()| engine.session().expect("session"));
    show(&one, MAKE).await;
    let skipping = "SELECT k FROM (SELECT k FROM t WHERE k IN (SELECT k FROM t) \
                                   FOR UPDATE SKIP LOCKED) a \
        UNION ALL SELECT k FROM (SELECT k FROM u FOR UPDATE SKIP LOCKED) b \
        UNION ALL SELECT k FROM (SELECT 7 AS k) c";
    show(&one, "BEGIN; SELECT t.k FROM t, u FOR UPDATE").await;
    check(&other, &[(skipping, "7")]).await;
    show(&one, "COMMIT").await;
    check(&other, &[(&format!("SELECT sum(k) FROM ({skipping}) q"), "14")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_waits_for_a_lock_can_be_cancelled() {
    let engine = engine(DRAM);
    let [one, watcher] = [(); 2].map(|()| engine.session().expect("session"));
    show(&one, MAKE).await;
    show(&one, "BEGIN; SELECT k FROM t FOR UPDATE").await;
    for begins in ["", "BEGIN"] {
        let other = engine.session().expect("session");
        show(&other, begins).await;
        let waiting =
            tokio::spawn(async move { error(&other, "SELECT v FROM t FOR UPDATE").await });
        let id = loop {
            let find = "SELECT max(id) FROM terrace.queries WHERE wait_reason = 'lock'";
            match show(&watcher, find).await {
                none if none.is_empty() => tokio::task::yield_now().await,
                id => break id,
            }
        };
        show(&watcher, &format!("CANCEL QUERY {id}")).await;
        let ended = tokio::time::timeout(Duration::from_secs(5), waiting).await.expect("soon");
        let found = ended.expect("no panic");
        assert!(found.contains("cancelled"), "{found}");
    }
    show(&one, "COMMIT").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_run_of_a_prepared_statement_locks() {
    let engine = engine(DRAM);
    let [one, other] = [(); 2].map(|()| engine.session().expect("session"));
    show(&one, MAKE).await;
    let parse = |text: &str| one.parse(text).expect("parsed").pop().expect("one");
    let text = "SELECT v FROM t WHERE k = 1 FOR UPDATE SKIP LOCKED";
    let prepared = one.prepare(parse(text), &[]).await.expect("prepared");
    assert!(prepared.locks_rows());
    assert!(!one.prepare(parse("SELECT v FROM t"), &[]).await.expect("prepared").locks_rows());
    let rows = async || {
        let run = one.execute_prepared(&prepared, vec![]).await.expect("begun");
        run.collect().await.expect("run").rows()
    };
    show(&one, "BEGIN").await;
    assert_eq!(rows().await, 1);
    assert_eq!(show(&other, "SELECT v FROM t FOR UPDATE SKIP LOCKED").await, "");
    show(&one, "COMMIT").await;
    show(&other, "BEGIN; SELECT v FROM t FOR UPDATE").await;
    assert_eq!(rows().await, 0);
    show(&other, "COMMIT").await;
    assert_eq!(rows().await, 1);
}

#[tokio::test]
async fn locks_that_would_not_hold_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, MAKE).await;
    for (text, part) in [
        ("SELECT DISTINCT k FROM t FOR UPDATE", "FOR UPDATE with DISTINCT"),
        ("SELECT k FROM t GROUP BY k FOR SHARE", "FOR SHARE with GROUP BY"),
        ("SELECT count(*) FROM t FOR UPDATE", "FOR UPDATE with aggregate functions"),
        ("SELECT row_number() OVER () FROM t FOR UPDATE", "with window functions"),
        ("SELECT k FROM t HAVING true FOR UPDATE", "with HAVING"),
        ("SELECT k FROM t UNION SELECT k FROM u FOR UPDATE", "with UNION"),
        ("VALUES (1) FOR UPDATE", "with VALUES"),
        ("SELECT * FROM (SELECT DISTINCT k FROM t) q FOR UPDATE", "with DISTINCT"),
        ("SELECT k FROM t FOR UPDATE OF x", "relation \"x\" in FOR UPDATE clause not found"),
        ("SELECT x.k FROM t x FOR UPDATE OF t", "relation \"t\" in FOR UPDATE clause"),
        ("WITH q AS (SELECT 1) SELECT * FROM q FOR UPDATE OF q", "which is no table"),
        ("SELECT * FROM terrace.tiers FOR UPDATE", "reads no table of the database"),
        ("SELECT k FROM missing FOR UPDATE", "missing' not found"),
        ("CREATE VIEW x AS SELECT k FROM t FOR UPDATE", "in a definition"),
        ("CREATE TABLE x AS SELECT k FROM t FOR UPDATE", "in a definition"),
        ("PREPARE p AS SELECT k FROM t FOR UPDATE", "in a definition, PREPARE"),
        ("EXPLAIN ANALYZE SELECT k FROM t FOR UPDATE", "EXPLAIN ANALYZE"),
        ("SUMMARIZE SELECT k FROM t FOR UPDATE", "SUMMARIZE"),
        ("COPY (SELECT k FROM t FOR UPDATE) TO 'rows.csv'", "COPY"),
        ("CREATE MACRO m(x) AS TABLE SELECT k FROM t WHERE k > x FOR UPDATE", "in a definition"),
        (
            "CREATE TABLE x AS WITH m AS (DELETE FROM u WHERE k IN (SELECT k FROM t FOR UPDATE) \
             RETURNING k) SELECT * FROM m",
            "in a definition",
        ),
        ("BEGIN READ ONLY; SELECT k FROM t FOR UPDATE", "READ ONLY"),
        ("INSERT INTO u SELECT k FROM t FOR UPDATE", "outside of a transaction"),
    ] {
        fails(&session, text, part).await;
    }
    let cases = [
        ("WITH q AS (SELECT k FROM t) SELECT q.k FROM q JOIN u USING (k) FOR UPDATE", "1"),
        ("SELECT k, other FROM w FOR UPDATE OF w", "1 1"),
        ("SELECT x.k FROM t AS x LEFT JOIN u AS y ON x.k = y.k WHERE y.k = 1 FOR UPDATE OF x", "1"),
        ("SELECT q.k FROM (SELECT k FROM t ORDER BY k LIMIT 2) q WHERE k > 1 FOR UPDATE", "2"),
        ("BEGIN; INSERT INTO u SELECT k FROM t FOR UPDATE", "3"),
        ("COMMIT; SELECT count(*) FROM u", "4"),
    ];
    check(&session, &cases).await;
    try_show(&session, "EXPLAIN SELECT k FROM t FOR UPDATE").await.expect("explained");
}

#[tokio::test]
async fn a_lock_takes_the_right_to_update() {
    let engine = engine(DRAM);
    let owner = engine.session().expect("session");
    show(&owner, MAKE).await;
    show(&owner, "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret'; CREATE ROLE ada LOGIN")
        .await;
    show(&owner, "GRANT SELECT ON t TO ada").await;
    let ada = engine.session_of("ada").expect("session");
    check(&ada, &[("SELECT count(*) FROM t", "3")]).await;
    fails(&ada, "SELECT k FROM t FOR UPDATE", "it lacks UPDATE on public.t").await;
    show(&owner, "GRANT UPDATE ON t TO ada").await;
    check(&ada, &[("SELECT k FROM t WHERE k = 1 FOR UPDATE", "1")]).await;
}
