//! Row changes of a table, and the version that results from them.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use rpds::VectorSync;

use crate::catalog::{FileTransaction, put_chunks};
use crate::chunk::Chunk;
use crate::error::SqlError;
use crate::sketch::{Sketch, SketchChange};
use crate::table::{Chunks, Table, TableVersion};

/// Existing chunks that are removed. Clones share the set until one of them changes it.
#[derive(Clone)]
enum Removed {
    These(Arc<HashSet<u64>>),
    All,
}

/// Changes of one table by one statement or several. A clone shares all parts with the original,
/// however many statements there were: a savepoint is a clone.
#[derive(Clone)]
pub struct Changes {
    added: Added,
    removed: Removed,
    sketches: Arc<Vec<Sketch>>,
    /// True if the rows stay the same and only move to other chunks.
    is_merge: bool,
}

/// Added chunks, in order.
type Added = VectorSync<Arc<Chunk>>;

/// Changes of a table that are about to be committed.
pub(crate) struct RowChange {
    table: Arc<Table>,
    /// Added chunks, in order.
    added: Vec<Arc<Chunk>>,
    /// Removed chunks.
    removed: Vec<Arc<Chunk>>,
    /// All chunks of the table after the change, by place.
    kept: Vec<Arc<Chunk>>,
    /// Number of chunks to remove that no longer exist.
    missing: usize,
    /// Sketches of the added values.
    sketches: SketchChange,
    /// Counters of the resulting version.
    number: u64,
    rewrites: u64,
}

impl Changes {
    /// Returns no changes, for a table with this schema.
    pub fn empty(schema: &SchemaRef) -> Self {
        Self::adding(vec![], vec![Sketch::default(); schema.fields().len()])
    }

    /// Returns an addition of new chunks, with a sketch of their values per column.
    pub fn adding(added: Vec<Arc<Chunk>>, sketches: Vec<Sketch>) -> Self {
        let (added, sketches) = (added.into_iter().collect(), Arc::new(sketches));
        Self { added, removed: Removed::These(Arc::default()), sketches, is_merge: false }
    }

    /// Returns the same additions as a merge: the added chunks hold the rows of the `removed` ones,
    /// whose values the columns' sketches contain already.
    pub fn merging(self, removed: HashSet<u64>) -> Self {
        let sketches = Arc::default();
        Self { removed: Removed::These(Arc::new(removed)), sketches, is_merge: true, ..self }
    }

    /// Returns the same additions, with the removal of the chunks of these ids.
    pub fn replacing(self, removed: HashSet<u64>) -> Self {
        Self { removed: Removed::These(Arc::new(removed)), ..self }
    }

    /// Returns the same additions, with the removal of all existing chunks.
    pub fn replacing_all(self) -> Self {
        Self { removed: Removed::All, ..self }
    }

    /// Returns the number of rows in the new chunks.
    pub fn rows(&self) -> u64 {
        let rows = self.added.iter().map(|chunk| chunk.rows).sum::<usize>();
        u64::try_from(rows).unwrap_or(u64::MAX)
    }

    /// Returns the added chunks, in order.
    pub fn added(&self) -> impl Iterator<Item = &Arc<Chunk>> {
        self.added.iter()
    }

    /// Returns the sketches of the added values.
    pub(crate) fn sketches(&self) -> &[Sketch] {
        &self.sketches
    }

    /// Appends the changes of the next statement, which has read `version`: a version with these
    /// changes applied.
    pub fn then(&mut self, next: Self, version: &TableVersion) {
        let gone: HashSet<u64> = match next.removed {
            Removed::These(chunks) => Arc::unwrap_or_clone(chunks),
            Removed::All => version.chunks.iter().map(|chunk| chunk.id).collect(),
        };
        self.remove(gone);
        self.added.extend(next.added.iter().map(Arc::clone));
        let sketches = Arc::make_mut(&mut self.sketches);
        for (sketch, more) in sketches.iter_mut().zip(next.sketches.iter()) {
            sketch.merge(more);
        }
    }

