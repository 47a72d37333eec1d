//! Third-party clients connect, run statements and cancel them.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::{BufMut as _, BytesMut};
use futures::{SinkExt as _, TryStreamExt as _};
use terrace_server::{Limits, Listener, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::common::{connect, has_psql, psql, with_server};
use crate::running::engine;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql_reads_and_changes_tables() {
    if !has_psql() {
        return;
    }
    with_server(Limits::default(), |address| async move {
        let ask_for = move |text: &str| {
            let text = text.to_owned();
            async move {
                tokio::task::spawn_blocking(move || psql(address, &text)).await.expect("psql")
            }
        };
        let ask = move |text: &'static str| ask_for(text);
        let (out, errors) =
            ask("CREATE TABLE t (k BIGINT, s TEXT, d DECIMAL(9,2), b BOOLEAN)").await;
        assert_eq!((out.as_str(), errors.as_str()), ("CREATE TABLE", ""));
        assert_eq!(
            ask("INSERT INTO t VALUES (1, 'a', 1.5, true), (2, NULL, -0.25, false)").await.0,
            "INSERT 0 2"
        );
        assert_eq!(ask("SELECT * FROM t ORDER BY k").await.0, "1|a|1.50|t\n2||-0.25|f");
        assert_eq!(
            ask("UPDATE t SET s = 'b' WHERE k = 2; SELECT s FROM t WHERE k = 2").await.0,
            "UPDATE 1\nb"
        );
        assert_eq!(ask("SELECT 1 / 0").await.1, "ERROR:  division by zero");
        assert_eq!(ask("SET statement_timeout = '5s'; SHOW statement_timeout").await.0, "SET\n5s");
        let zoned = "SHOW TIME ZONE; SELECT CAST('2024-07-01 00:00:00+00' AS TIMESTAMPTZ)";
        assert_eq!(ask(zoned).await.0, "Europe/Berlin\n2024-07-01 02:00:00+02");
        let nowhere = ask("SET timezone = 'Nowhere/Land'").await.1;
        assert!(nowhere.contains("Europe/Berlin"), "{nowhere}");
        let changed = "SET TIME ZONE '+03:00'; RESET timezone; SHOW timezone";
        assert_eq!(ask(changed).await.0, "SET\nRESET\nUTC");
        let (tags, warned) = ask("ROLLBACK; BEGIN; BEGIN; SAVEPOINT a; RELEASE a; COMMIT").await;
        assert_eq!(tags, "ROLLBACK\nBEGIN\nBEGIN\nSAVEPOINT\nRELEASE\nCOMMIT");
        let warnings = warned.lines().map(|line| line.split(';').next().unwrap_or_default());
        assert_eq!(
            warnings.collect::<Vec<_>>(),
            [
                "WARNING:  there is no transaction in progress",
                "WARNING:  there is already a transaction in progress"
            ]
        );
        // Statements that are sent together are one transaction.
        let half = "INSERT INTO t VALUES (3, 'c', 1, true); SELECT 1 / (k - 3) FROM t";
        assert_eq!(ask(half).await.1, "ERROR:  division by zero");
        assert_eq!(ask("SELECT count(*) FROM t").await.0, "2");
        let failed =
            ask("BEGIN; INSERT INTO t VALUES (3, 'c', 1, true); COMMIT; SELECT 1 / 0").await;
        assert_eq!(failed.0, "BEGIN\nINSERT 0 1\nCOMMIT");
        assert_eq!(ask("DELETE FROM t WHERE k = 3; SELECT count(*) FROM t").await.0, "DELETE 1\n2");
        let facts = "SELECT current_database(), current_schema(), version() LIKE 'PostgreSQL 16%', \
                     pg_backend_pid() > 0";
        assert_eq!(ask(facts).await.0, "main|public|t|t");
        let pooled = "SET application_name = 'one'; SET datafusion.execution.batch_size = 100; \
                      PREPARE p AS SELECT 7; EXECUTE p";
        let forgotten = format!("{pooled}; RESET ALL; EXECUTE p; SHOW application_name");
        assert_eq!(ask_for(&forgotten).await.0, "SET\nSET\nPREPARE\n7\nRESET\n7\npsql");
        let gone = format!("{pooled}; DEALLOCATE ALL; EXECUTE p");
        assert!(ask_for(&gone).await.1.contains("Prepared statement 'p' does not exist"));
        let floats = "SELECT CAST(1 AS DOUBLE), CAST(0.1 AS DOUBLE), CAST('NaN' AS DOUBLE), 1e300";
        assert_eq!(ask(floats).await.0, "1|0.1|NaN|1e+300");
        let times = "SELECT DATE '2024-02-29', TIMESTAMP '2024-02-29 12:30:00.5', INTERVAL '1 day'";
        assert_eq!(ask(times).await.0, "2024-02-29|2024-02-29 12:30:00.5|1 day");
        assert_eq!(ask("SELECT [1, NULL, 3]").await.0, "{1,NULL,3}");
    })
    .await;
}

/// Returns the bytes that a COPY sends.
async fn copy_out(client: &Client, text: &str) -> Vec<u8> {
    let rows = client.copy_out(text).await.expect("begun");
    let pieces: Vec<_> = rows.try_collect().await.expect("copied");
    pieces.concat()
}

/// Sends bytes to a COPY in pieces. Returns the number of rows.
async fn copy_in(client: &Client, text: &str, bytes: &[u8]) -> Result<u64, tokio_postgres::Error> {
    let sink = client.copy_in::<_, bytes::Bytes>(text).await?;
    let mut sink = std::pin::pin!(sink);
    for piece in bytes.chunks(1000) {
        sink.send(bytes::Bytes::copy_from_slice(piece)).await?;
    }
    sink.finish().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_copied_in_every_format() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let make = "CREATE TABLE t AS SELECT value AS k, \
                    concat('text, \"', value, chr(10), chr(9)) AS s, value % 3 = 0 AS b, \
                    CAST(value AS DECIMAL(9, 2)) / 4 AS d, DATE '2024-02-29' AS day, \
                    CAST('2024-02-29 12:00:00.25' AS TIMESTAMP) AS at, \
                    CAST(value AS REAL) / 3 AS x, nullif(value % 5, 0) AS n, \
                    CAST(md5(CAST(value AS VARCHAR)) AS UUID) AS u, \
                    CAST(concat('[', value, ']') AS JSONB) AS j \
                    FROM generate_series(1, 20000)";
        client.batch_execute(make).await.expect("made");
        client.batch_execute("CREATE TABLE u AS SELECT * FROM t LIMIT 0").await.expect("made");
        let formats = [
            "(FORMAT text)",
            "WITH (FORMAT csv, HEADER, DELIMITER ';', NULL 'none')",
            "WITH (HEADER)",
            "CSV QUOTE '\"' ESCAPE '!'",
            "(FORMAT binary)",
            "",
        ];
        for format in formats {
            let bytes = copy_out(&client, &format!("COPY t TO STDOUT {format}")).await;
            let copied = copy_in(&client, &format!("COPY u FROM STDIN {format}"), &bytes).await;
            assert_eq!(copied.expect("copied"), 20_000, "{format}");
            let differences = "SELECT count(*) FROM ((SELECT * FROM t EXCEPT ALL SELECT * FROM u) \
                               UNION ALL (SELECT * FROM u EXCEPT ALL SELECT * FROM t)) AS x";
            let found = client.query_one(differences, &[]).await.expect("compared");
            assert_eq!(found.get::<_, i64>(0), 0, "{format}");
            client.batch_execute("TRUNCATE u").await.expect("emptied");
        }
        let some = copy_out(&client, "COPY (SELECT k, s FROM t WHERE k <= 2 ORDER BY k) TO STDOUT");
        assert_eq!(some.await, b"1\ttext, \"1\\n\\t\n2\ttext, \"2\\n\\t\n");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_whole_or_nothing() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        // Copies some columns; the others are null.
        client.batch_execute("CREATE TABLE w (k BIGINT, n BIGINT, s TEXT)").await.expect("made");
        let copied = copy_in(&client, "COPY w (n, k) FROM STDIN CSV", b"7,1\n,2\n").await;
        assert_eq!(copied.expect("copied"), 2);
        let found = client.query("SELECT k, n, s FROM w ORDER BY k", &[]).await.expect("rows");
        assert_eq!(found[0].get::<_, Option<i64>>(1), Some(7));
        assert_eq!(found[1].get::<_, Option<i64>>(1), None);
        assert_eq!(found[1].get::<_, Option<&str>>(2), None);
        // No row of a failed COPY is kept, and the connection goes on.
        client.batch_execute("TRUNCATE w").await.expect("emptied");
        let bad = b"1\n2\nthree\n".repeat(10_000);
        let failed = copy_in(&client, "COPY w (k) FROM STDIN", &bad).await.expect_err("no number");
        let failed = failed.as_db_error().expect("of the server").clone();
        assert!(failed.message().contains("k: ") && failed.message().contains("three"), "{failed}");
        assert_eq!(failed.code(), &SqlState::INVALID_TEXT_REPRESENTATION);
        {
            let sink = client.copy_in::<_, bytes::Bytes>("COPY w (k) FROM STDIN").await;
            let mut sink = Box::pin(sink.expect("begun"));
            sink.send(bytes::Bytes::from_static(b"1\n")).await.expect("sent");
        }
        let rows = client.query_one("SELECT count(*) FROM w", &[]).await.expect("counted");
        assert_eq!(rows.get::<_, i64>(0), 0);
        let quoted = [b"1,\"".as_slice(), &vec![b'x'; 66 << 20]].concat();
        let endless = copy_in(&client, "COPY w (k, s) FROM STDIN CSV", &quoted).await;
        let endless = endless.expect_err("too long");
        let endless = endless.as_db_error().expect("of the server");
        assert_eq!(endless.code(), &SqlState::PROGRAM_LIMIT_EXCEEDED);
        assert!(endless.message().contains("a quote in it is not closed"), "{endless}");
        // COPY within a transaction.
        client.batch_execute("BEGIN").await.expect("begun");
        copy_in(&client, "COPY w (k) FROM STDIN", b"1\n2\n").await.expect("copied");
        client.batch_execute("ROLLBACK").await.expect("undone");
        let rows = client.query_one("SELECT count(*) FROM w", &[]).await.expect("counted");
        assert_eq!(rows.get::<_, i64>(0), 0);
        client.batch_execute("CREATE TABLE v (k BIGINT NOT NULL)").await.expect("made");
        let null = copy_in(&client, "COPY v FROM STDIN", b"\\N\n").await.expect_err("no null");
        let null = null.as_db_error().expect("of the server");
        assert_eq!(null.code(), &SqlState::NOT_NULL_VIOLATION);
        assert!(null.message().contains("table public.v, column k"), "{}", null.message());
        for (text, part) in [
            ("COPY missing FROM STDIN", "public.missing does not exist"),
            ("COPY v (nothing) FROM STDIN", "column nothing of public.v"),
            ("COPY v FROM STDIN (FORMAT xml)", "text, csv and binary"),
            ("COPY v FROM STDIN (FORMAT csv, HEADER perhaps)", "Boolean value or \"match\""),
            ("COPY v FROM STDIN (HEADER, HEADER MATCH)", "the option header twice"),
            ("COPY v TO STDOUT (HEADER MATCH)", "cannot use \"match\" with HEADER in COPY TO"),
            ("COPY v FROM STDIN (FORMAT binary, HEADER)", "HEADER with FORMAT binary"),
            ("COPY v FROM STDIN (DELIMITER 'ab')", "one character"),
            ("COPY v TO STDOUT (DELIMITER '\\')", "COPY delimiter cannot be \"\\\""),
            ("COPY v TO STDOUT (DELIMITER 'a')", "COPY delimiter cannot be \"a\""),
            (
                "COPY v TO STDOUT (FORMAT csv, DELIMITER '\"')",
                "delimiter and quote must be different",
            ),
            ("COPY v TO STDOUT (NULL 'a|', DELIMITER '|')", "must not appear in the NULL"),
            ("COPY v TO STDOUT (FORMAT csv, NULL '\"\"')", "CSV quote character must not appear"),
        ] {
            let refused = client.batch_execute(text).await.expect_err(text);
            let refused = refused.as_db_error().expect("of the server").message().to_owned();
            assert!(refused.contains(part), "{refused}");
        }
    })
    .await;
}

