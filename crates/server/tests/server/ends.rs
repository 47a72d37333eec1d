//! Servers whose statements keep all threads busy, and servers that shut down while statements run.

use std::time::{Duration, Instant};

use terrace_server::{Limits, Server};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{CancelToken, Client, Error, NoTls, SimpleQueryMessage};

use crate::common::connect;
use crate::running::{Running, engine};

/// A statement that takes one or two seconds and returns one row.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 3000) a (value), \
                    generate_series(1, 150000) b (value) WHERE a.value * b.value % 7 = 3";
/// A statement that never ends.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000000000) a (value)";
const SOON: Duration = Duration::from_secs(20);

/// A client with a running statement, and an idle client.
struct Clients {
    running: JoinHandle<Result<Vec<SimpleQueryMessage>, Error>>,
    cancel: CancelToken,
    idle: Client,
}

impl Clients {
    async fn of(server: &Running, statement: &'static str) -> Self {
        let (busy, idle) = (connect(server.address).await, connect(server.address).await);
        let cancel = busy.cancel_token();
        // Sent as one message: between two messages, a shutdown would end the client.
        let running = tokio::spawn(async move { busy.simple_query(statement).await });
        let began = Instant::now();
        let count = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = $1";
        while idle.query_one(count, &[&statement]).await.expect("counted").get::<_, i64>(0) == 0 {
            assert!(began.elapsed() < SOON, "{statement} does not run");
        }
        Self { running, cancel, idle }
    }
}

/// Returns a runtime with one thread, for statements.
pub fn one_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// Guard that occupies the only thread of a runtime until it is given back.
pub struct Taken {
    go_on: std::sync::mpsc::Sender<()>,
    busy: JoinHandle<()>,
}

impl Taken {
    pub async fn of(runtime: &Runtime) -> Self {
        let (taken, is_taken) = oneshot::channel::<()>();
        let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
        let busy = runtime.spawn(async move {
            let _waits = taken.send(());
            let _freed = goes_on.recv();
        });
        is_taken.await.expect("the thread is taken");
        Self { go_on, busy }
    }

    pub async fn give_back(self) {
        drop(self.go_on);
        self.busy.await.expect("the thread is free");
    }
}

fn with_shutdown_time(shutdown_time: Duration) -> Limits {
    Limits { shutdown_time, ..Limits::default() }
}

#[tokio::test]
async fn clients_log_in_and_cancel_while_statements_keep_their_threads() {
    let statements = one_thread();
    let engine = engine();
    let server = Server::new(engine.clone(), Limits::default(), None).expect("a server");
    let server = Running::of(engine, server.with_statements_in(statements.handle())).await;
    let Clients { running, cancel, idle } = Clients::of(&server, ENDLESS).await;
    let taken = Taken::of(&statements).await;
    let another = timeout(SOON, connect(server.address)).await.expect("another client logs in");
    timeout(SOON, cancel.cancel_query(NoTls)).await.expect("soon").expect("asked");
    taken.give_back().await;
    let ended = timeout(SOON, running).await.expect("soon").expect("a result");
    assert_eq!(ended.expect_err("cancelled").code(), Some(&SqlState::QUERY_CANCELED));
    drop((idle, another));
    server.end().await.close().expect("the engine is free");
    statements.shutdown_background();
}

#[tokio::test]
async fn statements_that_run_may_end_before_the_server_does() {
    let server = Running::start(engine(), with_shutdown_time(50 * SOON)).await;
    let Clients { running, idle, .. } = Clients::of(&server, LONG).await;
    let ends = server.end();
    let told = async {
        loop {
            if let Err(error) = idle.query_one("SELECT 1 + 1", &[]).await {
                return error;
            }
        }
    };
    let (engine, told) = tokio::join!(ends, told);
    assert!(told.is_closed() || told.code() == Some(&SqlState::ADMIN_SHUTDOWN), "{told}");
    let messages = running.await.expect("a task").expect("the statement ends");
    assert!(messages.iter().any(|message| matches!(message, SimpleQueryMessage::Row(_))));
    engine.close().expect("the engine is free");
}

#[tokio::test]
async fn statements_that_do_not_end_are_cancelled_with_the_server() {
    let limit = Duration::from_millis(200);
    let server = Running::start(engine(), with_shutdown_time(limit)).await;
    let Clients { running, .. } = Clients::of(&server, ENDLESS).await;
    let began = Instant::now();
    timeout(SOON, server.end()).await.expect("soon").close().expect("the engine is free");
    assert!(began.elapsed() >= limit);
    assert!(running.await.expect("a task").is_err());
}

#[tokio::test]
async fn a_second_request_ends_a_server_at_once() {
    let server = Running::start(engine(), with_shutdown_time(50 * SOON)).await;
    let Clients { running, .. } = Clients::of(&server, ENDLESS).await;
    server.ends.send(()).expect("told");
    server.ends.send(()).expect("told again");
    timeout(SOON, server.end()).await.expect("soon").close().expect("the engine is free");
    assert!(running.await.expect("a task").is_err());
}
