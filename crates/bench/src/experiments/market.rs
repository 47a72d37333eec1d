//! Simulation that compares a memory market with mechanisms without a market, by their total SLA
//! penalties.
//!
//! One generated trace of three tenants - short look-ups with a tight SLA, scans, sorts - is played
//! under every mechanism, and under the policies that systems without a market use (Otaki et al.,
//! CIDR 2025, section 2.1). The paper has no measurements of a market to compare with. The report
//! compares its formula for the I/O of a sort with Terrace's, and draws its figures 2 and 3, which
//! are sketches in the paper, from Terrace's curves.

mod figures;

use crate::simulate::{Policy, Score, Shape, SimulationConfig, Trace, run as play, three_tenants};
use serde::Serialize;
use terrace_market::{BrokerConfig, Kind};
use terrace_sys::size::{MIB, format_bytes};

use crate::error::Result;
use crate::experiment::{Common, Experiment};
use crate::report::{Bars, Grid, Picture, Report, Series};
use crate::setting::{Finding, Setting};

/// Default memory budget that the tenants share.
const BUDGET_BYTES: u64 = 768 * MIB;

/// Granularity of the search for the best fixed split: the number of parts of the budget.
const PARTS: u64 = 16;

#[derive(Clone, Debug, Serialize)]
struct Row {
    seed: u64,
    policy: String,
    penalty: f64,
    /// Percent by which the penalty is below that of the best policy that has neither a market nor
    /// knowledge of the whole trace.
    below_percent: f64,
    moved_bytes: u64,
    tenants: Vec<TenantRow>,
}

#[derive(Clone, Debug, Serialize)]
struct TenantRow {
    name: String,
    requests: u64,
    penalty: f64,
    mean_seconds: f64,
    worst_seconds: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Config {
    budget_bytes: u64,
    seeds: Vec<u64>,
    seconds: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    /// For each policy, the percent by which it is below the baseline, as the mean over the seeds.
    below_percent: Vec<(String, f64)>,
    sort_formula: Vec<figures::Formula>,
}

/// Experiment `market`: simulated SLA penalties with and without a memory market.
pub(crate) struct Market;

impl Experiment for Market {
    const NAME: &'static str = "market";
    const QUESTION: &'static str = "does a memory market lower the penalties of slowness?";
    const COMMON: &'static [Common] = &[Common::Rounds];
    type Options = ();

    /// Runs the experiment with one trace for each round.
    ///
    /// # Errors
    /// Fails if the report cannot be created.
    async fn run(setting: &Setting, (): &(), observe: &mut dyn FnMut(&str)) -> Result<Finding> {
        let named = setting.dram_is_named;
        let budget_bytes = if named { setting.engine.dram_bytes } else { BUDGET_BYTES };
        let seeds: Vec<u64> = (1..).take(setting.rounds.get()).collect();
        let shape = Shape::default();
        let mut rows = Vec::new();
        let mut first = None;
        for &seed in &seeds {
            observe(&format!("trace {seed} of {}", seeds.len()));
            let trace = three_tenants(&Shape { seed, ..shape });
            let (own, score) = compare(&trace, seed, budget_bytes);
            rows.extend(own);
            first.get_or_insert(score);
        }
        let config = Config { budget_bytes, seeds, seconds: shape.seconds };
        finding(&config, &rows, first.as_ref())
    }
}

fn score(trace: &Trace, budget_bytes: u64, policy: Policy) -> Score {
    play(trace, &SimulationConfig { budget_bytes, policy, broker: BrokerConfig::default() })
}

/// Plays a trace under all policies. Returns their rows, and the score of the default mechanism.
fn compare(trace: &Trace, seed: u64, budget: u64) -> (Vec<Row>, Score) {
    let by = |kind: Kind| score(trace, budget, Policy::Broker(kind));
    let mut scores = vec![
        ("static split".to_string(), by(Kind::Static)),
        ("demand driven".to_string(), by(Kind::Demand)),
        ("demand, one LRU".to_string(), score(trace, budget, Policy::SharedLru)),
    ];
    let baseline = scores.iter().map(|it| it.1.penalty).fold(f64::INFINITY, f64::min);
    scores.push(("best fixed, hindsight".to_string(), best_fixed(trace, budget)));
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_market()) {
        scores.push((kind.to_string(), by(kind)));
    }
    let default = by(Kind::default());
    let rows = scores.iter().map(|(policy, score)| row(seed, policy, score, baseline));
    (rows.collect(), default)
}

