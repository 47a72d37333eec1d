//! Throughput with a remote tier between DRAM and the store, over its size.
//!
//! The published n-tier system is 1.3 to 2.6 times slower than the two-tier one until its remote
//! memory is larger than its DRAM, and 3.8 times faster at four times DRAM (vmcache^n, 2026). Here
//! the remote tier has 1/4 to 4 times the size of DRAM, and the data have about six times. Runs
//! with and without the tier alternate; the result is the median of the ratios of pairs.

use clap::{Args, value_parser};
use serde::Serialize;
use terrace_pool::Placement;
use terrace_sys::size::{MIB, format_bytes};
use terrace_tier::TierSpec;

use super::case::Figures;
use super::{Case, Load, Ready, RunOptions, split_tiers, theta};
use crate::error::{BenchError, Result};
use crate::experiment::{Common, Experiment};
use crate::measure::median;
use crate::report::{Bars, Grid, Line, Lines, Panel, Picture, Report, Series};
use crate::setting::{Finding, Setting};

/// Sizes of the remote tier, in quarters of DRAM.
pub(super) const QUARTERS: [u64; 5] = [1, 2, 4, 8, 16];
/// Additional latencies of a fix in the remote tier, in nanoseconds.
const LATENCIES_NS: [u64; 2] = [0, 250];
/// Default bytes of DRAM, and default numbers of warehouses and tuples, whose data are about six
/// times as large.
const DRAM_BYTES: u64 = 256 * MIB;
const WAREHOUSES: u32 = 14;
const TUPLES: u64 = 11_000_000;

/// Warm-up in seconds of each run after the first over the same data.
const AGAIN_SECONDS: f64 = 1.0;

/// Published throughput with these sizes relative to two tiers: TPC-C with 32 GB of DRAM and 8 to
/// 128 GB of remote memory.
const PUBLISHED: [f64; 5] = [0.38, 0.54, 0.80, 1.67, 3.82];

/// Options of the experiments with a remote tier of several sizes.
#[derive(Args, Clone, Debug)]
pub(crate) struct SweepOptions {
    /// Workloads of n-tier and cost: tpcc, random-read, ycsb-a to ycsb-f
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "tpcc,random-read,ycsb-b"
    )]
    pub(super) workloads: Vec<String>,

    /// Number of TPC-C warehouses; by default 14
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    warehouses: Option<u32>,

    /// Number of tuples of random-read and of records of YCSB; by default 11 million
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    tuples: Option<u64>,

    /// Number of look-ups in a batch of random-read; 1 by default
    #[arg(long, value_name = "N")]
    batch: Option<usize>,

    /// Skew of YCSB; 0 for none
    #[arg(long, value_name = "THETA", default_value_t = 0.99, value_parser = theta)]
    theta: f64,

    #[command(flatten)]
    run: RunOptions,
}

