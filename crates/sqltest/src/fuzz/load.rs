//! Loads tables into Terrace and its peer, with the same INSERTs or the same Parquet file.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::parquet::arrow::ArrowWriter;

use super::dialect::Dialect;
use super::schema::{Column, Table};
use super::types::{ColumnType, Kind, Value};
use crate::error::{CheckError, Result};

/// Maximum number of rows of tables that are loaded by INSERTs; larger ones are loaded from a
/// Parquet file.
const INSERT_ROWS_MAX: usize = 400;

/// Name of the table that is filled before its texts are encoded as dictionaries.
const STAGE: &str = "stage";

/// Returns the statements that create and fill a table in one database. `file` is the file that
/// [`write()`] has written.
#[must_use]
pub fn statements(table: &Table, dialect: Dialect, file: &Path) -> Vec<String> {
    let terrace = dialect == Dialect::Terrace;
    let dictionaries = terrace && table.columns.iter().any(|it| is_dictionary(it.column));
    let name = if dictionaries { STAGE } else { &table.name };
    let column = |it: &Column| format!("{} {}", it.name, it.column.name(dialect));
    let columns: Vec<_> = table.columns.iter().map(column).collect();
    let with = if terrace && table.plain { " WITH (encoding = 'plain')" } else { "" };
    let mut statements = vec![
        format!("DROP TABLE IF EXISTS {}", table.name),
        format!("CREATE TABLE {name} ({}){with}", columns.join(", ")),
    ];
    if from_file(table) {
        let source = if terrace {
            format!("'{}'", file.display())
        } else {
            format!("read_parquet('{}')", file.display())
        };
        statements.push(format!("INSERT INTO {name} SELECT * FROM {source}"));
    } else {
        statements.extend(inserts(table, name, dialect));
    }
    if dictionaries {
        let columns: Vec<_> = table.columns.iter().map(encoded).collect();
        let (columns, table) = (columns.join(", "), &table.name);
        statements.push(format!("CREATE TABLE {table}{with} AS SELECT {columns} FROM {STAGE}"));
        statements.push(format!("DROP TABLE {STAGE}"));
    }
    statements
}

/// True if a table is loaded from a file.
#[must_use]
pub fn from_file(table: &Table) -> bool {
    table.rows.len() > INSERT_ROWS_MAX
}

fn is_dictionary(column: ColumnType) -> bool {
    column == ColumnType::Text { dictionary: true }
}

fn encoded(column: &Column) -> String {
    let name = &column.name;
    match is_dictionary(column.column) {
        true => format!("arrow_cast({name}, 'Dictionary(Int32, Utf8)') AS {name}"),
        false => name.clone(),
    }
}

fn inserts(table: &Table, name: &str, dialect: Dialect) -> Vec<String> {
    let size = table.rows.len().div_ceil(table.inserts.max(1)).max(1);
    let insert = |rows: &[Vec<Option<Value>>]| {
        let rows: Vec<_> = rows.iter().map(|row| literals(table, row, dialect)).collect();
        format!("INSERT INTO {name} VALUES {}", rows.join(", "))
    };
    table.rows.chunks(size).map(insert).collect()
}

fn literals(table: &Table, row: &[Option<Value>], dialect: Dialect) -> String {
    let values = row.iter().zip(&table.columns).map(|(value, column)| match value {
        Some(value) => value.literal(column.column, dialect),
        None => "NULL".to_owned(),
    });
    format!("({})", values.collect::<Vec<_>>().join(", "))
}

/// Writes the rows of a table to a Parquet file.
///
/// # Errors
/// [`CheckError::File`] or [`CheckError::Rows`].
pub fn write(table: &Table, path: &Path) -> Result<()> {
    let batch = batch(table)?;
    let file = File::create(path).map_err(|error| CheckError::file("create", path, error))?;
    let broken = |error| CheckError::Rows(format!("{}: {error}", path.display()));
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).map_err(broken)?;
    writer.write(&batch).map_err(broken)?;
    writer.close().map_err(broken)?;
    Ok(())
}

