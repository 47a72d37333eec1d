//! Execution of CREATE, ALTER and DROP TYPE for enum types.

use datafusion::common::TableReference;
use datafusion::execution::SessionState;
use terrace_table::catalog::{Draft, SchemaText, Snapshot, TextKind, named_type};
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use super::object_changes::StoredText;
use crate::access::Privilege;
use crate::session::define::Name;
use crate::session::dependencies::{self, Kind, Object};
use crate::session::enums::enum_type::EnumType;
use crate::session::enums::names::{find, home};
use crate::session::enums::syntax::{TypeName, TypeStatement};
use crate::session::notice::Notice;
use crate::session::object_change::ObjectChange;
use crate::session::refusal::refused;
use crate::session::state::{Planned, Session};

/// Names of the built-in types, which a new type may not have.
const BUILT_IN: &[&str] = &[
    "bigint",
    "bigserial",
    "bit",
    "blob",
    "bool",
    "boolean",
    "bpchar",
    "bytea",
    "char",
    "character",
    "cid",
    "date",
    "datetime",
    "decimal",
    "double",
    "float",
    "float4",
    "float8",
    "hugeint",
    "int",
    "int1",
    "int2",
    "int4",
    "int8",
    "integer",
    "interval",
    "json",
    "jsonb",
    "list",
    "map",
    "name",
    "numeric",
    "oid",
    "real",
    "record",
    "regclass",
    "regnamespace",
    "regproc",
    "regtype",
    "serial",
    "smallint",
    "smallserial",
    "string",
    "struct",
    "text",
    "tid",
    "time",
    "timestamp",
    "timestamptz",
    "timetz",
    "tinyint",
    "ubigint",
    "uhugeint",
    "uinteger",
    "usmallint",
    "utinyint",
    "uuid",
    "varbinary",
    "varchar",
    "void",
    "xid",
];

/// Refuses the name of a built-in type.
///
/// # Errors
/// [`SqlError::Refused`].
fn refuse_built_in(name: &str) -> Result<(), SqlError> {
    match BUILT_IN.contains(&name) {
        true => Err(refused(
            &format!("a type named {name}"),
            "a type of this name is built in; say another name",
        )),
        false => Ok(()),
    }
}

impl Session {
    /// Creates, changes or drops types.
    ///
    /// # Errors
    /// [`SqlError::Refused`] for labels that are not possible, [`SqlError::Exists`],
    /// [`SqlError::Missing`], [`SqlError::TypeInUse`], [`SqlError::Denied`]; errors of the catalog.
    pub(in crate::session) async fn change_types(
        &self,
        statement: TypeStatement,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        self.refuse_change(scope, "a definition")?;
        self.follow_engine()?;
        let (state, snapshot) = self.state_in(scope)?;
        match statement {
            TypeStatement::Create { name, labels, replace, keep } => {
                self.create_type(&state, &snapshot, (name, labels), (replace, keep), scope).await?;
            }
            TypeStatement::Add { name, label, place, keep } => {
                let mut of = self.owned_type(&state, &snapshot, &name)?;
                if !of.add(&label, &place.0)? {
                    return match keep {
                        true => {
                            let what = format_args!("enum label \"{label}\"");
                            self.notice(Notice::exists("42710", what));
                            Ok(Planned::nothing())
                        }
                        false => {
                            let name = format!("enum label \"{label}\"");
                            Err(SqlError::Exists { name })
                        }
                    };
                }
                self.put_type(&of, true, scope).await?;
            }
            TypeStatement::RenameLabel { name, from, to } => {
                let of = self.owned_type(&state, &snapshot, &name)?;
                return self.rename_label(&state, &snapshot, of, (from, to));
            }
            TypeStatement::Change { name, change } => {
                let of = self.owned_type(&state, &snapshot, &name)?;
                self.change_type(&state, &snapshot, &of, &change, scope).await?;
            }
            TypeStatement::Drop { names, if_exists, cascades } => {
                let found = names.iter().map(|it| self.dropped(&state, &snapshot, it, if_exists));
                let found = found.collect::<Result<Vec<_>, SqlError>>()?;
                let found: Vec<Object> = found.into_iter().flatten().collect();
                return self.drop_objects(&state, &snapshot, (&found, cascades), scope).await;
            }
        }
        Ok(Planned::nothing())
    }

    /// The type of a name, which the role must own.
    fn owned_type(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        name: &TypeName,
    ) -> Result<EnumType, SqlError> {
        let schema = home(state, snapshot, name.schema.as_deref(), &name.name);
        let schema = schema.ok_or_else(|| missing(name))?;
        let found = find(snapshot, &schema, &name.name)?.ok_or_else(|| missing(name))?;
        self.require_type(snapshot, &schema, &name.name, "changing it")?;
        Ok(found)
    }

