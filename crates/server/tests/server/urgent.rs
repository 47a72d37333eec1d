//! Sessions with a priority, while statements of other sessions keep all threads busy.

use std::time::Duration;

use terrace_server::{Limits, Server};
use tokio::time::timeout;

use crate::common::connect;
use crate::ends::{Taken, one_thread};
use crate::running::{Running, engine};

const SOON: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);
const QUERY: &str = "SELECT count(*) FROM generate_series(1, 1000) s";
const URGENT: &str = "latency 50ms penalty 1, priority 1";

#[tokio::test]
async fn statements_with_a_priority_do_not_wait_for_steps_of_others() {
    let (statements, urgent) = (one_thread(), one_thread());
    let engine = engine();
    let server = Server::new(engine.clone(), Limits::default(), None).expect("a server");
    let server =
        server.with_statements_in(statements.handle()).with_urgent_statements_in(urgent.handle());
    let server = Running::of(engine, server).await;
    let client = connect(server.address).await;
    let count = async || client.query_one(QUERY, &[]).await.expect("counted").get::<_, i64>(0);
    let set = async |sla: &str| {
        let set = format!("SET terrace.sla = '{sla}'");
        client.batch_execute(&set).await.expect("set");
        assert_eq!(count().await, 1000, "between two states");
    };

    let taken = Taken::of(&statements).await;
    assert!(timeout(SHORT, count()).await.is_err(), "the only thread is taken");
    taken.give_back().await;

    set(URGENT).await;
    let taken = Taken::of(&statements).await;
    assert_eq!(timeout(SOON, count()).await.expect("soon"), 1000);
    taken.give_back().await;

    set("latency 50ms penalty 1").await;
    let taken = Taken::of(&urgent).await;
    assert_eq!(timeout(SOON, count()).await.expect("soon"), 1000);
    let taken_too = Taken::of(&statements).await;
    assert!(timeout(SHORT, count()).await.is_err(), "it has a priority no more");
    taken.give_back().await;
    taken_too.give_back().await;

    drop(client);
    server.end().await.close().expect("the engine is free");
    statements.shutdown_background();
    urgent.shutdown_background();
}
