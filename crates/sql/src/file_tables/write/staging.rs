//! Staging of the files of a COPY TO: local files in a directory next to the target, files of S3 as
//! uploads. They become visible when all of them are complete. A COPY that fails or is cancelled
//! leaves no file.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{
    DataFusionError, Result, exec_datafusion_err, exec_err, internal_err, plan_datafusion_err,
};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::{FileOutputMode, FileSinkConfig};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::{TryStreamExt as _, stream};
use terrace_cloud::address::Address;
use terrace_cloud::{CloudError, CloudFiles, Upload, UploadTarget};

use super::directory::Directory;

/// Temporary location of the files of a COPY TO until they are complete.
#[derive(Clone, Debug)]
pub(super) enum Staging {
    /// A directory next to the target.
    Local(Directory),
    /// Uploads to S3 that are completed at the end.
    Remote(UploadTarget),
}

impl Staging {
    /// Redirects a sink to its staging.
    ///
    /// # Errors
    /// A target that cannot be a file or a directory.
    pub(super) fn of(config: &mut FileSinkConfig, cloud: &CloudFiles) -> Result<Self> {
        let is_single = config.table_partition_cols.is_empty()
            && config
                .table_paths
                .first()
                .is_some_and(|url| config.file_output_mode.single_file_output(url));
        let refused = |error: CloudError| match error {
            CloudError::Address { address, reason } => {
                plan_datafusion_err!("'{address}' cannot be written: {reason}")
            }
            error => plan_datafusion_err!("{error}"),
        };
        let staging = match Address::parse(&config.original_url).map_err(refused)? {
            None => Self::Local(Directory::of(config, is_single)?),
            Some(address) => {
                let target = UploadTarget::new(cloud, address, is_single).map_err(refused)?;
                let url = ListingTableUrl::parse(target.url(&config.file_extension))?;
                config.object_store_url = url.object_store();
                config.table_paths = vec![url];
                Self::Remote(target)
            }
        };
        config.file_output_mode = match is_single {
            true => FileOutputMode::SingleFile,
            false => FileOutputMode::Directory,
        };
        Ok(staging)
    }

    fn begin(&self) -> Result<Unfinished> {
        match self {
            Self::Local(directory) => {
                directory.begin()?;
                Ok(Unfinished::Local(Begun(Some(directory.clone()))))
            }
            Self::Remote(target) => Ok(Unfinished::Remote(target.begin().map_err(failed)?)),
        }
    }
}

impl fmt::Display for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(directory) => write!(f, "{}", directory.target().display()),
            Self::Remote(target) => f.write_str(target.address()),
        }
    }
}

fn failed(error: CloudError) -> DataFusionError {
    exec_datafusion_err!("{error}")
}

/// Files of a COPY that has not ended. Dropping them removes them.
enum Unfinished {
    Local(Begun),
    Remote(Upload),
}

/// A directory that is removed when this is dropped.
struct Begun(Option<Directory>);

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(directory) = &self.0 {
            directory.remove();
        }
    }
}

impl Unfinished {
    /// Moves the complete files to their target.
    async fn publish(self) -> Result<()> {
        match self {
            Self::Local(mut begun) => match begun.0.take() {
                None => Ok(()),
                Some(directory) => directory.publish().inspect_err(|_| directory.remove()),
            },
            Self::Remote(upload) => upload.publish().await.map_err(failed),
        }
    }
}

/// Plan node that runs a COPY TO into its staging, and then publishes the files.
#[derive(Debug)]
pub(super) struct StagedExec {
    input: Arc<dyn ExecutionPlan>,
    staging: Staging,
}

impl StagedExec {
    /// Moves the files that `input` writes to their target.
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, staging: Staging) -> Self {
        Self { input, staging }
    }
}

impl DisplayAs for StagedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StagedExec: target={}", self.staging)
    }
}

impl ExecutionPlan for StagedExec {
    fn name(&self) -> &str {
        "StagedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self::new(input, self.staging.clone()))),
            _ => internal_err!("files are written from one input"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return exec_err!("files are written in one partition, not in partition {partition}");
        }
        let unfinished = self.staging.begin()?;
        let counts = self.input.execute(0, context)?;
        let schema = counts.schema();
        let counts = stream::once(async move {
            let counts: Vec<RecordBatch> = counts.try_collect().await?;
            unfinished.publish().await?;
            Ok::<_, DataFusionError>(stream::iter(counts.into_iter().map(Ok)))
        });
        let counts = counts.try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counts)))
    }
}
