//! The schema `terrace`: the state of the engine as read-only tables. Their rows are computed when
//! a query is planned over them.

mod columns;
mod consumers;
mod grants;
mod heaps;
mod market;
mod memberships;
mod merges;
mod queries;
mod remote_files;
mod roles;
mod secrets;
mod segments;
mod sessions;
mod tenants;
mod tiers;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::{SchemaProvider, Session as CatalogSession, TableProvider};
use datafusion::common::{Result, exec_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::engine::EngineState;

pub use crate::names::SYSTEM_SCHEMA;
pub use tenants::TenantReport;
pub use tiers::TierReport;

/// A table of the schema: its columns and the function that computes their values.
struct View {
    name: &'static str,
    columns: fn() -> Vec<Field>,
    values: fn(&EngineState) -> Vec<ArrayRef>,
}

const VIEWS: [View; 14] = [
    View { name: "consumers", columns: consumers::columns, values: consumers::values },
    View { name: "grants", columns: grants::columns, values: grants::values },
    View { name: "heaps", columns: heaps::columns, values: heaps::values },
    View { name: "market", columns: market::columns, values: market::values },
    View { name: "memberships", columns: memberships::columns, values: memberships::values },
    View { name: "merges", columns: merges::columns, values: merges::values },
    View { name: "queries", columns: queries::columns, values: queries::values },
    View { name: "remote_files", columns: remote_files::columns, values: remote_files::values },
    View { name: "roles", columns: roles::columns, values: roles::values },
    View { name: "secrets", columns: secrets::columns, values: secrets::values },
    View { name: "segments", columns: segments::columns, values: segments::values },
    View { name: "sessions", columns: sessions::columns, values: sessions::values },
    View { name: "tenants", columns: tenants::columns, values: tenants::values },
    View { name: "tiers", columns: tiers::columns, values: tiers::values },
];

/// The names of the schema's tables.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    VIEWS.iter().map(|view| view.name)
}

/// The schema `terrace`.
pub(crate) struct SystemSchema {
    engine: Arc<EngineState>,
}

impl SystemSchema {
    pub(crate) fn new(engine: Arc<EngineState>) -> Self {
        Self { engine }
    }
}

impl fmt::Debug for SystemSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SystemSchema")
    }
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        names().map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let view = VIEWS.iter().find(|view| view.name == name);
        Ok(view.map(|view| {
            let schema = Arc::new(Schema::new((view.columns)()));
            Arc::new(SystemTable { view, schema, engine: Arc::clone(&self.engine) }) as _
        }))
    }

    fn register_table(
        &self,
        name: String,
        _table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        exec_err!("{SYSTEM_SCHEMA}.{name} cannot be made: the schema shows what the engine holds")
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        exec_err!("{SYSTEM_SCHEMA}.{name} cannot be dropped: it shows what the engine holds")
    }

    fn table_exist(&self, name: &str) -> bool {
        VIEWS.iter().any(|view| view.name == name)
    }
}

struct SystemTable {
    view: &'static View,
    schema: SchemaRef,
    engine: Arc<EngineState>,
}

impl fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SystemTable({})", self.view.name)
    }
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        _state: &dyn CatalogSession,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let values = (self.view.values)(&self.engine);
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), values)?;
        let schema = Arc::clone(&self.schema);
        Ok(MemorySourceConfig::try_new_exec(&[vec![batch]], schema, projection.cloned())?)
    }
}
