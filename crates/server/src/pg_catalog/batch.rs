//! Conversion of a relation's rows to a batch.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;

use super::definition::Definition;
use super::value::{Row, Value, array};

/// Returns the rows of a relation as a batch. A column that a row does not name has the default of
/// its type: false, 0, an empty name, or null.
///
/// # Errors
/// Values that do not have the type of their column.
pub(super) fn batch(definition: &Definition, rows: &[Row]) -> Result<RecordBatch> {
    let columns = definition.columns.iter().zip(definition.arrow.fields());
    let columns = columns.map(|(column, field)| {
        let default = default(column.pg_type.name);
        let values: Vec<&Value> = rows
            .iter()
            .map(|row| row.iter().find(|(name, _)| *name == column.name))
            .map(|found| found.map_or(&default, |(_, value)| value))
            .collect();
        array(&values, field.data_type())
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(Arc::clone(&definition.arrow), columns)?)
}

fn default(pg_type: &str) -> Value {
    match pg_type {
        "bool" => Value::Bool(false),
        "int2" | "int4" | "int8" | "oid" | "xid" | "regproc" | "regtype" => Value::Int(0),
        "float4" | "float8" => Value::Float(0.0),
        "name" | "char" => Value::Text(String::new()),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Array as _, AsArray as _};
    use datafusion::arrow::error::ArrowError;
    use datafusion::common::internal_err;

    use super::super::definition::find;
    use super::*;

    #[test]
    fn values_that_are_left_out_are_empty() -> Result<()> {
        let Some(class) = find("pg_class") else { return internal_err!("no pg_class") };
        let rows = [vec![("relname", Value::from("t")), ("relpages", Value::from(7))]];
        let batch = batch(class, &rows)?;
        let column = |name: &str| Ok::<_, ArrowError>(batch.column(batch.schema().index_of(name)?));
        assert_eq!(column("relname")?.as_string::<i32>().value(0), "t");
        assert!(!column("relhasindex")?.as_boolean().value(0));
        assert!(column("relacl")?.is_null(0));
        Ok(())
    }
}
