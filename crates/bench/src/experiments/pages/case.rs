//! Case of an experiment over pages: one run of a workload.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde::Serialize;
use terrace_ledger::Ledger;
use terrace_pool::{Placement, Policy, Pool, PoolConfig};
use terrace_store::{Label, Lifetime};
use terrace_sys::probe::Probe;
use terrace_sys::process::cpu_time;
use terrace_tier::TierSpec;
use terrace_workload::driver::{self, Length, Report, RunConfig, Workload};
use terrace_workload::random_read::{RandomRead, RandomReadConfig};
use terrace_workload::tpcc::{Scale, Tpcc, TpccConfig};
use terrace_workload::ycsb::{Mix, Popularity, Ycsb, YcsbConfig};

use crate::error::{BenchError, Result};

/// Bytes of a page of a tree.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Bytes of a record of YCSB, without its key.
const RECORD_BYTES: usize = 100;
const SEED: u64 = 1;

/// A workload and its size.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Load {
    Tpcc {
        warehouses: u32,
    },
    RandomRead {
        tuples: u64,
        batch: usize,
    },
    /// YCSB with Zipf skew `theta`; the set of popular records changes every `shift_seconds`.
    Ycsb {
        mix: Mix,
        records: u64,
        theta: f64,
        shift_seconds: Option<f64>,
    },
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::Tpcc { warehouses } => write!(f, "TPC-C, {warehouses} warehouses"),
            Load::RandomRead { tuples, batch: 1 } => write!(f, "random read, {tuples} tuples"),
            Load::RandomRead { tuples, batch } => {
                write!(f, "random read, {tuples} tuples, {batch} at a time")
            }
            Load::Ycsb { mix, records, theta, shift_seconds } => {
                write!(f, "YCSB-{mix:?}, {records} records, theta {theta}")?;
                shift_seconds.map_or(Ok(()), |s| write!(f, ", others popular every {s} s"))
            }
        }
    }
}

/// A case: workload, memory, and duration.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) load: Load,
    pub(crate) dram_bytes: u64,
    /// Memory tiers below DRAM.
    pub(crate) tiers: Vec<TierSpec>,
    /// Store given by the user; otherwise a file in the directory of the run.
    pub(crate) store: Option<TierSpec>,
    pub(crate) placement: Placement,
    pub(crate) policy: Policy,
    pub(crate) threads: usize,
    pub(crate) warm_up_seconds: f64,
    pub(crate) seconds: f64,
}

/// Measurements of a run.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) figures: Figures,
    pub(crate) report: Report,
}

/// Figures of a run, as in reports.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) workload: String,
    pub(crate) placement: &'static str,
    pub(crate) policy: String,
    pub(crate) dram_bytes: u64,
    pub(crate) tiers: Vec<String>,
    pub(crate) threads: usize,
    pub(crate) per_second: f64,
    /// Percentiles of the latency of a step in microseconds.
    pub(crate) p50_us: f64,
    pub(crate) p95_us: f64,
    pub(crate) p99_us: f64,
    /// Bytes of pages in each memory tier at the end.
    pub(crate) resident_bytes: Vec<u64>,
    pub(crate) loads_per_second: f64,
    pub(crate) writes_per_second: f64,
    pub(crate) promoted: u64,
    pub(crate) demoted: u64,
    pub(crate) evicted: u64,
    /// Processor seconds per second of the run.
    pub(crate) processors: f64,
}

/// Loaded data of a workload, ready to run.
pub(crate) trait Ready {
    /// Runs the workload for the duration of its case, after a warm-up of `warm_up_seconds`.
    ///
    /// # Errors
    /// Fails if the workload fails.
    fn measure(&self, warm_up_seconds: f64, observe: &mut dyn FnMut(&str)) -> Result<Measured>;

    /// Checks that the data are consistent after the run.
    ///
    /// # Errors
    /// Fails if the data are inconsistent.
    fn check(&self, observe: &mut dyn FnMut(&str)) -> Result<()>;
}

struct Loaded<W> {
    case: Case,
    workload: W,
    check: fn(&W) -> Result<()>,
    // Fields are dropped in this order, so that the store's file is removed after the pool is
    // closed.
    pool: Pool,
    _own_store: OwnStore,
}

/// File of a store that the user did not give, removed on drop: the next run creates its own.
struct OwnStore(Option<PathBuf>);

