//! Cost per block of memory over a file: faults, throughput and processor time of a region.
//!
//! The data are eight times as large as the memory cap. Threads touch random blocks, and then each
//! thread a part of the blocks sequentially. Three methods bring blocks into memory: they are moved
//! into place; moved, with the data advised as immutable; or copied by one thread that handles the
//! faults and write-protects blocks to detect dirty ones, as UMap does (Peng et al., 2019). Blocks
//! have 256 KiB, or 2 MiB, which are moved as huge pages. The runs alternate.
//!
//! Processor time is that of the whole process, including the threads that touch the blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use terrace_ledger::Ledger;
use terrace_region::{Advice, Contents, DEPTH_MAX, Method, Region, RegionConfig, Source};
use terrace_store::{Blocks, EngineChoice, FileBlocks, Io};
use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::file::DirectFile;
use terrace_sys::process::cpu_time;
use terrace_sys::size::{MIB, PAGE_BYTES, format_bytes, to_usize};
use terrace_workload::random::Random;

use crate::error::{BenchError, Result};
use crate::experiment::{Common, Experiment};
use crate::flag::seconds;
use crate::measure::median;
use crate::report::{Bars, Grid, Report, Series};
use crate::setting::{Finding, Setting};

const BLOCK_BYTES: [u64; 2] = [256 << 10, 2 << 20];
/// Minimum number of blocks in the memory cap for larger blocks to be measured.
const BLOCKS_MIN: u64 = 16;
/// Default memory cap, and the ratio of the data to it.
const CAP_BYTES: u64 = 64 * MIB;
const DATA_SHARE: u64 = 8;
/// Number of reads in flight during the measurement of the device's bandwidth.
const DEPTH: usize = 16;
/// Target ratios of moving to copying.
const TARGETS: Targets = Targets { throughput: 2.0, processor: 0.25, bandwidth: 0.8 };

#[derive(Clone, Copy, Debug, Serialize)]
struct Targets {
    throughput: f64,
    processor: f64,
    bandwidth: f64,
}

/// Options of the experiment.
#[derive(Args, Clone, Debug)]
pub(crate) struct RegionOptions {
    /// Duration of the measurement in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Config {
    data_bytes: u64,
    cap_bytes: u64,
    block_bytes: Vec<u64>,
    threads: usize,
    seconds: f64,
    rounds: usize,
}

/// Method that brings blocks into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    Moved,
    MovedImmutable,
    Copied,
}

impl Way {
    const ALL: [Way; 3] = [Way::Moved, Way::MovedImmutable, Way::Copied];