/// Headers, with the bytes and errors of PostgreSQL 15.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_name_the_columns() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        client.batch_execute("CREATE TABLE t (a INT, \"B c\" TEXT, d TEXT)").await.expect("made");
        let wrong = "wrong number of fields in header line: got";
        let other = "column name mismatch in header line field";
        for (options, bytes, told) in [
            ("FORMAT csv, HEADER MATCH", &b"a,B c,d\n1,x,y\n"[..], Ok(1)),
            ("FORMAT csv, HEADER 'match'", b"a,\"B c\",d\r\n", Ok(0)),
            ("FORMAT csv, HEADER", b"a,\"B\nc\",d\n1,2,3\n", Ok(1)),
            ("FORMAT csv, HEADER off", b"1,2,3\n", Ok(1)),
            ("HEADER MATCH", b"a\tB c\td\n2\t\\N\tz\n", Ok(1)),
            ("HEADER", b"anything at all\n3\tu\tv\n", Ok(1)),
            (
                "FORMAT csv, HEADER MATCH",
                b"a,b c,d\n1,x,y\n",
                Err(format!("{other} 2: got \"b c\", expected \"B c\"")),
            ),
            ("FORMAT csv, HEADER MATCH", b"a,d\n", Err(format!("{wrong} 2, expected 3"))),
            ("HEADER MATCH", b"", Err(format!("{wrong} 1, expected 3"))),
            (
                "HEADER MATCH",
                b"a\t\\N\td\n",
                Err(format!("{other} 2: got null value (\"\\N\"), expected \"B c\"")),
            ),
        ] {
            let copy = format!("COPY t FROM STDIN WITH ({options})");
            let found = copy_in(&client, &copy, bytes).await.map_err(|error| {
                let error = error.as_db_error().expect("of the server");
                assert_eq!(error.code(), &SqlState::BAD_COPY_FILE_FORMAT, "{copy}");
                error.message().to_owned()
            });
            assert_eq!(found, told, "{copy}");
        }
        let named = "COPY t (d, a) FROM STDIN (FORMAT csv, HEADER MATCH)";
        assert_eq!(copy_in(&client, named, b"d,a\nq,9\n").await.expect("copied"), 1);
        client.batch_execute("DELETE FROM t WHERE a <> 2").await.expect("deleted");
        for (what, bytes) in [
            ("t TO STDOUT WITH (FORMAT csv, HEADER)", "a,B c,d\n2,,z\n"),
            ("t TO STDOUT (HEADER true)", "a\tB c\td\n2\t\\N\tz\n"),
            ("t TO STDOUT CSV HEADER", "a,B c,d\n2,,z\n"),
            (
                "(SELECT a AS \"x\ty\", 2 AS \"q,\"\"r\" FROM t) TO STDOUT (HEADER)",
                "x\\ty\tq,\"r\n2\t2\n",
            ),
            (
                "(SELECT a AS \"x\ty\", 2 AS \"q,\"\"r\" FROM t) TO STDOUT (FORMAT csv, HEADER)",
                "x\ty,\"q,\"\"r\"\n2,2\n",
            ),
            ("(SELECT count(*), 1 + 1 FROM t) TO STDOUT (HEADER)", "count\t?column?\n1\t2\n"),
            ("(SELECT a FROM t WHERE false) TO STDOUT (HEADER)", "a\n"),
        ] {
            let copied = copy_out(&client, &format!("COPY {what}")).await;
            assert_eq!(String::from_utf8_lossy(&copied), bytes, "{what}");
        }
    })
    .await;
}

