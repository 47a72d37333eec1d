//! Notices: messages of statements that went on, with PostgreSQL's words and codes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures::{StreamExt as _, stream};
use terrace_server::Limits;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

use crate::common::with_server;

/// The notices that a client has received and not taken yet.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("not poisoned"))
    }
}

async fn connect(address: SocketAddr) -> (Client, Told) {
    let mut config = Config::new();
    config.host(address.ip().to_string()).port(address.port());
    config.user("someone").dbname("main");
    let (client, mut connection) = config.connect(NoTls).await.expect("connected");
    let told = Told::default();
    let all = told.clone();
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notice(notice) = message {
                let (severity, code) = (notice.severity(), notice.code().code());
                let text = format!("{severity} {code}: {}", notice.message());
                all.0.lock().expect("not poisoned").push(text);
            }
        }
    });
    (client, told)
}

#[tokio::test]
async fn statements_tell_what_they_skip() {
    with_server(Limits::default(), |address| async move {
        let (client, told) = connect(address).await;
        let skips = "NOTICE 00000: table \"nope\" does not exist, skipping";
        client.batch_execute("DROP TABLE IF EXISTS nope").await.expect("skipped");
        assert_eq!(told.take(), [skips], "by the simple protocol");
        client.execute("DROP TABLE IF EXISTS nope", &[]).await.expect("skipped");
        assert_eq!(told.take(), [skips], "by the extended protocol");

        // Each statement of a text tells its own; those before an error are told as well.
        let text = "CREATE TABLE t (x INT); CREATE TABLE IF NOT EXISTS t (x INT); \
                    DROP VIEW IF EXISTS v; SELECT 1 / 0";
        client.batch_execute(text).await.expect_err("a division by zero");
        assert_eq!(
            told.take(),
            [
                "NOTICE 42P07: relation \"t\" already exists, skipping",
                "NOTICE 00000: view \"v\" does not exist, skipping"
            ]
        );
        client.batch_execute("COMMIT; BEGIN; BEGIN; COMMIT; ROLLBACK").await.expect("warned");
        assert_eq!(
            told.take(),
            [
                "WARNING 25P01: there is no transaction in progress",
                "WARNING 25001: there is already a transaction in progress",
                "WARNING 25P01: there is no transaction in progress"
            ]
        );
        client.batch_execute("SET LOCAL TimeZone = 'UTC'").await.expect("warned");
        let local = "WARNING 25P01: SET LOCAL can only be used in transaction blocks";
        assert_eq!(told.take(), [local]);
        client.batch_execute("SET TRANSACTION READ ONLY").await.expect("warned");
        let mode = "WARNING 25P01: SET TRANSACTION can only be used in transaction blocks";
        assert_eq!(told.take(), [mode]);
    })
    .await;
}

#[tokio::test]
async fn clients_choose_the_least_weight() {
    with_server(Limits::default(), |address| async move {
        let (client, told) = connect(address).await;
        let both = "DROP TABLE IF EXISTS nope; COMMIT";
        for (least, count) in [("error", 0), ("warning", 1), ("notice", 2), ("debug1", 2)] {
            client.batch_execute(&format!("SET client_min_messages = {least}")).await.expect("set");
            client.batch_execute(both).await.expect("skipped");
            assert_eq!(told.take().len(), count, "{least}");
        }
    })
    .await;
}
