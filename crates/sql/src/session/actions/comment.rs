//! Running of COMMENT.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::ObjectName;
use terrace_table::catalog::{Draft, Properties, Snapshot, TextKind};
use terrace_table::error::SqlError;
use terrace_table::table::Table;
use terrace_table::transaction::Scope;

use super::object_changes::StoredText;
use super::property_change::{PropertyChange, planned};
use crate::names::Names;
use crate::session::comment::{CommentOn, CommentStatement};
use crate::session::define::Name;
use crate::session::enums::names::home;
use crate::session::object_name::split_column;
use crate::session::refusal::refused;
use crate::session::routines::routine::DroppedRoutine;
use crate::session::routines::syntax::parts;
use crate::session::state::{Planned, Session};

/// A new comment on an object or on one of its columns.
struct Comment {
    /// `None` for a comment on the object itself.
    column: Option<String>,
    /// `None` removes the comment.
    text: Option<String>,
}

impl Session {
    /// Sets or removes a comment.
    ///
    /// # Errors
    /// [`SqlError::Missing`], [`SqlError::MissingColumn`], [`SqlError::MissingSchema`],
    /// [`SqlError::Denied`]; errors of the catalog.
    pub(in crate::session) async fn comment(
        &self,
        statement: CommentStatement,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        self.refuse_change(scope, "a definition")?;
        let (state, snapshot) = self.state_in(scope)?;
        let CommentStatement { on, name, parameters, text } = statement;
        if on == CommentOn::Type || on.routine().is_some() {
            let at = (&state, &snapshot);
            return self.comment_on_definition(at, on, (&name, parameters), text, scope).await;
        }
        if on == CommentOn::Schema {
            return self.comment_on_schema(&snapshot, &name, text, scope).await;
        }
        let (object, column) = match on {
            CommentOn::Column => match split_column(&name) {
                Some((table, column)) => (table, Some(column)),
                None => {
                    let what = format!("a comment on column {name}");
                    return Err(refused(&what, "name its table too: t.a"));
                }
            },
            _ => (name, None),
        };
        let reference = object_name_to_table_reference(object, true)?;
        let Name { schema, name } = self.own_name(&state, reference)?;
        refuse_kind(on, &snapshot, &schema, &name)?;
        self.rights(&snapshot).require_owner("commenting on it", &schema, Some(&name))?;
        let comment = Comment { column, text };
        match snapshot.table(&schema, &name) {
            Some((table, _)) => {
                refuse_missing_column(&table, comment.column.as_deref())?;
                let catalog = Arc::clone(self.engine.catalog());
                Ok(planned("CommentExec", catalog, &table, comment))
            }
            None => {
                let names = self.names.names();
                self.comment_on_other(scope, &names, (&schema, &name), comment).await
            }
        }
    }

    async fn comment_on_schema(
        &self,
        snapshot: &Snapshot,
        name: &ObjectName,
        text: Option<String>,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        let reference = object_name_to_table_reference(name.clone(), true)?;
        let schema = reference.table();
        if !snapshot.has_schema(schema) {
            return Err(SqlError::MissingSchema { name: schema.to_owned() });
        }
        self.rights(snapshot).require_owner("commenting on it", schema, None)?;
        let put = |draft: &mut Draft| {
            let known = draft.snapshot().comments(schema, None).cloned();
            let mut comments = known.unwrap_or_default();
            comments.own.clone_from(&text);
            draft.put_comments(schema, None, comments)
        };
        scope.define(self.engine.catalog(), put).await?;
        Ok(Planned::nothing())
    }

