//! A/B runs: the same queries in two configurations, alternated.
//!
//! Each query runs in one configuration and then in the other, round after round, and the order
//! within a pair changes from round to round. The medians are compared, and so are the answers.

use std::num::NonZeroUsize;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::error::Result;
use crate::measure::{geometric_mean, median};
use crate::report::{Bars, Grid, Series};
use crate::suite::timing::Timed;
use crate::tpch::check::{Precision, check_runs};
use crate::tpch::query::Query;

/// One of the two configurations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// Prefix of the configuration's fields in a report.
    pub(crate) field: &'static str,
    /// Name in tables and pictures.
    pub(crate) name: &'static str,
}

/// Two configurations to compare; ratios are those of the first to the second. The precision is
/// that of the comparison of their answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Duel(pub(crate) [Way; 2], pub(crate) Precision);

/// Result of a query in both configurations.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    duel: Duel,
    pub(crate) query: u32,
    /// Medians; `None` if either run failed.
    pub(crate) seconds: [Option<f64>; 2],
    pub(crate) ratio: Option<f64>,
    pub(crate) error: Option<String>,
}

/// Totals over all queries that succeeded, and the number of those that failed.
#[derive(Clone, Debug)]
pub(crate) struct Sum {
    duel: Duel,
    pub(crate) geometric_mean: Option<f64>,
    pub(crate) worst: Option<f64>,
    pub(crate) seconds: [f64; 2],
    pub(crate) failed: usize,
}

impl Duel {
    /// Runs a query in both configurations; `run` gets the index of the configuration and the text.
    /// An error of either is the row's error.
    pub(crate) async fn compare(
        self,
        query: Query,
        text: &str,
        rounds: NonZeroUsize,
        run: &mut impl AsyncFnMut(usize, &str) -> Result<Timed>,
    ) -> Row {
        let mut times = [Vec::new(), Vec::new()];
        let mut error = None;
        for round in 0..rounds.get() {
            let mut pair = [None, None];
            for turn in 0..2 {
                let way = (round + turn) % 2;
                match run(way, text).await {
                    Ok(timed) => pair[way] = Some(timed),
                    Err(failure) => error = Some(format!("{}: {failure}", self.0[way].name)),
                }
            }
            let [Some(first), Some(second)] = pair else { continue };
            if let Err(difference) = check_runs(&query, self.1, &second, &first) {
                error = Some(format!("not the answer of {}: {difference}", self.0[1].name));
            }
            times[0].push(first.seconds);
            times[1].push(second.seconds);
        }
        self.row(query.number, times.map(|times| median(&times)), error)
    }

    fn row(self, query: u32, seconds: [Option<f64>; 2], error: Option<String>) -> Row {
        let seconds = seconds.map(|seconds| seconds.filter(|_| error.is_none()));
        let ratio = seconds[0].zip(seconds[1]).map(|(first, second)| first / second);
        Row { duel: self, query, seconds, ratio, error }
    }

    pub(crate) fn sum(self, rows: &[Row]) -> Sum {
        let ratios: Vec<f64> = rows.iter().filter_map(|row| row.ratio).collect();
        let of = |way: usize| rows.iter().filter_map(|row| row.seconds[way]).sum();
        Sum {
            duel: self,
            geometric_mean: geometric_mean(&ratios),
            worst: ratios.iter().copied().max_by(f64::total_cmp),
            seconds: [of(0), of(1)],
            failed: rows.iter().filter(|row| row.error.is_some()).count(),
        }
    }

    pub(crate) fn grid(self, rows: &[Row]) -> Grid {
        let seconds = self.0.map(|way| format!("{} s", way.name));
        let [first, second] = seconds;
        let mut grid = Grid::new(["query".to_owned(), first, second, "ratio".to_owned()]);
        let number =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
        for row in rows {
            let [first, second] = row.seconds.map(number);
            grid.push([row.query.to_string(), first, second, number(row.ratio)]);
        }
        grid
    }

    pub(crate) fn picture(self, rows: &[Row], title: String) -> Bars {
        let series = [0, 1].map(|way| Series {
            name: self.0[way].name.to_owned(),
            values: rows.iter().map(|row| row.seconds[way]).collect(),
        });
        Bars {
            title,
            unit: "seconds".into(),
            categories: rows.iter().map(|row| format!("Q{}", row.query)).collect(),
            series: series.into(),
        }
    }
}

/// Returns a line for every query that failed.
pub(crate) fn failures(rows: &[Row]) -> Vec<String> {
    let failed = rows.iter().filter_map(|row| Some((row.query, row.error.as_ref()?)));
    failed.map(|(query, error)| format!("query {query}: {error}")).collect()
}

impl Sum {
    /// Returns the sums and ratios as text.
    pub(crate) fn in_words(&self) -> String {
        let [first, second] = self.seconds;
        format!(
            "{first:.3} s against {second:.3} s, {:.3} of it; ratio: geometric mean {:.3}, worst \
             {:.3}",
            first / second,
            self.geometric_mean.unwrap_or(f64::NAN),
            self.worst.unwrap_or(f64::NAN),
        )
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("query", &self.query)?;
        for (way, seconds) in self.duel.0.iter().zip(self.seconds) {
            map.serialize_entry(&format!("{}_seconds", way.field), &seconds)?;
        }
        map.serialize_entry("ratio", &self.ratio)?;
        map.serialize_entry("error", &self.error)?;
        map.end()
    }
}

impl Serialize for Sum {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("geometric_mean", &self.geometric_mean)?;
        map.serialize_entry("worst", &self.worst)?;
        for (way, seconds) in self.duel.0.iter().zip(self.seconds) {
            map.serialize_entry(&format!("{}_seconds", way.field), &seconds)?;
        }
        map.serialize_entry("failed", &self.failed)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: [Way; 2] =
        [Way { field: "ours", name: "terrace" }, Way { field: "theirs", name: "peer" }];
    const DUEL: Duel = Duel(WAYS, Precision::Exact);

    #[test]
    fn failed_queries_are_named_and_left_out_of_the_mean() {
        let rows = [
            DUEL.row(1, [Some(1.0), Some(2.0)], None),
            DUEL.row(2, [Some(2.0), Some(1.0)], None),
            DUEL.row(9, [Some(2.0), None], Some("peer: no memory".into())),
        ];
        let sum = DUEL.sum(&rows);
        assert_eq!((sum.failed, sum.worst), (1, Some(2.0)));
        assert!(sum.geometric_mean.is_some_and(|mean| (mean - 1.0).abs() < 1e-9));
        assert!(sum.in_words().starts_with("3.000 s against 3.000 s, 1.000 of it"));
        assert_eq!(failures(&rows), ["query 9: peer: no memory"]);
        assert!(DUEL.grid(&rows).to_string().contains("0.500"));
        assert_eq!(
            DUEL.picture(&rows, String::new()).series[1].values,
            [Some(2.0), Some(1.0), None]
        );
        let json = serde_json::to_value(&rows[0]).expect("json");
        assert_eq!((&json["query"], &json["theirs_seconds"]), (&1.into(), &2.0.into()));
        let json = serde_json::to_value(&sum).expect("json");
        assert_eq!((&json["failed"], &json["ours_seconds"]), (&1.into(), &3.0.into()));
    }
}
