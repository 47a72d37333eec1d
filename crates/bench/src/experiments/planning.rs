//! Cost of a session, of statements that read next to nothing, and of planning TPC-H queries.
//!
//! Each figure is the time of one thread from the text of a statement to the end of its rows, or
//! for TPC-H to the physical plan. The cases alternate from run to run.

use std::num::NonZeroUsize;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use terrace_sql::{Engine, Prepared, Session};

use crate::error::{BenchError, Result};
use crate::experiment::{Common, Experiment};
use crate::measure::{median, percentile};
use crate::report::{Bars, Grid, Report, Series};
use crate::setting::{Conditions, Finding, Setting};
use crate::suite::load::{load, refused, run};
use crate::suite::run::start;
use crate::suite::timing::ours;
use crate::tpch::query::Query;
use crate::tpch::table::Table;

/// Queries that are planned unless the user names others: the joins of many tables, and
/// subqueries.
const QUERIES: [u32; 4] = [2, 5, 8, 21];

/// Number of runs that are not counted.
const WARM_UP: usize = 3;

/// Statement that computes one literal.
const ONE: &str = "SELECT 1";

/// Table of the small query, and its number of rows, as in the first scripts of sqllogictest.
const SMALL_TABLE: &str = "CREATE TABLE planning_small (a INT, b INT, c INT, d INT, e INT)";
const SMALL_ROWS: u32 = 30;

/// Query over the small table, as sqllogictest has some millions of them.
const SMALL_QUERY: &str = "SELECT CASE WHEN c > (SELECT avg(c) FROM planning_small) THEN a * 2 \
     ELSE b * 10 END, abs(b - c) FROM planning_small WHERE (e > a AND e < b) OR d > e \
     ORDER BY 1, 2";

/// Options of the experiment.
#[derive(Args, Clone, Debug)]
pub(crate) struct PlanningOptions {
    /// Number of runs of each case in a round
    #[arg(long, value_name = "N", default_value = "100")]
    runs: NonZeroUsize,
}

/// An operation whose time is measured.
#[derive(Clone, Debug)]
enum Case {
    /// A session is opened and dropped.
    Session,
    /// A statement is parsed, planned and run.
    Run { name: &'static str, text: &'static str },
    /// A statement that was prepared is planned and run.
    Prepared,
    /// A query of TPC-H is parsed and planned.
    Plan { name: String, text: String },
}

impl Case {
    fn name(&self) -> &str {
        match self {
            Case::Session => "session",
            Case::Run { name, .. } => name,
            Case::Prepared => "SELECT 1, prepared",
            Case::Plan { name, .. } => name,
        }
    }

    /// Runs the case once, and returns its seconds.
    async fn measure(&self, at: &At<'_>) -> Result<f64> {
        let began = Instant::now();
        match self {
            Case::Session => drop(at.engine.session().map_err(refused)?),
            Case::Run { text, .. } => return Ok(ours(&at.session, text).await?.seconds),
            Case::Prepared => {
                let handle = at.session.execute_prepared(&at.prepared, Vec::new()).await;
                handle.map_err(refused)?.collect().await.map_err(refused)?;
            }
            Case::Plan { text, .. } => drop(start(&at.session, text).await?),
        }
        Ok(began.elapsed().as_secs_f64())
    }
}

/// The engine, a session of it, and a statement that it has prepared.
struct At<'a> {
    engine: &'a Engine,
    session: Session,
    prepared: Prepared,
}

/// Percentiles of the times of a case, in microseconds.
#[derive(Clone, Debug, Serialize)]
struct Row {
    case: String,
    p50_us: f64,
    p99_us: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    runs: usize,
}

/// Experiment `planning`: sessions, small statements and plans.
pub(crate) struct Planning;

