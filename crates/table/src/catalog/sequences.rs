//! Sequences of an open catalog.

use std::sync::Arc;

use super::definition::Definition;
use super::draft::Draft;
use super::sequence::Sequence;
use super::sequence_options::{Position, SequenceOptions};
use super::snapshot::Snapshot;
use super::state::Catalog;
use crate::error::SqlError;
use crate::table::Table;

impl Catalog {
    /// Creates a sequence that neither a draft nor a commit names yet.
    pub fn unnamed_sequence(
        &self,
        schema: &str,
        name: &str,
        options: SequenceOptions,
    ) -> Arc<Sequence> {
        let (id, names) = (self.next_table_id(), (schema.to_owned(), name.to_owned()));
        Arc::new(Sequence::new(id, names, options, Arc::clone(&self.journal)))
    }

    /// Creates a sequence to replace `before`, with a counter of its own that begins with `value`.
    pub fn restarted_sequence(
        &self,
        before: &Sequence,
        options: SequenceOptions,
        value: i64,
    ) -> Arc<Sequence> {
        let names = (before.schema_name().to_owned(), before.name().to_owned());
        let id = self.next_table_id();
        let sequence = Sequence::new(id, names, options, Arc::clone(&self.journal));
        Arc::new(sequence.at(Position { value, is_called: false }))
    }
}

impl Snapshot {
    /// Returns a sequence by its name.
    #[must_use]
    pub fn sequence(&self, schema: &str, name: &str) -> Option<Arc<Sequence>> {
        self.schemas.get(schema)?.sequences.get(name).cloned()
    }

    /// Returns the sequences of a schema, by name.
    #[must_use]
    pub fn sequences(&self, schema: &str) -> Vec<Arc<Sequence>> {
        let schema = self.schemas.get(schema);
        schema.map_or_else(Vec::new, |schema| schema.sequences.values().cloned().collect())
    }
}

impl Draft {
    /// Adds a sequence, and makes a role its owner. Returns false if an object of its name exists
    /// and is kept.
    ///
    /// # Errors
    /// [`SqlError::Exists`] unless `keep` is set; [`SqlError::MissingSchema`].
    pub fn put_sequence(
        &mut self,
        sequence: &Arc<Sequence>,
        keep: bool,
        owner: Option<&str>,
    ) -> Result<bool, SqlError> {
        let (schema, name) = (sequence.schema_name(), sequence.name());
        self.require_schema(schema)?;
        if self.snapshot.has_object(schema, name) {
            let exists = || SqlError::Exists { name: sequence.full_name() };
            return if keep { Ok(false) } else { Err(exists()) };
        }
        self.define(Definition::PutSequence { sequence: Arc::clone(sequence) })?;
        self.own(schema, Some(name), owner)?;
        Ok(true)
    }

    /// Replaces a sequence by `after`, which may have another name, and be in another schema.
    ///
    /// # Errors
    /// [`SqlError::Exists`] if the new name is taken; [`SqlError::Conflict`].
    pub fn alter_sequence(
        &mut self,
        before: &Arc<Sequence>,
        after: &Arc<Sequence>,
    ) -> Result<(), SqlError> {
        let from = (before.schema_name(), before.name());
        let to = (after.schema_name(), after.name());
        if from != to && self.snapshot.has_object(to.0, to.1) {
            return Err(SqlError::Exists { name: after.full_name() });
        }
        let (before, after) = (Arc::clone(before), Arc::clone(after));
        self.define(Definition::AlterSequence { before, after })
    }

    /// Drops a sequence. Returns true if it existed.
    ///
    /// # Errors
    /// None, except for a draft that contradicts itself.
    pub fn drop_sequence(&mut self, schema: &str, name: &str) -> Result<bool, SqlError> {
        let Some(sequence) = self.snapshot.sequence(schema, name) else { return Ok(false) };
        self.define(Definition::DropSequence { sequence })?;
        Ok(true)
    }

    /// Drops the sequences of the columns of a table that `after`, its successor, does not have.
    pub(super) fn drop_owned_sequences(
        &mut self,
        table: &Table,
        after: Option<&Table>,
    ) -> Result<(), SqlError> {
        let owned = |table: &Table| -> Vec<String> {
            let columns = table.properties().columns.values();
            columns.filter_map(|column| column.sequence.clone()).collect()
        };
        let kept = after.map(owned).unwrap_or_default();
        for name in owned(table).into_iter().filter(|name| !kept.contains(name)) {
            self.drop_sequence(table.schema_name(), &name)?;
        }
        Ok(())
    }
}
