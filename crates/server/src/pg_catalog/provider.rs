//! DataFusion tables of the catalog's relations. Their rows are computed at each scan.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{SchemaProvider, Session as CatalogSession, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::batch::batch;
use super::definition::{self, Definition};
use super::schemas::SCHEMA;
use super::source::Source;
use super::tables;

/// The schema `pg_catalog` of a connection. It also contains the views of `information_schema`,
/// under names that are not listed.
#[derive(Debug)]
pub(super) struct PgCatalog {
    pub(super) source: Source,
}

#[async_trait]
impl SchemaProvider for PgCatalog {
    fn table_names(&self) -> Vec<String> {
        let own = definition::all().filter(|definition| definition.schema == SCHEMA);
        own.map(|definition| definition.name.to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let source = self.source.clone();
        let table = definition::find(name).map(|definition| PgTable { definition, source });
        Ok(table.map(|table| Arc::new(table) as _))
    }

    fn table_exist(&self, name: &str) -> bool {
        definition::find(name).is_some()
    }
}

struct PgTable {
    definition: &'static Definition,
    source: Source,
}

impl fmt::Debug for PgTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PgTable({})", self.definition.name)
    }
}

#[async_trait]
impl TableProvider for PgTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.definition.arrow)
    }

    fn table_type(&self) -> TableType {
        if self.definition.kind == "r" { TableType::Base } else { TableType::View }
    }

    async fn scan(
        &self,
        _state: &dyn CatalogSession,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = tables::rows(self.definition, &self.source).await;
        let rows = rows.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let batch = batch(self.definition, &rows)?;
        Ok(MemorySourceConfig::try_new_exec(&[vec![batch]], self.schema(), projection.cloned())?)
    }
}
