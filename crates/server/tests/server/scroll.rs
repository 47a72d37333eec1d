//! Cursors that go back: counts and rows of FETCH and MOVE in all directions are PostgreSQL's.

use std::time::Duration;

use terrace_server::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Transaction};

use crate::clients::query;
use crate::common::{connect, with_server};
use crate::cursors::{refused, run};
use crate::slow::log_in;

const FIVE: &str = "SELECT value FROM generate_series(1, 5) AS t(value)";
/// A query of 30 MB, of which a cursor without SCROLL keeps 4 MiB.
const LONG: &str = "SELECT value::varchar || repeat('x', 294) AS t \
                    FROM generate_series(1, 100000) AS g(value) ORDER BY value";
const LONG_ROWS: u64 = 100_000;

/// Steps of one cursor over the numbers 1 to 5, one after the other, with the rows and the count
/// that PostgreSQL 15 answers.
const STEPS: &[(&str, &[u32], u64)] = &[
    ("FETCH c", &[1], 1),
    ("FETCH PRIOR FROM c", &[], 0),
    ("FETCH PRIOR FROM c", &[], 0),
    ("FETCH NEXT FROM c", &[1], 1),
    ("FETCH FIRST FROM c", &[1], 1),
    ("FETCH LAST FROM c", &[5], 1),
    ("FETCH NEXT FROM c", &[], 0),
    ("FETCH PRIOR FROM c", &[5], 1),
    ("FETCH ABSOLUTE 3 FROM c", &[3], 1),
    ("FETCH ABSOLUTE -2 FROM c", &[4], 1),
    ("FETCH ABSOLUTE -9 FROM c", &[], 0),
    ("FETCH ABSOLUTE 9 FROM c", &[], 0),
    ("FETCH ABSOLUTE 0 FROM c", &[], 0),
    ("FETCH RELATIVE 2 FROM c", &[2], 1),
    ("FETCH RELATIVE -1 FROM c", &[1], 1),
    ("FETCH RELATIVE 0 FROM c", &[1], 1),
    ("FETCH 0 FROM c", &[1], 1),
    ("FETCH BACKWARD 0 FROM c", &[1], 1),
    ("FETCH FORWARD 0 FROM c", &[1], 1),
    ("MOVE 0 IN c", &[], 1),
    ("MOVE BACKWARD 0 IN c", &[], 1),
    ("FETCH 3 FROM c", &[2, 3, 4], 3),
    ("FETCH BACKWARD 2 FROM c", &[3, 2], 2),
    ("FETCH -1 FROM c", &[1], 1),
    ("FETCH FORWARD -1 FROM c", &[], 0),
    ("FETCH BACKWARD -2 FROM c", &[1, 2], 2),
    ("FETCH ALL FROM c", &[3, 4, 5], 3),
    ("FETCH ALL FROM c", &[], 0),
    ("FETCH 0 FROM c", &[], 0),
    ("MOVE 0 IN c", &[], 0),
    ("FETCH RELATIVE 0 FROM c", &[], 0),
    ("FETCH RELATIVE -2 FROM c", &[4], 1),
    ("FETCH BACKWARD ALL FROM c", &[3, 2, 1], 3),
    ("FETCH BACKWARD ALL FROM c", &[], 0),
    ("MOVE FORWARD ALL IN c", &[], 5),
    ("MOVE BACKWARD ALL IN c", &[], 5),
    ("MOVE BACKWARD ALL IN c", &[], 0),
    ("MOVE 3 IN c", &[], 3),
    ("MOVE BACKWARD ALL IN c", &[], 2),
    ("MOVE LAST IN c", &[], 1),
    ("MOVE PRIOR IN c", &[], 1),
    ("MOVE BACKWARD 9 IN c", &[], 3),
    ("MOVE ABSOLUTE 4 IN c", &[], 1),
    ("MOVE ABSOLUTE 9 IN c", &[], 0),
    ("MOVE ABSOLUTE 0 IN c", &[], 0),
    ("MOVE RELATIVE 3 IN c", &[], 1),
    ("MOVE RELATIVE 9 IN c", &[], 0),
    ("MOVE RELATIVE -1 IN c", &[], 1),
    ("FETCH FORWARD FROM c", &[], 0),
    ("FETCH BACKWARD FROM c", &[5], 1),
    ("FETCH BACKWARD 3 FROM c", &[4, 3, 2], 3),
    ("FETCH + 2 FROM c", &[3, 4], 2),
    ("FETCH ABSOLUTE + 2 FROM c", &[2], 1),
    ("MOVE -9 IN c", &[], 1),
    ("FETCH FORWARD ALL FROM c", &[1, 2, 3, 4, 5], 5),
];

