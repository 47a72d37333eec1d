//! Generated tables of a benchmark.

use std::fmt;
use std::str::FromStr;

use datafusion::arrow::array::RecordBatchReader;
use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};

use crate::error::{BenchError, Result};

/// A benchmark, as named in the commands of child processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// TPC-H: eight tables, 22 queries.
    TpcH,
    /// TPC-DS: 24 tables, 99 queries.
    TpcDs,
}

impl Benchmark {
    /// Both benchmarks.
    pub const ALL: [Benchmark; 2] = [Benchmark::TpcH, Benchmark::TpcDs];

    /// Returns the name in commands and reports.
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::TpcH => "tpch",
            Benchmark::TpcDs => "tpcds",
        }
    }
}

impl FromStr for Benchmark {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Benchmark> {
        Benchmark::ALL.into_iter().find(|benchmark| benchmark.name() == text).ok_or_else(|| {
            BenchError::input(format!("no benchmark {text:?}; there are tpch and tpcds"))
        })
    }
}

/// A table of a benchmark, generated in parts. The parts of a table, one after another, have the
/// same rows in the same order for any number of parts.
pub trait Generated: Copy + Eq + fmt::Debug + fmt::Display + Send + Sync + 'static {
    /// Benchmark of the table.
    const BENCHMARK: Benchmark;

    /// Returns every table, in loading order.
    fn all() -> &'static [Self];

    /// Returns the name in SQL.
    fn name(self) -> &'static str;

    /// Returns the columns.
    fn schema(self) -> SchemaRef;

    /// Returns the number of rows at a scale; `None` if it is not known before they are generated.
    fn row_count(self, scale: f64) -> Option<u64>;

    /// Returns a query that checks the scale of a loaded table whose [`Generated::row_count`] is
    /// not known: its single value is true if the table, which is not empty, was generated at
    /// `scale`. `None` if another table that is generated along with it is checked in its place.
    fn witness(self, scale: f64) -> Option<String>;

    /// Returns the number of parts at this scale, at least 1.
    fn part_count(self, scale: f64) -> i32;

    /// Generates one part, counted from 1.
    ///
    /// # Errors
    /// Fails if the generator refuses the scale.
    fn part(self, scale: f64, part: i32, parts: i32) -> Result<Box<dyn RecordBatchReader + Send>>;

    /// Returns the `CREATE TABLE` statement for [`Generated::schema`].
    fn definition(self) -> String {
        let columns: Vec<String> =
            self.schema().fields().iter().map(|field| column(field)).collect();
        format!("CREATE TABLE {} ({})", self.name(), columns.join(", "))
    }

    /// Returns the table with a name.
    ///
    /// # Errors
    /// [`BenchError::Input`] with the valid names.
    fn named(text: &str) -> Result<Self> {
        Self::all().iter().copied().find(|table| table.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::all().iter().map(|table| table.name()).collect();
            let (benchmark, names) = (Self::BENCHMARK.name(), names.join(", "));
            BenchError::input(format!("no table {text:?} in {benchmark}; there are {names}"))
        })
    }
}

/// Formats a column of a definition. The generators use no other types than these.
fn column(field: &Field) -> String {
    let sql_type = match field.data_type() {
        DataType::Int32 => "INTEGER".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::Date32 => "DATE".into(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        _ => "VARCHAR".to_string(),
    };
    let null = if field.is_nullable() { "" } else { " NOT NULL" };
    format!("{} {sql_type}{null}", field.name())
}