/// Returns the number of rows of `t`.
async fn count(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM t", &[]).await.expect("counted").get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_run_transactions() {
    with_server(Limits::default(), |address| async move {
        let (mut one, mut other) = (connect(address).await, connect(address).await);
        one.batch_execute("CREATE TABLE t (k BIGINT, v BIGINT)").await.expect("created");
        let changes = one.transaction().await.expect("begun");
        for k in 0..3_i64 {
            let inserted = changes.execute("INSERT INTO t VALUES ($1, 0)", &[&k]).await;
            assert_eq!(inserted.expect("inserted"), 1);
        }
        assert_eq!(count(&other).await, 0);
        changes.commit().await.expect("committed");
        assert_eq!(count(&other).await, 3);
        // A savepoint undoes a part of the changes; the rest is kept.
        let mut changes = one.transaction().await.expect("begun");
        changes.execute("DELETE FROM t WHERE k = 0", &[]).await.expect("deleted");
        let part = changes.savepoint("part").await.expect("set");
        part.execute("DELETE FROM t", &[]).await.expect("deleted");
        part.rollback().await.expect("undone");
        changes.commit().await.expect("committed");
        assert_eq!(count(&other).await, 2);
        // The failure of one statement fails the next one, and the end undoes all changes.
        let failing = one.transaction().await.expect("begun");
        failing.execute("DELETE FROM t", &[]).await.expect("deleted");
        let zero = failing.query("SELECT 1 / 0", &[]).await.expect_err("fails");
        assert_eq!(zero.code(), Some(&SqlState::DIVISION_BY_ZERO));
        let next = failing.query("SELECT 1", &[]).await.expect_err("has failed");
        assert_eq!(next.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
        failing.rollback().await.expect("undone");
        assert_eq!(count(&other).await, 2);
        // Two transactions change the rows of one table.
        let first = one.transaction().await.expect("begun");
        let second = other.transaction().await.expect("begun");
        second.query("SELECT * FROM t", &[]).await.expect("read");
        first.execute("UPDATE t SET v = 1", &[]).await.expect("updated");
        let waiting = second.execute("UPDATE t SET v = 2", &[]);
        let (conflict, committed) = tokio::join!(waiting, async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            first.commit().await
        });
        committed.expect("committed");
        let conflict = conflict.expect_err("it has read the rows of before");
        assert_eq!(conflict.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
        second.rollback().await.expect("undone");
        let sum = one.query_one("SELECT CAST(sum(v) AS BIGINT) FROM t", &[]).await.expect("sum");
        assert_eq!(sum.get::<_, i64>(0), 2);
        // Statements that pools send before the next user.
        let reset = "SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;";
        one.batch_execute(reset).await.expect("reset");
        one.batch_execute("CREATE TEMP TABLE kept AS SELECT 1 AS k").await.expect("made");
        one.batch_execute("DISCARD TEMP").await.expect("discarded");
        one.batch_execute("SELECT * FROM kept").await.expect_err("dropped");
        one.batch_execute("DISCARD ALL").await.expect("discarded");
        one.query_one("SELECT 1", &[]).await.expect("the session goes on");
        // An idle transaction ends after its timeout, and releases its locks.
        one.batch_execute("SET idle_in_transaction_session_timeout = '100ms'").await.expect("set");
        one.batch_execute("BEGIN; DELETE FROM t").await.expect("deleted");
        other.batch_execute("DELETE FROM t WHERE k = 1").await.expect("the lock comes back");
        assert_eq!(count(&other).await, 1);
        assert!(one.is_closed());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_are_prepared_with_values_in_binary() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let done = client.execute("CREATE TABLE t (k BIGINT, s TEXT, x DOUBLE)", &[]).await;
        assert_eq!(done.expect("created"), 0);
        let insert = client.prepare("INSERT INTO t VALUES ($1, $2, $3)").await.expect("prepared");
        assert_eq!(insert.params(), [Type::INT8, Type::TEXT, Type::FLOAT8]);
        for k in 0..10_i64 {
            let s = (k % 2 == 0).then(|| format!("row {k}"));
            let rows = client.execute(&insert, &[&k, &s, &(k as f64 / 4.0)]).await;
            assert_eq!(rows.expect("inserted"), 1);
        }
        let query = "SELECT k, s, x FROM t WHERE k >= $1 AND k < $2 ORDER BY k";
        let rows = client.query(query, &[&3_i64, &5_i64]).await.expect("rows");
        let rows: Vec<(i64, Option<String>, f64)> =
            rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        assert_eq!(rows, [(3, None, 0.75), (4, Some("row 4".to_owned()), 1.0)]);
        // A failed statement leaves a usable connection.
        let missing = client.prepare("SELECT nothing FROM t").await.expect_err("no such column");
        assert_eq!(missing.code(), Some(&SqlState::UNDEFINED_COLUMN));
        let absent = client.query("SELECT * FROM absent", &[]).await.expect_err("no such table");
        assert_eq!(absent.code(), Some(&SqlState::UNDEFINED_TABLE));
        let wrong = client.simple_query("SELEC 1").await.expect_err("no such statement");
        assert_eq!(wrong.code(), Some(&SqlState::SYNTAX_ERROR));
        let all = client.simple_query("SELECT count(*) FROM t; SHOW application_name").await;
        let rows: Vec<String> = all
            .expect("two results")
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            })
            .collect();
        assert_eq!(rows, ["10", "test"]);
    })
    .await;
}

