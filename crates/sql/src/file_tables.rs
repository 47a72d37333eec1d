//! Files as tables: names that are paths, and the table functions `read_csv`, `read_json`,
//! `read_parquet` and others.
//!
//! This module reads delimited values ([`csv`]), whose dialect and types are inferred from the
//! first rows, and JSON. A scan holds one block per partition, whatever the length of the files
//! (`scan`). DataFusion reads Parquet, and the data files of Delta tables, which the log of the
//! table names (`delta`).
//!
//! Files belong to the machine, not to a database: reading them takes a superuser (`access`).

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::LogicalPlan;

mod access;
mod arguments;
mod constants;
mod copy;
mod csv;
mod delta;
mod encoding;
mod factory;
mod float_bounds;
mod found;
mod functions;
mod guess;
mod input;
mod json;
mod listing;
mod metadata_readers;
mod parquet_file;
mod parquet_format;
mod parquet_scan;
mod read_csv;
mod read_json;
mod read_parquet;
mod scan;
mod table;
mod whole;
mod write;

pub(crate) use access::{ActingRole, FileAccess};
pub(crate) use copy::{CopySource, CopyText, copied};
use delta::DeltaTable;
pub(crate) use encoding::Encoding;
pub(crate) use factory::FileTables;
pub(crate) use found::FILES_MAX;
pub(crate) use functions::FileFunctions;
use listing::FileFacts;
pub(crate) use parquet_format::ParquetFormats;
use read_parquet::ParquetTable;
use table::FileTable;
pub(crate) use write::staged;

/// True for a table that reads files, lists them, or shows their metadata, which takes a superuser.
pub(crate) fn is_of_files(table: &dyn TableProvider) -> bool {
    is_decoded_by_datafusion(table)
        || table.downcast_ref::<FileTable>().is_some()
        || table.downcast_ref::<FileFacts>().is_some()
}

/// True for a table of files that DataFusion decodes, whose NaNs may have either sign.
pub(crate) fn is_decoded_by_datafusion(table: &dyn TableProvider) -> bool {
    table.downcast_ref::<ListingTable>().is_some()
        || table.downcast_ref::<ParquetTable>().is_some()
        || table.downcast_ref::<DeltaTable>().is_some()
}

/// True for a plan with a table of files.
pub(crate) fn reads_files(plan: &LogicalPlan) -> bool {
    let mut reads = false;
    let visited = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            reads |= source_as_provider(&scan.source).is_ok_and(|it| is_of_files(it.as_ref()));
        }
        Ok(if reads { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    reads || visited.is_err()
}
