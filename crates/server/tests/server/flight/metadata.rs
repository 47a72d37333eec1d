//! Catalogs, schemas, tables, properties, types and options.

use std::sync::Arc;

use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetTables, CommandGetXdbcTypeInfo, CommandStatementQuery,
    ProstMessageExt as _, SqlInfo,
};
use arrow_flight::{Action, FlightDescriptor, FlightInfo, IpcMessage};
use datafusion::arrow::array::{AsArray as _, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema};
use futures::StreamExt as _;
use prost::Message as _;
use terrace_server::Limits;

use super::{Client, Flight, fetch, texts, update};

async fn rows(client: &mut Client, info: FlightInfo) -> RecordBatch {
    let planned = info.clone().try_decode_schema().expect("a schema");
    let batches = fetch(client, &info).await.expect("rows");
    let schema = batches.first().map_or(Arc::new(planned.clone()), RecordBatch::schema);
    assert_eq!(planned.fields(), schema.fields());
    datafusion::arrow::compute::concat_batches(&schema, &batches).expect("a batch")
}

fn column(batch: &RecordBatch, name: &str) -> Vec<String> {
    let column = batch.column_by_name(name).expect(name).as_string::<i32>();
    column.iter().map(|value| value.unwrap_or("NULL").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_listed() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    update(&mut client, "CREATE SCHEMA sales").await;
    update(&mut client, "CREATE TABLE sales.orders (k BIGINT NOT NULL, v TEXT)").await;
    update(&mut client, "CREATE VIEW sales.recent AS SELECT k FROM sales.orders").await;
    let info = client.get_catalogs().await.expect("catalogs");
    assert_eq!(column(&rows(&mut client, info).await, "catalog_name"), ["main"]);
    let asked = CommandGetDbSchemas {
        db_schema_filter_pattern: Some("s%".to_owned()),
        ..CommandGetDbSchemas::default()
    };
    let info = client.get_db_schemas(asked).await.expect("schemas");
    assert_eq!(column(&rows(&mut client, info).await, "db_schema_name"), ["sales"]);
    let asked = CommandGetTables {
        db_schema_filter_pattern: Some("sales".to_owned()),
        include_schema: true,
        ..CommandGetTables::default()
    };
    let info = client.get_tables(asked.clone()).await.expect("tables");
    let tables = rows(&mut client, info).await;
    assert_eq!(column(&tables, "table_name"), ["orders", "recent"]);
    assert_eq!(column(&tables, "table_type"), ["TABLE", "VIEW"]);
    let schemas = tables.column_by_name("table_schema").expect("schemas").as_binary::<i32>();
    let schema = Schema::try_from(IpcMessage(schemas.value(0).to_vec().into())).expect("a schema");
    assert_eq!(schema.field(1).data_type(), &DataType::Utf8);
    let views = CommandGetTables {
        table_types: vec!["VIEW".to_owned()],
        table_name_filter_pattern: Some("rec_nt".to_owned()),
        include_schema: false,
        ..asked
    };
    let info = client.get_tables(views).await.expect("tables");
    let views = rows(&mut client, info).await;
    assert_eq!(column(&views, "table_name"), ["recent"]);
    assert_eq!(views.num_columns(), 4);
    let info = client.get_table_types().await.expect("types");
    let types = column(&rows(&mut client, info).await, "table_type");
    assert_eq!(types, ["EXTERNAL TABLE", "SYSTEM TABLE", "TABLE", "VIEW"]);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_no_keys() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    let info = client.get_primary_keys(CommandGetPrimaryKeys::default()).await.expect("keys");
    let keys = rows(&mut client, info).await;
    assert_eq!((keys.num_rows(), keys.num_columns()), (0, 6));
    let infos = [
        client.get_exported_keys(CommandGetExportedKeys::default()).await,
        client.get_imported_keys(CommandGetImportedKeys::default()).await,
        client.get_cross_reference(CommandGetCrossReference::default()).await,
    ];
    for info in infos {
        let keys = rows(&mut client, info.expect("keys")).await;
        assert_eq!((keys.num_rows(), keys.num_columns()), (0, 13));
    }
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn properties_and_types_are_told() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    let asked = vec![SqlInfo::FlightSqlServerName, SqlInfo::FlightSqlServerTransaction];
    let info = client.get_sql_info(asked).await.expect("properties");
    assert_eq!(rows(&mut client, info).await.num_rows(), 2);
    let info = client.get_sql_info(vec![]).await.expect("properties");
    assert!(rows(&mut client, info).await.num_rows() > 30);
    let info = client.get_xdbc_type_info(CommandGetXdbcTypeInfo::default()).await.expect("types");
    let types = rows(&mut client, info).await;
    assert!(column(&types, "type_name").contains(&"BIGINT".to_owned()));
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_are_told_without_a_run() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    let mut raw = FlightServiceClient::new(flight.channel().await);
    let cases = [("SELECT 1::bigint AS x, 'y' AS y", 2), ("CREATE TABLE t (x BIGINT)", 0)];
    for (text, columns) in cases {
        let query = CommandStatementQuery { query: text.to_owned(), transaction_id: None };
        let descriptor = FlightDescriptor::new_cmd(query.as_any().encode_to_vec());
        let schema = raw.get_schema(descriptor).await.expect("columns").into_inner();
        let schema = Schema::try_from(IpcMessage(schema.schema)).expect("a schema");
        assert_eq!(schema.fields().len(), columns, "{text}");
    }
    let tables = CommandGetTables::default();
    let descriptor = FlightDescriptor::new_cmd(tables.as_any().encode_to_vec());
    let schema = raw.get_schema(descriptor).await.expect("columns").into_inner();
    let schema = Schema::try_from(IpcMessage(schema.schema)).expect("a schema");
    assert_eq!(schema.fields().len(), 4);
    assert!(super::refused(&mut client, "SELECT * FROM t").await.contains("42P01"));
    flight.end().await;
}

/// Returns a `SetSessionOptionsRequest` with one text option.
fn option(name: &str, value: &str) -> Vec<u8> {
    let field = |tag: u8, bytes: &[u8]| {
        let length = u8::try_from(bytes.len()).expect("short");
        [&[tag, length], bytes].concat()
    };
    let value = field(0x0a, value.as_bytes());
    field(0x0a, &[field(0x0a, name.as_bytes()), field(0x12, &value)].concat())
}

async fn act(client: &mut Client, name: &str, body: Vec<u8>) -> Vec<u8> {
    let action = Action { r#type: name.to_owned(), body: body.into() };
    let results = client.do_action(action).await.expect("done");
    let results: Vec<_> = results.collect().await;
    results[0].as_ref().expect("a result").body.to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_are_settings() {
    let flight = Flight::start(Limits::default()).await;
    let mut client = flight.connect().await;
    update(&mut client, "CREATE SCHEMA sales").await;
    let good = [("schema", "sales"), ("catalog", "main"), ("TimeZone", "Europe/Berlin")];
    for (name, value) in good {
        let told = act(&mut client, "SetSessionOptions", option(name, value)).await;
        assert!(told.is_empty(), "{name}: {told:?}");
    }
    assert_eq!(texts(&mut client, "SELECT current_schema()").await, ["sales"]);
    assert_eq!(texts(&mut client, "SHOW TimeZone").await, ["Europe/Berlin"]);
    let bad = [
        ("schema", "nosuch", 2),
        ("catalog", "other", 2),
        ("nosuch", "1", 1),
        ("TimeZone", "Nowhere", 2),
        ("a.b; DROP SCHEMA sales", "1", 1),
    ];
    for (name, value, kind) in bad {
        let told = act(&mut client, "SetSessionOptions", option(name, value)).await;
        assert_eq!(told.last(), Some(&kind), "{name}: {told:?}");
    }
    let told = act(&mut client, "GetSessionOptions", vec![]).await;
    let told = String::from_utf8_lossy(&told).into_owned();
    for part in ["schema", "sales", "catalog", "main", "Europe/Berlin"] {
        assert!(told.contains(part), "{part}");
    }
    flight.end().await;
}
