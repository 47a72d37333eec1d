//! What an operator may hold, and whom it asks.
//!
//! An operator holds *pinned* pages and a little heap, and its grant counts both. Pages that it
//! unpins cost no grant: the pool keeps them where that pays. So an operator that is refused bytes,
//! or asked to give some back, unpins what it needs last; it writes no file.

mod counted;
mod fixed;
mod oblivious;
mod watched;

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use futures::future::BoxFuture;
use terrace_pool::Space;

pub use counted::CountedPool;
pub use fixed::FixedMemory;
pub use oblivious::ObliviousGrant;
pub(crate) use watched::Watched;

/// The memory of one query, as its operators see it.
///
/// An implementation must not block: all methods are called inside a poll.
pub trait QueryMemory: Send + Sync + Debug {
    /// The owner of the operators' pages.
    fn space(&self) -> &Space;

    /// A grant for one operator and partition, named like `PagedHashJoin[1]`.
    fn register(&self, name: &str) -> Arc<dyn Grant>;

    /// If the query is to stand still for others who need the processor, what to await before going
    /// on. Its operators keep what they hold, unlike those of a query that is suspended.
    fn paused(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }
}

/// What one operator holds of its query's memory. All quantities are bytes.
///
/// An operator asks with [`Grant::try_grow`] before it pins or allocates, and gives back with
/// [`Grant::shrink`]. What it still holds when it drops the grant is a mistake, but the grant
/// must take it back then.
pub trait Grant: Send + Sync + Debug {
    /// Asks for more; `false` means to do with less. Never blocks, and is cheap enough to be
    /// called for every batch.
    fn try_grow(&self, bytes: u64) -> bool;

    /// Takes what the operator cannot go on without. Always counts, so it may put the query into
    /// debt, which [`Grant::excess_bytes`] then shows.
    fn grow(&self, bytes: u64);

    /// Gives bytes back.
    fn shrink(&self, bytes: u64);

    /// Takes note that so many of the bytes held are heap and no pages of the pool, which must then
    /// do with less.
    fn hold_heap(&self, bytes: u64);

    /// Undoes [`Grant::hold_heap`].
    fn release_heap(&self, bytes: u64);

    /// What the operator holds.
    fn held_bytes(&self) -> u64;

    /// What it should give back within one batch; 0 while its grant stands.
    fn excess_bytes(&self) -> u64;

    /// If the query is suspended, what to await, with all pins dropped, before going on.
    fn suspended(&self) -> Option<BoxFuture<'static, ()>>;

    /// Counts bytes that were unpinned for lack of memory.
    fn count_spilled(&self, bytes: u64);
}

impl dyn Grant {
    /// Asks for more bytes that are heap.
    pub(crate) fn try_grow_heap(&self, bytes: u64) -> bool {
        let grown = self.try_grow(bytes);
        if grown {
            self.hold_heap(bytes);
        }
        grown
    }

    /// Takes bytes of heap that the operator cannot go on without.
    pub(crate) fn grow_heap(&self, bytes: u64) {
        self.grow(bytes);
        self.hold_heap(bytes);
    }

    /// Gives bytes of heap back.
    pub(crate) fn shrink_heap(&self, bytes: u64) {
        self.release_heap(bytes);
        self.shrink(bytes);
    }
}

/// The query's memory in the configuration of a task, where the operators find it.
#[derive(Clone, Debug)]
pub struct QueryExtension(pub Arc<dyn QueryMemory>);

impl QueryExtension {
    /// The memory of the query that `context` belongs to.
    ///
    /// # Errors
    /// An internal error when the configuration of the session has no memory in it.
    pub fn find(context: &TaskContext) -> Result<Arc<dyn QueryMemory>> {
        let found = context.session_config().get_extension::<QueryExtension>();
        found.map(|it| Arc::clone(&it.0)).ok_or_else(|| {
            DataFusionError::Internal(
                "the plan has paged operators, but the session has no QueryExtension with the \
                 memory they work in"
                    .to_owned(),
            )
        })
    }
}
