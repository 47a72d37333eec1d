//! Break-even of remote memory: throughput per dollar.
//!
//! Measures queries per second and dollar of memory and storage, over sizes of a remote tier: the
//! break-even analysis of vmcache^n (2026), whose remote memory pays if it is larger than one to
//! two times DRAM, and gains 41 and 87 queries per second and dollar at two and four times DRAM.

use serde::Serialize;
use terrace_sys::size::{GIB, format_bytes};

use super::sweep::{self, QUARTERS, Row, SweepOptions, dram_bytes, medians, two_tiers_per_second};
use crate::error::Result;
use crate::experiment::{Common, Experiment};
use crate::report::{Bars, Grid, Report, Series};
use crate::setting::{Finding, Prices, Setting};

/// Additional latency of a fix in the remote tier, in nanoseconds: a first-generation CXL expander.
const LATENCY_NS: u64 = 250;

#[derive(Clone, Debug, Serialize)]
struct Config {
    workload: String,
    prices: Prices,
    dram_bytes: u64,
    latency_ns: u64,
    threads: usize,
    rounds: usize,
}

/// Results with one size of the remote tier.
#[derive(Clone, Debug, Serialize)]
struct Point {
    /// Bytes of the remote tier, relative to DRAM.
    share: f64,
    per_second: f64,
    dollars: f64,
    per_second_and_dollar: f64,
    /// Difference of the throughput per dollar to that without remote memory.
    gain: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    points: Vec<Point>,
    /// Smallest remote tier such that it and every larger one pays.
    break_even_share: Option<f64>,
}

/// Experiment `cost`: throughput per dollar over the size of a remote tier.
pub(crate) struct Cost;

impl Experiment for Cost {
    const NAME: &'static str = "cost";
    const QUESTION: &'static str = "from which size on does remote memory pay?";
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
        let name = options.workloads.first().cloned().unwrap_or_else(|| "tpcc".into());
        let rows = sweep::measure(
            (setting, options),
            std::slice::from_ref(&name),
            &[LATENCY_NS],
            observe,
        )?;
        let prices = setting.prices;
        let dram_bytes = dram_bytes(setting);
        let summary = summarise(&rows, &name, dram_bytes, &prices);
        let config = Config {
            workload: rows.first().map_or(name, |row| row.figures.workload.clone()),
            prices,
            dram_bytes,
            latency_ns: LATENCY_NS,
            threads: setting.engine.threads,
            rounds: setting.rounds.get(),
        };
        Ok(Finding {
            failed: 0,
            more: vec![],
            notes: notes(&config, &summary),
            picture: picture(&summary),
            report: Report::new(Cost::NAME, &config, &rows, &summary)?,
            grid: grid(&summary),
        })
    }
}

/// Returns the bytes of the data: the maximum that was resident in memory.
fn data_bytes(rows: &[Row]) -> f64 {
    let resident = rows.iter().map(|row| row.figures.resident_bytes.iter().sum::<u64>());
    resident.max().unwrap_or(0) as f64
}

fn gib(bytes: f64) -> f64 {
    bytes / GIB as f64
}

fn summarise(rows: &[Row], name: &str, dram_bytes: u64, prices: &Prices) -> Summary {
    let stored = gib(data_bytes(rows)) * prices.store;
    let fixed = prices.machine + gib(dram_bytes as f64) * prices.dram + stored;
    let two_tiers = two_tiers_per_second(rows, name, LATENCY_NS);
    let mut points: Vec<Point> = Vec::new();
    for quarters in [0].into_iter().chain(QUARTERS) {
        let share = quarters as f64 / 4.0;
        let dollars = fixed + gib(dram_bytes as f64) * share * prices.remote;
        // Computed from the ratio of pairs, which cancels slow periods of the device.
        let [_, _, ratio] = medians(rows, name, LATENCY_NS, quarters);
        let per_second = two_tiers * if quarters == 0 { 1.0 } else { ratio };
        let per_second_and_dollar = per_second / dollars;
        let without = points.first().map_or(per_second_and_dollar, |p| p.per_second_and_dollar);
        let gain = per_second_and_dollar - without;
        points.push(Point { share, per_second, dollars, per_second_and_dollar, gain });
    }
    let pays = points.iter().skip(1).rev().take_while(|point| point.gain > 0.0);
    Summary { break_even_share: pays.last().map(|point| point.share), points }
}