impl Experiment for Planning {
    const NAME: &'static str = "planning";
    const QUESTION: &'static str = "what do a session, a small statement and a plan cost?";
    const COMMON: &'static [Common] = &Common::ALL;
    type Options = PlanningOptions;

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if the tables cannot be loaded or a statement fails.
    async fn run(
        setting: &Setting,
        options: &PlanningOptions,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Finding> {
        let engine_config = setting.ample_engine();
        let engine = Engine::open(&engine_config).map_err(refused)?;
        let loading = |table: Table| observe(&format!("loading {table}"));
        let encoding = setting.encoding.unwrap_or_default();
        let loaded = load(&engine, &setting.generator(), encoding, loading).await?;
        let config = setting.conditions(&engine_config, &loaded.encoding);
        let at = prepare(&engine).await?;
        let cases = cases(setting)?;
        let mut times = vec![Vec::new(); cases.len()];
        let runs = setting.rounds.get().saturating_mul(options.runs.get());
        observe(&format!("{runs} runs of {} cases", cases.len()));
        for turn in 0..runs.saturating_add(WARM_UP) {
            for (case, times) in cases.iter().zip(&mut times) {
                let seconds = case.measure(&at).await?;
                if turn >= WARM_UP {
                    times.push(seconds * 1e6);
                }
            }
        }
        finding(&config, runs, &rows(&cases, &times)?)
    }
}

async fn prepare(engine: &Engine) -> Result<At<'_>> {
    let session = engine.session().map_err(refused)?;
    run(&session, "DROP TABLE IF EXISTS planning_small").await?;
    run(&session, SMALL_TABLE).await?;
    let row = |n: u32| {
        let numbers: Vec<_> = (0..5).map(|column| (n * 7 + column * 11) % 97).collect();
        format!("({}, {}, {}, {}, {})", numbers[0], numbers[1], numbers[2], numbers[3], numbers[4])
    };
    let values = (0..SMALL_ROWS).map(row).collect::<Vec<_>>().join(", ");
    run(&session, &format!("INSERT INTO planning_small VALUES {values}")).await?;
    let statement = session.parse(ONE).map_err(refused)?.into_iter().next();
    let statement = statement.ok_or_else(|| BenchError::input(format!("no statement in {ONE}")))?;
    let prepared = session.prepare(statement, &[]).await.map_err(refused)?;
    Ok(At { engine, session, prepared })
}

fn cases(setting: &Setting) -> Result<Vec<Case>> {
    let mut cases = vec![
        Case::Session,
        Case::Run { name: ONE, text: ONE },
        Case::Prepared,
        Case::Run { name: "small query", text: SMALL_QUERY },
    ];
    let queries = match setting.queries_are_named {
        true => setting.queries.as_slice(),
        false => &QUERIES,
    };
    for number in queries {
        let text = Query::of(*number)?.text(setting.scale);
        cases.push(Case::Plan { name: format!("plan of Q{number}"), text });
    }
    Ok(cases)
}

fn rows(cases: &[Case], times: &[Vec<f64>]) -> Result<Vec<Row>> {
    let rows = cases.iter().zip(times).map(|(case, times)| {
        let (p50_us, p99_us) = median(times).zip(percentile(times, 99))?;
        Some(Row { case: case.name().to_owned(), p50_us, p99_us })
    });
    let rows: Option<Vec<_>> = rows.collect();
    rows.ok_or_else(|| BenchError::input("no run was measured; --runs is at least 1"))
}

fn finding(config: &Conditions, runs: usize, rows: &[Row]) -> Result<Finding> {
    let mut grid = Grid::new(["case", "median us", "p99 us"]);
    for row in rows {
        grid.push([row.case.clone(), format!("{:.0}", row.p50_us), format!("{:.0}", row.p99_us)]);
    }
    let values = rows.iter().map(|row| Some(row.p50_us)).collect();
    let picture = Bars {
        title: format!("Sessions, small statements and plans, TPC-H scale {}", config.scale),
        unit: "microseconds".to_owned(),
        categories: rows.iter().map(|row| row.case.clone()).collect(),
        series: vec![Series { name: "median".to_owned(), values }],
    };
    let notes = vec![format!(
        "{runs} runs of each case, in turns; TPC-H scale {}, {} tables, {} partition(s)",
        config.scale, config.encoding, config.threads
    )];
    Ok(Finding {
        failed: 0,
        more: Vec::new(),
        grid,
        notes,
        picture,
        report: Report::new(Planning::NAME, config, rows, &Summary { runs })?,
    })
}

#[cfg(test)]
mod tests {
    use terrace_sql::EngineConfig;

    use super::*;

    #[test]
    fn medians_are_of_their_case() {
        let cases = [Case::Session, Case::Run { name: ONE, text: ONE }];
        let rows = rows(&cases, &[vec![3.0, 1.0, 2.0], vec![5.0]]).expect("rows");
        let config = Conditions {
            scale: 1.0,
            dram_bytes: 1 << 30,
            threads: 2,
            rounds: 1,
            encoding: "compact".to_owned(),
        };
        let finding = finding(&config, 3, &rows).expect("a finding");
        let text = finding.grid.to_string();
        assert!(text.contains("session  2  3") && text.contains("SELECT 1  5  5"), "{text}");
        assert!(super::rows(&cases, &[vec![], vec![]]).is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn small_cases_run() {
        let config = EngineConfig::new(64 << 20);
        let engine = Engine::open(&config).expect("open");
        let at = prepare(&engine).await.expect("prepared");
        let small = Case::Run { name: "small query", text: SMALL_QUERY };
        for case in [Case::Session, Case::Run { name: ONE, text: ONE }, Case::Prepared, small] {
            let seconds = case.measure(&at).await.expect("measured");
            assert!(seconds > 0.0, "{}", case.name());
        }
    }
}