    fn name(self) -> &'static str {
        match self {
            Way::Moved => "moved",
            Way::MovedImmutable => "moved, immutable",
            Way::Copied => "copied",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    round: usize,
    #[serde(flatten)]
    line: Line,
}

/// Measurements of touching blocks, of one round or as medians of all.
#[derive(Clone, Debug, Serialize)]
struct Line {
    block_bytes: u64,
    way: Way,
    sequential: bool,
    blocks_per_second: f64,
    mib_per_second: f64,
    /// Processor time of the process per block that was read.
    processor_us: f64,
    fault_p50_us: f64,
    fault_p99_us: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    lines: Vec<Line>,
    ratios: Vec<Ratios>,
    targets: Targets,
}

/// Ratios of moving to copying, for one block size.
#[derive(Clone, Debug, Serialize)]
struct Ratios {
    block_bytes: u64,
    device_mib_per_second: f64,
    /// Random read throughput of the device alone with as many blocks in flight as there are
    /// threads, relative to one block.
    device_gain: f64,
    /// Random access: data that may change, and immutable data.
    throughput: [f64; 2],
    processor: [f64; 2],
    /// Throughput of moving sequentially, relative to the device's bandwidth.
    bandwidth: f64,
}

/// Throughput of the device alone in MiB/s, for one block size.
#[derive(Clone, Copy, Debug, Serialize)]
struct Device {
    block_bytes: u64,
    /// Sequential reads, many in flight.
    in_order: f64,
    /// Random reads: one in flight, and as many as there are threads.
    one: f64,
    threads: f64,
}

/// Experiment `region`: access to the blocks of a region.
pub(crate) struct RegionAccess;

impl Experiment for RegionAccess {
    const NAME: &'static str = "region";
    const QUESTION: &'static str = "what does memory over a file cost, block by block?";
    const COMMON: &'static [Common] = &[Common::Rounds];
    type Options = RegionOptions;

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if the file cannot be created, or if the kernel does not permit regions to this
    /// process.
    async fn run(
        setting: &Setting,
        options: &RegionOptions,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Finding> {
        let cap_bytes = if setting.dram_is_named { setting.engine.dram_bytes } else { CAP_BYTES };
        let config = Config {
            data_bytes: cap_bytes * DATA_SHARE,
            cap_bytes,
            block_bytes: sizes(cap_bytes),
            threads: setting.engine.threads,
            seconds: options.seconds,
            rounds: setting.rounds.get(),
        };
        let home = setting.scratch()?;
        observe("writing the data");
        let blocks: Arc<dyn Blocks> = Arc::new(data(home.path(), &config)?);
        let mut rows = Vec::new();
        let mut device = Vec::new();
        for round in 0..config.rounds {
            for block_bytes in config.block_bytes.iter().copied() {
                let size = format_bytes(block_bytes);
                for step in 0..2 * Way::ALL.len() {
                    let way = Way::ALL[(step + round) % Way::ALL.len()];
                    let sequential = step >= Way::ALL.len();
                    let order = if sequential { "in order" } else { "in no order" };
                    observe(&format!("{size}, {}, {order}, round {}", way.name(), round + 1));
                    let line = touch(&blocks, &config, block_bytes, way, sequential)?;
                    rows.push(Row { round, line });
                }
                observe(&format!("{size}, the device alone"));
                device.push(alone(&*blocks, &config, block_bytes)?);
            }
        }
        finding(&config, &rows, &device)
    }
}

/// Returns the block sizes to measure: the first one regardless of the cap.
fn sizes(cap_bytes: u64) -> Vec<u64> {
    let [first, rest @ ..] = BLOCK_BYTES;
    let fits = |size: &u64| size * BLOCKS_MIN <= cap_bytes;
    std::iter::once(first).chain(rest.into_iter().filter(fits)).collect()
}

fn refused(error: impl std::fmt::Display) -> BenchError {
    BenchError::Engine(error.to_string())
}

/// Creates the data file, whose bytes are not zero.
fn data(home: &std::path::Path, config: &Config) -> Result<FileBlocks> {
    let file = DirectFile::temporary(home).map_err(refused)?;
    let mut piece = AlignedBuffer::zeroed(to_usize(MIB));
    piece.fill(3);
    for at in (0..config.data_bytes).step_by(piece.len()) {
        file.write_at(at, &piece).map_err(refused)?;
    }
    file.sync().map_err(refused)?;
    FileBlocks::open(file, config.data_bytes, EngineChoice::Auto).map_err(refused)
}

fn touch(
    blocks: &Arc<dyn Blocks>,
    config: &Config,
    block_bytes: u64,
    way: Way,
    sequential: bool,
) -> Result<Line> {
    let source = Source {
        blocks: Arc::clone(blocks),
        offset: 0,
        len: config.data_bytes,
        contents: Contents::Stored,
    };
    let method = if way == Way::Copied { Method::Copy } else { Method::Move };
    let region = RegionConfig {
        cap_bytes: config.cap_bytes,
        block_bytes: to_usize(block_bytes),
        method: Some(method),
        // The copying pager handles faults one after the other.
        depth: if way == Way::Copied { 1 } else { DEPTH_MAX },
        ..RegionConfig::new("bench", Ledger::new(config.cap_bytes))
    };
    let region = Region::new(region, source).map_err(refused)?;
    if way == Way::MovedImmutable {
        region.advise(0, config.data_bytes, Advice::Immutable).map_err(refused)?;
    }
    let stop = AtomicBool::new(false);
    // The first part of the run is not measured, since no block is evicted before the cap is
    // reached.
    std::thread::scope(|scope| {
        for thread in 0..config.threads {
            let (region, stop) = (&region, &stop);
            scope.spawn(move || walk(region, stop, thread, config.threads, sequential));
        }
        std::thread::sleep(Duration::from_secs_f64(config.seconds / 4.0));
        let (before, busy, began) = (region.stats(), cpu_time(), Instant::now());
        std::thread::sleep(Duration::from_secs_f64(config.seconds));
        let took = began.elapsed().as_secs_f64();
        let (after, busy) = (region.stats(), (cpu_time() - busy).as_secs_f64());
        stop.store(true, Ordering::Relaxed);
        let came = (after.fills - before.fills) as f64;
        Ok(Line {
            block_bytes,
            way,
            sequential,
            blocks_per_second: came / took,
            mib_per_second: came * block_bytes as f64 / MIB as f64 / took,
            processor_us: busy * 1e6 / came,
            fault_p50_us: after.fault.p50_ns as f64 / 1e3,
            fault_p99_us: after.fault.p99_ns as f64 / 1e3,
        })
    })
}

/// Touches pages until `stop` is set: the first page of random blocks, or all pages of the thread's
/// part in order.
fn walk(region: &Region, stop: &AtomicBool, thread: usize, threads: usize, sequential: bool) {
    let (len, block) = (region.len(), region.block_bytes());
    let mut at = thread * (len / threads) / block * block;
    let mut chance = Random::new(thread as u64, 0);
    let mut sum = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        if sequential {
            at = (at + PAGE_BYTES) % len;
        } else {
            at = to_usize(chance.below((len / block) as u64)) * block;
        }
        sum += u64::from(region.load(at));
    }
    std::hint::black_box(sum);
}

/// Measures the throughput of the device alone.
fn alone(blocks: &dyn Blocks, config: &Config, block_bytes: u64) -> Result<Device> {
    let read = |depth, sequential| bandwidth(blocks, config, block_bytes, depth, sequential);
    Ok(Device {
        block_bytes,
        in_order: read(DEPTH, true)?,
        one: read(1, false)?,
        threads: read(config.threads, false)?,
    })
}

/// Returns the MiB/s that the device reads with `depth` blocks in flight.
fn bandwidth(
    blocks: &dyn Blocks,
    config: &Config,
    block_bytes: u64,
    depth: usize,
    sequential: bool,
) -> Result<f64> {
    let mut buffers: Vec<AlignedBuffer> =
        (0..depth).map(|_| AlignedBuffer::zeroed(to_usize(block_bytes))).collect();
    let (began, mut read) = (Instant::now(), 0);
    let mut chance = Random::new(0, 0);
    while began.elapsed().as_secs_f64() < config.seconds / 2.0 {
        let mut batch: Vec<Io<'_>> = buffers
            .iter_mut()
            .map(|buffer| {
                let offset = match sequential {
                    true => read % config.data_bytes,
                    false => chance.below(config.data_bytes / block_bytes) * block_bytes,
                };
                read += block_bytes;
                Io::read(offset, buffer)
            })
            .collect();
        blocks.run(&mut batch, &|_| {});
        batch.into_iter().try_for_each(|io| io.result).map_err(refused)?;
    }
    Ok(read as f64 / MIB as f64 / began.elapsed().as_secs_f64())
}

fn line(rows: &[Row], block_bytes: u64, way: Way, sequential: bool) -> Line {
    let mid = |of: fn(&Line) -> f64| {
        let same = |line: &&Line| {
            (line.block_bytes, line.way, line.sequential) == (block_bytes, way, sequential)
        };
        let values: Vec<f64> = rows.iter().map(|row| &row.line).filter(same).map(of).collect();
        median(&values).unwrap_or(f64::NAN)
    };
    Line {
        block_bytes,
        way,
        sequential,
        blocks_per_second: mid(|line| line.blocks_per_second),
        mib_per_second: mid(|line| line.mib_per_second),
        processor_us: mid(|line| line.processor_us),
        fault_p50_us: mid(|line| line.fault_p50_us),
        fault_p99_us: mid(|line| line.fault_p99_us),
    }
}

fn summarise(config: &Config, rows: &[Row], device: &[Device]) -> Summary {
    let sizes = || config.block_bytes.iter().copied();
    let lines = |size| {
        [false, true].into_iter().flat_map(move |order| Way::ALL.map(|way| (size, way, order)))
    };
    let lines = sizes().flat_map(lines).map(|(size, way, order)| line(rows, size, way, order));
    let ratios = |size| {
        let [moved, immutable, copied] = Way::ALL.map(|way| line(rows, size, way, false));
        let over = |of: fn(&Line) -> f64| [&moved, &immutable].map(|line| of(line) / of(&copied));
        let same = || device.iter().filter(move |device| device.block_bytes == size);
        let mid = |of: fn(&Device) -> f64| {
            median(&same().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN)
        };
        let device = mid(|device| device.in_order);
        Ratios {
            block_bytes: size,
            device_mib_per_second: device,
            device_gain: mid(|device| device.threads / device.one),
            throughput: over(|line| line.blocks_per_second),
            processor: over(|line| line.processor_us),
            bandwidth: line(rows, size, Way::Moved, true).mib_per_second / device,
        }
    };
    Summary { lines: lines.collect(), ratios: sizes().map(ratios).collect(), targets: TARGETS }
}

fn finding(config: &Config, rows: &[Row], device: &[Device]) -> Result<Finding> {
    let summary = summarise(config, rows, device);
    Ok(Finding {
        failed: 0,
        more: vec![],
        notes: notes(config, &summary),
        picture: picture(&summary),
        report: Report::new(RegionAccess::NAME, config, rows, &summary)?,
        grid: grid(&summary),
    })
}

fn order(line: &Line) -> &'static str {
    if line.sequential { "in order" } else { "in no order" }
}