impl Drop for OwnStore {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            // A file that remains is removed with the directory.
            let _ = std::fs::remove_file(file);
        }
    }
}

impl<W: Workload> Ready for Loaded<W> {
    fn measure(&self, warm_up_seconds: f64, observe: &mut dyn FnMut(&str)) -> Result<Measured> {
        let Case { load, placement, .. } = &self.case;
        observe(&format!("{load}, {placement}: running"));
        let config = RunConfig {
            threads: self.case.threads,
            warm_up: Duration::from_secs_f64(warm_up_seconds),
            length: Length::Time(Duration::from_secs_f64(self.case.seconds)),
            interval: Duration::from_secs(1),
        };
        let (began, busy) = (Instant::now(), cpu_time());
        let stop = AtomicBool::new(false);
        let report = driver::run(&self.workload, &self.pool, &config, &stop, &mut |sample| {
            observe(&format!("{load}: {:.0}/s", sample.per_second()));
        })
        .map_err(refused)?;
        let busy = (cpu_time() - busy).as_secs_f64();
        let processors = busy / began.elapsed().as_secs_f64();
        Ok(Measured { figures: self.case.figures(&report, processors), report })
    }

    fn check(&self, observe: &mut dyn FnMut(&str)) -> Result<()> {
        observe(&format!("{}: checking consistency", self.case.load));
        (self.check)(&self.workload)
    }
}

impl Case {
    /// Loads the data and runs the workload; `home` is the directory of the store if the user gave
    /// none.
    ///
    /// # Errors
    /// Fails if the pool cannot be set up, the workload fails, or its data are inconsistent.
    pub(crate) fn run(&self, home: &Path, observe: &mut dyn FnMut(&str)) -> Result<Measured> {
        let ready = self.prepare(home, "pages", observe)?;
        let measured = ready.measure(self.warm_up_seconds, observe)?;
        ready.check(observe)?;
        Ok(measured)
    }

    /// Creates the pool and loads the data; `name` is the file name of the store in `home` if the
    /// user gave none.
    ///
    /// # Errors
    /// As [`Case::run`].
    pub(crate) fn prepare(
        &self,
        home: &Path,
        name: &str,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Box<dyn Ready>> {
        let own_store = OwnStore(self.store.is_none().then(|| home.join(name)));
        let pool = self.open(&home.join(name))?;
        observe(&format!("{}, {}: making the data", self.load, self.placement));
        match self.load {
            Load::Tpcc { warehouses } => {
                let config = TpccConfig {
                    scale: Scale::specified(warehouses),
                    load_threads: self.threads,
                    read_ahead: false,
                    page_bytes: PAGE_BYTES,
                    seed: SEED,
                };
                let tpcc = Tpcc::load(&pool, &config, |_| {}).map_err(refused)?;
                let check = |tpcc: &Tpcc| tpcc.check().map(drop).map_err(refused);
                self.loaded(pool, tpcc, check, own_store, observe)
            }
            Load::RandomRead { tuples, batch } => {
                let config = RandomReadConfig { tuples, batch, page_bytes: PAGE_BYTES, seed: SEED };
                let tuples = RandomRead::load(&pool, config, |_| {}).map_err(refused)?;
                self.loaded(pool, tuples, |_| Ok(()), own_store, observe)
            }
            Load::Ycsb { mix, records, theta, shift_seconds } => {
                let popularity = match theta {
                    0.0 => Popularity::Uniform,
                    theta => Popularity::Zipf(theta),
                };
                let config = YcsbConfig {
                    records,
                    record_bytes: RECORD_BYTES,
                    mix,
                    popularity,
                    shift: shift_seconds.map(Duration::from_secs_f64),
                    page_bytes: PAGE_BYTES,
                    seed: SEED,
                };
                let ycsb = Ycsb::load(&pool, config, |_| {}).map_err(refused)?;
                self.loaded(pool, ycsb, |_| Ok(()), own_store, observe)
            }
        }
    }

    fn open(&self, file: &Path) -> Result<Pool> {
        let probe = Probe::detect();
        let mut config = PoolConfig::new("pages", Ledger::new(self.dram_bytes));
        for spec in &self.tiers {
            spec.validate(&probe).map_err(refused)?;
            config.memory.extend(spec.memory_tier(&probe).map_err(refused)?);
        }
        let own = TierSpec::file(file, None);
        let store = self.store.as_ref().unwrap_or(&own);
        if let Some(store) = store.open_store().map_err(refused)? {
            // The store is temporary, so that the next run may reuse the file.
            store.settle(Label { id: 0, lifetime: Lifetime::Temporary }).map_err(refused)?;
            config.store = Some(Arc::new(store));
        }
        config.placement = self.placement;
        config.residency = self.policy.residency();
        Pool::new(config).map_err(refused)
    }

    fn loaded<W: Workload + 'static>(
        &self,
        pool: Pool,
        workload: W,
        check: fn(&W) -> Result<()>,
        own_store: OwnStore,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Box<dyn Ready>> {
        // Flushed here, so that dirty pages of the load are not written during the measurement of
        // reads.
        observe(&format!("{}, {}: writing the data", self.load, self.placement));
        pool.flush().map_err(refused)?;
        Ok(Box::new(Loaded { case: self.clone(), workload, check, pool, _own_store: own_store }))
    }

    fn figures(&self, report: &Report, processors: f64) -> Figures {
        let total = &report.total;
        let sum = |of: fn(&driver::TierSample) -> u64| total.tiers.iter().map(of).sum();
        let us = |ns: u64| ns as f64 / 1e3;
        Figures {
            workload: self.load.to_string(),
            placement: self.placement.name(),
            policy: self.policy.to_string(),
            dram_bytes: self.dram_bytes,
            tiers: self.tiers.iter().map(ToString::to_string).collect(),
            threads: self.threads,
            per_second: total.per_second(),
            p50_us: us(total.latency.p50_ns),
            p95_us: us(total.latency.p95_ns),
            p99_us: us(total.latency.p99_ns),
            resident_bytes: total.tiers.iter().map(|tier| tier.resident_bytes).collect(),
            loads_per_second: total.loads as f64 / total.seconds,
            writes_per_second: total.write_backs as f64 / total.seconds,
            promoted: sum(|tier| tier.promoted),
            demoted: sum(|tier| tier.demoted),
            evicted: sum(|tier| tier.evicted),
            processors,
        }
    }
}

/// Wraps an error of the pool, the tiers or the workloads as a [`BenchError::Engine`].
fn refused(error: impl fmt::Display) -> BenchError {
    BenchError::Engine(error.to_string())
}

#[cfg(test)]
mod tests {
    use terrace_sys::size::MIB;

