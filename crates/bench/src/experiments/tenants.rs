//! The engine's memory market, compared with mechanisms without a market by their total SLA
//! penalties.
//!
//! Three tenants share one engine whose memory holds a part of their working sets: short look-ups
//! with a tight SLA, scans of reports, and sorts (Otaki et al., CIDR 2025, section 2.1, who print
//! no measurements). A generated trace gives the arrival times of their requests; requests arrive
//! regardless of the completion of earlier ones, and a request's latency begins with its arrival.
//! The same trace is replayed under each policy for sharing memory, each time in an engine opened
//! anew over the same database; the tenants' SLAs give the penalties of their latencies.

mod engine;
mod rule;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::simulate::{Event, Shape, Work, three_tenants};
use clap::{Args, value_parser};
use serde::Serialize;
use terrace_market::Sla;
use terrace_market::sla::Request;
use terrace_sys::size::{MIB, format_bytes};
use tokio::task::{JoinError, JoinSet};

use crate::error::{BenchError, Result};
use crate::experiment::{Common, Experiment};
use crate::measure::{median, percentile};
use crate::report::{Bars, Grid, Report, Series};
use crate::setting::{Conditions, Finding, Setting};
use crate::tpch::database::Database;
use engine::{EngineFactory, TenantEngine};
use rule::{BASELINES, RULES, Rule, TENANTS};

/// Default memory budget: a quarter of the tables.
const DRAM_BYTES: u64 = 64 * MIB;
/// Minimum latency that is charged for a failed request.
const FAILED_SECONDS: f64 = 30.0;
/// Sampling of the trace: one look-up in this many is replayed, and one report in this many, since
/// a statement costs a hundred times as much as a get of the simulated store.
const LOOKUPS_PER_ONE: usize = 50;
const REPORTS_PER_ONE: usize = 3;
/// Pages of the trace's longest sort, and the share of the line items that it sorts here: two
/// processors have to keep up with all sorts.
const SORT_PAGES_MAX: u64 = 8192;
const SORT_SHARE_MAX: f64 = 0.5;
/// Number of leaves of the trace's index.
const LEAF_PAGES: u64 = 4096;
/// Number of orders at scale 1; one key in four is used.
const ORDERS: f64 = 1_500_000.0;
const KEYS_PER_ORDER: f64 = 4.0;

/// Options of the experiment.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct TenantOptions {
    /// Run the tenants as psql clients of a server in a process of its own
    #[arg(long)]
    wire: bool,

    // Every variation of the trace occurs at least once in half a minute.
    /// Duration in seconds of each trace; there is one for each round
    #[arg(long = "trace-seconds", value_name = "S", default_value_t = 30,
          value_parser = value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// Number of the first trace; each round plays the next one
    #[arg(long = "trace-first", value_name = "N", default_value_t = 1,
          value_parser = value_parser!(u32).range(1..))]
    first: u32,

    /// Ways to share memory, with commas between them [default: all]
    #[arg(long, value_name = "RULES", value_delimiter = ',',
          value_parser = RULES.map(|it| it.option))]
    rules: Vec<String>,

    /// Factor for the rate of all requests of a trace
    #[arg(long = "trace-load", value_name = "FACTOR", default_value_t = 1.0, value_parser = load)]
    load: f64,
}

impl TenantOptions {
    /// Returns the chosen policies for sharing memory, in the order of [`RULES`].
    fn rules(&self) -> Vec<Rule> {
        let is_chosen = |rule: &Rule| {
            self.rules.is_empty() || self.rules.iter().any(|option| option == rule.option)
        };
        RULES.into_iter().filter(is_chosen).collect()
    }
}

/// Parses a load from a hundredth to a hundred times.
fn load(text: &str) -> Result<f64, String> {
    let load = text.parse().ok().filter(|load| (0.01..=100.0).contains(load));
    load.ok_or_else(|| "a load is a number from 0.01 to 100".to_owned())
}

/// Conditions of a run, as in its report.
#[derive(Clone, Debug, Serialize)]
struct Played {
    #[serde(flatten)]
    conditions: Conditions,
    options: TenantOptions,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    round: usize,
    rule: &'static str,
    penalty: f64,
    /// Percent by which the penalty is below that of the better baseline in the same round.
    below_percent: Option<f64>,
    tenants: Vec<TenantRow>,
    /// Time from the first arrival to the last answer.
    wall_seconds: f64,
    failed: usize,
    /// The first error.
    error: Option<String>,
}

