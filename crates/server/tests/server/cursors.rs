//! Cursors: DECLARE, FETCH, MOVE and CLOSE.

use terrace_server::Limits;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::common::{connect, with_server};

const NUMBERS: &str = "SELECT value FROM generate_series(1, 20000) AS t(value)";

/// Runs a text. Returns the first column of its rows, and the count in its last command tag.
pub async fn run(client: &Client, text: &str) -> (Vec<String>, u64) {
    let messages = client.simple_query(text).await.expect(text);
    let (mut values, mut count) = (Vec::new(), 0);
    for message in messages {
        match message {
            SimpleQueryMessage::Row(row) => values.push(row.get(0).unwrap_or("null").to_owned()),
            SimpleQueryMessage::CommandComplete(rows) => count = rows,
            _ => {}
        }
    }
    (values, count)
}

pub async fn refused(client: &Client, text: &str) -> SqlState {
    let error = client.simple_query(text).await.expect_err(text);
    error.code().expect("a state").clone()
}

fn numbers(range: std::ops::RangeInclusive<u32>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[tokio::test]
async fn rows_are_taken_as_the_client_goes() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        run(&client, &format!("BEGIN; DECLARE c CURSOR FOR {NUMBERS}")).await;
        assert_eq!(run(&client, "FETCH 3 FROM c").await, (numbers(1..=3), 3));
        assert_eq!(run(&client, "MOVE 2 IN c").await, (vec![], 2));
        assert_eq!(run(&client, "FETCH c").await, (numbers(6..=6), 1));
        assert_eq!(run(&client, "FETCH FORWARD 9000 FROM c").await.0, numbers(7..=9006));
        assert_eq!(run(&client, "FETCH ALL FROM c").await, (numbers(9007..=20_000), 10_994));
        assert_eq!(run(&client, "FETCH NEXT FROM c").await, (vec![], 0));
        assert_eq!(run(&client, "MOVE BACKWARD ALL IN c").await, (vec![], 20_000));
        assert_eq!(run(&client, "FETCH 2 FROM c").await.0, numbers(1..=2));
        assert_eq!(run(&client, "FETCH ABSOLUTE 19999 FROM c").await.0, numbers(19_999..=19_999));
        assert_eq!(run(&client, "FETCH FIRST FROM c").await.0, numbers(1..=1));
        assert_eq!(run(&client, "FETCH RELATIVE 5 FROM c").await, (numbers(6..=6), 1));
        assert_eq!(run(&client, "MOVE RELATIVE 4 IN c").await, (vec![], 1));
        assert_eq!(run(&client, "MOVE ALL IN c").await, (vec![], 19_990));
        assert_eq!(run(&client, "FETCH RELATIVE 2 FROM c").await, (vec![], 0));
        run(&client, "CLOSE c; COMMIT").await;
        assert_eq!(refused(&client, "FETCH c").await, SqlState::INVALID_CURSOR_NAME);
    })
    .await;
}

#[tokio::test]
async fn parameters_and_binary_rows_go_by_the_extended_protocol() {
    with_server(Limits::default(), |address| async move {
        let mut client = connect(address).await;
        let transaction = client.transaction().await.expect("begun");
        let declare = format!("DECLARE \"A c\" CURSOR FOR {NUMBERS} WHERE value > $1");
        let count = transaction.execute(&declare, &[&19_990_i64]).await;
        assert_eq!(count.expect("declared"), 0);
        let mut found = Vec::new();
        loop {
            let rows = transaction.query("FETCH FORWARD 4 FROM \"A c\"", &[]).await.expect("rows");
            if rows.is_empty() {
                break;
            }
            found.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
        }
        assert_eq!(found, (19_991..=20_000).collect::<Vec<_>>());
        // The row of this query is constant, but DECLARE itself returns no row.
        let known = "DECLARE known CURSOR FOR SELECT 1";
        transaction.execute(known, &[]).await.expect("declared");
        transaction.batch_execute("CLOSE known").await.expect("closed");
        transaction.batch_execute(known).await.expect("declared again");
        assert_eq!(transaction.query("FETCH known", &[]).await.expect("a row").len(), 1);
        transaction.batch_execute("CLOSE \"A c\"").await.expect("closed");
        transaction.commit().await.expect("committed");
    })
    .await;
}

