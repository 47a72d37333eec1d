//! Several clients at once on one budget: heavy queries side by side, and short ones beside them.
//!
//! First, four clients run six heavy queries each, in different orders. Second, one client runs
//! short queries, alone and then beside three clients that run heavy ones all the time; what the
//! others cost it is the point. Ours shares memory in several ways there: fairly; by the market,
//! with an SLA for the short queries; and with a priority in it too.

use std::time::{Duration, Instant};

use futures::future::{join, join_all};
use serde::Serialize;
use terrace_sys::size::format_bytes;

use crate::chart::{Bars, Series};
use crate::error::{BenchError, Result};
use crate::experiment::{Finding, Setting};
use crate::grid::Grid;
use crate::peer::engine::{Arena, Contender};
use crate::peer::process::Client;
use crate::report::Report;
use crate::statistic::percentile;
use crate::tpch::query::Query;

/// Who is compared; ours first.
const CONTENDERS: [Contender; 2] = [Contender::Terrace, Contender::DuckDb];

/// The budget, unless one is named: 500 MB.
const DRAM_BYTES: u64 = 500_000_000;

/// TPC-H queries with large joins and groupings.
const HEAVY_QUERIES: [u32; 3] = [18, 21, 9];

/// A sort of the whole table, a join of it with itself, and strings that grow without bound.
const STRESS: [&str; 3] = [
    "SELECT max(place), count(*) FROM (SELECT row_number() OVER \
     (ORDER BY l_extendedprice, l_comment) AS place FROM lineitem) AS sorted",
    "SELECT count(*), max(l.l_comment), max(r.l_comment) FROM lineitem AS l JOIN lineitem AS r \
     ON l.l_orderkey = r.l_orderkey AND l.l_linenumber = r.l_linenumber",
    "SELECT count(*), max(length(words)) FROM (SELECT l_partkey, \
     string_agg(l_comment, ',') AS words FROM lineitem GROUP BY l_partkey) AS parts",
];

/// TPC-H queries of a few milliseconds.
const SHORT_QUERIES: [u32; 5] = [6, 12, 14, 2, 11];

/// Clients that run heavy queries at once, with nobody beside them and beside the short ones.
const HEAVY_CLIENTS: usize = 4;
const HEAVY_BESIDE: usize = 3;

/// How long the short queries run, per round.
const SHORT_SECONDS_PER_ROUND: u64 = 5;

/// How an engine shares memory, and what the short queries are charged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    name: &'static str,
    /// What is said in every session, and what in that of the short queries.
    all: Option<&'static str>,
    short: Option<&'static str>,
}

/// As the engine comes, for those that have no choice.
const OWN: Rule = Rule { name: "own", all: None, short: None };

const FAIR: Option<&str> = Some("SET terrace.market = 'fair'");
const AUCTION: Option<&str> = Some("SET terrace.market = 'auction'");
const SLA: &str = "SET terrace.sla = 'latency 50ms penalty 10 per 50ms'";
const URGENT: &str = "SET terrace.sla = 'latency 50ms penalty 10 per 50ms, priority 1'";

const RULES: [Rule; 3] = [
    Rule { name: "fair", all: FAIR, short: None },
    Rule { name: "auction", all: AUCTION, short: Some(SLA) },
    Rule { name: "priority", all: AUCTION, short: Some(URGENT) },
];

fn rules(contender: Contender) -> &'static [Rule] {
    if contender == Contender::Terrace { &RULES } else { std::slice::from_ref(&OWN) }
}

