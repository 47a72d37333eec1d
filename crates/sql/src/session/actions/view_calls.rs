//! Views whose queries call functions or macros. The stored query has their bodies inlined, so
//! replacing a function updates the texts of the views that call it.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::exec_datafusion_err;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use terrace_sys::sync::lock;
use terrace_table::catalog::{Draft, Snapshot, TextKind};
use terrace_table::error::SqlError;

use crate::names::{CATALOG, is_temporary};
use crate::session::dialect::parsed_query;
use crate::session::options::WrittenView;
use crate::session::parse::parse;
use crate::session::refusal::refused;
use crate::session::routines::calls::called;
use crate::session::routines::expansion;
use crate::session::routines::lookup::Lookup;
use crate::session::routines::routine::Routine;
use crate::session::sql_type::identifier;
use crate::session::state::Session;
use crate::session::statement::SessionStatement;
use crate::view;

/// A view whose stored text changes because a function that it calls is replaced.
pub(super) struct RemadeView {
    schema: String,
    name: String,
    before: Arc<str>,
    after: String,
}

impl RemadeView {
    /// Replaces the text of the view.
    ///
    /// # Errors
    /// [`SqlError::Conflict`] if the view has been changed since.
    pub(super) fn put(&self, draft: &mut Draft) -> Result<(), SqlError> {
        let Self { schema, name, before, after } = self;
        if draft.snapshot().view(schema, name).as_ref() != Some(before) {
            return Err(SqlError::Conflict { what: format!("view {schema}.{name} was changed") });
        }
        draft.put_view(schema, name, after, true)
    }
}

impl Session {
    /// The CREATE VIEW text to store beside the inlined query, if the query calls stored functions:
    /// calls of those are kept, calls of temporary functions are inlined. `None` for any other
    /// statement.
    ///
    /// # Errors
    /// Errors of the calls.
    pub(in crate::session) fn written_view(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        statement: &Statement,
    ) -> Result<Option<WrittenView>, SqlError> {
        let is_view = matches!(statement, Statement::Statement(statement)
            if matches!(statement.as_ref(), SqlStatement::CreateView(_)));
        if !is_view || !snapshot.has_texts(TextKind::Function) {
            return Ok(None);
        }
        let mut statement = statement.clone();
        let temporary = lock(&self.routines).clone();
        if let Some(lookup) = Lookup::of_session(state, snapshot, &temporary) {
            expansion::write_out(&lookup, &self.rights(snapshot), &mut statement)?;
        }
        let Some(lookup) = Lookup::new(state, snapshot, &[]) else { return Ok(None) };
        let calls = called(&lookup, &mut statement).into_iter();
        let calls = calls.filter_map(|found| Some((found.schema.clone()?, found.routine.key())));
        let calls: BTreeSet<_> = calls.collect();
        let text = statement.to_string();
        Ok((!calls.is_empty()).then_some(WrittenView { text, calls }))
    }

    /// True if a statement calls SQL functions or macros.
    pub(in crate::session) fn has_calls(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        statement: &Statement,
    ) -> bool {
        let temporary = lock(&self.routines).clone();
        let lookup = Lookup::new(state, snapshot, &temporary);
        lookup.is_some_and(|lookup| !called(&lookup, &mut statement.clone()).is_empty())
    }

    /// The views whose text changes because functions are replaced: `before` is the snapshot with
    /// the old functions, `after` the one with the new ones, `names` are their names.
    ///
    /// # Errors
    /// [`SqlError::Denied`] for a view of another role, whose rights the new body would have;
    /// [`SqlError::Refused`] for a column that the view would lose; errors of planning it.
    pub(super) async fn remade_views(
        &self,
        (before, after): (&Snapshot, &Snapshot),
        names: BTreeSet<String>,
    ) -> Result<Vec<RemadeView>, SqlError> {
        let mut remade = Vec::new();
        let names = with_callers(after, names);
        for schema in before.schemas() {
            if is_temporary(&schema) && schema != self.names.temporary() {
                continue;
            }
            for name in before.view_names(&schema) {
                let Some(text) = before.view(&schema, &name) else { continue };
                let Some((path, written)) = view::calling(&text)? else { continue };
                if !mentions(&written, &names) {
                    continue;
                }
                let full = (schema.as_str(), name.as_str());
                let remade_view = self.remade(after, full, path, &written).await;
                // A view that could not be used before keeps its text.
                if remade_view.is_err() && self.remade(before, full, path, &written).await.is_err()
                {
                    continue;
                }
                let new = view::text(path, &remade_view?, Some(&written));
                if *new != *text {
                    let what = "replacing a function that it calls";
                    self.rights(before).require_owner(what, &schema, Some(&name))?;
                    let (schema, before) = (schema.clone(), text);
                    remade.push(RemadeView { schema, name, before, after: new });
                }
            }
        }
        Ok(remade)
    }

