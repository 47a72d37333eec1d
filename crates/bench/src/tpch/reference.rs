//! What DataFusion answers over its own in-memory tables, computed by another process.
//!
//! The reference holds all tables on the heap. It runs in a child so that nothing of it counts
//! towards the resident memory of the process that is measured.

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::error::{BenchError, Result};
use crate::tpch::answer::Answer;
use crate::tpch::generate::generate;
use crate::tpch::query::Query;
use crate::tpch::table::Table;

/// Name of the subcommand by which a program offers [`write_answers`] on its standard output.
pub const REFERENCE_COMMAND: &str = "tpch-reference";

/// Answers by query number.
pub type Answers = BTreeMap<u32, Answer>;

/// Asks `program` for the reference answers of some queries at a scale.
///
/// # Errors
/// [`BenchError::Peer`] when it fails or prints what is no answer.
pub fn ask(program: &Path, scale: f64, threads: NonZeroUsize, queries: &[u32]) -> Result<Answers> {
    let numbers: Vec<String> = queries.iter().map(u32::to_string).collect();
    let output = Command::new(program)
        .arg(REFERENCE_COMMAND)
        .args(["--scale", &scale.to_string()])
        .args(["--generator-threads", &threads.to_string()])
        .args(["--queries", &numbers.join(",")])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| BenchError::file("start", program, source))?;
    if !output.status.success() {
        return Err(BenchError::Peer(format!("the reference ended with {}", output.status)));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| BenchError::Peer(format!("the reference printed no answers: {error}")))
}

/// The child's side: generates the tables, runs the queries, prints the answers as JSON.
///
/// # Errors
/// When a query fails, or the output.
pub async fn write_answers(
    mut output: impl Write,
    scale: f64,
    threads: NonZeroUsize,
    queries: &[u32],
) -> Result<()> {
    let context = context(scale, threads)?;
    let mut answers = Answers::new();
    for number in queries {
        let text = Query::of(*number)?.text(scale);
        let batches = context.sql(&text).await?.collect().await?;
        answers.insert(*number, Answer::of(&batches)?);
    }
    serde_json::to_writer(&mut output, &answers)
        .map_err(|error| BenchError::Peer(format!("print the answers: {error}")))
}

/// A plain DataFusion session over in-memory tables of a scale, with all the memory it wants.
///
/// # Errors
/// When a table cannot be registered.
pub fn context(scale: f64, threads: NonZeroUsize) -> Result<SessionContext> {
    let config = SessionConfig::new().with_target_partitions(threads.get());
    let context = SessionContext::new_with_config(config);
    for table in Table::ALL {
        let mut batches = Vec::new();
        generate(table, scale, threads, |batch| {
            batches.push(batch);
            Ok(())
        })?;
        let partitions = partitioned(batches, threads);
        let provider = MemTable::try_new(table.schema(), partitions)?;
        context.register_table(table.name(), Arc::new(provider))?;
    }
    Ok(context)
}

/// Batches dealt to as many partitions as there are threads, in runs that keep their order.
pub fn partitioned(batches: Vec<RecordBatch>, threads: NonZeroUsize) -> Vec<Vec<RecordBatch>> {
    let run = batches.len().div_ceil(threads.get()).max(1);
    let partitions: Vec<Vec<RecordBatch>> = batches.chunks(run).map(<[_]>::to_vec).collect();
    if partitions.is_empty() { vec![Vec::new()] } else { partitions }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_survive_the_pipe() {
        let mut bytes = Vec::new();
        let threads = NonZeroUsize::MIN;
        write_answers(&mut bytes, 0.001, threads, &[1, 15]).await.expect("answers");
        let answers: Answers = serde_json::from_slice(&bytes).expect("json");
        assert_eq!(answers.keys().copied().collect::<Vec<_>>(), [1, 15]);
        assert_eq!(answers[&1].rows.len(), 4);
        assert_eq!(answers[&15].rows.len(), 1);
    }

    #[test]
    fn partitions_keep_every_batch() {
        let batch = RecordBatch::new_empty(Table::Region.schema());
        let threads = NonZeroUsize::new(2).expect("threads");
        let sizes = |count| -> Vec<usize> {
            partitioned(vec![batch.clone(); count], threads).iter().map(Vec::len).collect()
        };
        assert_eq!(sizes(5), [3, 2]);
        assert_eq!(sizes(1), [1]);
        assert_eq!(sizes(0), [0]);
    }
}
