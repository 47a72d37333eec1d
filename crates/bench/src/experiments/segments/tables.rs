//! Tables of a benchmark, which are moved to heaps and queried there.

use std::collections::BTreeMap;
use std::time::Instant;

use terrace_heap::HeapStats;
use terrace_sql::{Encoding, Engine, Session};

use super::heap_case::Visit;
use super::options::SegmentOptions;
use super::row::{Footprint, QuerySeconds, Row};
use super::sizes::engine;
use crate::error::{BenchError, Result};
use crate::setting::Setting;
use crate::suite::answer::Answer;
use crate::suite::feed::Generator;
use crate::suite::load::{load, refused};
use crate::suite::reference::{Answers, KeptAnswers, Texts};
use crate::suite::table::{Benchmark, Generated};
use crate::suite::timing::{Timed, ours};
use crate::tpcds::QUERY_COUNT;
use crate::tpcds::check::{MORE_ROWS, check as check_tpcds};
use crate::tpcds::shape::Shape;
use crate::tpcds::texts::texts as tpcds_texts;
use crate::tpch::check::{Precision, check as check_tpch};
use crate::tpch::query::Query;
use crate::{tpcds, tpch};

/// Encoding of the tables: plain, as the study encodes nothing.
pub(super) const ENCODING: Encoding = Encoding::Plain;

/// Name of the heap that tables are moved to.
const HEAP: &str = "home";

/// An engine with the tables of a benchmark at a scale.
pub(super) struct Tables {
    pub(super) benchmark: Benchmark,
    pub(super) scale: f64,
    /// Bytes of all segments.
    pub(super) data_bytes: u64,
    names: Vec<&'static str>,
    texts: Texts,
    /// Answers of the queries before the tables were moved.
    expected: KeptAnswers,
    session: Session,
    _engine: Engine,
}

impl Tables {
    /// Generates and loads the tables of one of `engines` engines, and computes the expected
    /// answers if any queries will run.
    pub(super) async fn load(
        (setting, options): (&Setting, &SegmentOptions),
        (benchmark, scale, asks): (Benchmark, f64, bool),
        engines: u64,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Tables> {
        let config = engine(setting, scale, engines);
        let engine = Engine::open(&config).map_err(refused)?;
        let generator = Generator { scale, ..setting.generator() };
        let names = match benchmark {
            Benchmark::TpcH => fill::<tpch::table::Table>(&engine, &generator, observe).await?,
            Benchmark::TpcDs => fill::<tpcds::table::Table>(&engine, &generator, observe).await?,
        };
        let texts =
            if asks { texts((setting, options), benchmark, scale).await? } else { Texts::new() };
        let session = engine.session().map_err(refused)?;
        observe("computing the answers to compare with");
        let expected = KeptAnswers::keep(answers(&session, benchmark, &texts).await?)?;
        let data_bytes = bytes(&engine);
        Ok(Tables {
            benchmark,
            scale,
            data_bytes,
            names,
            texts,
            expected,
            session,
            _engine: engine,
        })
    }

    /// Moves the tables to a new heap, runs queries, and moves the tables back.
    pub(super) async fn visit(&self, visit: &Visit) -> Result<Row> {
        let mut row = self.settle(visit).await?;
        let numbers = self.numbers();
        let mut seconds = QuerySeconds::new();
        for (number, counts) in visit.passes.runs(&numbers) {
            let timed = self.ask(number).await?;
            if counts {
                seconds.entry(number).or_default().push(timed.seconds);
                self.judge(number, &timed, &mut row);
            }
        }
        row.take(&seconds);
        self.leave().await?;
        Ok(row)
    }

    /// Moves the tables to a new heap.
    pub(super) async fn settle(&self, visit: &Visit) -> Result<Row> {
        let place = &visit.place;
        self.run(&format!("CREATE HEAP {HEAP} WITH ({})", place.options)).await?;
        let before = stats()?;
        let began = Instant::now();
        for table in &self.names {
            self.run(&format!("ALTER TABLE {table} SET TIER {HEAP}")).await?;
        }
        Ok(Row {
            figure: visit.figure,
            benchmark: self.benchmark.name(),
            scale: self.scale,
            memory: place.memory.clone(),
            case: place.case.clone(),
            round: visit.round,
            migration_seconds: began.elapsed().as_secs_f64(),
            run_seconds: 0.0,
            query_seconds: BTreeMap::new(),
            footprint: Footprint::between(&before, &stats()?),
            wrong: Vec::new(),
        })
    }

    /// Moves the tables back to the pool, by dropping the heap.
    pub(super) async fn leave(&self) -> Result<()> {
        self.run(&format!("DROP HEAP {HEAP}")).await
    }

    /// Returns the numbers of the queries.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.texts.keys().copied().collect()
    }

