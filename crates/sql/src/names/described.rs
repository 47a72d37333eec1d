//! Descriptions of objects for the tables of an added schema: sequences, properties and comments.

use std::sync::Arc;

use terrace_table::catalog::{Properties, Sequence, SequenceOptions};

use super::shared::Names;

/// A sequence of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceReport {
    /// Name of the schema.
    pub schema: String,
    /// Name of the sequence.
    pub name: String,
    /// Number of the sequence, unique among the tables and sequences of the database.
    pub number: u64,
    /// Options of the sequence.
    pub options: SequenceOptions,
    /// The last number that `nextval` returned or `setval` set; `None` before the first.
    pub last: Option<i64>,
}

impl Names {
    /// All sequences that the session can name.
    #[must_use]
    pub fn sequences(&self) -> Vec<SequenceReport> {
        let snapshot = self.shared.now();
        let schemas = self.schemas();
        let sequences = schemas.iter().flat_map(|schema| snapshot.sequences(schema));
        let report = |sequence: Arc<Sequence>| {
            let (last, is_called) = sequence.last();
            SequenceReport {
                schema: sequence.schema_name().to_owned(),
                name: sequence.name().to_owned(),
                number: sequence.id(),
                options: *sequence.options(),
                last: is_called.then_some(last),
            }
        };
        sequences.map(report).collect()
    }

    /// The properties of a table; `None` for any other object.
    #[must_use]
    pub fn properties(&self, schema: &str, table: &str) -> Option<Properties> {
        let (table, _) = self.shared.now().table(schema, table)?;
        Some(table.properties().clone())
    }

    /// The comment on a table, view or sequence, or on a schema if `object` is `None`.
    #[must_use]
    pub fn comment(&self, schema: &str, object: Option<&str>) -> Option<String> {
        let snapshot = self.shared.now();
        let table = object.and_then(|object| snapshot.table(schema, object));
        match table {
            Some((table, _)) => table.properties().comment.clone(),
            None => snapshot.comments(schema, object)?.own.clone(),
        }
    }

    /// The comment on a column of a table or view.
    #[must_use]
    pub fn column_comment(&self, schema: &str, object: &str, column: &str) -> Option<String> {
        let snapshot = self.shared.now();
        match snapshot.table(schema, object) {
            Some((table, _)) => table.properties().of(column)?.comment.clone(),
            None => snapshot.comments(schema, Some(object))?.columns.get(column).cloned(),
        }
    }
}