/// Whole numbers in statements are `bigint`, so that their arithmetic has 64 bits.
#[tokio::test]
async fn whole_numbers_are_bigint() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        for (text, parameters, column) in [
            ("SELECT 1", &[][..], Type::INT8),
            ("SELECT 1 + 1", &[], Type::INT8),
            ("SELECT $1 + 1", &[Type::INT8], Type::INT8),
            ("SELECT 1 UNION ALL SELECT 3000000000", &[], Type::INT8),
            ("SELECT 1::integer", &[], Type::INT4),
        ] {
            let statement = client.prepare(text).await.expect(text);
            assert_eq!(statement.params(), parameters, "{text}");
            assert_eq!(*statement.columns()[0].type_(), column, "{text}");
        }
        let sum =
            client.query_one("SELECT 2147483647 + 1, 65536 * 65536", &[]).await.expect("a row");
        assert_eq!((sum.get::<_, i64>(0), sum.get::<_, i64>(1)), (1 << 31, 1 << 32));
    })
    .await;
}

/// A `numeric` in the binary format: 1.504 or 1.5.
#[derive(Debug)]
struct Numeric(u16);

impl ToSql for Numeric {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        for part in [2, 0, 0, 3, 1, self.0] {
            out.put_u16(part);
        }
        Ok(IsNull::No)
    }

    fn accepts(pg_type: &Type) -> bool {
        *pg_type == Type::NUMERIC
    }

    to_sql_checked!();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_nothing_is_disconnected() {
    let limits = Limits { unread_time: Duration::from_millis(300), ..Limits::default() };
    with_server(limits, |address| async move {
        let mut client = TcpStream::connect(address).await.expect("connected");
        client.write_all(STARTUP).await.expect("sent");
        client
            .write_all(&query("SELECT value FROM generate_series(1, 900000000)"))
            .await
            .expect("sent");
        let watcher = connect(address).await;
        let running = "SELECT count(*) FROM terrace.queries WHERE statement LIKE '%900000000%' \
                       AND statement NOT LIKE '%queries%'";
        let count =
            || async { watcher.query_one(running, &[]).await.expect("queries").get::<_, i64>(0) };
        while count().await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let start = Instant::now();
        while count().await > 0 {
            assert!(start.elapsed() < Duration::from_secs(20), "the query goes on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        drop(client);
    })
    .await;
}

/// Returns the message of a statement in the simple protocol.
pub fn query(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len() + 5).expect("short").to_be_bytes();
    [&b"Q"[..], &length, text.as_bytes(), b"\0"].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numerics_keep_their_digits() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let made = "CREATE TABLE w AS SELECT CAST(1.5 AS DECIMAL(10,2)) AS n, 1 AS i";
        client.simple_query(made).await.expect("made");
        let cases = [("n = $1", 5040, 0), ("n = $1", 5000, 1), ("i < $1", 5040, 1)];
        for (condition, fraction, want) in cases {
            let count = format!("SELECT count(*) FROM w WHERE {condition}");
            let count = client.prepare_typed(&count, &[Type::NUMERIC]).await.expect("prepared");
            let row = client.query_one(&count, &[&Numeric(fraction)]).await.expect("a row");
            assert_eq!(row.get::<_, i64>(0), want, "{condition}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_still_cancels() {
    let limits = Limits { connections: 1, ..Limits::default() };
    with_server(limits, |address| async move {
        let client = connect(address).await;
        let cancel = client.cancel_token();
        let asked = tokio::spawn(async move { client.simple_query(ENDLESS).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel_query(NoTls).await.expect("asked to cancel");
        let ended = timeout(Duration::from_secs(20), asked).await.expect("soon").expect("no panic");
        assert_eq!(ended.expect_err("cancelled").code(), Some(&SqlState::QUERY_CANCELED));
    })
    .await;
}

/// The start-up message of a client of protocol version 3.
pub const STARTUP: &[u8] = b"\0\0\0\x10\0\x03\0\0user\0u\0\0";

/// A statement that never ends.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000000000) a (value)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_end_when_the_client_says_so_or_is_gone() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let cancel = client.cancel_token();
        let asked = tokio::spawn(async move {
            let ended = client.query(ENDLESS, &[]).await.expect_err("it never ends");
            assert_eq!(ended.code(), Some(&SqlState::QUERY_CANCELED));
            client.query_one("SELECT 7", &[]).await.expect("it goes on").get::<_, i64>(0)
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel_query(NoTls).await.expect("asked to cancel");
        assert_eq!(timeout(Duration::from_secs(20), asked).await.expect("soon").expect("ended"), 7);

        let client = connect(address).await;
        client.simple_query("SET statement_timeout = 200").await.expect("set");
        let late = client.simple_query(ENDLESS).await.expect_err("it never ends");
        assert_eq!(late.code(), Some(&SqlState::QUERY_CANCELED));

        let mut client = TcpStream::connect(address).await.expect("connected");
        client.write_all(STARTUP).await.expect("sent");
        client.write_all(&query(ENDLESS)).await.expect("sent");
        let running = "SELECT count(*) FROM terrace.queries WHERE statement LIKE '%1000000000000%' \
                       AND statement NOT LIKE '%queries%'";
        let watcher = connect(address).await;
        let count =
            || async { watcher.query_one(running, &[]).await.expect("queries").get::<_, i64>(0) };
        while count().await == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        drop(client);
        let start = Instant::now();
        while count().await > 0 {
            assert!(start.elapsed() < Duration::from_secs(20), "the query goes on");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_messages_end_their_own_connection_alone() {
    let limits = Limits { connections: 3, message_bytes: 1 << 20, ..Limits::default() };
    with_server(limits, |address| async move {
        let client = connect(address).await;
        let bad: [&[u8]; 5] = [
            // Announces a gigabyte before the login.
            b"\x3f\xff\xff\xff\0\x03\0\0user",
            b"\0\0\0\0\0\0\0\0",
            b"GET / HTTP/1.1\r\n\r\n",
            // Names another version of the protocol.
            b"\0\0\0\x10\0\x02\0\0user\0u\0\0",
            b"\0\0\0\x18\0\x03\0\0user\0u\0bad\0x\0\0\0\0\0",
        ];
        for bytes in bad {
            assert_eq!(ends(address, &[bytes]).await, Some(b'E'), "{bytes:?}");
        }
        // Messages shorter than they announce, and messages beyond the maximum length.
        let broken: [&[u8]; 4] =
            [b"B\0\0\0\x08\0\0\xff\xff", b"P\0\0\0\x04", b"Q\x7f\xff\xff\xff", b"?\0\0\0\x04"];
        for bytes in broken {
            assert_eq!(ends(address, &[STARTUP, bytes]).await, Some(b'R'), "{bytes:?}");
        }
        assert_eq!(client.query_one("SELECT 1", &[]).await.expect("served").get::<_, i64>(0), 1);
        let (_two, _three) = (connect(address).await, connect(address).await);
        let url = format!("postgres://u@{address}/main");
        let full = tokio_postgres::connect(&url, NoTls).await.err().expect("no place");
        assert_eq!(full.code(), Some(&SqlState::TOO_MANY_CONNECTIONS));
    })
    .await;
}

/// Returns the first byte of the server's answer; the server must close the connection.
async fn ends(address: SocketAddr, messages: &[&[u8]]) -> Option<u8> {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    for message in messages {
        stream.write_all(message).await.expect("sent");
    }
    let mut answer = Vec::new();
    let closed = timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
    // A connection that is closed with unread bytes is reset.
    let _read = closed.expect("the server closes the connection");
    answer.first().copied()
}

#[tokio::test]
async fn a_server_without_logins_is_for_its_machine_alone() {
    let server = Server::new(engine(), Limits::default(), None).expect("a server");
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let open = Listener::tcp(everywhere, &server).await.expect_err("open");
    assert!(open.to_string().contains("--tls-cert"), "{open}");
    let directory = tempfile::tempdir().expect("a directory");
    let first = Listener::unix(directory.path(), 5432).expect("a socket");
    assert!(Listener::unix(directory.path(), 5432).is_err(), "the socket is in use");
    let path: PathBuf = directory.path().join(".s.PGSQL.5432");
    assert!(path.exists());
    drop(first);
    assert!(!path.exists());
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket that stays"));
    assert!(path.exists());
    drop(Listener::unix(directory.path(), 5432).expect("the socket is stale"));
}
