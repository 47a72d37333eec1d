//! Slow clients: their queries are suspended, and resume without a visible effect.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use terrace_server::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::clients::{STARTUP, query};
use crate::common::{connect, with_server};

pub const ROWS: usize = 400_000;

/// Returns a query that holds pages while its rows are read.
pub fn sorted(mark: &str) -> String {
    format!(
        "SELECT '{mark}' || lpad(k, 30, '-') AS t FROM (SELECT value * 7919 % 400009 AS n, \
         value::varchar AS k FROM generate_series(1, {ROWS}) g(value)) x ORDER BY n"
    )
}

/// Returns the rows of a query in the simple protocol, as texts.
async fn texts(client: &Client, text: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(text).await.expect("a query");
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|n| row.get(n).unwrap_or_default().to_owned()).collect())
        }
        _ => None,
    };
    messages.iter().filter_map(row).collect()
}

/// Returns state, wait reason, pinned bytes and id of the queries that contain a mark.
async fn states(watcher: &Client, mark: &str) -> Vec<Vec<String>> {
    let text = format!(
        "SELECT state, wait_reason, pinned_bytes, id FROM terrace.queries WHERE statement LIKE \
         '%{mark}%' AND statement NOT LIKE '%terrace.queries%'"
    );
    texts(watcher, &text).await
}

/// Maximum bytes of the batches that a suspended query keeps pinned; a sort pins six times as many.
pub const AT_HAND: u64 = 2 << 20;

/// Waits until the query with a mark is suspended for its client and its operators pin nothing.
/// Returns its id.
async fn comes_to_rest(watcher: &Client, mark: &str) -> String {
    let start = Instant::now();
    loop {
        let states = states(watcher, mark).await;
        if let [state] = states.as_slice()
            && state[..2] == ["suspended", "client"]
            && state[2].parse::<u64>().is_ok_and(|pinned| pinned < AT_HAND)
        {
            return state[3].clone();
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{mark}: {states:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Logs in and reads no further than that.
pub async fn log_in(address: SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(address).await.expect("connected");
    client.write_all(STARTUP).await.expect("sent");
    read_answer(&mut client).await;
    client
}

/// Reads the bytes of an answer, up to its end.
async fn read_answer(client: &mut TcpStream) -> Vec<u8> {
    let (mut all, mut some) = (Vec::new(), vec![0; 1 << 20]);
    while !all.ends_with(b"Z\0\0\0\x05I") {
        let count = client.read(&mut some).await.expect("read");
        assert!(count > 0, "the server has closed the connection");
        all.extend_from_slice(&some[..count]);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_rests_while_its_client_is_slow() {
    with_server(Limits::default(), |address| async move {
        let watcher = connect(address).await;
        for (mark, text) in [
            ("slow_rows", sorted("slow_rows")),
            ("slow_copy", format!("COPY ({}) TO STDOUT", sorted("slow_copy"))),
        ] {
            let mut client = log_in(address).await;
            client.write_all(&query(&text)).await.expect("sent");
            comes_to_rest(&watcher, mark).await;
            let answer = read_answer(&mut client).await;
            let rows = answer.windows(mark.len()).filter(|bytes| *bytes == mark.as_bytes());
            assert_eq!(rows.count(), ROWS, "{mark}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_rests_between_two_fetches() {
    with_server(Limits::default(), |address| async move {
        let (watcher, client) = (connect(address).await, connect(address).await);
        let declare = format!("BEGIN; DECLARE c CURSOR FOR {}", sorted("cursor_rows"));
        client.batch_execute(&declare).await.expect("declared");
        let mut rows = 0;
        for count in [10, 10_000] {
            rows += texts(&client, &format!("FETCH {count} FROM c")).await.len();
            comes_to_rest(&watcher, "cursor_rows").await;
        }
        rows += texts(&client, "FETCH ALL FROM c").await.len();
        assert_eq!(rows, ROWS);
        // The next FETCH reports that the query was cancelled while it was suspended.
        let declare = format!("DECLARE d CURSOR FOR {}; FETCH 1 FROM d", sorted("ended_rows"));
        client.batch_execute(&declare).await.expect("a row");
        let id = comes_to_rest(&watcher, "ended_rows").await;
        watcher.batch_execute(&format!("CANCEL QUERY {id}")).await.expect("cancelled");
        assert!(client.simple_query("FETCH ALL FROM d").await.is_err());
    })
    .await;
}
