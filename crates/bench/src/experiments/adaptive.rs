//! Cost of a memory grant that shrinks and grows, for an operator that adapts to it and one that
//! does not.
//!
//! A sort and an aggregation run over the same rows under a grant that alternates between high and
//! low, and under a constant high grant (Otaki et al., CIDR 2025, section 5). An *adaptive*
//! operator requests memory before it pins pages, and unpins them when memory is reclaimed from it;
//! an *oblivious* one pins the pages that it needs without a request. The pool has frames for all
//! of the operator's state, or for half of it.
//!
//! Two things are measured: the run time, and the bytes that the operator holds beyond its grant,
//! which were promised to other consumers.

pub mod feed;

use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::execution::TaskContext;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use serde::Serialize;
use terrace_exec::sort::{Adaptivity, PagedSortExec};
use terrace_exec::{AggregateOptions, FixedMemory, PagedAggregateExec, QueryExtension};
use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig};
use terrace_store::{EngineChoice, FileBlocks, Store};
use terrace_sys::file::DirectFile;
use terrace_sys::size::{MIB, format_bytes};

use crate::error::{BenchError, Result};
use crate::experiment::{Common, Experiment};
use crate::measure::{Scratch, median};
use crate::report::{Bars, Grid, Report, Series};
use crate::setting::{Finding, Setting};
use feed::{BATCH_ROWS, Feed, ROW_BYTES, Trace, Watch};

/// Number of rows at scale factor 1.
const ROWS: f64 = 4e6;
/// Average number of rows of a group of the aggregation.
const GROUP_ROWS: u64 = 4;
/// Number of periods into which the input is divided; the grant alternates between high and low
/// from one to the next.
const PERIODS: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Operator {
    Sort,
    Aggregate,
}

#[derive(Clone, Debug, Serialize)]
struct Config {
    rows: u64,
    data_bytes: u64,
    group_rows: u64,
    periods: u64,
    rounds: usize,
}

/// Operator, size of the pool and grant of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
struct Case {
    operator: Operator,
    pool_bytes: u64,
    high_bytes: u64,
    low_bytes: u64,
}

/// Measurements of one mode in one case, over all rounds.
#[derive(Clone, Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    case: Case,
    mode: &'static str,
    seconds: Vec<f64>,
    /// Bytes held beyond the grant, sampled after each batch.
    over_mean_bytes: u64,
    over_max_bytes: u64,
    held_max_bytes: u64,
    unpinned_bytes: u64,
    error: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    rows: Vec<Line>,
}

/// Median run times of both modes in one case; the ratio is adaptive over oblivious.
#[derive(Clone, Debug, Serialize)]
struct Line {
    #[serde(flatten)]
    case: Case,
    adaptive_seconds: Option<f64>,
    oblivious_seconds: Option<f64>,
    ratio: Option<f64>,
}

const MODES: [&str; 2] = ["adaptive", "oblivious"];

/// Experiment `adaptive`: adaptive and oblivious operators under an alternating grant.
pub(crate) struct Adaptive;

impl Experiment for Adaptive {
    const NAME: &'static str = "adaptive";
    const QUESTION: &'static str = "what does a grant that shrinks and grows cost an operator?";
    const COMMON: &'static [Common] = &[Common::Scale, Common::Rounds];
    type Options = ();

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if the pool cannot be set up or an answer is wrong. An operator that fails is a row of
    /// the report.
    async fn run(setting: &Setting, (): &(), observe: &mut dyn FnMut(&str)) -> Result<Finding> {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let rows = ((ROWS * setting.scale) as u64).max(BATCH_ROWS);
        let config = Config {
            rows,
            data_bytes: rows * ROW_BYTES,
            group_rows: GROUP_ROWS,
            periods: PERIODS,
            rounds: setting.rounds.get(),
        };
        let home = Scratch::of(setting.engine.data_dir.as_deref(), "adaptive")?;
        let mut found = Vec::new();
        for case in cases(&config) {
            let mut pair = MODES.map(|mode| Row::new(case, mode));
            for round in 0..config.rounds {
                for turn in 0..MODES.len() {
                    let row = &mut pair[(round + turn) % MODES.len()];
                    observe(&format!("{}, round {}", row.title(), round + 1));
                    measure(&config, row, &home).await?;
                }
            }
            found.extend(pair);
        }
        finding(&config, &found)
    }
}

