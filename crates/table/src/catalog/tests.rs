//! Tests of the catalog across restarts, and of its refusals.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use proptest::prelude::*;
use redb::ReadableTable as _;
use tempfile::TempDir;
use terrace_store::{Extent, MemoryBlocks, Stored};
use terrace_testkit::Rng;

use super::record::{BodyRecord, ChunkRecord, SegmentRecord, TableRecord, view_from_bytes};
use super::*;
use crate::error::SqlError;
use crate::failpoint::Point;
use crate::segment::{Constant, Encoding};
use crate::statistics::Collector;
use crate::test_support::{Database, array, int_schema, ints, memory, rows_of, stream_of, types};

struct TestDirectory {
    directory: TempDir,
    blocks: Arc<MemoryBlocks>,
}

impl TestDirectory {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("tempdir");
        Self { directory, blocks: Arc::new(MemoryBlocks::new(1 << 30)) }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("catalog.redb")
    }

    fn open(&self) -> Database {
        Database::open(&self.path(), self.blocks.clone()).expect("open")
    }

    fn error(&self) -> String {
        match Database::open(&self.path(), self.blocks.clone()) {
            Ok(_) => panic!("must be refused"),
            Err(error) => error.to_string(),
        }
    }
}

#[test]
fn a_catalog_that_was_cut_off_while_it_was_made_is_made_again() {
    let home = TestDirectory::new();
    let unfinished = home.directory.path().join("catalog.redb.new");
    std::fs::write(&unfinished, [0; 100_000]).expect("write");
    drop(home.open());
    assert!(!unfinished.exists() && home.path().exists());
    drop(home.open());
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_there_after_a_restart() {
    let home = TestDirectory::new();
    let before = {
        let database = home.open();
        let catalog = &database.catalog;
        assert!(catalog.create_schema("other", false).await.expect("schema"));
        catalog.put_view("other", "v", "SELECT 1", false).await.expect("view");
        database.table("empty", &int_schema()).await;
        let rows = (0..30).map(|i| ints(i * 5_000..(i + 1) * 5_000)).collect();
        let created = database.table_as("t", IfExists::Fail, &int_schema(), rows).await;
        assert_eq!(created.expect("created"), Some(150_000));
        database.assert_no_leak();
        let table = database.find("t").expect("t");
        assert_eq!(table.snapshot().chunks.len(), 3);
        table.snapshot().statistics()
    };
    let database = home.open();
    assert_eq!(database.catalog.schemas(), ["other", "public"]);
    assert_eq!(database.catalog.view("other", "v").as_deref(), Some("SELECT 1"));
    assert_eq!(rows_of(&database.find("empty").expect("empty")).await, [] as [i64; 0]);
    let table = database.find("t").expect("t");
    assert_eq!(rows_of(&table).await, (0..150_000).collect::<Vec<_>>());
    assert_eq!(*table.snapshot().statistics(), *before);
    assert_eq!(table.schema(), &int_schema());
    database.assert_no_leak();
    // Table ids are not reused, and new chunks do not replace old ones.
    let last = database.table("new", &int_schema()).await.id();
    assert!(last > table.id());
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_taken_kept_and_replaced() {
    let home = TestDirectory::new();
    let database = home.open();
    let schema = int_schema();
    let make = |if_exists, rows| database.table_as("t", if_exists, &schema, vec![ints(rows)]);
    assert_eq!(make(IfExists::Replace, 0..10).await.expect("new"), Some(10));
    let error = make(IfExists::Fail, 0..1).await.expect_err("taken").to_string();
    assert!(error.contains("public.t already exists"), "{error}");
    assert_eq!(make(IfExists::Keep, 0..1).await.expect("kept"), None);
    let old = database.find("t").expect("t");
    let version = old.snapshot();
    assert_eq!(make(IfExists::Replace, 5..9).await.expect("replaced"), Some(4));
    assert!(old.is_dropped());
    assert_eq!(rows_of(&database.find("t").expect("t")).await, [5, 6, 7, 8]);
    // The reader of the replaced table keeps its chunks.
    assert!(database.used_bytes() > database.directory_bytes());
    drop(version);
    database.assert_no_leak();
    let catalog = &database.catalog;
    let error = catalog.put_view("public", "t", "SELECT 1", true).await.expect_err("a table");
    assert!(matches!(error, SqlError::Exists { .. }), "{error}");
    catalog.put_view("public", "v", "SELECT 1", false).await.expect("view");
    let error = database.table_as("v", IfExists::Replace, &schema, vec![]).await;
    assert!(matches!(error, Err(SqlError::Exists { .. })), "{error:?}");
    let error = catalog.create_schema("public", false).await.expect_err("there is one");
    assert!(matches!(error, SqlError::SchemaExists { .. }), "{error}");
    assert!(!catalog.create_schema("public", true).await.expect("kept"));
    assert!(catalog.drop_view("public", "v").await.expect("dropped"));
    assert!(!catalog.drop_view("public", "v").await.expect("gone"));
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_returns_the_space() {
    let home = TestDirectory::new();
    let database = home.open();
    let rows = vec![ints(0..100_000)];
    database.table_as("t", IfExists::Fail, &int_schema(), rows).await.expect("created");
    assert!(database.store.stats().extent_bytes > LABEL_BYTES);
    let error = database.catalog.drop_schema("public", false).await.expect_err("not empty");
    assert!(error.to_string().contains("holds table t"), "{error}");
    assert!(database.catalog.drop_table("public", "t").await.expect("dropped"));
    assert!(!database.catalog.drop_table("public", "t").await.expect("gone"));
    let stats = database.store.stats();
    assert_eq!((stats.used_bytes, stats.extent_bytes), (LABEL_BYTES, LABEL_BYTES));
    let rows = vec![ints(0..10)];
    database.table_as("t", IfExists::Fail, &int_schema(), rows).await.expect("created");
    assert!(database.catalog.drop_schema("public", true).await.expect("dropped"));
    drop(database);
    let database = home.open();
    assert_eq!(database.catalog.schemas(), [] as [&str; 0]);
    assert_eq!(database.used_bytes(), 0);
    let made = database.table_as("t", IfExists::Fail, &int_schema(), vec![]).await;
    assert!(matches!(made, Err(SqlError::MissingSchema { .. })), "{made:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_goes_with_everything_in_it_or_not_at_all() {
    let home = TestDirectory::new();
    let database = home.open();
    let catalog = database.catalog.clone();
    for name in ["a", "b", "c"] {
        let rows = vec![ints(0..100)];
        database.table_as(name, IfExists::Fail, &int_schema(), rows).await.expect("created");
    }
    catalog.put_view("public", "v", "SELECT 1", false).await.expect("view");
    let b = database.find("b").expect("b");
    let full = database.used_bytes();
    catalog.set_failpoint(Some(Arc::new(|point| match point {
        Point::Commit => Err(SqlError::Task("power".to_owned())),
        _ => Ok(()),
    })));
    catalog.drop_schema("public", true).await.expect_err("the commit fails");
    catalog.set_failpoint(None);
    assert_eq!((catalog.tables("public").len(), catalog.views("public").len()), (3, 1));
    assert_eq!(rows_of(&b).await.len(), 100);
    assert_eq!(database.used_bytes(), full);
    // Concurrently with writers and creators of tables, in any order.
    let dropping = catalog.clone();
    let drop_schema = tokio::spawn(async move { dropping.drop_schema("public", true).await });
    let (memory, schema) = (memory(), int_schema());
    let (appended, _made) = tokio::join!(
        b.append(stream_of(&schema, vec![ints(0..10)]), &memory),
        database.table_as("d", IfExists::Fail, &schema, vec![ints(0..10)])
    );
    assert!(drop_schema.await.expect("task").expect("dropped"));
    assert!(matches!(appended, Ok(10) | Err(SqlError::Dropped { .. })), "{appended:?}");
    assert_eq!(catalog.schemas(), [] as [&str; 0]);
    drop(b);
    assert_eq!(database.used_bytes(), 0);
    assert!(!catalog.drop_schema("public", true).await.expect("gone"));
}

#[tokio::test(flavor = "multi_thread")]
async fn types_that_cannot_be_stored_are_refused_with_their_column() {
    let home = TestDirectory::new();
    let database = home.open();
    let item = Arc::new(Field::new("item", DataType::Int8, true));
    let schema = Schema::new(vec![Field::new("l", DataType::ListView(item), true)]);
    let made = database.table_as("t", IfExists::Fail, &Arc::new(schema), vec![]).await;
    let error = made.expect_err("must be refused").to_string();
    assert!(error.contains("column l") && error.contains("cast it to a list"), "{error}");
    let made = database.table_as("t", IfExists::Fail, &Arc::new(Schema::empty()), vec![]).await;
    assert!(made.expect_err("must be refused").to_string().contains("without columns"));
}

/// Changes the catalog's file directly, bypassing the catalog.
fn tamper(home: &TestDirectory, change: impl FnOnce(&redb::WriteTransaction)) {
    let database = redb::Database::open(home.path()).expect("open");
    let write = database.begin_write().expect("begin");
    change(&write);
    write.commit().expect("commit");
}

const CHUNKS: redb::TableDefinition<'_, (u64, u64), &[u8]> = redb::TableDefinition::new("chunks");
const TABLES: redb::TableDefinition<'_, u64, &[u8]> = redb::TableDefinition::new("tables");
const META: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");

async fn home_with_a_table() -> (TestDirectory, u64) {
    let home = TestDirectory::new();
    let database = home.open();
    database.table_as("t", IfExists::Fail, &int_schema(), vec![ints(0..9)]).await.expect("t");
    let id = database.find("t").expect("t").id();
    drop(database);
    (home, id)
}

#[tokio::test(flavor = "multi_thread")]
async fn extents_named_twice_are_damage() {
    let (home, id) = home_with_a_table().await;
    tamper(&home, |write| {
        let mut chunks = write.open_table(CHUNKS).expect("chunks");
        let record = chunks.get((id, 0)).expect("get").expect("chunk").value().to_vec();
        chunks.insert((id, 1), record.as_slice()).expect("insert");
    });
    let error = home.error();
    assert!(error.contains("damaged") && error.contains("public.t"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_do_not_parse_are_damage() {
    let (home, id) = home_with_a_table().await;
    tamper(&home, |write| {
        write.open_table(CHUNKS).expect("chunks").insert((id, 0), &b"\x01\x02"[..]).expect("put");
    });
    assert!(home.error().contains("chunk 0 of table t cannot be read"));
    tamper(&home, |write| {
        write.open_table(TABLES).expect("tables").insert(id, &b"\x07"[..]).expect("put");
    });
    assert!(home.error().contains(&format!("table number {id} cannot be read: version 7")));
    tamper(&home, |write| {
        write.open_table(TABLES).expect("tables").remove(id).expect("remove");
    });
    assert!(home.error().contains("1 chunks, 0 of them in tables"));
    tamper(&home, |write| {
        write.open_table(META).expect("meta").insert("version", 9).expect("put");
    });
    assert!(home.error().contains("version 9"));
}

#[test]
fn a_file_that_is_no_catalog_is_refused() {
    let home = TestDirectory::new();
    std::fs::write(home.path(), "this is not a database, but it is long enough to be read as one")
        .expect("write");
    assert!(home.error().contains("cannot open it"), "{}", home.error());
}

/// Builds a record of random statistics for columns of every type.
fn chunk_record(rng: &mut Rng, rows: usize) -> (SchemaRef, ChunkRecord) {
    let types = types();
    let fields = types.iter().zip(0..).map(|(t, i)| Field::new(format!("c{i}"), t.clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let nulls = rng.below(3);
    let columns = types.iter().map(|data_type| {
        let mut collector = Collector::default();
        collector.add(&array(rng, data_type, rows, nulls)).expect("collect");
        let extent = Extent { offset_bytes: rng.below(99) * 4096, len_bytes: 8192 };
        let stored = Stored { extent, checksum: 0xfedc_ba98 };
        let encoding = Encoding::ALL[rng.index(Encoding::ALL.len())];
        let body = BodyRecord::Stored { stored, encoding, len_bytes: 5000 };
        SegmentRecord { body, statistics: collector.finish().0 }
    });
    let columns = columns.collect();
    let (place, is_full) = (Some(rng.below(1 << 40)), rng.one_in(2));
    (schema, ChunkRecord { rows, place, is_full, columns })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn records_come_back(seed: u64) {
        let mut rng = Rng::new(seed);
        let rows = rng.index(50);
        let (columns, mut chunk) = chunk_record(&mut rng, rows);
        let bytes = chunk.to_bytes().expect("bytes");
        prop_assert_eq!(&ChunkRecord::from_bytes(&bytes, &columns), &Ok(chunk.clone()));
        for (column, field) in chunk.columns.iter_mut().zip(columns.fields()) {
            let value = array(&mut rng, field.data_type(), 1, 0);
            if let Some(constant) = Constant::of(&value).expect("encoded") {
                column.body = BodyRecord::Constant(constant);
            }
        }
        let bytes = chunk.to_bytes().expect("bytes");
        prop_assert_eq!(ChunkRecord::from_bytes(&bytes, &columns), Ok(chunk));
        let (schema_name, name) = ("s".to_owned(), "t\u{e9}".to_owned());
        let (encoding, properties) = (Encoding::default(), Properties::default());
        let mut table = TableRecord { schema_name, name, encoding, columns, properties };
        let bytes = table.to_bytes().expect("bytes");
        prop_assert_eq!(bytes[0], 1, "without properties, as older programs have it");
        prop_assert_eq!(&TableRecord::from_bytes(&bytes), &Ok(table.clone()));
        table.properties.change("c0", |column| column.default = Some("1 + 1".to_owned()));
        table.properties.change("c1", |column| column.comment = Some("b".to_owned()));
        table.properties.checks.insert("t_check".to_owned(), "c0 > 0".to_owned());
        table.properties.comment = Some("c".to_owned());
        let bytes = table.to_bytes().expect("bytes");
        prop_assert_eq!(TableRecord::from_bytes(&bytes), Ok(table));
    }

    #[test]
    fn chunks_of_before_there_were_encodings_and_places_are_read(seed: u64) {
        let mut rng = Rng::new(seed);
        let (columns, mut chunk) = chunk_record(&mut rng, 20);
        let [plain, unplaced] = chunk.to_old_bytes().expect("bytes");
        (chunk.place, chunk.is_full) = (None, false);
        prop_assert_eq!(&ChunkRecord::from_bytes(&unplaced, &columns), &Ok(chunk.clone()));
        for column in &mut chunk.columns {
            if let BodyRecord::Stored { encoding, .. } = &mut column.body {
                *encoding = Encoding::Plain;
            }
        }
        prop_assert_eq!(ChunkRecord::from_bytes(&plain, &columns), Ok(chunk));
    }

    #[test]
    fn damaged_records_are_errors_or_records(seed: u64) {
        let mut rng = Rng::new(seed);
        let (columns, chunk) = chunk_record(&mut rng, 20);
        let mut bytes = chunk.to_bytes().expect("bytes");
        let at = rng.index(bytes.len());
        bytes[at] ^= 1 << rng.below(8);
        // The file has checksums of its own, so here it suffices that nothing panics.
        let _ = ChunkRecord::from_bytes(&bytes, &columns);
        bytes.truncate(at);
        prop_assert!(ChunkRecord::from_bytes(&bytes, &columns).is_err());
        let _ = TableRecord::from_bytes(&bytes);
        let _ = view_from_bytes(&bytes);
    }
}
