//! Ingestion and transactions.

use std::sync::Arc;

use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionEndSavepointRequest, Any,
    CommandStatementIngest, EndTransaction, ProstMessageExt as _, TableExistsOption as Exists,
    TableNotExistOption as NotExist,
};
use arrow_flight::{Action, Result as ActionResult};
use bytes::Bytes;
use datafusion::arrow::array::{
    ArrayRef, Decimal128Array, DictionaryArray, Float64Array, Int64Array, ListArray, RecordBatch,
    StringArray, TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{Int32Type, Int64Type};
use futures::{StreamExt as _, stream};
use prost::Message as _;
use terrace_server::Limits;

use super::{Client, Flight, fetch, ingestion, integers, integers_of, query, refused, update};

fn rows(numbers: std::ops::Range<i64>) -> RecordBatch {
    let texts = numbers.clone().map(|n| (n % 5 > 0).then(|| format!("v{n}")));
    let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
    let halves = numbers.clone().map(|n| f64::from(i32::try_from(n).expect("small")) / 2.0);
    let halves: ArrayRef = Arc::new(Float64Array::from_iter_values(halves));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    RecordBatch::try_from_iter_with_nullable([
        ("k", numbers, true),
        ("A v", texts, true),
        ("f", halves, true),
    ])
    .expect("a batch")
}

async fn ingest(
    client: &mut Client,
    command: CommandStatementIngest,
    batches: Vec<RecordBatch>,
) -> Result<i64, String> {
    let batches = stream::iter(batches).map(Ok::<_, FlightError>);
    client.execute_ingest(command, batches).await.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_made_appended_to_and_replaced() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    let create = ingestion("t", Exists::Fail, NotExist::Create);
    let append = ingestion("t", Exists::Append, NotExist::Fail);
    let replace = ingestion("t", Exists::Replace, NotExist::Create);
    let missing = ingest(&mut client, append.clone(), vec![rows(0..1)]).await.expect_err("missing");
    assert!(missing.contains("42P01"), "{missing}");
    let made = ingest(&mut client, create.clone(), vec![rows(0..20_000), rows(20_000..30_000)]);
    assert_eq!(made.await, Ok(30_000));
    let there = ingest(&mut client, create, vec![rows(0..1)]).await.expect_err("there");
    assert!(there.contains("42P07"), "{there}");
    assert_eq!(ingest(&mut client, append.clone(), vec![rows(30_000..30_010)]).await, Ok(10));
    let sums = "SELECT sum(k)::bigint FROM t WHERE \"A v\" IS NULL OR f = k / 2.0";
    assert_eq!(integers(&mut client, sums).await, [30_010 * 30_009 / 2]);
    // A subset of the columns, with another type.
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["7", "8"]));
    let some = RecordBatch::try_from_iter([("k", keys)]).expect("a batch");
    assert_eq!(ingest(&mut client, append.clone(), vec![some]).await, Ok(2));
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["7", "x"]));
    let bad = RecordBatch::try_from_iter([("k", keys)]).expect("a batch");
    let bad = ingest(&mut client, append.clone(), vec![bad]).await.expect_err("no number");
    assert!(bad.contains("22P02"), "{bad}");
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let other = RecordBatch::try_from_iter([("nosuch", keys)]).expect("a batch");
    assert!(ingest(&mut client, append, vec![other]).await.is_err());
    assert_eq!(integers(&mut client, "SELECT count(*) FROM t").await, [30_012]);
    assert_eq!(ingest(&mut client, replace, vec![rows(0..5)]).await, Ok(5));
    assert_eq!(integers(&mut client, "SELECT count(*) FROM t").await, [5]);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_many_types_are_ingested() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    let words: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
    let lists = [Some(vec![Some(1), None]), None, Some(vec![])];
    let decimals = Decimal128Array::from(vec![150, 250, -1]).with_precision_and_scale(9, 2);
    let columns: [(&str, ArrayRef); 4] = [
        ("d", Arc::new(words)),
        ("l", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
        ("n", Arc::new(decimals.expect("decimals"))),
        ("t", Arc::new(TimestampMicrosecondArray::from(vec![0, 1, 2]).with_timezone("UTC"))),
    ];
    let columns = columns.map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("a batch");
    let create = ingestion("many", Exists::Fail, NotExist::Create);
    assert_eq!(ingest(&mut client, create, vec![batch]).await, Ok(3));
    let back = query(&mut client, "SELECT * FROM many ORDER BY t").await.expect("rows");
    assert_eq!(back[0].num_rows(), 3);
    let sum = "SELECT (sum(n) * 100)::bigint FROM many WHERE d IN ('a', 'b')";
    assert_eq!(integers(&mut client, sum).await, [399]);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ingestions_that_are_not_possible_say_so() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    let create = ingestion("t", Exists::Fail, NotExist::Create);
    let temporary = CommandStatementIngest { temporary: true, ..create.clone() };
    let catalog = CommandStatementIngest { catalog: Some("other".into()), ..create.clone() };
    let schema = CommandStatementIngest { schema: Some("nosuch".into()), ..create.clone() };
    let unsaid = CommandStatementIngest { table_definition_options: None, ..create.clone() };
    let nameless = CommandStatementIngest { table: String::new(), ..create };
    for (command, part) in [
        (temporary, "temporary tables are not possible"),
        (catalog, "there is no catalog"),
        (schema, "3F000"),
        (unsaid, "does not say what to do"),
        (nameless, "no name"),
    ] {
        let error = ingest(&mut client, command, vec![rows(0..1)]).await.expect_err(part);
        assert!(error.contains(part), "{part}: {error}");
    }
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_are_kept_or_undone() {
    let flight = Flight::start(Limits::default()).await;
    let (mut client, mut other) = (flight.connect().await, flight.connect().await);
    update(&mut client, "CREATE TABLE t (k BIGINT)").await;
    let count = "SELECT count(*) FROM t";
    for (end, left) in [(EndTransaction::Rollback, 0), (EndTransaction::Commit, 1003)] {
        let id = client.begin_transaction().await.expect("begun");
        let insert = "INSERT INTO t VALUES (1), (2), (3)".to_owned();
        let inserted = client.execute_update(insert, Some(id.clone())).await;
        assert_eq!(inserted.expect("inserted"), 3);
        let command = CommandStatementIngest {
            transaction_id: Some(id.clone()),
            ..ingestion("t", Exists::Append, NotExist::Fail)
        };
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let batch = RecordBatch::try_from_iter([("k", keys)]).expect("a batch");
        assert_eq!(ingest(&mut client, command, vec![batch]).await, Ok(1000));
        let info = client.execute(count.to_owned(), Some(id.clone())).await.expect("planned");
        assert_eq!(integers_of(&fetch(&mut client, &info).await.expect("rows")), [1003]);
        assert_eq!(integers(&mut other, count).await, [0], "others do not see it");
        let unnamed = refused(&mut client, count).await;
        assert!(unnamed.contains("25001"), "{unnamed}");
        client.end_transaction(id.clone(), end).await.expect("ended");
        assert_eq!(integers(&mut other, count).await, [left]);
        let gone = client.execute(count.to_owned(), Some(id.clone())).await.expect_err("ended");
        assert!(gone.to_string().contains("25P01"), "{gone}");
        assert!(client.end_transaction(id, end).await.is_err());
    }
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_has_failed_is_rolled_back() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    update(&mut client, "CREATE TABLE t (k BIGINT)").await;
    let id = client.begin_transaction().await.expect("begun");
    assert!(client.begin_transaction().await.is_err(), "one at a time");
    let insert = "INSERT INTO t VALUES (1)".to_owned();
    client.execute_update(insert, Some(id.clone())).await.expect("inserted");
    let failed = client.execute_update("INSERT INTO nosuch VALUES (1)".into(), Some(id.clone()));
    assert!(failed.await.is_err());
    let next = client.execute("SELECT 1".to_owned(), Some(id.clone())).await.expect_err("failed");
    assert!(next.to_string().contains("25P02"), "{next}");
    let ended = client.end_transaction(id, EndTransaction::Commit).await.expect_err("failed");
    assert!(ended.to_string().contains("25P02"), "{ended}");
    assert_eq!(integers(&mut client, "SELECT count(*) FROM t").await, [0]);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_by_statements_belong_to_the_session() {
    let flight = Flight::start(Limits::default()).await;
    let (mut client, mut other) = (flight.connect().await, flight.connect().await);
    update(&mut client, "CREATE TABLE t (k BIGINT)").await;
    update(&mut client, "BEGIN").await;
    update(&mut client, "INSERT INTO t VALUES (1)").await;
    assert_eq!(integers(&mut other, "SELECT count(*) FROM t").await, [0]);
    update(&mut client, "COMMIT").await;
    assert_eq!(integers(&mut other, "SELECT count(*) FROM t").await, [1]);
    update(&mut client, "ROLLBACK").await;
    // A session that ends rolls its transaction back.
    update(&mut client, "BEGIN").await;
    update(&mut client, "DELETE FROM t").await;
    drop(client);
    assert_eq!(integers(&mut other, "SELECT count(*) FROM t").await, [1]);
    flight.end().await;
}

async fn act(client: &mut Client, name: &str, body: Vec<u8>) -> Result<Option<Bytes>, String> {
    let action = Action { r#type: name.to_owned(), body: body.into() };
    let told = client.do_action(action).await.map_err(|error| error.to_string())?;
    let results: Vec<_> = told.collect().await;
    match results.into_iter().next() {
        None => Ok(None),
        Some(Ok(ActionResult { body })) => Ok(Some(body)),
        Some(Err(status)) => Err(status.to_string()),
    }
}

/// Sets a savepoint of a transaction and returns its id.
async fn savepoint(client: &mut Client, transaction: &Bytes, name: &str) -> Bytes {
    let (transaction_id, name) = (transaction.clone(), name.to_owned());
    let set = ActionBeginSavepointRequest { transaction_id, name }.as_any().encode_to_vec();
    let told = act(client, "BeginSavepoint", set).await.expect("set").expect("a result");
    let any = Any::decode(told).expect("a message");
    let savepoint = any.unpack::<ActionBeginSavepointResult>().expect("a message");
    savepoint.expect("a savepoint").savepoint_id
}

/// A client knows savepoints of the same name by their ids.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn savepoints_of_one_name_are_two() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    update(&mut client, "CREATE TABLE t (k BIGINT)").await;
    let id = client.begin_transaction().await.expect("begun");
    let outer = savepoint(&mut client, &id, "s").await;
    let insert = "INSERT INTO t VALUES (1)".to_owned();
    client.execute_update(insert.clone(), Some(id.clone())).await.expect("inserted");
    let _inner = savepoint(&mut client, &id, "s").await;
    client.execute_update(insert, Some(id.clone())).await.expect("inserted");
    let back = ActionEndSavepointRequest { savepoint_id: outer, action: 2 };
    act(&mut client, "EndSavepoint", back.as_any().encode_to_vec()).await.expect("rolled back");
    client.end_transaction(id, EndTransaction::Commit).await.expect("committed");
    assert_eq!(integers(&mut client, "SELECT count(*) FROM t").await, [0]);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn savepoints_undo_a_part_of_a_transaction() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    update(&mut client, "CREATE TABLE t (k BIGINT)").await;
    let id = client.begin_transaction().await.expect("begun");
    let insert = "INSERT INTO t VALUES (1)".to_owned();
    client.execute_update(insert.clone(), Some(id.clone())).await.expect("inserted");
    let savepoint_id = savepoint(&mut client, &id, "s").await;
    client.execute_update(insert, Some(id.clone())).await.expect("inserted");
    let end = |action| {
        let savepoint_id = savepoint_id.clone();
        ActionEndSavepointRequest { savepoint_id, action }.as_any().encode_to_vec()
    };
    // Rolling back to a savepoint does not end it, as the protocol says; releasing it does.
    for action in [2, 2, 1] {
        assert_eq!(act(&mut client, "EndSavepoint", end(action)).await, Ok(None));
    }
    let gone = act(&mut client, "EndSavepoint", end(2)).await.expect_err("released");
    assert!(gone.contains("3B001"), "{gone}");
    client.end_transaction(id, EndTransaction::Commit).await.expect("committed");
    assert_eq!(integers(&mut client, "SELECT count(*) FROM t").await, [1]);
    flight.end().await;
}