/// Returns the cases of both operators: ample memory with a constant grant, ample memory with an
/// alternating grant, and half of the memory.
fn cases(config: &Config) -> Vec<Case> {
    let data = config.data_bytes;
    let pools = [(3 * data, 2 * data, 2 * data), (3 * data, 2 * data, data / 16)];
    let tight = (data / 2 + 8 * MIB, data / 4, data / 16);
    let settings: Vec<_> = pools.into_iter().chain([tight]).collect();
    let of = |operator| {
        let case = move |(pool_bytes, high_bytes, low_bytes): &(u64, u64, u64)| Case {
            operator,
            pool_bytes: (*pool_bytes).max(16 * MIB),
            high_bytes: *high_bytes,
            low_bytes: *low_bytes,
        };
        settings.iter().map(case).collect::<Vec<_>>()
    };
    [of(Operator::Sort), of(Operator::Aggregate)].concat()
}

impl Case {
    fn grant(&self) -> String {
        let high = format_bytes(self.high_bytes);
        match self.high_bytes == self.low_bytes {
            true => high,
            false => format!("{high}, {} in turns", format_bytes(self.low_bytes)),
        }
    }

    fn operator(&self) -> &'static str {
        match self.operator {
            Operator::Sort => "sort",
            Operator::Aggregate => "aggregate",
        }
    }
}

impl Row {
    fn new(case: Case, mode: &'static str) -> Row {
        Row {
            case,
            mode,
            seconds: Vec::new(),
            over_mean_bytes: 0,
            over_max_bytes: 0,
            held_max_bytes: 0,
            unpinned_bytes: 0,
            error: None,
        }
    }

    fn title(&self) -> String {
        let pool = format_bytes(self.case.pool_bytes);
        format!("{} {}, grant {} of {pool}", self.mode, self.case.operator(), self.case.grant())
    }
}

/// Runs the operator of `row` once, in a store below `home`, and adds the measurements to `row`.
async fn measure(config: &Config, row: &mut Row, home: &Scratch) -> Result<()> {
    let scratch = Scratch::below(home.path(), "store")?;
    let pool = pool(&scratch, row.case.pool_bytes, 8 * config.data_bytes)?;
    let space = pool.create_space("operator", None).map_err(refused)?;
    let memory = FixedMemory::new(space, row.case.high_bytes);
    let trace = Trace {
        high_bytes: row.case.high_bytes,
        low_bytes: row.case.low_bytes,
        period: (config.rows / BATCH_ROWS / PERIODS).max(1),
    };
    let watch = Arc::new(Watch::new(memory.clone(), trace));
    let plan = plan(config, row, &watch).map_err(refused)?;
    let extension = Arc::new(QueryExtension(Arc::new(memory.clone())));
    let session = SessionConfig::new().with_extension(extension);
    let context = Arc::new(TaskContext::default().with_session_config(session));
    let began = Instant::now();
    match read(config, row.case.operator, &plan, context, &watch).await {
        Ok(None) => row.seconds.push(began.elapsed().as_secs_f64()),
        Ok(Some(wrong)) => return Err(BenchError::Engine(format!("{}: {wrong}", row.title()))),
        Err(error) => row.error = Some(error.to_string()),
    }
    let (mean, max) = watch.over();
    row.over_mean_bytes = row.over_mean_bytes.max(mean);
    row.over_max_bytes = row.over_max_bytes.max(max);
    row.held_max_bytes = row.held_max_bytes.max(memory.peak_bytes());
    row.unpinned_bytes = row.unpinned_bytes.max(memory.spilled_bytes());
    Ok(())
}

fn pool(scratch: &Scratch, dram_bytes: u64, store_bytes: u64) -> Result<Pool> {
    let file = DirectFile::create(&scratch.path().join("store.terrace")).map_err(refused)?;
    let blocks = FileBlocks::open(file, store_bytes, EngineChoice::Auto).map_err(refused)?;
    let store = Store::open(Arc::new(blocks), "store", store_bytes).map_err(refused)?;
    let mut config = PoolConfig::new("adaptive", Ledger::new(dram_bytes));
    config.store = Some(Arc::new(store));
    Pool::new(config).map_err(refused)
}

