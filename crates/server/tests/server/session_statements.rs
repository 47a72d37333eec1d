//! Statements about a session that clients of PostgreSQL send, and the tags of statements.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use terrace_server::Limits;
use tokio::time::sleep;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::common::{connect, has_psql, psql, with_server};

/// Runs a text that must fail, and returns the code of its error.
async fn code(client: &Client, text: &str) -> String {
    let error = client.batch_execute(text).await.expect_err(text);
    error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())
}

/// Returns the first column of the rows of a text.
async fn values(client: &Client, text: &str) -> Vec<String> {
    let messages = client.simple_query(text).await.expect(text);
    let value = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    messages.iter().filter_map(value).collect()
}

/// Checks what psql writes of texts: rows and tags.
async fn check_psql(address: SocketAddr, cases: &'static [(&'static str, &'static str)]) {
    for (text, expected) in cases {
        let told = tokio::task::spawn_blocking(move || psql(address, text)).await.expect("psql");
        assert_eq!(told.0, *expected, "{text}\n{}", told.1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_are_those_of_postgresql() {
    if !has_psql() {
        return;
    }
    with_server(Limits::default(), |address| async move {
        check_psql(
            address,
            &[
                ("CREATE TABLE t (k INT)", "CREATE TABLE"),
                ("PREPARE p AS INSERT INTO t VALUES ($1); EXECUTE p(5)", "PREPARE\nINSERT 0 1"),
                ("PREPARE p AS SELECT count(*) FROM t; EXECUTE p", "PREPARE\n1"),
                ("PREPARE p AS UPDATE t SET k = 6 RETURNING k; EXECUTE p", "PREPARE\n6\nUPDATE 1"),
                ("PREPARE p AS DELETE FROM t WHERE k = 7; EXECUTE p", "PREPARE\nDELETE 0"),
                ("CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS k", "CREATE TABLE AS"),
                ("CREATE TABLE IF NOT EXISTS u AS SELECT 1 AS k", "SELECT 1"),
                (
                    "BEGIN; COMMIT AND CHAIN; ROLLBACK AND CHAIN; ABORT AND CHAIN; COMMIT",
                    "BEGIN\nCOMMIT\nROLLBACK\nROLLBACK\nCOMMIT",
                ),
                (
                    "RESET application_name; RESET TIME ZONE; RESET terrace.lock_timeout",
                    "RESET\nRESET\nRESET",
                ),
                (
                    "SET SESSION AUTHORIZATION DEFAULT; RESET SESSION AUTHORIZATION; RESET ROLE",
                    "SET\nRESET\nRESET",
                ),
                ("RESET datafusion.execution.batch_size", "RESET"),
                ("UNLISTEN *", "UNLISTEN"),
                ("DISCARD ALL", "DISCARD ALL"),
            ],
        )
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_chained_transaction_has_the_mode_of_the_one_before() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        client.batch_execute("CREATE TABLE t (k INT)").await.expect("made");
        let text = "BEGIN; INSERT INTO t VALUES (1); COMMIT AND CHAIN; INSERT INTO t VALUES (2)";
        client.batch_execute(text).await.expect("chained");
        client.batch_execute("ROLLBACK AND CHAIN").await.expect("chained");
        client.batch_execute("INSERT INTO t VALUES (4); COMMIT").await.expect("ended");
        assert_eq!(values(&client, "SELECT sum(k) FROM t").await, ["5"]);
        for text in
            ["COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "INSERT INTO t VALUES (8); COMMIT AND CHAIN"]
        {
            assert_eq!(code(&client, text).await, "25P01", "{text}");
        }
        client.batch_execute("BEGIN READ ONLY; COMMIT AND CHAIN").await.expect("chained");
        assert_eq!(code(&client, "INSERT INTO t VALUES (16)").await, "25006");
        // A transaction that has failed is rolled back by COMMIT, and the next one begins.
        client.batch_execute("COMMIT AND CHAIN; SELECT k FROM t; COMMIT").await.expect("chained");
        assert_eq!(values(&client, "SELECT sum(k) FROM t").await, ["5"]);
    })
    .await;
}

/// Drivers that look for a server which takes changes ask so.
#[tokio::test]
async fn the_mode_of_transactions_is_a_setting() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        client.batch_execute("CREATE TABLE t (k INT)").await.expect("made");
        let own = async || values(&client, "SHOW transaction_read_only").await.concat();
        let default = async || values(&client, "SHOW default_transaction_read_only").await.concat();
        assert_eq!((own().await, default().await), ("off".to_owned(), "off".to_owned()));
        assert_eq!(values(&client, "SHOW in_hot_standby").await, ["off"]);
        client.batch_execute("BEGIN READ ONLY").await.expect("begun");
        assert_eq!((own().await, default().await), ("on".to_owned(), "off".to_owned()));
        client.batch_execute("COMMIT").await.expect("ended");
        for set in [
            "SET default_transaction_read_only = on",
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        ] {
            client.batch_execute(set).await.expect(set);
            assert_eq!((own().await, default().await), ("on".to_owned(), "on".to_owned()));
            assert_eq!(code(&client, "INSERT INTO t VALUES (1)").await, "25006", "{set}");
            client.batch_execute("RESET default_transaction_read_only").await.expect("reset");
            client.batch_execute("INSERT INTO t VALUES (1)").await.expect("written");
        }
        assert_eq!(code(&client, "SELECT current_setting('missing')").await, "42704");
    })
    .await;
}

#[tokio::test]
async fn queries_are_shown_as_their_clients_say_them() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let own = "select   statement  from terrace.queries /* mine */";
        assert_eq!(values(&client, own).await, [own]);
        assert_eq!(values(&client, &format!("BEGIN ;\n {own} ; COMMIT")).await, [own]);
        let text = "select  statement from terrace.queries where $1::INT  =  1";
        let row = client.query_one(text, &[&1_i32]).await.expect("a row");
        assert_eq!(row.get::<_, String>(0), text);
        let long = format!("{own} {}", "-".repeat(100_000));
        let shown = values(&client, &long).await.concat();
        assert!(long.starts_with(&shown) && shown.len() == 16_384, "{}", shown.len());
    })
    .await;
}

