//! The engine that the kernel reads logs with.

use std::fmt;
use std::sync::Arc;

use delta_kernel::engine::arrow_expression::ArrowEvaluationHandler;
use delta_kernel::{Engine, EvaluationHandler, JsonHandler, ParquetHandler, StorageHandler};
use terrace_cloud::CloudFiles;

use super::checkpoints::Checkpoints;
use super::commits::Commits;
use super::log_files::LogFiles;
use super::storage::LogStorage;

/// Reads logs by the files of this machine and of others.
pub(super) struct LogEngine {
    storage: Arc<LogStorage>,
    commits: Arc<Commits>,
    checkpoints: Arc<Checkpoints>,
    evaluation: Arc<ArrowEvaluationHandler>,
}

impl LogEngine {
    /// An engine for one statement.
    pub(super) fn new(cloud: &CloudFiles) -> Self {
        let files = Arc::new(LogFiles::new(cloud));
        Self {
            storage: Arc::new(LogStorage::new(Arc::clone(&files))),
            commits: Arc::new(Commits::new(Arc::clone(&files))),
            checkpoints: Arc::new(Checkpoints::new(files)),
            evaluation: Arc::new(ArrowEvaluationHandler),
        }
    }
}

impl fmt::Debug for LogEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogEngine")
    }
}

impl Engine for LogEngine {
    fn evaluation_handler(&self) -> Arc<dyn EvaluationHandler> {
        Arc::clone(&self.evaluation) as _
    }

    fn storage_handler(&self) -> Arc<dyn StorageHandler> {
        Arc::clone(&self.storage) as _
    }

    fn json_handler(&self) -> Arc<dyn JsonHandler> {
        Arc::clone(&self.commits) as _
    }

    fn parquet_handler(&self) -> Arc<dyn ParquetHandler> {
        Arc::clone(&self.checkpoints) as _
    }
}
