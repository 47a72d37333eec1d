//! Runs a workload and prints a line for each second.
//!
//! ```sh
//! cargo run --release -p terrace-workload --example run -- \
//!     tpcc --dram 4GiB --tier emu:4GiB@250ns --store file:/data/pool:64GiB --warehouses 20
//! ```
//!
//! Workloads are `tpcc`, `random`, `ycsb-a` to `ycsb-f`, and `null`, which measures the overhead of
//! the driver itself when it takes the latency of one operation of a batch.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use terrace_ledger::Ledger;
use terrace_pool::{Placement, Policy, Pool, PoolConfig};
use terrace_store::{Label, Lifetime};
use terrace_sys::probe::Probe;
use terrace_sys::process::cpu_time;
use terrace_sys::size::{format_bytes, parse_bytes};
use terrace_tier::TierSpec;
use terrace_workload::driver::{Length, RunConfig, Sample, Step, Workload, run, write_csv};
use terrace_workload::random::Random;
use terrace_workload::random_read::{RandomRead, RandomReadConfig};
use terrace_workload::tpcc::{Scale, Tpcc, TpccConfig};
use terrace_workload::ycsb::{Mix, Popularity, Ycsb, YcsbConfig};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PAGE_BYTES: usize = 4096;
const SEED: u64 = 1;
const USAGE: &str = "run tpcc|random|ycsb-a..f|null [--dram SIZE] [--tier SPEC]... \
                     [--store SPEC|none] [--placement framed|mapped] [--policy POLICY] \
                     [--warehouses N] [--tuples N] [--threads N] [--seconds S] \
                     [--warm-up S] [--batch N] [--read-ahead true|false] [--record BYTES] \
                     [--theta T, 0 for uniform] [--csv FILE]";

struct Options {
    workload: String,
    dram_bytes: u64,
    tiers: Vec<TierSpec>,
    placement: Placement,
    policy: Policy,
    store: Option<TierSpec>,
    warehouses: u32,
    tuples: u64,
    threads: usize,
    seconds: f64,
    warm_up: f64,
    batch: usize,
    record_bytes: usize,
    theta: f64,
    csv: Option<String>,
    read_ahead: bool,
}

/// Workload that only draws random numbers.
struct Null {
    latency_every: u32,
}

impl Workload for Null {
    type Worker = Random;

    fn kinds(&self) -> &'static [&'static str] {
        &["nothing"]
    }

    fn latency_every(&self) -> u32 {
        self.latency_every
    }

    fn worker(&self) -> Random {
        Random::new(SEED, 0)
    }

    fn step(&self, random: &mut Random) -> terrace_workload::Result<Step> {
        std::hint::black_box(random.next());
        Ok(Step { kind: 0, operations: 1 })
    }
}

fn main() -> ExitCode {
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn work() -> Result<()> {
    let options = parse(std::env::args().skip(1))?;
    let pool = open(&options)?;
    match options.workload.as_str() {
        "tpcc" => tpcc(&pool, &options),
        "random" => random(&pool, &options),
        "null" => measure(&Null { latency_every: u32::try_from(options.batch)? }, &pool, &options),
        name => match name.strip_prefix("ycsb-") {
            Some(mix) => ycsb(&pool, &options, mix.parse()?),
            None => Err(format!("there is no workload \"{name}\"; {USAGE}").into()),
        },
    }
}

fn tpcc(pool: &Pool, options: &Options) -> Result<()> {
    let config = TpccConfig {
        scale: Scale::specified(options.warehouses),
        load_threads: options.threads,
        page_bytes: PAGE_BYTES,
        seed: SEED,
        read_ahead: options.read_ahead,
    };
    let began = Instant::now();
    let tpcc = Tpcc::load(pool, &config, |progress| {
        println!("warehouse {} of {}", progress.warehouses, progress.of);
    })?;
    loaded(began);
    measure(&tpcc, pool, options)?;
    println!("consistent: {:?}", tpcc.check()?);
    Ok(())
}

fn random(pool: &Pool, options: &Options) -> Result<()> {
    let (tuples, batch) = (options.tuples, options.batch);
    let config = RandomReadConfig { tuples, batch, page_bytes: PAGE_BYTES, seed: SEED };
    let began = Instant::now();
    let random = RandomRead::load(pool, config, |done| println!("{done} of {tuples}"))?;
    loaded(began);
    measure(&random, pool, options)
}

fn ycsb(pool: &Pool, options: &Options, mix: Mix) -> Result<()> {
    let config = YcsbConfig {
        records: options.tuples,
        record_bytes: options.record_bytes,
        mix,
        popularity: match options.theta {
            0.0 => Popularity::Uniform,
            theta => Popularity::Zipf(theta),
        },
        shift: None,
        page_bytes: PAGE_BYTES,
        seed: SEED,
    };
    let began = Instant::now();
    let ycsb = Ycsb::load(pool, config, |done| println!("{done} of {}", options.tuples))?;
    loaded(began);
    measure(&ycsb, pool, options)
}

fn loaded(began: Instant) {
    println!("loaded in {:.1} s", began.elapsed().as_secs_f64());
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Options> {
    let mut options = Options {
        workload: args.next().ok_or(USAGE)?,
        dram_bytes: 4 << 30,
        tiers: Vec::new(),
        placement: Placement::Framed,
        policy: Policy::Score,
        store: None,
        warehouses: 2,
        tuples: 10_000_000,
        threads: 2,
        seconds: 10.0,
        warm_up: 1.0,
        batch: 1,
        record_bytes: 100,
        theta: 0.99,
        csv: None,
        read_ahead: false,
    };
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} has no value; {USAGE}"))?;
        match name.as_str() {
            "--dram" => options.dram_bytes = parse_bytes(&value)?,
            "--tier" => options.tiers.push(value.parse()?),
            "--placement" => options.placement = value.parse()?,
            "--policy" => options.policy = value.parse()?,
            "--store" if value == "none" => options.store = None,
            "--store" => options.store = Some(value.parse()?),
            "--warehouses" => options.warehouses = number(&name, &value)?,
            "--tuples" => options.tuples = number(&name, &value)?,
            "--threads" => options.threads = number(&name, &value)?,
            "--seconds" => options.seconds = number(&name, &value)?,
            "--warm-up" => options.warm_up = number(&name, &value)?,
            "--batch" => options.batch = number(&name, &value)?,
            "--record" => options.record_bytes = number(&name, &value)?,
            "--theta" => options.theta = number(&name, &value)?,
            "--read-ahead" => options.read_ahead = number(&name, &value)?,
            "--csv" => options.csv = Some(value),
            _ => return Err(format!("there is no option {name}; {USAGE}").into()),
        }
    }
    Ok(options)
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| format!("{name} cannot be \"{value}\"").into())
}