    /// Sets a comment on a type, or on a function or macro.
    async fn comment_on_definition(
        &self,
        (state, snapshot): (&SessionState, &Snapshot),
        on: CommentOn,
        (written, parameters): (&ObjectName, Option<usize>),
        text: Option<String>,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        let what = "commenting on it";
        let missing =
            || SqlError::Missing { name: format!("{} {written}", on.keyword().to_lowercase()) };
        let (schema, name) = parts(written).ok_or_else(missing)?;
        let (kind, schema, key) = match on.routine() {
            Some(kind) => {
                let named = DroppedRoutine { schema, name, parameters };
                let (schema, routine) = self.owned_routine(state, snapshot, &named, kind, what)?;
                (TextKind::Function, schema, routine.key())
            }
            None => {
                let home = home(state, snapshot, schema.as_deref(), &name).ok_or_else(missing)?;
                let known = snapshot.text(TextKind::Type, &home, &name).ok_or_else(missing)?;
                let (full, owner) = (format!("{home}.{name}"), known.owner.as_deref());
                self.rights(snapshot).require_owner_of(what, &home, &full, owner)?;
                (TextKind::Type, home, name)
            }
        };
        let object = StoredText { kind, schema: &schema, name: &key };
        self.comment_on_text(object, text, scope).await?;
        Ok(Planned::nothing())
    }

    /// Sets a comment on a view or a sequence.
    async fn comment_on_other(
        &self,
        scope: &Scope,
        names: &Names,
        (schema, name): (&str, &str),
        comment: Comment,
    ) -> Result<Planned, SqlError> {
        if let Some(column) = &comment.column {
            let columns = names.columns(schema, name).await?;
            let is_known =
                |it: &datafusion::arrow::datatypes::SchemaRef| it.field_with_name(column).is_ok();
            if !columns.as_ref().is_some_and(is_known) {
                let (table, column) = (name.to_owned(), column.clone());
                return Err(SqlError::MissingColumn { table, column });
            }
        }
        let put = |draft: &mut Draft| {
            let known = draft.snapshot().comments(schema, Some(name)).cloned();
            let mut comments = known.unwrap_or_default();
            match (&comment.column, &comment.text) {
                (None, text) => comments.own.clone_from(text),
                (Some(column), Some(text)) => {
                    comments.columns.insert(column.clone(), text.clone());
                }
                (Some(column), None) => {
                    comments.columns.remove(column);
                }
            }
            draft.put_comments(schema, Some(name), comments)
        };
        scope.define(self.engine.catalog(), put).await?;
        Ok(Planned::nothing())
    }
}

/// Refuses a name whose object does not exist or is not of the kind that `on` names.
fn refuse_kind(
    on: CommentOn,
    snapshot: &Snapshot,
    schema: &str,
    name: &str,
) -> Result<(), SqlError> {
    let is_table = snapshot.table(schema, name).is_some();
    let is_view = snapshot.view(schema, name).is_some();
    let is_sequence = snapshot.sequence(schema, name).is_some();
    let is_it = match on {
        CommentOn::Table => is_table,
        CommentOn::View => is_view,
        CommentOn::Sequence => is_sequence,
        CommentOn::Column => is_table || is_view,
        CommentOn::Schema
        | CommentOn::Type
        | CommentOn::Function
        | CommentOn::Macro
        | CommentOn::TableMacro => false,
    };
    let name = format!("{schema}.{name}");
    match (is_it, is_table || is_view || is_sequence) {
        (true, _) => Ok(()),
        (false, false) => Err(SqlError::Missing { name }),
        (false, true) => {
            let keyword = on.keyword();
            Err(refused(&format!("COMMENT ON {keyword} {name}, which is none"), "name its kind"))
        }
    }
}

fn refuse_missing_column(table: &Table, column: Option<&str>) -> Result<(), SqlError> {
    match column.filter(|column| table.schema().field_with_name(column).is_err()) {
        None => Ok(()),
        Some(column) => Err(SqlError::MissingColumn {
            table: table.name().to_owned(),
            column: column.to_owned(),
        }),
    }
}

impl PropertyChange for Comment {
    fn change(&self, _: &Table, properties: &mut Properties) -> Result<(), SqlError> {
        match &self.column {
            None => properties.comment.clone_from(&self.text),
            Some(column) => properties.change(column, |it| it.comment.clone_from(&self.text)),
        }
        Ok(())
    }
}
