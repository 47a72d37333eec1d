//! Figures 2 and 3 of the paper, drawn from Terrace's curves, and grants over time.

use std::fmt;

use crate::simulate::Score;
use serde::Serialize;
use terrace_ledger::Class;
use terrace_market::mechanism::{Snapshot, Terms};
use terrace_market::{Curve, Kind, Performance, Sla, SortModel, Spill, Tail};
use terrace_sys::number::float;
use terrace_sys::size::MIB;

use crate::report::{Line, Lines, Panel};

/// Bytes of a page in the paper's evaluation.
const PAGE_BYTES: u64 = 256 << 10;
/// Number of frames of a sort in the paper's example: "in one pass", and "multiple runs".
const EXAMPLE_FRAMES: [u64; 2] = [300, 50];
/// Number of points of a drawn curve.
const POINTS: u32 = 400;

/// Number of I/Os of a sort of `input_pages` in `pages` frames, by the paper's formula and by
/// Terrace's.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Formula {
    input_pages: u64,
    pages: u64,
    printed_ios: f64,
    our_ios: f64,
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Formula { input_pages, pages, printed_ios, our_ios } = self;
        write!(
            f,
            "sort of {input_pages} pages in {pages}: {printed_ios} I/Os by the printed formula, \
             {our_ios} by our model"
        )
    }
}

/// Computes the paper's example - a sort of 300 pages with 300 and with 50 frames - and a larger
/// one.
pub(super) fn formula() -> Vec<Formula> {
    let cases = EXAMPLE_FRAMES.map(|pages| (EXAMPLE_FRAMES[0], pages));
    let larger = [2000, 400, 100, 40, 10].map(|pages| (2000, pages));
    cases.into_iter().chain(larger).map(|(input, pages)| compared(input, pages)).collect()
}

fn compared(input_pages: u64, pages: u64) -> Formula {
    let sort = sort_of(input_pages);
    let (input, memory) = (float(input_pages), float(pages));
    // As printed, with blocks of one page: b_r (2 ceil(log_{M - 1}(b_r / M)) + 1).
    let passes = ((input / memory).ln() / (memory - 1.0).ln()).ceil();
    let printed_ios = input * (2.0 * passes + 1.0);
    let our_ios = sort.ios().at(pages * PAGE_BYTES) + input;
    Formula { input_pages, pages, printed_ios, our_ios }
}

fn sort_of(pages: u64) -> SortModel {
    let input_bytes = pages * PAGE_BYTES;
    SortModel { input_bytes, page_bytes: PAGE_BYTES, spill: Spill::Everything }
}

/// Returns the performance of a sort of 500 MiB whose I/Os take half a millisecond each.
fn performance() -> Performance {
    let ios = sort_of(2000).ios();
    Performance { ios, base_seconds: 1.0, seconds_per_io: 0.0005, tail: Tail::Certain }
}

/// Draws figure 2: latency by memory, penalty by latency, and the resulting penalty by memory.
pub(super) fn figure_2() -> Lines {
    let performance = performance();
    let slas = ["latency 4s penalty 4", "latency 2s penalty 1 per 1s"];
    let slas: Vec<(&str, Sla)> =
        slas.iter().map(|text| (*text, text.parse().unwrap_or_default())).collect();
    let wide = 60 * MIB;
    let by_memory = |curve: &Curve| sampled(wide, |bytes| curve.at(bytes));
    let latency = Line { name: "latency".into(), points: by_memory(&performance.latency()) };
    let priced = slas.iter().map(|(name, sla)| Line {
        name: (*name).to_string(),
        points: (0..=POINTS)
            .map(|at| {
                let seconds = f64::from(at) / f64::from(POINTS) * 16.0;
                (seconds, sla.charge(&[terrace_market::sla::Request { seconds, ios: 0.0 }]))
            })
            .collect(),
    });
    let costs = slas.iter().map(|(name, sla)| Line {
        name: (*name).to_string(),
        points: by_memory(&sla.curve(&performance, 1.0)),
    });
    let panel = |title: &str, x: &str, y: &str, lines: Vec<Line>| Panel {
        title: title.into(),
        x: x.into(),
        y: y.into(),
        lines,
    };
    Lines {
        panels: vec![
            panel("a sort of 500 MiB", "memory, MiB", "latency, s", vec![latency]),
            panel("SLAs", "latency, s", "penalty", priced.collect()),
            panel("cost by memory", "memory, MiB", "penalty", costs.collect()),
        ],
    }
}

