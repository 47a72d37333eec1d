//! The functions of a session.

use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use terrace_sql::Session;

use super::words::is_left_out;

/// The functions of a session, by name.
pub struct Functions {
    /// Scalar functions.
    pub scalars: Vec<Arc<ScalarUDF>>,
    /// Aggregate functions.
    pub aggregates: Vec<Arc<AggregateUDF>>,
    /// Names of window functions.
    pub windows: Vec<String>,
}

impl Functions {
    /// Returns the functions of a session, without those that are left out.
    #[must_use]
    pub fn of(session: &Session) -> Self {
        let state = session.context().state();
        let mut scalars: Vec<_> = state.scalar_functions().values().cloned().collect();
        scalars.sort_by(|one, other| one.name().cmp(other.name()));
        scalars.dedup_by(|one, other| one.name() == other.name());
        scalars.retain(|function| !is_left_out(function.name()));
        let mut aggregates: Vec<_> = state.aggregate_functions().values().cloned().collect();
        aggregates.sort_by(|one, other| one.name().cmp(other.name()));
        aggregates.dedup_by(|one, other| one.name() == other.name());
        let windows = state.window_functions().values().map(|it| it.name().to_owned());
        let mut windows: Vec<_> = windows.collect();
        windows.sort_unstable();
        windows.dedup();
        Self { scalars, aggregates, windows }
    }
}
