//! Sequences: generators of numbers, each of which is given once.
//!
//! A number is durably reserved before it is given. The catalog stores the last number of a block,
//! so that most calls write nothing, and a sequence continues behind the block after a restart.
//! Numbers that a transaction has taken are not given back by its rollback.
//!
//! Locking order: the counter of a sequence, then the transaction of the catalog's file.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use terrace_exec::run_blocking;
use terrace_sys::sync::lock;

use super::file::FileTransaction;
use super::journal::Journal;
use super::sequence_options::{Position, SequenceEnd, SequenceOptions};
use crate::error::SqlError;

/// Minimum count of numbers that are reserved beyond those that a call takes.
const RESERVED: u64 = 32;

/// A sequence of the catalog. Its methods may be called by any thread.
pub struct Sequence {
    id: u64,
    schema_name: String,
    name: String,
    options: SequenceOptions,
    /// Shared with the definitions that replace this one without a restart.
    counter: Arc<Mutex<Counter>>,
    journal: Arc<Journal>,
}

#[derive(Debug)]
struct Counter {
    position: Position,
    /// Numbers that can be given before the catalog has to be written, counted by `reserved_by`.
    reserved: u64,
    /// The options of the definition that has reserved them. Others give other numbers.
    reserved_by: SequenceOptions,
    /// False until a commit names the sequence: nothing is durable before.
    is_stored: bool,
}

impl Sequence {
    /// Creates a sequence that no commit names yet.
    pub(super) fn new(
        id: u64,
        (schema_name, name): (String, String),
        options: SequenceOptions,
        journal: Arc<Journal>,
    ) -> Self {
        let position = Position { value: options.start, is_called: false };
        let reserved_by = options;
        let counter = Counter { position, reserved: 0, reserved_by, is_stored: false };
        let counter = Arc::new(Mutex::new(counter));
        Self { id, schema_name, name, options, counter, journal }
    }

    /// Returns this sequence, which no commit names yet, with another position.
    pub(super) fn at(self, position: Position) -> Self {
        self.counter().position = position;
        self
    }

    /// Returns this sequence, marked as stored in the catalog's file.
    pub(super) fn stored(self) -> Self {
        self.counter().is_stored = true;
        self
    }

    /// Returns the same sequence under another name, or with other options. Both share one counter,
    /// so that no number is given by each of them.
    #[must_use]
    pub fn altered(&self, name: &str, options: SequenceOptions) -> Self {
        Self {
            id: self.id,
            schema_name: self.schema_name.clone(),
            name: name.to_owned(),
            options,
            counter: Arc::clone(&self.counter),
            journal: Arc::clone(&self.journal),
        }
    }

    /// Returns the same sequence in another schema. Both share one counter, as those of
    /// [`Sequence::altered`].
    #[must_use]
    pub fn moved(&self, schema: &str) -> Self {
        Self { schema_name: schema.to_owned(), ..self.altered(&self.name, self.options) }
    }

    /// Returns the sequence's number in the catalog. No table has it.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the name of the schema that holds the sequence.
    #[must_use]
    pub fn schema_name(&self) -> &str {
        &self.schema_name
    }

    /// Returns the name of the sequence in its schema.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &SequenceOptions {
        &self.options
    }

    /// Returns the last number given and true; or the number to be given next and false, if none
    /// was given since the sequence was created or set.
    #[must_use]
    pub fn last(&self) -> (i64, bool) {
        let Position { value, is_called } = self.counter().position;
        (value, is_called)
    }

    /// Takes the next `count` numbers. Blocks on the device if the reserved block ends.
    ///
    /// # Errors
    /// [`SqlError::SequenceEnd`] if the sequence has fewer; [`SqlError::Dropped`]; errors of the
    /// catalog's file.
    pub fn next(&self, count: usize) -> Result<Vec<i64>, SqlError> {
        let mut counter = self.counter();
        let mut position = counter.position;
        let mut numbers = Vec::with_capacity(count);
        for _ in 0..count {
            position = self.after(position).map_err(|end| self.ended(end))?;
            numbers.push(position.value);
        }
        let taken = u64::try_from(count).unwrap_or(u64::MAX);
        if taken > counter.reserved || counter.reserved_by != self.options {
            counter.reserved = taken + self.reserve(&counter, position)?;
            counter.reserved_by = self.options;
        }
        counter.reserved -= taken;
        counter.position = position;
        Ok(numbers)
    }

    /// Makes the block behind `position` durable, and returns the count of its numbers.
    fn reserve(&self, counter: &Counter, position: Position) -> Result<u64, SqlError> {
        if !counter.is_stored {
            return Ok(0);
        }
        let cache = u64::try_from(self.options.cache).unwrap_or(0);
        let (mut end, mut count) = (position, 0);
        while count < RESERVED.max(cache.min(1 << 16)) {
            let Ok(next) = self.after(end) else { break };
            (end, count) = (next, count + 1);
        }
        self.store(end)?;
        Ok(count)
    }

    /// Sets the position, as `setval` does: `value` is the last number given if `is_called`,
    /// otherwise the next one. Blocks on the device.
    ///
    /// # Errors
    /// [`SqlError::SequenceBounds`]; [`SqlError::Dropped`]; errors of the catalog's file.
    pub fn set(&self, value: i64, is_called: bool) -> Result<(), SqlError> {
        let SequenceOptions { min, max, .. } = self.options;
        if !(min..=max).contains(&value) {
            let sequence = self.name.clone();
            return Err(SqlError::SequenceBounds { sequence, value, min, max });
        }
        let mut counter = self.counter();
        let position = Position { value, is_called };
        if counter.is_stored {
            self.store(position)?;
        }
        (counter.position, counter.reserved) = (position, 0);
        Ok(())
    }

    fn store(&self, position: Position) -> Result<(), SqlError> {
        let write = |transaction: &FileTransaction<'_>| match transaction
            .move_sequence(self.id, position)?
        {
            true => Ok(()),
            false => Err(SqlError::Dropped { name: self.full_name() }),
        };
        run_blocking(|| self.journal.settle(&[], write))
    }

    /// Writes a new sequence to the catalog's file. From the commit on, its numbers are durable.
    pub(super) fn write(&self, transaction: &FileTransaction<'_>) -> Result<(), SqlError> {
        let mut counter = self.counter();
        (counter.is_stored, counter.reserved) = (true, 0);
        self.write_definition(transaction)?;
        transaction.put_position(self.id, counter.position)
    }

    /// Writes the definition of a sequence to the catalog's file.
    pub(super) fn write_definition(
        &self,
        transaction: &FileTransaction<'_>,
    ) -> Result<(), SqlError> {
        transaction.put_sequence(self.id, (&self.schema_name, &self.name), &self.options)
    }

    fn after(&self, position: Position) -> Result<Position, SequenceEnd> {
        match position.is_called {
            false => Ok(Position { is_called: true, ..position }),
            true => Ok(Position { value: self.options.after(position.value)?, is_called: true }),
        }
    }

    fn ended(&self, end: SequenceEnd) -> SqlError {
        let sequence = self.name.clone();
        let (bound, value) = match end {
            SequenceEnd::Maximum => ("maximum", self.options.max),
            SequenceEnd::Minimum => ("minimum", self.options.min),
        };
        SqlError::SequenceEnd { sequence, bound, value }
    }

    /// Returns schema and name, as used in errors.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.schema_name, self.name)
    }

    fn counter(&self) -> MutexGuard<'_, Counter> {
        lock(&self.counter)
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequence")
            .field("id", &self.id)
            .field("name", &self.full_name())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
