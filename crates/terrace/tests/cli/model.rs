//! Model of a database: its expected contents after a sequence of statements.

use std::collections::BTreeMap;

use serde_json::Value;
use terrace_testkit::Rng;

use crate::harness::Home;

/// Maximum number of further tables, so that reading them all stays quick.
const TABLES_MAX: usize = 12;

/// A statement that changes the database atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds a batch of rows to table `t`.
    Insert { batch: u64, rows: u64 },
    /// Removes a batch from table `t`.
    Delete { batch: u64 },
    /// Creates a further table.
    Create { table: u64, rows: u64 },
    /// Drops a further table.
    Drop { table: u64 },
    /// Empties table `t`.
    Truncate,
}

impl Change {
    pub fn sql(self) -> String {
        match self {
            Change::Insert { batch, rows } => format!(
                "INSERT INTO t SELECT {batch}, value, 'row ' || value \
                 FROM generate_series(1, {rows})"
            ),
            Change::Delete { batch } => format!("DELETE FROM t WHERE batch = {batch}"),
            Change::Create { table, rows } => format!(
                "CREATE TABLE c{table} AS SELECT value AS k, 'row ' || value AS name \
                 FROM generate_series(1, {rows})"
            ),
            Change::Drop { table } => format!("DROP TABLE c{table}"),
            Change::Truncate => "TRUNCATE TABLE t".to_string(),
        }
    }
}

/// Rows of each batch of `t` and of each further table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub batches: BTreeMap<u64, u64>,
    pub tables: BTreeMap<u64, u64>,
}

impl State {
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Insert { batch, rows } => drop(self.batches.insert(batch, rows)),
            Change::Delete { batch } => drop(self.batches.remove(&batch)),
            Change::Create { table, rows } => drop(self.tables.insert(table, rows)),
            Change::Drop { table } => drop(self.tables.remove(&table)),
            Change::Truncate => self.batches.clear(),
        }
    }

    /// Generates a change that is valid in this state. Names are never reused, so that rows
    /// identify their origin.
    pub fn next_change(&self, rng: &mut Rng, fresh: &mut u64) -> Change {
        *fresh += 1;
        let any = |map: &BTreeMap<u64, u64>, rng: &mut Rng| {
            let index = rng.below(map.len().max(1) as u64);
            map.keys().nth(usize::try_from(index).expect("small")).copied()
        };
        if self.tables.len() > TABLES_MAX
            && let Some(table) = any(&self.tables, rng)
        {
            return Change::Drop { table };
        }
        match rng.below(20) {
            0..=2 if let Some(batch) = any(&self.batches, rng) => Change::Delete { batch },
            3..=5 if let Some(table) = any(&self.tables, rng) => Change::Drop { table },
            6 if self.batches.len() > 10 => Change::Truncate,
            7..=11 => Change::Create { table: *fresh, rows: rows(rng) },
            _ => Change::Insert { batch: *fresh, rows: rows(rng) },
        }
    }

    /// Reads the contents of the database in `home`. Checks every row: the keys of a batch are 1 to
    /// its count, and its texts match them.
    pub fn read(home: &Home) -> State {
        let mut state = State::default();
        for row in home.rows(&format!("SELECT batch, {FOLD} FROM t GROUP BY batch")) {
            let batch = row["batch"].as_u64().expect("batch");
            assert_eq!(state.batches.insert(batch, whole_rows(&row)), None);
        }
        let names = "SELECT table_name FROM information_schema.tables \
                     WHERE table_schema = 'public' AND table_name <> 't'";
        let names = home.rows(names);
        let names = names.iter().map(|row| row["table_name"].as_str().expect("name"));
        let tables = names.map(|name| name.strip_prefix('c').expect("a table of ours"));
        let tables: Vec<u64> = tables.map(|number| number.parse().expect("number")).collect();
        let folds: Vec<String> =
            tables.iter().map(|table| format!("SELECT {FOLD} FROM c{table}")).collect();
        let rows = if folds.is_empty() { Vec::new() } else { home.rows(&folds.join(";")) };
        assert_eq!(rows.len(), tables.len());
        state.tables = tables.into_iter().zip(rows.iter().map(whole_rows)).collect();
        state
    }
}

/// Count and sums of keys and texts.
const FOLD: &str =
    "count(*) AS n, sum(k) AS s, sum(CASE WHEN name = 'row ' || k THEN 1 ELSE 0 END) AS good";

/// Returns the count of a group, and checks that its rows are intact.
fn whole_rows(row: &Value) -> u64 {
    let rows = row["n"].as_u64().expect("count");
    assert_eq!(row["s"].as_u64(), Some(rows * (rows + 1) / 2), "{row}");
    assert_eq!(row["good"].as_u64(), Some(rows), "{row}");
    rows
}

/// Draws a number of rows: mostly small, sometimes many chunks.
fn rows(rng: &mut Rng) -> u64 {
    match rng.below(6) {
        0 => 100_000 + rng.below(300_000),
        1..=2 => 1_000 + rng.below(50_000),
        _ => 1 + rng.below(1_000),
    }
}