#[tokio::test]
async fn cursors_end_with_their_transaction_unless_they_are_held() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let alone = refused(&client, "DECLARE c CURSOR FOR SELECT 1").await;
        assert_eq!(alone, SqlState::NO_ACTIVE_SQL_TRANSACTION);
        run(&client, "CREATE TABLE t AS SELECT 1 AS x").await;
        run(&client, "BEGIN; DECLARE c CURSOR FOR SELECT x FROM t; COMMIT").await;
        assert_eq!(refused(&client, "FETCH c").await, SqlState::INVALID_CURSOR_NAME);
        // A held cursor keeps the view of its transaction, even after the commit.
        run(&client, "BEGIN; INSERT INTO t VALUES (2)").await;
        run(&client, "DECLARE h CURSOR WITH HOLD FOR SELECT x FROM t ORDER BY x").await;
        assert_eq!(run(&client, "FETCH h").await.0, ["1"]);
        run(&client, "COMMIT").await;
        run(&client, "DELETE FROM t").await;
        assert_eq!(run(&client, "FETCH h").await.0, ["2"]);
        assert_eq!(run(&client, "FETCH FIRST FROM h").await.0, ["1"]);
        assert_eq!(run(&client, "FETCH ALL FROM h").await, (vec!["2".to_owned()], 1));
        assert_eq!(run(&client, "FETCH BACKWARD ALL FROM h").await.0, ["2", "1"]);
        run(&client, "BEGIN; DECLARE lost CURSOR WITH HOLD FOR SELECT 1; ROLLBACK").await;
        assert_eq!(refused(&client, "FETCH lost").await, SqlState::INVALID_CURSOR_NAME);
        run(&client, "DECLARE alone CURSOR WITH HOLD FOR SELECT 7").await;
        assert_eq!(run(&client, "FETCH alone").await.0, ["7"]);
        let again = refused(&client, "DECLARE alone CURSOR WITH HOLD FOR SELECT 7").await;
        assert_eq!(again, SqlState::DUPLICATE_CURSOR);
        run(&client, "CLOSE ALL").await;
        assert_eq!(refused(&client, "FETCH alone").await, SqlState::INVALID_CURSOR_NAME);
    })
    .await;
}

/// Codes are those of PostgreSQL 15.
#[tokio::test]
async fn errors_have_the_codes_of_postgresql() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        for (text, state) in [
            ("DECLARE c SCROLL NO SCROLL CURSOR FOR SELECT 1", "42P11"),
            ("DECLARE c ASENSITIVE INSENSITIVE CURSOR FOR SELECT 1", "42P11"),
            ("DECLARE c CURSOR FOR SELECT 1", "25P01"),
            ("DECLARE c CURSOR FOR DELETE FROM t", "42601"),
            ("DECLARE c CURSOR WITH HOLD FOR SELECT * FROM missing", "42P01"),
            ("DECLARE c QUICK CURSOR FOR SELECT 1", "42601"),
            ("FETCH c", "34000"),
            ("MOVE c", "34000"),
            ("CLOSE c", "34000"),
            ("FETCH ABSOLUTE FROM c", "42601"),
            ("BEGIN; DECLARE c CURSOR FOR SELECT 1; DECLARE c CURSOR FOR SELECT 1", "42P03"),
            ("ROLLBACK; BEGIN; FETCH c", "34000"),
            ("FETCH c", "25P02"),
            ("ROLLBACK; BEGIN; DECLARE c NO SCROLL CURSOR FOR VALUES (1), (2); FETCH c", ""),
            ("FETCH BACKWARD 1 FROM c", "55000"),
            ("ROLLBACK; BEGIN; DECLARE c NO SCROLL CURSOR FOR VALUES (1), (2); MOVE 2 c", ""),
            ("MOVE PRIOR IN c", "55000"),
        ] {
            match state {
                "" => drop(run(&client, text).await),
                state => assert_eq!(refused(&client, text).await.code(), state, "{text}"),
            }
        }
    })
    .await;
}

/// A cursor shows the rows as of its declaration, also when it goes back.
#[tokio::test]
async fn changes_after_the_declaration_are_not_seen() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        run(&client, "CREATE TABLE t AS SELECT 1 AS x").await;
        run(&client, "BEGIN; DECLARE c CURSOR FOR SELECT x FROM t").await;
        run(&client, "INSERT INTO t VALUES (2)").await;
        assert_eq!(run(&client, "FETCH ALL FROM c").await.0, ["1"]);
        assert_eq!(run(&client, "MOVE BACKWARD ALL IN c").await, (vec![], 1));
        assert_eq!(run(&client, "FETCH ALL FROM c").await.0, ["1"]);
        run(&client, "ROLLBACK").await;
    })
    .await;
}
