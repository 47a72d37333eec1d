//! TPC-H over Parquet files of S3 that are cached in the pool, compared with the same files on the
//! local disk.
//!
//! A file server in this process implements the requests of S3 that are needed. In each round its
//! files get new versions, so that the first run of the queries fetches them. Then the second run,
//! from the cache, alternates with runs over the local files, query by query; answers are compared.
//! Medians over the rounds count.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use terrace_sql::{Engine, Session};
use terrace_sys::size::format_bytes;

use crate::error::Result;
use crate::experiment::{Common, Experiment};
use crate::measure::{Scratch, geometric_mean, median};
use crate::report::{Bars, Grid, Report, Series};
use crate::setting::{Finding, Setting};
use crate::suite::export::export;
use crate::suite::file_server::{BUCKET, FileServer};
use crate::suite::load::{refused, run};
use crate::suite::table::Generated as _;
use crate::suite::timing::ours;
use crate::tpch::check::{Precision, check_runs};
use crate::tpch::query::Query;
use crate::tpch::table::Table;

/// Target for the ratio of the second run to the run over local files.
const AIM: f64 = 1.2;

/// Options of the experiment.
#[derive(Args, Clone, Debug)]
pub(crate) struct RemoteFilesOptions {
    /// Milliseconds that the server takes for each request
    #[arg(long, value_name = "MS", default_value = "20")]
    server_latency: u16,
}

#[derive(Clone, Debug, Serialize)]
struct Config {
    scale: f64,
    dram_bytes: u64,
    threads: usize,
    rounds: usize,
    server_latency_ms: u16,
}

/// Result of a query: medians, `None` if a run failed.
#[derive(Clone, Debug, Serialize)]
struct Row {
    query: u32,
    /// Fetched from the server.
    first_seconds: Option<f64>,
    /// From the cache.
    second_seconds: Option<f64>,
    /// From the local files.
    local_seconds: Option<f64>,
    /// Second run over local files.
    ratio: Option<f64>,
    error: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    first_seconds: f64,
    second_seconds: f64,
    local_seconds: f64,
    /// Sum of the second runs over that of the local ones.
    ratio: Option<f64>,
    geometric_mean: Option<f64>,
    worst: Option<f64>,
    failed: usize,
    /// Bytes that the server sent for first runs and for second runs, of all rounds.
    first_sent_bytes: u64,
    second_sent_bytes: u64,
}

/// Experiment `remote-files`: queries over cached files of S3.
pub(crate) struct RemoteFiles;

