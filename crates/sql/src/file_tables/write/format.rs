//! Formats of COPY TO, whose files appear when they are complete.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Result, Statistics, plan_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;
use object_store::{ObjectMeta, ObjectStore};
use terrace_cloud::CloudFiles;

use super::encoder::TextOptions;
use super::sink::TextSink;
use super::staging::{StagedExec, Staging};

/// Creates formats whose files appear when they are complete.
#[derive(Debug)]
pub(super) struct StagedFactory {
    stock: Arc<dyn FileFormatFactory>,
    cloud: CloudFiles,
}

impl StagedFactory {
    /// A factory of the formats of `stock`, DataFusion's factory. `cloud` writes remote files.
    pub(super) fn new(stock: Arc<dyn FileFormatFactory>, cloud: CloudFiles) -> Self {
        Self { stock, cloud }
    }
}

impl GetExt for StagedFactory {
    fn get_ext(&self) -> String {
        self.stock.get_ext()
    }
}

impl FileFormatFactory for StagedFactory {
    fn create(
        &self,
        state: &dyn Session,
        options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        let text = match self.get_ext().as_str() {
            "csv" => TextOptions::csv(options)?,
            "json" => TextOptions::json(options)?,
            _ => None,
        };
        let stock = match text {
            Some(_) => FileFormatFactory::default(self.stock.as_ref()),
            None => self.stock.create(state, options)?,
        };
        Ok(Arc::new(StagedFormat { stock, text, cloud: self.cloud.clone() }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        let stock = FileFormatFactory::default(self.stock.as_ref());
        Arc::new(StagedFormat { stock, text: None, cloud: self.cloud.clone() })
    }
}

/// A format whose files appear when they are complete.
struct StagedFormat {
    stock: Arc<dyn FileFormat>,
    /// Options of a text format that this module writes; `None` if DataFusion writes the format.
    text: Option<TextOptions>,
    cloud: CloudFiles,
}

impl fmt::Debug for StagedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StagedFormat({:?})", self.stock)
    }
}

#[async_trait]
impl FileFormat for StagedFormat {
    fn get_ext(&self) -> String {
        self.stock.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.stock.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        match &self.text {
            Some(text) => Some(text.compression),
            None => self.stock.compression_type(),
        }
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        self.stock.infer_schema(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        self.stock.infer_stats(state, store, table_schema, object).await
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.stock.create_physical_plan(state, config).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        mut config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let keys = &config.table_partition_cols;
        if !keys.is_empty() && keys.len() == config.output_schema.fields().len() {
            return plan_err!("all columns are keys of directories; leave one for the files");
        }
        let staging = Staging::of(&mut config, &self.cloud)?;
        let writing: Arc<dyn ExecutionPlan> = match &self.text {
            Some(text) => {
                text.check(&config.output_schema)?;
                let sink = TextSink::new(config, text.clone());
                Arc::new(DataSinkExec::new(input, Arc::new(sink), order))
            }
            None => self.stock.create_writer_physical_plan(input, state, config, order).await?,
        };
        Ok(Arc::new(StagedExec::new(writing, staging)))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.stock.file_source(table_schema)
    }
}
