//! What does it cost to keep tables in a heap, and does it matter how the heap takes memory?
//!
//! TPC-H over plain tables whose segments are all moved to a heap: in DRAM; over a file of which
//! all may be in DRAM; and over a file of which a fifth may, by blocks of several sizes, with an
//! arena that keeps what is freed or gives it back, and with its metadata in DRAM or beside the
//! data. Placements take turns in each round: the tables move there, and each query runs twice, of
//! which the second time counts.
//!
//! This is section IV.B to IV.E of Weisgut et al. (2022): figures 5, 6, 7a and 7b.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;
use terrace_heap::HeapStats;
use terrace_sql::{Encoding, Engine, EngineConfig, Session};
use terrace_sys::size::format_bytes;

use crate::chart::{Bars, Series};
use crate::error::{BenchError, Result};
use crate::experiment::{Conditions, Finding, Setting};
use crate::grid::Grid;
use crate::report::Report;
use crate::statistic::median;
use crate::suite::load::{load, refused};
use crate::suite::table::Generated;
use crate::timing::{Timed, ours};
use crate::tpch::query::Query;
use crate::tpch::table::Table;

const BLOCKS: [&str; 4] = ["64KiB", "256KiB", "1MiB", "2MiB"];
/// The paper's best, which its other experiments use.
const BLOCK: &str = "256KiB";
/// One part in so many of the data may be in DRAM.
const CAP_SHARE: u64 = 5;
/// What the paper found: metadata's share of TPC-H (fig. 6), and the changes of run and migration
/// time by separation (fig. 7a, 7b), at the least and at the most.
const PUBLISHED: Published =
    Published { metadata_share: 0.0035, run_change: [-0.02, 0.02], move_change: [-0.018, 0.028] };
/// What memory over a file may cost where everything fits.
const FITTING_TARGET: f64 = 1.02;

#[derive(Clone, Copy, Debug, Serialize)]
struct Published {
    metadata_share: f64,
    run_change: [f64; 2],
    move_change: [f64; 2],
}

/// Where the tables are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Place {
    name: String,
    /// The options of the heap.
    options: String,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    round: usize,
    place: String,
    migration_seconds: f64,
    /// The sum over the queries.
    run_seconds: f64,
    small_bytes: u64,
    large_bytes: u64,
    metadata_bytes: u64,
    taken_bytes: u64,
    /// Queries whose answers are not those of the placement that came first.
    wrong: Vec<u32>,
}

/// Medians of the rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Line {
    place: String,
    migration_seconds: f64,
    run_seconds: f64,
    /// Over the tables in DRAM.
    over_dram: f64,
    data_bytes: u64,
    metadata_bytes: u64,
    taken_bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    data_bytes: u64,
    lines: Vec<Line>,
    /// Separate over together, less one.
    run_change: f64,
    migration_change: f64,
    metadata_share: f64,
    fitting: f64,
    published: Published,
    fitting_target: f64,
}

/// The placements; the first one is what the others are compared with.
fn places(data_bytes: u64) -> Vec<Place> {
    let size = format!("size = '{}'", 4 * data_bytes + (256 << 20));
    let cap = (data_bytes / CAP_SHARE).max(16 << 20);
    let far = |name: String, dram: u64, block: &str, rest: &str| Place {
        name,
        options: format!("memory = 'file', {size}, dram = '{dram}', block = '{block}', {rest}"),
    };
    let mut places = vec![Place { name: "dram".into(), options: size.clone() }];
    places.push(far("fitting".into(), 2 * data_bytes, BLOCK, "retain = 'on'"));
    for block in BLOCKS {
        for retain in ["on", "off"] {
            let rest = format!("retain = '{retain}'");
            places.push(far(format!("{block}, retain {retain}"), cap, block, &rest));
        }
    }
    let together = "retain = 'off', metadata = 'together'";
    places.push(far("together".into(), cap, BLOCK, together));
    places
}

/// The placement whose metadata are separate and that is otherwise as "together".
fn separate() -> String {
    format!("{BLOCK}, retain off")
}

/// Runs the experiment.
///
/// # Errors
/// When the tables cannot be loaded or moved; a query with a wrong answer is counted.
pub async fn run(setting: &Setting, observe: &mut dyn FnMut(&str)) -> Result<Finding> {
    let mut config = setting.ample_engine();
    // The heap in DRAM and operators, beside the pool.
    config.dram_bytes =
        if setting.dram_is_named { config.dram_bytes } else { 2 * config.dram_bytes };
    let conditions = setting.conditions(&config);
    let (engine, session) = prepare(&config, setting, observe).await?;
    let data_bytes = bytes(&engine);
    let places = places(data_bytes);
    let mut rows: Vec<Row> = Vec::new();
    for round in 0..setting.rounds.get() {
        let mut answers = BTreeMap::new();
        // No placement is always the one after the same other one.
        let turns = places.iter().cycle().skip(round * 3).take(places.len());
        for place in turns {
            observe(&format!("{}, round {}", place.name, round + 1));
            let row = measure(setting, &session, place, round, &mut answers).await?;
            rows.push(row);
        }
    }
    drop(engine);
    finding(&conditions, &rows, &places, data_bytes)
}

