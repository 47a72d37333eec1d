//! Queries: their rows, tickets and prepared statements.

use std::sync::Arc;

use arrow_flight::sql::EndTransaction;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use futures::StreamExt as _;
use terrace_server::Limits;

use super::{
    Flight, fetch, integers, integers_of, query, refused, texts, texts_of, ticket, update,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_batches_of_types_that_clients_know() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    let text = "SELECT 1::bigint AS n, 'x' || 'y' AS t, '\\x00ff'::bytea AS b, 1.5::decimal(9, 2), \
                DATE '2024-01-01', TIMESTAMP '2024-01-01 10:00:00', ARRAY['a'], NULL::text, \
                arrow_cast('d', 'Dictionary(Int32, Utf8)') AS d, true, 2.5::float8";
    let info = client.execute(text.to_owned(), None).await.expect("planned");
    let planned = info.clone().try_decode_schema().expect("a schema");
    let batches = fetch(&mut client, &info).await.expect("rows");
    let schema = batches[0].schema();
    assert_eq!(planned.fields(), schema.fields(), "the columns are known before");
    let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
    let expected = [
        DataType::Int64,
        DataType::Utf8,
        DataType::Binary,
        DataType::Decimal128(9, 2),
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Nanosecond, None),
    ];
    assert_eq!(types[..5], expected[..5]);
    assert!(matches!(types[5], DataType::Timestamp(_, None)), "{:?}", types[5]);
    assert_eq!(types[6], DataType::new_list(DataType::Utf8, true));
    assert_eq!(types[7..], [DataType::Utf8, DataType::Utf8, DataType::Boolean, DataType::Float64]);
    assert_eq!(schema.field(3).name(), "numeric", "as clients of PostgreSQL have it");
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_small_and_rows_are_all_there() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    let text = "SELECT value, repeat('x', 1000) AS t FROM generate_series(1, 20000) AS g(value) \
                ORDER BY value";
    let batches = query(&mut client, text).await.expect("rows");
    let numbers = integers_of(&batches);
    assert!(numbers.iter().copied().eq(1..=20_000));
    let info = client.execute(text.to_owned(), None).await.expect("planned");
    let messages = client.inner_mut().do_get(ticket(&info)).await.expect("begun").into_inner();
    let bodies = messages.map(|message| message.expect("a message").data_body.len());
    let longest = bodies.collect::<Vec<_>>().await.into_iter().max();
    assert!(longest.is_some_and(|bytes| (500_000..1_200_000).contains(&bytes)), "{longest:?}");
    let none = query(&mut client, "SELECT 1 AS x WHERE false").await.expect("no rows");
    assert_eq!(none.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tickets_are_used_once_and_by_their_session() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    let mut other = flight.connect().await;
    let info = client.execute("SELECT 1::bigint".to_owned(), None).await.expect("planned");
    assert!(fetch(&mut other, &info).await.is_err(), "of another session");
    assert_eq!(integers_of(&fetch(&mut client, &info).await.expect("rows")), [1]);
    let again = fetch(&mut client, &info).await.expect_err("used").to_string();
    assert!(again.contains("was used or has expired"), "{again}");
    for _ in 0..100 {
        client.execute("SELECT 1".to_owned(), None).await.expect("planned");
    }
    let one_more = client.execute("SELECT 1".to_owned(), None).await.expect_err("too many");
    assert!(one_more.to_string().contains("53300"), "{one_more}");
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tickets_expire() {
    let unread_time = std::time::Duration::from_millis(300);
    let flight = Flight::start(Limits { unread_time, ..Limits::default() }).await;
    let mut client = flight.connect().await;
    let info = client.execute("SELECT 1".to_owned(), None).await.expect("planned");
    let engine = flight.running.engine.clone();
    assert_eq!(engine.queries().running().len(), 1);
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert_eq!(engine.queries().running().len(), 0);
    assert!(fetch(&mut client, &info).await.is_err());
    drop(engine);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_without_rows_are_carried_out_at_once() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    let made = "CREATE TABLE t AS SELECT value AS x FROM generate_series(1, 10) AS g(value)";
    let info = client.execute(made.to_owned(), None).await.expect("made");
    assert_eq!(integers(&mut client, "SELECT count(*) FROM t").await, [10]);
    assert!(fetch(&mut client, &info).await.expect("no rows").is_empty());
    let info = client.execute("DELETE FROM t WHERE x > 6".to_owned(), None).await.expect("done");
    assert_eq!(info.total_records, 4);
    assert_eq!(update(&mut client, "INSERT INTO t VALUES (11), (12)").await, 2);
    assert_eq!(update(&mut client, "UPDATE t SET x = x + 1 WHERE x < 3").await, 2);
    // A query sent as an update.
    assert_eq!(update(&mut client, "SELECT 1").await, 0);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_take_values() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    update(&mut client, "CREATE TABLE t (k BIGINT, v TEXT)").await;
    let insert = "INSERT INTO t VALUES (?, ?)".to_owned();
    let mut insert = client.prepare(insert, None).await.expect("prepared");
    let types: Vec<_> = insert.parameter_schema().expect("parameters").fields().iter().collect();
    assert_eq!(types.len(), 2);
    assert_eq!(types[0].data_type(), &DataType::Int64);
    assert_eq!(types[1].data_type(), &DataType::Utf8);
    let none = insert.execute_update().await.expect_err("no values").to_string();
    assert!(none.contains("2 parameters"), "{none}");
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..500));
    let values = (0..500).map(|n| (n % 3 > 0).then(|| format!("v{n}")));
    let values: ArrayRef = Arc::new(values.collect::<StringArray>());
    let rows =
        RecordBatch::try_from_iter_with_nullable([("1", keys.clone(), true), ("2", values, true)]);
    insert.set_parameters(rows.expect("rows")).expect("set");
    assert_eq!(insert.execute_update().await.expect("inserted"), 500);
    insert.close().await.expect("closed");
    let select = "SELECT v FROM t WHERE k = $1 AND v IS NOT NULL".to_owned();
    let mut select = client.prepare(select, None).await.expect("prepared");
    assert_eq!(select.dataset_schema().expect("columns").field(0).name(), "v");
    for (key, expected) in [(1, 1), (3, 0), (7, 1)] {
        let key: ArrayRef = Arc::new(Int64Array::from(vec![key]));
        let row = RecordBatch::try_from_iter([("1", key)]).expect("a row");
        select.set_parameters(row).expect("set");
        let info = select.execute().await.expect("run");
        let batches = fetch(&mut client, &info).await.expect("rows");
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), expected);
    }
    let two = RecordBatch::try_from_iter([("1", keys.clone())]).expect("rows");
    select.set_parameters(two).expect("set");
    let several = select.execute().await.expect_err("several rows").to_string();
    assert!(several.contains("one row of values"), "{several}");
    let wrong = RecordBatch::try_from_iter([("1", keys.slice(0, 1)), ("2", keys.slice(0, 1))]);
    select.set_parameters(wrong.expect("a row")).expect("set");
    let wrong = select.execute().await.expect_err("two values").to_string();
    assert!(wrong.contains("1 parameters, and 2 values"), "{wrong}");
    select.close().await.expect("closed");
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_rows_of_values_are_kept_or_none() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    update(&mut client, "CREATE TABLE t (k BIGINT)").await;
    let insert = "INSERT INTO t SELECT 10 / ?::bigint".to_owned();
    let mut insert = client.prepare(insert, None).await.expect("prepared");
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![5, 2, 0]));
    let rows = RecordBatch::try_from_iter([("1", keys)]).expect("rows");
    insert.set_parameters(rows).expect("set");
    let zero = insert.execute_update().await.expect_err("by zero").to_string();
    assert!(zero.contains("22012"), "{zero}");
    assert_eq!(integers(&mut client, "SELECT count(*) FROM t").await, [0]);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_those_of_the_session() {
    let flight = Flight::start(Limits::default()).await;
    let (mut client, mut other) = (flight.connect().await, flight.connect().await);
    update(&mut client, "SET TimeZone = 'Europe/Berlin'").await;
    assert_eq!(texts(&mut client, "SHOW TimeZone").await, ["Europe/Berlin"]);
    assert_eq!(texts(&mut other, "SHOW TimeZone").await, ["UTC"]);
    update(&mut client, "CREATE SCHEMA s; ").await;
    update(&mut client, "CREATE TABLE s.t AS SELECT 1::bigint AS x").await;
    update(&mut client, "SET search_path = s").await;
    assert_eq!(integers(&mut client, "SELECT x FROM t").await, [1]);
    update(&mut client, "RESET ALL").await;
    let missing = refused(&mut client, "SELECT x FROM t").await;
    assert!(missing.contains("42P01"), "{missing}");
    update(&mut client, "SET statement_timeout = '300ms'").await;
    let long = "SELECT count(*) FROM generate_series(1, 100000) AS a(x), \
                generate_series(1, 100000) AS b(y) WHERE x * y % 7 = 1";
    let late = refused(&mut client, long).await;
    assert!(late.contains("statement_timeout"), "{late}");
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_end_with_their_transaction() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    for (text, zone, name) in [
        ("SET LOCAL TimeZone = 'Asia/Tokyo'; SET application_name = 'a'; COMMIT", "UTC", "a"),
        ("SET TimeZone = 'Asia/Tokyo'; SET LOCAL application_name = 'b'; ROLLBACK", "UTC", "a"),
        (
            "SET TimeZone = 'Asia/Tokyo'; SAVEPOINT s; SET application_name = 'c'; \
             ROLLBACK TO s; SET LOCAL application_name = 'd'; COMMIT",
            "Asia/Tokyo",
            "a",
        ),
        (
            "SET TimeZone = 'UTC'; SELECT set_config('application_name', 'e', true); COMMIT",
            "UTC",
            "a",
        ),
    ] {
        update(&mut client, "BEGIN").await;
        for statement in text.split("; ") {
            update(&mut client, statement).await;
        }
        assert_eq!(texts(&mut client, "SHOW TimeZone").await, [zone], "{text}");
        assert_eq!(texts(&mut client, "SHOW application_name").await, [name], "{text}");
    }
    // Transactions of actions, and what the session itself does with a setting.
    update(&mut client, "CREATE SCHEMA s").await;
    let schema = "SELECT current_schema()";
    for (end, left) in [(EndTransaction::Rollback, "public"), (EndTransaction::Commit, "s")] {
        let id = client.begin_transaction().await.expect("begun");
        let set = "SET search_path = s".to_owned();
        client.execute_update(set, Some(id.clone())).await.expect("set");
        let info = client.execute(schema.to_owned(), Some(id.clone())).await.expect("planned");
        assert_eq!(texts_of(&fetch(&mut client, &info).await.expect("rows")), ["s"]);
        client.end_transaction(id, end).await.expect("ended");
        assert_eq!(texts(&mut client, schema).await, [left]);
    }
    // A transaction that fails restores its settings when it ends.
    update(&mut client, "BEGIN").await;
    update(&mut client, "SET search_path = public").await;
    assert!(refused(&mut client, "SELECT 1/0").await.contains("22012"));
    update(&mut client, "ROLLBACK").await;
    assert_eq!(texts(&mut client, schema).await, ["s"]);
    // A function of a query sets what the next statement sees.
    texts(&mut client, "SELECT set_config('search_path', 'public', false)").await;
    assert_eq!(texts(&mut client, schema).await, ["public"]);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_possible_says_so() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    let cases = [
        ("SELECT 1; SELECT 2", "one at a time"),
        (" ; ", "no statement"),
        ("SELEC 1", "42601"),
        ("COPY t FROM STDIN", "ingest the rows"),
        ("DECLARE c CURSOR FOR SELECT 1", "come in batches"),
        ("DISCARD ALL", "close the session"),
        ("SET LOCAL TimeZone = 'UTC'", "25P01"),
        ("SET LOCAL terrace.sla = 'latency 1s penalty 1 per 1s'", "SET lasts for the session"),
        ("SELECT * FROM nosuch", "42P01"),
        ("SELECT 1/0", "22012"),
    ];
    for (text, part) in cases {
        let error = refused(&mut client, text).await;
        assert!(error.contains(part), "{text}: {error}");
    }
    assert_eq!(integers(&mut client, "SELECT 7::bigint").await, [7], "it goes on");
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_of_a_session_run_side_by_side() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    let text = "SELECT value FROM generate_series(1, 300000) AS g(value)".to_owned();
    let mut readers = Vec::new();
    for _ in 0..5 {
        let info = client.execute(text.clone(), None).await.expect("planned");
        let mut stream = client.do_get(ticket(&info)).await.expect("begun");
        readers.push(tokio::spawn(async move {
            let mut rows = 0;
            while let Some(batch) = stream.next().await {
                rows += batch.expect("rows").num_rows();
            }
            rows
        }));
    }
    let mut counts = Vec::new();
    for reader in readers {
        counts.push(reader.await.expect("read"));
    }
    assert_eq!(counts, [300_000; 5]);
    flight.end().await;
}
