//! Prepared statements: planned once and run many times.

use crate::common::{engine, error, lines, show};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use terrace_sql::{Prepared, Session, SqlError};

const DRAM: u64 = 64 << 20;

async fn prepare(session: &Session, text: &str, types: &[Option<DataType>]) -> Prepared {
    try_prepare(session, text, types).await.unwrap_or_else(|error| panic!("{text}\n{error}"))
}

async fn try_prepare(
    session: &Session,
    text: &str,
    types: &[Option<DataType>],
) -> Result<Prepared, SqlError> {
    let statement = session.parse(text)?.into_iter().next().expect("a statement");
    session.prepare(statement, types).await
}

async fn run(session: &Session, prepared: &Prepared, values: Vec<ScalarValue>) -> String {
    try_run(session, prepared, values).await.expect("run")
}

async fn try_run(
    session: &Session,
    prepared: &Prepared,
    values: Vec<ScalarValue>,
) -> Result<String, SqlError> {
    let output = session.execute_prepared(prepared, values).await?.collect().await?;
    Ok(output.batches.iter().flat_map(lines).collect::<Vec<_>>().join("\n"))
}

fn int(value: i64) -> ScalarValue {
    ScalarValue::from(value)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_have_types_and_take_values() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t (k BIGINT, name TEXT, d DATE, x DECIMAL(9,2))").await;
    show(&session, "INSERT INTO t VALUES (1, 'a', '2024-01-01', 1.5), (2, 'b', NULL, 2)").await;
    let select = "SELECT name, x FROM t WHERE k = $1 AND (d < $2 OR d IS NULL) LIMIT $3";
    let prepared = prepare(&session, select, &[]).await;
    assert_eq!(prepared.parameters(), [DataType::Int64, DataType::Date32, DataType::Int64]);
    let columns = prepared.schema().expect("columns");
    assert_eq!(columns.field(1).data_type(), &DataType::Decimal128(9, 2));
    let later = ScalarValue::Date32(Some(20_000));
    let values = |k| vec![int(k), later.clone(), int(5)];
    assert_eq!(run(&session, &prepared, values(1)).await, "a 1.50");
    assert_eq!(run(&session, &prepared, values(2)).await, "b 2.00");
    assert_eq!(run(&session, &prepared, values(3)).await, "");
    let few = try_run(&session, &prepared, vec![int(1)]).await.expect_err("two are missing");
    assert!(few.to_string().contains("it has 3 parameters"), "{few}");

    // A parameter of undetermined type is a text, unless the caller gives its type.
    assert_eq!(prepare(&session, "SELECT $1", &[]).await.parameters(), [DataType::Utf8]);
    let known = prepare(&session, "SELECT $2 + 1, $1", &[None, Some(DataType::Int32)]).await;
    assert_eq!(known.parameters(), [DataType::Utf8, DataType::Int32]);
    let values = vec![ScalarValue::from("x"), ScalarValue::Int32(Some(6))];
    assert_eq!(run(&session, &known, values).await, "7 x");
    for (text, why) in [("SELECT $0", "$0"), ("SELECT $x", "$x"), ("SELECT nothing", "nothing")] {
        let refused = try_prepare(&session, text, &[]).await.expect_err(text).to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_run_sees_the_tables_of_its_time() {
    let engine = engine(DRAM);
    let (session, other) = (engine.session().expect("a session"), engine.session().expect("two"));
    show(&session, "CREATE TABLE t AS SELECT 1 AS k; CREATE VIEW v AS SELECT k FROM t").await;
    let tables = prepare(&session, "SELECT count(*) FROM t WHERE k < $1", &[]).await;
    let view = prepare(&session, "SELECT max(k) FROM v", &[]).await;
    let rows = prepare(&session, "SELECT k FROM t", &[]).await;
    let insert = prepare(&session, "INSERT INTO t VALUES ($1)", &[]).await;
    let update = prepare(&session, "UPDATE t SET k = k + $1 WHERE k = $2", &[]).await;
    assert!(insert.schema().is_none() && update.schema().is_none());
    assert_eq!(run(&session, &insert, vec![int(2)]).await, "1");
    assert_eq!(run(&session, &insert, vec![int(3)]).await, "1");
    assert_eq!(run(&session, &update, vec![int(10), int(3)]).await, "1");
    show(&other, "INSERT INTO t VALUES (4)").await;
    assert_eq!(run(&session, &tables, vec![int(10)]).await, "3");
    assert_eq!(run(&session, &view, vec![]).await, "13");

    // Names get other meanings.
    show(&other, "CREATE OR REPLACE VIEW v AS SELECT k * 2 AS k FROM t").await;
    assert_eq!(run(&session, &view, vec![]).await, "26");
    show(&other, "CREATE OR REPLACE TABLE t AS SELECT 'x' AS more, CAST(7 AS BIGINT) AS k").await;
    assert_eq!(run(&session, &tables, vec![int(10)]).await, "1");
    assert_eq!(run(&session, &view, vec![]).await, "14");
    show(&session, "CREATE SCHEMA s; CREATE TABLE s.t AS SELECT CAST(5 AS BIGINT) AS k").await;
    show(&session, "SET datafusion.catalog.default_schema = 's'").await;
    assert_eq!(run(&session, &tables, vec![int(6)]).await, "1");
    show(&session, "RESET datafusion.catalog.default_schema").await;
    show(&other, "CREATE OR REPLACE TABLE t AS SELECT 'x' AS k").await;
    let other_types = try_run(&session, &rows, vec![]).await.expect_err("a text");
    assert!(other_types.to_string().contains("prepare it again"), "{other_types}");
    let unusable = try_run(&session, &view, vec![]).await.expect_err("a text is not doubled");
    assert!(unusable.to_string().contains("view public.v"), "{unusable}");
    show(&other, "DROP VIEW v; DROP TABLE t").await;
    let gone = try_run(&session, &tables, vec![int(6)]).await.expect_err("no table");
    assert!(gone.to_string().contains("not found"), "{gone}");
    show(&other, "CREATE TABLE t AS SELECT CAST(1 AS BIGINT) AS k").await;
    assert_eq!(run(&session, &tables, vec![int(6)]).await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_all_kinds_are_prepared() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let define = prepare(&session, "CREATE TABLE t (k BIGINT)", &[]).await;
    assert!(define.schema().is_none());
    assert!(error(&session, "SELECT * FROM t").await.contains("not found"), "it has not run");
    run(&session, &define, vec![]).await;
    assert!(try_run(&session, &define, vec![]).await.is_err(), "it is there");
    for text in ["SET terrace.tenant = 'default'", "CREATE TENANT q", "DROP TENANT q"] {
        let prepared = prepare(&session, text, &[]).await;
        assert!(prepared.schema().is_none(), "{text}");
        let _either = try_run(&session, &prepared, vec![]).await;
    }
    let explain = prepare(&session, "EXPLAIN SELECT * FROM t WHERE k = $1", &[]).await;
    assert!(run(&session, &explain, vec![int(77)]).await.contains("77"));
    let values = prepare(&session, "VALUES ($1, 1)", &[Some(DataType::Int64)]).await;
    assert_eq!(run(&session, &values, vec![int(3)]).await, "3 1");
    let now = prepare(&session, "SELECT now()", &[]).await;
    let first = run(&session, &now, vec![]).await;
    assert_ne!(run(&session, &now, vec![]).await, first, "the time of its run");
    let nested = "SELECT k FROM t WHERE k IN (SELECT max(k) FROM t WHERE k > $1) UNION SELECT $2";
    let nested = prepare(&session, nested, &[]).await;
    assert_eq!(nested.parameters(), [DataType::Int64, DataType::Int64]);
    assert_eq!(run(&session, &nested, vec![int(1), int(2)]).await, "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn series_take_parameters() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let text = "SELECT sum(value), count(*) FROM generate_series($1, $2::bigint, $3)";
    let series = prepare(&session, text, &[Some(DataType::Int32)]).await;
    assert_eq!(series.parameters(), [DataType::Int32, DataType::Int64, DataType::Int64]);
    let values = |to| vec![ScalarValue::Int32(Some(1)), int(to), int(2)];
    assert_eq!(run(&session, &series, values(5)).await, "9 3");
    assert_eq!(run(&session, &series, values(9)).await, "25 5");
    let none = vec![ScalarValue::Int32(Some(1)), ScalarValue::Int64(None), int(1)];
    assert_eq!(run(&session, &series, none).await, " 0");
    let dates = "SELECT value::date FROM range($1::date, DATE '2024-01-03', INTERVAL '1 day') \
                 WHERE value > $2::date";
    let dates = prepare(&session, dates, &[]).await;
    assert_eq!(dates.parameters(), [DataType::Date32, DataType::Date32]);
    let day = |day| ScalarValue::Date32(Some(day));
    assert_eq!(
        run(&session, &dates, vec![day(19_722), day(19_722)]).await,
        "2024-01-01\n2024-01-02"
    );
    let step = try_run(&session, &series, vec![ScalarValue::Int32(Some(1)), int(5), int(0)]).await;
    assert!(step.expect_err("no step").to_string().contains("zero"));
    let free = error(&session, "SELECT * FROM generate_series($1, 3)").await;
    assert!(free.contains("a parameter"), "{free}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_any_have_the_type_of_what_they_are_compared_with() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT 1::integer AS k, 'a' AS name UNION SELECT 2, 'b'")
        .await;
    let text = "SELECT k FROM t WHERE name = ANY($1) AND k = ANY($2)";
    let any = prepare(&session, text, &[]).await;
    let list = |of| DataType::new_list(of, true);
    assert_eq!(any.parameters(), [list(DataType::Utf8), list(DataType::Int32)]);
    let names = ScalarValue::new_list_nullable(&["b".into(), "c".into()], &DataType::Utf8);
    let keys = [1, 2].map(|key| ScalarValue::Int32(Some(key)));
    let keys = ScalarValue::new_list_nullable(&keys, &DataType::Int32);
    let values = vec![ScalarValue::List(names), ScalarValue::List(keys)];
    assert_eq!(run(&session, &any, values).await, "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operands_have_the_types_that_the_caller_knows() {
    let session = engine(DRAM).session().expect("session");
    let day = || ScalarValue::new_interval_mdn(0, 1, 0);
    let known = [Some(day().data_type())];
    let text = "SELECT t - $1 > timestamp '2024-01-01' FROM (VALUES (timestamp '2024-01-03')) v(t)";
    let earlier = prepare(&session, text, &known).await;
    assert_eq!(run(&session, &earlier, vec![day()]).await, "true");
    let text = "SELECT d + $1 > date '2024-01-02' FROM (VALUES (date '2024-01-01')) v(d)";
    let later = prepare(&session, text, &[Some(DataType::Int16)]).await;
    assert_eq!(run(&session, &later, vec![ScalarValue::Int16(Some(2))]).await, "true");
    let joined = prepare(&session, "SELECT $1 || $2", &[]).await;
    assert_eq!(run(&session, &joined, vec!["a".into(), "b".into()]).await, "ab");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distances_of_window_frames_are_parameters() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let table = "CREATE TABLE t (k BIGINT, x DECIMAL(9, 2), d DATE);
        INSERT INTO t VALUES (1, 1.5, '2024-01-01'), (2, 2, '2024-01-02'), (3, 3, '2024-01-04')";
    show(&session, table).await;
    let over = |frame: &str| {
        format!(
            "SELECT string_agg(n::text, ' ' ORDER BY k) FROM (SELECT k, count(*) OVER (ORDER \
                 BY {frame}) AS n FROM t) q"
        )
    };
    let rows = over("k ROWS BETWEEN $1 PRECEDING AND $2 + 1 FOLLOWING");
    let rows = prepare(&session, &rows, &[]).await;
    assert_eq!(rows.parameters(), [DataType::Int64, DataType::Int64]);
    assert_eq!(run(&session, &rows, vec![int(0), int(0)]).await, "2 2 1");
    assert_eq!(run(&session, &rows, vec![int(2), int(0)]).await, "2 3 3");
    for (value, cause) in [
        (int(-1), "frame starting offset must not be negative"),
        (ScalarValue::Int64(None), "frame starting offset must not be null"),
    ] {
        let refused = try_run(&session, &rows, vec![value, int(0)]).await.expect_err(cause);
        assert!(refused.to_string().contains(cause), "{refused}");
    }
    let range = over("x RANGE BETWEEN $1 PRECEDING AND $1 FOLLOWING");
    let range = prepare(&session, &range, &[]).await;
    assert_eq!(range.parameters(), [DataType::Decimal128(9, 2)]);
    let half = ScalarValue::Decimal128(Some(50), 9, 2);
    assert_eq!(run(&session, &range, vec![half]).await, "2 2 1");
    let days = prepare(&session, &over("d RANGE $1 PRECEDING"), &[]).await;
    assert_eq!(run(&session, &days, vec!["2 days".into()]).await, "1 2 2");
    let days = over("d RANGE $1 * INTERVAL '1 day' PRECEDING");
    let days = prepare(&session, &days, &[Some(DataType::Int32)]).await;
    assert_eq!(run(&session, &days, vec![ScalarValue::Int32(Some(1))]).await, "1 2 1");
}
