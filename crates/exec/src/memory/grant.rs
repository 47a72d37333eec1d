//! The memory of a query and the grants of its operators: interfaces, and the query's memory in a
//! task.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use futures::future::BoxFuture;
use terrace_pool::Space;

/// The memory of one query, as its operators see it.
///
/// An implementation must not block: all methods are called inside a poll.
pub trait QueryMemory: Send + Sync + Debug {
    /// Returns the owner of the operators' pages.
    fn space(&self) -> &Space;

    /// Registers a grant for one operator and partition, named like `PagedHashJoin[1]`.
    fn register(&self, name: &str) -> Arc<dyn Grant>;

    /// Returns the future to await before going on, if the query is paused in favor of others that
    /// need the processor. Its operators keep their memory, unlike those of a query that is
    /// suspended.
    fn paused(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }
}

/// One operator's share of its query's memory. All quantities are bytes.
///
/// An operator asks with [`Grant::try_grow`] before it pins or allocates, and gives back with
/// [`Grant::shrink`]. Bytes still held when it drops the grant are a mistake, but the grant must
/// take them back then.
pub trait Grant: Send + Sync + Debug {
    /// Asks for more bytes; `false` means to do with less. Never blocks, and is cheap enough to be
    /// called for every batch.
    fn try_grow(&self, bytes: u64) -> bool;

    /// Takes bytes that the operator cannot go on without. Always counts, so it may put the query
    /// into debt, which [`Grant::excess_bytes`] then shows.
    fn grow(&self, bytes: u64);

    /// Gives bytes back.
    fn shrink(&self, bytes: u64);

    /// Declares that `bytes` of those held are heap, not pages of the pool; the pool must then do
    /// with less.
    fn hold_heap(&self, bytes: u64);

    /// Undoes [`Grant::hold_heap`].
    fn release_heap(&self, bytes: u64);

    /// Returns the bytes that the operator holds.
    fn held_bytes(&self) -> u64;

    /// Returns the bytes that it should give back within one batch; 0 while its grant stands.
    fn excess_bytes(&self) -> u64;

    /// Returns the future to await, with all pins dropped, before going on, if the query is
    /// suspended.
    fn suspended(&self) -> Option<BoxFuture<'static, ()>>;

    /// Returns a future that ends once the query is suspended, for an operator that waits for its
    /// input: an operator below may have stopped already, and would return no batch.
    fn suspends(&self) -> BoxFuture<'static, ()>;

    /// Counts bytes that were unpinned for lack of memory.
    fn count_spilled(&self, bytes: u64);
}

impl dyn Grant {
    /// Asks for more bytes of heap.
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
    /// Returns the memory of the query that `context` belongs to.
    ///
    /// # Errors
    /// An internal error if the configuration of the session has no memory in it.
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