#[tokio::test]
async fn statements_without_a_meaning_here_are_refused_as_such() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        for text in [
            "LISTEN events",
            "NOTIFY events, 'x'",
            "DO $$ BEGIN NULL; END $$",
            "DO LANGUAGE plpgsql 'BEGIN END'",
            "SET SESSION AUTHORIZATION ada",
            "PREPARE TRANSACTION 'x'",
            "COMMIT PREPARED 'x'",
            "REINDEX TABLE t",
        ] {
            assert_eq!(code(&client, text).await, "0A000", "{text}");
        }
        client.batch_execute("UNLISTEN events; UNLISTEN *").await.expect("nothing");
    })
    .await;
}

#[tokio::test]
async fn the_time_has_the_types_of_postgresql() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        for (value, of) in [
            ("now()", "timestamp with time zone"),
            ("CURRENT_TIMESTAMP", "timestamp with time zone"),
            ("CURRENT_TIMESTAMP(0)", "timestamp with time zone"),
            ("LOCALTIMESTAMP", "timestamp without time zone"),
            ("LOCALTIMESTAMP(3)", "timestamp without time zone"),
            ("LOCALTIME", "time without time zone"),
            ("LOCALTIME(9)", "time without time zone"),
            ("CURRENT_DATE", "date"),
        ] {
            let found = values(&client, &format!("SELECT pg_typeof({value})")).await;
            assert_eq!(found, [of], "{value}");
        }
        client.batch_execute("SET TIME ZONE 'Asia/Tokyo'").await.expect("set");
        for condition in [
            "LOCALTIMESTAMP = now()::TIMESTAMP",
            "CURRENT_TIMESTAMP = now()",
            "LOCALTIMESTAMP(0) = date_trunc('second', LOCALTIMESTAMP(0))",
            "CURRENT_TIMESTAMP(0) <= now() + INTERVAL '1 second'",
            "CURRENT_TIMESTAMP(0) >= now() - INTERVAL '1 second'",
            "LOCALTIME = LOCALTIMESTAMP::TIME",
            "LOCALTIME(0)::TEXT ~ '^[0-9:]{8}$'",
            "CURRENT_TIME(0) = LOCALTIME(0)",
            "LOCALTIMESTAMP = now() AT TIME ZONE 'Asia/Tokyo'",
        ] {
            let holds = values(&client, &format!("SELECT {condition}")).await;
            assert_eq!(holds, ["t"], "{condition}");
        }
        for wrong in ["SELECT LOCALTIME(-1)", "SELECT CURRENT_TIMESTAMP(k) FROM (SELECT 1 AS k) q"]
        {
            client.batch_execute(wrong).await.expect_err(wrong);
        }
    })
    .await;
}

