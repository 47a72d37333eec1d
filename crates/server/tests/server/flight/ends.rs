//! Ends of queries: cancellation, clients that vanish or read slowly, and the server's shutdown.

use std::time::Duration;

use arrow_flight::sql::{ActionCancelQueryRequest, ProstMessageExt as _};
use arrow_flight::{Action, CancelFlightInfoRequest};
use futures::StreamExt as _;
use prost::Message as _;
use terrace_server::Limits;
use terrace_sql::Engine;
use terrace_sql::query::{QueryState, WaitReason};
use tokio::time::{sleep, timeout};

use super::{Client, Flight, fetch, integers, query, refused, texts, ticket, update};
use crate::common::connect;
use crate::slow::{AT_HAND, ROWS, sorted};

/// A query that runs for minutes.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 1000000) AS a(x), \
                    generate_series(1, 1000000) AS b(y) WHERE x * y % 7 = 1";
/// A query with more rows than any buffer holds.
const WIDE: &str = "SELECT value, repeat('x', 1000) AS t \
                    FROM generate_series(1, 1000000) AS g(value)";

/// Waits until this number of queries run.
async fn until_running(engine: &Engine, count: usize) {
    let waited = timeout(Duration::from_secs(20), async {
        while engine.queries().running().len() != count {
            sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{:?}", engine.queries().running()));
}

async fn act(client: &mut Client, name: &str, body: Vec<u8>) -> Result<(), String> {
    let action = Action { r#type: name.to_owned(), body: body.into() };
    let told = client.do_action(action).await.map_err(|error| error.to_string())?;
    let told: Vec<_> = told.collect().await;
    told.into_iter().try_for_each(|result| result.map(drop).map_err(|error| error.to_string()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_are_cancelled_by_their_flight() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    for name in ["CancelQuery", "CancelFlightInfo"] {
        let info = client.execute(LONG.to_owned(), None).await.expect("planned");
        let cancel = match name {
            "CancelQuery" => {
                let info = info.encode_to_vec().into();
                ActionCancelQueryRequest { info }.as_any().encode_to_vec()
            }
            _ => CancelFlightInfoRequest::new(info.clone()).encode_to_vec(),
        };
        let mut stream = client.do_get(ticket(&info)).await.expect("begun");
        let read = tokio::spawn(async move {
            let mut error = None;
            while let Some(batch) = stream.next().await {
                error = batch.err();
            }
            error.map(|error| error.to_string())
        });
        sleep(Duration::from_millis(200)).await;
        act(&mut client, name, cancel.clone()).await.expect("cancelled");
        let error = timeout(Duration::from_secs(10), read).await.expect("it ends").expect("read");
        assert!(error.is_some_and(|error| error.contains("57014")));
        until_running(&flight.running.engine, 0).await;
        let again = act(&mut client, name, cancel).await.expect_err("it has ended");
        assert!(again.contains("no query of this flight"), "{again}");
    }
    // A query whose rows were never fetched.
    let info = client.execute(LONG.to_owned(), None).await.expect("planned");
    let cancel = CancelFlightInfoRequest::new(info.clone()).encode_to_vec();
    act(&mut client, "CancelFlightInfo", cancel).await.expect("cancelled");
    until_running(&flight.running.engine, 0).await;
    assert!(fetch(&mut client, &info).await.is_err());
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_connections_see_and_end_queries() {
    let flight = Flight::start(Limits::default()).await;
    let psql = connect(flight.running.address).await;
    let mut client = flight.connect().await;
    let reading = tokio::spawn(async move {
        let error = refused(&mut client, LONG).await;
        (client, error)
    });
    until_running(&flight.running.engine, 1).await;
    let find = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%1000000%' \
                AND state = 'active' AND query NOT LIKE '%pid%'";
    let shown = psql.query(find, &[]).await.expect("rows");
    assert_eq!(shown.len(), 1);
    let pid: i32 = shown[0].get(0);
    psql.query(&format!("SELECT pg_cancel_backend({pid})"), &[]).await.expect("cancelled");
    let ended = timeout(Duration::from_secs(10), reading).await.expect("it ends");
    let (mut client, error) = ended.expect("read");
    assert!(error.contains("57014"), "{error}");
    assert!(psql.query(find, &[]).await.expect("rows").is_empty(), "it rests");
    update(&mut client, "SET application_name = 'mine'").await;
    psql.query(&format!("SELECT pg_terminate_backend({pid})"), &[]).await.expect("terminated");
    sleep(Duration::from_millis(200)).await;
    let ended = refused(&mut client, "SHOW application_name").await;
    assert!(ended.contains("57P01"), "{ended}");
    let mut client = flight.connect().await;
    assert_eq!(texts(&mut client, "SHOW application_name").await, [""]);
    drop(psql);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_vanish_end_their_queries() {
    let flight = Flight::start(Limits::default()).await;
    let engine = flight.running.engine.clone();
    // The client vanishes while rows are computed.
    let mut client = flight.connect().await;
    let reading = tokio::spawn(async move { query(&mut client, LONG).await.map(drop) });
    until_running(&engine, 1).await;
    reading.abort();
    until_running(&engine, 0).await;
    // The client vanishes while a change runs.
    let mut client = flight.connect().await;
    let text = format!("CREATE TABLE t AS {LONG}");
    let changing = tokio::spawn(async move { client.execute_update(text, None).await });
    until_running(&engine, 1).await;
    changing.abort();
    until_running(&engine, 0).await;
    // The client vanishes while rows stay unread, and while a ticket waits.
    let mut client = flight.connect().await;
    let info = client.execute(WIDE.to_owned(), None).await.expect("planned");
    let mut stream = client.do_get(ticket(&info)).await.expect("begun");
    stream.next().await.expect("a batch").expect("rows");
    let _waits = client.execute(LONG.to_owned(), None).await.expect("planned");
    until_running(&engine, 2).await;
    drop(stream);
    until_running(&engine, 1).await;
    drop(client);
    until_running(&engine, 0).await;
    drop(engine);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_slows_its_query() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    let info = client.execute(WIDE.to_owned(), None).await.expect("planned");
    let mut stream = client.do_get(ticket(&info)).await.expect("begun");
    let mut read = stream.next().await.expect("a batch").expect("rows").num_rows();
    sleep(Duration::from_secs(1)).await;
    let running = flight.running.engine.queries().running();
    let returned = running[0].rows_returned();
    assert!(returned < 60_000, "{returned} rows of a million have left the query");
    while let Some(batch) = stream.next().await {
        read += batch.expect("rows").num_rows();
    }
    assert_eq!(read, 1_000_000);
    drop(running);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_rests_while_its_client_is_slow() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    let info = client.execute(sorted("slow_flight"), None).await.expect("planned");
    let mut stream = client.do_get(ticket(&info)).await.expect("begun");
    let mut read = stream.next().await.expect("a batch").expect("rows").num_rows();
    let running = flight.running.engine.queries().running();
    let [query] = running.as_slice() else { panic!("{running:?}") };
    let rests = timeout(Duration::from_secs(20), async {
        while query.state() != QueryState::Suspended || query.memory().pinned_bytes() > AT_HAND {
            sleep(Duration::from_millis(20)).await;
        }
    });
    rests.await.unwrap_or_else(|_| panic!("{query:?}"));
    assert_eq!(query.wait_reason(), Some(WaitReason::Client));
    while let Some(batch) = stream.next().await {
        read += batch.expect("rows").num_rows();
    }
    assert_eq!(read, ROWS);
    drop(running);
    // A query that is cancelled while it rests ends with an error.
    let info = client.execute(sorted("ended_flight"), None).await.expect("planned");
    let mut stream = client.do_get(ticket(&info)).await.expect("begun");
    stream.next().await.expect("a batch").expect("rows");
    sleep(Duration::from_secs(1)).await;
    let running = flight.running.engine.queries().running();
    running[0].cancel();
    drop(running);
    let mut last = None;
    while let Some(batch) = stream.next().await {
        last = batch.err();
    }
    assert!(last.is_some_and(|error| error.to_string().contains("57014")));
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_nothing_loses_its_query() {
    let unread_time = Duration::from_millis(500);
    let flight = Flight::start(Limits { unread_time, ..Limits::default() }).await;
    let mut client = flight.connect().await;
    let info = client.execute(WIDE.to_owned(), None).await.expect("planned");
    let mut stream = client.do_get(ticket(&info)).await.expect("begun");
    stream.next().await.expect("a batch").expect("rows");
    until_running(&flight.running.engine, 0).await;
    let mut last = None;
    while let Some(batch) = stream.next().await {
        last = batch.err();
    }
    assert!(last.is_some(), "the result has no end without an error");
    assert_eq!(integers(&mut client, "SELECT 1::bigint").await, [1]);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_server_waits_for_results() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    let text = "SELECT value FROM generate_series(1, 3000000) AS g(value)".to_owned();
    let info = client.execute(text, None).await.expect("planned");
    let mut stream = client.do_get(ticket(&info)).await.expect("begun");
    let mut read = stream.next().await.expect("a batch").expect("rows").num_rows();
    flight.running.ends.send(()).expect("told");
    sleep(Duration::from_millis(200)).await;
    while let Some(batch) = stream.next().await {
        read += batch.expect("rows").num_rows();
    }
    assert_eq!(read, 3_000_000);
    drop((client, stream));
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_server_cancels_what_takes_too_long() {
    let shutdown_time = Duration::from_millis(300);
    let flight = Flight::start(Limits { shutdown_time, ..Limits::default() }).await;
    let mut client = flight.connect().await;
    let reading = tokio::spawn(async move { query(&mut client, LONG).await.map(drop) });
    until_running(&flight.running.engine, 1).await;
    timeout(Duration::from_secs(10), flight.end()).await.expect("it ends");
    assert!(reading.await.expect("read").is_err());
}