impl Experiment for RemoteFiles {
    const NAME: &'static str = "remote-files";
    const QUESTION: &'static str =
        "how fast are queries over a cached S3 bucket, beside local Parquet files?";
    const COMMON: &'static [Common] = &[Common::Scale, Common::Rounds, Common::Queries];
    type Options = RemoteFilesOptions;

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if the files cannot be written or served. A failed query is a row of the report.
    async fn run(
        setting: &Setting,
        options: &RemoteFilesOptions,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Finding> {
        let engine_config = setting.ample_engine();
        let files = Scratch::of(None, "remote-files")?;
        observe("writing Parquet files");
        export::<Table>(&setting.generator(), files.path()).await?;
        let latency = Duration::from_millis(options.server_latency.into());
        let server = FileServer::start(files.path(), latency)?;
        let engine = Engine::open(&engine_config).map_err(refused)?;
        let bench = Bench::new(&engine, &server, files.path()).await?;
        let visits = setting.queries.iter().map(|number| Visit::of(*number));
        let mut visits = visits.collect::<Result<Vec<_>>>()?;
        let mut sent = [0, 0];
        for round in 0..setting.rounds.get() {
            server.renew();
            let begun = server.sent_bytes();
            observe(&format!("round {}, first run", round + 1));
            for visit in &mut visits {
                visit.run_first(&bench, setting.scale).await;
            }
            let fetched = server.sent_bytes();
            observe(&format!("round {}, second run and local files", round + 1));
            for visit in &mut visits {
                visit.run_second(&bench, setting.scale, round).await;
            }
            sent[0] += fetched - begun;
            sent[1] += server.sent_bytes() - fetched;
        }
        let config = Config {
            scale: setting.scale,
            dram_bytes: engine_config.dram_bytes,
            threads: engine_config.threads,
            rounds: setting.rounds.get(),
            server_latency_ms: options.server_latency,
        };
        let rows: Vec<Row> = visits.into_iter().map(Visit::row).collect();
        finding(&config, &rows, sent)
    }
}

/// Sessions whose tables are views of the files.
struct Bench {
    remote: Session,
    local: Session,
}

impl Bench {
    async fn new(engine: &Engine, server: &FileServer, directory: &Path) -> Result<Self> {
        let secret = format!(
            "CREATE SECRET bench (TYPE s3, ENDPOINT '{}', USE_SSL false)",
            server.endpoint()
        );
        run(&engine.session().map_err(refused)?, &secret).await?;
        let directory = directory.display().to_string();
        let remote = session(engine, "remote", &format!("s3://{BUCKET}")).await?;
        let local = session(engine, "local", &directory).await?;
        Ok(Self { remote, local })
    }
}

/// Creates a session and a schema with a view of each table's Parquet file below `place`.
async fn session(engine: &Engine, schema: &str, place: &str) -> Result<Session> {
    let session = engine.session().map_err(refused)?;
    run(&session, &format!("CREATE SCHEMA {schema}")).await?;
    for table in Table::ALL {
        let name = table.name();
        let view = format!(
            "CREATE VIEW {schema}.{name} AS SELECT * FROM read_parquet('{}/{name}.parquet')",
            place.replace('\'', "''")
        );
        run(&session, &view).await?;
    }
    run(&session, &format!("SET search_path = {schema}")).await?;
    Ok(session)
}

/// Measurements of a query.
struct Visit {
    query: Query,
    first: Vec<f64>,
    second: Vec<f64>,
    local: Vec<f64>,
    error: Option<String>,
}

impl Visit {
    fn of(number: u32) -> Result<Self> {
        let (first, second, local, error) = Default::default();
        Ok(Self { query: Query::of(number)?, first, second, local, error })
    }

    async fn run_first(&mut self, bench: &Bench, scale: f64) {
        match ours(&bench.remote, &self.query.text(scale)).await {
            Ok(timed) => self.first.push(timed.seconds),
            Err(failure) => self.error = Some(format!("first run: {failure}")),
        }
    }

    /// Runs the query over cached and over local files; the order changes from round to round.
    async fn run_second(&mut self, bench: &Bench, scale: f64, round: usize) {
        let text = self.query.text(scale);
        let ways = [("second run", &bench.remote), ("local files", &bench.local)];
        let mut pair = [None, None];
        for turn in 0..2 {
            let way = (round + turn) % 2;
            let (name, session) = ways[way];
            match ours(session, &text).await {
                Ok(timed) => pair[way] = Some(timed),
                Err(failure) => self.error = Some(format!("{name}: {failure}")),
            }
        }
        let [Some(second), Some(local)] = pair else { return };
        if let Err(difference) = check_runs(&self.query, Precision::Exact, &local, &second) {
            self.error = Some(format!("not the answer of local files: {difference}"));
        }
        self.second.push(second.seconds);
        self.local.push(local.seconds);
    }

