//! Calls of functions, and the objects of the database that their arguments name.

use std::cell::OnceCell;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_datafusion_err};

use terrace_sql::SearchPath;

use super::super::objects::{Object, Objects};
use super::super::source::Source;
use super::argument::{integer, text};
use super::identifier::identifiers;

/// A call of a function for the rows of a batch.
pub(super) struct Call<'a> {
    pub(super) source: &'a Source,
    /// The schemas in which unqualified names are resolved.
    pub(super) path: SearchPath,
    objects: OnceCell<Arc<Objects>>,
    /// The types of the arguments.
    pub(super) types: Vec<DataType>,
}

impl<'a> Call<'a> {
    pub(super) fn new(source: &'a Source, path: SearchPath, types: Vec<DataType>) -> Self {
        Self { source, path, objects: OnceCell::new(), types }
    }

    /// Returns the schemas and relations of the database.
    pub(super) fn objects(&self) -> &Arc<Objects> {
        self.objects.get_or_init(|| Arc::new(Objects::of(&self.source.names)))
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

/// Returns the error for a name that does not exist.
pub(super) fn missing(what: &str, name: &str) -> DataFusionError {
    plan_datafusion_err!("{what} {name:?} not found")
}
