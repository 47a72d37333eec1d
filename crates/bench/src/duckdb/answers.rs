//! DuckDB's answers over generated data.

use crate::duckdb::package::{DUCKDB_TPCDS, Packages, Python};
use crate::error::{BenchError, Result};
use crate::measure::Scratch;
use crate::suite::child;
use crate::suite::export::export;
use crate::suite::feed::Generator;
use crate::suite::reference::{Answers, Texts, as_json, parse};
use crate::suite::table::Generated;

/// Python program that answers queries over Parquet files.
const ANSWERS: &str = concat!(include_str!("values.py"), include_str!("answers.py"));

/// Memory limit of DuckDB while it computes reference answers, which are not timed; it spills
/// beyond that.
const MEMORY_LIMIT: &str = "2GiB";

/// Returns DuckDB's answers to the queries `texts` over the generator's tables, which are written
/// to temporary Parquet files for it.
///
/// # Errors
/// Fails if DuckDB is missing and cannot be installed, or if it fails.
pub async fn ask<T: Generated>(
    packages: Packages,
    generator: &Generator,
    texts: &Texts,
) -> Result<Answers> {
    let python = Python::with(packages).await?;
    let files = Scratch::of(None, "answers")?;
    export::<T>(generator, files.path()).await?;
    let mut script = python.script(ANSWERS);
    script.arg(files.path()).args([MEMORY_LIMIT, &generator.threads.to_string()]);
    parse(&child::output(script, as_json(texts)?, "DuckDB").await?)
}

/// Returns the texts of the TPC-DS queries from DuckDB's extension.
///
/// # Errors
/// Fails if the extension is missing and cannot be installed.
pub async fn tpcds_texts() -> Result<Texts> {
    let python = Python::with(DUCKDB_TPCDS).await?;
    let script = python.script(include_str!("queries.py"));
    let output = child::output(script, Vec::new(), "DuckDB's TPC-DS extension").await?;
    serde_json::from_slice(&output)
        .map_err(|error| BenchError::Peer(format!("DuckDB's TPC-DS extension: {error}")))
}
