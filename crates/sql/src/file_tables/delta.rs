//! `delta_scan`: tables of Delta Lake.
//!
//! The crate `delta_kernel` reads the log of a table, through handlers over files of this machine
//! and of others ([`engine`]): it finds the data files of a version, with their values of partition
//! columns, their statistics and their deleted rows. DataFusion reads the data files, as it does
//! for `read_parquet`; those that no filter can match are left out of the plan ([`bounds`]).
//!
//! A statement reads the version that is the newest when it is planned, or the one that it names.

mod bounds;
mod checkpoints;
mod columns;
mod commits;
mod data_files;
mod deletions;
mod engine;
mod errors;
mod location;
mod log_files;
mod names;
mod snapshot;
mod storage;
mod table;

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, plan_err};

use super::arguments::Arguments;
use location::Location;
use snapshot::Moment;
pub(super) use table::DeltaTable;

/// Names of the options, for errors.
const OPTIONS: &str = "version, timestamp and filename";

/// The table of a call of `delta_scan`.
///
/// # Errors
/// Unknown options, values of other types, a directory without a log, versions that do not exist,
/// tables with features that are not supported, and errors of the files.
pub(super) fn table(
    mut arguments: Arguments,
    _types: &mut dyn FnMut(&str) -> Result<DataType>,
) -> Result<Arc<dyn TableProvider>> {
    let moment = Moment::take(&mut arguments)?;
    let filename = arguments.filename()?;
    arguments.finish(OPTIONS)?;
    let [path] = arguments.paths.as_slice() else {
        return plan_err!(
            "delta_scan takes one path, the directory of a table; read several tables by UNION ALL"
        );
    };
    let location = Location::of(path, &arguments.cloud)?;
    // The kernel logs the errors that it returns, and each of its steps. Here an error is the
    // answer to a statement.
    let silence = tracing::Dispatch::none();
    tracing::dispatcher::with_default(&silence, || {
        let table = DeltaTable::open(location, &moment, filename.as_deref())?;
        Ok::<Arc<dyn TableProvider>, _>(Arc::new(table))
    })
}