/// Returns the rows of a table as Arrow arrays.
///
/// # Errors
/// [`CheckError::Rows`] when a value does not have its column's type.
pub fn batch(table: &Table) -> Result<RecordBatch> {
    let broken = |error| CheckError::Rows(format!("table {}: {error}", table.name));
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (place, column) in table.columns.iter().enumerate() {
        let values = table.rows.iter().map(|row| row.get(place).and_then(Option::as_ref));
        let array = array(values, column.column).map_err(broken)?;
        fields.push(Field::new(&column.name, array.data_type().clone(), true));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(broken)
}

fn array<'a>(
    values: impl Iterator<Item = Option<&'a Value>>,
    column: ColumnType,
) -> Result<ArrayRef, datafusion::arrow::error::ArrowError> {
    let int = |value: &Value| match value {
        Value::Int(it) | Value::Decimal(it, _) => Some(*it),
        Value::Date(it) => Some(i64::from(*it)),
        Value::Timestamp(it) => Some(it * 1_000_000),
        _ => None,
    };
    let ints = |values: &mut dyn Iterator<Item = Option<&'a Value>>| -> ArrayRef {
        Arc::new(values.map(|it| it.and_then(int)).collect::<Int64Array>())
    };
    let values = &mut { values };
    let array: ArrayRef = match column.kind() {
        Kind::Bool => Arc::new(values.map(bool_of).collect::<BooleanArray>()),
        Kind::Float => Arc::new(values.map(float_of).collect::<Float64Array>()),
        Kind::Text => Arc::new(values.map(text_of).collect::<StringArray>()),
        _ => ints(values),
    };
    let target = arrow_type(column);
    match column {
        // The integers are unscaled digits: the scale is attached to them, not applied by a cast.
        ColumnType::Decimal { .. } => {
            let digits = cast(&array, &DataType::Decimal128(38, 0))?;
            let data = digits.to_data().into_builder().data_type(target);
            Ok(datafusion::arrow::array::make_array(data.build()?))
        }
        ColumnType::Date => cast(&cast(&array, &DataType::Int32)?, &target),
        _ => cast(&array, &target),
    }
}

fn bool_of(value: Option<&Value>) -> Option<bool> {
    if let Some(Value::Bool(value)) = value { Some(*value) } else { None }
}

fn float_of(value: Option<&Value>) -> Option<f64> {
    if let Some(Value::Float(value)) = value { Some(*value) } else { None }
}

fn text_of(value: Option<&Value>) -> Option<&str> {
    if let Some(Value::Text(value)) = value { Some(value) } else { None }
}

fn arrow_type(column: ColumnType) -> DataType {
    match column {
        ColumnType::Bool => DataType::Boolean,
        ColumnType::Int { bits: 8, signed: true } => DataType::Int8,
        ColumnType::Int { bits: 16, signed: true } => DataType::Int16,
        ColumnType::Int { bits: 32, signed: true } => DataType::Int32,
        ColumnType::Int { signed: true, .. } => DataType::Int64,
        ColumnType::Int { bits: 8, .. } => DataType::UInt8,
        ColumnType::Int { bits: 16, .. } => DataType::UInt16,
        ColumnType::Int { bits: 32, .. } => DataType::UInt32,
        ColumnType::Int { .. } => DataType::UInt64,
        ColumnType::Float { bits: 32 } => DataType::Float32,
        ColumnType::Float { .. } => DataType::Float64,
        ColumnType::Decimal { precision, scale } => {
            DataType::Decimal128(precision, i8::try_from(scale).unwrap_or(0))
        }
        ColumnType::Text { .. } => DataType::Utf8,
        ColumnType::Date => DataType::Date32,
        ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        ColumnType::TimestampTz => {
            DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::random::Random;
    use crate::fuzz::schema;

    #[test]
    fn rows_become_arrays_and_statements() {
        for seed in 0..40 {
            let mut random = Random::new(seed, 0);
            for table in schema::tables(&mut random, false) {
                let batch = batch(&table).expect("made");
                assert_eq!(batch.num_rows(), table.rows.len());
                let statements = statements(&table, Dialect::Duck, Path::new("x.parquet"));
                assert!(statements[1].starts_with("CREATE TABLE"), "{statements:?}");
            }
        }
    }
}