fn grid(summary: &Summary) -> Grid {
    let titles =
        ["of", "touched", "blocks", "blocks/s", "MiB/s", "processor us", "fault p50 us", "p99 us"];
    let mut grid = Grid::new(titles);
    for line in &summary.lines {
        grid.push([
            format_bytes(line.block_bytes),
            order(line).to_owned(),
            line.way.name().to_owned(),
            format!("{:.0}", line.blocks_per_second),
            format!("{:.0}", line.mib_per_second),
            format!("{:.1}", line.processor_us),
            format!("{:.0}", line.fault_p50_us),
            format!("{:.0}", line.fault_p99_us),
        ]);
    }
    grid
}

fn notes(config: &Config, summary: &Summary) -> Vec<String> {
    let ratios = summary.ratios.iter().map(|ratios| {
        let Ratios { throughput: fast, processor: busy, .. } = ratios;
        format!(
            "blocks of {}: moved over copied, in no order: throughput {:.2}, immutable {:.2}, \
             target {}; processor {:.2}, immutable {:.2}, target {}; moved in order: {:.2} of the \
             device's {:.0} MiB/s, target {}; {} blocks at a time give {:.2} of what the device \
             reads one at a time",
            format_bytes(ratios.block_bytes),
            fast[0],
            fast[1],
            TARGETS.throughput,
            busy[0],
            busy[1],
            TARGETS.processor,
            ratios.bandwidth,
            ratios.device_mib_per_second,
            TARGETS.bandwidth,
            config.threads,
            ratios.device_gain
        )
    });
    let setting = format!(
        "{} of data, {} in memory at most; {} threads; {} s each, medians of {} rounds",
        format_bytes(config.data_bytes),
        format_bytes(config.cap_bytes),
        config.threads,
        config.seconds,
        config.rounds
    );
    ratios.chain([setting]).collect()
}

