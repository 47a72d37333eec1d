//! Export of a benchmark's tables to Parquet files, for engines that cannot read them otherwise.
//!
//! A child process generates the tables and writes the files, so that this process does not hold
//! the generator's memory.

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;

use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;

use crate::error::{BenchError, Result};
use crate::suite::child;
use crate::suite::feed::Generator;
use crate::suite::generate::generate;
use crate::suite::table::Generated;

/// Name of the subcommand with which a program runs [`write_files`].
pub const EXPORT_COMMAND: &str = "benchmark-export";

/// Rows of a row group: the unit in which readers work in parallel, and what the writer buffers.
const GROUP_ROWS: usize = 122_880;

/// Writes each table to the file `TABLE.parquet` in a directory, in a child process with the
/// generator's program.
///
/// # Errors
/// [`BenchError::Peer`] if it fails.
pub async fn export<T: Generated>(generator: &Generator, directory: &Path) -> Result<()> {
    let mut command = Command::new(&generator.program);
    command
        .arg(EXPORT_COMMAND)
        .args(["--benchmark", T::BENCHMARK.name()])
        .args(["--scale", &generator.scale.to_string()])
        .args(["--generator-threads", &generator.threads.to_string()])
        .arg("--directory")
        .arg(directory);
    child::output(command, Vec::new(), "writing Parquet files").await.map(|_| ())
}

/// Child's side: writes the tables.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn write_files<T: Generated>(
    directory: &Path,
    scale: f64,
    threads: NonZeroUsize,
) -> Result<()> {
    for table in T::all() {
        write_file(*table, directory, scale, threads)?;
    }
    Ok(())
}

fn write_file<T: Generated>(
    table: T,
    directory: &Path,
    scale: f64,
    threads: NonZeroUsize,
) -> Result<()> {
    let path = directory.join(format!("{table}.parquet"));
    let file = File::create(&path).map_err(|source| BenchError::file("create", &path, source))?;
    let properties =
        WriterProperties::builder().set_max_row_group_row_count(Some(GROUP_ROWS)).build();
    let failed = |error| BenchError::Peer(format!("write {}: {error}", path.display()));
    let writer = ArrowWriter::try_new(file, table.schema(), Some(properties));
    let mut writer = writer.map_err(failed)?;
    generate(table, scale, threads, |batch| writer.write(&batch).map_err(failed))?;
    writer.close().map_err(failed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::tpch::table::Table;

    #[tokio::test]
    async fn every_table_has_a_file_with_its_rows() {
        let directory = std::env::temp_dir().join(format!("export-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("directory");
        write_files::<Table>(&directory, 0.001, NonZeroUsize::MIN).expect("written");
        let context = SessionContext::new();
        for table in Table::ALL {
            let path = directory.join(format!("{table}.parquet"));
            let path = path.to_string_lossy();
            context.register_parquet(table.name(), path, Default::default()).await.expect("read");
            let rows = context.table(table.name()).await.expect("table").count().await;
            let rows = u64::try_from(rows.expect("counted")).ok();
            assert!(rows > Some(0) && table.row_count(0.001).is_none_or(|own| Some(own) == rows));
        }
        std::fs::remove_dir_all(&directory).expect("removed");
        let nowhere = write_files::<Table>(Path::new("/no/such"), 0.001, NonZeroUsize::MIN);
        assert!(nowhere.expect_err("refused").to_string().contains("/no/such/region.parquet"));
    }
}
