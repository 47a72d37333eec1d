//! Settings that last as long as their transaction.

use terrace_server::Limits;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::common::{connect, with_server};

/// Runs statements. Returns the first value of each row.
async fn values(client: &Client, text: &str) -> Vec<String> {
    let messages = match client.simple_query(text).await {
        Ok(messages) => messages,
        Err(error) => panic!("{text}: {error:?}"),
    };
    let value = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    messages.iter().filter_map(value).collect()
}

/// Returns the value of a setting, which SHOW and `current_setting` must agree on.
async fn shown(client: &Client, name: &str) -> String {
    let both = values(client, &format!("SHOW {name}; SELECT current_setting('{name}')")).await;
    assert_eq!(both[0], both[1], "{name}");
    both[0].clone()
}

async fn check(client: &Client, name: &str, value: &str, after: &str) {
    assert_eq!(shown(client, name).await, value, "{name} after {after}");
}

#[tokio::test]
async fn settings_end_with_their_transaction() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let moment = "SELECT TIMESTAMPTZ '2024-07-01 12:00:00+00'";

        let local = "BEGIN; SET LOCAL TimeZone = 'Europe/Berlin'; SET statement_timeout = '50s'";
        values(&client, local).await;
        check(&client, "TimeZone", "Europe/Berlin", local).await;
        assert!(values(&client, moment).await[0].starts_with("2024-07-01 14:00:00"));
        values(&client, "COMMIT").await;
        check(&client, "TimeZone", "UTC", "COMMIT").await;
        assert!(values(&client, moment).await[0].starts_with("2024-07-01 12:00:00"));
        check(&client, "statement_timeout", "50s", "COMMIT").await;

        let undone = "BEGIN; SET TimeZone = 'Asia/Tokyo'; SET LOCAL search_path = other; ROLLBACK";
        values(&client, undone).await;
        check(&client, "TimeZone", "UTC", undone).await;
        check(&client, "search_path", "public", undone).await;

        values(&client, "BEGIN; SET TIME ZONE 'Asia/Tokyo'").await;
        client.simple_query("SELECT 1 / (SELECT 0)").await.expect_err("a division by zero");
        values(&client, "COMMIT").await;
        check(&client, "TimeZone", "UTC", "a transaction that failed").await;

        let both = "BEGIN; SET application_name = 'a'; SET LOCAL application_name = 'b'; COMMIT";
        values(&client, both).await;
        check(&client, "application_name", "a", both).await;

        let function = "BEGIN; SELECT set_config('application_name', 'd', true)";
        assert_eq!(values(&client, function).await, ["d"]);
        values(&client, "SET LOCAL TIME ZONE 'Asia/Tokyo'").await;
        check(&client, "application_name", "d", function).await;
        check(&client, "TimeZone", "Asia/Tokyo", "SET LOCAL TIME ZONE").await;
        values(&client, "COMMIT").await;
        check(&client, "application_name", "a", "COMMIT").await;
        check(&client, "TimeZone", "UTC", "COMMIT").await;
    })
    .await;
}

/// `ROLLBACK TO` restores the settings of its savepoint, and keeps the savepoint; a released one
/// restores nothing.
#[tokio::test]
async fn settings_return_to_those_of_a_savepoint() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let name = "application_name";
        values(&client, "BEGIN; SET application_name = 'a'; SAVEPOINT s").await;
        values(&client, "SET application_name = 'b'; SET TimeZone = 'Asia/Tokyo'").await;
        values(&client, "ROLLBACK TO s").await;
        check(&client, name, "a", "ROLLBACK TO").await;
        check(&client, "TimeZone", "UTC", "ROLLBACK TO").await;

        values(&client, "SET LOCAL application_name = 'c'; SAVEPOINT t").await;
        client.simple_query("SELECT 1 / (SELECT 0)").await.expect_err("a division by zero");
        values(&client, "ROLLBACK TO s").await;
        check(&client, name, "a", "ROLLBACK TO after an error").await;
        client.simple_query("ROLLBACK TO t").await.expect_err("a savepoint that has ended");
        values(&client, "ROLLBACK TO s").await;

        values(&client, "SET application_name = 'd'; RELEASE s").await;
        values(&client, "COMMIT").await;
        check(&client, name, "d", "COMMIT").await;

        values(&client, "BEGIN; SAVEPOINT s; SET application_name = 'e'; ROLLBACK TO s").await;
        values(&client, "COMMIT").await;
        check(&client, name, "d", "COMMIT after ROLLBACK TO").await;
    })
    .await;
}

/// A change of a setting is undone with the other statements of its message.
#[tokio::test]
async fn settings_of_a_message_that_fails_are_undone() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let fails =
            "SET application_name = 'a'; SET TimeZone = 'Asia/Tokyo'; SELECT 1 / (SELECT 0)";
        client.simple_query(fails).await.expect_err("a division by zero");
        check(&client, "application_name", "test", fails).await;
        check(&client, "TimeZone", "UTC", fails).await;

        let lasts = "SET application_name = 'a'; SELECT 1";
        values(&client, lasts).await;
        check(&client, "application_name", "a", lasts).await;

        let partly = "BEGIN; SET application_name = 'b'; COMMIT; SET application_name = 'c'; \
                      SELECT 1 / (SELECT 0)";
        client.simple_query(partly).await.expect_err("a division by zero");
        check(&client, "application_name", "b", partly).await;
    })
    .await;
}