/// PostgreSQL cuts names after 63 bytes, with a notice; here two names that differ later are two.
#[tokio::test]
async fn long_names_count_in_full() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let common = "n".repeat(63);
        let [a, b] = ["a", "b"].map(|end| format!("{common}{end}"));
        let make = format!(
            "CREATE SCHEMA {a}; CREATE SCHEMA {b}; CREATE TABLE {a}.{a} ({a} INT, {b} INT); \
             CREATE TABLE {a}.{b} AS SELECT 7 AS {b}; INSERT INTO {a}.{a} VALUES (1, 2)"
        );
        client.batch_execute(&make).await.expect("made");
        assert_eq!(values(&client, &format!("SELECT {b} FROM {a}.{a}")).await, ["2"]);
        assert_eq!(values(&client, &format!("SELECT {b} FROM {a}.{b} AS {a}")).await, ["7"]);
        let found = "SELECT count(*) FROM pg_attribute WHERE length(attname) = 64";
        assert_eq!(values(&client, found).await, ["3"]);
        client
            .batch_execute(&format!("PREPARE {a} AS SELECT 1; PREPARE {b} AS SELECT 2"))
            .await
            .expect("prepared");
        assert_eq!(values(&client, &format!("EXECUTE {b}")).await, ["2"]);
        let begin = format!("BEGIN; DECLARE {a} CURSOR FOR SELECT 1; SAVEPOINT {a}");
        client.batch_execute(&begin).await.expect("begun");
        client.batch_execute(&format!("FETCH {a}")).await.expect("fetched");
        assert_eq!(code(&client, &format!("RELEASE {b}")).await, "3B001");
        client.batch_execute(&format!("ROLLBACK TO {a}")).await.expect("restored");
        assert_eq!(code(&client, &format!("FETCH {b}")).await, "34000");
        client.batch_execute("ROLLBACK").await.expect("ended");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_locked_by_statements_of_clients() {
    const TAKE: &str = "UPDATE t SET v = v + 1 WHERE k = (SELECT k FROM t WHERE v = 0 ORDER BY k \
                        FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING k";
    with_server(Limits::default(), |address| async move {
        let (one, other) = (connect(address).await, connect(address).await);
        let make = "CREATE TABLE t AS SELECT value AS k, 0 AS v FROM generate_series(1, 3)";
        one.batch_execute(make).await.expect("made");
        // A statement that is a transaction by itself, in both protocols.
        assert_eq!(values(&one, TAKE).await, ["1"]);
        let row = one.query_one(TAKE, &[]).await.expect("a row");
        assert_eq!(row.get::<_, i64>(0), 2);
        let select = "SELECT k FROM t WHERE v = $1::INT FOR NO KEY UPDATE";
        one.batch_execute("BEGIN").await.expect("begun");
        let row = one.query_one(select, &[&0_i32]).await.expect("a row");
        assert_eq!(row.get::<_, i64>(0), 3);
        assert_eq!(code(&other, "SELECT k FROM t FOR SHARE NOWAIT").await, "55P03");
        assert!(values(&other, "SELECT k FROM t FOR UPDATE SKIP LOCKED").await.is_empty());
        one.batch_execute("COMMIT").await.expect("ended");
        let declare = "BEGIN; DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k FOR UPDATE; FETCH c";
        assert_eq!(values(&one, declare).await, ["1"]);
        assert_eq!(code(&other, "SELECT k FROM t FOR UPDATE NOWAIT").await, "55P03");
        one.batch_execute("COMMIT").await.expect("ended");
        let held = "DECLARE c CURSOR WITH HOLD FOR SELECT k FROM t FOR UPDATE";
        assert_eq!(code(&one, held).await, "0A000");
        assert_eq!(code(&one, "SELECT k FROM t FOR UPDATE OF x").await, "42P01");
        // A transaction that has read the table before is to be run again.
        one.batch_execute("BEGIN; SELECT k FROM t").await.expect("read");
        other.batch_execute("UPDATE t SET v = 9").await.expect("changed");
        assert_eq!(code(&one, "SELECT k FROM t FOR UPDATE").await, "40001");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn advisory_locks_exclude_other_connections() {
    with_server(Limits::default(), |address| async move {
        let (one, other) = (connect(address).await, connect(address).await);
        assert_eq!(values(&one, "SELECT pg_advisory_lock(7)").await, [""]);
        for (query, answer) in [
            ("SELECT pg_try_advisory_lock(7)", "f"),
            ("SELECT pg_try_advisory_lock(0, 7)", "t"),
            ("SELECT pg_advisory_unlock(0, 7)", "t"),
            ("SELECT pg_advisory_unlock(7)", "f"),
            ("SELECT pg_try_advisory_xact_lock_shared(7)", "f"),
        ] {
            assert_eq!(values(&other, query).await, [answer], "{query}");
        }
        other.batch_execute("SET lock_timeout = 50").await.expect("set");
        assert_eq!(code(&other, "SELECT pg_advisory_lock(7)").await, "55P03");
        assert_eq!(code(&other, "SELECT pg_advisory_lock(3000000000, 1)").await, "22003");
        other.batch_execute("SET lock_timeout = 0").await.expect("set");
        let give = async {
            sleep(Duration::from_millis(50)).await;
            values(&one, "SELECT pg_advisory_unlock(7)").await
        };
        let (taken, given) = tokio::join!(values(&other, "SELECT pg_advisory_xact_lock(7)"), give);
        assert_eq!((taken.concat(), given.concat()), (String::new(), "t".to_owned()));
        // The statement was a transaction by itself.
        let try_lock = "SELECT pg_try_advisory_lock($1)";
        let row = one.query_one(try_lock, &[&"7"]).await.expect("a row");
        assert!(row.get::<_, bool>(0));
        one.batch_execute("SELECT pg_advisory_unlock_all()").await.expect("given");
        one.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(7)").await.expect("taken");
        assert_eq!(values(&other, "SELECT pg_try_advisory_lock(7)").await, ["f"]);
        one.batch_execute("COMMIT").await.expect("ended");
        assert_eq!(values(&other, "SELECT pg_try_advisory_lock(7)").await, ["t"]);
        // A transaction that goes on behind a savepoint keeps its locks.
        one.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(8); SAVEPOINT s").await.expect("8");
        assert_eq!(code(&one, "SELECT 1 / 0").await, "22012");
        one.batch_execute("ROLLBACK TO s").await.expect("restored");
        assert_eq!(values(&other, "SELECT pg_try_advisory_lock(8)").await, ["f"]);
        one.batch_execute("ROLLBACK").await.expect("ended");
        assert_eq!(values(&other, "SELECT pg_try_advisory_lock(8)").await, ["t"]);
        let many = "SELECT count(pg_try_advisory_lock(k)) FROM generate_series(1000, 10000) t(k)";
        assert_eq!(code(&one, many).await, "53200");
        one.batch_execute("SELECT pg_advisory_unlock_all()").await.expect("given");
        // The end of a connection gives its locks back.
        drop(other);
        let began = Instant::now();
        while values(&one, "SELECT pg_try_advisory_lock(7)").await != ["t"] {
            assert!(began.elapsed() < Duration::from_secs(10));
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
