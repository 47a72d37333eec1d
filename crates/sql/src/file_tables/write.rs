//! Files that COPY TO writes.
//!
//! Text is encoded by this module (`csv`, `json`), since DataFusion's writers lose the difference
//! between a null and an empty text; Parquet and Arrow files are encoded by DataFusion. Whatever
//! the format, files are written into a directory beside the target and renamed when they are
//! complete (`staging`).

mod csv;
mod encoder;
mod format;
mod interface;
mod json;
mod sink;
mod staging;

use std::sync::Arc;

use datafusion::common::{Result, plan_err};
use datafusion::datasource::file_format::{file_type_to_format, format_as_file_type};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::dml::CopyTo;

use format::StagedFactory;

/// Makes a COPY TO write its files beside the target first; leaves any other plan unchanged.
///
/// # Errors
/// A target on another machine.
pub(crate) fn staged(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Copy(copy) = plan else { return Ok(plan) };
    let CopyTo { input, output_url, partition_by, file_type, options, .. } = copy;
    let path = output_url.strip_prefix("file://").unwrap_or(&output_url);
    if let Some((scheme, _)) = path.split_once("://") {
        return plan_err!(
            "'{output_url}' cannot be written: {scheme}:// names another machine, and only local \
             files can be written"
        );
    }
    // The planner of statements gives every option the prefix.
    let mut options = options;
    if let Some(is_single) = options.remove("format.single_file_output") {
        options.insert("single_file_output".to_owned(), is_single);
    }
    let factory = StagedFactory::new(file_type_to_format(&file_type)?);
    let file_type = format_as_file_type(Arc::new(factory));
    Ok(LogicalPlan::Copy(CopyTo::new(input, output_url, partition_by, file_type, options)))
}