    fn row(self) -> Row {
        let of = |times: &[f64]| median(times).filter(|_| self.error.is_none());
        let (second_seconds, local_seconds) = (of(&self.second), of(&self.local));
        Row {
            query: self.query.number,
            first_seconds: of(&self.first),
            second_seconds,
            local_seconds,
            ratio: second_seconds.zip(local_seconds).map(|(second, local)| second / local),
            error: self.error,
        }
    }
}

fn summarise(rows: &[Row], sent: [u64; 2]) -> Summary {
    let sum = |of: fn(&Row) -> Option<f64>| rows.iter().filter_map(of).sum::<f64>();
    let ratios: Vec<f64> = rows.iter().filter_map(|row| row.ratio).collect();
    let (second, local) = (sum(|row| row.second_seconds), sum(|row| row.local_seconds));
    Summary {
        first_seconds: sum(|row| row.first_seconds),
        second_seconds: second,
        local_seconds: local,
        ratio: (local > 0.0).then(|| second / local),
        geometric_mean: geometric_mean(&ratios),
        worst: ratios.iter().copied().max_by(f64::total_cmp),
        failed: rows.iter().filter(|row| row.error.is_some()).count(),
        first_sent_bytes: sent[0],
        second_sent_bytes: sent[1],
    }
}

fn finding(config: &Config, rows: &[Row], sent: [u64; 2]) -> Result<Finding> {
    let summary = summarise(rows, sent);
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let mut grid = Grid::new(["query", "first run s", "second run s", "local files s", "ratio"]);
    for row in rows {
        let values = [row.first_seconds, row.second_seconds, row.local_seconds, row.ratio];
        let [first, second, local, ratio] = values.map(number);
        grid.push([row.query.to_string(), first, second, local, ratio]);
    }
    let failed = |row: &Row| Some(format!("query {}: {}", row.query, row.error.as_ref()?));
    let mut notes: Vec<String> = rows.iter().filter_map(failed).collect();
    let is_within = summary.ratio.is_some_and(|ratio| ratio <= AIM);
    notes.push(format!(
        "second run {:.3} s against {:.3} s over local files, {} of it, {} the aim of {AIM}; \
         ratio: geometric mean {}, worst {}; first run {:.3} s",
        summary.second_seconds,
        summary.local_seconds,
        number(summary.ratio),
        if is_within { "within" } else { "beyond" },
        number(summary.geometric_mean),
        number(summary.worst),
        summary.first_seconds,
    ));
    notes.push(format!(
        "medians of {} rounds, {} threads, budget {}, {} ms for each request; the server sent {} \
         for first runs and {} for second runs",
        config.rounds,
        config.threads,
        format_bytes(config.dram_bytes),
        config.server_latency_ms,
        format_bytes(summary.first_sent_bytes),
        format_bytes(summary.second_sent_bytes),
    ));
    Ok(Finding {
        failed: summary.failed,
        more: Vec::new(),
        grid,
        notes,
        picture: bars(config, rows),
        report: Report::new(RemoteFiles::NAME, config, rows, &summary)?,
    })
}

fn bars(config: &Config, rows: &[Row]) -> Bars {
    let series = |name: &str, of: fn(&Row) -> Option<f64>| Series {
        name: name.to_owned(),
        values: rows.iter().map(of).collect(),
    };
    Bars {
        title: format!("TPC-H scale {}, Parquet files of S3", config.scale),
        unit: "seconds".into(),
        categories: rows.iter().map(|row| format!("Q{}", row.query)).collect(),
        series: vec![
            series("first run", |row| row.first_seconds),
            series("second run", |row| row.second_seconds),
            series("local files", |row| row.local_seconds),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(number: u32, times: [f64; 3], error: Option<&str>) -> Visit {
        let [first, second, local] = times.map(|seconds| vec![seconds]);
        let error = error.map(str::to_owned);
        Visit { query: Query::of(number).expect("a query"), first, second, local, error }
    }

    #[test]
    fn the_second_run_is_compared_with_local_files() {
        let visits = [
            visit(1, [5.0, 1.1, 1.0], None),
            visit(6, [2.0, 0.5, 1.0], None),
            visit(9, [1.0, 9.0, 1.0], Some("second run: no memory")),
        ];
        let rows: Vec<Row> = visits.into_iter().map(Visit::row).collect();
        let summary = summarise(&rows, [100, 0]);
        assert_eq!((summary.failed, summary.worst), (1, Some(1.1)));
        assert_eq!((summary.first_seconds, summary.ratio), (7.0, Some(0.8)));
        let config =
            Config { scale: 1.0, dram_bytes: 1 << 30, threads: 2, rounds: 3, server_latency_ms: 5 };
        let finding = finding(&config, &rows, [100, 0]).expect("a finding");
        assert_eq!(finding.failed, 1);
        assert!(finding.notes[0].contains("query 9: second run: no memory"), "{:?}", finding.notes);
        assert!(finding.notes[1].contains("within the aim of 1.2"), "{:?}", finding.notes);
    }
}
