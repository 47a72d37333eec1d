//! Functions and macros that a statement can call: those of the session, and those of the schemas
//! of its search path.

use std::collections::HashSet;

use datafusion::common::plan_datafusion_err;
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{FunctionArg, ObjectName};
use terrace_table::catalog::{Snapshot, TextKind};
use terrace_table::error::SqlError;

use super::arguments::fit;
use super::routine::{Routine, RoutineStatement};
use super::syntax::parts;
use crate::file_tables::FileFunctions;
use crate::names::SearchPath;
use crate::session::parse::parse;
use crate::session::refusal::refused;
use crate::session::statement::SessionStatement;

/// A routine and its place.
#[derive(Clone)]
pub(in crate::session) struct Found {
    /// The schema; `None` for a routine of the session.
    pub(in crate::session) schema: Option<String>,
    pub(in crate::session) routine: Routine,
}

impl Found {
    /// A text that identifies the routine among all routines.
    pub(super) fn id(&self) -> String {
        format!("{}.{}", self.schema.as_deref().unwrap_or_default(), self.routine.key())
    }
}

/// The routines that a statement can call.
pub(in crate::session) struct Lookup<'a> {
    pub(super) state: &'a SessionState,
    pub(super) snapshot: &'a Snapshot,
    temporary: &'a [Routine],
    /// The schemas in which names without a schema are looked up.
    path: SearchPath,
    /// The names of all routines.
    names: HashSet<String>,
    /// False if only the routines of the session are searched, and not those of the database.
    has_stored: bool,
}

impl<'a> Lookup<'a> {
    /// Returns `None` if there are no routines.
    pub(in crate::session) fn new(
        state: &'a SessionState,
        snapshot: &'a Snapshot,
        temporary: &'a [Routine],
    ) -> Option<Self> {
        if temporary.is_empty() && !snapshot.has_texts(TextKind::Function) {
            return None;
        }
        let schemas = snapshot.schemas().into_iter();
        let stored = schemas.flat_map(|schema| snapshot.texts(TextKind::Function, &schema));
        let stored = stored.map(|(key, _)| Routine::name_in(&key).to_owned());
        let names = temporary.iter().map(|routine| routine.name.clone()).chain(stored).collect();
        let path = SearchPath::of(state.config_options());
        Some(Self { state, snapshot, temporary, path, names, has_stored: true })
    }

    /// The routines of the session alone; `None` if there are none.
    pub(in crate::session) fn of_session(
        state: &'a SessionState,
        snapshot: &'a Snapshot,
        temporary: &'a [Routine],
    ) -> Option<Self> {
        let all = Self::new(state, snapshot, temporary).filter(|_| !temporary.is_empty())?;
        let names = temporary.iter().map(|routine| routine.name.clone()).collect();
        Some(Self { names, has_stored: false, ..all })
    }

    /// The routines that a text with another search path can call.
    pub(in crate::session) fn within(self, path: SearchPath) -> Self {
        Self { path, ..self }
    }

    /// True if a routine of any schema has the name.
    pub(super) fn has(&self, name: &ObjectName) -> bool {
        parts(name).is_some_and(|(_, name)| self.names.contains(&name))
    }

