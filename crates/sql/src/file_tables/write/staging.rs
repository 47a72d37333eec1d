//! Staging of written files: a directory beside the target, whose files are renamed when all of
//! them are complete. A COPY that fails or is cancelled leaves nothing.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{
    DataFusionError, Result, exec_datafusion_err, exec_err, internal_err, plan_err,
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

/// Number of stagings so far, which makes their names unique.
static STAGINGS: AtomicU64 = AtomicU64::new(0);

/// Directory in which files are written, and the place that they move to.
#[derive(Clone, Debug)]
pub(super) struct Staging {
    directory: PathBuf,
    target: PathBuf,
    /// The file in the directory that becomes the target; `None` if all files go into the target.
    single: Option<PathBuf>,
}

impl Staging {
    /// Redirects a sink to a staging directory.
    ///
    /// # Errors
    /// A target that cannot be a file or a directory.
    pub(super) fn of(config: &mut FileSinkConfig) -> Result<Self> {
        let given = &config.original_url;
        let path = given.strip_prefix("file://").unwrap_or(given);
        let failed = |error| exec_datafusion_err!("cannot write '{given}': {error}");
        let target = std::path::absolute(path).map_err(failed)?;
        let is_single = config.table_partition_cols.is_empty()
            && config
                .table_paths
                .first()
                .is_some_and(|url| config.file_output_mode.single_file_output(url));
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return plan_err!("'{given}' is no name of a file to write");
        };
        if is_single && (path.ends_with('/') || target.is_dir()) {
            return plan_err!("'{given}' is a directory; name a file, or say PARTITION_BY");
        }
        let number = STAGINGS.fetch_add(1, Ordering::Relaxed);
        let name = format!(".{}.{}-{number}.tmp", name.display(), std::process::id());
        let directory = parent.join(name);
        // The extension of the compression decides nothing here.
        let single = is_single.then(|| directory.join(format!("file.{}", config.file_extension)));
        let written = match &single {
            Some(file) => url_of(file, "")?,
            None => url_of(&directory, "/")?,
        };
        config.table_paths = vec![written];
        config.file_output_mode = match is_single {
            true => FileOutputMode::SingleFile,
            false => FileOutputMode::Directory,
        };
        Ok(Self { directory, target, single })
    }

    fn begin(&self) -> Result<()> {
        fs::create_dir_all(&self.directory).map_err(|error| self.failed(&error))
    }

    /// Moves the complete files to their target.
    fn publish(&self) -> Result<()> {
        let moved = match &self.single {
            Some(file) => fs::rename(file, &self.target),
            None => move_into(&self.directory, &self.target),
        };
        moved.map_err(|error| self.failed(&error))?;
        self.remove();
        Ok(())
    }

    fn failed(&self, error: &io::Error) -> DataFusionError {
        exec_datafusion_err!("cannot write '{}': {error}", self.target.display())
    }

    fn remove(&self) {
        if let Err(error) = fs::remove_dir_all(&self.directory)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, directory = %self.directory.display(), "files are left over");
        }
    }
}

/// Moves the files of a directory, and of those below, into another one.
fn move_into(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => move_into(&entry.path(), &target)?,
            false => fs::rename(entry.path(), target)?,
        }
    }
    Ok(())
}

/// The address of a path, in which special characters are escaped.
fn url_of(path: &Path, end: &str) -> Result<ListingTableUrl> {
    let mut url = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                url.push(char::from(*byte));
            }
            byte => url.push_str(&format!("%{byte:02X}")),
        }
    }
    ListingTableUrl::parse(url + end)
}

/// Removes the files of a COPY that has not ended.
struct Unfinished(Option<Staging>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(staging) = &self.0 {
            staging.remove();
        }
    }
}

/// The writing of files, and their move to the target.
#[derive(Debug)]
pub(super) struct StagedExec {
    input: Arc<dyn ExecutionPlan>,
    staging: Staging,
}

impl StagedExec {
    /// Moves the files that `input` writes to the staging directory.
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, staging: Staging) -> Self {
        Self { input, staging }
    }
}

impl DisplayAs for StagedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StagedExec: target={}", self.staging.target.display())
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
        self.staging.begin()?;
        let mut unfinished = Unfinished(Some(self.staging.clone()));
        let counts = self.input.execute(0, context)?;
        let schema = counts.schema();
        let counts = stream::once(async move {
            let counts: Vec<RecordBatch> = counts.try_collect().await?;
            if let Some(staging) = unfinished.0.take() {
                staging.publish().inspect_err(|_| staging.remove())?;
            }
            Ok::<_, DataFusionError>(stream::iter(counts.into_iter().map(Ok)))
        });
        let counts = counts.try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counts)))
    }
}