fn texts(numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn steps_are_those_of_postgresql() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        for option in ["SCROLL", "BINARY SCROLL INSENSITIVE", ""] {
            let declare = format!("BEGIN; DECLARE c {option} CURSOR FOR {FIVE}");
            run(&client, &declare).await;
            let is_binary = option.starts_with("BINARY");
            for (number, (text, rows, count)) in STEPS.iter().enumerate() {
                // Values in binary are no texts, and were sent as such in the other turns.
                let text =
                    if is_binary { text.replace("FETCH", "MOVE") } else { (*text).to_owned() };
                let rows = if is_binary { vec![] } else { texts(rows) };
                let found = run(&client, &text).await;
                assert_eq!(found, (rows, *count), "step {number}, {text} of {option:?}");
            }
            run(&client, "COMMIT").await;
        }
    })
    .await;
}

/// A step, and its rows and count; `None` for a refusal.
type Step = (&'static str, Option<(&'static [u32], u64)>);

/// Steps of a NO SCROLL cursor that has read no row, two rows, or all five, with the
/// answers of PostgreSQL 15.
const FORWARD: [&[Step]; 3] = [
    &[
        ("FETCH 0 FROM c", Some((&[], 0))),
        ("MOVE 0 IN c", Some((&[], 0))),
        ("FETCH BACKWARD 0 FROM c", None),
        ("MOVE BACKWARD 0 IN c", Some((&[], 0))),
        ("FETCH RELATIVE 0 FROM c", Some((&[], 0))),
        ("FETCH PRIOR FROM c", None),
        ("MOVE PRIOR IN c", None),
        ("FETCH BACKWARD ALL FROM c", None),
        ("MOVE BACKWARD ALL IN c", Some((&[], 0))),
        ("FETCH FIRST FROM c", Some((&[1], 1))),
        ("FETCH LAST FROM c", None),
        ("FETCH ABSOLUTE 0 FROM c", Some((&[], 0))),
        ("FETCH ABSOLUTE 3 FROM c", Some((&[3], 1))),
        ("FETCH ABSOLUTE 9 FROM c", Some((&[], 0))),
        ("MOVE ABSOLUTE -1 IN c", None),
        ("FETCH RELATIVE 2 FROM c", Some((&[2], 1))),
        ("FETCH -1 FROM c", None),
        ("MOVE ALL IN c", Some((&[], 5))),
    ],
    &[
        ("FETCH 0 FROM c", None),
        ("MOVE 0 IN c", Some((&[], 1))),
        ("MOVE BACKWARD 0 IN c", Some((&[], 1))),
        ("FETCH RELATIVE 0 FROM c", None),
        ("MOVE BACKWARD ALL IN c", None),
        ("FETCH FIRST FROM c", None),
        ("MOVE ABSOLUTE 0 IN c", None),
        ("FETCH ABSOLUTE 2 FROM c", None),
        ("FETCH ABSOLUTE 3 FROM c", Some((&[3], 1))),
        ("FETCH RELATIVE 1 FROM c", Some((&[3], 1))),
        ("FETCH RELATIVE -1 FROM c", None),
        ("MOVE ALL IN c", Some((&[], 3))),
    ],
    &[
        ("FETCH 0 FROM c", Some((&[], 0))),
        ("FETCH BACKWARD 0 FROM c", None),
        ("FETCH NEXT FROM c", Some((&[], 0))),
        ("FETCH ABSOLUTE 4 FROM c", None),
        ("FETCH ABSOLUTE 9 FROM c", Some((&[], 0))),
        ("FETCH RELATIVE 2 FROM c", Some((&[], 0))),
        ("MOVE ALL IN c", Some((&[], 0))),
        ("FETCH BACKWARD 2 FROM c", None),
    ],
];

