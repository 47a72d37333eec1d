//! Definitions of types.

use datafusion::common::TableReference;
use datafusion::execution::SessionState;
use terrace_table::catalog::{Draft, SchemaText, Snapshot, TextKind};
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use crate::access::Privilege;
use crate::session::define::Name;
use crate::session::enums::enum_type::EnumType;
use crate::session::enums::field::enum_of;
use crate::session::enums::names::{find, home};
use crate::session::enums::syntax::{TypeName, TypeStatement};
use crate::session::refusal::refused;
use crate::session::state::{Planned, Session};

/// Types that are built in, by the names that a definition may have for them.
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

fn is_built_in(name: &str) -> bool {
    BUILT_IN.contains(&name)
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
                let schema = home(&state, &snapshot, name.schema.as_deref(), &name.name);
                let schema = schema.ok_or_else(|| missing(&name))?;
                let found = find(&snapshot, &schema, &name.name)?;
                let mut of = found.ok_or_else(|| missing(&name))?;
                self.require_type(&snapshot, &schema, &name.name, "changing it")?;
                if !of.add(&label, &place.0)? {
                    return match keep {
                        true => Ok(Planned::nothing()),
                        false => {
                            let name = format!("enum label \"{label}\"");
                            Err(SqlError::Exists { name })
                        }
                    };
                }
                self.put_type(&of, true, scope).await?;
            }
            TypeStatement::Drop { names, if_exists } => {
                for name in &names {
                    self.drop_type(&state, &snapshot, name, if_exists, scope).await?;
                }
            }
        }
        Ok(Planned::nothing())
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
        if is_built_in(&name) {
            let what = format!("a type named {name}");
            return Err(refused(&what, "a type of this name is built in; say another name"));
        }
        let of = EnumType::new(&schema, &name, labels)?;
        if snapshot.text(TextKind::Type, &schema, &name).is_some() {
            if keep {
                return Ok(());
            }
            if replace {
                self.require_type(snapshot, &schema, &name, "replacing it")?;
                refuse_used(snapshot, &schema, &name)?;
            }
        }
        self.put_type(&of, replace, scope).await
    }

    async fn put_type(&self, of: &EnumType, replace: bool, scope: &Scope) -> Result<(), SqlError> {
        let owner = self.role().as_deref().map(str::to_owned);
        let object = SchemaText { text: of.to_string(), owner };
        let put = |draft: &mut Draft| {
            draft.put_text(TextKind::Type, (&of.schema, &of.name), object.clone(), replace)
        };
        scope.define(self.engine.catalog(), put).await
    }

    async fn drop_type(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        name: &TypeName,
        if_exists: bool,
        scope: &Scope,
    ) -> Result<(), SqlError> {
        let schema = home(state, snapshot, name.schema.as_deref(), &name.name);
        let schema =
            schema.filter(|schema| snapshot.text(TextKind::Type, schema, &name.name).is_some());
        let Some(schema) = schema else {
            return if if_exists { Ok(()) } else { Err(missing(name)) };
        };
        self.require_type(snapshot, &schema, &name.name, "dropping it")?;
        let take =
            |draft: &mut Draft| draft.drop_text(TextKind::Type, (&schema, &name.name)).map(drop);
        scope.define(self.engine.catalog(), take).await
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

/// Refuses a change of a type that a column is of.
fn refuse_used(snapshot: &Snapshot, schema: &str, name: &str) -> Result<(), SqlError> {
    for home in snapshot.schemas() {
        for table in snapshot.table_names(&home) {
            let Some((table, _)) = snapshot.table(&home, &table) else { continue };
            let fields = table.schema().fields();
            if let Some(field) = fields.iter().find(|it| enum_of(it) == Some((schema, name))) {
                return Err(SqlError::TypeInUse {
                    what: format!("replace type {name}"),
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
