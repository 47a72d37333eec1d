//! Calls of functions, and the objects of the database that their arguments name.

use std::cell::OnceCell;
use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_datafusion_err};

use terrace_sql::SearchPath;
use terrace_sql::session::{EnumReport, RoutineReport};

use super::super::objects::{Object, Objects, is_temporary};
use super::super::schemas::SCHEMA;
use super::super::source::Source;
use super::super::{defined, types};
use super::argument::{integer, text};
use super::identifier::{identifiers, quote};

/// A call of a function for the rows of a batch.
pub(super) struct Call<'a> {
    pub(super) source: &'a Source,
    /// The schemas in which unqualified names are resolved.
    pub(super) path: SearchPath,
    objects: OnceCell<Arc<Objects>>,
    routines: OnceCell<Vec<RoutineReport>>,
    enums: OnceCell<Vec<EnumReport>>,
    /// The types of the arguments, as fields.
    pub(super) fields: Vec<FieldRef>,
}

impl<'a> Call<'a> {
    pub(super) fn new(source: &'a Source, path: SearchPath, fields: Vec<FieldRef>) -> Self {
        let (objects, routines, enums) = Default::default();
        Self { source, path, objects, routines, enums, fields }
    }

    /// Returns the schemas and relations of the database.
    pub(super) fn objects(&self) -> &Arc<Objects> {
        self.objects.get_or_init(|| Arc::new(Objects::of(&self.source.names)))
    }

    /// Returns the functions and macros that users have defined.
    pub(super) fn routines(&self) -> &[RoutineReport] {
        self.routines.get_or_init(|| self.source.names.routines())
    }

    /// Returns the function or macro with an OID.
    pub(super) fn routine(&self, oid: i64) -> Option<&RoutineReport> {
        self.routines().iter().find(|routine| defined::routine_oid(routine) == oid)
    }

    /// Returns the enums.
    pub(super) fn enums(&self) -> &[EnumReport] {
        self.enums.get_or_init(|| self.source.names.enums())
    }

    /// Returns the enum with an OID.
    pub(super) fn enum_with(&self, oid: i64) -> Option<&EnumReport> {
        self.enums().iter().find(|of| defined::enum_oid(&of.schema, &of.name) == oid)
    }

    /// Returns the enum with a name.
    pub(super) fn enum_named(&self, text: &str) -> Option<&EnumReport> {
        defined::enum_named(self.enums(), self.path.schemas(), text)
    }

    /// True if names of a schema are found unqualified.
    pub(super) fn is_visible(&self, schema: &str) -> bool {
        schema == SCHEMA
            || is_temporary(schema)
            || self.path.schemas().iter().any(|known| known == schema)
    }

    /// Returns the quoted name of an object, with its schema unless unqualified names find it.
    pub(super) fn visible_name(&self, schema: &str, name: &str) -> String {
        match self.is_visible(schema) {
            true => quote(name),
            false => format!("{}.{}", quote(schema), quote(name)),
        }
    }

    /// Returns the name of a type with its modifier, as `format_type` does.
    pub(super) fn format_type(&self, oid: i64, modifier: Option<i64>) -> String {
        let own = types::by_oid(oid).is_none().then(|| self.enum_with(oid)).flatten();
        match own {
            Some(of) => self.visible_name(&of.schema, &of.name),
            None => types::format(oid, modifier),
        }
    }

    /// Returns PostgreSQL's name of the type that `text`, a part of a stored definition, names.
    pub(super) fn type_named(&self, text: &str) -> String {
        if let Some(of) = types::by_any_name(text) {
            return of.sql_name.to_owned();
        }
        match self.enum_named(text) {
            Some(of) => self.visible_name(&of.schema, &of.name),
            None => text.to_owned(),
        }
    }

    /// Returns the relation that an argument names or whose OID it is; `None` if no relation has
    /// the OID.
    ///
    /// # Errors
    /// A name that no relation has.
    pub(super) fn relation(&self, argument: &ScalarValue) -> Result<Option<&Object>> {
        if let Some(oid) = integer(argument) {
            return Ok(self.objects().relation(oid));
        }
        let name = text(argument).unwrap_or_default();
        match self.relation_named(&name) {
            Some(found) => Ok(Some(found)),
            None => Err(missing("relation", &name)),
        }
    }

    pub(super) fn relation_named(&self, name: &str) -> Option<&Object> {
        let parts = identifiers(name)?;
        let mut parts = parts.iter().rev();
        let name = parts.next()?;
        self.objects().named(parts.next().map(String::as_str), name, &self.path)
    }
}

/// Returns the error for a `name` that no object has; `what` is the kind of object.
pub(super) fn missing(what: &str, name: &str) -> DataFusionError {
    plan_datafusion_err!("{what} {name:?} not found")
}
