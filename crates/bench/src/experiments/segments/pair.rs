//! Two engines with the same tables in different heaps.
//!
//! The expected difference is smaller than the drift of a machine's speed within a minute, so the
//! two engines run each query directly one after the other. Each round creates their heaps anew;
//! the assignment of the cases to the engines alternates, and so does the engine that runs a query
//! first.

use super::figure::Figure;
use super::heap_case::{Visit, in_turn};
use super::options::SegmentOptions;
use super::row::{QuerySeconds, Row};
use super::sizes::engine_count;
use super::tables::Tables;
use super::{in_dram, separation};
use crate::error::Result;
use crate::setting::Setting;

/// The tables of both engines.
pub(super) struct Pair<'a> {
    first: &'a Tables,
    second: Tables,
}

impl<'a> Pair<'a> {
    /// Loads the tables of the second engine.
    pub(super) async fn load(
        (setting, options): (&Setting, &SegmentOptions),
        first: &'a Tables,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Pair<'a>> {
        let (of, engines) = ((first.benchmark, first.scale, true), engine_count(options));
        let second = Tables::load((setting, options), of, engines, observe).await?;
        Ok(Pair { first, second })
    }

    /// Measures all rounds of a figure over all memories.
    pub(super) async fn measure(
        &self,
        (setting, options): (&Setting, &SegmentOptions),
        figure: Figure,
        rows: &mut Vec<Row>,
        observe: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let data_bytes = self.first.data_bytes;
        for round in 0..setting.rounds.get() {
            for memory in &options.memories {
                let visits = match figure {
                    Figure::Fitting => in_dram::visits(memory, data_bytes, round, options),
                    _ => separation::visits(figure, memory, data_bytes, round, options),
                };
                let (name, number) = (self.first.benchmark.name(), round + 1);
                let (figure, scale) = (figure.name(), self.first.scale);
                observe(&format!("figure {figure}, {name} {scale}: {memory}, round {number}"));
                rows.extend(self.compare(&visits).await?);
            }
        }
        Ok(())
    }

    /// Runs the queries of both visits, which are the same, and moves the tables back.
    async fn compare(&self, visits: &[Visit; 2]) -> Result<[Row; 2]> {
        let both = [self.first, &self.second];
        let mut rows = [both[0].settle(&visits[0]).await?, both[1].settle(&visits[1]).await?];
        let mut seconds = [QuerySeconds::new(), QuerySeconds::new()];
        let numbers = both[0].numbers();
        let runs = visits[0].passes.runs(&numbers);
        for (run, (number, counts)) in runs.into_iter().enumerate() {
            // Alternates, so that neither engine always runs a query first.
            let turn = run + run / numbers.len() + visits[0].round;
            for side in in_turn(turn, [0, 1]) {
                let timed = both[side].ask(number).await?;
                if counts {
                    seconds[side].entry(number).or_default().push(timed.seconds);
                    both[side].judge(number, &timed, &mut rows[side]);
                }
            }
        }
        for (side, tables) in both.into_iter().enumerate() {
            rows[side].take(&seconds[side]);
            tables.leave().await?;
        }
        Ok(rows)
    }
}