    /// Changes the name, the schema or the owner of a type.
    async fn change_type(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        of: &EnumType,
        change: &ObjectChange,
        scope: &Scope,
    ) -> Result<(), SqlError> {
        if !matches!(change, ObjectChange::Owner(_)) {
            let object = Object::new(Kind::Type, &of.schema, &of.name);
            dependencies::refuse_used(state, snapshot, &object, "rename")?;
        }
        let renamed = |schema: &str, name: Option<&str>| {
            let name = name.unwrap_or(&of.name);
            refuse_built_in(name)?;
            let text = EnumType::new(schema, name, of.labels().to_vec())?.to_string();
            Ok((name.to_owned(), text))
        };
        let object = StoredText { kind: TextKind::Type, schema: &of.schema, name: &of.name };
        self.alter_text(snapshot, object, change, renamed, scope).await
    }

    async fn create_type(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        (name, labels): (TypeName, Vec<String>),
        (replace, keep): (bool, bool),
        scope: &Scope,
    ) -> Result<(), SqlError> {
        let reference = match &name.schema {
            Some(schema) => TableReference::partial(schema.as_str(), name.name.as_str()),
            None => TableReference::bare(name.name.as_str()),
        };
        let Name { schema, name } = self.new_name(state, reference)?;
        if snapshot.has_schema(&schema) {
            self.rights(snapshot).require(Privilege::Create, &schema, None)?;
        }
        refuse_built_in(&name)?;
        let of = EnumType::new(&schema, &name, labels)?;
        if snapshot.text(TextKind::Type, &schema, &name).is_some() {
            if keep {
                self.notice(Notice::exists("42710", format_args!("type \"{name}\"")));
                return Ok(());
            }
            if replace {
                self.require_type(snapshot, &schema, &name, "replacing it")?;
                refuse_used(snapshot, &schema, &name, "replace type")?;
            }
        }
        self.put_type(&of, replace, scope).await
    }

    async fn put_type(&self, of: &EnumType, replace: bool, scope: &Scope) -> Result<(), SqlError> {
        let owner = self.role().as_deref().map(str::to_owned);
        let object = SchemaText { text: of.to_string(), owner, comment: None };
        let put = |draft: &mut Draft| {
            draft.put_text(TextKind::Type, (&of.schema, &of.name), object.clone(), replace)
        };
        scope.define(self.engine.catalog(), put).await
    }

    /// The type to drop by a name, which the role must own. If it is missing and `if_exists` holds,
    /// returns `None` and sends a notice.
    fn dropped(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        name: &TypeName,
        if_exists: bool,
    ) -> Result<Option<Object>, SqlError> {
        let schema = home(state, snapshot, name.schema.as_deref(), &name.name);
        let schema =
            schema.filter(|schema| snapshot.text(TextKind::Type, schema, &name.name).is_some());
        let Some(schema) = schema else {
            if !if_exists {
                return Err(missing(name));
            }
            let given = name.schema.as_deref().filter(|schema| !snapshot.has_schema(schema));
            self.notice(match given {
                Some(schema) => Notice::missing(format_args!("schema \"{schema}\"")),
                None => Notice::missing(format_args!("type \"{}\"", name.name)),
            });
            return Ok(None);
        };
        self.require_type(snapshot, &schema, &name.name, "dropping it")?;
        Ok(Some(Object::new(Kind::Type, &schema, &name.name)))
    }

    /// Requires the owner of a type.
    fn require_type(
        &self,
        snapshot: &Snapshot,
        schema: &str,
        name: &str,
        what: &str,
    ) -> Result<(), SqlError> {
        let object = snapshot.text(TextKind::Type, schema, name);
        let owner = object.as_ref().and_then(|object| object.owner.as_deref());
        self.rights(snapshot).require_owner_of(what, schema, &format!("{schema}.{name}"), owner)
    }
}

/// Refuses a change of a type that a column has. `what` names the change in the error.
fn refuse_used(snapshot: &Snapshot, schema: &str, name: &str, what: &str) -> Result<(), SqlError> {
    for home in snapshot.schemas() {
        for table in snapshot.table_names(&home) {
            let Some((table, _)) = snapshot.table(&home, &table) else { continue };
            let fields = table.schema().fields();
            if let Some(field) = fields.iter().find(|it| named_type(it) == Some((schema, name))) {
                return Err(SqlError::TypeInUse {
                    what: format!("{what} {name}"),
                    column: format!("column {} of table {}", field.name(), table.full_name()),
                });
            }
        }
    }
    Ok(())
}

fn missing(name: &TypeName) -> SqlError {
    SqlError::Missing { name: format!("type {name}") }
}
