//! Runs one script of the suite in a fresh database.

use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};

use super::report::FileReport;
use super::script::{self, Record, Want};
use super::select::{hash, sampled};
use super::value::{self, Expected, Kind, Sort};
use crate::database::Database;
use crate::error::Result;
use crate::outcome::{Outcome, execute, reason};

/// The memory budget of each database.
const DRAM_BYTES: u64 = 64 << 20;
/// Maximum number of partitions; the hash of a script's name picks 1 to this many.
const PARTITIONS_MAX: u32 = 3;
/// Maximum number of rows of an INSERT that is combined from INSERTs of one row each.
const INSERT_ROWS_MAX: usize = 1000;

/// Refusals that PostgreSQL shares: a part of the message, and the reason that they are counted
/// under. The scripts drop a view before those that read it. It stays, and its name is not used
/// again; with CASCADE the scripts would later drop views that are gone.
const SHARED: [(&str, &str); 2] = [
    ("Unary operator '+' only supports", "a text with a sign: PostgreSQL has no such operator"),
    (
        "because other objects depend on it",
        "a view that others depend on is dropped without CASCADE: refused as in PostgreSQL",
    ),
];

/// Runs a script and counts its records.
///
/// # Errors
/// If no database can be opened; failed statements of the script are in the report.
pub async fn script(name: &str, text: &str, sample: u32) -> Result<FileReport> {
    let mut report = FileReport::new(name);
    let records = match script::parse(text) {
        Ok(records) => records,
        Err(message) => {
            report.fail(0, "the script cannot be read", &message);
            return Ok(report);
        }
    };
    let partitions = usize::try_from(1 + hash(name) % PARTITIONS_MAX).unwrap_or(1);
    let database = Database::open(DRAM_BYTES, partitions)?;
    let mut run = Run { database, report, refused: None };
    let began = Instant::now();
    let mut at = 0;
    while at < records.len() {
        let inserts = insert_run(&records[at..]);
        if inserts > 1 && run.insert(&records[at..at + inserts]).await {
            at += inserts;
            continue;
        }
        run.record(&records[at], sample).await;
        at += 1;
    }
    run.report.seconds = began.elapsed().as_secs_f64();
    Ok(run.report)
}

struct Run {
    database: Database,
    report: FileReport,
    /// Reason of the latest refused change of rows; a wrong result after it proves nothing.
    refused: Option<String>,
}

impl Run {
    /// Runs INSERTs of one row each as one statement. False if that statement was refused.
    async fn insert(&mut self, records: &[Record]) -> bool {
        let Some((head, first)) = records[0].sql.split_once("VALUES") else { return false };
        let rows = records.iter().skip(1).filter_map(|record| record.sql.split_once("VALUES"));
        let rows: Vec<_> = rows.map(|(_, row)| row).collect();
        let text = format!("{head}VALUES{first},{}", rows.join(","));
        let done = matches!(execute(self.database.session(), &text).await, Outcome::Rows(_));
        if done {
            self.report.passed += records.len();
        }
        done
    }

    async fn record(&mut self, record: &Record, sample: u32) {
        match &record.want {
            Want::Values { .. } if !sampled(&record.sql, sample) => {}
            Want::Values { kinds, sort, values } => {
                self.query(record, kinds, *sort, values).await;
            }
            Want::Success => self.statement(record).await,
            Want::Failure => match execute(self.database.session(), &record.sql).await {
                Outcome::Refused(_) => self.report.passed += 1,
                outcome => self.broken(record, outcome, "accepted, and should be refused"),
            },
        }
    }

