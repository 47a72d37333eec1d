//! Multi-statement transactions: visibility, commit and rollback, and conflicts.

use std::sync::Arc;
use std::time::Duration;

use terrace_sql::{Session, SqlError, TransactionStatus};

use crate::common::{MIB, engine, engine_in, error, show, try_show};

async fn run(session: &Session, text: &str) {
    if let Err(error) = session.sql(text).await {
        panic!("{text}\n{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_seen_by_their_transaction_and_by_others_after_its_commit() {
    let engine = engine(64 * MIB);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    run(&one, "CREATE TABLE t (k BIGINT, v BIGINT); INSERT INTO t VALUES (1, 10), (2, 20)").await;
    run(&one, "BEGIN; INSERT INTO t VALUES (3, 30); UPDATE t SET v = v + 1 WHERE k <> 2").await;
    run(&one, "DELETE FROM t WHERE k = 2; CREATE TABLE u AS SELECT sum(v) AS s FROM t").await;
    run(&one, "CREATE SCHEMA s; CREATE VIEW s.w AS SELECT s FROM u; INSERT INTO u VALUES (7)")
        .await;
    assert_eq!(one.transaction_status(), TransactionStatus::Open);
    assert_eq!(show(&one, "SELECT * FROM t ORDER BY k").await, "1 11\n3 31");
    assert_eq!(show(&one, "SELECT * FROM s.w ORDER BY s").await, "7\n42");
    assert_eq!(show(&other, "SELECT * FROM t ORDER BY k").await, "1 10\n2 20");
    assert!(error(&other, "SELECT * FROM u").await.contains("not found"));
    run(&one, "COMMIT").await;
    assert_eq!(one.transaction_status(), TransactionStatus::Idle);
    assert_eq!(show(&other, "SELECT * FROM t ORDER BY k").await, "1 11\n3 31");
    assert_eq!(show(&other, "SELECT * FROM s.w ORDER BY s").await, "7\n42");
    run(&one, "BEGIN; TRUNCATE t; INSERT INTO t VALUES (9, 9); DROP VIEW s.w; DROP TABLE u").await;
    run(&one, "CREATE TABLE u (x TEXT); INSERT INTO u VALUES ('new')").await;
    assert_eq!(show(&one, "SELECT t.k, u.x FROM t, u").await, "9 new");
    run(&one, "ROLLBACK").await;
    for session in [&one, &other] {
        assert_eq!(show(session, "SELECT * FROM t ORDER BY k").await, "1 11\n3 31");
        assert_eq!(show(session, "SELECT * FROM s.w ORDER BY s").await, "7\n42");
    }
}

/// Merges of small chunks give way to transactions: one that reads, waits and then changes the
/// table conflicts rarely, also beside a steady stream of inserts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_that_read_before_they_change_succeed_beside_inserts() {
    const ROUNDS: usize = 20;
    let engine = engine(64 * MIB);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    run(&one, "CREATE TABLE t (k BIGINT, v BIGINT); INSERT INTO t VALUES (1, 10)").await;
    let ended = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_ended = Arc::clone(&ended);
    let inserts = tokio::spawn(async move {
        let mut count = 0;
        while !is_ended.load(std::sync::atomic::Ordering::Relaxed) {
            run(&other, "INSERT INTO t VALUES (2, 20)").await;
            count += 1;
        }
        count
    });
    let mut conflicts = 0;
    for _ in 0..ROUNDS {
        run(&one, "BEGIN; SELECT count(*) FROM t").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        match one.sql("UPDATE t SET v = v + 1 WHERE k = 1; COMMIT").await {
            Ok(_) => {}
            Err(conflict) => {
                assert!(conflict.to_string().contains("merged with others"), "{conflict}");
                conflicts += 1;
                run(&one, "ROLLBACK").await;
            }
        }
    }
    ended.store(true, std::sync::atomic::Ordering::Relaxed);
    let inserted = inserts.await.expect("inserts");
    assert!(conflicts <= ROUNDS / 4, "{conflicts} of {ROUNDS} beside {inserted} inserts");
    let rows = show(&one, "SELECT count(*), max(v) FILTER (WHERE k = 1) FROM t").await;
    assert_eq!(rows, format!("{} {}", inserted + 1, 10 + ROUNDS - conflicts));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_reads_one_state_of_the_database() {
    let engine = engine(64 * MIB);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    run(&one, "CREATE TABLE a AS SELECT 1 AS x; CREATE TABLE b AS SELECT 1 AS x").await;
    run(&one, "BEGIN").await;
    // The snapshot is taken by the first statement, not by BEGIN.
    run(&other, "INSERT INTO a VALUES (2)").await;
    assert_eq!(show(&one, "SELECT count(*) FROM a").await, "2");
    run(&other, "INSERT INTO a VALUES (3); DROP TABLE b; CREATE TABLE c AS SELECT 1 AS x").await;
    assert_eq!(
        show(&one, "SELECT count(*) AS a, (SELECT count(*) FROM b) AS b FROM a").await,
        "2 1"
    );
    assert!(error(&one, "SELECT * FROM c").await.contains("not found"));
    run(&one, "ROLLBACK").await;
    assert_eq!(show(&one, "SELECT count(*) FROM a").await, "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_statement_fails_the_transaction() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    run(&session, "CREATE TABLE t (k BIGINT NOT NULL)").await;
    for failing in ["SELECT 1 / k FROM t", "SELEC", "SELECT nothing", "INSERT INTO t VALUES (NULL)"]
    {
        run(&session, "BEGIN; INSERT INTO t VALUES (0)").await;
        error(&session, failing).await;
        assert_eq!(session.transaction_status(), TransactionStatus::Failed, "{failing}");
        for refused in ["SELECT 1", "INSERT INTO t VALUES (1)", "SAVEPOINT a", "CREATE SCHEMA s"] {
            let error = error(&session, refused).await;
            assert!(error.contains("say ROLLBACK"), "{refused}: {error}");
        }
        // COMMIT of a failed transaction rolls it back.
        run(&session, "COMMIT").await;
        assert_eq!(show(&session, "SELECT count(*) FROM t").await, "0");
    }
    let none = session.commit().await.expect_err("none has begun");
    assert!(matches!(none, SqlError::NoTransaction), "{none}");
    run(&session, "BEGIN").await;
    let second = session.begin(None).expect_err("one has begun");
    assert!(matches!(second, SqlError::TransactionBegun), "{second}");
    assert_eq!(session.transaction_status(), TransactionStatus::Open);
    let heap = error(&session, "CREATE TENANT a WITH (sla = '0@1s')").await;
    assert!(heap.contains("not possible in a transaction"), "{heap}");
    run(&session, "ABORT; BEGIN TRANSACTION READ ONLY; SELECT * FROM t").await;
    let refused = error(&session, "INSERT INTO t VALUES (1)").await;
    assert!(refused.contains("READ ONLY"), "{refused}");
    run(&session, "ROLLBACK").await;
    let refused = error(&session, "BEGIN ISOLATION LEVEL SERIALIZABLE").await;
    assert!(refused.contains("isolated by snapshots"), "{refused}");
    run(&session, "START TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; END").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn savepoints_undo_a_part() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    run(&session, "CREATE TABLE t (k BIGINT); BEGIN; INSERT INTO t VALUES (1); SAVEPOINT a").await;
    run(&session, "INSERT INTO t VALUES (2); CREATE TABLE u (k BIGINT); SAVEPOINT b").await;
    run(&session, "UPDATE t SET k = k + 10; INSERT INTO u VALUES (1)").await;
    assert_eq!(show(&session, "SELECT k FROM t ORDER BY k").await, "11\n12");
    run(&session, "ROLLBACK TO b").await;
    assert_eq!(show(&session, "SELECT k FROM t ORDER BY k").await, "1\n2");
    assert_eq!(show(&session, "SELECT count(*) FROM u").await, "0");
    error(&session, "SELECT * FROM missing").await;
    run(&session, "ROLLBACK TO SAVEPOINT a").await;
    assert_eq!(show(&session, "SELECT k FROM t").await, "1");
    let gone = error(&session, "ROLLBACK TO b").await;
    assert!(gone.contains("no savepoint b"), "{gone}");
    run(&session, "ROLLBACK TO a; SAVEPOINT c; RELEASE c; INSERT INTO t VALUES (3); COMMIT").await;
    assert_eq!(show(&session, "SELECT k FROM t ORDER BY k").await, "1\n3");
    assert!(error(&session, "SELECT * FROM u").await.contains("not found"));
}

/// Each of many statements has a savepoint of its own, as drivers with autosave send them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_statements_have_savepoints_of_their_own() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    run(&session, "CREATE TABLE t (k BIGINT); INSERT INTO t VALUES (-1); BEGIN").await;
    for k in 0..300 {
        let end = if k % 3 == 0 { "ROLLBACK TO s; RELEASE s" } else { "RELEASE s" };
        run(&session, &format!("SAVEPOINT s; INSERT INTO t VALUES ({k}); {end}")).await;
    }
    let all = "SELECT count(*), sum(k) FROM t";
    assert_eq!(show(&session, all).await, "201 29999");
    let count = "SELECT count(*) FROM t";
    run(&session, "SAVEPOINT d; DELETE FROM t WHERE k % 2 = 0").await;
    run(&session, "SAVEPOINT e; INSERT INTO t VALUES (1000)").await;
    assert_eq!(show(&session, count).await, "102");
    run(&session, "ROLLBACK TO e").await;
    assert_eq!(show(&session, count).await, "101");
    run(&session, "ROLLBACK TO d; INSERT INTO t VALUES (7); ROLLBACK TO d").await;
    assert_eq!(show(&session, all).await, "201 29999");
    run(&session, "COMMIT").await;
    assert_eq!(show(&engine.session().expect("session"), all).await, "201 29999");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_of_two_that_change_a_table_waits_and_conflicts() {
    let engine = engine(64 * MIB);
    let one = engine.session().expect("session");
    let other = Arc::new(engine.session().expect("session"));
    run(&one, "CREATE TABLE t AS SELECT 1 AS k, 1 AS v; CREATE TABLE u AS SELECT 1 AS k").await;
    // A transaction that has already read the table conflicts.
    run(&other, "BEGIN; SELECT * FROM t").await;
    run(&one, "BEGIN; UPDATE t SET v = v + 1").await;
    let waiting = tokio::spawn({
        let other = Arc::clone(&other);
        async move { other.sql("UPDATE t SET v = v + 10").await.map(drop) }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished(), "the table is locked");
    // Rows can be added meanwhile, and are kept.
    let third = engine.session().expect("session");
    run(&third, "INSERT INTO t VALUES (2, 1)").await;
    run(&one, "COMMIT").await;
    let conflict = waiting.await.expect("no panic").expect_err("it has read the rows of before");
    assert!(conflict.to_string().contains("public.t was changed by another transaction"));
    run(&other, "ROLLBACK").await;
    assert_eq!(show(&one, "SELECT * FROM t ORDER BY k").await, "1 2\n2 1");
    // A transaction whose first statement waits reads the committed rows.
    run(&one, "BEGIN; UPDATE t SET v = v + 1").await;
    let waiting = tokio::spawn({
        let other = Arc::clone(&other);
        let text = "BEGIN; UPDATE t SET v = v * 10 WHERE v > 1; COMMIT";
        async move { other.sql(text).await.map(drop) }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    run(&one, "COMMIT").await;
    waiting.await.expect("no panic").expect("it waits");
    assert_eq!(show(&one, "SELECT * FROM t ORDER BY k").await, "1 30\n2 20");
    // A single statement waits for a transaction, too, and so does a DROP TABLE.
    run(&one, "BEGIN; DELETE FROM t WHERE k = 1").await;
    let late = Duration::from_millis(50);
    for waits in ["UPDATE t SET v = 0", "DROP TABLE t"] {
        assert!(tokio::time::timeout(late, other.sql(waits)).await.is_err(), "{waits}");
    }
    run(&one, "ROLLBACK").await;
    run(&other, "UPDATE t SET v = 0").await;
    // A deadlock of two transactions.
    run(&one, "BEGIN; UPDATE t SET v = 1").await;
    run(&other, "BEGIN; DELETE FROM u").await;
    let waiting = tokio::spawn({
        let other = Arc::clone(&other);
        async move { other.sql("UPDATE t SET v = 2").await.map(drop) }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let circle = error(&one, "UPDATE u SET k = 2").await;
    assert!(circle.contains("deadlock"), "{circle}");
    run(&one, "ROLLBACK").await;
    waiting.await.expect("no panic").expect("nothing has changed");
    run(&other, "COMMIT").await;
    assert_eq!(show(&one, "SELECT v, (SELECT count(*) FROM u) AS n FROM t").await, "2 0\n2 0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_of_one_name_conflict() {
    let engine = engine(64 * MIB);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    for define in [
        "CREATE TABLE t (k BIGINT)",
        "CREATE TABLE t AS SELECT 1 AS k",
        "CREATE VIEW t AS SELECT 1 AS k",
        "CREATE SCHEMA t",
    ] {
        run(&one, &format!("BEGIN; {define}")).await;
        run(&other, define).await;
        let conflict = error(&one, "COMMIT").await;
        assert!(conflict.contains("by another transaction"), "{conflict}");
        assert_eq!(one.transaction_status(), TransactionStatus::Idle);
        let noun = define.split(' ').nth(1).expect("a noun");
        run(&other, &format!("DROP {noun} t")).await;
    }
    run(&other, "CREATE TABLE t (k BIGINT)").await;
    run(&one, "BEGIN; INSERT INTO t VALUES (1)").await;
    run(&other, "DROP TABLE t").await;
    let gone = error(&one, "COMMIT").await;
    assert!(gone.contains("public.t was changed by another transaction"), "{gone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merges_do_not_disturb_transactions() {
    let engine = engine(64 * MIB);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    run(&one, "CREATE TABLE t (k BIGINT)").await;
    for k in 0..40 {
        run(&one, &format!("INSERT INTO t VALUES ({k})")).await;
    }
    run(&other, "BEGIN; SELECT * FROM t").await;
    // Long enough for a merge of the small chunks that the transaction has read.
    tokio::time::sleep(Duration::from_millis(400)).await;
    run(&other, "UPDATE t SET k = k + 100 WHERE k < 20").await;
    for k in 40..80 {
        run(&one, &format!("INSERT INTO t VALUES ({k})")).await;
    }
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(show(&other, "SELECT count(*), sum(k) FROM t").await, "40 2780");
    run(&other, "DELETE FROM t WHERE k = 119; COMMIT").await;
    let all = show(&one, "SELECT count(*), sum(k), count(DISTINCT k) FROM t").await;
    assert_eq!(all, "79 5041 79");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn space_comes_back_and_commits_last() {
    let directory = tempfile::tempdir().expect("a directory");
    {
        let engine = engine_in(directory.path(), 64 * MIB);
        let session = engine.session().expect("session");
        let fill = "INSERT INTO t SELECT value, value + 1 FROM generate_series(1, 100000)";
        run(&session, "CREATE TABLE t (k BIGINT, v BIGINT)").await;
        run(&session, fill).await;
        let used = || engine.pool().store().expect("a store").stats().used_bytes;
        let before = used();
        run(&session, &format!("BEGIN; {fill}; CREATE TABLE u AS SELECT * FROM t; SAVEPOINT a"))
            .await;
        run(&session, "DELETE FROM t WHERE k % 2 = 0; TRUNCATE u").await;
        assert!(used() > before);
        run(&session, "ROLLBACK").await;
        assert_eq!(used(), before);
        {
            let ended = engine.session().expect("session");
            run(&ended, &format!("BEGIN; {fill}")).await;
        }
        assert_eq!(used(), before);
        run(&session, &format!("BEGIN; {fill}; CREATE TABLE u AS SELECT count(*) AS n FROM t"))
            .await;
        run(&session, "DELETE FROM t WHERE k > 10; COMMIT").await;
        assert!(used() < before);
        run(&session, "BEGIN; TRUNCATE t").await;
        drop(session);
        engine.close().expect("closed");
    }
    let engine = engine_in(directory.path(), 64 * MIB);
    let session = engine.session().expect("session");
    let found = show(&session, "SELECT count(*), sum(k), (SELECT n FROM u) FROM t").await;
    assert_eq!(found, "20 110 200000");
    drop(session);
    engine.close().expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_run_in_transactions() {
    let engine = engine(64 * MIB);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    run(&one, "CREATE TABLE t (k BIGINT)").await;
    let insert = one.parse("INSERT INTO t VALUES ($1)").expect("parses").remove(0);
    let insert = one.prepare(insert, &[]).await.expect("prepared");
    let count = one.parse("SELECT count(*) FROM t").expect("parses").remove(0);
    let count = one.prepare(count, &[]).await.expect("prepared");
    one.begin(None).expect("begun");
    for k in 0..3_i64 {
        let run = one.execute_prepared(&insert, vec![k.into()]).await.expect("runs");
        run.collect().await.expect("inserted");
    }
    let counted = one.execute_prepared(&count, vec![]).await.expect("runs");
    let counted = counted.collect().await.expect("counted");
    assert_eq!(crate::common::lines(&counted.batches[0]), ["3"]);
    assert_eq!(show(&other, "SELECT count(*) FROM t").await, "0");
    assert!(one.commit().await.expect("committed"));
    assert_eq!(show(&other, "SELECT count(*) FROM t").await, "3");
    // A handle read after the end of its transaction adds nothing.
    one.begin(None).expect("begun");
    let late = one.execute_prepared(&insert, vec![9_i64.into()]).await.expect("starts");
    one.roll_back().expect("ended");
    late.collect().await.expect_err("its transaction has ended");
    assert_eq!(try_show(&one, "SELECT count(*) FROM t").await.expect("counted"), "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_others_are_not_lost_with_a_table_that_is_replaced() {
    let engine = engine(64 * MIB);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    let replace = "CREATE OR REPLACE TABLE t AS SELECT k, v + 1 AS v FROM t";
    run(&one, "CREATE TABLE t AS SELECT * FROM (VALUES (1, 1), (2, 2)) AS v(k, v)").await;
    for (before, after) in
        [("INSERT INTO t VALUES (9, 9)", ""), ("", "INSERT INTO t VALUES (8, 8)")]
    {
        run(&one, "BEGIN; SELECT count(*) FROM t").await;
        run(&other, before).await;
        run(&one, replace).await;
        run(&other, after).await;
        let conflict = error(&one, "COMMIT").await;
        assert!(conflict.contains("public.t was changed by another transaction"), "{conflict}");
    }
    assert_eq!(show(&one, "SELECT * FROM t ORDER BY k").await, "1 1\n2 2\n8 8\n9 9");
    run(&one, &format!("BEGIN; {replace}; COMMIT")).await;
    assert_eq!(show(&one, "SELECT sum(v) FROM t").await, "24");
    // Replacing rows are read once the table is unlocked.
    let replaced =
        ["INSERT OVERWRITE t SELECT 7, v FROM b", "CREATE OR REPLACE TABLE t AS SELECT v FROM b"];
    for replace in replaced {
        run(
            &one,
            "CREATE OR REPLACE TABLE b AS SELECT 1 AS v; \
             CREATE OR REPLACE TABLE t AS SELECT 1 AS k, 1 AS v",
        )
        .await;
        run(&one, "BEGIN; UPDATE b SET v = 2; UPDATE t SET v = 2").await;
        let late = engine.session().expect("session");
        let waiting =
            tokio::spawn(
                async move { late.sql(&format!("BEGIN; {replace}; COMMIT")).await.map(drop) },
            );
        tokio::time::sleep(Duration::from_millis(50)).await;
        run(&one, "COMMIT").await;
        waiting.await.expect("no panic").expect("it waits");
        assert_eq!(show(&one, "SELECT v FROM t").await, "2", "{replace}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_and_locks_of_savepoints_settings_and_failures() {
    let engine = engine(64 * MIB);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    run(&one, "CREATE TABLE t AS SELECT 10 AS v").await;
    // A savepoint from before the first statement does not change the snapshot.
    run(&one, "BEGIN; SAVEPOINT a; SELECT v FROM t").await;
    run(&other, "UPDATE t SET v = v + 1").await;
    run(&one, "ROLLBACK TO a").await;
    assert_eq!(show(&one, "SELECT v FROM t").await, "10");
    let lost = error(&one, "UPDATE t SET v = 11").await;
    assert!(lost.contains("by another transaction"), "{lost}");
    run(&one, "ROLLBACK").await;
    // A setting does not count as the first statement.
    run(&one, "BEGIN; SET datafusion.execution.batch_size = 4096").await;
    run(&other, "UPDATE t SET v = v + 1").await;
    run(&one, "UPDATE t SET v = v + 1; COMMIT").await;
    assert_eq!(show(&one, "SELECT v FROM t").await, "13");
    // A failed transaction holds no locks, unless it can roll back to a savepoint.
    run(&one, "BEGIN; UPDATE t SET v = 0").await;
    error(&one, "SELECT nothing").await;
    run(&other, "UPDATE t SET v = v + 1").await;
    run(&one, "ROLLBACK; BEGIN; UPDATE t SET v = 0; SAVEPOINT a").await;
    error(&one, "SELECT nothing").await;
    let late = Duration::from_millis(50);
    assert!(tokio::time::timeout(late, other.sql("UPDATE t SET v = 9")).await.is_err());
    run(&one, "ROLLBACK TO a; COMMIT").await;
    assert_eq!(show(&other, "SELECT v FROM t").await, "0");
    run(&one, "PREPARE p AS UPDATE t SET v = 1").await;
    run(&one, "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY").await;
    for change in
        ["UPDATE t SET v = 1", "EXECUTE p", "CREATE TABLE u (k BIGINT)", "BEGIN; DELETE FROM t"]
    {
        let refused = error(&one, change).await;
        assert!(refused.contains("READ ONLY"), "{change}: {refused}");
    }
    run(&one, "ROLLBACK; BEGIN READ WRITE; UPDATE t SET v = 1; COMMIT").await;
    one.reset_settings();
    run(&one, "UPDATE t SET v = 2").await;
}
