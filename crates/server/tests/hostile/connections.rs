//! Connections that send nothing or too little, or that are too many.

use std::time::{Duration, Instant};

use terrace_server::Limits;
use tokio::io::AsyncWriteExt as _;

use crate::raw::{Raw, cancel, errors, message, query, startup};
use crate::server::{
    assert_grown_by_at_most, assert_idle_within, assert_served, is_soak, limits, resident_bytes,
    running, with_server,
};

const MIB: u64 = 1 << 20;

/// Maximum time until a statement ends whose client is gone.
const SOON: Duration = Duration::from_secs(3);

/// A statement that does not end by itself.
const ENDLESS: &str = "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) \
                       SELECT count(*) FROM t";

/// Returns the maximum number of file descriptors of this process.
fn descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").expect("the limits");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("a line");
    line.split_whitespace().next().and_then(|count| count.parse().ok()).unwrap_or(1024)
}

/// Connections that do not log in take no client's permit, and are closed after a timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_say_nothing_or_little_keep_none_out() {
    with_server(limits(), |address| async move {
        let before = resident_bytes();
        let mut silent = Vec::new();
        for _ in 0..200 {
            silent.push(Raw::connect(address).await);
        }
        // Slow loris: sends one byte from time to time.
        let mut slow = Raw::connect(address).await;
        let dripping = tokio::spawn(async move {
            let began = Instant::now();
            for byte in startup() {
                if slow.send(&[byte]).await.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            (slow.answer().await, began.elapsed())
        });
        assert_served(address).await;
        assert_grown_by_at_most(32 * MIB, before);
        for mut raw in silent {
            let messages = raw.answer().await;
            assert!(errors(&messages).iter().all(|class| class == "08006"), "{messages:?}");
        }
        let (messages, took) = dripping.await.expect("it ends");
        assert!(!messages.iter().any(|(kind, _)| *kind == b'Z'), "{messages:?}");
        assert!(took < Duration::from_secs(20), "{took:?}");
    })
    .await;
}

/// Opens as many connections at once as the machine allows, most of them beyond the limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_beyond_the_limit_are_told_so_and_cost_little() {
    let most = if is_soak() { 10_000 } else { 300 };
    // A connection takes three descriptors here: one in the client, two in the server.
    let count = most.min(descriptors().saturating_sub(200) / 3);
    let limits = Limits { login_time: Duration::from_secs(60), ..limits() };
    with_server(limits, |address| async move {
        let before = resident_bytes();
        let mut all = Vec::new();
        for _ in 0..count {
            let mut raw = Raw::connect(address).await;
            raw.send(&startup()).await.expect("sent");
            all.push(raw);
        }
        let mut served = 0;
        let mut open = Vec::new();
        for mut raw in all {
            let messages = raw.answer().await;
            match messages.last() {
                Some((b'Z', _)) => {
                    served += 1;
                    open.push(raw);
                }
                _ => assert_eq!(errors(&messages), ["53300"], "{messages:?}"),
            }
        }
        assert_eq!(served, 20);
        assert_grown_by_at_most(64 * MIB, before);
        drop(open);
        // The permits are released within this time.
        tokio::time::sleep(Duration::from_millis(500)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_ends_soon_after_its_client_has() {
    with_server(limits(), |address| async move {
        // The first client shuts down its write side, the second closes the connection, the third
        // closes it with another statement queued.
        for way in 0..3 {
            let (mut raw, ..) = Raw::log_in(address).await;
            raw.send(&query(ENDLESS)).await.expect("sent");
            if way == 2 {
                raw.send(&query("SELECT 1")).await.expect("sent");
            }
            let (mut asking, ..) = Raw::log_in(address).await;
            let began = Instant::now();
            while running(&mut asking).await != "2" {
                assert!(began.elapsed() < SOON, "it does not begin");
            }
            drop(asking);
            match way {
                0 => raw.stream.shutdown().await.expect("closed"),
                _ => drop(raw),
            }
            assert_idle_within(address, SOON).await;
        }
    })
    .await;
}

/// A client that does not read is disconnected, and its statement ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_nothing_is_disconnected() {
    with_server(limits(), |address| async move {
        let before = resident_bytes();
        let (mut raw, ..) = Raw::log_in(address).await;
        let many = "SELECT repeat('x', 1000), value FROM generate_series(1, 100000000)";
        raw.send(&query(many)).await.expect("sent");
        assert_served(address).await;
        assert_idle_within(address, limits().unread_time + SOON).await;
        assert_grown_by_at_most(96 * MIB, before);
        drop(raw);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_keys_cancel_nothing() {
    with_server(limits(), |address| async move {
        let (mut raw, number, secret) = Raw::log_in(address).await;
        raw.send(&query(ENDLESS)).await.expect("sent");
        for attempt in 1..500 {
            let wrong = match attempt % 3 {
                0 => cancel(number, secret.wrapping_add(attempt)),
                1 => cancel(number.wrapping_add(attempt), secret),
                _ => cancel(-attempt, attempt),
            };
            let mut other = Raw::connect(address).await;
            other.send(&wrong).await.expect("sent");
            assert!(other.answer().await.is_empty(), "it is not told a word");
        }
        let (mut asking, ..) = Raw::log_in(address).await;
        assert_eq!(running(&mut asking).await, "2");
        let mut other = Raw::connect(address).await;
        other.send(&cancel(number, secret)).await.expect("sent");
        assert_eq!(errors(&raw.answer().await), ["57014"]);
        raw.send(&message(b'X', b"")).await.expect("sent");
    })
    .await;
}
