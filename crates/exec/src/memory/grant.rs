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

    /// Returns a future that completes when the query is resumed, if it is paused in favor of
    /// queries that need the processor; else `None`. Operators of a paused query await it but keep
    /// their memory, unlike those of a suspended query.
    fn paused(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }
}

/// One operator's share of its query's memory. All quantities are bytes.
///
/// An operator asks with [`Grant::try_grow`] before it pins or allocates, and releases bytes with
/// [`Grant::shrink`]. A drop of the grant must release the bytes still held, although an operator
/// that leaves some has a bug.
pub trait Grant: Send + Sync + Debug {
    /// Asks for `bytes` more; returns `false`, and charges nothing, if they are refused. Never
    /// blocks, and is cheap enough to be called for every batch.
    fn try_grow(&self, bytes: u64) -> bool;

    /// Charges bytes without which the operator cannot continue, even beyond the limit; the debt
    /// shows in [`Grant::excess_bytes`].
    fn grow(&self, bytes: u64);

    /// Releases bytes.
    fn shrink(&self, bytes: u64);

    /// Declares that `bytes` of those held are heap, not pages of the pool, so that the pool may
    /// use that much less.
    fn hold_heap(&self, bytes: u64);

    /// Undoes [`Grant::hold_heap`].
    fn release_heap(&self, bytes: u64);

    /// Returns the bytes that the operator holds.
    fn held_bytes(&self) -> u64;

    /// Returns the bytes that the operator should release within one batch; 0 if none.
    fn excess_bytes(&self) -> u64;

    /// Returns a future that completes when the query is resumed, if it is suspended; else `None`.
    /// The operator drops all pins and then awaits it.
    fn suspended(&self) -> Option<BoxFuture<'static, ()>>;

    /// Returns a future that completes once the query is suspended. An operator awaits it together
    /// with its input: an operator below may be suspended already, and would return no batch.
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

    /// Charges heap bytes without which the operator cannot continue, even beyond the limit.
    pub(crate) fn grow_heap(&self, bytes: u64) {
        self.grow(bytes);
        self.hold_heap(bytes);
    }

    /// Releases heap bytes.
    pub(crate) fn shrink_heap(&self, bytes: u64) {
        self.release_heap(bytes);
        self.shrink(bytes);
    }
}

/// Extension of DataFusion's session configuration that holds a query's memory, where its operators
/// find it.
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
