//! Sequences of SERIAL and identity columns, which belong to their table.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use terrace_table::catalog::{Catalog, Properties, Sequence, SequenceType, Snapshot};
use terrace_table::error::SqlError;
use terrace_table::table::Table;

use super::column_options::{Written, WrittenSequence};
use super::refusal::refused;
use super::sequence_calls::next_of;
use super::sequence_changes::SequenceChanges;

/// Creates the sequences of a new table, which no commit names yet, and makes them the defaults of
/// their columns.
///
/// # Errors
/// [`SqlError::Refused`] for a column whose type has no sequences; options that contradict each
/// other.
pub(super) fn make(
    catalog: &Catalog,
    snapshot: &Snapshot,
    (schema, table): (&str, &str),
    columns: &SchemaRef,
    written: &Written,
    properties: &mut Properties,
) -> Result<Vec<Arc<Sequence>>, SqlError> {
    let mut made: Vec<Arc<Sequence>> = Vec::new();
    for WrittenSequence { column, identity, options } in &written.sequences {
        let data_type = number_type(column, columns.field_with_name(column)?.data_type())?;
        let options = SequenceChanges::of_column(options, data_type)?.created()?;
        let is_taken = |name: &str| {
            name == table
                || snapshot.has_object(schema, name)
                || made.iter().any(|made| made.name() == name)
        };
        let name = free_name(&format!("{table}_{column}_seq"), is_taken);
        made.push(catalog.unnamed_sequence(schema, &name, options));
        properties.change(column, |properties| {
            properties.default = Some(next_of(schema, &name));
            properties.identity = *identity;
            properties.sequence = Some(name);
        });
    }
    Ok(made)
}

/// The type of the sequence of a column.
///
/// # Errors
/// [`SqlError::Refused`] for a column whose type has no sequences.
pub(super) fn number_type(column: &str, data_type: &DataType) -> Result<SequenceType, SqlError> {
    match data_type {
        DataType::Int16 => Ok(SequenceType::SmallInt),
        DataType::Int32 => Ok(SequenceType::Integer),
        DataType::Int64 => Ok(SequenceType::BigInt),
        _ => Err(refused(
            &format!("an identity column {column} of another type than an integer"),
            "identity column type must be smallint, integer, or bigint",
        )),
    }
}

/// Returns `name`, or if it is taken, `name` with the first number appended that is not.
pub(super) fn free_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (1_u32..).map(|number| format!("{name}{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or_else(|| name.to_owned())
}

/// Returns the table and the column that a sequence belongs to.
pub(crate) fn owner_of(snapshot: &Snapshot, sequence: &Sequence) -> Option<(Arc<Table>, String)> {
    let schema = sequence.schema_name();
    snapshot.table_names(schema).into_iter().find_map(|name| {
        let (table, _) = snapshot.table(schema, &name)?;
        let mut columns = table.properties().columns.iter();
        let owner = columns.find(|(_, own)| own.sequence.as_deref() == Some(sequence.name()));
        let column = owner.map(|(column, _)| column.clone());
        column.map(|column| (table, column))
    })
}

/// Creates the sequences of the identity columns of a table like `source`, with the same options.
pub(super) fn copy(
    catalog: &Catalog,
    snapshot: &Snapshot,
    (schema, table): (&str, &str),
    source: &Table,
    properties: &mut Properties,
) -> Vec<Arc<Sequence>> {
    let mut made: Vec<Arc<Sequence>> = Vec::new();
    for (column, of_source) in &source.properties().columns {
        let before = of_source.sequence.as_deref().filter(|_| of_source.identity.is_some());
        let before = before.and_then(|name| snapshot.sequence(source.schema_name(), name));
        let Some(before) = before else { continue };
        let is_taken = |name: &str| {
            name == table
                || snapshot.has_object(schema, name)
                || made.iter().any(|made| made.name() == name)
        };
        let name = free_name(&format!("{table}_{column}_seq"), is_taken);
        made.push(catalog.unnamed_sequence(schema, &name, *before.options()));
        properties.change(column, |properties| {
            properties.default = Some(next_of(schema, &name));
            properties.identity = of_source.identity;
            properties.sequence = Some(name);
        });
    }
    made
}
