//! What a statement changes in a table, and the version that results.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;

use crate::chunk::Chunk;
use crate::sketch::Sketch;
use crate::table::TableVersion;

/// Which of the chunks that are there go.
enum Removed {
    These(HashSet<u64>),
    All,
}

/// The changes of one statement to one table.
pub(crate) struct Changes {
    added: Vec<Arc<Chunk>>,
    removed: Removed,
    sketches: Vec<Sketch>,
    /// The rows stay as they are: other chunks hold them.
    is_merge: bool,
}

/// What becomes of the sketches of a table's columns.
pub(crate) enum SketchChange {
    /// These are merged into those that are there. Sketches cannot forget values, so after a DELETE
    /// they are an upper bound until the table is emptied.
    Merge(Vec<Sketch>),
    /// These take their place.
    Replace(Vec<Sketch>),
}

/// The chunks and sketches after a change.
pub(crate) struct Outcome {
    /// Chunks that the change brings, in order.
    pub added: Vec<Arc<Chunk>>,
    /// Chunks that the change removes.
    pub removed: Vec<Arc<Chunk>>,
    /// All chunks of the table from now on, by place.
    pub kept: Vec<Arc<Chunk>>,
    /// The sketches of the values that it brings.
    pub sketches: SketchChange,
}

impl Changes {
    /// No change to a table with this schema.
    pub(crate) fn empty(schema: &SchemaRef) -> Self {
        Self::adding(vec![], vec![Sketch::default(); schema.fields().len()])
    }

    /// New chunks, with a sketch of their values per column.
    pub(crate) fn adding(added: Vec<Arc<Chunk>>, sketches: Vec<Sketch>) -> Self {
        Self { added, removed: Removed::These(HashSet::new()), sketches, is_merge: false }
    }

    /// The same rows as in chunks that go. The columns' sketches hold their values already.
    pub(crate) fn merging(self, removed: HashSet<u64>) -> Self {
        let sketches = vec![];
        Self { removed: Removed::These(removed), sketches, is_merge: true, ..self }
    }

    /// The same, in the place of these chunks.
    pub(crate) fn replacing(self, removed: HashSet<u64>) -> Self {
        Self { removed: Removed::These(removed), ..self }
    }

    /// The same, in the place of everything.
    pub(crate) fn replacing_all(self) -> Self {
        Self { removed: Removed::All, ..self }
    }

    /// Rows in the new chunks.
    pub(crate) fn rows(&self) -> u64 {
        let rows = self.added.iter().map(|chunk| chunk.rows).sum::<usize>();
        u64::try_from(rows).unwrap_or(u64::MAX)
    }

    /// Whether the rows stay as they are.
    pub(crate) fn is_merge(&self) -> bool {
        self.is_merge
    }

    /// The chunks that come.
    pub(crate) fn added(&self) -> &[Arc<Chunk>] {
        &self.added
    }

    /// Whether chunks go.
    pub(crate) fn removes_chunks(&self) -> bool {
        match &self.removed {
            Removed::These(chunks) => !chunks.is_empty(),
            Removed::All => true,
        }
    }

    /// What the changes make of a version.
    pub(crate) fn apply(self, version: &TableVersion) -> Outcome {
        let Self { added, removed, sketches, is_merge: _ } = self;
        let goes = |chunk: &Arc<Chunk>| match &removed {
            Removed::These(chunks) => chunks.contains(&chunk.id),
            Removed::All => true,
        };
        let (removed_chunks, mut kept): (Vec<_>, Vec<_>) =
            version.chunks.iter().cloned().partition(goes);
        kept.extend(added.iter().cloned());
        kept.sort_by_key(|chunk| (chunk.place, chunk.id));
        let sketches = match removed {
            Removed::These(_) => SketchChange::Merge(sketches),
            Removed::All => SketchChange::Replace(sketches),
        };
        Outcome { added, removed: removed_chunks, kept, sketches }
    }
}
