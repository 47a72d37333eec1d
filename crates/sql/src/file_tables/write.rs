//! Files that COPY TO writes.
//!
//! Text is encoded by this module (`csv`, `json`), since DataFusion's writers lose the difference
//! between a null and an empty text; Parquet and Arrow files are encoded by DataFusion. Whatever
//! the format, files appear when they are complete (`staging`): local ones are written into a
//! directory beside the target and renamed (`directory`), those of S3 are uploads.

mod csv;
mod directory;
mod encoder;
mod format;
mod interface;
mod json;
mod sink;
mod staging;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::file_format::{file_type_to_format, format_as_file_type};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::dml::CopyTo;
use terrace_cloud::CloudFiles;

use format::StagedFactory;

/// Makes a COPY TO publish its files when all of them are complete; leaves any other plan
/// unchanged. `cloud` writes remote files.
///
/// # Errors
/// Formats that cannot be written.
pub(crate) fn staged(plan: LogicalPlan, cloud: &CloudFiles) -> Result<LogicalPlan> {
    let LogicalPlan::Copy(copy) = plan else { return Ok(plan) };
    let CopyTo { input, output_url, partition_by, file_type, options, .. } = copy;
    // The planner of statements gives every option the prefix.
    let mut options = options;
    if let Some(is_single) = options.remove("format.single_file_output") {
        options.insert("single_file_output".to_owned(), is_single);
    }
    let factory = StagedFactory::new(file_type_to_format(&file_type)?, cloud.clone());
    let file_type = format_as_file_type(Arc::new(factory));
    Ok(LogicalPlan::Copy(CopyTo::new(input, output_url, partition_by, file_type, options)))
}
