//! Reference answers of another engine over the same data, computed by a child process.
//!
//! DataFusion holds all of its in-memory tables on the heap; above a certain scale, where that
//! would be many GiB, it reads Parquet files instead. It runs in a child process, so that its
//! memory is not part of the resident memory of the measured process.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use serde::{Deserialize, Serialize};
use terrace_sql::stock;

use crate::error::{BenchError, Result};
use crate::measure::Scratch;
use crate::suite::answer::Answer;
use crate::suite::child;
use crate::suite::export::write_files;
use crate::suite::feed::Generator;
use crate::suite::generate::generate;
use crate::suite::table::Generated;

/// Name of the subcommand with which a program runs [`write_answers`] on its standard output.
pub const REFERENCE_COMMAND: &str = "benchmark-reference";

/// Name of DataFusion's answers in reports.
pub const DATAFUSION: &str = "DataFusion's, over the same data";

/// Maximum scale for in-memory tables, which take 2 GiB per unit of scale.
const IN_MEMORY_SCALE_MAX: f64 = 2.0;

/// Texts by query number.
pub type Texts = BTreeMap<u32, String>;

/// Answers by query number, or the reason that there is none.
pub type Answers = BTreeMap<u32, std::result::Result<Reference, String>>;

/// A reference answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows of the answer.
    #[serde(flatten)]
    pub answer: Answer,
}

/// Answers in files, which are read one at a time, so that they are not part of the resident memory
/// of the measured process.
pub struct KeptAnswers {
    files: Scratch,
}

impl KeptAnswers {
    /// Writes answers to files, which are removed on drop.
    ///
    /// # Errors
    /// Fails if the files cannot be written.
    pub fn keep(answers: Answers) -> Result<Self> {
        let kept = Self { files: Scratch::of(None, "answers-kept")? };
        for (number, answer) in answers {
            let bytes = serde_json::to_vec(&answer);
            let bytes = bytes.map_err(|error| BenchError::Peer(error.to_string()))?;
            let path = kept.path(number);
            std::fs::write(&path, bytes)
                .map_err(|error| BenchError::file("write", &path, error))?;
        }
        Ok(kept)
    }

    /// Returns the answer to a query.
    ///
    /// # Errors
    /// The reason that there is no answer.
    pub fn get(&self, number: u32) -> std::result::Result<Reference, String> {
        let bytes = std::fs::read(self.path(number));
        let bytes = bytes.map_err(|error| match error.kind() {
            ErrorKind::NotFound => "there is no answer to compare with".to_owned(),
            _ => format!("the answer that was kept cannot be read: {error}"),
        })?;
        serde_json::from_slice(&bytes).map_err(|error| error.to_string())?
    }

    fn path(&self, number: u32) -> PathBuf {
        self.files.path().join(format!("{number}.json"))
    }
}

/// Returns DataFusion's answers, computed in a child process with the generator's program.
///
/// # Errors
/// [`BenchError::Peer`] if it fails or prints invalid answers.
pub async fn ask<T: Generated>(generator: &Generator, texts: &Texts) -> Result<Answers> {
    let mut command = Command::new(&generator.program);
    command
        .arg(REFERENCE_COMMAND)
        .args(["--benchmark", T::BENCHMARK.name()])
        .args(["--scale", &generator.scale.to_string()])
        .args(["--generator-threads", &generator.threads.to_string()]);
    parse(&child::output(command, as_json(texts)?, "the reference").await?)
}

/// Encodes texts as input of a child.
///
/// # Errors
/// [`BenchError::Peer`] if they have no JSON form.
pub fn as_json(texts: &Texts) -> Result<Vec<u8>> {
    serde_json::to_vec(texts).map_err(|error| BenchError::Peer(error.to_string()))
}

/// Decodes answers from the output of a child.
///
/// # Errors
/// [`BenchError::Peer`] if the output is not a list of answers.
pub fn parse(output: &[u8]) -> Result<Answers> {
    serde_json::from_slice(output)
        .map_err(|error| BenchError::Peer(format!("the reference printed no answers: {error}")))
}

/// Child's side: reads texts, generates the tables, runs the queries, prints the answers.
///
/// # Errors
/// Fails if the input is not a list of texts, or if the output cannot be written.
pub async fn write_answers<T: Generated>(
    mut input: impl Read,
    mut output: impl Write,
    scale: f64,
    threads: NonZeroUsize,
) -> Result<()> {
    let unheard = |error: &dyn std::fmt::Display| BenchError::Peer(format!("read texts: {error}"));
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(|error| unheard(&error))?;
    let texts: Texts = serde_json::from_slice(&bytes).map_err(|error| unheard(&error))?;
    let files =
        (scale > IN_MEMORY_SCALE_MAX).then(|| Scratch::of(None, "reference")).transpose()?;
    let context = match &files {
        Some(files) => over_files::<T>(files.path(), scale, threads).await?,
        None => context::<T>(scale, threads)?,
    };
    let mut answers = Answers::new();
    for (number, text) in texts {
        let answer = answer(&context, &text).await;
        answers.insert(number, answer.map_err(|error| error.to_string()));
    }
    serde_json::to_writer(&mut output, &answers)
        .map_err(|error| BenchError::Peer(format!("print the answers: {error}")))
}