fn grid(summary: &Summary) -> Grid {
    let titles = ["remote over DRAM", "per second", "dollars", "per second and dollar", "gain"];
    let mut grid = Grid::new(titles);
    for point in &summary.points {
        grid.push([
            format!("{:.2}", point.share),
            format!("{:.0}", point.per_second),
            format!("{:.2}", point.dollars),
            format!("{:.0}", point.per_second_and_dollar),
            format!("{:+.0}", point.gain),
        ]);
    }
    grid
}

fn notes(config: &Config, summary: &Summary) -> Vec<String> {
    let Prices { dram, remote, store, machine } = config.prices;
    let pays = match summary.break_even_share {
        Some(share) => format!("remote memory pays from {share} times DRAM on"),
        None => "remote memory does not pay at its largest".into(),
    };
    vec![
        format!("{pays}; published: from 1 to 2 times, +41 at 2 times and +87 at 4 times"),
        format!(
            "{}, {} of DRAM, {} threads, remote fixes +{} ns; dollars a GiB: DRAM {dram}, remote \
             {remote}, store {store}; machine {machine}; medians of {} rounds",
            config.workload,
            format_bytes(config.dram_bytes),
            config.threads,
            config.latency_ns,
            config.rounds
        ),
    ]
}

fn picture(summary: &Summary) -> Bars {
    Bars {
        title: "What a dollar of memory gives".into(),
        unit: "operations per second and dollar".into(),
        categories: summary.points.iter().map(|point| format!("{}x", point.share)).collect(),
        series: vec![Series {
            name: "with remote memory over DRAM".into(),
            values: summary.points.iter().map(|p| Some(p.per_second_and_dollar)).collect(),
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::pages::sweep::tests::row;

    #[test]
    fn remote_memory_pays_from_where_it_earns_more_than_it_costs() {
        let dram = GIB;
        let speeds = [100.0, 105.0, 160.0, 210.0, 410.0];
        let rows: Vec<Row> = QUARTERS
            .into_iter()
            .zip(speeds)
            .map(|(quarters, speed)| row(quarters, LATENCY_NS, speed))
            .collect();
        let prices = Prices { dram: 4.0, remote: 2.0, store: 0.0, machine: 0.0 };
        let summary = summarise(&rows, "tpcc", dram, &prices);
        let of = |at: usize| &summary.points[at];
        assert_eq!((of(0).dollars, of(0).per_second_and_dollar, of(0).gain), (4.0, 25.0, 0.0));
        assert_eq!(of(5).dollars, 12.0);
        assert!((of(5).per_second - 410.0).abs() < 1e-9);
        assert!(of(1).gain < 0.0 && of(2).gain < 0.0 && of(3).gain > 0.0);
        assert_eq!(summary.break_even_share, Some(1.0));
        let dear = Prices { remote: 200.0, ..prices };
        assert_eq!(summarise(&rows, "tpcc", dram, &dear).break_even_share, None);
    }

    #[test]
    fn bytes_of_the_store_and_the_machine_count() {
        let rows = [row(1, LATENCY_NS, 100.0), row(16, LATENCY_NS, 100.0)];
        let prices = Prices { dram: 0.0, remote: 0.0, store: 1.0, machine: 5.0 };
        let dollars = summarise(&rows, "tpcc", GIB, &prices).points[0].dollars;
        assert!((dollars - 5.0 - 1.25).abs() < 1e-9, "{dollars}: 1.25 GiB of pages at the most");
    }
}
