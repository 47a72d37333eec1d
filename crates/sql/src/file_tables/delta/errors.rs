//! Errors of the kernel as errors of statements, and the other way round.

use datafusion::common::{DataFusionError, plan_datafusion_err};
use delta_kernel::KernelError;
use terrace_cloud::CloudError;

/// The error of a statement that reads the table `name`.
pub(super) fn failed(name: &str, error: &KernelError) -> DataFusionError {
    match error.without_backtrace() {
        KernelError::Unsupported(text) => plan_datafusion_err!(
            "Delta table {name} is not read: {text}; drop the feature in the engine that wrote the \
             table (ALTER TABLE ... DROP FEATURE), or let it write the rows as Parquet files, and \
             call read_parquet"
        ),
        KernelError::MaxCatalogVersion(_) => plan_datafusion_err!(
            "Delta table {name} is not read: it has the feature catalogManaged, so that its newest \
             commits are in a catalog and not in its log; drop the feature, or let the catalog's \
             engine write the rows as Parquet files, and call read_parquet"
        ),
        KernelError::EmptyLog => plan_datafusion_err!(
            "no Delta table at {name}: its directory _delta_log has no version of a table; \
             read_parquet reads Parquet files without a log"
        ),
        KernelError::MissingMetadata
        | KernelError::MissingProtocol
        | KernelError::MissingMetadataAndProtocol => plan_datafusion_err!(
            "the log of Delta table {name} is damaged: its first commit is missing, or lacks the \
             action protocol or metaData; restore the files of its directory _delta_log"
        ),
        KernelError::MissingVersion(number) => plan_datafusion_err!(
            "the log of Delta table {name} is damaged: the commit {number:020}.json of its \
             directory _delta_log is missing; restore it, or read a version before it"
        ),
        KernelError::InvalidCheckpoint(text) if text.contains("_last_checkpoint") => {
            plan_datafusion_err!(
                "the log of Delta table {name} is damaged: its file _last_checkpoint names a \
                 checkpoint that is not there; restore the checkpoint, or remove that file if all \
                 commits are there"
            )
        }
        error => plan_datafusion_err!("cannot read Delta table {name}: {}", text(error)),
    }
}

/// The text of an error, without the words for its kind where these say nothing.
fn text(error: &KernelError) -> String {
    match error {
        KernelError::Generic(text) => text.clone(),
        KernelError::FileNotFound(path) => format!("{path} does not exist"),
        error => error.to_string(),
    }
}

/// An error of a file, for the kernel, which hands it back.
pub(super) fn of_file(error: &DataFusionError) -> KernelError {
    KernelError::generic(error.message())
}

/// An error of a file of another machine, for the kernel, which looks for files that may be
/// missing.
pub(super) fn of_cloud(error: &CloudError) -> KernelError {
    match error {
        CloudError::Missing { address } => KernelError::file_not_found(address),
        error => KernelError::generic(error),
    }
}
