//! Resolution of the names of enum types in statements.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::common::Result as DataFusionResult;
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ArrayElemTypeDef, DataType, EnumMember,
    Expr, Ident, ObjectName, Statement as SqlStatement, TypedString, VisitorMut,
};
use terrace_table::catalog::{Snapshot, TextKind};
use terrace_table::error::SqlError;

use super::enum_type::EnumType;
use super::field::{enum_of, list_enum_of};
use super::kinds::Kind;
use super::syntax::TypeStatement;
use crate::access::{Privilege, Rights};
use crate::names::{SearchPath, TypeSnapshot};
use crate::session::parse::parse;
use crate::session::refusal::refused;
use crate::session::routines::syntax::parts;
use crate::session::statement::SessionStatement;
use crate::session::walk::Walk;

/// The catalog snapshot in which a statement looks up enums; `None` if it has no types.
pub(super) fn snapshot_of(state: &SessionState) -> Option<Arc<TypeSnapshot>> {
    state.config().get_extension::<TypeSnapshot>().filter(|it| it.0.has_texts(TextKind::Type))
}

/// The enum of a schema and name; `None` if there is none.
///
/// # Errors
/// If the stored text is damaged.
pub(in crate::session) fn find(
    snapshot: &Snapshot,
    schema: &str,
    name: &str,
) -> Result<Option<EnumType>, SqlError> {
    let object = snapshot.text(TextKind::Type, schema, name);
    object.map(|object| stored(schema, name, &object.text)).transpose()
}

fn stored(schema: &str, name: &str, text: &str) -> Result<EnumType, SqlError> {
    match parse(text)?.pop() {
        Some(SessionStatement::Type(statement)) => match *statement {
            TypeStatement::Create { labels, .. } => EnumType::new(schema, name, labels),
            _ => Err(damaged()),
        },
        _ => Err(damaged()),
    }
}

fn damaged() -> SqlError {
    SqlError::Task("the text of a type is damaged".to_owned())
}

/// The enum that the values of a field, or the elements of its lists, are of; `None` for a field of
/// another type.
///
/// # Errors
/// If the type has been dropped, or its stored text is damaged.
pub(super) fn of_field(snapshot: &Snapshot, field: &Field) -> DataFusionResult<Option<Kind>> {
    let of = |(schema, name): (&str, &str)| -> DataFusionResult<_> {
        let found = find(snapshot, schema, name)?;
        let missing = || SqlError::Missing { name: format!("type {schema}.{name}") };
        Ok(Arc::new(found.ok_or_else(missing)?))
    };
    if let Some(named) = enum_of(field) {
        return Ok(Some(Kind::Value(of(named)?)));
    }
    match list_enum_of(field) {
        Some(named) => Ok(Some(Kind::List(of(named)?))),
        None => Ok(None),
    }
}

/// The schema of a type: `schema` if it is named, else the first schema on the search path with a
/// type of this name; `None` if there is none.
pub(in crate::session) fn home(
    state: &SessionState,
    snapshot: &Snapshot,
    schema: Option<&str>,
    name: &str,
) -> Option<String> {
    if let Some(schema) = schema {
        return Some(schema.to_owned());
    }
    let path = SearchPath::of(state.config_options());
    let mut schemas = path.existing(snapshot);
    let is_in = |schema: &&str| snapshot.text(TextKind::Type, schema, name).is_some();
    schemas.find(is_in).map(str::to_owned)
}

/// Qualifies the name of each enum in casts and in the columns of a CREATE TABLE with its schema.
///
/// # Errors
/// [`SqlError::Refused`] for an array of arrays of an enum.
pub(in crate::session) fn write_out(
    state: &SessionState,
    statement: &mut Statement,
) -> Result<(), SqlError> {
    let Some(snapshot) = snapshot_of(state) else { return Ok(()) };
    let mut names = Names { state, snapshot: &snapshot.0, rights: None, error: None };
    let _ = statement.walk(&mut names);
    names.error.map_or(Ok(()), Err)
}

/// As [`write_out`], but also checks that `rights` include USAGE on the schemas of the types.
///
/// # Errors
/// As [`write_out`]; [`SqlError::Denied`] for a type of a schema without USAGE.
pub(in crate::session) fn write_out_with(
    state: &SessionState,
    rights: &Rights<'_>,
    statement: &mut Statement,
) -> Result<(), SqlError> {
    let Some(snapshot) = snapshot_of(state) else { return Ok(()) };
    let mut names = Names { state, snapshot: &snapshot.0, rights: Some(rights), error: None };
    let _ = statement.walk(&mut names);
    names.error.map_or(Ok(()), Err)
}