fn open(options: &Options) -> Result<Pool> {
    let probe = Probe::detect();
    let mut config = PoolConfig::new("run", Ledger::new(options.dram_bytes));
    config.placement = options.placement;
    config.residency = options.policy.residency();
    for spec in &options.tiers {
        spec.validate(&probe)?;
        let tier = spec.memory_tier(&probe)?;
        config.memory.push(tier.ok_or_else(|| format!("{spec} is no memory; --store takes it"))?);
    }
    if let Some(spec) = &options.store {
        let store = spec.open_store()?.ok_or_else(|| format!("{spec} is no store"))?;
        // Temporary, so that the next run may reuse the file that this one leaves behind.
        store.settle(Label { id: 0, lifetime: Lifetime::Temporary })?;
        config.store = Some(Arc::new(store));
    }
    Ok(Pool::new(config)?)
}

fn measure(workload: &impl Workload, pool: &Pool, options: &Options) -> Result<()> {
    for tier in &pool.stats().tiers {
        println!("{}: {} of pages", tier.name, format_bytes(tier.page_bytes));
    }
    let config = RunConfig {
        threads: options.threads,
        warm_up: Duration::try_from_secs_f64(options.warm_up)?,
        length: Length::Time(Duration::try_from_secs_f64(options.seconds)?),
        interval: Duration::from_secs(1),
    };
    let stop = AtomicBool::new(false);
    let before = cpu_time().as_secs_f64();
    let report = run(workload, pool, &config, &stop, &mut |sample| println!("{}", line(sample)))?;
    let share = report.total.seconds / (report.total.seconds + options.warm_up);
    let cpu = (cpu_time().as_secs_f64() - before) * share;
    println!("total {}", line(&report.total));
    println!(
        "{cpu:.2} s of processors, {:.0} operations in each",
        report.total.count() as f64 / cpu
    );
    for (kind, count) in report.kinds.iter().zip(&report.total.operations) {
        println!("{kind}: {count}");
    }
    if let Some(path) = &options.csv {
        let mut out = BufWriter::new(File::create(path)?);
        write_csv(&report, &mut out)?;
        out.flush()?;
    }
    Ok(())
}

fn line(sample: &Sample) -> String {
    let us = |ns: u64| ns as f64 / 1e3;
    let latency = &sample.latency;
    let mut line = format!(
        "{:6.1} s {:10.0}/s, us p50 {:.1} p95 {:.1} p99 {:.1} max {:.0}; loads {} ({}), \
         write-backs {} ({})",
        sample.end_seconds,
        sample.per_second(),
        us(latency.p50_ns),
        us(latency.p95_ns),
        us(latency.p99_ns),
        us(latency.max_ns),
        sample.loads,
        format_bytes(sample.loaded_bytes),
        sample.write_backs,
        format_bytes(sample.written_bytes),
    );
    for tier in &sample.tiers {
        line += &format!(
            "; {} {}, +{} promoted, +{} demoted, -{} evicted",
            tier.name,
            format_bytes(tier.resident_bytes),
            tier.promoted,
            tier.demoted,
            tier.evicted
        );
    }
    line
}