impl Row {
    /// Formats the penalties in one line, as a progress message.
    fn line(&self) -> String {
        let tenants = self.tenants.iter().map(|it| format!("{} {:.1}", it.name, it.penalty));
        let tenants = tenants.collect::<Vec<_>>().join(", ");
        let Self { rule, penalty, failed, error, .. } = self;
        let error = error.as_ref().map_or(String::new(), |error| format!(", the first: {error}"));
        format!("{rule}: penalty {penalty:.1} ({tenants}), {failed} requests failed{error}")
    }
}

#[derive(Clone, Debug, Serialize)]
struct TenantRow {
    name: &'static str,
    requests: usize,
    penalty: f64,
    p50_seconds: Option<f64>,
    p95_seconds: Option<f64>,
    worst_seconds: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    rules: Vec<RuleSummary>,
}

#[derive(Clone, Debug, Serialize)]
struct RuleSummary {
    rule: &'static str,
    /// Sum over all traces, so that a trace in which few requests are late has little weight.
    penalty: f64,
    below_percent: Option<f64>,
    tenant_penalties: Vec<f64>,
    /// Minimum and maximum over the traces.
    least_below_percent: Option<f64>,
    most_below_percent: Option<f64>,
    /// Medians of the traces.
    tenant_p95_seconds: Vec<Option<f64>>,
}

/// Experiment `tenants`: three tenants on one engine.
pub(crate) struct Tenants;

impl Experiment for Tenants {
    const NAME: &'static str = "tenants";
    const QUESTION: &'static str = "does the market lower the penalties of live tenants?";
    const COMMON: &'static [Common] = &[Common::Scale, Common::Rounds, Common::Encoding];
    type Options = TenantOptions;