    /// Removes the chunks of these ids, whether they were added by these changes or existed before.
    fn remove(&mut self, mut gone: HashSet<u64>) {
        if gone.is_empty() {
            return;
        }
        let left = self.added.iter().filter(|chunk| !gone.remove(&chunk.id)).map(Arc::clone);
        self.added = left.collect();
        if let Removed::These(removed) = &mut self.removed {
            Arc::make_mut(removed).extend(gone);
        }
    }

    /// Returns the chunks of a version after the changes, by place.
    pub fn kept(&self, version: &TableVersion) -> Vec<Arc<Chunk>> {
        let there = version.chunks.iter().filter(|chunk| self.removed.keeps(chunk));
        let mut kept: Vec<_> = there.chain(self.added.iter()).map(Arc::clone).collect();
        kept.sort_by_key(|chunk| (chunk.place, chunk.id));
        kept
    }

    /// As [`Changes::kept`], but computes the list when it is first read.
    pub fn kept_later(&self, version: &Arc<TableVersion>) -> Chunks {
        let (version, sketches) = (Arc::clone(version), Arc::default());
        let changes = Self { sketches, ..self.clone() };
        Chunks::later(move || changes.kept(&version))
    }
}

impl Removed {
    fn keeps(&self, chunk: &Chunk) -> bool {
        match self {
            Self::These(chunks) => !chunks.contains(&chunk.id),
            Self::All => false,
        }
    }
}

impl RowChange {
    /// Applies the changes to the current version of a table, whose writer's lock the caller holds.
    pub fn new(table: &Arc<Table>, changes: Changes) -> Self {
        let before = table.snapshot();
        let kept = changes.kept(&before);
        let goes = before.chunks.iter().filter(|chunk| !changes.removed.keeps(chunk));
        let removed: Vec<_> = goes.map(Arc::clone).collect();
        let missing = match &changes.removed {
            Removed::These(chunks) => chunks.len() - removed.len(),
            Removed::All => 0,
        };
        let replaces_all = removed.len() == before.chunks.len() && !changes.is_merge;
        let number = before.number + u64::from(!changes.is_merge);
        let rewrites = before.rewrites + u64::from(!changes.is_merge && !removed.is_empty());
        let sketches = Arc::unwrap_or_clone(changes.sketches);
        let sketches = match replaces_all {
            true => SketchChange::Replace(sketches),
            false => SketchChange::Merge(sketches),
        };
        let added = changes.added.iter().map(Arc::clone).collect();
        let table = Arc::clone(table);
        Self { table, added, removed, kept, missing, sketches, number, rewrites }
    }

    /// Returns the table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns the added chunks, in order.
    pub fn added(&self) -> &[Arc<Chunk>] {
        &self.added
    }

    /// Returns true if chunks to remove no longer exist: another commit has removed them.
    pub(crate) fn misses_chunks(&self) -> bool {
        self.missing > 0
    }

    /// Returns true if chunks are removed.
    pub(crate) fn gives_space_back(&self) -> bool {
        !self.removed.is_empty()
    }

    /// Writes the change to the catalog's file.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn write(&self, transaction: &FileTransaction<'_>) -> Result<(), SqlError> {
        let id = self.table.id();
        for chunk in &self.removed {
            transaction.remove_chunk(id, chunk.id)?;
        }
        transaction.change_sketches(id, &self.sketches)?;
        put_chunks(transaction, id, &self.added)
    }

    /// Publishes the rows to readers, once they are committed. Returns the previous version, which
    /// frees the space of its removed chunks when it is dropped.
    pub(crate) fn publish(self) -> Arc<TableVersion> {
        self.removed.iter().for_each(|chunk| chunk.mark_retired());
        self.table.show(self.number, self.rewrites, self.kept)
    }
}