    /// The definition of a view with its calls inlined. `path` is the search path under which
    /// `written`, its statement with the calls, is planned.
    async fn remade(
        &self,
        snapshot: &Snapshot,
        (schema, name): (&str, &str),
        path: &str,
        written: &str,
    ) -> Result<String, SqlError> {
        let mut state = self.copy.take(&self.context);
        self.names.resolve_in(&mut state, snapshot);
        let options = state.config_mut().options_mut();
        options.catalog.default_catalog = CATALOG.to_owned();
        options.catalog.default_schema = path.to_owned();
        let statement = parse(written)?.pop().and_then(SessionStatement::into_sql);
        let mut statement = statement.ok_or_else(damaged)?;
        if let Some(lookup) = Lookup::new(&state, snapshot, &[]) {
            expansion::write_out(&lookup, &self.rights(snapshot), &mut statement)?;
        }
        let plan = Box::pin(self.logical_plan(&state, snapshot, statement)).await?;
        let LogicalPlan::Ddl(DdlStatement::CreateView(view)) = plan else {
            return Err(damaged().into());
        };
        let definition = view.definition.ok_or_else(damaged)?;
        let now: Vec<_> = view.input.schema().fields().iter().map(|it| it.name()).collect();
        let known = self.names.names().columns(schema, name).await?;
        let Some(known) = known.filter(|known| !known.fields().is_empty()) else {
            return Ok(definition);
        };
        let known: Vec<_> = known.fields().iter().map(|it| it.name()).collect();
        if known == now {
            return Ok(definition);
        }
        match known.iter().find(|column| !now.contains(*column)) {
            None => selecting(&definition, &known),
            Some(lost) => Err(refused(
                &format!("replacing a function so that view {schema}.{name} loses column {lost}"),
                "drop the view first",
            )),
        }
    }
}

fn damaged() -> datafusion::common::DataFusionError {
    exec_datafusion_err!("the text of a view is damaged")
}

/// The definition of a view whose query returns only these columns, in this order.
fn selecting(definition: &str, columns: &[&String]) -> Result<String, SqlError> {
    let statement = parse(definition)?.pop().and_then(SessionStatement::into_sql);
    let Some(Statement::Statement(mut statement)) = statement else {
        return Err(damaged().into());
    };
    if let SqlStatement::CreateView(view) = statement.as_mut() {
        let columns: Vec<_> = columns.iter().map(|column| identifier(column)).collect();
        let text = format!("SELECT {} FROM ({}) AS kept", columns.join(", "), view.query);
        *view.query = parsed_query(&text)?;
    }
    Ok(statement.to_string())
}

/// True if a text may contain one of the names; a name with a quote counts as contained.
fn mentions(text: &str, names: &BTreeSet<String>) -> bool {
    let text = text.to_lowercase();
    names.iter().any(|name| name.contains('"') || text.contains(&name.to_lowercase()))
}

/// Returns `names` and the names of the functions that call one of them, directly or indirectly.
fn with_callers(snapshot: &Snapshot, mut names: BTreeSet<String>) -> BTreeSet<String> {
    loop {
        let before = names.len();
        for schema in snapshot.schemas() {
            for (key, object) in snapshot.texts(TextKind::Function, &schema) {
                if mentions(&object.text, &names) {
                    names.insert(Routine::name_in(&key).to_owned());
                }
            }
        }
        if names.len() == before {
            return names;
        }
    }
}