    async fn statement(&mut self, record: &Record) {
        let outcome = execute(self.database.session(), &record.sql).await;
        let Outcome::Refused(message) = outcome else {
            self.broken_or_passed(record, outcome);
            return;
        };
        let reason = reason_of(&message);
        if let Some(text) = without_keys(&record.sql) {
            let again = execute(self.database.session(), &text).await;
            if matches!(again, Outcome::Rows(_)) {
                self.report.refuse(&format!("{reason} (table made without)"));
                return;
            }
        }
        let changes = ["INSERT", "UPDATE", "DELETE", "REPLACE"];
        if changes.iter().any(|word| has_prefix(&record.sql, word)) {
            self.refused = Some(reason.clone());
        }
        self.report.refuse(&reason);
    }

    async fn query(&mut self, record: &Record, kinds: &[Kind], sort: Sort, values: &Expected) {
        match execute(self.database.session(), &record.sql).await {
            Outcome::Rows(batches) => {
                let rows = value::rows(&batches, kinds);
                match rows.and_then(|rows| value::compare(rows, sort, values)) {
                    Ok(()) => self.report.passed += 1,
                    Err(_) if self.refused.is_some() => {
                        let reason = self.refused.clone().unwrap_or_default();
                        self.report.refuse(&format!("query after a refused change: {reason}"));
                    }
                    Err(_) if is_whole_in_sqlite(record, kinds, &batches) => {
                        self.report.refuse("a whole number where PostgreSQL has a fraction");
                    }
                    Err(what) => self.report.fail(record.line, &record.sql, &what),
                }
            }
            Outcome::Refused(message) => self.report.refuse(&reason_of(&message)),
            outcome => self.broken(record, outcome, ""),
        }
    }

    fn broken_or_passed(&mut self, record: &Record, outcome: Outcome) {
        match outcome {
            Outcome::Rows(_) => self.report.passed += 1,
            outcome => self.broken(record, outcome, ""),
        }
    }

    fn broken(&mut self, record: &Record, outcome: Outcome, accepted: &str) {
        let what = match outcome {
            Outcome::Rows(_) | Outcome::Refused(_) => accepted.to_owned(),
            Outcome::Panicked(message) => message,
            Outcome::Hung => "no end within 60 s".to_owned(),
        };
        self.report.fail(record.line, &record.sql, &what);
    }
}

/// Returns the reason under which a refusal is counted.
fn reason_of(message: &str) -> String {
    let shared = SHARED.iter().find(|(part, _)| message.contains(part));
    shared.map_or_else(|| reason(message), |(_, shared)| (*shared).to_owned())
}

/// True if the suite expects SQLite's answer to an expression of whole numbers and an average or a
/// REAL, such as `COALESCE(43, AVG(x)) / 65` and `NULLIF(21, CAST(99 AS REAL)) / 88`: in SQLite the
/// type is that of the chosen value, in PostgreSQL that of the expression.
fn is_whole_in_sqlite(record: &Record, kinds: &[Kind], batches: &[RecordBatch]) -> bool {
    let of_integers = |batch: &RecordBatch| -> Vec<ArrayRef> {
        let columns = batch.columns().iter().zip(kinds);
        let columns = columns.filter(|(_, kind)| **kind == Kind::Integer);
        columns.map(|(array, _)| Arc::clone(array)).collect()
    };
    let arrays: Vec<_> = batches.iter().flat_map(of_integers).collect();
    let is_other =
        |array: &ArrayRef| !array.data_type().is_integer() && !array.data_type().is_null();
    let has = |word: &str| record.sql.contains(word);
    let choice = has("COALESCE") || has("NULLIF") || has("CASE");
    let average = has("AVG") && arrays.iter().any(is_other);
    let real = has("AS REAL") && arrays.iter().any(has_fraction);
    choice && (average || real)
}

/// True if some of the numbers are not whole.
fn has_fraction(array: &ArrayRef) -> bool {
    let Ok(numbers) = cast(array, &DataType::Float64) else { return false };
    let numbers = numbers.as_primitive::<Float64Type>();
    numbers.iter().flatten().any(|number| number.fract() != 0.0)
}

