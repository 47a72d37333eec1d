//! Concurrent clients under one memory budget: heavy queries alone, and short queries concurrent
//! with heavy ones.
//!
//! In the first part, four clients run six heavy queries each, in different orders. In the second,
//! one client runs short queries, alone and then beside three clients that run heavy queries all
//! the time; the slow-down of the short queries is the result. Terrace runs the second part with
//! several ways to share memory: fair shares; the auction, with an SLA for the short queries; and
//! the auction with a priority as well.
//!
//! Before the parts each engine answers every query once, in a process of its own, and the complete
//! answers are compared ([`Comparison`]), with those of DataFusion too. In the parts Terrace
//! returns its answers again, which are also compared; for DuckDB only the row counts are. DuckDB
//! runs in a control group, if groups can be created, whose limit is the peak resident memory of
//! Terrace, page cache included: Terrace reads past the page cache.

mod questions;

use std::time::{Duration, Instant};

use futures::future::{join, join_all};
use serde::Serialize;
use terrace_sys::size::{GIB, format_bytes};

use crate::error::{BenchError, Result};
use crate::experiment::{Common, Experiment};
use crate::measure::{RateRatio, percentile};
use crate::peer::Reply;
use crate::peer::comparison::{Comparison, Question};
use crate::peer::engine::{Arena, Contender};
use crate::peer::process::{Client, Peer};
use crate::report::{Bars, Grid, Report, Series};
use crate::setting::{Finding, Setting};
use questions::heavy_questions;
pub(crate) use questions::short_questions;

/// Engines that are compared; Terrace first.
const CONTENDERS: [Contender; 2] = [Contender::Terrace, Contender::DuckDb];

/// Engines whose answers are compared and must be equal. DataFusion is included in case DuckDB is
/// missing.
const JUDGED: [Contender; 3] = [Contender::Terrace, Contender::DuckDb, Contender::DataFusion];

/// Memory budget of DataFusion, which is not measured and cannot answer within the budget of the
/// other engines.
const JUDGE_DRAM_BYTES: u64 = 6 * GIB;

/// Default memory budget: 500 MB.
const DRAM_BYTES: u64 = 500_000_000;

/// Number of clients that run heavy queries: in the first part, and concurrently with the short
/// queries.
const HEAVY_CLIENTS: usize = 4;
const HEAVY_BESIDE: usize = 3;

/// Run time of the short queries, per round.
const SHORT_SECONDS_PER_ROUND: u64 = 5;

/// A policy for sharing memory, and the SLA of the short queries under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    name: &'static str,
    /// Statement that selects the market, and statement that sets the SLA of the short queries'
    /// session.
    all: Option<&'static str>,
    short: Option<&'static str>,
}

/// Policy of DuckDB: its default, since it offers no choice.
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

/// Measurements of the clients of one kind in one part.
#[derive(Clone, Debug, Serialize)]
struct Row {
    /// `heavy`: four heavy clients. `idle`: short queries alone. `beside`: short queries beside
    /// heavy ones. `behind`: those heavy ones.
    part: &'static str,
    engine: Contender,
    /// Name of the policy for sharing memory.
    market: &'static str,
    answered: usize,
    failed: usize,
    p50_seconds: Option<f64>,
    p95_seconds: Option<f64>,
    /// Time from the first query to the last answer.
    wall_seconds: f64,
    peak_rss_bytes: u64,
    /// The first error.
    error: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Config {
    scale: f64,
    dram_bytes: u64,
    threads: usize,
    rounds: usize,
    /// Encoding of Terrace's tables.
    encoding: String,
    /// Description of DuckDB's memory limit in addition to its budget.
    memory_limit: String,
    /// Limit of DuckDB's control group in bytes: the peak resident memory of Terrace.
    duckdb_limit_bytes: u64,
    missing: Option<String>,
}

impl Config {
    /// Sets DuckDB's limit to the peak resident memory of Terrace, page cache included.
    fn limit_duckdb(&mut self, resident_bytes: u64, arena: &Arena) {
        self.duckdb_limit_bytes = resident_bytes.max(self.dram_bytes);
        let bytes = format_bytes(self.duckdb_limit_bytes);
        self.memory_limit = arena.memory_limit(&format!(
            "DuckDB runs in a control group of {bytes}, which terrace had resident at most"
        ));
    }

