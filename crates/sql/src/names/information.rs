//! The schema `information_schema`: DataFusion's tables over the names of the database, except that
//! `views` lists only views, and `routines` also the functions and macros of the database.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{CatalogProviderList, MemTable, SchemaProvider, TableProvider};
use datafusion::common::{Result, exec_err};
use terrace_table::catalog::Snapshot;

use super::own_routines::with_own;
use super::reserved::CATALOG;
use super::shared::Shared;
use crate::view;

/// Name of the schema.
pub(super) const INFORMATION_SCHEMA: &str = "information_schema";
const VIEWS: &str = "views";
/// The table that lists functions.
const ROUTINES: &str = "routines";

/// The schema, as of a snapshot of the database.
pub(super) struct InformationSchema {
    tables: InformationSchemaProvider,
    snapshot: Snapshot,
    shared: Arc<Shared>,
    catalogs: Arc<dyn CatalogProviderList>,
}

impl InformationSchema {
    /// The schema over the names of `catalogs`.
    pub(super) fn new(
        catalogs: Arc<dyn CatalogProviderList>,
        snapshot: Snapshot,
        shared: Arc<Shared>,
    ) -> Self {
        let tables = InformationSchemaProvider::new(Arc::clone(&catalogs));
        Self { tables, snapshot, shared, catalogs }
    }

    /// The views, with the statements that created them.
    fn views(&self) -> Result<Arc<dyn TableProvider>> {
        let (mut schemas, mut names, mut definitions) = (vec![], vec![], vec![]);
        let visible = self.snapshot.schemas().into_iter();
        for schema in visible.filter(|schema| self.shared.is_visible(schema)) {
            for name in self.snapshot.view_names(&schema) {
                let Some(text) = self.snapshot.view(&schema, &name) else { continue };
                definitions.push(view::definition(&text)?);
                schemas.push(schema.clone());
                names.push(name);
            }
        }
        let field = |name| Field::new(name, DataType::Utf8, false);
        let fields = ["table_catalog", "table_schema", "table_name", "definition"].map(field);
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let catalog = StringArray::from(vec![CATALOG; names.len()]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(catalog),
            Arc::new(StringArray::from(schemas)),
            Arc::new(StringArray::from(names)),
            Arc::new(StringArray::from(definitions)),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
        Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
    }
}

impl fmt::Debug for InformationSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InformationSchema")
    }
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        self.tables.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match name.to_ascii_lowercase().as_str() {
            VIEWS => self.views().map(Some),
            ROUTINES => {
                let session = self.shared.session.get().and_then(|session| session());
                let functions = session.map(|state| state.table_functions().clone());
                let tables = InformationSchemaProvider::new(Arc::clone(&self.catalogs));
                let tables = tables.with_table_functions(functions.unwrap_or_default());
                let routines = tables.table(name).await?;
                routines.map(|routines| with_own(routines, &self.snapshot)).transpose()
            }
            _ => self.tables.table(name).await,
        }
    }

    fn register_table(
        &self,
        name: String,
        _table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        exec_err!("{INFORMATION_SCHEMA}.{name} cannot be made: the schema shows the database")
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.table_exist(name)
    }
}