/// Returns the number of INSERTs at the start that differ only in their row. One statement for each
/// would give the table a chunk per row, which is slow to read and no test of queries.
fn insert_run(records: &[Record]) -> usize {
    let head = |record: &Record| {
        let (head, _) = record.sql.split_once("VALUES")?;
        let insert = record.want == Want::Success && has_prefix(head, "INSERT INTO");
        insert.then(|| head.to_owned())
    };
    let Some(first) = records.first().and_then(head) else { return 0 };
    let same = records.iter().take(INSERT_ROWS_MAX);
    same.take_while(|record| head(record).as_ref() == Some(&first)).count()
}

/// Returns a table's definition without its keys, or `None` if it has no keys.
fn without_keys(sql: &str) -> Option<String> {
    let text = sql.replace(" PRIMARY KEY", "").replace(" UNIQUE", "");
    (has_prefix(sql, "CREATE TABLE") && text != sql).then_some(text)
}

fn has_prefix(sql: &str, prefix: &str) -> bool {
    let sql = sql.trim_start();
    sql.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "statement ok\nCREATE TABLE t(a INTEGER, b INTEGER)\n\n\
        statement ok\nINSERT INTO t VALUES(1,7)\n\nstatement ok\nINSERT INTO t VALUES(2,NULL)\n\n\
        query II nosort\nSELECT a, b FROM t ORDER BY a\n----\n1\n7\n2\nNULL\n\n\
        query I rowsort\nSELECT a / 2 FROM t\n----\n0\n1\n\nstatement error\nSELECT z FROM t\n";

    #[tokio::test(flavor = "multi_thread")]
    async fn right_answers_pass_and_wrong_ones_fail() {
        let report = script("test/a.test", SCRIPT, 1).await.expect("ran");
        assert_eq!((report.passed, report.failures.len()), (6, 0), "{report:?}");
        let wrong = SCRIPT.replace("1\n7\n2\nNULL", "1\n7\n2\n0");
        let report = script("test/a.test", &wrong, 1).await.expect("ran");
        assert_eq!((report.passed, report.failures.len()), (5, 1), "{report:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn choices_with_a_real_are_no_whole_numbers() {
        let query = |sql: &str| format!("query I nosort\n{sql}\n----\n20\n");
        let chosen = query("SELECT 51 - 31 + NULLIF(-21, CAST(99 AS REAL)) / 88");
        let report = script("test/a.test", &chosen, 1).await.expect("ran");
        assert_eq!((report.passed, report.failures.len()), (0, 0), "{report:?}");
        let whole = query("SELECT 40 + NULLIF(-21, CAST(99 AS REAL))");
        let report = script("test/a.test", &whole, 1).await.expect("ran");
        assert_eq!(report.failures.len(), 1, "{report:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn refusals_of_postgresql_have_reasons_of_their_own() {
        let text = "statement ok\nCREATE TABLE t(a INTEGER, b TEXT)\n\n\
            statement ok\nCREATE VIEW v1 AS SELECT a FROM t\n\n\
            statement ok\nCREATE VIEW v2 AS SELECT a FROM v1\n\n\
            statement ok\nDROP VIEW v1\n\nstatement ok\nDROP VIEW v2\n\n\
            query T nosort\nSELECT + b FROM t\n----\n";
        let report = script("test/a.test", text, 1).await.expect("ran");
        assert_eq!((report.passed, report.failures.len()), (4, 0), "{report:?}");
        let reasons: Vec<_> = report.refused.keys().map(String::as_str).collect();
        assert_eq!(reasons, SHARED.map(|(_, reason)| reason), "{report:?}");
    }

    #[test]
    fn inserts_into_one_table_go_together() {
        let records = script::parse(SCRIPT).expect("parsed");
        assert_eq!([0, 1, 2, 3].map(|at| insert_run(&records[at..])), [0, 2, 1, 0]);
        let keyed = "CREATE TABLE t(a INTEGER PRIMARY KEY)";
        assert_eq!(without_keys(keyed).as_deref(), Some("CREATE TABLE t(a INTEGER)"));
    }
}