fn refused(error: impl std::fmt::Display) -> BenchError {
    BenchError::Engine(error.to_string())
}

type Planned = datafusion::common::Result<Arc<dyn ExecutionPlan>>;

fn plan(config: &Config, row: &Row, watch: &Arc<Watch>) -> Planned {
    let keys = match row.case.operator {
        Operator::Sort => u64::MAX >> 1,
        Operator::Aggregate => config.rows / GROUP_ROWS,
    };
    let feed = Arc::new(Feed::new(config.rows, keys, Arc::clone(watch)));
    let source = StreamingTableExec::try_new(feed::schema(), vec![feed], None, [], false, None)?;
    let oblivious = row.mode == MODES[1];
    match row.case.operator {
        Operator::Sort => {
            let key = PhysicalSortExpr::new_default(col("key", &feed::schema())?);
            let sort = SortExec::new(LexOrdering::from([key]), Arc::new(source));
            let sort = PagedSortExec::new(Arc::new(sort));
            let mode = if oblivious { Adaptivity::Oblivious } else { Adaptivity::Adaptive };
            Ok(Arc::new(sort.with_adaptivity(mode)))
        }
        Operator::Aggregate => aggregate(Arc::new(source), oblivious),
    }
}

fn aggregate(source: Arc<dyn ExecutionPlan>, oblivious: bool) -> Planned {
    let schema = feed::schema();
    let function = |function: Arc<AggregateUDF>, column: &str| {
        let builder = AggregateExprBuilder::new(function, vec![col(column, &schema)?]);
        builder.schema(Arc::clone(&schema)).alias(column).build().map(Arc::new)
    };
    let functions = vec![function(count_udaf(), "text")?, function(sum_udaf(), "value")?];
    let keys = PhysicalGroupBy::new_single(vec![(col("key", &schema)?, "key".to_owned())]);
    let none = vec![None; functions.len()];
    let mode = AggregateMode::Single;
    let stock = AggregateExec::try_new(mode, keys, functions, none, source, schema)?;
    let options = AggregateOptions { oblivious, ..AggregateOptions::default() };
    let paged = PagedAggregateExec::with_options(&Arc::new(stock), options);
    let refused = || datafusion::common::DataFusionError::Internal("not replaced".to_owned());
    Ok(Arc::new(paged.ok_or_else(refused)?))
}

/// Reads all rows and checks them. Returns a description of the error if they are wrong.
async fn read(
    config: &Config,
    operator: Operator,
    plan: &Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    watch: &Watch,
) -> datafusion::common::Result<Option<String>> {
    let mut stream = plan.execute(0, context)?;
    let (mut rows, mut sum, mut last, mut in_order) = (0, 0_i64, i64::MIN, true);
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        let numbers = |column: usize| batch.column(column).as_primitive::<Int64Type>().values();
        match operator {
            Operator::Sort => {
                rows += batch.num_rows() as u64;
                in_order &= numbers(0).first().is_none_or(|first| *first >= last);
                in_order &= numbers(0).is_sorted();
                last = numbers(0).last().copied().unwrap_or(last);
                sum = total(&batch, 1, sum);
            }
            Operator::Aggregate => {
                rows += total(&batch, 1, 0).unsigned_abs();
                sum = total(&batch, 2, sum);
            }
        }
        watch.step();
    }
    let expected: i64 = (0..config.rows).map(u64::cast_signed).sum();
    let right = rows == config.rows && sum == expected && in_order;
    Ok((!right).then(|| format!("{rows} rows of the sum {sum}, in order: {in_order}")))
}

fn total(batch: &RecordBatch, column: usize, before: i64) -> i64 {
    before + batch.column(column).as_primitive::<Int64Type>().values().iter().sum::<i64>()
}