/// What the clients of one kind saw in one part.
#[derive(Clone, Debug, Serialize)]
struct Row {
    /// `heavy`: four heavy clients. `idle`: short queries alone. `beside`: short queries beside
    /// heavy ones. `behind`: those heavy ones.
    part: &'static str,
    engine: Contender,
    /// How memory was shared.
    market: &'static str,
    answered: usize,
    failed: usize,
    p50_seconds: Option<f64>,
    p95_seconds: Option<f64>,
    /// From the first query to the last answer.
    wall_seconds: f64,
    peak_rss_bytes: u64,
    /// The first error.
    error: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Config {
    scale: f64,
    dram_bytes: u64,
    threads: usize,
    rounds: usize,
    missing: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Contrast {
    engine: Contender,
    market: &'static str,
    heavy_answered: usize,
    heavy_asked: usize,
    /// 95th percentile of the short queries beside heavy ones over that of short queries alone.
    short_p95_over_idle: Option<f64>,
    /// The same percentile over that of fair shares.
    short_p95_over_fair: Option<f64>,
    /// Heavy queries answered beside the short ones over those of fair shares.
    behind_over_fair: Option<f64>,
    /// Queries that failed beside each other.
    failed: usize,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    engines: Vec<Contrast>,
}

/// Answers and errors as they came.
#[derive(Clone, Debug, Default)]
struct Seen {
    seconds: Vec<f64>,
    errors: Vec<String>,
}

impl Seen {
    async fn ask(&mut self, client: &mut Client, text: &str) -> Result<()> {
        let reply = client.ask(text).await?;
        match reply.error {
            Some(error) => self.errors.push(error),
            None => self.seconds.push(reply.seconds),
        }
        Ok(())
    }

    fn row(
        &self,
        part: &'static str,
        (engine, rule): (Contender, Rule),
        (wall, peak): (f64, u64),
    ) -> Row {
        Row {
            part,
            engine,
            market: rule.name,
            answered: self.seconds.len(),
            failed: self.errors.len(),
            p50_seconds: percentile(&self.seconds, 50),
            p95_seconds: percentile(&self.seconds, 95),
            wall_seconds: wall,
            peak_rss_bytes: peak,
            error: self.errors.first().cloned(),
        }
    }
}

/// A column of the rows.
type Quantile = fn(&Row) -> Option<f64>;

/// Runs the experiment.
///
/// # Errors
/// When the tables cannot be loaded or an engine ends. A query that fails is counted.
pub async fn run(setting: &Setting, observe: &mut dyn FnMut(&str)) -> Result<Finding> {
    let arena = Arena::prepare(setting, "clients", observe).await?;
    let config = Config {
        scale: setting.scale,
        dram_bytes: if setting.dram_is_named { setting.engine.dram_bytes } else { DRAM_BYTES },
        threads: setting.engine.threads,
        rounds: setting.rounds.get(),
        missing: arena.missing(),
    };
    let mut rows = Vec::new();
    for contender in CONTENDERS.into_iter().filter(|contender| arena.has(*contender)) {
        observe(&format!("heavy clients on {}", contender.name()));
        rows.push(heavy(&arena, contender, &config).await?);
        for rule in rules(contender) {
            observe(&format!("short queries on {}, {}", contender.name(), rule.name));
            rows.extend(short(&arena, (contender, *rule), &config).await?);
        }
    }
    finding(&config, &rows)
}

/// Texts of the heavy queries, beginning with another one for each client.
fn heavy_texts(scale: f64, client: usize) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for (number, stress) in HEAVY_QUERIES.iter().zip(STRESS) {
        texts.extend([Query::of(*number)?.text(scale), stress.to_string()]);
    }
    let by = client % texts.len();
    texts.rotate_left(by);
    Ok(texts)
}

async fn heavy(arena: &Arena, contender: Contender, config: &Config) -> Result<Row> {
    let (peer, mut clients) = arena.start(contender, config.dram_bytes, HEAVY_CLIENTS).await?;
    if let (Some(first), Some(rule)) = (clients.first_mut(), rules(contender).first()) {
        say(first, rule.all).await?;
    }
    let began = Instant::now();
    let all = run_heavy(clients, config.scale, None).await?;
    let wall = began.elapsed().as_secs_f64();
    let rule = rules(contender).first().copied().unwrap_or(OWN);
    Ok(all.row("heavy", (contender, rule), (wall, peer.peak_resident_bytes()?)))
}

/// Runs a statement that must not fail.
async fn say(client: &mut Client, text: Option<&str>) -> Result<()> {
    let Some(text) = text else { return Ok(()) };
    match client.ask(text).await?.error {
        Some(error) => Err(BenchError::Peer(format!("{text}: {error}"))),
        None => Ok(()),
    }
}

async fn short(arena: &Arena, how: (Contender, Rule), config: &Config) -> Result<Vec<Row>> {
    let (contender, rule) = how;
    let rounds = u64::try_from(config.rounds).unwrap_or(u64::MAX);
    let time = Duration::from_secs(SHORT_SECONDS_PER_ROUND.saturating_mul(rounds));
    let (peer, mut clients) = arena.start(contender, config.dram_bytes, 1 + HEAVY_BESIDE).await?;
    let others = clients.split_off(1);
    let Some(mut client) = clients.pop() else { return Ok(Vec::new()) };
    say(&mut client, rule.all).await?;
    say(&mut client, rule.short).await?;
    // Once unmeasured, so that both parts begin with what the queries read in memory.
    run_short(&mut client, config.scale, Duration::ZERO).await?;
    let (idle, idle_wall) = run_short(&mut client, config.scale, time).await?;
    let idle_peak = peer.peak_resident_bytes()?;
    let began = Instant::now();
    let busy = run_heavy(others, config.scale, Some(began + time));
    let (beside, behind) = join(run_short(&mut client, config.scale, time), busy).await;
    let ((beside, wall), behind) = (beside?, behind?);
    let (behind_wall, peak) = (began.elapsed().as_secs_f64(), peer.peak_resident_bytes()?);
    Ok(vec![
        idle.row("idle", how, (idle_wall, idle_peak)),
        beside.row("beside", how, (wall, peak)),
        behind.row("behind", how, (behind_wall, peak)),
    ])
}

/// Runs the heavy queries on all clients at once: each once, or in turns until a moment has come.
async fn run_heavy(clients: Vec<Client>, scale: f64, stop: Option<Instant>) -> Result<Seen> {
    let work = clients.into_iter().enumerate();
    let work = work.map(|(number, client)| run_heavy_client(client, number, scale, stop));
    let mut all = Seen::default();
    for seen in join_all(work).await {
        let seen = seen?;
        all.seconds.extend(seen.seconds);
        all.errors.extend(seen.errors);
    }
    Ok(all)
}

async fn run_heavy_client(
    mut client: Client,
    number: usize,
    scale: f64,
    stop: Option<Instant>,
) -> Result<Seen> {
    let mut seen = Seen::default();
    let texts = heavy_texts(scale, number)?;
    let turns = if stop.is_some() { usize::MAX } else { 1 };
    for text in std::iter::repeat_n(&texts, turns).flatten() {
        if client.is_stuck() || stop.is_some_and(|stop| Instant::now() >= stop) {
            break;
        }
        seen.ask(&mut client, text).await?;
    }
    Ok(seen)
}

/// Runs the short queries in turns until the time is over, every query at least once.
async fn run_short(client: &mut Client, scale: f64, time: Duration) -> Result<(Seen, f64)> {
    let mut seen = Seen::default();
    let began = Instant::now();
    loop {
        for number in SHORT_QUERIES {
            seen.ask(client, &Query::of(number)?.text(scale)).await?;
        }
        if client.is_stuck() || began.elapsed() >= time {
            return Ok((seen, began.elapsed().as_secs_f64()));
        }
    }
}

fn of<'a>(rows: &'a [Row], part: &str, (engine, market): (Contender, &str)) -> Option<&'a Row> {
    rows.iter().find(|row| row.part == part && row.engine == engine && row.market == market)
}

