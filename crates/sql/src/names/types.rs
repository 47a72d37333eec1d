//! The snapshot in which a statement looks up types, and lists functions.

use datafusion::execution::SessionState;
use terrace_table::catalog::{Snapshot, TextKind};

/// The snapshot in which a statement looks up types and lists functions: an extension of the
/// configuration in its session state. Without it only built-in types and functions are found.
pub(crate) struct TypeSnapshot(pub(crate) Snapshot);

impl TypeSnapshot {
    /// Makes a state look up types in a snapshot.
    pub(super) fn put_in(state: &mut SessionState, snapshot: &Snapshot) {
        let has_any = TextKind::ALL.into_iter().any(|kind| snapshot.has_texts(kind));
        if has_any || state.config().get_extension::<Self>().is_some() {
            state.config_mut().set_extension(std::sync::Arc::new(Self(snapshot.clone())));
        }
    }
}