/// The settings at the head of a dump by pg_dump.
#[tokio::test]
async fn the_settings_of_a_dump_are_accepted() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let head = "SET statement_timeout = 0; SET lock_timeout = 0; \
                    SET idle_in_transaction_session_timeout = 0; SET transaction_timeout = 0; \
                    SET client_encoding = 'UTF8'; SET standard_conforming_strings = on; \
                    SELECT pg_catalog.set_config('search_path', '', false); \
                    SET check_function_bodies = false; SET xmloption = content; \
                    SET client_min_messages = warning; SET row_security = off; \
                    SET default_tablespace = ''; SET default_table_access_method = heap";
        values(&client, head).await;
        check(&client, "row_security", "off", head).await;
        check(&client, "check_function_bodies", "off", head).await;
        let error = client.simple_query("SET row_security = maybe").await.expect_err("no switch");
        assert_eq!(error.code(), Some(&SqlState::INVALID_PARAMETER_VALUE));
    })
    .await;
}

/// The statement after a transaction has the settings from before it, also if both are sent
/// together; a statement that fails after it has changed one leaves the connection in use.
#[tokio::test]
async fn statements_after_a_transaction_have_the_settings_of_before() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        values(&client, "CREATE SCHEMA other").await;
        let text = "BEGIN; SET LOCAL search_path = other; COMMIT; CREATE TABLE here (a BIGINT)";
        values(&client, text).await;
        assert_eq!(values(&client, "SELECT count(*) FROM public.here").await, ["0"]);

        values(&client, "BEGIN").await;
        let fails = "SELECT set_config('search_path', 'other', true), 1 / (k - 1) \
                     FROM (VALUES (1)) v(k)";
        client.simple_query(fails).await.expect_err("a division by zero");
        values(&client, "ROLLBACK").await;
        check(&client, "search_path", "public", fails).await;
        assert_eq!(values(&client, "SELECT count(*) FROM here").await, ["0"]);
    })
    .await;
}

/// Statements that are sent together form a transaction, and so does a statement alone.
#[tokio::test]
async fn local_settings_need_a_transaction() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let together =
            "SET LOCAL application_name = 'c'; SELECT current_setting('application_name')";
        assert_eq!(values(&client, together).await, ["c"]);
        for alone in
            ["SET LOCAL application_name = 'e'", "SELECT set_config('application_name', 'e', true)"]
        {
            values(&client, alone).await;
            check(&client, "application_name", "test", alone).await;
        }
        let refused = client.simple_query("SET LOCAL terrace.sla = 'latency 1s penalty 1 per 1s'");
        let error = refused.await.expect_err("a setting of the session");
        assert_eq!(error.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
    })
    .await;
}

/// Names with a prefix, such as `app.user`, are settings that only their client reads, as the
/// applications of row-level policies of PostgreSQL do.
#[tokio::test]
async fn clients_have_settings_of_their_own() {
    with_server(Limits::default(), |address| async move {
        let (client, other) = (connect(address).await, connect(address).await);
        values(&client, "SET app.user = 'Jo, \"O''Neil\"'").await;
        check(&client, "app.user", "Jo, \"O'Neil\"", "SET").await;
        check(&client, "App.User", "Jo, \"O'Neil\"", "SET").await;
        values(&client, "BEGIN; SET LOCAL app.user = '2'; SAVEPOINT s; SET app.tenant = '3'").await;
        check(&client, "app.tenant", "3", "SET in a transaction").await;
        values(&client, "ROLLBACK TO s").await;
        let missing = "SELECT current_setting('app.tenant', true) IS NULL";
        assert_eq!(values(&client, missing).await, ["t"]);
        check(&client, "app.user", "2", "SET LOCAL").await;
        values(&client, "COMMIT").await;
        check(&client, "app.user", "Jo, \"O'Neil\"", "COMMIT").await;
        let set = "SELECT set_config('request.jwt.claims', '{\"sub\": 1}', false)";
        assert_eq!(values(&client, set).await, ["{\"sub\": 1}"]);
        check(&client, "request.jwt.claims", "{\"sub\": 1}", set).await;
        values(&client, "RESET app.user").await;
        for (text, client) in [
            ("SHOW app.user", &client),
            ("SELECT current_setting('app.user')", &client),
            ("SHOW request.jwt.claims", &other),
            ("SET terrace.no_such = 1", &client),
        ] {
            let error = client.simple_query(text).await.expect_err(text);
            assert_eq!(error.code(), Some(&SqlState::UNDEFINED_OBJECT), "{text}: {error:?}");
        }
        values(&client, "DISCARD ALL").await;
        client.simple_query("SHOW request.jwt.claims").await.expect_err("discarded");
    })
    .await;
}