    use super::*;
    use crate::measure::Scratch;

    #[test]
    fn small_runs_of_every_load_have_figures() {
        let home = Scratch::of(None, "case").expect("a directory");
        let loads = [
            Load::RandomRead { tuples: 40_000, batch: 1 },
            Load::RandomRead { tuples: 40_000, batch: 64 },
            Load::Ycsb { mix: Mix::B, records: 40_000, theta: 0.99, shift_seconds: Some(0.05) },
        ];
        for load in loads {
            for placement in Placement::ALL {
                let case = Case {
                    load: load.clone(),
                    dram_bytes: 2 * MIB,
                    tiers: vec!["emu:1MiB@0ns".parse().expect("a tier")],
                    store: None,
                    placement,
                    policy: Policy::Score,
                    threads: 2,
                    warm_up_seconds: 0.05,
                    seconds: 0.2,
                };
                let Measured { figures, report } =
                    case.run(home.path(), &mut |_| {}).expect("measured");
                assert!(figures.per_second > 100.0 && figures.loads_per_second > 0.0);
                assert!(figures.p50_us <= figures.p99_us && figures.demoted > 0, "{figures:?}");
                assert_eq!(figures.resident_bytes.len(), 2);
                assert!(!report.samples.is_empty());
            }
        }
        assert_eq!(std::fs::read_dir(home.path()).expect("there").count(), 0, "no store is left");
    }

    #[test]
    fn a_tier_that_cannot_be_is_named() {
        let home = Scratch::of(None, "case").expect("a directory");
        let case = Case {
            load: Load::Tpcc { warehouses: 1 },
            dram_bytes: 2 * MIB,
            tiers: vec!["node77:1GiB".parse().expect("a tier")],
            store: None,
            placement: Placement::Mapped,
            policy: Policy::Adaptive,
            threads: 1,
            warm_up_seconds: 0.0,
            seconds: 0.1,
        };
        let refused = case.run(home.path(), &mut |_| {}).expect_err("no such node").to_string();
        assert!(refused.contains("node77"), "{refused}");
    }
}
