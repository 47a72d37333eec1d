//! Scans of Parquet files by DataFusion's reader.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::config::TableParquetOptions;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_plan::ExecutionPlan;
use terrace_cloud::STORE_URL;

use super::metadata_readers::{EditMetadata, EditedReaders};

/// Files of one store that are read as one table.
#[derive(Debug)]
pub(super) struct ParquetScan {
    /// The files.
    pub(super) files: Vec<PartitionedFile>,
    /// Their store.
    pub(super) store: ObjectStoreUrl,
    /// Columns of the files, and those that are constant in each.
    pub(super) schema: TableSchema,
    /// Statistics of all files.
    pub(super) statistics: Statistics,
}

/// The store of remote files, or of local ones.
///
/// # Errors
/// None, since both addresses are valid.
pub(super) fn store_of(is_remote: bool) -> Result<ObjectStoreUrl> {
    match is_remote {
        true => ObjectStoreUrl::parse(STORE_URL),
        false => Ok(ObjectStoreUrl::local_filesystem()),
    }
}

impl ParquetScan {
    /// Plans a scan of some columns. The metadata of each file is passed through `edit` before
    /// DataFusion sees it.
    ///
    /// # Errors
    /// A store that is not registered.
    pub(super) fn plan(
        self,
        state: &dyn Session,
        options: TableParquetOptions,
        edit: EditMetadata,
        projection: Option<Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let runtime = state.runtime_env();
        let store = runtime.object_store(self.store.clone())?;
        let known = runtime.cache_manager.get_file_metadata_cache();
        let readers = Arc::new(CachedParquetFileReaderFactory::new(store, known));
        let is_remote = self.store.as_str().trim_end_matches('/') == STORE_URL;
        let readers = Arc::new(EditedReaders::new(readers, edit, is_remote));
        let hint = options.global.metadata_size_hint;
        let source = ParquetSource::new(self.schema)
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(readers);
        let source = Arc::new(match hint {
            Some(bytes) => source.with_metadata_size_hint(bytes),
            None => source,
        });
        let groups = FileGroup::new(self.files);
        let groups = groups.split_files(state.config().target_partitions());
        let config = FileScanConfigBuilder::new(self.store, source)
            .with_file_groups(groups)
            .with_statistics(self.statistics)
            .with_projection_indices(projection)?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}
