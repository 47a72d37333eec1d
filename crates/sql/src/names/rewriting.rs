//! Rewriting of statements by the schema that an embedding program adds.

use std::fmt;

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;

/// Rewrites statements before their names are resolved; an extension of the session's
/// configuration.
pub(crate) struct Added(Box<dyn Fn(&mut Statement) + Send + Sync>);

impl Added {
    pub(crate) fn new(rewrite: impl Fn(&mut Statement) + Send + Sync + 'static) -> Self {
        Self(Box::new(rewrite))
    }

    /// Rewrites a statement in a session with an added schema.
    pub(crate) fn rewrite(state: &SessionState, statement: &mut Statement) {
        if let Some(Self(rewrite)) = state.config().get_extension::<Self>().as_deref() {
            rewrite(statement);
        }
    }
}

impl fmt::Debug for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Added")
    }
}
