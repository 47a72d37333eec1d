//! A table that a benchmark generates.

use std::fmt;
use std::str::FromStr;

use datafusion::arrow::array::RecordBatchReader;
use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};

use crate::error::{BenchError, Result};

/// Which benchmark, as the commands between processes name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// TPC-H: eight tables, 22 queries.
    TpcH,
    /// TPC-DS: 24 tables, 99 queries.
    TpcDs,
}

impl Benchmark {
    /// Both.
    pub const ALL: [Benchmark; 2] = [Benchmark::TpcH, Benchmark::TpcDs];

    /// Its name in commands and reports.
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
/// same rows in the same order whatever their number.
pub trait Generated: Copy + Eq + fmt::Debug + fmt::Display + Send + Sync + 'static {
    /// Whose table it is.
    const BENCHMARK: Benchmark;

    /// Every table, in loading order.
    fn all() -> &'static [Self];

    /// The name SQL knows it by.
    fn name(self) -> &'static str;

    /// Its columns.
    fn schema(self) -> SchemaRef;

    /// Rows at a scale; `None` where only generating them tells.
    fn row_count(self, scale: f64) -> Option<u64>;

    /// A query that gives one true value where the table is that of the scale. Only asked of a
    /// table that is not empty and has no [`Generated::row_count`]; `None` where the table that it
    /// was generated with has one.
    fn witness(self, scale: f64) -> Option<String>;

    /// In how many parts it is generated at this scale, from 1.
    fn part_count(self, scale: f64) -> i32;

    /// One part, counting from 1.
    ///
    /// # Errors
    /// When the generator refuses the scale.
    fn part(self, scale: f64, part: i32, parts: i32) -> Result<Box<dyn RecordBatchReader + Send>>;

    /// The `CREATE TABLE` statement that gives [`Generated::schema`].
    fn definition(self) -> String {
        let columns: Vec<String> =
            self.schema().fields().iter().map(|field| column(field)).collect();
        format!("CREATE TABLE {} ({})", self.name(), columns.join(", "))
    }

    /// The table of a name.
    ///
    /// # Errors
    /// [`BenchError::Input`] with the names there are.
    fn named(text: &str) -> Result<Self> {
        Self::all().iter().copied().find(|table| table.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::all().iter().map(|table| table.name()).collect();
            let (benchmark, names) = (Self::BENCHMARK.name(), names.join(", "));
            BenchError::input(format!("no table {text:?} in {benchmark}; there are {names}"))
        })
    }
}

/// A column of a definition. The generators use no other types than these.
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
