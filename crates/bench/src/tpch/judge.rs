//! Judge of the answers of the 22 queries.

use crate::duckdb::oracle::Oracle;
use crate::duckdb::package::DUCKDB;
use crate::error::Result;
use crate::suite::answer::Answer;
use crate::suite::feed::Generator;
use crate::suite::reference::{KeptAnswers, Texts};
use crate::suite::run::Judge;
use crate::tpch::check::{Precision, check};
use crate::tpch::official::{OFFICIAL_SCALE, official_answer};
use crate::tpch::query::Query;
use crate::tpch::table::Table;

/// Judge: compares with the specification's listing at its scale, and with another engine's answers
/// at any other.
pub struct TpchJudge {
    scale: f64,
    computed: Option<Computed>,
}

/// Answers of another engine.
struct Computed {
    answers: KeptAnswers,
    source: String,
    precision: Precision,
}

impl TpchJudge {
    /// Creates a judge of these queries. Calls `observe` before another process computes answers.
    ///
    /// # Errors
    /// Fails if the answers cannot be computed.
    pub async fn prepare(
        generator: &Generator,
        oracle: Oracle,
        queries: &[u32],
        observe: impl FnOnce(),
    ) -> Result<TpchJudge> {
        let scale = generator.scale;
        if scale.total_cmp(&OFFICIAL_SCALE).is_eq() {
            return Ok(TpchJudge { scale, computed: None });
        }
        observe();
        let mut texts = Texts::new();
        for number in queries {
            texts.insert(*number, Query::of(*number)?.text(scale));
        }
        let given = oracle.ask::<Table>(DUCKDB, generator, &texts).await?;
        // Both engines compute quotients of decimals with other types than Terrace.
        let precision = Precision::Digits;
        let answers = KeptAnswers::keep(given.answers)?;
        let computed = Some(Computed { answers, source: given.source, precision });
        Ok(TpchJudge { scale, computed })
    }
}

impl Judge for TpchJudge {
    fn text(&self, number: u32) -> Result<String> {
        Ok(Query::of(number)?.text(self.scale))
    }

    fn answers(&self) -> &str {
        let listed = "the specification's, at scale 1";
        self.computed.as_ref().map_or(listed, |computed| &computed.source)
    }

    fn check(&self, number: u32, found: &Answer) -> std::result::Result<(), String> {
        let query = Query::of(number).map_err(|error| error.to_string())?;
        let Some(computed) = &self.computed else {
            let listed = official_answer(number).ok_or("there is no answer to compare with")?;
            return check(&query, Precision::Hundredths, &listed, &found.trimmed());
        };
        let expected = computed.answers.get(number)?;
        check(&query, computed.precision, &expected.answer, found)
    }
}