    /// The routine that a call means; `None` for a function that is built in. Of several that fit
    /// the arguments, the first schema's is meant, and there that with the fewest parameters.
    ///
    /// # Errors
    /// If no routine of the name fits, and none is built in; if a stored text is damaged.
    pub(super) fn find(
        &self,
        name: &ObjectName,
        arguments: &[FunctionArg],
        is_in_from: bool,
    ) -> Result<Option<Found>, SqlError> {
        let Some((schema, bare)) = parts(name).filter(|(_, name)| self.names.contains(name)) else {
            return Ok(None);
        };
        let groups = self.groups(schema.as_deref(), &bare)?;
        for group in &groups {
            let fits = group.iter().filter(|found| {
                (is_in_from || !found.routine.returns_rows()) && fit(&found.routine, arguments)
            });
            let order = |found: &&Found| {
                let routine = &found.routine;
                (routine.returns_rows() != is_in_from, routine.parameters.len())
            };
            if let Some(found) = fits.min_by_key(order) {
                return Ok(Some(found.clone()));
            }
        }
        let known: Vec<_> =
            groups.iter().flatten().map(|found| found.routine.signature()).collect();
        let is_other = schema.is_none() && is_built_in(self.state, &bare);
        if known.is_empty() || is_other || !self.has_stored {
            return Ok(None);
        }
        let returns_rows = groups.iter().flatten().any(|found| fit(&found.routine, arguments));
        if returns_rows {
            let what = format!("calling {bare}, which returns rows, as a value");
            return Err(refused(&what, &format!("say SELECT ... FROM {bare}(...)")));
        }
        let error = plan_datafusion_err!(
            "Invalid function call: {name} does not take these {} arguments; there is {}",
            arguments.len(),
            known.join(", ")
        );
        Err(error.into())
    }

    /// The routines of a name, by schema, in the order of the search path.
    fn groups(&self, schema: Option<&str>, name: &str) -> Result<Vec<Vec<Found>>, SqlError> {
        let schemas: Vec<&str> = match schema {
            _ if !self.has_stored => Vec::new(),
            Some(schema) => vec![schema],
            None => self.path.existing(self.snapshot).collect(),
        };
        let temporary = self.temporary.iter().filter(|routine| routine.name == name);
        let temporary = temporary.filter(|_| schema.is_none_or(|schema| schema == "temp"));
        let own = temporary.map(|it| Found { schema: None, routine: it.clone() }).collect();
        let mut groups = vec![own];
        for schema in schemas {
            groups.push(in_schema(self.snapshot, schema, name)?);
        }
        groups.retain(|group| !group.is_empty());
        Ok(groups)
    }
}

/// The routines of a name in a schema.
///
/// # Errors
/// If a stored text is damaged.
pub(in crate::session) fn in_schema(
    snapshot: &Snapshot,
    schema: &str,
    name: &str,
) -> Result<Vec<Found>, SqlError> {
    let texts = snapshot.texts(TextKind::Function, schema).into_iter();
    let texts = texts.filter(|(key, _)| Routine::name_in(key) == name);
    let found = texts.map(|(_, object)| {
        Ok(Found { schema: Some(schema.to_owned()), routine: stored(&object.text)? })
    });
    found.collect()
}

/// Parses the stored text of a routine.
///
/// # Errors
/// If the text is damaged.
pub(in crate::session) fn stored(text: &str) -> Result<Routine, SqlError> {
    let statement = parse(text)?.into_iter().next();
    match statement {
        Some(SessionStatement::Routine(statement)) => match *statement {
            RoutineStatement::Create { mut routines, .. } if routines.len() == 1 => {
                routines.pop().ok_or_else(damaged)
            }
            _ => Err(damaged()),
        },
        _ => Err(damaged()),
    }
}

fn damaged() -> SqlError {
    SqlError::Task("the text of a function is damaged".to_owned())
}

/// True if DataFusion or the engine has a function of this name.
pub(super) fn is_built_in(state: &SessionState, name: &str) -> bool {
    state.scalar_functions().contains_key(name)
        || state.aggregate_functions().contains_key(name)
        || state.window_functions().contains_key(name)
        || state.table_functions().contains_key(name)
        || state.higher_order_functions().contains_key(name)
        || FileFunctions::has(name)
        || SYNTAX.contains(&name)
}

/// Names that the parser or a rewrite gives a meaning of its own.
const SYNTAX: [&str; 22] = [
    "all",
    "any",
    "array",
    "cast",
    "coalesce",
    "columns",
    "current_date",
    "current_time",
    "current_timestamp",
    "exists",
    "extract",
    "grouping",
    "localtime",
    "localtimestamp",
    "merge_action",
    "nullif",
    "overlay",
    "position",
    "row",
    "substring",
    "trim",
    "try_cast",
];
