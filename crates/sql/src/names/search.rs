//! The schemas of a search path as one schema, in which DataFusion looks up names without a schema.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::TableType;

use super::shared::Shared;

/// Schema provider of all existing schemas of a search path, the first of which has precedence.
pub(super) struct PathSchemas {
    schemas: Vec<Arc<dyn SchemaProvider>>,
    shared: Arc<Shared>,
}

impl PathSchemas {
    pub(super) fn new(schemas: Vec<Arc<dyn SchemaProvider>>, shared: Arc<Shared>) -> Self {
        Self { schemas, shared }
    }

    /// The first schema with a table of this name.
    fn home(&self, name: &str) -> Option<&Arc<dyn SchemaProvider>> {
        self.schemas.iter().find(|schema| schema.table_exist(name))
    }
}

impl fmt::Debug for PathSchemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PathSchemas({:?})", self.schemas)
    }
}

#[async_trait]
impl SchemaProvider for PathSchemas {
    fn table_names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            self.schemas.iter().flat_map(|schema| schema.table_names()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(schema) = self.home(name) {
            return schema.table(name).await;
        }
        self.shared.added_table(name).await
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        match self.home(name) {
            Some(schema) => schema.table_type(name).await,
            None => Ok(None),
        }
    }

    /// Registers an external table in the first schema.
    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.schemas.first() {
            Some(schema) => schema.register_table(name, table),
            None => plan_err!(
                "no schema of the search path exists to create {name} in; say CREATE SCHEMA, or \
                 SET search_path"
            ),
        }
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.home(name).map_or(Ok(None), |schema| schema.deregister_table(name))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.home(name).is_some()
    }
}