    async fn run(&self, text: &str) -> Result<()> {
        self.session.sql(text).await.map(drop).map_err(refused)
    }

    /// Runs a query.
    pub(super) async fn ask(&self, number: u32) -> Result<Timed> {
        ours(&self.session, &self.texts[&number]).await.map_err(|error| {
            BenchError::Engine(format!("{} {number}: {error}", self.benchmark.name()))
        })
    }

    /// Checks an answer and records the query if it is wrong.
    pub(super) fn judge(&self, number: u32, timed: &Timed, row: &mut Row) {
        if !row.wrong.contains(&number) && self.check(number, timed).is_err() {
            row.wrong.push(number);
        }
    }

    fn check(&self, number: u32, timed: &Timed) -> std::result::Result<(), String> {
        let found: Answer = timed.answer().map_err(|error| error.to_string())?;
        let expected = self.expected.get(number)?;
        match self.benchmark {
            Benchmark::TpcH => {
                let query = Query::of(number).map_err(|error| error.to_string())?;
                check_tpch(&query, Precision::Exact, &expected.answer, &found)
            }
            Benchmark::TpcDs => check_tpcds(&Shape::of(&self.texts[&number]), &expected, &found),
        }
    }
}

async fn fill<T: Generated>(
    engine: &Engine,
    generator: &Generator,
    observe: &mut dyn FnMut(&str),
) -> Result<Vec<&'static str>> {
    let loading = |table: T| observe(&format!("loading {table} at scale {}", generator.scale));
    load(engine, generator, ENCODING, loading).await?;
    Ok(T::all().iter().map(|table| table.name()).collect())
}

async fn texts(
    (setting, options): (&Setting, &SegmentOptions),
    benchmark: Benchmark,
    scale: f64,
) -> Result<Texts> {
    match benchmark {
        Benchmark::TpcH => {
            let text = |number: &u32| Ok((*number, Query::of(*number)?.text(scale)));
            setting.queries.iter().map(text).collect()
        }
        Benchmark::TpcDs => {
            let all: Vec<u32> = (1..=QUERY_COUNT).collect();
            let named = &options.tpcds_queries;
            let chosen = if named.is_empty() { &all } else { named };
            tpcds_texts(options.queries_dir.as_deref(), chosen).await
        }
    }
}

/// Computes the answers over the tables as they are; for TPC-DS with more rows than the LIMIT, to
/// detect ties.
async fn answers(session: &Session, benchmark: Benchmark, texts: &Texts) -> Result<Answers> {
    let mut answers = Answers::new();
    for (number, text) in texts {
        let text = match benchmark {
            Benchmark::TpcH => text.clone(),
            Benchmark::TpcDs => Shape::of(text).widened(MORE_ROWS),
        };
        answers.insert(*number, Ok(ours(session, &text).await?.reference()?));
    }
    Ok(answers)
}

fn bytes(engine: &Engine) -> u64 {
    let catalog = engine.catalog();
    let tables = catalog.schemas().into_iter().flat_map(|schema| catalog.tables(&schema));
    tables.map(|table| table.snapshot().extent_bytes()).sum()
}

fn stats() -> Result<HeapStats> {
    let found = terrace_heap::heaps().into_iter().rfind(|heap| heap.name == HEAP);
    found.ok_or_else(|| BenchError::Engine("the heap is gone".to_owned()))
}
