//! Column names of results: those that clients of the server receive.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use terrace_server::ColumnNames;

use crate::args::Format;

/// Returns the columns of a result under the names that are printed. Keys of JSON objects are made
/// unique: the second column called `name` becomes `name_1`.
pub fn printed(names: ColumnNames, schema: &SchemaRef, format: Format) -> SchemaRef {
    let named = names.give(schema);
    match format {
        Format::Table | Format::Csv | Format::Lines => named,
        Format::Json | Format::Ndjson => with_distinct_names(&named),
    }
}

fn with_distinct_names(schema: &Schema) -> SchemaRef {
    let all: HashSet<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mut used = HashSet::new();
    let fields = schema.fields().iter().map(|field| {
        let mut name = field.name().clone();
        let mut number = 0_usize;
        while !used.insert(name.clone()) {
            number += 1;
            name = format!("{}_{number}", field.name());
            while all.contains(name.as_str()) {
                number += 1;
                name = format!("{}_{number}", field.name());
            }
        }
        Arc::new(field.as_ref().clone().with_name(name))
    });
    Arc::new(Schema::new(fields.collect::<Vec<FieldRef>>()))
}

/// Returns a batch with its columns renamed to those of `schema`.
///
/// # Errors
/// If the batch has another number of columns.
pub fn renamed(batch: &RecordBatch, schema: &Schema) -> Result<RecordBatch, ArrowError> {
    let own = batch.schema();
    let fields = own.fields().iter().zip(schema.fields());
    let fields = fields.map(|(own, named)| own.as_ref().clone().with_name(named.name()));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn keys_of_objects_differ() {
        let names = ["a", "a", "a_1", "b", "a"];
        let fields = names.map(|name| Field::new(name, DataType::Int32, true));
        let named = with_distinct_names(&Schema::new(fields.to_vec()));
        let names: Vec<_> = named.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["a", "a_2", "a_1", "b", "a_3"]);
    }
}