/// Returns the score of the best fixed split of the budget into multiples of a sixteenth. It is
/// found by trying all splits on the whole trace, which no online policy can do.
fn best_fixed(trace: &Trace, budget: u64) -> Score {
    let part = budget / PARTS;
    let splits = (1..PARTS - 1).flat_map(|one| (1..PARTS - one).map(move |two| (one, two)));
    let mut best: Option<Score> = None;
    for (one, two) in splits {
        let sizes = vec![one * part, two * part, (PARTS - one - two) * part];
        let score = score(trace, budget, Policy::Fixed(sizes));
        if best.as_ref().is_none_or(|best| score.penalty < best.penalty) {
            best = Some(score);
        }
    }
    best.unwrap_or_else(|| score(trace, budget, Policy::Broker(Kind::Static)))
}

fn row(seed: u64, policy: &str, score: &Score, baseline: f64) -> Row {
    let tenants = score.tenants.iter().map(|tenant| TenantRow {
        name: tenant.name.clone(),
        requests: tenant.requests,
        penalty: tenant.penalty,
        mean_seconds: tenant.mean_seconds,
        worst_seconds: tenant.worst_seconds,
    });
    Row {
        seed,
        policy: policy.to_string(),
        penalty: score.penalty,
        below_percent: 100.0 * (1.0 - score.penalty / baseline.max(f64::MIN_POSITIVE)),
        moved_bytes: score.moved_bytes,
        tenants: tenants.collect(),
    }
}

fn summarise(rows: &[Row]) -> Summary {
    let mut below: Vec<(String, f64)> = Vec::new();
    for row in rows {
        if below.iter().all(|known| known.0 != row.policy) {
            let same = rows.iter().filter(|other| other.policy == row.policy);
            let values: Vec<f64> = same.map(|other| other.below_percent).collect();
            let count = u32::try_from(values.len()).map_or(1.0, f64::from);
            below.push((row.policy.clone(), values.iter().sum::<f64>() / count));
        }
    }
    Summary { below_percent: below, sort_formula: figures::formula() }
}

fn finding(config: &Config, rows: &[Row], first: Option<&Score>) -> Result<Finding> {
    let summary = summarise(rows);
    let mut titles = vec!["seed", "policy", "penalty", "below"];
    let names: Vec<String> =
        rows.first().map_or(&[][..], |row| &row.tenants).iter().map(|it| it.name.clone()).collect();
    titles.extend(names.iter().map(String::as_str));
    titles.push("moved");
    let mut grid = Grid::new(titles);
    for row in rows {
        let front = [
            row.seed.to_string(),
            row.policy.clone(),
            format!("{:.1}", row.penalty),
            format!("{:.1}%", row.below_percent),
        ];
        let tenants = row.tenants.iter().map(|tenant| format!("{:.1}", tenant.penalty));
        grid.push(front.into_iter().chain(tenants).chain([format_bytes(row.moved_bytes)]));
    }
    let mut notes = vec![format!(
        "{} shared for {} s; below: under the best of the first three",
        format_bytes(config.budget_bytes),
        config.seconds
    )];
    let means = summary.below_percent.iter().map(|(name, mean)| format!("{name} {mean:.1}%"));
    notes.push(format!("means: {}", means.collect::<Vec<_>>().join(", ")));
    notes.extend(summary.sort_formula.iter().map(ToString::to_string));
    let more = [
        Some(Picture::new("figure-2", figures::figure_2())),
        Some(Picture::new("figure-3", figures::figure_3())),
        first.map(|score| Picture::new("grants", figures::grants(score))),
    ];
    Ok(Finding {
        failed: 0,
        grid,
        notes,
        picture: picture(config, &summary, rows),
        more: more.into_iter().flatten().collect(),
        report: Report::new(Market::NAME, config, rows, &summary)?,
    })
}

fn picture(config: &Config, summary: &Summary, rows: &[Row]) -> Bars {
    let series = |seed: &u64| Series {
        name: format!("trace {seed}"),
        values: summary
            .below_percent
            .iter()
            .map(|(policy, _)| {
                let own = rows.iter().find(|row| row.seed == *seed && row.policy == *policy);
                own.map(|row| row.penalty)
            })
            .collect(),
    };
    Bars {
        title: format!("Three tenants on {}", format_bytes(config.budget_bytes)),
        unit: "sum of penalties".into(),
        categories: summary.below_percent.iter().map(|(policy, _)| policy.clone()).collect(),
        series: config.seeds.iter().take(4).map(series).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_a_row_and_a_bar() {
        let trace = three_tenants(&Shape { seconds: 1, load: 0.1, ..Shape::default() });
        let (rows, default) = compare(&trace, 1, 64 * MIB);
        assert_eq!(rows.len(), 8);
        let config = Config { budget_bytes: 64 * MIB, seeds: vec![1], seconds: 1 };
        let finding = finding(&config, &rows, Some(&default)).expect("finding");
        assert_eq!((finding.grid.len(), finding.picture.categories.len()), (8, 8));
        let names: Vec<&str> = finding.more.iter().map(Picture::name).collect();
        assert_eq!(names, ["figure-2", "figure-3", "grants"]);
    }
}
