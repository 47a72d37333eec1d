//! Random statements, and the expected contents of a database after them.

use std::collections::BTreeMap;

use datafusion::arrow::array::{AsArray as _, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use terrace_sql::{Engine, Session, SqlError};
use terrace_testkit::Rng;

/// A schema besides the default one, created and dropped repeatedly.
const SCHEMA: &str = "s";
const VIEW: &str = "w";
const SMALL: &str = "small";

type Row = (i64, i64, String);

/// The contents of a database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// The rows of each table, in order.
    tables: BTreeMap<String, Vec<Row>>,
    /// The number in the view's text.
    view: Option<i64>,
    has_schema: bool,
}

/// A random statement, applied to `contents`. No two numbers write the same rows.
pub fn statement(number: i64, contents: &mut Contents, rng: &mut Rng) -> String {
    let table = contents.tables.keys().nth(rng.index(contents.tables.len().max(1))).cloned();
    let Some(table) = table.filter(|_| !rng.one_in(5)) else {
        return define(number, contents, rng);
    };
    let rows = contents.tables.get_mut(&table).expect("one of these");
    let modulus = 1 + number % 5;
    let chosen = |row: &Row| row.0 % modulus == 0;
    match rng.below(8) {
        0 => {
            rows.retain(|row| !chosen(row));
            format!("DELETE FROM {table} WHERE k % {modulus} = 0")
        }
        1 | 2 => {
            for row in rows.iter_mut().filter(|row| chosen(row)) {
                row.1 += number;
                row.2.push('!');
            }
            rows.sort();
            format!(
                "UPDATE {table} SET v = v + {number}, s = concat(s, '!') WHERE k % {modulus} = 0"
            )
        }
        3 => {
            let (source, new) = source(number, rng);
            *rows = new;
            format!("INSERT OVERWRITE {table} {source}")
        }
        4 if rng.one_in(2) => {
            contents.tables.remove(&table);
            format!("DROP TABLE {table}")
        }
        _ => {
            let (source, new) = source(number, rng);
            rows.extend(new);
            rows.sort();
            format!("INSERT INTO {table} {source}")
        }
    }
}

/// Inserts one row into the table of small chunks; the first call creates the table.
pub fn small_insertion(number: i64, contents: &mut Contents) -> String {
    let source = format!("SELECT {number} AS k, {number} AS v, 'small' AS s");
    let row = (number, number, "small".to_owned());
    match contents.tables.get_mut(SMALL) {
        Some(rows) => {
            rows.push(row);
            rows.sort();
            format!("INSERT INTO {SMALL} {source}")
        }
        None => {
            contents.tables.insert(SMALL.to_owned(), vec![row]);
            format!("CREATE TABLE {SMALL} AS {source}")
        }
    }
}

/// True if a background merge has happened since the database was opened.
pub async fn has_merged(session: &Session) -> bool {
    let outputs = session.sql("SELECT 1 FROM terrace.merges WHERE merges > 0").await;
    outputs.is_ok_and(|outputs| outputs[0].batches.iter().any(|batch| batch.num_rows() > 0))
}

/// A statement that creates or drops an object.
fn define(number: i64, contents: &mut Contents, rng: &mut Rng) -> String {
    let in_schema = contents.has_schema && rng.one_in(2);
    let table = format!("{}t{}", if in_schema { "s." } else { "" }, rng.below(3));
    let (source, rows) = source(number, rng);
    match rng.below(8) {
        0 if contents.has_schema => {
            contents.has_schema = false;
            contents.tables.retain(|name, _| !name.starts_with("s."));
            format!("DROP SCHEMA {SCHEMA} CASCADE")
        }
        0 => {
            contents.has_schema = true;
            format!("CREATE SCHEMA {SCHEMA}")
        }
        1 if contents.view.take().is_some() => format!("DROP VIEW {VIEW}"),
        1 => {
            contents.view = Some(number);
            format!("CREATE OR REPLACE VIEW {VIEW} AS SELECT {number} AS n")
        }
        2 => {
            contents.tables.insert(table.clone(), vec![]);
            format!("CREATE OR REPLACE TABLE {table} (k BIGINT, v BIGINT, s VARCHAR)")
        }
        encoding => {
            contents.tables.insert(table.clone(), rows);
            let encoding = if encoding % 2 == 0 { "compact" } else { "plain" };
            format!("CREATE OR REPLACE TABLE {table} WITH (encoding = '{encoding}') AS {source}")
        }
    }
}

/// A query that produces some rows, and these rows in order.
fn source(number: i64, rng: &mut Rng) -> (String, Vec<Row>) {
    let few = i64::try_from(rng.below(50)).unwrap_or(0);
    let count = [1, 1, few, few, 1_000 + 20 * few][rng.index(5)];
    let rows = (1..=count).map(|k| (k, number, format!("row {k} of {number}")));
    let text = format!(
        "SELECT value AS k, {number} AS v, concat('row ', value, ' of {number}') AS s \
         FROM generate_series(1, {count})"
    );
    (text, rows.collect())
}

/// Reads every row of every table.
pub async fn contents(engine: &Engine, session: &Session) -> Result<Contents, SqlError> {
    let catalog = engine.catalog();
    let mut contents = Contents { has_schema: catalog.has_schema(SCHEMA), ..Contents::default() };
    for schema in catalog.schemas() {
        for table in catalog.tables(&schema) {
            let name = table.full_name();
            let outputs = session.sql(&format!("SELECT k, v, s FROM {name}")).await?;
            let batches = outputs.iter().flat_map(|output| &output.batches);
            let mut rows: Vec<Row> = batches.flat_map(rows).collect();
            rows.sort();
            contents.tables.insert(name.trim_start_matches("public.").to_owned(), rows);
        }
        for (name, _) in catalog.views(&schema) {
            let outputs = session.sql(&format!("SELECT n FROM {schema}.{name}")).await?;
            let column = outputs[0].batches[0].column(0);
            contents.view = Some(column.as_primitive::<Int64Type>().value(0));
        }
    }
    Ok(contents)
}

fn rows(batch: &RecordBatch) -> Vec<Row> {
    let numbers = |column: usize| batch.column(column).as_primitive::<Int64Type>().values();
    let texts = cast(batch.column(2), &DataType::Utf8).expect("text");
    let texts = texts.as_string::<i32>().iter().map(|text| text.unwrap_or("NULL").to_owned());
    let keys = numbers(0).iter().zip(numbers(1));
    keys.zip(texts).map(|((k, v), s)| (*k, *v, s)).collect()
}
