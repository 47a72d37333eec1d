//! Access to unmodified DataFusion, for comparing results and times.

use datafusion::common::Result;
use datafusion::dataframe::DataFrame;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use futures::future::BoxFuture;

/// Plans a statement in a session of DataFusion.
///
/// A crate that awaits [`SessionContext::sql`] itself compiles the planner once more; a crate that
/// awaits this function does not.
///
/// # Errors
/// Those of parsing and planning.
pub fn frame<'a>(context: &'a SessionContext, text: &'a str) -> BoxFuture<'a, Result<DataFrame>> {
    Box::pin(context.sql(text))
}

/// Registers a Parquet file as a table of a session of DataFusion.
///
/// # Errors
/// Those of the file.
pub fn register_parquet<'a>(
    context: &'a SessionContext,
    table: &'a str,
    path: &'a str,
) -> BoxFuture<'a, Result<()>> {
    Box::pin(context.register_parquet(table, path, ParquetReadOptions::default()))
}