fn summarise(rows: &[Row]) -> Summary {
    let contrast = |beside: &Row| {
        let own = (beside.engine, beside.market);
        let fair = (beside.engine, RULES[0].name);
        let heavy = rows.iter().find(|row| row.part == "heavy" && row.engine == beside.engine);
        let p95 = |part, who| of(rows, part, who).and_then(|row| row.p95_seconds);
        let rate = |who| of(rows, "behind", who).map(|row| row.answered as f64 / row.wall_seconds);
        let ratio = |over: Option<f64>, under: Option<f64>| over.zip(under).map(|(a, b)| a / b);
        Contrast {
            engine: beside.engine,
            market: beside.market,
            heavy_answered: heavy.map_or(0, |row| row.answered),
            heavy_asked: heavy.map_or(0, |row| row.answered + row.failed),
            short_p95_over_idle: ratio(beside.p95_seconds, p95("idle", own)),
            short_p95_over_fair: ratio(beside.p95_seconds, p95("beside", fair)),
            behind_over_fair: ratio(rate(own), rate(fair)),
            failed: beside.failed + of(rows, "behind", own).map_or(0, |row| row.failed),
        }
    };
    let beside = rows.iter().filter(|row| row.part == "beside");
    Summary { engines: beside.map(contrast).collect() }
}

fn finding(config: &Config, rows: &[Row]) -> Result<Finding> {
    let summary = summarise(rows);
    let own = rows.iter().filter(|row| row.engine == Contender::Terrace);
    Ok(Finding {
        failed: own.map(|row| row.failed).sum(),
        grid: grid(rows),
        notes: notes(config, rows, &summary),
        picture: picture(config, rows),
        more: Vec::new(),
        report: Report::new("clients", config, rows, &summary)?,
    })
}

/// What a part is, for people.
fn described(part: &str) -> &'static str {
    match part {
        "heavy" => "4 heavy clients",
        "idle" => "short queries alone",
        "beside" => "short beside 3 heavy",
        _ => "those 3 heavy clients",
    }
}