impl SweepOptions {
    /// Returns the workload with a name: `tpcc`, `random-read`, or `ycsb-a` to `ycsb-f`.
    fn load(&self, name: &str) -> Result<Load> {
        let tuples = self.tuples.unwrap_or(TUPLES);
        match name.split_once('-') {
            None if name == "tpcc" => {
                Ok(Load::Tpcc { warehouses: self.warehouses.unwrap_or(WAREHOUSES) })
            }
            Some(("random", "read")) => {
                Ok(Load::RandomRead { tuples, batch: self.batch.unwrap_or(1) })
            }
            Some(("ycsb", mix)) => {
                let mix = mix.parse().map_err(|error| BenchError::input(format!("{error}")))?;
                Ok(Load::Ycsb { mix, records: tuples, theta: self.theta, shift_seconds: None })
            }
            _ => Err(BenchError::input(format!(
                "there is no workload \"{name}\"; tpcc, random-read and ycsb-a to ycsb-f are"
            ))),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Config {
    workloads: Vec<String>,
    placement: &'static str,
    policy: String,
    dram_bytes: u64,
    threads: usize,
    seconds: f64,
    warm_up_seconds: f64,
    rounds: usize,
}

/// Figures of a run with the remote tier, and of the run without it that is paired with it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) latency_ns: u64,
    pub(super) quarters: u64,
    pub(super) round: usize,
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// Figures without the remote tier, of the run directly before or after.
    pub(super) without: Figures,
}

/// Medians of a workload over a remote tier of one latency, by its size.
#[derive(Clone, Debug, Serialize)]
struct Curve {
    workload: String,
    latency_ns: u64,
    two_tiers_per_second: f64,
    per_second: Vec<f64>,
    /// Throughput relative to two tiers.
    ratios: Vec<f64>,
    worst_ratio: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    /// Sizes of the remote tier, relative to DRAM.
    shares: Vec<f64>,
    curves: Vec<Curve>,
    worst_ratio: f64,
    published_tpcc_ratios: [f64; 5],
}

/// Experiment `n-tier`: throughput over the size of a remote tier.
pub(crate) struct NTier;

impl Experiment for NTier {
    const NAME: &'static str = "n-tier";
    const QUESTION: &'static str = "does remote memory below DRAM ever cost throughput?";
    const COMMON: &'static [Common] = &[Common::Rounds];
    type Options = SweepOptions;

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if a run fails or leaves inconsistent data.
    async fn run(
        setting: &Setting,
        options: &SweepOptions,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Finding> {
        let names = &options.workloads;
        let rows = measure((setting, options), names, &LATENCIES_NS, observe)?;
        finding(setting, options, &rows)
    }
}

/// Measures every workload with every size and latency of the remote tier, and without it.
pub(super) fn measure(
    (setting, options): (&Setting, &SweepOptions),
    names: &[String],
    latencies_ns: &[u64],
    observe: &mut dyn FnMut(&str),
) -> Result<Vec<Row>> {
    let home = setting.scratch()?;
    let mut rows = Vec::new();
    for name in names {
        let sizes = latencies_ns.iter().flat_map(|ns| QUARTERS.map(|quarters| (*ns, quarters)));
        for (latency_ns, quarters) in sizes {
            let mut say = |text: &str| observe(&format!("{text}, remote {quarters}/4"));
            // The speed of devices varies over minutes, so runs with and without the tier
            // alternate, each over its own data.
            let prepare = |quarters, file, say: &mut dyn FnMut(&str)| {
                case((setting, options), name, latency_ns, quarters)?.prepare(
                    home.path(),
                    file,
                    say,
                )
            };
            let with = prepare(quarters, "with", &mut say)?;
            let without = prepare(0, "without", &mut say)?;
            let first = options.run.warm_up_seconds;
            for round in 0..setting.rounds.get() {
                let warm_up = if round == 0 { first } else { first.min(AGAIN_SECONDS) };
                let mut run = |ready: &dyn Ready| {
                    ready.measure(warm_up, &mut say).map(|measured| measured.figures)
                };
                let (figures, without) = if round % 2 == 0 {
                    let figures = run(&*with)?;
                    (figures, run(&*without)?)
                } else {
                    let without = run(&*without)?;
                    (run(&*with)?, without)
                };
                rows.push(Row {
                    name: name.clone(),
                    latency_ns,
                    quarters,
                    round,
                    figures,
                    without,
                });
            }
            with.check(&mut say)?;
            without.check(&mut say)?;
        }
    }
    Ok(rows)
}

/// Returns the placement of pages: the user's, or the first.
fn placement(setting: &Setting) -> Placement {
    setting.placements().first().copied().unwrap_or_default()
}

pub(super) fn dram_bytes(setting: &Setting) -> u64 {
    if setting.dram_is_named { setting.engine.dram_bytes } else { DRAM_BYTES }
}

fn case(
    (setting, options): (&Setting, &SweepOptions),
    name: &str,
    latency_ns: u64,
    quarters: u64,
) -> Result<Case> {
    let (tiers, store) = split_tiers(&setting.engine.tiers);
    if !tiers.is_empty() {
        return Err(BenchError::input("the remote tier is what varies: name a store alone"));
    }
    let dram_bytes = dram_bytes(setting);
    let remote = TierSpec::Emulated { capacity_bytes: dram_bytes / 4 * quarters, latency_ns };
    Ok(Case {
        load: options.load(name)?,
        dram_bytes,
        tiers: if quarters > 0 { vec![remote] } else { vec![] },
        store,
        placement: placement(setting),
        policy: options.run.policy,
        threads: setting.engine.threads,
        warm_up_seconds: options.run.warm_up_seconds,
        seconds: options.run.seconds,
    })
}

/// Returns three medians for one workload, latency and size: throughput with the remote tier,
/// throughput without it, and the ratio within a pair.
pub(super) fn medians(rows: &[Row], name: &str, latency_ns: u64, quarters: u64) -> [f64; 3] {
    let same =
        |row: &&Row| row.name == name && row.quarters == quarters && row.latency_ns == latency_ns;
    let of = |value: fn(&Row) -> f64| {
        let values: Vec<f64> = rows.iter().filter(same).map(value).collect();
        median(&values).unwrap_or(f64::NAN)
    };
    [
        of(|row| row.figures.per_second),
        of(|row| row.without.per_second),
        of(|row| row.figures.per_second / row.without.per_second),
    ]
}

/// Returns the median throughput without a remote tier.
pub(super) fn two_tiers_per_second(rows: &[Row], name: &str, latency_ns: u64) -> f64 {
    let same = |row: &&Row| row.name == name && row.latency_ns == latency_ns;
    let values: Vec<f64> = rows.iter().filter(same).map(|row| row.without.per_second).collect();
    median(&values).unwrap_or(f64::NAN)
}

fn curve(rows: &[Row], name: &str, latency_ns: u64) -> Curve {
    let points = QUARTERS.map(|quarters| medians(rows, name, latency_ns, quarters));
    let ratios = points.map(|[_, _, ratio]| ratio);
    Curve {
        workload: name.to_owned(),
        latency_ns,
        two_tiers_per_second: two_tiers_per_second(rows, name, latency_ns),
        per_second: points.map(|[with, _, _]| with).to_vec(),
        ratios: ratios.to_vec(),
        worst_ratio: ratios.iter().copied().fold(f64::INFINITY, f64::min),
    }
}

fn finding(setting: &Setting, options: &SweepOptions, rows: &[Row]) -> Result<Finding> {
    let curves = options
        .workloads
        .iter()
        .flat_map(|name| LATENCIES_NS.map(|latency_ns| curve(rows, name, latency_ns)));
    let curves: Vec<Curve> = curves.collect();
    let summary = Summary {
        shares: QUARTERS.map(|quarters| quarters as f64 / 4.0).to_vec(),
        worst_ratio: curves.iter().map(|curve| curve.worst_ratio).fold(f64::INFINITY, f64::min),
        curves,
        published_tpcc_ratios: PUBLISHED,
    };
    let mut workloads: Vec<String> = rows.iter().map(|row| row.figures.workload.clone()).collect();
    workloads.dedup();
    let config = Config {
        workloads,
        placement: placement(setting).name(),
        policy: options.run.policy.to_string(),
        dram_bytes: dram_bytes(setting),
        threads: setting.engine.threads,
        seconds: options.run.seconds,
        warm_up_seconds: options.run.warm_up_seconds,
        rounds: setting.rounds.get(),
    };
    Ok(Finding {
        failed: 0,
        more: vec![Picture::new("remote", lines(&summary))],
        notes: notes(&config, &summary),
        picture: picture(&summary),
        report: Report::new(NTier::NAME, &config, rows, &summary)?,
        grid: grid(&summary),
    })
}

fn share(quarters: u64) -> String {
    match quarters {
        1 => "1/4".into(),
        2 => "1/2".into(),
        more => (more / 4).to_string(),
    }
}

fn grid(summary: &Summary) -> Grid {
    let fixed = ["workload", "remote fix", "two tiers /s"].map(String::from);
    let sizes = QUARTERS.map(|quarters| format!("{}x DRAM", share(quarters)));
    let mut grid = Grid::new(fixed.into_iter().chain(sizes));
    for curve in &summary.curves {
        let fixed = [
            curve.workload.clone(),
            format!("+{} ns", curve.latency_ns),
            format!("{:.0}", curve.two_tiers_per_second),
        ];
        let ratios = curve.ratios.iter().map(|ratio| format!("{ratio:.2}"));
        grid.push(fixed.into_iter().chain(ratios));
    }
    grid
}

fn notes(config: &Config, summary: &Summary) -> Vec<String> {
    vec![
        format!(
            "throughput over that without the remote tier; worst {:.2}; published for TPC-C: {}",
            summary.worst_ratio,
            PUBLISHED.map(|ratio| format!("{ratio:.2}")).join(", ")
        ),
        format!(
            "{} of DRAM, placement {}, policy {}, {} threads; {} s measured after {} s, with and \
             without in turn, medians of {} pairs",
            format_bytes(config.dram_bytes),
            config.placement,
            config.policy,
            config.threads,
            config.seconds,
            config.warm_up_seconds,
            config.rounds
        ),
    ]
}

fn picture(summary: &Summary) -> Bars {
    let series = summary.curves.iter().map(|curve| Series {
        name: format!("{} +{} ns", curve.workload, curve.latency_ns),
        values: curve.ratios.iter().map(|ratio| Some(*ratio)).collect(),
    });
    Bars {
        title: "A remote tier between DRAM and the store".into(),
        unit: "throughput over two tiers".into(),
        categories: QUARTERS.map(|quarters| format!("{}x DRAM", share(quarters))).to_vec(),
        series: series.collect(),
    }
}

/// Draws a panel for each workload: three tiers by the size of the remote one, and two tiers.
fn lines(summary: &Summary) -> Lines {
    let mut names: Vec<&String> = summary.curves.iter().map(|curve| &curve.workload).collect();
    names.dedup();
    let panel = |name: &String| {
        let of = || summary.curves.iter().filter(|curve| curve.workload == *name);
        let with = of().map(|curve| Line {
            name: format!("remote +{} ns", curve.latency_ns),
            points: summary.shares.iter().copied().zip(curve.per_second.clone()).collect(),
        });
        let two = of().next().map_or(f64::NAN, |curve| curve.two_tiers_per_second);
        let without = Line { name: "two tiers".into(), points: vec![(0.0, two), (4.0, two)] };
        Panel {
            title: name.clone(),
            x: "remote memory over DRAM".into(),
            y: "operations a second".into(),
            lines: with.chain([without]).collect(),
        }
    };
    Lines { panels: names.into_iter().map(panel).collect() }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::experiments::pages::case::Figures;

    /// Creates a row of a run with the throughput `per_second` and a remote tier of `quarters` of
    /// DRAM.
    pub(in crate::experiments::pages) fn row(
        quarters: u64,
        latency_ns: u64,
        per_second: f64,
    ) -> Row {
        let figures = Figures {
            workload: "TPC-C, 14 warehouses".into(),
            placement: "framed",
            policy: "score".into(),
            dram_bytes: DRAM_BYTES,
            tiers: vec![],
            threads: 2,
            per_second,
            p50_us: 1.0,
            p95_us: 2.0,
            p99_us: 3.0,
            resident_bytes: vec![DRAM_BYTES, DRAM_BYTES / 4 * quarters],
            loads_per_second: 0.0,
            writes_per_second: 0.0,
            promoted: 0,
            demoted: 0,
            evicted: 0,
            processors: 2.0,
        };
        let without = Figures { per_second: 100.0, ..figures.clone() };
        Row { name: "tpcc".into(), latency_ns, quarters, round: 0, figures, without }
    }

    #[test]
    fn ratios_are_over_two_tiers() {
        let mut rows: Vec<Row> = Vec::new();
        for factor in [0.5, 1.0, 3.0] {
            rows.extend(QUARTERS.map(|quarters| {
                let mut row = row(quarters, 250, factor * (100.0 + 10.0 * quarters as f64));
                // A slow period of the device affects both runs.
                row.without.per_second *= factor;
                row
            }));
        }
        rows[0].figures.per_second = 20.0;
        rows[5].figures.per_second = 95.0;
        let curve = curve(&rows, "tpcc", 250);
        assert_eq!(curve.two_tiers_per_second, 100.0);
        assert_eq!(curve.ratios, [0.95, 1.2, 1.4, 1.8, 2.6]);
        assert_eq!(curve.worst_ratio, 0.95);
        let summary = Summary {
            shares: vec![0.25, 0.5, 1.0, 2.0, 4.0],
            worst_ratio: curve.worst_ratio,
            curves: vec![curve],
            published_tpcc_ratios: PUBLISHED,
        };
        let text = grid(&summary).to_string();
        assert!(text.contains("1/4x DRAM") && text.contains("2.60"), "{text}");
        let lines = lines(&summary);
        assert_eq!((lines.panels.len(), lines.panels[0].lines.len()), (1, 2));
        assert_eq!(lines.panels[0].lines[0].points[4], (4.0, 260.0));
    }
}
