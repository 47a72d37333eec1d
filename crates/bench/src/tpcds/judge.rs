//! Judge of the answers of the 99 queries.

use std::collections::BTreeMap;
use std::path::Path;

use crate::duckdb::oracle::Oracle;
use crate::duckdb::package::DUCKDB_TPCDS;
use crate::error::{BenchError, Result};
use crate::suite::answer::Answer;
use crate::suite::feed::Generator;
use crate::suite::reference::{KeptAnswers, Texts};
use crate::suite::run::Judge;
use crate::tpcds::check::{MORE_ROWS, check};
use crate::tpcds::shape::Shape;
use crate::tpcds::table::Table;
use crate::tpcds::texts::texts;

/// Query texts, and the answers of another engine over the same data.
pub struct TpcdsJudge {
    texts: Texts,
    shapes: BTreeMap<u32, Shape>,
    answers: KeptAnswers,
    source: String,
}

impl TpcdsJudge {
    /// Creates a judge of these queries, with texts from a directory or from the package. Reports
    /// its progress to `observe`.
    ///
    /// # Errors
    /// Fails if the texts are missing or the other engine cannot answer.
    pub async fn prepare(
        generator: &Generator,
        (directory, oracle): (Option<&Path>, Oracle),
        queries: &[u32],
        mut observe: impl FnMut(&'static str),
    ) -> Result<TpcdsJudge> {
        observe("looking for the texts of the queries");
        let texts = texts(directory, queries).await?;
        let shapes: BTreeMap<u32, Shape> =
            texts.iter().map(|(number, text)| (*number, Shape::of(text))).collect();
        let widened = shapes.iter().map(|(number, shape)| (*number, shape.widened(MORE_ROWS)));
        observe("computing the answers to compare with");
        let given = oracle.ask::<Table>(DUCKDB_TPCDS, generator, &widened.collect()).await?;
        let answers = KeptAnswers::keep(given.answers)?;
        Ok(TpcdsJudge { texts, shapes, answers, source: given.source })
    }
}

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