/// Refuses an ALTER TABLE that names a type of a schema without USAGE.
///
/// # Errors
/// [`SqlError::Denied`]; [`SqlError::Refused`] for an array of arrays of an enum.
pub(in crate::session) fn check_alter(
    state: &SessionState,
    rights: &Rights<'_>,
    alter: &AlterTable,
) -> Result<(), SqlError> {
    let Some(snapshot) = snapshot_of(state) else { return Ok(()) };
    let mut names = Names { state, snapshot: &snapshot.0, rights: Some(rights), error: None };
    for operation in &alter.operations {
        let mut of = match operation {
            AlterTableOperation::AddColumn { column_def, .. } => column_def.data_type.clone(),
            AlterTableOperation::AlterColumn {
                op: AlterColumnOperation::SetDataType { data_type, .. },
                ..
            } => data_type.clone(),
            _ => continue,
        };
        if names.qualify(&mut of).is_break() {
            break;
        }
    }
    names.error.map_or(Ok(()), Err)
}

struct Names<'a> {
    state: &'a SessionState,
    snapshot: &'a Snapshot,
    /// Rights that must include USAGE on the schema of each type; `None` to check none.
    rights: Option<&'a Rights<'a>>,
    error: Option<SqlError>,
}

impl Names<'_> {
    /// The name of the type with these labels: DuckDB writes the labels of a type and not its name
    /// into the tables of an export.
    fn of_labels(&self, members: &[EnumMember]) -> Result<ObjectName, SqlError> {
        let labels = members.iter().map(|member| match member {
            EnumMember::Name(label) | EnumMember::NamedValue(label, _) => label.as_str(),
        });
        let labels: Vec<_> = labels.collect();
        for schema in SearchPath::of(self.state.config_options()).existing(self.snapshot) {
            for (name, object) in self.snapshot.texts(TextKind::Type, schema) {
                if stored(schema, &name, &object.text)?.labels() == labels {
                    let part = |name: &str| Ident::with_quote('"', name);
                    return Ok(ObjectName::from(vec![part(schema), part(&name)]));
                }
            }
        }
        let labels = labels.iter().map(|label| format!("'{}'", label.replace('\'', "''")));
        let labels = labels.collect::<Vec<_>>().join(", ");
        Err(refused(
            &format!("the type ENUM({labels}) without a name"),
            &format!("say CREATE TYPE name AS ENUM ({labels}), and name it"),
        ))
    }

    fn qualify(&mut self, of: &mut DataType) -> ControlFlow<()> {
        match of {
            DataType::Custom(name, modifiers) if modifiers.is_empty() => {
                if let Some((schema, bare)) = parts(name)
                    && let Some(home) = home(self.state, self.snapshot, schema.as_deref(), &bare)
                    && self.snapshot.text(TextKind::Type, &home, &bare).is_some()
                {
                    let usage = |rights: &Rights<'_>| rights.require(Privilege::Usage, &home, None);
                    if let Err(error) = self.rights.map_or(Ok(()), usage) {
                        self.error = Some(error);
                        return ControlFlow::Break(());
                    }
                    let part = |name: &str| Ident::with_quote('"', name);
                    *name = ObjectName::from(vec![part(&home), part(&bare)]);
                }
                ControlFlow::Continue(())
            }
            DataType::Enum(members, _) => {
                match self.of_labels(members) {
                    Ok(name) => *of = DataType::Custom(name, vec![]),
                    Err(error) => {
                        self.error = Some(error);
                        return ControlFlow::Break(());
                    }
                }
                self.qualify(of)
            }
            DataType::Array(
                ArrayElemTypeDef::AngleBracket(item) | ArrayElemTypeDef::SquareBracket(item, _),
            ) => {
                let before = item.clone();
                self.qualify(item)?;
                if *item == before || !matches!(before.as_ref(), DataType::Array(_)) {
                    return ControlFlow::Continue(());
                }
                let what = format!("the array type {before}[] of an enum");
                self.error = Some(refused(&what, "say one dimension, or VARCHAR[][]"));
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut SqlStatement) -> ControlFlow<()> {
        let SqlStatement::CreateTable(create) = statement else {
            return ControlFlow::Continue(());
        };
        create.columns.iter_mut().try_for_each(|column| self.qualify(&mut column.data_type))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
                self.qualify(data_type)
            }
            _ => ControlFlow::Continue(()),
        }
    }
}