#[tokio::test]
async fn cursors_with_no_scroll_go_forward_alone() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        for (steps, before) in FORWARD.iter().zip(["", "MOVE 2 IN c", "MOVE ALL IN c"]) {
            for (text, answer) in *steps {
                run(&client, &format!("BEGIN; DECLARE c NO SCROLL CURSOR FOR {FIVE}")).await;
                run(&client, before).await;
                match answer {
                    Some((rows, count)) => {
                        let found = run(&client, text).await;
                        assert_eq!(found, (texts(rows), *count), "{before}; {text}");
                    }
                    None => {
                        let error = client.simple_query(text).await.expect_err(text);
                        let error = error.as_db_error().expect("of the server");
                        let state = &SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
                        assert_eq!(error.code(), state, "{before}; {text}");
                        assert_eq!(error.message(), "cursor can only scan forward");
                        let hint = "Declare it with SCROLL option to enable backward scan.";
                        assert_eq!(error.hint(), Some(hint));
                    }
                }
                run(&client, "ROLLBACK").await;
            }
        }
    })
    .await;
}

/// Returns the number at the beginning of each row.
async fn numbers(client: &Client, text: &str) -> Vec<u64> {
    let (rows, _) = run(client, text).await;
    rows.iter().map(|row| row.trim_end_matches('x').parse().expect("a number")).collect()
}

/// The rows of a cursor are more than the server's memory holds beside the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_rows_are_in_pages_of_the_budget() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        // Three times 30 MB, and a budget of 64 MiB.
        for cursor in ["a", "b", "c"] {
            let declare = format!("DECLARE {cursor} SCROLL CURSOR WITH HOLD FOR {LONG}");
            run(&client, &declare).await;
            assert_eq!(run(&client, &format!("MOVE ALL IN {cursor}")).await.1, LONG_ROWS);
        }
        let spilled = "SELECT count(*) FROM terrace.queries WHERE spilled_bytes > 20000000";
        assert_eq!(run(&client, spilled).await.0, ["3"]);
        for cursor in ["b", "a", "c"] {
            let step = |steps: &str| format!("{steps} FROM {cursor}");
            let last = [LONG_ROWS, LONG_ROWS - 1];
            assert_eq!(numbers(&client, &step("FETCH BACKWARD 2")).await, last);
            assert_eq!(numbers(&client, &step("FETCH ABSOLUTE 50000")).await, [50_000]);
            assert_eq!(numbers(&client, &step("FETCH ABSOLUTE -99999")).await, [2]);
            assert_eq!(numbers(&client, &step("FETCH 3")).await, [3, 4, 5]);
            assert_eq!(run(&client, &step("MOVE ALL")).await.1, LONG_ROWS - 5);
            let all = numbers(&client, &step("FETCH BACKWARD ALL")).await;
            assert!(all.iter().copied().eq((1..=LONG_ROWS).rev()), "{} rows", all.len());
        }
        // Rows of a cursor that has read them are shown no more when its query is cancelled.
        let watcher = connect(address).await;
        let find = "SELECT min(id) FROM terrace.queries WHERE spilled_bytes > 20000000";
        let id = run(&watcher, find).await.0.remove(0);
        run(&watcher, &format!("CANCEL QUERY {id}")).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(refused(&client, "FETCH NEXT FROM a").await, SqlState::QUERY_CANCELED);
        assert_eq!(refused(&client, "FETCH NEXT FROM a").await, SqlState::INVALID_CURSOR_NAME);
        run(&client, "CLOSE ALL").await;
    })
    .await;
}

#[tokio::test]
async fn volatile_rows_stay_as_they_were() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let query = "SELECT random() FROM generate_series(1, 20)";
        for option in ["SCROLL", ""] {
            run(&client, &format!("BEGIN; DECLARE c {option} CURSOR FOR {query}")).await;
            let (first, count) = run(&client, "FETCH ALL FROM c").await;
            assert_eq!(count, 20);
            let (mut again, _) = run(&client, "FETCH BACKWARD ALL FROM c").await;
            again.reverse();
            assert_eq!(first, again, "{option:?}");
            assert_eq!(run(&client, "FETCH ABSOLUTE 7 FROM c").await.0, first[6..7]);
            run(&client, "COMMIT").await;
        }
    })
    .await;
}

