//! Changes of rows that are queries of WITH, with the rows that PostgreSQL 15 gives.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use terrace_sql::{Engine, Session, TransactionStatus};

use crate::common::{MIB, check, engine, engine_in, error, lines, show};

const DRAM: u64 = 64 * MIB;

async fn with_tables(engine: &Engine) -> Session {
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE a (id INT, v TEXT); CREATE TABLE b (id INT, v TEXT)").await;
    show(&session, "INSERT INTO a VALUES (1, 'x'), (2, 'y'), (3, 'z')").await;
    session
}

/// The rows of both tables, in order.
async fn rows_of(session: &Session) -> String {
    show(session, "SELECT 'a' AS t, * FROM a UNION ALL SELECT 'b', * FROM b ORDER BY 1, 2, 3").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_read_one_snapshot_and_the_rows_of_each_other() {
    let engine = engine(DRAM);
    let session = with_tables(&engine).await;
    let cases = [
        (
            "WITH m AS (DELETE FROM a WHERE id < 3 RETURNING *) \
             INSERT INTO b SELECT * FROM m ORDER BY id RETURNING id, v",
            "1 x\n2 y",
        ),
        (
            "WITH m(x) AS (INSERT INTO a VALUES (10, 'q') RETURNING id, v) SELECT x, v FROM m",
            "10 q",
        ),
        (
            "WITH i AS (INSERT INTO a VALUES (51, 'i') RETURNING id) \
             SELECT count(*), (SELECT count(*) FROM a WHERE id = 51) FROM i",
            "1 0",
        ),
        (
            "WITH i AS (INSERT INTO a VALUES (60, 'i')) \
             UPDATE a SET v = 's' WHERE id = 60 RETURNING id",
            "",
        ),
        (
            "WITH u AS (UPDATE a SET v = 'up' WHERE id = 3 RETURNING id) \
             INSERT INTO a SELECT n.id, n.v FROM (VALUES (3, 'n3'), (4, 'n4')) n(id, v) \
             WHERE n.id NOT IN (SELECT id FROM u) RETURNING *",
            "4 n4",
        ),
        ("SELECT * FROM a ORDER BY id", "3 up\n4 n4\n10 q\n51 i\n60 i"),
        (
            "WITH i AS (INSERT INTO a VALUES (70, 'z') RETURNING id) \
             DELETE FROM a WHERE id IN (SELECT id - 66 FROM i) RETURNING id",
            "4",
        ),
        // A part runs to its end, whatever is read of it.
        ("WITH d AS (DELETE FROM b) SELECT 1 WHERE false", ""),
        (
            "WITH i AS (INSERT INTO b VALUES (1, 'one'), (2, 'two') RETURNING id, v), \
             j AS (INSERT INTO b SELECT id + 10, v FROM i RETURNING *), \
             u AS (UPDATE a SET v = j.v FROM j WHERE a.id = 10 AND j.id = 11 \
                   RETURNING a.id, a.v, j.id AS other) \
             SELECT (SELECT count(*) FROM i), (SELECT sum(id) FROM j), u.* FROM u",
            "2 23 10 one 11",
        ),
        (
            "WITH m AS (INSERT INTO b VALUES (3, 'three') RETURNING *) \
             DELETE FROM b USING m WHERE b.id = m.id - 1 RETURNING b.id, m.v",
            "2 three",
        ),
        (
            "WITH m AS (INSERT INTO b VALUES (4, 'four') RETURNING *) \
             SELECT x.id, y.v FROM m x JOIN m y USING (id)",
            "4 four",
        ),
        (
            "WITH m AS (INSERT INTO b VALUES (5, 'five') RETURNING *) MERGE INTO a USING m \
             ON a.id = m.id WHEN NOT MATCHED THEN INSERT VALUES (m.id, m.v)",
            "1",
        ),
        ("SELECT * FROM a ORDER BY id", "3 up\n5 five\n10 one\n51 i\n60 i\n70 z"),
        ("SELECT * FROM b ORDER BY id", "1 one\n3 three\n4 four\n5 five\n11 one\n12 two"),
        (
            "WITH t AS (UPDATE a SET id = id + 100 RETURNING *) \
             SELECT (SELECT max(id) FROM a), max(id) FROM t",
            "70 170",
        ),
    ];
    check(&session, &cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_and_changes_stand_in_one_with() {
    let engine = engine(DRAM);
    let session = with_tables(&engine).await;
    show(&session, "CREATE TABLE f (x DOUBLE)").await;
    let cases = [
        (
            "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 104), \
             m AS (INSERT INTO b SELECT i, 'n' FROM n WHERE i < 103 RETURNING id) \
             SELECT count(*), max(id), (SELECT max(i) FROM n) FROM m",
            "3 102 104",
        ),
        (
            "WITH m AS (INSERT INTO b VALUES (6, 'six') RETURNING *) \
             (SELECT id, v FROM m) UNION ALL SELECT 0, 'zero' ORDER BY 1",
            "0 zero\n6 six",
        ),
        ("WITH m AS (INSERT INTO b VALUES (7, 'seven') RETURNING *) TABLE m", "7 seven"),
        (
            "WITH q AS (SELECT max(id) AS most FROM b), \
             m AS (DELETE FROM b WHERE id = (SELECT most FROM q) RETURNING id), \
             n AS (WITH k AS (SELECT 8 AS id) INSERT INTO b SELECT id, 'eight' FROM k \
                   RETURNING id) \
             SELECT m.id, n.id, q.most FROM m, n, q",
            "102 8 102",
        ),
        (
            "CREATE TABLE c AS WITH m AS (DELETE FROM b WHERE id > 99 RETURNING *) \
             SELECT id FROM m",
            "2",
        ),
        ("SELECT * FROM c ORDER BY id", "100\n101"),
        ("SELECT id FROM b ORDER BY id", "6\n7\n8"),
        // A query that two of the statements read has the same rows for both.
        (
            "WITH r AS (SELECT random() AS x), p AS (INSERT INTO f SELECT x FROM r RETURNING x), \
             q AS (INSERT INTO f SELECT x FROM r RETURNING x) \
             SELECT p.x = q.x, (SELECT x FROM r) = p.x FROM p, q",
            "true true",
        ),
        ("SELECT count(*), count(DISTINCT x) FROM f", "2 1"),
        // The name of a query hides the table behind it, but for the table that is changed.
        (
            "WITH a AS (INSERT INTO a VALUES (200, 'own') RETURNING id) \
             SELECT id, (SELECT count(*) FROM public.a WHERE id = 200) FROM a",
            "200 0",
        ),
        ("WITH a AS (DELETE FROM a WHERE id = 200) DELETE FROM b WHERE id = 8 RETURNING id", "8"),
        (
            "WITH m AS (INSERT INTO a VALUES (201, 'k') RETURNING id, id + 1, upper(v) AS u) \
             SELECT * FROM m",
            "201 202 K",
        ),
        ("SELECT count(*) FROM a WHERE id > 199", "1"),
    ];
    check(&session, &cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_changes_keep_the_types_of_their_columns() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TYPE mood AS ENUM ('sad', 'happy')").await;
    show(&session, "CREATE TABLE k (m mood, j JSONB, u UUID, s VARCHAR(3), l INT[], d DATE)").await;
    show(&session, "CREATE TABLE copies AS SELECT * FROM k").await;
    let insert = "INSERT INTO k VALUES ('happy', '{\"a\": [1, 2]}', \
                  '00000000-0000-0000-0000-000000000001', 'abc', ARRAY[1, 2], '2024-01-01')";
    let cases = [
        (
            "SELECT m > 'sad', j -> 'a' ->> 1, s || '!', l[2], d + 1 FROM r",
            "true 2 abc! 2 2024-01-02",
        ),
        ("INSERT INTO copies SELECT * FROM r RETURNING m, s", "happy abc"),
    ];
    for (query, answer) in cases {
        let query = format!("WITH r AS ({insert} RETURNING *) {query}");
        assert_eq!(show(&session, &query).await, answer, "{query}");
    }
    let compared = "SELECT count(*) FROM k JOIN copies c USING (m, u, s, d) \
                    WHERE k.j ->> 'a' = c.j ->> 'a' AND k.l[2] = c.l[2]";
    assert_eq!(show(&session, compared).await, "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_changes_all_of_its_tables_or_none() {
    let engine = engine(DRAM);
    let session = with_tables(&engine).await;
    let other = engine.session().expect("session");
    let before = rows_of(&session).await;
    let failing = [
        "WITH m AS (DELETE FROM a RETURNING *), n AS (INSERT INTO b SELECT * FROM m RETURNING *) \
         SELECT 1 / (id - 2) FROM n",
        "WITH m AS (INSERT INTO b VALUES (5, 'a')), n AS (INSERT INTO a VALUES (1 / 0, 'a')) \
         SELECT 1",
        "WITH m AS (DELETE FROM a RETURNING *) INSERT INTO b SELECT id / (id - 2), v FROM m",
        "CREATE TABLE c AS WITH m AS (DELETE FROM a RETURNING *) SELECT 1 / (id - 2) AS x FROM m",
    ];
    for statement in failing {
        let found = error(&session, statement).await;
        assert!(found.contains("ivi"), "{statement}: {found}");
        assert_eq!(rows_of(&session).await, before, "{statement}");
    }
    assert!(error(&session, "SELECT * FROM c").await.contains("not found"));
    // In a transaction, others see the changes after its commit.
    let both = "WITH m AS (DELETE FROM a WHERE id = 1 RETURNING *) INSERT INTO b SELECT * FROM m";
    show(&session, &format!("BEGIN; SAVEPOINT s; {both}")).await;
    let after = "a 2 y\na 3 z\nb 1 x";
    assert_eq!(rows_of(&session).await, after);
    assert_eq!(rows_of(&other).await, before);
    show(&session, "ROLLBACK TO SAVEPOINT s").await;
    assert_eq!(rows_of(&session).await, before);
    show(&session, "INSERT INTO a VALUES (9, 'n')").await;
    error(&session, failing[0]).await;
    assert_eq!(session.transaction_status(), TransactionStatus::Failed);
    show(&session, "ROLLBACK TO SAVEPOINT s").await;
    assert_eq!(rows_of(&session).await, before);
    show(&session, &format!("{both}; COMMIT")).await;
    assert_eq!(rows_of(&other).await, after);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_postgresql_refuses_is_refused() {
    let engine = engine(DRAM);
    let session = with_tables(&engine).await;
    let before = rows_of(&session).await;
    let top = "WITH clause containing a data-modifying statement must be at the top level";
    let delete = "WITH m AS (DELETE FROM a RETURNING *) SELECT * FROM m";
    let cases = [
        (
            "WITH m AS (DELETE FROM a) SELECT * FROM m".to_owned(),
            "WITH query \"m\" does not have a RETURNING clause",
        ),
        (
            "WITH m(x, y, z) AS (DELETE FROM a RETURNING *) SELECT * FROM m".to_owned(),
            "WITH query \"m\" has 2 columns available but 3 columns specified",
        ),
        (format!("INSERT INTO b {delete}"), top),
        (format!("SELECT * FROM ({delete}) q"), top),
        (format!("({delete}) UNION ALL SELECT 1, 'x'"), top),
        (format!("WITH q AS ({delete}) SELECT * FROM q"), top),
        (format!("SUMMARIZE {delete}"), top),
        (
            format!("CREATE VIEW w AS {delete}"),
            "views must not contain data-modifying statements in WITH",
        ),
        (
            format!("DECLARE c CURSOR FOR {delete}"),
            "DECLARE CURSOR must not contain data-modifying statements in WITH",
        ),
        (
            "WITH m AS (MERGE INTO a USING b ON a.id = b.id WHEN MATCHED THEN DELETE) SELECT 1"
                .to_owned(),
            "MERGE not supported in WITH query",
        ),
        (
            "WITH RECURSIVE m AS (INSERT INTO a SELECT * FROM m RETURNING *) SELECT 1".to_owned(),
            "recursive query \"m\" must not contain data-modifying statements",
        ),
        (
            "WITH m AS (DELETE FROM a RETURNING *), m AS (SELECT 1) SELECT 1".to_owned(),
            "WITH query name \"m\" specified more than once",
        ),
        ("WITH m AS (DELETE FROM a RETURNING *) UPDATE m SET id = 1".to_owned(), "m"),
        ("WITH x AS (SELECT * FROM a), m AS (DELETE FROM x) SELECT 1".to_owned(), "x"),
        (format!("COPY ({delete}) TO 'rows.csv'"), "run CREATE TABLE AS"),
        (format!("EXPLAIN VERBOSE {delete}"), "say EXPLAIN"),
        // PostgreSQL changes each row by one of them, and does not say by which.
        (
            "WITH u AS (UPDATE a SET v = 'n' WHERE id = 3) DELETE FROM a WHERE id = 3".to_owned(),
            "changing rows of public.a by two parts of one statement",
        ),
        (format!("BEGIN READ ONLY; {delete}"), "READ ONLY"),
    ];
    for (statement, expected) in cases {
        let found = error(&session, &statement).await;
        assert!(found.contains(expected), "{statement}: {found}");
    }
    show(&session, "ROLLBACK").await;
    assert_eq!(rows_of(&session).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_run_with_their_values() {
    let engine = engine(DRAM);
    let session = with_tables(&engine).await;
    let text = "WITH m AS (INSERT INTO b VALUES ($1, $2) RETURNING id, v) \
                SELECT id + $3 AS n, v FROM m";
    let statement = session.parse(text).expect("parsed").remove(0);
    assert!(statement.has_parts());
    let types = [None, None, Some(DataType::Int32)];
    let prepared = session.prepare(statement, &types).await.expect("prepared");
    assert_eq!(prepared.parameters().len(), 3);
    assert_eq!(prepared.parameters()[0], DataType::Int32);
    let columns = prepared.schema().expect("columns");
    let columns: Vec<_> = columns.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(columns, ["n", "v"]);
    for (id, answer) in [(7, "17 p"), (8, "18 p")] {
        let values = [ScalarValue::from(id), ScalarValue::from("p"), ScalarValue::from(10)];
        let values = values.iter().zip(prepared.parameters());
        let values = values.map(|(value, of)| value.cast_to(of).expect("a value"));
        let output = session.execute_prepared(&prepared, values.collect()).await.expect("runs");
        let output = output.collect().await.expect("rows");
        let rows: Vec<_> = output.batches.iter().flat_map(lines).collect();
        assert_eq!(rows, [answer]);
    }
    show(
        &session,
        "PREPARE p(INT) AS WITH m AS (DELETE FROM b WHERE id = $1 RETURNING *) \
         INSERT INTO a SELECT * FROM m RETURNING id",
    )
    .await;
    assert_eq!(show(&session, "EXECUTE p(7)").await, "7");
    assert_eq!(show(&session, "EXECUTE p(7)").await, "");
    assert_eq!(show(&session, "EXECUTE p(8)").await, "8");
    assert_eq!(show(&session, "SELECT count(*) FROM b").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_shows_the_parts_and_runs_them_with_analyze() {
    let engine = engine(DRAM);
    let session = with_tables(&engine).await;
    let statement = "WITH gone AS (DELETE FROM a WHERE id = 1 RETURNING *) \
                     INSERT INTO b SELECT * FROM gone";
    let shown = show(&session, &format!("EXPLAIN {statement}")).await;
    for part in ["PARTS", "gone", "public.a", "public.b", "PART ROWS"] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    assert_eq!(show(&session, "SELECT count(*) FROM b").await, "0");
    show(&session, &format!("EXPLAIN ANALYZE {statement}")).await;
    assert_eq!(rows_of(&session).await, "a 2 y\na 3 z\nb 1 x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_part_needs_its_privileges() {
    let engine = engine(DRAM);
    let session = with_tables(&engine).await;
    show(&session, "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret'").await;
    show(&session, "CREATE ROLE ada; GRANT USAGE ON SCHEMA public TO ada").await;
    show(&session, "GRANT SELECT, DELETE ON a TO ada; GRANT SELECT ON b TO ada").await;
    let ada = engine.session_of("ada").expect("a session");
    let both = "WITH m AS (DELETE FROM a WHERE id = 1 RETURNING *) INSERT INTO b SELECT * FROM m";
    let found = error(&ada, both).await;
    assert!(found.contains("INSERT"), "{found}");
    show(&session, "GRANT INSERT ON b TO ada; REVOKE DELETE ON a FROM ada").await;
    let found = error(&ada, both).await;
    assert!(found.contains("DELETE"), "{found}");
    show(&session, "GRANT DELETE ON a TO ada").await;
    assert_eq!(show(&ada, both).await, "1");
    assert_eq!(rows_of(&session).await, "a 2 y\na 3 z\nb 1 x");
}

/// More rows than memory holds: they are in pages of the query.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_part_may_exceed_memory() {
    let engine = engine(32 * MIB);
    let session = engine.session().expect("session");
    show(
        &session,
        "CREATE TABLE big AS SELECT value AS i, repeat(md5(value::text), 4) AS s \
         FROM generate_series(1, 200000) AS g(value)",
    )
    .await;
    show(&session, "CREATE TABLE moved AS SELECT * FROM big LIMIT 0").await;
    let moved = "WITH m AS (DELETE FROM big WHERE i > 10 RETURNING *), \
                 n AS (INSERT INTO moved SELECT * FROM m RETURNING i) \
                 SELECT count(*), sum(i), (SELECT max(length(s)) FROM m) FROM n";
    assert_eq!(show(&session, moved).await, "199990 20000099945 128");
    let counts = "SELECT (SELECT count(*) FROM big), (SELECT count(*) FROM moved)";
    assert_eq!(show(&session, counts).await, "10 199990");
}

/// Each statement locks the table that it rewrites before it reads: none fails, and none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_statements_take_turns() {
    const SESSIONS: usize = 6;
    const ROUNDS: usize = 15;
    let engine = Arc::new(engine(DRAM));
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE counter (n INT); CREATE TABLE log (n INT)").await;
    show(&session, "INSERT INTO counter VALUES (0)").await;
    let tasks = (0..SESSIONS).map(|_| {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move {
            let session = engine.session().expect("session");
            for _ in 0..ROUNDS {
                let step = "WITH u AS (UPDATE counter SET n = n + 1 RETURNING n) \
                            INSERT INTO log SELECT n FROM u";
                show(&session, step).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("the session ends");
    }
    let total = SESSIONS * ROUNDS;
    let counts = "SELECT (SELECT n FROM counter), count(*), count(DISTINCT n), max(n) FROM log";
    assert_eq!(show(&session, counts).await, format!("{total} {total} {total} {total}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_waits_for_a_lock_can_be_cancelled() {
    let engine = engine(DRAM);
    let holder = with_tables(&engine).await;
    show(&holder, "BEGIN; DELETE FROM a WHERE id = 1").await;
    let (session, other) = (engine.session().expect("session"), engine.session().expect("session"));
    let waiting = tokio::spawn(async move {
        error(&session, "WITH u AS (UPDATE a SET v = 'w') INSERT INTO b VALUES (1, 'w')").await
    });
    let find = "SELECT max(id) FROM terrace.queries \
                WHERE statement LIKE 'WITH u %' AND statement NOT LIKE '%terrace.queries%'";
    let id = loop {
        match show(&other, find).await {
            none if none.is_empty() => tokio::task::yield_now().await,
            id => break id,
        }
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished(), "the table is locked");
    show(&other, &format!("CANCEL QUERY {id}")).await;
    let ended = tokio::time::timeout(Duration::from_secs(5), waiting).await.expect("soon");
    let found = ended.expect("no panic");
    assert!(found.contains("cancelled"), "{found}");
    show(&holder, "ROLLBACK").await;
    assert_eq!(rows_of(&holder).await, "a 1 x\na 2 y\na 3 z");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_all_tables_are_there_when_the_database_is_opened_again() {
    let directory = tempfile::tempdir().expect("directory");
    {
        let engine = engine_in(directory.path(), DRAM);
        let session = with_tables(&engine).await;
        let both = "WITH m AS (DELETE FROM a WHERE id < 3 RETURNING *) \
                    INSERT INTO b SELECT * FROM m";
        assert_eq!(show(&session, both).await, "2");
    }
    let engine = engine_in(directory.path(), DRAM);
    let session = engine.session().expect("session");
    assert_eq!(rows_of(&session).await, "a 3 z\nb 1 x\nb 2 y");
}