fn grid(rows: &[Row]) -> Grid {
    let mut grid = Grid::new([
        "clients", "engine", "market", "answered", "failed", "p50 s", "p95 s", "wall s", "resident",
    ]);
    let number = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.3}"));
    for row in rows {
        grid.push([
            described(row.part).to_string(),
            row.engine.name().to_string(),
            row.market.to_string(),
            row.answered.to_string(),
            row.failed.to_string(),
            number(row.p50_seconds),
            number(row.p95_seconds),
            format!("{:.1}", row.wall_seconds),
            format_bytes(row.peak_rss_bytes),
        ]);
    }
    grid
}

fn notes(config: &Config, rows: &[Row], summary: &Summary) -> Vec<String> {
    let errors = rows.iter().filter_map(|row| {
        let error = row.error.as_ref()?.lines().next().unwrap_or_default().to_string();
        Some(format!("{}, {}: {error}", described(row.part), row.engine.name()))
    });
    let contrasts = summary.engines.iter().map(|contrast| {
        let ratio = |ratio: Option<f64>| ratio.unwrap_or(f64::NAN);
        format!(
            "{}, {}: {} of {} heavy queries; short p95 {:.1} times idle, {:.2} of fair; heavy ones \
             beside it {:.2} of fair, {} failed",
            contrast.engine.name(),
            contrast.market,
            contrast.heavy_answered,
            contrast.heavy_asked,
            ratio(contrast.short_p95_over_idle),
            ratio(contrast.short_p95_over_fair),
            ratio(contrast.behind_over_fair),
            contrast.failed,
        )
    });
    let how = format!(
        "budget {}, {} threads, resident bytes are the most since the engine's start",
        format_bytes(config.dram_bytes),
        config.threads
    );
    errors.chain(contrasts).chain(config.missing.clone()).chain([how]).collect()
}

fn picture(config: &Config, rows: &[Row]) -> Bars {
    let who = |row: &Row| (row.engine, row.market);
    let engines = rows.iter().filter(|row| row.part == "beside").map(who);
    let parts = ["idle", "beside"];
    let quantiles: [(&str, Quantile); 2] =
        [("p50", |row| row.p50_seconds), ("p95", |row| row.p95_seconds)];
    let category = |part: &str, name: &str| format!("{}, {name}", described(part));
    Bars {
        title: format!(
            "Short TPC-H queries, scale {}, {}",
            config.scale,
            format_bytes(config.dram_bytes)
        ),
        unit: "seconds".into(),
        categories: parts
            .iter()
            .flat_map(|part| quantiles.map(|(name, _)| category(part, name)))
            .collect(),
        series: engines
            .map(|engine| Series {
                name: format!("{}, {}", engine.0.name(), engine.1),
                values: parts
                    .iter()
                    .flat_map(|part| quantiles.map(|(_, value)| value(of(rows, part, engine)?)))
                    .collect(),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(part: &'static str, seconds: &[f64], errors: usize) -> Row {
        let seen = Seen { seconds: seconds.to_vec(), errors: vec!["no memory".into(); errors] };
        seen.row(part, (Contender::Terrace, RULES[0]), (1.0, 1 << 20))
    }

    #[test]
    fn the_ratio_is_of_percentiles_and_errors_are_counted() {
        let rows = [
            row("heavy", &[1.0, 2.0], 1),
            row("idle", &[0.1, 0.2], 0),
            row("beside", &[0.3, 0.6], 0),
        ];
        let summary = summarise(&rows);
        let contrast = &summary.engines[0];
        assert_eq!((contrast.heavy_answered, contrast.heavy_asked), (2, 3));
        assert!((contrast.short_p95_over_idle.expect("a ratio") - 3.0).abs() < 1e-9);
        assert_eq!(contrast.short_p95_over_fair, Some(1.0));
        let config =
            Config { scale: 1.0, dram_bytes: 1 << 20, threads: 2, rounds: 1, missing: None };
        let finding = finding(&config, &rows).expect("finding");
        assert!(finding.notes[0].contains("no memory"), "{:?}", finding.notes);
        assert_eq!(finding.picture.series.len(), 1);
        assert_eq!(finding.picture.series[0].values.len(), finding.picture.categories.len());
    }

    #[test]
    fn clients_begin_with_different_queries() {
        let firsts: Vec<String> = (0..HEAVY_CLIENTS)
            .map(|client| heavy_texts(1.0, client).expect("texts")[0].clone())
            .collect();
        for (index, first) in firsts.iter().enumerate() {
            assert!(!firsts[..index].contains(first), "{index}");
        }
        assert_eq!(heavy_texts(1.0, 0).expect("texts").len(), 6);
    }
}