async fn answer(context: &SessionContext, text: &str) -> Result<Reference> {
    let frame = stock::frame(context, text).await?;
    let columns = frame.schema().fields().iter().map(|field| field.name().clone()).collect();
    Ok(Reference { columns, answer: Answer::of(&frame.collect().await?)? })
}

/// Creates a plain DataFusion session over in-memory tables of a scale, without a memory limit.
///
/// # Errors
/// Fails if a table cannot be registered.
pub fn context<T: Generated>(scale: f64, threads: NonZeroUsize) -> Result<SessionContext> {
    let config = SessionConfig::new()
        .set_bool("datafusion.sql_parser.parse_float_as_decimal", true)
        .with_target_partitions(threads.get());
    let context = SessionContext::new_with_config(config);
    for table in T::all() {
        let mut batches = Vec::new();
        generate(*table, scale, threads, |batch| {
            batches.push(batch);
            Ok(())
        })?;
        let partitions = partitioned(batches, threads);
        let provider = MemTable::try_new(table.schema(), partitions)?;
        context.register_table(table.name(), Arc::new(provider))?;
    }
    Ok(context)
}

/// Creates the same session over Parquet files, which are written to a directory.
async fn over_files<T: Generated>(
    directory: &Path,
    scale: f64,
    threads: NonZeroUsize,
) -> Result<SessionContext> {
    write_files::<T>(directory, scale, threads)?;
    let config = SessionConfig::new()
        .set_bool("datafusion.sql_parser.parse_float_as_decimal", true)
        .with_target_partitions(threads.get());
    let context = SessionContext::new_with_config(config);
    for table in T::all() {
        let path = directory.join(format!("{}.parquet", table.name()));
        let path = path.to_string_lossy();
        stock::register_parquet(&context, table.name(), &path).await?;
    }
    Ok(context)
}

/// Distributes batches over as many partitions as there are threads, in runs that keep their order.
pub fn partitioned(batches: Vec<RecordBatch>, threads: NonZeroUsize) -> Vec<Vec<RecordBatch>> {
    let run = batches.len().div_ceil(threads.get()).max(1);
    let partitions: Vec<Vec<RecordBatch>> = batches.chunks(run).map(<[_]>::to_vec).collect();
    if partitions.is_empty() { vec![Vec::new()] } else { partitions }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpch::query::Query;
    use crate::tpch::table::Table;

    #[tokio::test]
    async fn answers_survive_the_pipe() {
        let mut texts: Texts =
            [1, 15].map(|number| (number, Query::of(number).expect("query").text(0.001))).into();
        texts.insert(99, "SELECT nothing FROM nowhere".into());
        let (input, mut bytes) = (as_json(&texts).expect("json"), Vec::new());
        let written =
            write_answers::<Table>(input.as_slice(), &mut bytes, 0.001, NonZeroUsize::MIN);
        written.await.expect("answers");
        let answers = parse(&bytes).expect("json");
        assert_eq!(answers.keys().copied().collect::<Vec<_>>(), [1, 15, 99]);
        let rows = |number: u32| answers[&number].as_ref().expect("ran").answer.rows.len();
        assert_eq!((rows(1), rows(15)), (4, 1));
        assert_eq!(answers[&1].as_ref().expect("ran").columns[0], "l_returnflag");
        assert!(answers[&99].as_ref().expect_err("failed").contains("nowhere"));
        assert!(parse(b"nonsense").is_err());
        let kept = KeptAnswers::keep(answers.clone()).expect("kept");
        assert_eq!(kept.get(15).as_ref(), answers[&15].as_ref());
        assert!(kept.get(99).expect_err("failed").contains("nowhere"));
        assert!(kept.get(3).expect_err("none").contains("no answer"));
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

    #[tokio::test]
    async fn files_and_memory_give_the_same_answers() {
        let (scale, threads) = (0.001, NonZeroUsize::MIN);
        let files = Scratch::of(None, "reference-test").expect("directory");
        let over_files = over_files::<Table>(files.path(), scale, threads).await.expect("files");
        let in_memory = context::<Table>(scale, threads).expect("tables");
        for number in [1, 3, 16, 18] {
            let text = Query::of(number).expect("query").text(scale);
            let answers = (answer(&over_files, &text).await, answer(&in_memory, &text).await);
            assert_eq!(answers.0.expect("of files"), answers.1.expect("in memory"), "{number}");
        }
    }
}
