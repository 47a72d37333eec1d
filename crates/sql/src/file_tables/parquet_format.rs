//! Parquet as the format of DataFusion's tables of files: local paths and external tables.
//!
//! DataFusion reads a column whose least and greatest value are equal as that constant, and NaN is
//! in neither. So the statistics of such a table have no bounds of floating-point columns, as those
//! of `read_parquet` have none ([`super::float_bounds`]).

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::{GetExt, Result, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::parquet::ParquetFormatFactory;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory, FileMeta};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;
use object_store::{ObjectMeta, ObjectStore};
use terrace_exec::floats::has_floats;

/// Creates Parquet formats without bounds of floating-point columns.
#[derive(Debug, Default)]
pub(crate) struct ParquetFormats(ParquetFormatFactory);

impl GetExt for ParquetFormats {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }
}

impl FileFormatFactory for ParquetFormats {
    fn create(
        &self,
        state: &dyn Session,
        options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(BoundlessFormat(self.0.create(state, options)?)))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(BoundlessFormat(FileFormatFactory::default(&self.0)))
    }
}

/// DataFusion's format without bounds of floating-point columns.
#[derive(Debug)]
struct BoundlessFormat(Arc<dyn FileFormat>);

/// Removes the least and greatest values of the floating-point columns of a table.
fn remove_float_bounds(statistics: &mut Statistics, schema: &Schema) {
    for (column, field) in statistics.column_statistics.iter_mut().zip(schema.fields()) {
        if has_floats(field.data_type()) {
            column.min_value = Precision::Absent;
            column.max_value = Precision::Absent;
        }
    }
}

#[async_trait]
impl FileFormat for BoundlessFormat {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.0.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.0.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        self.0.infer_schema(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        let schema = Arc::clone(&table_schema);
        let mut statistics = self.0.infer_stats(state, store, table_schema, object).await?;
        remove_float_bounds(&mut statistics, &schema);
        Ok(statistics)
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        self.0.infer_ordering(state, store, table_schema, object).await
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        let schema = Arc::clone(&table_schema);
        let inferred = self.0.infer_stats_and_ordering(state, store, table_schema, object);
        let mut facts = inferred.await?;
        remove_float_bounds(&mut facts.statistics, &schema);
        Ok(facts)
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.create_physical_plan(state, config).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.create_writer_physical_plan(input, state, config, order).await
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.0.file_source(table_schema)
    }
}