/// A cursor without SCROLL keeps few rows. Beyond them it begins again, as long as its query
/// returns the same rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_cursors_without_scroll_begin_again() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        run(&client, "CREATE TABLE t AS SELECT 1 AS x").await;
        // The last row is found by keeping all.
        run(&client, &format!("BEGIN; DECLARE c CURSOR FOR {LONG}")).await;
        assert_eq!(numbers(&client, "FETCH LAST FROM c").await, [LONG_ROWS]);
        assert_eq!(numbers(&client, "FETCH PRIOR FROM c").await, [LONG_ROWS - 1]);
        run(&client, &format!("CLOSE c; DECLARE c CURSOR FOR {LONG}")).await;
        assert_eq!(numbers(&client, "FETCH 2 FROM c").await, [1, 2]);
        assert_eq!(numbers(&client, "FETCH PRIOR FROM c").await, [1]);
        assert_eq!(run(&client, "MOVE ALL IN c").await.1, LONG_ROWS - 1);
        let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
        for text in ["FETCH PRIOR FROM c", "FETCH LAST FROM c", "FETCH BACKWARD ALL FROM c"] {
            run(&client, "SAVEPOINT s").await;
            assert_eq!(refused(&client, text).await, state, "{text}");
            run(&client, "ROLLBACK TO s").await;
        }
        assert_eq!(run(&client, "MOVE BACKWARD ALL IN c").await.1, LONG_ROWS);
        assert_eq!(numbers(&client, "FETCH 2 FROM c").await, [1, 2]);
        assert_eq!(numbers(&client, "FETCH ABSOLUTE 90000 FROM c").await, [90_000]);
        assert_eq!(numbers(&client, "FETCH FIRST FROM c").await, [1]);
        assert_eq!(run(&client, "MOVE ALL IN c").await.1, LONG_ROWS - 1);
        run(&client, "INSERT INTO t VALUES (2); SAVEPOINT s").await;
        assert_eq!(refused(&client, "FETCH FIRST FROM c").await, state);
        run(&client, "ROLLBACK TO s").await;
        // A refused FETCH does not move the cursor.
        assert_eq!(run(&client, "MOVE 0 IN c; FETCH NEXT FROM c").await, (vec![], 0));
        run(&client, "ROLLBACK").await;
    })
    .await;
}

/// Executes a FETCH with a limit of rows, again and again. Returns the rows of each time.
async fn parts(transaction: &Transaction<'_>, text: &str, limits: &[i32]) -> Vec<Vec<i64>> {
    let portal = transaction.bind(text, &[]).await.expect(text);
    let mut parts = Vec::new();
    for limit in limits {
        let rows = transaction.query_portal(&portal, *limit).await.expect(text);
        parts.push(rows.iter().map(|row| row.get(0)).collect());
    }
    parts
}

/// The parts are those of PostgreSQL 15.
#[tokio::test]
async fn a_fetch_is_suspended_at_the_limit_of_its_message() {
    with_server(Limits::default(), |address| async move {
        let mut client = connect(address).await;
        let transaction = client.transaction().await.expect("begun");
        for option in ["SCROLL", "NO SCROLL"] {
            let query = "SELECT value FROM generate_series(1, 12) AS t(value)";
            let declare = format!("DECLARE c {option} CURSOR FOR {query}");
            transaction.batch_execute(&declare).await.expect("declared");
            let of = |text, limits| parts(&transaction, text, limits);
            let found = of("FETCH 5 FROM c", &[2, 2, 2, 2]).await;
            assert_eq!(found, [vec![1, 2], vec![3, 4], vec![5], vec![]]);
            assert_eq!(of("FETCH 2 FROM c", &[2, 2]).await, [vec![6, 7], vec![]]);
            assert_eq!(of("FETCH 2 FROM c", &[5, 5]).await, [vec![8, 9], vec![]]);
            if option == "SCROLL" {
                assert_eq!(of("FETCH BACKWARD 3 FROM c", &[2, 0]).await, [vec![8, 7], vec![6]]);
                assert_eq!(of("FETCH 3 FROM c", &[0, 0]).await, [vec![7, 8, 9], vec![]]);
            }
            // The cursor has moved by the whole FETCH, and its end does not end the FETCH.
            let portal = transaction.bind("FETCH ALL FROM c", &[]).await.expect("bound");
            let first = transaction.query_portal(&portal, 1).await.expect("a row");
            assert_eq!(first[0].get::<_, i64>(0), 10);
            let more = transaction.query("FETCH 2 FROM c", &[]).await.expect("rows");
            assert!(more.is_empty(), "{option}");
            transaction.batch_execute("CLOSE c").await.expect("closed");
            let rest = transaction.query_portal(&portal, 0).await.expect("rows");
            assert_eq!(rest.iter().map(|row| row.get(0)).collect::<Vec<i64>>(), [11, 12]);
        }
        transaction.commit().await.expect("committed");
    })
    .await;
}

