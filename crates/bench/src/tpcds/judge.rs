//! What the answers of the 99 queries are held to.

use std::collections::BTreeMap;
use std::path::Path;

use crate::duckdb::answers as duckdb;
use crate::error::{BenchError, Result};
use crate::suite::answer::Answer;
use crate::suite::feed::Generator;
use crate::suite::reference::{self, Answers, DATAFUSION, KeptAnswers, Texts};
use crate::suite::run::Judge;
use crate::tpcds::check::{MORE_ROWS, check};
use crate::tpcds::shape::Shape;
use crate::tpcds::table::Table;
use crate::tpcds::texts::texts;

/// Whose answers ours are compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// DuckDB's where it is there or can be installed, DataFusion's otherwise.
    #[default]
    Auto,
    /// DuckDB's.
    DuckDb,
    /// DataFusion's.
    DataFusion,
}

/// Texts, and the answers of another engine over the same data.
pub struct TpcdsJudge {
    texts: Texts,
    shapes: BTreeMap<u32, Shape>,
    answers: KeptAnswers,
    source: String,
}

impl TpcdsJudge {
    /// A judge of these queries, with texts from a directory or from the package. `observe` is
    /// told what happens.
    ///
    /// # Errors
    /// When there are no texts, or the peer cannot answer.
    pub async fn prepare(
        generator: &Generator,
        (directory, peer): (Option<&Path>, Peer),
        queries: &[u32],
        mut observe: impl FnMut(&'static str),
    ) -> Result<TpcdsJudge> {
        observe("looking for the texts of the queries");
        let texts = texts(directory, queries).await?;
        let shapes: BTreeMap<u32, Shape> =
            texts.iter().map(|(number, text)| (*number, Shape::of(text))).collect();
        let widened = shapes.iter().map(|(number, shape)| (*number, shape.widened(MORE_ROWS)));
        observe("computing the answers to compare with");
        let (answers, source) = answers(generator, peer, &widened.collect()).await?;
        Ok(TpcdsJudge { texts, shapes, answers: KeptAnswers::keep(answers)?, source })
    }
}

async fn answers(generator: &Generator, peer: Peer, texts: &Texts) -> Result<(Answers, String)> {
    let because = match peer {
        Peer::DataFusion => None,
        Peer::DuckDb => {
            return Ok((duckdb::ask::<Table>(generator, texts).await?, DUCKDB.into()));
        }
        Peer::Auto => match duckdb::ask::<Table>(generator, texts).await {
            Ok(answers) => return Ok((answers, DUCKDB.into())),
            Err(error) => Some(error),
        },
    };
    let answers = reference::ask::<Table>(generator, texts).await?;
    let source = because.map_or(DATAFUSION.to_string(), |error: BenchError| {
        format!("{DATAFUSION}, for want of DuckDB ({error})")
    });
    Ok((answers, source))
}

/// How reports name DuckDB's answers.
const DUCKDB: &str = "DuckDB 1.5.5's, over the same data";

impl Judge for TpcdsJudge {
    fn text(&self, number: u32) -> Result<String> {
        let missing = || BenchError::input(format!("there is no text of query {number}"));
        self.texts.get(&number).cloned().ok_or_else(missing)
    }

    fn answers(&self) -> &str {
        &self.source
    }

    fn check(&self, number: u32, found: &Answer) -> std::result::Result<(), String> {
        let shape = self.shapes.get(&number).ok_or("there is no answer to compare with")?;
        let expected = self.answers.get(number).map_err(|error| format!("the peer: {error}"))?;
        check(shape, &expected, found)
    }
}
