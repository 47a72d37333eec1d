//! Power-cut tests at every point of every statement: all acknowledged changes survive, no others
//! do, and no space is leaked.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use datafusion::common::DFSchema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::{SessionContext, col, lit};
use terrace_store::{Blocks, Buffer, Done, Io};
use terrace_sys::sync::lock;
use terrace_testkit::{Rng, with_seed};

use crate::catalog::{IfExists, Properties, TableDefinition};
use crate::failpoint::{Hook, Point};
use crate::segment::Encoding;
use crate::table::Table;
use crate::test_support::{Database, int_schema, ints, memory, rows_of, stream_of};
use crate::transaction::Scope;
use crate::write::{Assignment, ColumnSource, Merged};

const PAGE: u64 = 4096;
type Pages = HashMap<u64, Box<[u8]>>;

/// A device with a write cache: only what was synced survives a power cut.
#[derive(Default)]
struct CachedBlocks {
    pages: Mutex<(Pages, Pages)>,
}

impl CachedBlocks {
    fn surviving(pages: Pages) -> Self {
        Self { pages: Mutex::new((pages.clone(), pages)) }
    }

    /// Returns the contents of the device after a power cut at this moment.
    fn durable(&self) -> Pages {
        lock(&self.pages).1.clone()
    }
}