fn message(kind: u8, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    let length = u32::try_from(body.len() + 4).expect("a length");
    [&[kind][..], &length.to_be_bytes(), &body].concat()
}

/// Sends messages. Returns the values of rows in one column, command tags, and classes of errors.
async fn told(client: &mut TcpStream, messages: &[Vec<u8>]) -> Vec<String> {
    client.write_all(&messages.concat()).await.expect("sent");
    let mut told = Vec::new();
    loop {
        let kind = client.read_u8().await.expect("a message");
        let length = client.read_u32().await.expect("a length");
        let mut body = vec![0; usize::try_from(length).expect("a length") - 4];
        client.read_exact(&mut body).await.expect("a message");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match kind {
            // The number of columns and the length of the first value come before it.
            b'D' => told.push(text(&body[6..])),
            b'C' => told.push(text(&body[..body.len() - 1])),
            b's' => told.push("suspended".to_owned()),
            b'E' => {
                let class = body.split(|byte| *byte == 0).find(|field| field.starts_with(b"C"));
                told.push(text(&class.expect("a class")[1..]));
            }
            b'Z' => return told,
            _ => {}
        }
    }
}

/// Portals of the protocol are cursors of FETCH, and cursors portals of Execute, with the answers
/// of PostgreSQL 15.
#[tokio::test]
async fn cursors_and_portals_are_the_same() {
    with_server(Limits::default(), |address| async move {
        let mut client = log_in(address).await;
        let text = b"SELECT value FROM generate_series(1, 8) AS t(value)";
        let parse = message(b'P', &[b"s\0", text, b"\0\0\0"]);
        let bind = message(b'B', &[b"q\0s\0\0\0\0\0\0\0"]);
        let execute =
            |name: &str, limit: i32| message(b'E', &[name.as_bytes(), b"\0", &limit.to_be_bytes()]);
        let sync = message(b'S', &[]);
        assert_eq!(told(&mut client, &[query("BEGIN")]).await, ["BEGIN"]);
        assert!(told(&mut client, &[parse, bind, sync.clone()]).await.is_empty());
        let fetched = told(&mut client, &[query("FETCH 2 FROM q")]).await;
        assert_eq!(fetched, ["1", "2", "FETCH 2"]);
        let executed = told(&mut client, &[execute("q", 3), sync.clone()]).await;
        assert_eq!(executed, ["3", "4", "5", "suspended"]);
        assert_eq!(told(&mut client, &[query("MOVE q")]).await, ["MOVE 1"]);
        let executed = told(&mut client, &[execute("q", 0), sync.clone()]).await;
        assert_eq!(executed, ["7", "8", "SELECT 2"]);
        assert_eq!(told(&mut client, &[query("FETCH q")]).await, ["FETCH 0"]);
        let declare = format!("DECLARE c SCROLL CURSOR FOR {FIVE}");
        assert_eq!(told(&mut client, &[query(&declare)]).await, ["DECLARE CURSOR"]);
        let executed = told(&mut client, &[execute("c", 3), sync.clone()]).await;
        assert_eq!(executed, ["1", "2", "3", "suspended"]);
        assert_eq!(told(&mut client, &[query("FETCH PRIOR c")]).await, ["2", "FETCH 1"]);
        let executed = told(&mut client, &[execute("c", 0), execute("c", 0), sync]).await;
        assert_eq!(executed, ["3", "4", "5", "SELECT 3", "SELECT 0"]);
        assert_eq!(told(&mut client, &[query("FETCH PRIOR c")]).await, ["5", "FETCH 1"]);
        assert_eq!(told(&mut client, &[query("FETCH PRIOR q")]).await, ["55000"]);
    })
    .await;
}
