//! Waits for locks of tables that end at `lock_timeout`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use terrace_server::Limits;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use crate::common::{connect, with_server};

/// Returns the value of the setting.
async fn shown(client: &Client) -> String {
    let messages = client.simple_query("SHOW lock_timeout").await.expect("shown");
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    messages.iter().find_map(row).expect("a row")
}

/// Runs a statement that must fail at its limit.
async fn late(client: &Client, text: &str, limit: Duration) {
    let began = Instant::now();
    let error = client.simple_query(text).await.expect_err("locked");
    assert_eq!(error.code(), Some(&SqlState::LOCK_NOT_AVAILABLE), "{text}: {error:?}");
    let message = error.as_db_error().expect("of the server").message();
    assert!(message.starts_with("canceling statement due to lock timeout"), "{text}: {message}");
    let waited = began.elapsed();
    assert!(waited >= limit && waited < Duration::from_secs(30), "{text}: {waited:?}");
}

/// Returns a client in a transaction that holds the lock of table `t`, which it has made.
async fn holder(address: SocketAddr) -> Client {
    let client = connect(address).await;
    client.batch_execute("CREATE TABLE t AS SELECT 1 AS k").await.expect("made");
    client.batch_execute("BEGIN; UPDATE t SET k = 2").await.expect("locked");
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_fails_at_its_limit_and_its_session_goes_on() {
    with_server(Limits::default(), |address| async move {
        let holder = holder(address).await;
        let client = connect(address).await;
        let limit = Duration::from_millis(200);
        client.batch_execute("SET lock_timeout = 200").await.expect("set");
        for text in ["UPDATE t SET k = 3", "DELETE FROM t WHERE k = 1", "DROP TABLE t"] {
            late(&client, text, limit).await;
        }
        let update = client.execute("UPDATE t SET k = 4", &[]).await.expect_err("locked");
        assert_eq!(update.code(), Some(&SqlState::LOCK_NOT_AVAILABLE), "{update:?}");
        let row = client.query_one("SELECT k FROM t", &[]).await.expect("a row");
        assert_eq!(row.get::<_, i64>(0), 1);
        client.batch_execute("INSERT INTO t VALUES (7)").await.expect("it waits for no lock");

        // Without a limit, the statement waits for the end of the transaction.
        client.batch_execute("RESET lock_timeout").await.expect("reset");
        let commit = async {
            tokio::time::sleep(3 * limit).await;
            holder.batch_execute("COMMIT").await
        };
        let (updated, committed) =
            tokio::join!(client.batch_execute("UPDATE t SET k = 5 WHERE k = 2"), commit);
        updated.and(committed).expect("both");
        let row = client.query_one("SELECT sum(k) FROM t", &[]).await.expect("a row");
        assert_eq!(row.get::<_, i64>(0), 12);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_lasts_as_long_as_its_transaction_or_savepoint() {
    with_server(Limits::default(), |address| async move {
        let holder = holder(address).await;
        let client = connect(address).await;
        client.batch_execute("SET lock_timeout = '1min'").await.expect("set");
        client
            .batch_execute("BEGIN; SAVEPOINT s; SET LOCAL lock_timeout = '150'")
            .await
            .expect("s");
        late(&client, "UPDATE t SET k = 3", Duration::from_millis(150)).await;
        client.batch_execute("ROLLBACK TO s").await.expect("restored");
        assert_eq!(shown(&client).await, "1min");
        client.batch_execute("SET LOCAL lock_timeout = 100; SAVEPOINT u").await.expect("set");
        client.batch_execute("SET lock_timeout = 0; ROLLBACK TO u").await.expect("restored");
        assert_eq!(shown(&client).await, "100ms");
        late(&client, "TRUNCATE t", Duration::from_millis(100)).await;
        client.batch_execute("ROLLBACK").await.expect("ended");
        assert_eq!(shown(&client).await, "1min");

        client
            .batch_execute("BEGIN; SELECT set_config('lock_timeout', '120', true)")
            .await
            .expect("1");
        late(&client, "UPDATE t SET k = 3", Duration::from_millis(120)).await;
        client.batch_execute("COMMIT").await.expect("rolled back");
        assert_eq!(shown(&client).await, "1min");

        client.batch_execute("SET terrace.lock_timeout = '130ms'").await.expect("the same setting");
        assert_eq!(shown(&client).await, "130ms");
        late(&client, "UPDATE t SET k = 3", Duration::from_millis(130)).await;
        client.batch_execute("DISCARD ALL").await.expect("reset");
        assert_eq!(shown(&client).await, "0");
        holder.batch_execute("ROLLBACK").await.expect("ended");
        client.batch_execute("UPDATE t SET k = 6").await.expect("free");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_is_an_option_of_the_login() {
    with_server(Limits::default(), |address| async move {
        let holder = holder(address).await;
        let mut config = Config::new();
        config.host(address.ip().to_string()).port(address.port());
        config.user("someone").dbname("main").options("-c lock_timeout=150ms");
        let (client, connection) = config.connect(NoTls).await.expect("connected");
        tokio::spawn(connection);
        assert_eq!(shown(&client).await, "150ms");
        late(&client, "UPDATE t SET k = 3", Duration::from_millis(150)).await;
        client.batch_execute("SET lock_timeout = '1h'; RESET ALL").await.expect("reset");
        late(&client, "UPDATE t SET k = 3", Duration::from_millis(150)).await;
        drop(holder);
    })
    .await;
}

/// Values as PostgreSQL 15 shows and refuses them.
#[tokio::test]
async fn values_are_shown_as_in_postgresql() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        assert_eq!(shown(&client).await, "0");
        for (value, expected) in [
            ("5000", "5s"),
            ("'1500'", "1500ms"),
            ("'90s'", "90s"),
            ("'1.5s'", "1500ms"),
            ("'120 min'", "2h"),
            ("'36h'", "36h"),
            ("'1 d'", "1d"),
            ("'600us'", "1ms"),
            ("DEFAULT", "0"),
        ] {
            client.batch_execute(&format!("SET lock_timeout = {value}")).await.expect("set");
            assert_eq!(shown(&client).await, expected, "{value}");
        }
        for value in ["'abc'", "'5 x'", "'5S'", "'1000d'", "''", "'5ns'", "-1"] {
            let refused = client.batch_execute(&format!("SET lock_timeout = {value}")).await;
            let code = refused.expect_err("refused").code().cloned();
            assert_eq!(code, Some(SqlState::INVALID_PARAMETER_VALUE), "{value}");
        }
    })
    .await;
}