fn picture(summary: &Summary) -> Bars {
    let of = |way: Way| Series {
        name: way.name().to_owned(),
        values: summary
            .lines
            .iter()
            .filter(|line| line.way == way)
            .map(|line| Some(line.mib_per_second))
            .collect(),
    };
    let first = summary.lines.iter().filter(|line| line.way == Way::Moved);
    let name = |line: &Line| format!("{}, {}", format_bytes(line.block_bytes), order(line));
    Bars {
        title: "Blocks of a file, touched through memory".into(),
        unit: "MiB a second".into(),
        categories: first.map(name).collect(),
        series: Way::ALL.map(of).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_moved_over_copied() {
        let config = Config {
            data_bytes: 0,
            cap_bytes: 0,
            block_bytes: vec![256 << 10, 2 << 20],
            threads: 1,
            seconds: 1.0,
            rounds: 1,
        };
        let row = |block_bytes, way, sequential, speed: f64| Row {
            round: 0,
            line: Line {
                block_bytes,
                way,
                sequential,
                blocks_per_second: speed,
                mib_per_second: speed / 4.0,
                processor_us: 1000.0 / speed,
                fault_p50_us: 1.0,
                fault_p99_us: 2.0,
            },
        };
        let rows: Vec<Row> = [(Way::Moved, 30.0), (Way::MovedImmutable, 40.0), (Way::Copied, 10.0)]
            .into_iter()
            .flat_map(|(way, speed)| {
                let large = 2.0 * speed * speed;
                [
                    row(256 << 10, way, false, speed),
                    row(256 << 10, way, true, 2.0 * speed),
                    row(2 << 20, way, false, large),
                    row(2 << 20, way, true, large),
                ]
            })
            .collect();
        let device = [(2 << 20, 1.0), (256 << 10, 20.0), (256 << 10, 30.0), (256 << 10, 40.0)];
        let device = device.map(|(block_bytes, in_order)| Device {
            block_bytes,
            in_order,
            one: 10.0,
            threads: in_order / 2.0,
        });
        let summary = summarise(&config, &rows, &device);
        let [small, large] = &summary.ratios[..] else { panic!("two sizes") };
        assert_eq!(small.throughput, [3.0, 4.0]);
        assert!((small.processor[1] - 0.25).abs() < 1e-9);
        assert_eq!((small.bandwidth, small.device_mib_per_second), (0.5, 30.0));
        assert_eq!(small.device_gain, 1.5);
        assert_eq!((large.throughput, large.device_mib_per_second), ([9.0, 16.0], 1.0));
        assert!(grid(&summary).to_string().contains("moved, immutable"));
        assert_eq!(picture(&summary).series[2].values[..2], [Some(2.5), Some(5.0)]);
        assert_eq!(picture(&summary).categories[3], "2MiB, in order");
        assert!(notes(&config, &summary)[1].starts_with("blocks of 2MiB: "));
    }
}