async fn prepare(
    config: &EngineConfig,
    setting: &Setting,
    observe: &mut dyn FnMut(&str),
) -> Result<(Engine, Session)> {
    let engine = Engine::open(config).map_err(refused)?;
    let loading = |table: Table| observe(&format!("loading {table}"));
    load(&engine, &setting.generator(), Encoding::Plain, loading).await?;
    let session = engine.session().map_err(refused)?;
    Ok((engine, session))
}

/// Bytes of all segments.
fn bytes(engine: &Engine) -> u64 {
    let catalog = engine.catalog();
    let tables = catalog.schemas().into_iter().flat_map(|schema| catalog.tables(&schema));
    tables.map(|table| table.snapshot().extent_bytes()).sum()
}

async fn statement(session: &Session, text: &str) -> Result<()> {
    session.sql(text).await.map(drop).map_err(refused)
}

/// Moves the tables to a place, runs the queries, and moves the tables back.
async fn measure(
    setting: &Setting,
    session: &Session,
    place: &Place,
    round: usize,
    answers: &mut BTreeMap<u32, Timed>,
) -> Result<Row> {
    statement(session, &format!("CREATE HEAP home WITH ({})", place.options)).await?;
    let began = Instant::now();
    for table in Table::all() {
        statement(session, &format!("ALTER TABLE {} SET TIER home", table.name())).await?;
    }
    let migration_seconds = began.elapsed().as_secs_f64();
    let held = stats()?;
    let (mut run_seconds, mut wrong) = (0.0, Vec::new());
    for number in &setting.queries {
        let query = Query::of(*number)?;
        let text = query.text(setting.scale);
        ours(session, &text).await?;
        let timed = ours(session, &text).await?;
        run_seconds += timed.seconds;
        match answers.get(number) {
            Some(expected) if timed.compare(&query, expected).is_err() => wrong.push(*number),
            Some(_) => {}
            None => drop(answers.insert(*number, timed)),
        }
    }
    statement(session, "DROP HEAP home").await?;
    Ok(Row {
        round,
        place: place.name.clone(),
        migration_seconds,
        run_seconds,
        small_bytes: held.small_bytes,
        large_bytes: held.large_bytes,
        metadata_bytes: held.metadata_bytes,
        taken_bytes: held.taken_bytes,
        wrong,
    })
}

fn stats() -> Result<HeapStats> {
    let found = terrace_heap::heaps().into_iter().find(|heap| heap.name == "home");
    found.ok_or_else(|| BenchError::Engine("the heap is gone".to_owned()))
}

fn line(rows: &[Row], place: &Place, dram: f64) -> Line {
    let mine = || rows.iter().filter(|row| row.place == place.name);
    let mid = |of: fn(&Row) -> f64| median(&mine().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN);
    let most = |of: fn(&Row) -> u64| mine().map(of).max().unwrap_or(0);
    let run_seconds = mid(|row| row.run_seconds);
    Line {
        place: place.name.clone(),
        migration_seconds: mid(|row| row.migration_seconds),
        run_seconds,
        over_dram: run_seconds / dram,
        data_bytes: most(|row| row.small_bytes + row.large_bytes),
        metadata_bytes: most(|row| row.metadata_bytes),
        taken_bytes: most(|row| row.taken_bytes),
    }
}

fn summarise(rows: &[Row], places: &[Place], data_bytes: u64) -> Summary {
    let dram = places.first().map_or(f64::NAN, |first| line(rows, first, 1.0).run_seconds);
    let lines: Vec<Line> = places.iter().map(|place| line(rows, place, dram)).collect();
    let of = |name: &str| lines.iter().find(|line| line.place == name);
    let change = |what: fn(&Line) -> f64| match (of(&separate()), of("together")) {
        (Some(separate), Some(together)) => what(separate) / what(together) - 1.0,
        _ => f64::NAN,
    };
    let share = |line: &Line| line.metadata_bytes as f64 / line.data_bytes as f64;
    Summary {
        data_bytes,
        run_change: change(|line| line.run_seconds),
        migration_change: change(|line| line.migration_seconds),
        metadata_share: of(&separate()).map_or(f64::NAN, share),
        fitting: of("fitting").map_or(f64::NAN, |line| line.over_dram),
        published: PUBLISHED,
        fitting_target: FITTING_TARGET,
        lines,
    }
}

