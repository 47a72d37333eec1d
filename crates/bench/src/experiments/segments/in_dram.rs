//! Cost for queries of a heap beyond DRAM if all of its data fit in DRAM: about a percent, as
//! published (section IV.B).

use serde::Serialize;

use super::figure::Figure;
use super::heap_case::{HeapCase, Passes, Visit, beside, in_turn};
use super::options::SegmentOptions;
use super::row::{Group, Line, Row, ratios};
use crate::measure::{Estimate, geometric_mean, mean};
use crate::report::{Bars, Series};

const PUBLISHED: f64 = 1.01;
/// Factor for the number of runs of each query in a round, as they are short.
const PASSES: usize = 3;

/// Results for one kind of memory.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Fit {
    pub(super) benchmark: &'static str,
    pub(super) scale: f64,
    pub(super) memory: String,
    dram_seconds: f64,
    fitting_seconds: f64,
    /// Ratio of the run times, summed over the queries, of each round.
    over_dram: Estimate,
    /// Geometric mean of the ratios of the queries, of each round.
    query_over_dram: Estimate,
    published: f64,
}

/// Returns the visits of the first and the second engine in a round.
pub(super) fn visits(
    memory: &str,
    data_bytes: u64,
    round: usize,
    options: &SegmentOptions,
) -> [Visit; 2] {
    let passes = PASSES * options.runs.get();
    let passes = Passes::Shuffled { warm_ups: 1, passes, seed: round as u64 };
    let dram = HeapCase::dram_beside(memory, data_bytes);
    in_turn(round, [dram, HeapCase::fitting(memory, data_bytes)]).map(|place| Visit {
        figure: Figure::Fitting,
        place,
        passes,
        round,
    })
}

pub(super) fn fits(group: &Group<'_>) -> Vec<Fit> {
    group.memories().into_iter().map(|memory| fit(group, memory)).collect()
}

fn fit(group: &Group<'_>, memory: &str) -> Fit {
    let (dram, fitting) = (group.rows("dram", &beside(memory)), group.rows(memory, "fitting"));
    let sums = |rows: &[&Row]| rows.iter().map(|row| row.run_seconds).collect::<Vec<_>>();
    let (dram_sums, fitting_sums) = (sums(&dram), sums(&fitting));
    let of_round = |(fitting, dram): (&&Row, &&Row)| {
        let both = fitting.query_seconds.values().zip(dram.query_seconds.values());
        geometric_mean(&both.map(|(fitting, dram)| fitting / dram).collect::<Vec<_>>())
    };
    let of_queries: Vec<f64> = fitting.iter().zip(&dram).filter_map(of_round).collect();
    Fit {
        benchmark: group.benchmark,
        scale: group.scale,
        memory: memory.to_owned(),
        dram_seconds: mean(&dram_sums).unwrap_or(f64::NAN),
        fitting_seconds: mean(&fitting_sums).unwrap_or(f64::NAN),
        over_dram: Estimate::of(&ratios(&fitting_sums, &dram_sums)),
        query_over_dram: Estimate::of(&of_queries),
        published: PUBLISHED,
    }
}

impl Fit {
    pub(super) fn lines(&self) -> Vec<Line> {
        let line = |case: &str, seconds: f64, found: String, published: String| Line {
            case: case.to_owned(),
            seconds: format!("{seconds:.2}"),
            found,
            published,
        };
        vec![
            line("dram", self.dram_seconds, String::new(), "1".into()),
            line(
                "fitting",
                self.fitting_seconds,
                self.over_dram.to_string(),
                self.published.to_string(),
            ),
        ]
    }

    pub(super) fn note(&self) -> String {
        format!(
            "{} {}, {}: where everything fits {} of the time in DRAM, the geometric mean of the \
             queries {} (published {})",
            self.benchmark,
            self.scale,
            self.memory,
            self.over_dram,
            self.query_over_dram,
            self.published
        )
    }
}

/// Draws the ratios beside the published one; `None` if there are no results.
pub(super) fn picture(fits: &[Fit]) -> Option<Bars> {
    let series = |name: &str, of: fn(&Fit) -> f64| Series {
        name: name.to_owned(),
        values: fits.iter().map(|fit| Some(of(fit))).collect(),
    };
    let category = |fit: &Fit| format!("{} {}, {}", fit.benchmark, fit.scale, fit.memory);
    (!fits.is_empty()).then(|| Bars {
        title: "Queries beyond DRAM where everything fits in it".into(),
        unit: "time over that in DRAM".into(),
        categories: fits.iter().map(category).collect(),
        series: vec![
            series("sum", |fit| fit.over_dram.mean),
            series("geometric mean of the queries", |fit| fit.query_over_dram.mean),
            series("published", |fit| fit.published),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::super::summarise;
    use super::super::tests::{made_up, options};
    use super::*;

    #[test]
    fn engines_take_turns_and_rounds_are_pairs() {
        let rounds: Vec<[Visit; 2]> =
            (0..2).map(|round| visits("file", 1000, round, &options())).collect();
        let cases = |visits: &[Visit; 2]| visits.clone().map(|visit| visit.place.case);
        assert_eq!(cases(&rounds[0]), ["dram, beside file", "fitting"]);
        assert_eq!(cases(&rounds[1]), ["fitting", "dram, beside file"]);
        let row = |visit: &Visit| {
            let mut row = made_up(visit, 1.0, 0.0);
            let is_dram = visit.place.memory == "dram";
            let seconds: [&[f64]; 2] = match (visit.round, is_dram) {
                (0, true) => [&[0.5, 1.5], &[4.0]],
                (0, false) => [&[1.1], &[4.4]],
                (_, true) => [&[2.0], &[2.0]],
                (_, false) => [&[2.0], &[2.2]],
            };
            let seconds = (1..).zip(seconds.map(<[f64]>::to_vec)).collect();
            row.take(&seconds);
            row
        };
        let rows: Vec<Row> = rounds.iter().flatten().map(row).collect();
        let fit = &summarise(&rows).fitting[0];
        // Sums: 5.5 over 5 and 4.2 over 4. Queries: 1.1 twice, and the root of 1 times 1.1.
        assert!((fit.over_dram.mean - 1.075).abs() < 1e-9, "{fit:?}");
        assert!((fit.query_over_dram.mean - 1.0744).abs() < 1e-4, "{fit:?}");
        assert_eq!((fit.dram_seconds, fit.fitting_seconds), (4.5, 4.85));
        assert!(fit.note().contains("published 1.01"), "{}", fit.note());
        assert_eq!(fit.lines()[1].published, "1.01");
        let bars = picture(std::slice::from_ref(fit)).expect("a picture");
        assert_eq!(bars.series[2].values, [Some(1.01)]);
    }
}
