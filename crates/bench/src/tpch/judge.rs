//! What the answers of the 22 queries are held to.

use crate::error::Result;
use crate::suite::answer::Answer;
use crate::suite::feed::Generator;
use crate::suite::reference::{self, DATAFUSION, KeptAnswers, Texts};
use crate::suite::run::Judge;
use crate::tpch::check::{Precision, check};
use crate::tpch::official::{OFFICIAL_SCALE, official_answer};
use crate::tpch::query::Query;
use crate::tpch::table::Table;

/// The specification's listing at its scale, DataFusion's answers at any other.
pub struct TpchJudge {
    scale: f64,
    computed: Option<KeptAnswers>,
}

impl TpchJudge {
    /// A judge of these queries. `observe` is told before another process computes answers.
    ///
    /// # Errors
    /// When they cannot be computed.
    pub async fn prepare(
        generator: &Generator,
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
        let answers = reference::ask::<Table>(generator, &texts).await?;
        Ok(TpchJudge { scale, computed: Some(KeptAnswers::keep(answers)?) })
    }
}

impl Judge for TpchJudge {
    fn text(&self, number: u32) -> Result<String> {
        Ok(Query::of(number)?.text(self.scale))
    }

    fn answers(&self) -> &str {
        if self.computed.is_some() { DATAFUSION } else { "the specification's, at scale 1" }
    }

    fn check(&self, number: u32, found: &Answer) -> std::result::Result<(), String> {
        let query = Query::of(number).map_err(|error| error.to_string())?;
        let Some(computed) = &self.computed else {
            let listed = official_answer(number).ok_or("there is no answer to compare with")?;
            return check(&query, Precision::Hundredths, &listed, &found.trimmed());
        };
        let expected = computed.get(number)?;
        check(&query, Precision::Exact, &expected.answer, found)
    }
}
