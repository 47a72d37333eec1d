//! Figures 7a and 7b: times of queries and of migrations with metadata in DRAM, relative to
//! metadata beside the data.

use serde::Serialize;
use terrace_heap::Metadata;

use super::figure::Figure;
use super::heap_case::{BOTH, HeapCase, Passes, Visit, in_turn};
use super::options::SegmentOptions;
use super::row::{Group, Line, Row, ratios};
use crate::measure::{Estimate, mean};
use crate::report::{Bars, Series};

/// Ranges of the published changes of all runs.
const PUBLISHED_QUERIES: [f64; 2] = [-0.02, 0.02];
const PUBLISHED_MIGRATION: [f64; 2] = [-0.018, 0.028];

/// Comparison of separate metadata with metadata beside the data.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Change {
    pub(super) figure: Figure,
    pub(super) benchmark: &'static str,
    pub(super) scale: f64,
    pub(super) memory: String,
    separate_seconds: f64,
    together_seconds: f64,
    /// Ratio of the means over all rounds, minus one, as published.
    change: f64,
    /// Mean of the ratios of the rounds.
    ratio: Estimate,
    published: [f64; 2],
    /// True if the change is within the published range.
    is_within: bool,
}

/// Returns the visits of both locations of metadata.
pub(super) fn visits(
    figure: Figure,
    memory: &str,
    data_bytes: u64,
    round: usize,
    options: &SegmentOptions,
) -> [Visit; 2] {
    let passes = match figure {
        Figure::Queries => Passes::InTurn { warm_ups: options.warm_runs, runs: options.runs.get() },
        _ => Passes::None,
    };
    let visit = |metadata| {
        let place = HeapCase::published(memory, data_bytes, metadata);
        Visit { figure, place, passes, round }
    };
    in_turn(round, BOTH).map(visit)
}

pub(super) fn changes(group: &Group<'_>) -> Vec<Change> {
    let (what, published): (fn(&Row) -> f64, _) = match group.figure {
        Figure::Queries => (|row| row.run_seconds, PUBLISHED_QUERIES),
        _ => (|row| row.migration_seconds, PUBLISHED_MIGRATION),
    };
    let change = |memory: &str| {
        let of = |metadata: Metadata| group.of(memory, metadata.as_str(), what);
        let [separate, together] = [of(Metadata::Separate), of(Metadata::Together)];
        let [separate_seconds, together_seconds] =
            [&separate, &together].map(|seconds| mean(seconds).unwrap_or(f64::NAN));
        let change = separate_seconds / together_seconds - 1.0;
        Change {
            figure: group.figure,
            benchmark: group.benchmark,
            scale: group.scale,
            memory: memory.to_owned(),
            separate_seconds,
            together_seconds,
            change,
            ratio: Estimate::of(&ratios(&separate, &together)),
            published,
            is_within: (published[0]..=published[1]).contains(&change),
        }
    };
    group.memories().into_iter().map(change).collect()
}

fn percent(change: f64) -> String {
    format!("{:+.1} %", change * 100.0)
}

fn percents(changes: [f64; 2]) -> String {
    changes.map(percent).join(" to ")
}

impl Change {
    pub(super) fn lines(&self) -> Vec<Line> {
        let line = |metadata: Metadata, seconds: f64| Line {
            case: metadata.as_str().to_owned(),
            seconds: format!("{seconds:.2}"),
            ..Line::default()
        };
        let separate = Line {
            found: format!("{}, {}", self.ratio, percent(self.change)),
            published: percents(self.published),
            ..line(Metadata::Separate, self.separate_seconds)
        };
        vec![separate, line(Metadata::Together, self.together_seconds)]
    }
}

/// Returns a note that sums up all changes of a figure; `None` if there are none.
pub(super) fn note(changes: &[Change]) -> Option<String> {
    let first = changes.first()?;
    let all = || changes.iter().map(|change| change.change);
    let found = [all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max)];
    let within = changes.iter().filter(|change| change.is_within).count();
    // A confidence interval that contains one does not show which is faster.
    let sure = changes.iter().filter(|change| {
        let half = change.ratio.half_width.unwrap_or(f64::INFINITY);
        (change.ratio.mean - 1.0).abs() > half
    });
    Some(format!(
        "figure {}: separate over together {}, published {}; {within} of {} are within, {} differ \
         from 1 by more than their interval",
        first.figure.name(),
        percents(found),
        percents(first.published),
        changes.len(),
        sure.count()
    ))
}

/// Draws the ratios beside the published extremes; `None` if there are no results.
pub(super) fn picture(name: &str, changes: &[Change]) -> Option<Bars> {
    let series = |name: &str, of: fn(&Change) -> f64| Series {
        name: name.to_owned(),
        values: changes.iter().map(|change| Some(of(change))).collect(),
    };
    let what = if name == "7a" { "queries" } else { "migration" };
    let category =
        |change: &Change| format!("{} {}, {}", change.benchmark, change.scale, change.memory);
    (!changes.is_empty()).then(|| Bars {
        title: format!("Figure {name}: {what}, metadata in DRAM over metadata beside the data"),
        unit: "time, separate over together".into(),
        categories: changes.iter().map(category).collect(),
        series: vec![
            series("here", |change| change.ratio.mean),
            series("published, least", |change| 1.0 + change.published[0]),
            series("published, most", |change| 1.0 + change.published[1]),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::super::summarise;
    use super::super::tests::{made_up, options};
    use super::*;

    fn rows(figure: Figure, seconds: [[f64; 2]; 2]) -> Vec<Row> {
        let visits = (0..2).flat_map(|round| visits(figure, "emu", 1000, round, &options()));
        let row = |visit: Visit| {
            let [separate, together] = seconds[visit.round];
            let own = if visit.place.case == "separate" { separate } else { together };
            match figure {
                Figure::Queries => made_up(&visit, 1.0, own),
                _ => made_up(&visit, own, 0.0),
            }
        };
        visits.map(row).collect()
    }

    #[test]
    fn changes_are_of_means_and_ratios_of_pairs() {
        let summary = summarise(&rows(Figure::Queries, [[1.0, 2.0], [3.0, 2.0]]));
        let change = &summary.queries[0];
        assert!(summary.migration.is_empty() && change.change.abs() < 1e-12, "{change:?}");
        assert!((change.ratio.mean - 1.0).abs() < 1e-12 && change.is_within, "{change:?}");
        let summary = summarise(&rows(Figure::Migration, [[1.03, 1.0], [2.06, 2.0]]));
        let change = &summary.migration[0];
        assert!((change.change - 0.03).abs() < 1e-9 && !change.is_within, "{change:?}");
        let lines = change.lines();
        assert_eq!(lines[0].found, "1.030 +- 0.000, +3.0 %");
        assert_eq!(lines[0].published, "-1.8 % to +2.8 %");
        let note = note(&summary.migration).expect("of one");
        assert!(note.contains("0 of 1 are within, 1 differ"), "{note}");
        let bars = picture("7b", &summary.migration).expect("a picture");
        assert_eq!(bars.series[2].values, [Some(1.028)]);
        assert!(bars.title.contains("migration"));
    }

    #[test]
    fn queries_are_warm_and_migrations_are_alone() {
        let visit = |figure| visits(figure, "file", 1000, 1, &options())[0].clone();
        let queries = visit(Figure::Queries);
        assert_eq!(queries.place.case, "together", "first in odd rounds");
        assert_eq!(queries.passes, Passes::InTurn { warm_ups: 1, runs: 1 });
        assert_eq!(visit(Figure::Migration).passes, Passes::None);
    }
}