    /// Runs the experiment with one trace for each round.
    ///
    /// # Errors
    /// Fails if the tables cannot be loaded or an engine does not open. A failed request is
    /// counted.
    async fn run(
        setting: &Setting,
        options: &TenantOptions,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Finding> {
        let database = Database::load(setting, "tenants", DRAM_BYTES, observe).await?;
        let config = setting.conditions(database.config(), database.encoding());
        let theatre = match options.wire {
            true => EngineFactory::Wire(setting.program.clone(), database.config()),
            false => EngineFactory::Local(&database),
        };
        let (mut rows, rules) = (Vec::new(), options.rules());
        for round in 0..config.rounds {
            let seed = u64::from(options.first) + u64::try_from(round).unwrap_or(0);
            let arrivals = arrivals(seed, options, config.scale);
            let mut own = Vec::new();
            for turn in 0..rules.len() {
                let rule = rules[(round + turn) % rules.len()];
                observe(&format!("trace {} of {}, {}", round + 1, config.rounds, rule.name));
                let stage = Arc::new(theatre.open(rule).await?);
                let row = play(&stage, rule, round, &arrivals).await?;
                observe(&row.line());
                own.push(row);
                // All requests have ended.
                Arc::into_inner(stage).map_or(Ok(()), TenantEngine::end)?;
            }
            compare(&mut own);
            rows.extend(own);
        }
        finding(&Played { conditions: config, options: options.clone() }, &rows)
    }
}

/// A request of a tenant.
#[derive(Clone, Debug, PartialEq)]
struct Arrival {
    at: Duration,
    tenant: usize,
    sql: String,
}

/// Generates the trace as statements over TPC-H tables.
fn arrivals(seed: u64, options: &TenantOptions, scale: f64) -> Vec<Arrival> {
    let TenantOptions { seconds, load, .. } = *options;
    let trace = three_tenants(&Shape { seed, seconds, load });
    let (mut lookups, mut reports) = (0, 0);
    let mut arrivals = Vec::new();
    for Event { at_nanos, tenant, work } in &trace.events {
        let plays = match work {
            Work::Get(_) => every(&mut lookups, LOOKUPS_PER_ONE),
            Work::Scan { first: 0, .. } => every(&mut reports, REPORTS_PER_ONE),
            Work::Scan { .. } | Work::Sort { .. } => true,
        };
        if plays {
            let at = Duration::from_nanos(*at_nanos);
            arrivals.push(Arrival { at, tenant: *tenant, sql: statement(work, scale) });
        }
    }
    arrivals
}

fn every(seen: &mut usize, one_in: usize) -> bool {
    *seen += 1;
    *seen % one_in == 1
}

/// Returns the statement of a request.
fn statement(work: &Work, scale: f64) -> String {
    let last = ORDERS * KEYS_PER_ORDER * scale;
    match work {
        // The leaf page of the trace's look-up selects a range of keys, so that some keys are more
        // popular than others.
        Work::Get(pages) => {
            let leaf = pages.get(1).map_or(0, |page| page % LEAF_PAGES);
            let order = (leaf as f64 / LEAF_PAGES as f64 * ORDERS * scale).floor();
            // Only eight consecutive keys of each 32 are used.
            let key = (order / 8.0).floor() * 32.0 + order % 8.0 + 1.0;
            format!("SELECT * FROM orders WHERE o_orderkey = {}", key.min(last))
        }
        Work::Scan { first: 0, .. } => "SELECT ps_suppkey % 100 AS part, sum(ps_availqty), \
             avg(ps_supplycost) FROM partsupp GROUP BY part ORDER BY part"
            .to_owned(),
        Work::Scan { .. } => "SELECT l_returnflag, l_linestatus, sum(l_quantity), \
             sum(l_extendedprice * (1 - l_discount)), avg(l_tax), count(*) FROM lineitem \
             GROUP BY l_returnflag, l_linestatus"
            .to_owned(),
        Work::Sort { pages } => {
            let key = last * SORT_SHARE_MAX * *pages as f64 / SORT_PAGES_MAX as f64;
            format!(
                "SELECT count(*), sum(n * l_linenumber) FROM (SELECT l_linenumber, row_number() \
                 OVER (ORDER BY l_comment, l_orderkey, l_linenumber) AS n FROM lineitem \
                 WHERE l_orderkey <= {key:.0})"
            )
        }
    }
}

/// A request that was answered or failed.
struct Ended {
    tenant: usize,
    /// Latency since its arrival.
    seconds: f64,
    error: Option<String>,
}

/// Replays the arrivals on an engine, and returns the row of the report.
async fn play(
    stage: &Arc<TenantEngine>,
    rule: Rule,
    round: usize,
    arrivals: &[Arrival],
) -> Result<Row> {
    // A warm-up: the first statements of an engine take longer.
    for tenant in 0..TENANTS.len() {
        if let Some(arrival) = arrivals.iter().find(|arrival| arrival.tenant == tenant) {
            stage.run(tenant, &arrival.sql).await?;
        }
    }
    let began = Instant::now();
    let mut running = JoinSet::new();
    let mut requests: Vec<Vec<Request>> = vec![Vec::new(); TENANTS.len()];
    let mut errors = Vec::new();
    let mut note = |ended: std::result::Result<Ended, JoinError>| {
        let Ended { tenant, seconds, error } =
            ended.map_err(|error| BenchError::Engine(error.to_string()))?;
        // A failed request counts as late, even if it failed fast.
        let seconds = if error.is_some() { seconds.max(FAILED_SECONDS) } else { seconds };
        requests[tenant].push(Request { seconds, ios: 0.0 });
        errors.extend(error);
        Ok::<_, BenchError>(())
    };
    for arrival in arrivals {
        let until = tokio::time::Instant::from_std(began + arrival.at);
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(until) => break,
                Some(ended) = running.join_next() => note(ended)?,
            }
        }
        let (tenant, arrived) = (arrival.tenant, began + arrival.at);
        let (stage, sql) = (Arc::clone(stage), arrival.sql.clone());
        running.spawn(async move {
            let error = stage.run(tenant, &sql).await.err().map(|error| error.to_string());
            Ended { tenant, seconds: arrived.elapsed().as_secs_f64(), error }
        });
    }
    while let Some(ended) = running.join_next().await {
        note(ended)?;
    }
    let tenants = TENANTS.iter().zip(&requests).map(|(tenant, requests)| row_of(*tenant, requests));
    let tenants = tenants.collect::<Result<Vec<_>>>()?;
    Ok(Row {
        round,
        rule: rule.name,
        penalty: tenants.iter().map(|tenant| tenant.penalty).sum(),
        below_percent: None,
        tenants,
        wall_seconds: began.elapsed().as_secs_f64(),
        failed: errors.len(),
        error: errors.into_iter().next(),
    })
}

