//! Changes of the names, schemas and owners of views, functions and types.

use datafusion::common::TableReference;
use datafusion::sql::planner::object_name_to_table_reference;
use terrace_table::catalog::{Draft, SchemaText, Snapshot, TextKind};
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use crate::access::Privilege;
use crate::names::{TEMPORARY, is_temporary};
use crate::session::dependencies::{Kind, Object, refuse_used};
use crate::session::grant::{AccessChange, GrantStatement, Objects};
use crate::session::notice::Notice;
use crate::session::object_change::{AlterView, ObjectChange};
use crate::session::object_name::{Name, refuse_reserved};
use crate::session::refusal::refused;
use crate::session::state::{Planned, Session};
use crate::view;

/// An object that is stored as text, by its schema and its name in the catalog.
pub(super) struct StoredText<'a> {
    pub(super) kind: TextKind,
    pub(super) schema: &'a str,
    pub(super) name: &'a str,
}

impl Session {
    /// Runs an ALTER VIEW.
    ///
    /// # Errors
    /// [`SqlError::Missing`], [`SqlError::Denied`], [`SqlError::Exists`]; [`SqlError::InUse`] if
    /// another object uses the name; errors of the catalog.
    pub(in crate::session) async fn alter_view(
        &self,
        alter: AlterView,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        self.refuse_change(scope, "a definition")?;
        let (state, snapshot) = self.state_in(scope)?;
        let reference = object_name_to_table_reference(alter.view.clone(), true)?;
        let Name { schema, name } = self.own_name(&state, reference)?;
        let full = format!("{schema}.{name}");
        let Some(text) = snapshot.view(&schema, &name) else {
            if snapshot.has_object(&schema, &name) {
                let what = format!("ALTER VIEW of {full}, which is none");
                return Err(refused(&what, "name its kind"));
            }
            if !alter.if_exists {
                return Err(SqlError::Missing { name: full });
            }
            self.notice(Notice::missing_relation(&snapshot, "relation", &schema, &name));
            return Ok(Planned::nothing());
        };
        if let ObjectChange::Owner(role) = &alter.change {
            let change = AccessChange::Owner(role.clone());
            let (objects, text) = (Objects::Tables(vec![alter.view.clone()]), alter.to_string());
            let (grantor, if_exists) = (None, alter.if_exists);
            let statement = GrantStatement { change, objects, grantor, if_exists, text };
            return self.change_access(statement, scope).await;
        }
        self.rights(&snapshot).require_owner("altering it", &schema, Some(&name))?;
        refuse_used(&state, &snapshot, &Object::new(Kind::View, &schema, &name), "rename")?;
        let (to_schema, to_name) = moved(&schema, &name, &alter.change);
        let to = TableReference::partial(to_schema, to_name);
        let to = match is_temporary(&schema) && to_schema == schema {
            true => Name { schema: schema.clone(), name: to_name.to_owned() },
            false => self.name_to_make(&state, &snapshot, to, false)?,
        };
        let text = view::renamed(&text, (to.schema != schema).then_some(&to.schema), &to.name)?;
        let put = |draft: &mut Draft| {
            let access = draft.snapshot().access(&schema, Some(&name)).cloned();
            let comments = draft.snapshot().comments(&schema, Some(&name)).cloned();
            draft.put_view(&to.schema, &to.name, &text, false)?;
            draft.drop_view(&schema, &name)?;
            if let Some(access) = access {
                draft.put_access(&to.schema, Some(&to.name), access)?;
            }
            match comments {
                Some(comments) => draft.put_comments(&to.schema, Some(&to.name), comments),
                None => Ok(()),
            }
        };
        scope.define(self.engine.catalog(), put).await?;
        Ok(Planned::nothing())
    }

    /// Changes the name, the schema or the owner of a function or type. `renamed` takes the new
    /// schema, and the new name or `None` for the same one, and returns the object's new name in
    /// the catalog and its new text.
    ///
    /// # Errors
    /// As [`Session::alter_view`].
    pub(super) async fn alter_text(
        &self,
        snapshot: &Snapshot,
        object: StoredText<'_>,
        change: &ObjectChange,
        renamed: impl Fn(&str, Option<&str>) -> Result<(String, String), SqlError>,
        scope: &Scope,
    ) -> Result<(), SqlError> {
        let StoredText { kind, schema, name } = object;
        let missing = || SqlError::Missing { name: format!("{} {schema}.{name}", kind.noun()) };
        let known = snapshot.text(kind, schema, name).ok_or_else(missing)?;
        let mut after = SchemaText::clone(&known);
        let mut place = (schema.to_owned(), name.to_owned());
        if let ObjectChange::Owner(role) = change {
            let what = format!("a new owner for {} {schema}.{name}", kind.noun());
            self.rights(snapshot).require_superuser(&what)?;
            if snapshot.role(role).is_none() {
                return Err(SqlError::MissingRole { name: role.clone() });
            }
            after.owner = Some(role.clone());
        } else {
            let to = match change {
                ObjectChange::Rename(to) => (schema, Some(to.as_str())),
                ObjectChange::Schema(to) | ObjectChange::Owner(to) => (to.as_str(), None),
            };
            refuse_reserved(to.0)?;
            if to.0 == TEMPORARY || is_temporary(to.0) {
                let what = format!("moving {} {name} to schema {}", kind.noun(), to.0);
                return Err(refused(&what, "name another schema"));
            }
            if !snapshot.has_schema(to.0) {
                return Err(SqlError::MissingSchema { name: to.0.to_owned() });
            }
            self.rights(snapshot).require(Privilege::Create, to.0, None)?;
            let (key, text) = renamed(to.0, to.1)?;
            after.text = text;
            place = (to.0.to_owned(), key);
        }
        let put = |draft: &mut Draft| {
            let to = (place.0.as_str(), place.1.as_str());
            match draft.alter_text(kind, (schema, name), to, after.clone())? {
                true => Ok(()),
                false => Err(missing()),
            }
        };
        scope.define(self.engine.catalog(), put).await
    }

    /// Sets or removes the comment on a function or type.
    ///
    /// # Errors
    /// [`SqlError::Missing`]; errors of the catalog.
    pub(super) async fn comment_on_text(
        &self,
        object: StoredText<'_>,
        comment: Option<String>,
        scope: &Scope,
    ) -> Result<(), SqlError> {
        let StoredText { kind, schema, name } = object;
        let missing = || SqlError::Missing { name: format!("{} {schema}.{name}", kind.noun()) };
        let put = |draft: &mut Draft| {
            let known = draft.snapshot().text(kind, schema, name).ok_or_else(missing)?;
            let object = SchemaText { comment: comment.clone(), ..SchemaText::clone(&known) };
            draft.alter_text(kind, (schema, name), (schema, name), object).map(drop)
        };
        scope.define(self.engine.catalog(), put).await
    }
}

/// The schema and the name of an object after a change.
fn moved<'a>(schema: &'a str, name: &'a str, change: &'a ObjectChange) -> (&'a str, &'a str) {
    match change {
        ObjectChange::Rename(to) => (schema, to),
        ObjectChange::Schema(to) => (to, name),
        ObjectChange::Owner(_) => (schema, name),
    }
}
