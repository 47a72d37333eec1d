//! Malformed messages and messages beyond the maximum length.

use crate::raw::{Raw, errors, message, query, start};
use crate::server::{assert_grown_by_at_most, assert_served, limits, resident_bytes, with_server};

const MIB: u64 = 1 << 20;

/// Length that a message announces without sending that many bytes.
const GIB: u32 = 1 << 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gibibyte_that_is_announced_is_refused_before_it_comes() {
    with_server(limits(), |address| async move {
        assert_served(address).await;
        let before = resident_bytes();
        for _ in 0..50 {
            let mut raw = Raw::connect(address).await;
            raw.send(&[&GIB.to_be_bytes()[..], b"\0\x03\0\0user\0"].concat()).await.expect("sent");
            assert_eq!(raw.last_error().await, "54000");
        }
        for kind in [b'Q', b'P', b'B', b'd', b'p'] {
            let (mut raw, ..) = Raw::log_in(address).await;
            let head = [&[kind][..], &GIB.to_be_bytes(), b"SELECT "].concat();
            raw.send(&head).await.expect("sent");
            assert_eq!(raw.last_error().await, "54000");
        }
        assert_served(address).await;
        assert_grown_by_at_most(32 * MIB, before);
    })
    .await;
}

/// A message may be as long as the limit; memory is taken only as its bytes arrive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_taken_for_what_has_come() {
    with_server(limits(), |address| async move {
        let before = resident_bytes();
        let mut waiting = Vec::new();
        for _ in 0..15 {
            let (mut raw, ..) = Raw::log_in(address).await;
            let length = 60_u32 << 20;
            raw.send(&[&b"Q"[..], &length.to_be_bytes(), b"SELECT "].concat()).await.expect("sent");
            waiting.push(raw);
        }
        assert_served(address).await;
        // The memory of 15 sessions, and not 15 times 60 MiB.
        assert_grown_by_at_most(96 * MIB, before);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_without_meaning_end_their_connection_with_one_error() {
    with_server(limits(), |address| async move {
        for wrong in [
            message(b'?', b""),
            message(b'Q', b"SELECT 1"),
            message(b'Q', b"SELECT 1\0SELECT 2\0"),
            message(b'P', b"\0SELECT 1\0\xff\xff"),
            message(b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xffab\0\0"),
            message(b'B', b"\0\0\0\0\0\x01\x80\0\0\0\0\0"),
            message(b'D', b"Xname\0"),
            message(b'E', b"\0"),
            message(b'S', b"more"),
            [&b"Q"[..], &3_u32.to_be_bytes()].concat(),
        ] {
            let (mut raw, ..) = Raw::log_in(address).await;
            raw.send(&wrong).await.expect("sent");
            assert_eq!(raw.last_error().await, "08P01", "{wrong:?}");
        }
        for wrong in [
            start(b"\0\x03\0\0user\0someone\0"),
            start(b"\0\x03\0\0user\0"),
            start(b"\0\x03\0\0user\0caf\xe9\0\0"),
            start(b"\0\x63\0\0user\0someone\0\0"),
            start(b"\x04\xd2\x16\x2e"),
            start(b""),
        ] {
            let mut raw = Raw::connect(address).await;
            raw.send(&wrong).await.expect("sent");
            assert_eq!(raw.last_error().await, "08P01", "{wrong:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_is_not_utf8_fails_and_the_connection_goes_on() {
    with_server(limits(), |address| async move {
        let (mut raw, ..) = Raw::log_in(address).await;
        raw.send(&message(b'Q', b"SELECT 'caf\xe9'\0")).await.expect("sent");
        assert_eq!(errors(&raw.answer().await), ["22021"]);
        let parse = message(b'P', b"\0SELECT 'caf\xe9'\0\0\0");
        raw.send(&[parse, message(b'S', b"")].concat()).await.expect("sent");
        assert_eq!(errors(&raw.answer().await), ["22021"]);
        raw.send(&query("SELECT 1")).await.expect("sent");
        let answer = raw.answer().await;
        assert!(answer.iter().any(|(kind, _)| *kind == b'D'), "{answer:?}");
    })
    .await;
}