fn row_of((name, sla): (&'static str, &str), requests: &[Request]) -> Result<TenantRow> {
    let sla: Sla = sla.parse().map_err(|error| BenchError::input(format!("{sla}: {error}")))?;
    let seconds: Vec<f64> = requests.iter().map(|request| request.seconds).collect();
    Ok(TenantRow {
        name,
        requests: requests.len(),
        penalty: sla.charge(requests),
        p50_seconds: percentile(&seconds, 50),
        p95_seconds: percentile(&seconds, 95),
        worst_seconds: seconds.iter().copied().max_by(f64::total_cmp),
    })
}

/// Sets `below_percent` in each row of a round.
fn compare(rows: &mut [Row]) {
    let baselines = RULES[..BASELINES].iter().map(|rule| rule.name);
    let penalty = |name| rows.iter().find(|row| row.rule == name).map(|row| row.penalty);
    let Some(best) = baselines.filter_map(penalty).min_by(f64::total_cmp) else { return };
    for row in rows {
        row.below_percent = below_percent(row.penalty, best);
    }
}

fn summarise(rules: &[Rule], rows: &[Row]) -> Summary {
    let penalty = |rule: &Rule| -> f64 {
        rows.iter().filter(|row| row.rule == rule.name).map(|row| row.penalty).sum()
    };
    let baselines = RULES[..BASELINES].iter().filter(|it| rules.contains(it));
    let best = baselines.map(penalty).min_by(f64::total_cmp);
    let one = |rule: &Rule| {
        let own: Vec<&Row> = rows.iter().filter(|row| row.rule == rule.name).collect();
        let tenant = |tenant: usize| own.iter().filter_map(move |row| row.tenants.get(tenant));
        let p95 = |at| tenant(at).filter_map(|it| it.p95_seconds).collect::<Vec<_>>();
        let below = || own.iter().filter_map(|row| row.below_percent);
        RuleSummary {
            rule: rule.name,
            penalty: penalty(rule),
            below_percent: best.and_then(|best| below_percent(penalty(rule), best)),
            tenant_penalties: (0..TENANTS.len())
                .map(|at| tenant(at).map(|it| it.penalty).sum())
                .collect(),
            least_below_percent: below().min_by(f64::total_cmp),
            most_below_percent: below().max_by(f64::total_cmp),
            tenant_p95_seconds: (0..TENANTS.len()).map(|at| median(&p95(at))).collect(),
        }
    };
    Summary { rules: rules.iter().map(one).collect() }
}

/// Returns the percent by which `penalty` is below `baseline`; `None` if the baseline is 0.
fn below_percent(penalty: f64, baseline: f64) -> Option<f64> {
    (baseline > 0.0).then(|| 100.0 * (1.0 - penalty / baseline))
}

fn grid(summary: &Summary) -> Grid {
    let mut titles = vec!["memory is shared by", "penalty", "below", "of one trace"];
    let columns: Vec<String> = TENANTS
        .iter()
        .flat_map(|(name, _)| [format!("{name} penalty"), format!("{name} p95 s")])
        .collect();
    titles.extend(columns.iter().map(String::as_str));
    let mut grid = Grid::new(titles);
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    for rule in &summary.rules {
        let tenants = rule.tenant_penalties.iter().zip(&rule.tenant_p95_seconds);
        let tenants = tenants.flat_map(|(penalty, p95)| [format!("{penalty:.1}"), number(*p95)]);
        let of_one = rule.least_below_percent.zip(rule.most_below_percent);
        let front = [
            rule.rule.to_owned(),
            format!("{:.1}", rule.penalty),
            rule.below_percent.map_or("-".to_owned(), |below| format!("{below:.1}%")),
            of_one.map_or("-".to_owned(), |(least, most)| format!("{least:.0}% to {most:.0}%")),
        ];
        grid.push(front.into_iter().chain(tenants));
    }
    grid
}

fn finding(played: &Played, rows: &[Row]) -> Result<Finding> {
    let Played { conditions: config, options } = played;
    let summary = summarise(&options.rules(), rows);
    let failed = rows.iter().map(|row| row.failed).sum();
    let errors = rows.iter().filter_map(|row| {
        let error = row.error.as_ref()?.lines().next().unwrap_or_default();
        Some(format!("{}: {error}", row.rule))
    });
    let requests = rows.first().map_or(&[][..], |row| &row.tenants).iter();
    let requests = requests.map(|tenant| format!("{} {}", tenant.requests, tenant.name));
    let requests = requests.collect::<Vec<_>>().join(", ");
    let notes = errors
        .chain([
            format!(
                "{} for {requests} in {} s at load {} {}, TPC-H scale {}, {} tables, {} threads",
                format_bytes(config.dram_bytes),
                options.seconds,
                options.load,
                if options.wire { "by clients of a server" } else { "in one process" },
                config.scale,
                config.encoding,
                config.threads
            ),
            format!(
                "penalties of {} traces together, medians of their p95; below: under the better of \
                 static split and demand; {failed} requests failed",
                config.rounds
            ),
        ])
        .collect();
    let picture = Bars {
        title: format!(
            "Three tenants on {}, live, {} tables",
            format_bytes(config.dram_bytes),
            config.encoding
        ),
        unit: "sum of penalties".into(),
        categories: summary.rules.iter().map(|rule| rule.rule.to_owned()).collect(),
        series: TENANTS
            .iter()
            .enumerate()
            .map(|(tenant, (name, _))| Series {
                name: (*name).to_owned(),
                values: summary
                    .rules
                    .iter()
                    .map(|rule| Some(rule.tenant_penalties[tenant]))
                    .collect(),
            })
            .collect(),
    };
    let report = Report::new(Tenants::NAME, played, rows, &summary)?;
    let (grid, more) = (grid(&summary), Vec::new());
    Ok(Finding { failed, more, grid, notes, picture, report })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(wire: bool) -> TenantOptions {
        TenantOptions { wire, seconds: 30, first: 1, rules: Vec::new(), load: 1.0 }
    }

    fn row(rule: &Rule, penalty: f64) -> Row {
        Row {
            round: 0,
            rule: rule.name,
            penalty,
            below_percent: None,
            tenants: vec![row_of(TENANTS[0], &[Request { seconds: 0.1, ios: 0.0 }]).expect("row")],
            wall_seconds: 1.0,
            failed: usize::from(penalty > 90.0),
            error: (penalty > 90.0).then(|| "it failed".to_owned()),
        }
    }

    #[test]
    fn rules_are_chosen_by_name() {
        let all: Vec<_> = options(false).rules().iter().map(|rule| rule.option).collect();
        assert_eq!(all, ["static", "demand", "fair", "auction", "priority"]);
        let rules = vec!["priority".to_owned(), "static".to_owned()];
        let some = TenantOptions { rules, ..options(false) };
        assert_eq!(some.rules(), [RULES[0], RULES[4]]);
        let rows = [(RULES[0], 20.0), (RULES[4], 15.0)].map(|(rule, it)| row(&rule, it));
        let below = summarise(&some.rules(), &rows).rules.into_iter().map(|it| it.below_percent);
        assert_eq!(below.collect::<Vec<_>>(), [Some(0.0), Some(25.0)]);
    }

    #[test]
    fn a_trace_becomes_statements_of_all_three() {
        let options = options(false);
        let arrivals = arrivals(1, &options, 1.0);
        assert!(arrivals.is_sorted_by_key(|arrival| arrival.at));
        for (tenant, what) in ["FROM orders WHERE", "GROUP BY", "row_number"].iter().enumerate() {
            let own: Vec<_> = arrivals.iter().filter(|arrival| arrival.tenant == tenant).collect();
            assert!(own.len() > 3, "{tenant}: {}", own.len());
            assert!(own.iter().all(|arrival| arrival.sql.contains(what)), "{tenant}");
        }
        assert_eq!(arrivals, super::arrivals(1, &options, 1.0));
        let last = statement(&Work::Get(vec![0, 2 * LEAF_PAGES - 1]), 1.0);
        let key: u64 = last.rsplit(' ').next().and_then(|key| key.parse().ok()).expect("a key");
        assert!(key <= 6_000_000 && key % 32 <= 8, "{key}: a key that there is");
    }

    #[test]
    fn below_is_under_the_better_baseline() {
        let penalties = [100.0, 80.0, 60.0, 40.0, 20.0];
        let mut rows: Vec<Row> =
            RULES.iter().zip(penalties).map(|(rule, it)| row(rule, it)).collect();
        compare(&mut rows);
        let below: Vec<f64> =
            rows.iter().filter_map(|row| row.below_percent).map(f64::round).collect();
        assert_eq!(below, [-25.0, 0.0, 25.0, 50.0, 75.0]);
        assert_eq!(below_percent(5.0, 0.0), None, "nothing is below 0");
        let conditions = Conditions {
            scale: 1.0,
            dram_bytes: MIB,
            threads: 2,
            rounds: 1,
            encoding: "compact".into(),
        };
        let played = Played { conditions, options: options(true) };
        let finding = finding(&played, &rows).expect("finding");
        assert_eq!((finding.failed, finding.grid.len()), (1, RULES.len()));
        assert_eq!(rows[0].tenants[0].penalty, 0.5);
        assert!(rows[0].line().ends_with("1 requests failed, the first: it failed"));
    }
}