fn summarise(rows: &[Row]) -> Summary {
    let lines = rows.chunks(MODES.len()).filter_map(|pair| {
        let seconds = |row: &Row| median(&row.seconds).filter(|_| row.error.is_none());
        let [adaptive, oblivious] = pair else { return None };
        let (adaptive_seconds, oblivious_seconds) = (seconds(adaptive), seconds(oblivious));
        let ratio = adaptive_seconds.zip(oblivious_seconds).map(|(ours, other)| ours / other);
        Some(Line { case: adaptive.case, adaptive_seconds, oblivious_seconds, ratio })
    });
    Summary { rows: lines.collect() }
}

fn finding(config: &Config, rows: &[Row]) -> Result<Finding> {
    let summary = summarise(rows);
    let titles = ["operator", "pool", "grant", "mode", "seconds", "held", "over", "unpinned"];
    let mut grid = Grid::new(titles);
    for row in rows {
        let seconds = median(&row.seconds).filter(|_| row.error.is_none());
        let over = [row.over_mean_bytes, row.over_max_bytes].map(format_bytes);
        grid.push([
            row.case.operator().to_string(),
            format_bytes(row.case.pool_bytes),
            row.case.grant(),
            row.mode.to_string(),
            seconds.map_or("failed".to_string(), |seconds| format!("{seconds:.3}")),
            format_bytes(row.held_max_bytes),
            format!("{} mean, {} most", over[0], over[1]),
            format_bytes(row.unpinned_bytes),
        ]);
    }
    let failures = rows.iter().filter_map(|row| {
        row.error.as_ref().map(|error| format!("{} failed: {error}", row.title()))
    });
    let what = format!(
        "{} rows, {}; {} rows of a group; over: bytes held beyond the grant when a batch had \
         moved; medians of {} rounds",
        config.rows,
        format_bytes(config.data_bytes),
        config.group_rows,
        config.rounds
    );
    let is_failed = |row: &&Row| row.mode == MODES[0] && row.error.is_some();
    Ok(Finding {
        failed: rows.iter().filter(is_failed).count(),
        more: Vec::new(),
        notes: failures.chain([what]).collect(),
        picture: picture(&summary),
        report: Report::new(Adaptive::NAME, config, rows, &summary)?,
        grid,
    })
}

fn picture(summary: &Summary) -> Bars {
    let category = |line: &Line| {
        let grant = if line.case.high_bytes == line.case.low_bytes { "steady" } else { "in turns" };
        let pool = format_bytes(line.case.pool_bytes);
        format!("{}, {grant}, {pool}", line.case.operator())
    };
    let series = |name: &str, value: fn(&Line) -> Option<f64>| Series {
        name: name.to_string(),
        values: summary.rows.iter().map(value).collect(),
    };
    Bars {
        title: "Operators under a grant that changes".to_string(),
        unit: "seconds".to_string(),
        categories: summary.rows.iter().map(category).collect(),
        series: vec![
            series(MODES[0], |line| line.adaptive_seconds),
            series(MODES[1], |line| line.oblivious_seconds),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_adaptive_operator_gives_back_and_an_oblivious_one_does_not() {
        let config = Config {
            rows: 60_000,
            data_bytes: 60_000 * ROW_BYTES,
            group_rows: 4,
            periods: 8,
            rounds: 1,
        };
        let home = Scratch::of(None, "adaptive-test").expect("made");
        let mut rows = Vec::new();
        for operator in [Operator::Sort, Operator::Aggregate] {
            let case =
                Case { operator, pool_bytes: 64 * MIB, high_bytes: 8 * MIB, low_bytes: MIB / 2 };
            for mode in MODES {
                let mut row = Row::new(case, mode);
                measure(&config, &mut row, &home).await.expect("measured");
                assert!(row.error.is_none(), "{row:?}");
                rows.push(row);
            }
        }
        for pair in rows.chunks(2) {
            // The bytes beyond the grant depend on the moment of each sample; the unpinned bytes do
            // not.
            assert!(pair[0].unpinned_bytes > 0 && pair[1].unpinned_bytes == 0, "{pair:?}");
        }
        let finding = finding(&config, &rows).expect("finding");
        assert_eq!((finding.report.rows.len(), finding.picture.categories.len()), (4, 2));
    }
}
