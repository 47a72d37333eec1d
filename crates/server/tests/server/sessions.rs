//! `terrace.sessions`: the state of sessions, and the memory that they hold for their clients.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::SinkExt as _;
use terrace_server::Limits;
use tokio::io::AsyncWriteExt as _;
use tokio_postgres::Client;

use crate::clients::query;
use crate::common::{connect, with_server};
use crate::slow::log_in;

const ROW_BYTES: usize = 3 << 20;

/// Returns the only value of a query, as a text.
async fn value(client: &Client, text: &str) -> String {
    let row = client.query_one(&format!("SELECT ({text})::text"), &[]).await.expect("a row");
    row.get::<_, Option<String>>(0).unwrap_or_default()
}

/// Waits until a query of one value returns `wanted`.
async fn comes_to(client: &Client, text: &str, wanted: &str) {
    let began = Instant::now();
    loop {
        let now = value(client, text).await;
        if now == wanted {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{text}: {now}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_show_what_they_do() {
    with_server(Limits::default(), |address| async move {
        let (watcher, other) = (connect(address).await, connect(address).await);
        let own = "SELECT client LIKE '127.0.0.1:%' FROM terrace.sessions WHERE queries = 1";
        assert_eq!(value(&watcher, own).await, "true");
        let state = "SELECT max(state) FROM terrace.sessions WHERE queries = 0";
        assert_eq!(value(&watcher, state).await, "idle");
        other.batch_execute("BEGIN").await.expect("begun");
        assert_eq!(value(&watcher, state).await, "idle in transaction");
        other.batch_execute("SELECT nothing").await.expect_err("no column");
        assert_eq!(value(&watcher, state).await, "idle in failed transaction");
        other.batch_execute("ROLLBACK").await.expect("rolled back");
        let count = "SELECT count(*) FROM terrace.sessions WHERE client IS NOT NULL";
        assert_eq!(value(&watcher, count).await, "2");
        let session = "SELECT count(*) FROM terrace.queries q JOIN terrace.sessions s \
                       ON q.session = s.id";
        assert_eq!(value(&watcher, session).await, "1");
        drop(other);
        comes_to(&watcher, count, "1").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_accounts_for_what_sessions_hold() {
    with_server(Limits::default(), |address| async move {
        let (watcher, other) = (connect(address).await, connect(address).await);
        let balance = "SELECT sum(client_bytes + prepared_bytes) = (SELECT held_bytes FROM \
                       terrace.consumers WHERE consumer = 'sessions') FROM terrace.sessions";
        assert_eq!(value(&watcher, balance).await, "true");
        // A prepared statement with a long literal.
        let prepared = "SELECT max(prepared_bytes) > 100000 FROM terrace.sessions";
        assert_eq!(value(&watcher, prepared).await, "false");
        let text = format!("SELECT $1::bigint, '{}'", "x".repeat(100_000));
        let statement = other.prepare(&text).await.expect("prepared");
        assert_eq!(value(&watcher, prepared).await, "true");
        assert_eq!(value(&watcher, balance).await, "true");
        drop(statement);
        comes_to(&watcher, prepared, "false").await;
        // A row that its client has not sent completely.
        let held = format!("SELECT max(client_bytes) > {ROW_BYTES} FROM terrace.sessions");
        assert_eq!(value(&watcher, &held).await, "false");
        other.batch_execute("CREATE TABLE t (name TEXT)").await.expect("made");
        let mut rows = Box::pin(other.copy_in("COPY t FROM STDIN").await.expect("begun"));
        rows.send(Bytes::from(vec![b'x'; ROW_BYTES + 1])).await.expect("sent");
        rows.flush().await.expect("sent");
        comes_to(&watcher, &held, "true").await;
        rows.send(Bytes::from_static(b"\n")).await.expect("sent");
        assert_eq!(rows.as_mut().finish().await.expect("inserted"), 1);
        comes_to(&watcher, &held, "false").await;
        // A row that its client does not read.
        let mut slow = log_in(address).await;
        let text = format!("SELECT name || '{}' FROM t", "y".repeat(ROW_BYTES));
        slow.write_all(&query(&text)).await.expect("sent");
        comes_to(&watcher, &held, "true").await;
        // The row is still being written, between the two sides of the balance.
        comes_to(&watcher, balance, "true").await;
        drop(slow);
        comes_to(&watcher, &held, "false").await;
        comes_to(&watcher, balance, "true").await;
    })
    .await;
}

/// Statements about passwords and keys are shown to other connections without them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_and_keys_are_not_shown() {
    with_server(Limits::default(), |address| async move {
        let (other, watcher) = (connect(address).await, connect(address).await);
        for text in [
            "CREATE ROLE ada LOGIN PASSWORD 'hidden'",
            "ALTER ROLE nosuch PASSWORD 'hidden'",
            "CREATE ROLE ada PASSWORD 'hidden",
            "CREATE SECRET s (TYPE s3, KEY_ID 'hidden', SECRET 'hidden')",
            "SELECT 1; DROP SECRET s; CREATE SECRET s (TYPE s3, KEY_ID 'hidden', SECRET 'hidden')",
        ] {
            // Those that fail are shown too.
            let _ = other.batch_execute(text).await;
            for shown in [
                "SELECT string_agg(query, ' ') FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
                "SELECT string_agg(statement, ' ') FROM terrace.queries WHERE statement NOT LIKE \
                 '%terrace.queries%'",
                "SELECT string_agg(name || ' ' || scope, ' ') FROM terrace.secrets",
            ] {
                let shown = value(&watcher, shown).await;
                assert!(!shown.contains("hidden"), "{text}: {shown}");
            }
        }
    })
    .await;
}
