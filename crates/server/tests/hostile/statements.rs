//! Long and deeply nested statements, and clients that leave in the middle of a COPY.

use crate::raw::{Raw, errors, message, query};
use crate::server::{
    assert_grown_by_at_most, assert_idle_within, assert_served, limits, resident_bytes, with_server,
};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Asserts that a text is answered with at most one error, and that the connection goes on.
async fn assert_answered(raw: &mut Raw, text: &str, classes: &[&str]) {
    raw.send(&query(text)).await.expect("sent");
    let messages = raw.answer().await;
    let found = errors(&messages);
    let start: String = text.chars().take(40).collect();
    assert!(found.len() <= 1, "{start}: {found:?}");
    assert!(found.iter().all(|class| classes.contains(&class.as_str())), "{start}: {found:?}");
    assert!(matches!(messages.last(), Some((b'Z', _))), "{start}: the connection goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_texts_are_run_or_refused() {
    with_server(limits(), |address| async move {
        let (mut raw, ..) = Raw::log_in(address).await;
        let before = resident_bytes();
        let long = "x".repeat(20 << 20);
        assert_answered(&mut raw, &format!("SELECT length('{long}')"), &["53200", "54000"]).await;
        let refused = ["0A000", "42601"];
        for many in ["1 + ", "1, ", "(1), ", "a.", "NOT "] {
            let text = format!("SELECT {} 1", many.repeat(30_000_000 / many.len()));
            assert_answered(&mut raw, &text, &refused).await;
        }
        assert_answered(&mut raw, &format!("SELECT {} 1", "1, ".repeat(100_000)), &refused).await;
        let rows = "(1), ".repeat(100_000);
        let rows = format!("CREATE TABLE rows (k BIGINT); INSERT INTO rows VALUES {rows} (2)");
        assert_answered(&mut raw, &rows, &[]).await;
        assert_served(address).await;
        drop((long, rows));
        let (mut other, ..) = Raw::log_in(address).await;
        let longest = query(&format!("SELECT '{}'", "x".repeat(100 << 20)));
        // The send may fail: the server does not read all of the message before it refuses it.
        drop(other.send(&longest).await);
        drop(longest);
        let messages = other.answer().await;
        assert!(errors(&messages).iter().all(|class| class == "54000"), "{:?}", errors(&messages));
        assert_served(address).await;
        assert_grown_by_at_most(512 * MIB, before);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deep_statements_are_run_or_refused() {
    with_server(limits(), |address| async move {
        let (mut raw, ..) = Raw::log_in(address).await;
        let refused = ["0A000", "42601", "54001", "42000"];
        for depth in [500, 5_000, 50_000, 500_000] {
            for (open, close) in [
                ("(", ")"),
                ("NOT (", ")"),
                ("-(", ")"),
                ("(SELECT ", ")"),
                ("CASE WHEN true THEN ", " END"),
                ("abs(", ")"),
                ("ARRAY[", "]"),
            ] {
                let text = format!("SELECT {}1{}", open.repeat(depth), close.repeat(depth));
                let refused = [&refused[..], &["22000", "42804", "XX000", "42883"]].concat();
                assert_answered(&mut raw, &text, &refused).await;
            }
        }
        let unions = "SELECT 1 UNION ALL ".repeat(100_000);
        assert_answered(&mut raw, &format!("{unions} SELECT 1"), &refused).await;
        let many = "SELECT 1;".repeat(20_000);
        raw.send(&query(&many)).await.expect("sent");
        let rows = raw.answer().await.iter().filter(|(kind, _)| *kind == b'D').count();
        assert_eq!(rows, 20_000);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_ends_within_a_copy_has_inserted_nothing() {
    with_server(limits(), |address| async move {
        let (mut asking, ..) = Raw::log_in(address).await;
        assert_answered(&mut asking, "CREATE TABLE taken (k BIGINT, s TEXT)", &[]).await;
        let before = resident_bytes();
        for way in 0..4 {
            let (mut raw, ..) = Raw::log_in(address).await;
            raw.send(&query("COPY taken FROM STDIN")).await.expect("sent");
            assert_eq!(raw.next().await.expect("read").expect("a message").0, b'G');
            let rows = "1\tsome text of a row\n".repeat(10_000);
            for _ in 0..20 {
                raw.send(&message(b'd', rows.as_bytes())).await.expect("sent");
            }
            match way {
                // Leaves in the middle of a message.
                0 => raw.send(b"d\0\0\x10\0half of a").await.expect("sent"),
                1 => raw.send(&message(b'X', b"")).await.expect("sent"),
                2 => raw.send(&message(b'Q', b"SELECT 1\0")).await.expect("sent"),
                _ => {}
            }
            drop(raw);
        }
        assert_idle_within(address, Duration::from_secs(5)).await;
        asking.send(&query("SELECT count(*) FROM taken")).await.expect("sent");
        let answer = asking.answer().await;
        let row = answer.iter().find(|(kind, _)| *kind == b'D').expect("a row");
        assert_eq!(row.1, b"\0\x01\0\0\0\x010");
        assert_grown_by_at_most(160 * MIB, before);
    })
    .await;
}
