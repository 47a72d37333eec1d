//! Sources of the catalog's rows, and of the results of its functions.

use std::sync::{Arc, OnceLock};

use terrace_sql::Names;

use crate::place::Place;

/// Sources of rows: the names of the database and facts about a connection.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) names: Names,
    pub(super) facts: Arc<Place>,
    pub(super) functions: Functions,
}

/// The functions of a session and their kinds (`pg_proc.prokind`), sorted by name.
pub(super) type Functions = Arc<OnceLock<Vec<(String, &'static str)>>>;