impl Blocks for CachedBlocks {
    fn run(&self, batch: &mut [Io<'_>], done: &Done<'_>) {
        for io in batch {
            let mut pages = lock(&self.pages);
            let numbers = io.offset / PAGE..;
            match &mut io.buffer {
                Buffer::WriteFrom(data) => {
                    let data = data.chunks_exact(4096).map(Box::from);
                    pages.0.extend(numbers.zip(data));
                }
                Buffer::ReadInto(data) => {
                    for (number, data) in numbers.zip(data.chunks_exact_mut(4096)) {
                        match pages.0.get(&number) {
                            Some(page) => data.copy_from_slice(page),
                            None => data.fill(0),
                        }
                    }
                }
            }
            drop(pages);
            io.result = Ok(());
            done(io);
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut pages = lock(&self.pages);
        pages.1 = pages.0.clone();
        Ok(())
    }

    fn ensure(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    /// Discards freed space at once, synced or not, so that freeing too early loses data.
    fn punch(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        let mut pages = lock(&self.pages);
        let kept = |number: &u64| !(offset / PAGE..(offset + len_bytes) / PAGE).contains(number);
        pages.0.retain(|number, _| kept(number));
        pages.1.retain(|number, _| kept(number));
        Ok(())
    }

    fn truncate(&self, end_bytes: u64) -> io::Result<()> {
        self.punch(end_bytes, u64::MAX / 2)
    }

    fn is_blank(&self) -> io::Result<bool> {
        Ok(lock(&self.pages).0.is_empty())
    }

    fn kind(&self) -> &str {
        "cached"
    }
}

/// Rows of every table.
type Contents = BTreeMap<String, Vec<i64>>;

/// A moment of a power cut, and the contents of the devices then.
struct Cut {
    point: Point,
    catalog: PathBuf,
    pages: Pages,
}

async fn contents(database: &Database) -> Contents {
    let mut contents = Contents::new();
    for schema in database.catalog.schemas() {
        contents.insert(schema.clone(), vec![]);
        for table in database.catalog.tables(&schema) {
            contents.insert(table.full_name(), rows_of(&table).await);
        }
    }
    contents
}

/// Copies both devices at every point.
fn recorder(
    directory: &Path,
    blocks: &Arc<CachedBlocks>,
    cuts: &Arc<Mutex<Vec<Cut>>>,
    prefix: String,
) -> Hook {
    let (directory, blocks, cuts) = (directory.to_owned(), blocks.clone(), cuts.clone());
    Arc::new(move |point| {
        let mut cuts = cuts.lock().expect("no hook panics");
        let catalog = directory.join(format!("{prefix}-{}.redb", cuts.len()));
        std::fs::copy(directory.join("catalog.redb"), &catalog).expect("copy");
        cuts.push(Cut { point, catalog, pages: blocks.durable() });
        Ok(())
    })
}

fn physical(expr: datafusion::prelude::Expr) -> Arc<dyn PhysicalExpr> {
    let schema = DFSchema::try_from(int_schema()).expect("schema");
    SessionContext::new().create_physical_expr(expr, &schema).expect("expression")
}

/// Runs a random statement; it may fail because its table exists or does not.
async fn statement(database: &Database, rng: &mut Rng) {
    let name = ["a", "b"][rng.index(2)];
    let first = i64::try_from(rng.below(1_000)).expect("small");
    let rows = vec![ints(first..first + 70_000), ints(0..first)];
    let rows = || stream_of(&int_schema(), rows.clone());
    let some = physical(col("i").lt(lit(first * 30)));
    match (rng.index(12), database.find(name)) {
        (8, _) => schema_statement(database, first).await,
        (9, Some(table)) => {
            table.merge_some(&memory(), || false).await.expect("merge");
        }
        (10 | 11, Some(table)) => alter(database, &table).await,
        (0, _) | (_, None) => {
            let replace = [IfExists::Fail, IfExists::Replace][rng.index(2)];
            let rows = vec![ints(first..first + 70_000)];
            drop(database.table_as(name, replace, &int_schema(), rows).await);
        }
        (1 | 2, Some(table)) => {
            table.append(rows(), &memory()).await.expect("append");
        }
        (3, Some(table)) => {
            table.overwrite(rows(), &memory()).await.expect("overwrite");
        }
        (4, Some(table)) => {
            table.delete(Some(some), &memory()).await.expect("delete");
        }
        (5, Some(table)) => {
            let value = physical(col("i") + lit(1_i64));
            let set = vec![Assignment { column: 0, value }];
            table.update(set, Some(some), &memory()).await.expect("update");
        }
        (6, Some(table)) => {
            table.truncate().await.expect("truncate");
        }
        (_, Some(_)) => {
            database.catalog.drop_table("public", name).await.expect("drop");
        }
    }
}

/// Creates a schema, or fills it with two tables, or drops it with both, whichever is next.
async fn schema_statement(database: &Database, first: i64) {
    let catalog = &database.catalog;
    if catalog.create_schema("s", true).await.expect("schema") {
        return;
    }
    let count = catalog.tables("s").len();
    if count == 2 {
        assert!(catalog.drop_schema("s", true).await.expect("drop"));
        return;
    }
    let definition = TableDefinition {
        schema_name: "s".to_owned(),
        name: format!("t{count}"),
        columns: int_schema(),
        encoding: Encoding::Compact,
        properties: Properties::default(),
        owner: None,
    };
    let rows = stream_of(&int_schema(), vec![ints(first..first + 10)]);
    let made = catalog.create_table_as(definition, IfExists::Fail, rows, &memory()).await;
    assert_eq!(made.expect("made"), Some(10));
}

/// Computes one column of a table anew and shares the segments of the other.
async fn alter(database: &Database, table: &Arc<Table>) {
    let definition = TableDefinition {
        schema_name: table.schema_name().to_owned(),
        name: table.name().to_owned(),
        columns: int_schema(),
        encoding: table.encoding(),
        properties: Properties::default(),
        owner: None,
    };
    let rewrite = Scope::ALONE.rewrite(table).await.expect("locked");
    let after = database.catalog.altered(table, definition).expect("a definition");
    let value = physical(col("i") + lit(1_i64));
    let sources = [ColumnSource::Computed(value), ColumnSource::Kept(1)];
    let sketches = rewrite.sketches().expect("sketches");
    let changes =
        table.alter(rewrite.version(), &after, &sources, &sketches, &memory()).await.expect("rows");
    rewrite.alter(&database.catalog, &after, changes).await.expect("altered");
}

async fn run(seed: u64) {
    let directory = tempfile::tempdir().expect("tempdir");
    let blocks = Arc::new(CachedBlocks::default());
    let path = directory.path().join("catalog.redb");
    let database = Database::open(&path, blocks.clone()).expect("open");
    let mut rng = Rng::new(seed);
    let mut points = Vec::new();
    for round in 0..40 {
        if round % 3 == 0 {
            append_single_rows(&database, "a").await;
        }
        let devices = Devices { directory: directory.path(), blocks: &blocks, name: round };
        points.extend(cut_during(&database, &devices, statement(&database, &mut rng)).await);
    }
    assert_all_passed(&points);
}

/// Adds as many single-row chunks as trigger a merge.
async fn append_single_rows(database: &Database, name: &str) {
    let Some(table) = database.find(name) else { return };
    for i in 0..8 {
        let row = stream_of(&int_schema(), vec![ints([i])]);
        table.append(row, &memory()).await.expect("append");
    }
}

struct Devices<'a> {
    directory: &'a Path,
    blocks: &'a Arc<CachedBlocks>,
    /// Distinguishes the copies of one statement from those of others.
    name: u64,
}

/// Runs a statement and cuts the power at each of its points, which are returned.
async fn cut_during(
    database: &Database,
    devices: &Devices<'_>,
    statement: impl Future<Output = ()>,
) -> Vec<Point> {
    let Devices { directory, blocks, name } = devices;
    let before = contents(database).await;
    let cuts = Arc::new(Mutex::new(Vec::new()));
    let hook = recorder(directory, blocks, &cuts, name.to_string());
    database.catalog.set_failpoint(Some(hook));
    statement.await;
    database.catalog.set_failpoint(None);
    let after = contents(database).await;
    database.assert_no_leak();
    let cuts = std::mem::take(&mut *cuts.lock().expect("no hook panics"));
    let mut points = Vec::new();
    for cut in cuts {
        points.push(cut.point);
        let is_done = matches!(cut.point, Point::Committed | Point::Swap);
        let expected = if is_done { &after } else { &before };
        let survivors = Arc::new(CachedBlocks::surviving(cut.pages));
        let reopened = Database::open(&cut.catalog, survivors).expect("reopen");
        assert_eq!(&contents(&reopened).await, expected, "statement {name}, {:?}", cut.point);
        reopened.assert_no_leak();
        // The surviving database is fully usable.
        let schema = int_schema();
        let again = reopened.table_as("c", IfExists::Fail, &schema, vec![ints(0..9)]).await;
        assert_eq!(again.expect("usable"), Some(9));
        drop(reopened);
        std::fs::remove_file(&cut.catalog).expect("remove");
    }
    points
}

fn assert_all_passed(points: &[Point]) {
    let before = [Point::Persist, Point::Persisted, Point::Sync, Point::Commit];
    for point in before.into_iter().chain([Point::Committed, Point::Swap]) {
        assert!(points.contains(&point), "{point:?} was never passed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_during_a_merge_loses_and_shows_nothing() {
    let directory = tempfile::tempdir().expect("tempdir");
    let blocks = Arc::new(CachedBlocks::default());
    let path = directory.path().join("catalog.redb");
    let database = Database::open(&path, blocks.clone()).expect("open");
    let table = database.table("t", &int_schema()).await;
    append_single_rows(&database, "t").await;
    let merge = async {
        let merged = table.merge_some(&memory(), || false).await.expect("merged");
        assert_eq!(merged, Merged::Done);
    };
    let devices = Devices { directory: directory.path(), blocks: &blocks, name: 0 };
    assert_all_passed(&cut_during(&database, &devices, merge).await);
    assert_eq!(table.snapshot().chunks.len(), 1);
}

#[test]
fn a_power_cut_loses_and_shows_nothing() {
    with_seed(|seed| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        runtime.expect("runtime").block_on(run(seed));
    });
}