/// Draws figure 3: two consumers that share 60 MiB, and the splits at which exchange and a price
/// settle.
pub(super) fn figure_3() -> Lines {
    let budget = 60 * MIB;
    let sla = |text: &str| text.parse::<Sla>().unwrap_or_default();
    let one = sla("latency 2s penalty 1 per 1s").curve(&performance(), 1.0);
    let cache = Curve::new(
        (0..=60).map(|mib| terrace_market::Point::new(mib * MIB, 12.0 * 0.93_f64.powf(float(mib)))),
    );
    let two = cache.unwrap_or_else(|_| Curve::flat(0.0));
    let lines = [("a sort", &one), ("a cache", &two)];
    let drawn = lines.map(|(name, curve)| Line {
        name: name.into(),
        points: sampled(budget, |bytes| curve.at(bytes)),
    });
    let total = Line {
        name: "both, by what the sort has".into(),
        points: sampled(budget, |bytes| one.at(bytes) + two.at(budget - bytes)),
    };
    let settled = [Kind::Cooperative, Kind::Selfish, Kind::Price].map(|kind| {
        let bytes = settle(kind, budget, [&one, &two]);
        let at = mebibytes(bytes);
        let height = one.at(bytes) + two.at(budget.saturating_sub(bytes));
        Line { name: format!("{kind} settles"), points: vec![(at, 0.0), (at, height)] }
    });
    let x = "memory, MiB".to_string();
    let y = "penalty".to_string();
    let left =
        Panel { title: "two consumers".into(), x: x.clone(), y: y.clone(), lines: drawn.into() };
    let right = Panel {
        title: "the sum, and where mechanisms settle from halves".into(),
        x,
        y,
        lines: [total].into_iter().chain(settled).collect(),
    };
    Lines { panels: vec![left, right] }
}

/// Returns the bytes that the first of two consumers holds at the equilibrium of a mechanism, if
/// each starts with half of `budget`.
fn settle(kind: Kind, budget: u64, curves: [&Curve; 2]) -> u64 {
    let snapshots: Vec<Snapshot> = (0..)
        .zip(curves)
        .map(|(id, curve)| Snapshot {
            id,
            class: Class::Query,
            holding_bytes: budget / 2,
            floor_bytes: 0,
            kept_bytes: 0,
            ceiling_bytes: u64::MAX,
            demand_bytes: u64::MAX,
            can_shrink: true,
            curve: Some(curve.clone().into()),
        })
        .collect();
    let terms = Terms { budget_bytes: budget, ..Terms::default() };
    kind.mechanism().allot(&terms, &snapshots).grants[0]
}

/// Draws the limit of each consumer over time, under the default mechanism.
pub(super) fn grants(score: &Score) -> Lines {
    let lines = score.consumers.iter().enumerate().map(|(at, name)| Line {
        name: name.clone(),
        points: score
            .samples
            .iter()
            .map(|sample| (sample.seconds, mebibytes(sample.limits.get(at).copied().unwrap_or(0))))
            .collect(),
    });
    let panel = Panel {
        title: format!("what the {} allowed", Kind::default()),
        x: "time, s".into(),
        y: "MiB".into(),
        lines: lines.collect(),
    };
    Lines { panels: vec![panel] }
}

fn sampled(wide: u64, value: impl Fn(u64) -> f64) -> Vec<(f64, f64)> {
    let sizes = (0..=u64::from(POINTS)).map(|at| wide * at / u64::from(POINTS));
    sizes.map(|bytes| (mebibytes(bytes), value(bytes))).collect()
}

fn mebibytes(bytes: u64) -> f64 {
    float(bytes) / float(MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_sort_does_the_printed_io() {
        for formula in formula() {
            assert_eq!(formula.our_ios, formula.printed_ios, "{formula}");
        }
        let example: Vec<f64> = formula().iter().take(2).map(|it| it.our_ios).collect();
        assert_eq!(example, [300.0, 900.0], "one pass with 300 frames, runs and a merge with 50");
    }

    #[test]
    fn exchange_and_price_settle_where_the_sum_is_least() {
        let figure = figure_3();
        let total = &figure.panels[1].lines[0].points;
        let least = total.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
        for settled in [1, 3] {
            let height = figure.panels[1].lines[settled].points[1].1;
            assert!(height < least * 1.1, "{height} for {least}");
        }
    }
}
