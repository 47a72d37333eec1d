//! Statements that are cancelled while they are planned.

use std::time::Duration;

use terrace_server::Limits;
use tokio::time::timeout;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use crate::common::{connect, with_server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_is_being_planned_ends_too() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        client.simple_query("CREATE TABLE j AS SELECT 1 AS i").await.expect("made");
        let joins = (1..100).map(|k| format!("JOIN j j{k} ON j{k}.i = j{}.i", k - 1));
        let select = format!("SELECT j0.i FROM j j0 {}", joins.collect::<Vec<_>>().join(" "));
        let long = vec![select; 70].join(" UNION ALL ");
        let cancel = client.cancel_token();
        let (text, watcher) = (long.clone(), connect(address).await);
        let asked = tokio::spawn(async move {
            let ended = client.simple_query(&text).await;
            (ended, client)
        });
        let running = "SELECT count(*) FROM terrace.queries WHERE statement LIKE '% j99 ON j99.%' \
                       AND statement NOT LIKE '%queries%'";
        while watcher.query_one(running, &[]).await.expect("queries").get::<_, i64>(0) == 0 {
            assert!(!asked.is_finished(), "its planning must take long");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!asked.is_finished(), "its planning must take long");
        cancel.cancel_query(NoTls).await.expect("asked to cancel");
        let ended = timeout(Duration::from_secs(3), asked).await.expect("soon");
        let (ended, client) = ended.expect("no panic");
        assert_eq!(ended.expect_err("cancelled").code(), Some(&SqlState::QUERY_CANCELED));
        client.simple_query("SET statement_timeout = 200").await.expect("set");
        let late = client.simple_query(&long).await.expect_err("too late");
        assert_eq!(late.code(), Some(&SqlState::QUERY_CANCELED), "{late:?}");
        let message = late.as_db_error().expect("of the server").message();
        assert!(message.contains("statement_timeout"), "{message}");
    })
    .await;
}