fn finding(
    conditions: &Conditions,
    rows: &[Row],
    places: &[Place],
    data_bytes: u64,
) -> Result<Finding> {
    let summary = summarise(rows, places, data_bytes);
    Ok(Finding {
        failed: rows.iter().map(|row| row.wrong.len()).sum(),
        more: Vec::new(),
        notes: notes(conditions, rows, &summary),
        picture: picture(conditions, &summary),
        report: Report::new("segments", conditions, rows, &summary)?,
        grid: grid(&summary),
    })
}

fn grid(summary: &Summary) -> Grid {
    let mut grid =
        Grid::new(["place", "moved in s", "run in s", "over dram", "data", "metadata", "taken"]);
    for line in &summary.lines {
        grid.push([
            line.place.clone(),
            format!("{:.2}", line.migration_seconds),
            format!("{:.2}", line.run_seconds),
            format!("{:.2}", line.over_dram),
            format_bytes(line.data_bytes),
            format_bytes(line.metadata_bytes),
            format_bytes(line.taken_bytes),
        ]);
    }
    grid
}

fn percent(change: f64) -> String {
    format!("{:+.1} %", change * 100.0)
}

fn notes(conditions: &Conditions, rows: &[Row], summary: &Summary) -> Vec<String> {
    let wrong = rows.iter().filter(|row| !row.wrong.is_empty());
    let mut notes: Vec<String> =
        wrong.map(|row| format!("{}: wrong answers of {:?}", row.place, row.wrong)).collect();
    let Published { metadata_share, run_change, move_change } = summary.published;
    let (runs, moves) = (run_change.map(percent), move_change.map(percent));
    notes.extend([
        format!(
            "all of it in DRAM, over a file: {:.3} of the time in DRAM, target {FITTING_TARGET}",
            summary.fitting
        ),
        format!(
            "metadata apart over together: run {} (published {} to {}), migration {} (published \
             {} to {})",
            percent(summary.run_change),
            runs[0],
            runs[1],
            percent(summary.migration_change),
            moves[0],
            moves[1],
        ),
        format!(
            "metadata are {:.2} % of the data (published {:.2} %)",
            summary.metadata_share * 100.0,
            metadata_share * 100.0
        ),
        format!(
            "scale {}, {} of segments, a fifth of them in DRAM at most; {} threads, medians of {} \
             rounds",
            conditions.scale,
            format_bytes(summary.data_bytes),
            conditions.threads,
            conditions.rounds
        ),
    ]);
    notes
}

fn picture(conditions: &Conditions, summary: &Summary) -> Bars {
    let of = |suffix: &str| Series {
        name: format!("retain {suffix}"),
        values: BLOCKS
            .iter()
            .map(|block| {
                let name = format!("{block}, retain {suffix}");
                let line = summary.lines.iter().find(|line| line.place == name);
                line.map(|line| line.over_dram)
            })
            .collect(),
    };
    Bars {
        title: format!("TPC-H scale {}, a fifth of the data in DRAM", conditions.scale),
        unit: "time over that in DRAM".into(),
        categories: BLOCKS.map(str::to_owned).to_vec(),
        series: vec![of("on"), of("off")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_compared_with_dram() {
        let places = places(1000 << 20);
        assert_eq!(places.len(), 2 + 2 * BLOCKS.len() + 1);
        assert!(places[2].options.contains("dram = '209715200'"), "{}", places[2].options);
        let row = |round, place: &Place, run_seconds| Row {
            round,
            place: place.name.clone(),
            migration_seconds: 2.0,
            run_seconds,
            small_bytes: 100,
            large_bytes: 900,
            metadata_bytes: 5,
            taken_bytes: 1100,
            wrong: vec![],
        };
        let seconds = |name: &str| match name {
            "dram" => 1.0,
            "fitting" => 1.01,
            "together" => 4.0,
            _ => 3.0,
        };
        let rows: Vec<Row> = (0..3)
            .flat_map(|round| places.iter().map(move |place| (round, place)))
            .map(|(round, place)| row(round, place, seconds(&place.name)))
            .collect();
        let summary = summarise(&rows, &places, 1000);
        assert!((summary.run_change + 0.25).abs() < 1e-9, "{}", summary.run_change);
        assert!(summary.migration_change.abs() < 1e-9);
        assert!((summary.fitting - 1.01).abs() < 1e-9);
        assert!((summary.metadata_share - 0.005).abs() < 1e-9);
        let conditions = Conditions { scale: 1.0, dram_bytes: 1, threads: 2, rounds: 3 };
        assert_eq!(picture(&conditions, &summary).series[1].values[1], Some(3.0));
        assert!(notes(&conditions, &rows, &summary)[1].contains("run -25.0 %"));
        assert!(grid(&summary).to_string().contains("together"));
    }
}
