//! Sources from which the catalog's rows and the results of its functions are computed.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;
use terrace_sql::Names;

use crate::connection_info::ConnectionInfo;

/// The names of the database, the connection, and the functions of its session.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) names: Names,
    pub(super) facts: Arc<ConnectionInfo>,
    pub(super) functions: Arc<Functions>,
}

/// Name of a function and its kind (`pg_proc.prokind`).
pub(super) type FunctionName = (String, &'static str);

/// The functions of a session, which are listed when a statement first looks them up.
pub(super) struct Functions {
    list: Box<dyn Fn() -> Vec<FunctionName> + Send + Sync>,
    all: OnceLock<Vec<FunctionName>>,
}

impl Functions {
    /// Creates the list of the functions of a session. It has only a weak reference to the
    /// session's state, since functions of the session refer to the list.
    pub(super) fn of(context: &SessionContext) -> Self {
        let state = context.state_weak_ref();
        let list = move || state.upgrade().map_or_else(Vec::new, |state| listed(&state.read()));
        Self { list: Box::new(list), all: OnceLock::new() }
    }

    /// Returns the functions, sorted by name.
    pub(super) fn all(&self) -> &[FunctionName] {
        self.all.get_or_init(&self.list)
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Functions")
    }
}

fn listed(state: &SessionState) -> Vec<FunctionName> {
    let mut all: Vec<FunctionName> = Vec::new();
    all.extend(state.scalar_functions().keys().map(|name| (name.clone(), "f")));
    all.extend(state.aggregate_functions().keys().map(|name| (name.clone(), "a")));
    all.extend(state.window_functions().keys().map(|name| (name.clone(), "w")));
    all.sort_unstable();
    all
}