    async fn start(
        &self,
        arena: &Arena,
        contender: Contender,
        clients: usize,
    ) -> Result<(Peer, Vec<Client>)> {
        match contender {
            Contender::DuckDb => {
                let limit_bytes = self.duckdb_limit_bytes;
                arena.start_limited(contender, self.dram_bytes, clients, limit_bytes).await
            }
            _ => arena.start(contender, self.dram_bytes, clients).await,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Contrast {
    engine: Contender,
    market: &'static str,
    heavy_answered: usize,
    heavy_asked: usize,
    /// 95th percentile of the short queries beside heavy ones, relative to short queries alone.
    short_p95_over_idle: Option<f64>,
    /// The same percentile relative to fair shares.
    short_p95_over_fair: Option<f64>,
    /// Number of heavy queries answered beside the short ones, and their total time.
    behind_answered: usize,
    behind_seconds: f64,
    /// Rate of these answers relative to fair shares, with a 95 % confidence interval computed from
    /// the counts alone.
    behind_over_fair: Option<RateRatio>,
    /// Number of queries that failed in the parts.
    failed: usize,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    engines: Vec<Contrast>,
}

/// Run times, errors and answers of a client, in the order in which they arrived.
#[derive(Clone, Debug, Default)]
struct Seen {
    seconds: Vec<f64>,
    errors: Vec<String>,
    /// Answers, which are compared after the time is over.
    replies: Vec<(Question, Reply)>,
}

impl Seen {
    async fn ask(
        &mut self,
        (client, contender): (&mut Client, Contender),
        question: &Question,
    ) -> Result<()> {
        let reply = match contender.answers_untimed() {
            true => client.ask_for_answer(&question.text).await?,
            false => client.ask(&question.text).await?,
        };
        self.replies.push((question.clone(), reply.clone()));
        match reply.error {
            Some(error) => self.errors.push(error),
            None => self.seconds.push(reply.seconds),
        }
        Ok(())
    }

    fn judge(&self, contender: Contender, comparison: &mut Comparison) -> Result<()> {
        let mut replies = self.replies.iter();
        replies
            .try_for_each(|(question, reply)| comparison.judge(question, contender.name(), reply))
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

/// Accessor of a column of the rows.
type Quantile = fn(&Row) -> Option<f64>;

/// Experiment `clients`: concurrent clients of Terrace and of DuckDB.
pub(crate) struct Clients;

impl Experiment for Clients {
    const NAME: &'static str = "clients";
    const QUESTION: &'static str = "what do clients cost each other, here and in DuckDB?";
    const COMMON: &'static [Common] = &[Common::Scale, Common::Rounds, Common::Encoding];
    type Options = ();

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if the tables cannot be loaded, an engine's process ends, or two engines answer a
    /// query differently; the error names the query. A failed query is counted.
    async fn run(setting: &Setting, (): &(), observe: &mut dyn FnMut(&str)) -> Result<Finding> {
        let arena = Arena::prepare(setting, "clients", observe).await?;
        let mut config = Config {
            scale: setting.scale,
            dram_bytes: if setting.dram_is_named { setting.engine.dram_bytes } else { DRAM_BYTES },
            threads: setting.engine.threads,
            rounds: setting.rounds.get(),
            encoding: arena.encoding().to_owned(),
            memory_limit: String::new(),
            duckdb_limit_bytes: u64::MAX,
            missing: arena.missing(),
        };
        let mut rows = Vec::new();
        let mut comparison = Comparison::new(setting.scale);
        for contender in JUDGED.into_iter().filter(|contender| arena.has(*contender)) {
            observe(&format!("answers of {}", contender.name()));
            answers(&arena, contender, &config, &mut comparison).await?;
        }
        for contender in CONTENDERS.into_iter().filter(|contender| arena.has(*contender)) {
            observe(&format!("heavy clients on {}", contender.name()));
            rows.push(heavy(&arena, contender, &config, &mut comparison).await?);
            for rule in rules(contender) {
                observe(&format!("short queries on {}, {}", contender.name(), rule.name));
                rows.extend(short(&arena, (contender, *rule), &config, &mut comparison).await?);
            }
            if contender == Contender::Terrace {
                let resident = rows.iter().map(|row: &Row| row.peak_rss_bytes).max();
                config.limit_duckdb(resident.unwrap_or_default(), &arena);
            }
        }
        finding(&config, &rows)
    }
}

/// Runs every query once on an engine and compares the answers; nothing is measured.
async fn answers(
    arena: &Arena,
    contender: Contender,
    config: &Config,
    comparison: &mut Comparison,
) -> Result<()> {
    let is_measured = CONTENDERS.contains(&contender);
    let dram_bytes = if is_measured { config.dram_bytes } else { JUDGE_DRAM_BYTES };
    let (_peer, mut clients) = arena.start(contender, dram_bytes, 1).await?;
    let Some(client) = clients.first_mut() else { return Ok(()) };
    let heavy = heavy_questions(config.scale, 0)?;
    for question in heavy.iter().chain(&short_questions(config.scale)?) {
        let reply = client.ask_for_answer(&question.text).await?;
        comparison.judge(question, contender.name(), &reply)?;
    }
    Ok(())
}

async fn heavy(
    arena: &Arena,
    contender: Contender,
    config: &Config,
    comparison: &mut Comparison,
) -> Result<Row> {
    let (peer, mut clients) = config.start(arena, contender, HEAVY_CLIENTS).await?;
    if let (Some(first), Some(rule)) = (clients.first_mut(), rules(contender).first()) {
        say(first, rule.all).await?;
    }
    let began = Instant::now();
    let all = run_heavy((clients, contender), config.scale, None).await?;
    let wall = began.elapsed().as_secs_f64();
    all.judge(contender, comparison)?;
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

async fn short(
    arena: &Arena,
    how: (Contender, Rule),
    config: &Config,
    comparison: &mut Comparison,
) -> Result<Vec<Row>> {
    let (contender, rule) = how;
    let rounds = u64::try_from(config.rounds).unwrap_or(u64::MAX);
    let time = Duration::from_secs(SHORT_SECONDS_PER_ROUND.saturating_mul(rounds));
    let (peer, mut clients) = config.start(arena, contender, 1 + HEAVY_BESIDE).await?;
    let others = clients.split_off(1);
    let Some(client) = clients.pop() else { return Ok(Vec::new()) };
    let mut client = client;
    say(&mut client, rule.all).await?;
    say(&mut client, rule.short).await?;
    // One pass that is not measured, so that both parts start with the data of the queries in
    // memory.
    run_short((&mut client, contender), config.scale, Duration::ZERO).await?;
    let (idle, idle_wall) = run_short((&mut client, contender), config.scale, time).await?;
    let idle_peak = peer.peak_resident_bytes()?;
    let began = Instant::now();
    let busy = run_heavy((others, contender), config.scale, Some(began + time));
    let asked = run_short((&mut client, contender), config.scale, time);
    let (beside, behind) = join(asked, busy).await;
    let ((beside, wall), behind) = (beside?, behind?);
    let (behind_wall, peak) = (began.elapsed().as_secs_f64(), peer.peak_resident_bytes()?);
    [&idle, &beside, &behind].into_iter().try_for_each(|seen| seen.judge(contender, comparison))?;
    Ok(vec![
        idle.row("idle", how, (idle_wall, idle_peak)),
        beside.row("beside", how, (wall, peak)),
        behind.row("behind", how, (behind_wall, peak)),
    ])
}

/// Runs the heavy queries on all clients concurrently: each query once, or repeatedly until `stop`.
async fn run_heavy(
    (clients, contender): (Vec<Client>, Contender),
    scale: f64,
    stop: Option<Instant>,
) -> Result<Seen> {
    let work = clients.into_iter().enumerate();
    let work =
        work.map(|(number, client)| run_heavy_client((client, contender), number, scale, stop));
    let mut all = Seen::default();
    for seen in join_all(work).await {
        let seen = seen?;
        all.seconds.extend(seen.seconds);
        all.errors.extend(seen.errors);
        all.replies.extend(seen.replies);
    }
    Ok(all)
}

async fn run_heavy_client(
    (mut client, contender): (Client, Contender),
    number: usize,
    scale: f64,
    stop: Option<Instant>,
) -> Result<Seen> {
    let mut seen = Seen::default();
    let questions = heavy_questions(scale, number)?;
    let turns = if stop.is_some() { usize::MAX } else { 1 };
    for question in std::iter::repeat_n(&questions, turns).flatten() {
        if client.is_stuck() || stop.is_some_and(|stop| Instant::now() >= stop) {
            break;
        }
        seen.ask((&mut client, contender), question).await?;
    }
    Ok(seen)
}

/// Runs the short queries one after the other, repeatedly for `time` but each at least once.
/// Returns the results and the elapsed seconds.
async fn run_short(
    (client, contender): (&mut Client, Contender),
    scale: f64,
    time: Duration,
) -> Result<(Seen, f64)> {
    let mut seen = Seen::default();
    let questions = short_questions(scale)?;
    let began = Instant::now();
    loop {
        for question in &questions {
            seen.ask((client, contender), question).await?;
        }
        if client.is_stuck() || began.elapsed() >= time {
            return Ok((seen, began.elapsed().as_secs_f64()));
        }
    }
}

/// Returns the rate of the first row's answers over that of the second row.
fn rate_ratio((row, fair): (&Row, &Row)) -> Option<RateRatio> {
    RateRatio::of([row, fair].map(|row| (row.answered, row.wall_seconds)))
}

fn of<'a>(rows: &'a [Row], part: &str, (engine, market): (Contender, &str)) -> Option<&'a Row> {
    rows.iter().find(|row| row.part == part && row.engine == engine && row.market == market)
}

fn summarise(rows: &[Row]) -> Summary {
    let contrast = |beside: &Row| {
        let own = (beside.engine, beside.market);
        let fair = (beside.engine, RULES[0].name);
        let behind = of(rows, "behind", own);
        let heavy = rows.iter().find(|row| row.part == "heavy" && row.engine == beside.engine);
        let p95 = |part, who| of(rows, part, who).and_then(|row| row.p95_seconds);
        let ratio = |over: Option<f64>, under: Option<f64>| over.zip(under).map(|(a, b)| a / b);
        Contrast {
            engine: beside.engine,
            market: beside.market,
            heavy_answered: heavy.map_or(0, |row| row.answered),
            heavy_asked: heavy.map_or(0, |row| row.answered + row.failed),
            short_p95_over_idle: ratio(beside.p95_seconds, p95("idle", own)),
            short_p95_over_fair: ratio(beside.p95_seconds, p95("beside", fair)),
            behind_answered: behind.map_or(0, |row| row.answered),
            behind_seconds: behind.map_or(0.0, |row| row.wall_seconds),
            behind_over_fair: behind.zip(of(rows, "behind", fair)).and_then(rate_ratio),
            failed: beside.failed + behind.map_or(0, |row| row.failed),
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
        report: Report::new(Clients::NAME, config, rows, &summary)?,
    })
}

/// Returns the description of a part in the table.
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
             beside it: {} answers in {:.1} s, {} of the rate of fair; {} failed",
            contrast.engine.name(),
            contrast.market,
            contrast.heavy_answered,
            contrast.heavy_asked,
            ratio(contrast.short_p95_over_idle),
            ratio(contrast.short_p95_over_fair),
            contrast.behind_answered,
            contrast.behind_seconds,
            contrast.behind_over_fair.map_or("-".to_owned(), |ratio| ratio.to_string()),
            contrast.failed,
        )
    });
    let how = format!(
        "budget {}, {} tables, {} threads, resident bytes are the most since the engine's start; \
         all answers are the same",
        format_bytes(config.dram_bytes),
        config.encoding,
        config.threads
    );
    let limit = format!("memory: {}", config.memory_limit);
    errors.chain(contrasts).chain(config.missing.clone()).chain([how, limit]).collect()
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
            "Short TPC-H queries, scale {}, {} tables, {}",
            config.scale,
            config.encoding,
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
        let seen = Seen {
            seconds: seconds.to_vec(),
            errors: vec!["no memory".into(); errors],
            ..Seen::default()
        };
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
            Config { dram_bytes: 1 << 20, encoding: "compact".into(), ..Config::default() };
        let finding = finding(&config, &rows).expect("finding");
        assert!(finding.notes[0].contains("no memory"), "{:?}", finding.notes);
        assert_eq!(finding.picture.series.len(), 1);
        assert_eq!(finding.picture.series[0].values.len(), finding.picture.categories.len());
    }
}
