//! Command line arguments.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, value_parser};
use terrace_bench::objects::{ObjectHome, ObjectOptions};
use terrace_bench::pages::PageOptions;
use terrace_bench::pages::cost::Prices;
use terrace_bench::segments::{Block, Figure, SegmentOptions};
use terrace_bench::suite::table::Benchmark;
use terrace_bench::tpcds::QUERY_COUNT;
use terrace_pool::{Placement, Policy};
use terrace_sql::Encoding;
use terrace_sys::size::parse_bytes;
use terrace_tier::TierSpec;
use terrace_workload::ycsb::Mix;

use crate::answers::Answers;
use crate::dram::Dram;
use crate::serve::ServeArgs;
use crate::server_args::{ServerBenchArgs, TenantBenchArgs};

/// One memory budget over several tiers, and SQL on top of it.
#[derive(Debug, Parser)]
#[command(name = "terrace", version, about, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub options: Options,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command, which override those of the configuration file.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Budget of DRAM for everything: cached data, working memory of queries, spill buffers; auto
    /// is three quarters of the memory of the control group or the machine; half of that memory by
    /// default
    #[arg(long, global = true, value_name = "SIZE")]
    pub dram: Option<Dram>,

    /// Maximum memory of the process of sql, including its budget: a query that exceeds it by
    /// plans, literals and batches that no operator accounts for ends with an error; by default
    /// 15/16 of the memory of the machine or the control group
    #[arg(long, global = true, value_name = "SIZE", value_parser = size)]
    pub memory_limit: Option<u64>,

    /// A tier below DRAM, fastest first: node1:8GiB, cxl:16GiB, emu:8GiB@250ns,
    /// file:/data/terrace:100GiB, dev:/dev/nvme1n1; a store may have a rate limit, as in
    /// dev:/dev/nvme1n1:1TiB@250MiB/s (repeatable)
    #[arg(long = "tier", global = true, value_name = "SPEC")]
    pub tiers: Vec<TierSpec>,

    /// Directory that holds the tables; without it they are removed when the program ends
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Number of threads that run queries; the number of processors by default
    #[arg(long, global = true, value_name = "N")]
    pub threads: Option<NonZeroUsize>,

    /// Placement of pages: framed, each in a frame of its tier while it is in memory, or mapped,
    /// each at a fixed address of its own; bench tpcc, random-read, ycsb and background run both by
    /// default
    #[arg(long, global = true, value_name = "PLACEMENT")]
    pub placement: Option<Placement>,

    /// Initial setting of every session, as in SET, such as terrace.paged_sort=false (repeatable)
    #[arg(long = "set", global = true, value_name = "NAME=VALUE", value_parser = assignment)]
    pub settings: Vec<(String, String)>,

    /// TOML file with the keys dram, memory-limit, tier, data, threads, placement, set, prices; by
    /// default terrace/config.toml in the user's configuration directory, if it exists
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Log to standard error; up to -vvv for more detail. Without it, warnings of sql go to the
    /// file terrace/log in the user's state directory
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run SQL: statements from the command line, from files, or at a prompt
    Sql(SqlArgs),
    /// Serve clients of PostgreSQL's protocol, such as psql, over one engine
    Serve(ServeArgs),
    /// Generate TPC-H, load it, run its 22 queries and check every answer
    Tpch(TpchArgs),
    /// Generate TPC-DS, load it, run its 99 queries and compare every answer with DuckDB's
    Tpcds(TpcdsArgs),
    /// Report the features of this machine, which of them are used, and which are missing
    Doctor(DoctorArgs),
    /// Run an experiment; without a name, list them
    Bench(Box<BenchArgs>),
    /// Write generated tables to standard output as Arrow streams
    #[command(name = terrace_bench::suite::feed::GENERATE_COMMAND, hide = true)]
    Generate(GenerateArgs),
    /// Write generated tables to a directory as Parquet files
    #[command(name = terrace_bench::suite::export::EXPORT_COMMAND, hide = true)]
    Export(ExportArgs),
    /// Write the answers of DataFusion to standard output as JSON
    #[command(name = terrace_bench::suite::reference::REFERENCE_COMMAND, hide = true)]
    Reference(GeneratorArgs),
    /// Answer queries from standard input, one line of JSON each
    #[command(name = terrace_bench::peer::serve::PEER_COMMAND, hide = true)]
    Peer(PeerArgs),
}

/// Format of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns
    #[default]
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One JSON array of objects per result
    Json,
    /// One JSON object per row and line
    Ndjson,
}

#[derive(Args, Debug)]
pub struct SqlArgs {
    /// Run these statements and exit (repeatable)
    #[arg(short = 'c', long = "command", value_name = "SQL")]
    pub commands: Vec<String>,

    /// Run the statements of this file and exit; after those of -c (repeatable)
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Show a prompt even if the input is not a terminal; a failed statement does not end it
    #[arg(short, long, conflicts_with_all = ["commands", "files"])]
    pub interactive: bool,

    /// Format of results
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// Maximum number of rows that a table shows; 0 for all. The other formats write every row
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub rows: usize,
}

#[derive(Args, Debug)]
pub struct TpchArgs {
    /// Queries to run, such as 1,3,18; all by default
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = query_number)]
    pub queries: Vec<u32>,

    /// Engine whose answers are taken as correct at scales other than 1; at scale 1 those of the
    /// specification are
    #[arg(long, value_enum, default_value_t)]
    pub answers: Answers,

    #[command(flatten)]
    pub suite: SuiteArgs,
}

#[derive(Args, Debug)]
pub struct TpcdsArgs {
    /// Queries to run, such as 1,3,72; all by default
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = tpcds_number)]
    pub queries: Vec<u32>,

    /// Directory with the texts of the queries, 1.sql to 99.sql; by default they come from the
    /// Python packages duckdb and duckdb-extension-tpcds, installed below the cache directory
    #[arg(long, value_name = "DIR")]
    pub queries_dir: Option<PathBuf>,

    /// Engine whose answers are taken as correct
    #[arg(long, value_enum, default_value_t)]
    pub answers: Answers,

    #[command(flatten)]
    pub suite: SuiteArgs,
}

/// Common options of `tpch` and `tpcds`.
#[derive(Args, Debug)]
pub struct SuiteArgs {
    /// Scale factor: 1 is about 1 GB of text; fractions are possible
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = scale,
          allow_negative_numbers = true)]
    pub scale: f64,

    /// Number of runs of each query; the median counts
    #[arg(long, value_name = "N", default_value = "1")]
    pub repeat: NonZeroUsize,

    /// Encoding of tables that are loaded now: plain or compact
    #[arg(long, value_name = "ENCODING", default_value_t)]
    pub encoding: Encoding,

    /// Write the report to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Keep the tables in a new directory even without --data, and print its path
    #[arg(long)]
    pub keep: bool,

    /// Succeed even if queries fail for lack of memory; a wrong answer always fails
    #[arg(long)]
    pub allow_failures: bool,
}

#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Write the report to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct BenchArgs {
    /// Name of the experiment
    pub name: Option<String>,

    /// TPC-H scale factor
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = scale,
          allow_negative_numbers = true)]
    pub scale: f64,

    /// Number of rounds; results are medians, or means in segments and allocations
    #[arg(long, value_name = "N", default_value = "3")]
    pub rounds: NonZeroUsize,

    /// Queries to run, such as 1,3,18; all by default
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = query_number)]
    pub queries: Vec<u32>,

    /// Encoding of the tables of an experiment over TPC-H: plain or compact; by default plain in
    /// paged-scan, paged-operators and segments (always), compact in the others
    #[arg(long, value_name = "ENCODING")]
    pub encoding: Option<Encoding>,

    /// Number of key-value pairs of hash-index; the published experiment has 10000000
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub pairs: u64,

    /// Allocations of the largest run of allocations, which scales the others; the published
    /// experiment has 10000000. Objects of objects; figure 3 is published with 100000000
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = value_parser!(u64).range(1..=100_000_000))]
    pub objects: u64,

    /// Report of `cargo x lab` that migration shows beside this machine's (repeatable)
    #[arg(long, value_name = "FILE")]
    pub lab: Vec<PathBuf>,

    #[command(flatten)]
    pub small_objects: ObjectArgs,

    #[command(flatten)]
    pub segments: SegmentArgs,

    #[command(flatten)]
    pub server: ServerBenchArgs,

    #[command(flatten)]
    pub tenants: TenantBenchArgs,

    #[command(flatten)]
    pub pages: PageArgs,

    /// Write the report to this file, and a picture beside it
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Options of objects.
#[derive(Args, Debug)]
#[command(next_help_heading = "objects")]
pub struct ObjectArgs {
    /// Compare with DashMap, papaya and scc instead of the figures; requires a program built with
    /// --features peers
    #[arg(long)]
    pub peers: bool,
    /// Measure logs, dumps and starts from them instead of the figures
    #[arg(long)]
    pub lasting: bool,

    /// Create and remove objects for this many seconds in a full store instead of the figures; it
    /// has 512 MiB unless --dram is given
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub churn: Option<f64>,

    /// Memory of the objects: dram, or region for a store larger than DRAM instead of the figures,
    /// of which a quarter is in memory unless --dram is given
    #[arg(long, value_name = "MEMORY", default_value = "dram")]
    pub memory: ObjectHome,
}

impl ObjectArgs {
    /// Returns the options of the experiment.
    pub fn options(&self) -> ObjectOptions {
        ObjectOptions {
            peers: self.peers,
            lasting: self.lasting,
            churn_seconds: self.churn,
            memory: self.memory,
        }
    }
}

/// Options of segments.
#[derive(Args, Debug)]
#[command(next_help_heading = "segments")]
pub struct SegmentArgs {
    /// Figures of the study to repeat: 5 (blocks), fit (queries with everything in memory; needs
    /// the memory of two engines), 6 (footprint), 7a (queries), 7b (migration)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "5,fit,6,7a,7b")]
    pub figures: Vec<Figure>,

    /// Benchmarks whose tables and queries are used: tpch, tpcds
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tpch")]
    pub benchmarks: Vec<Benchmark>,

    /// TPC-DS queries to run, such as 1,3,72; all by default
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = tpcds_number)]
    pub tpcds_queries: Vec<u32>,

    /// Directory with the texts of the TPC-DS queries; by default they come from a package
    #[arg(long, value_name = "DIR")]
    pub queries_dir: Option<PathBuf>,

    /// Memory of the heaps, as in CREATE HEAP: file, file:DIRECTORY, emu, emu@LATENCY
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "emu")]
    pub memories: Vec<String>,

    /// Block sizes of figure 5: 4KiB, 16KiB, 32KiB, 64KiB, 256KiB, 1MiB, 4MiB; all by default
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub blocks: Vec<Block>,

    /// Largest scale of figures 6 and 7b, which are also measured at twice, four and eight times
    /// the scale; 8 is published
    #[arg(long, value_name = "FACTOR", value_parser = scale)]
    pub scale_max: Option<f64>,

    /// Measured runs of each query in each round; 5 are published for figure 7a
    #[arg(long, value_name = "N", default_value = "1")]
    pub runs: NonZeroUsize,

    /// Warm-up runs of each query, for figure 7a; 5 are published
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub warm_runs: usize,
}

impl SegmentArgs {
    /// Returns the options of the experiment.
    pub fn options(&self) -> SegmentOptions {
        SegmentOptions {
            figures: self.figures.clone(),
            benchmarks: self.benchmarks.clone(),
            tpcds_queries: self.tpcds_queries.clone(),
            queries_dir: self.queries_dir.clone(),
            memories: self.memories.clone(),
            blocks: match self.blocks.as_slice() {
                [] => Block::ALL.to_vec(),
                named => named.to_vec(),
            },
            scale_max: self.scale_max,
            runs: self.runs,
            warm_runs: self.warm_runs,
        }
    }
}

/// Options of tpcc, random-read, ycsb, n-tier, cost and background, which run over pages without
/// SQL; region and objects use only the seconds.
#[derive(Args, Debug)]
#[command(next_help_heading = "tpcc, random-read, ycsb, n-tier, cost, background, region, objects")]
pub struct PageArgs {
    /// Eviction and migration policy: score, adaptive, or spitfire: and the probabilities to
    /// promote on a read and on a write, to fetch below and to demote
    #[arg(long, value_name = "POLICY", default_value_t)]
    pub policy: Policy,

    /// Workloads of n-tier and cost: tpcc, random-read, ycsb-a to ycsb-f
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "tpcc,random-read,ycsb-b"
    )]
    pub workloads: Vec<String>,

    /// Number of TPC-C warehouses; by default 2, or 14 in n-tier and cost
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub warehouses: Option<u32>,

    /// Number of tuples of random-read and of records of YCSB; by default 10 million, 11 million in
    /// n-tier and cost, 6 million in background
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub tuples: Option<u64>,

    /// Number of look-ups in a batch of random-read; 1 and 128 by default
    #[arg(long, value_name = "N")]
    pub batch: Option<usize>,

    /// Mixes of YCSB, a to f
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "a,b,c,d,e,f")]
    pub mix: Vec<Mix>,

    /// Skew of YCSB; 0 for none
    #[arg(long, value_name = "THETA", default_value_t = 0.99, value_parser = theta)]
    pub theta: f64,

    /// Duration of the measurement in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds)]
    pub seconds: f64,

    /// Duration of the warm-up in seconds
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = seconds)]
    pub warm_up: f64,

    /// Write a line for every second to this CSV file; for several runs, to one file each beside it
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

impl PageArgs {
    /// Returns the options, with this placement or both, and these prices.
    pub fn options(&self, placement: Option<Placement>, prices: Prices) -> PageOptions {
        PageOptions {
            placements: placement.map_or(Placement::ALL.to_vec(), |one| vec![one]),
            policy: self.policy,
            workloads: self.workloads.clone(),
            warehouses: self.warehouses,
            tuples: self.tuples,
            batch: self.batch,
            mixes: self.mix.clone(),
            theta: self.theta,
            seconds: self.seconds,
            warm_up_seconds: self.warm_up,
            csv: self.csv.clone(),
            prices,
        }
    }
}

/// Parses a number of seconds from 0 to a day.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    within(text, 86_400.0, "seconds, at most a day")
}

/// Parses a skew from 0 to below 1.
fn theta(text: &str) -> Result<f64, String> {
    within(text, 0.999, "a skew from 0 to 0.999")
}

fn within(text: &str, most: f64, what: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=most).contains(number));
    number.ok_or_else(|| format!("\"{text}\" is not {what}"))
}

/// Parameters of the table generator.
#[derive(Args, Debug)]
pub struct GeneratorArgs {
    #[arg(long)]
    pub benchmark: Benchmark,
    #[arg(long, value_parser = scale)]
    pub scale: f64,
    #[arg(long)]
    pub generator_threads: NonZeroUsize,
}

#[derive(Args, Debug)]
pub struct GenerateArgs {
    #[command(flatten)]
    pub generator: GeneratorArgs,
    #[arg(long, value_delimiter = ',')]
    pub tables: Vec<String>,
}

#[derive(Args, Debug)]
pub struct ExportArgs {
    #[command(flatten)]
    pub generator: GeneratorArgs,
    #[arg(long)]
    pub directory: PathBuf,
}

#[derive(Args, Debug)]
pub struct PeerArgs {
    #[arg(long, value_enum)]
    pub engine: PeerEngine,
    #[arg(long)]
    pub clients: usize,
    /// Directory of Parquet files, for DataFusion
    #[arg(long)]
    pub files: PathBuf,
}

/// Engine of a peer process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PeerEngine {
    Terrace,
    Datafusion,
}

/// Parses a size in bytes, such as `2GiB`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    parse_bytes(text)
}

/// Parses a name and a value.
fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_string(), value.trim().to_string()))
        }
        _ => Err("a setting is written NAME=VALUE".into()),
    }
}

/// Parses a scale factor. Below a thousandth some tables are empty; above 100,000 keys overflow.
fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (0.001..=100_000.0).contains(&scale) => Ok(scale),
        _ => Err("a scale factor is a number from 0.001 to 100000".into()),
    }
}

/// Parses a query number from 1 to 22.
fn query_number(text: &str) -> Result<u32, String> {
    numbered(text, 22)
}

/// Parses a query number from 1 to 99.
fn tpcds_number(text: &str) -> Result<u32, String> {
    numbered(text, QUERY_COUNT)
}

fn numbered(text: &str, last: u32) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| (1..=last).contains(number));
    number.ok_or_else(|| format!("the queries are numbered from 1 to {last}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(words: &[&str]) -> Result<Cli, String> {
        let words = std::iter::once("terrace").chain(words.iter().copied());
        Cli::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_options_stand_before_and_after_the_command() {
        for words in [["--dram", "1GiB", "sql"], ["sql", "--dram", "1GiB"]] {
            assert_eq!(parse(&words).expect("parsed").options.dram, Some(Dram::Bytes(1 << 30)));
        }
    }

    #[test]
    fn wrong_values_are_refused_with_what_would_be_right() {
        for (words, hint) in [
            (vec!["sql", "--dram", "lots"], "lots"),
            (vec!["sql", "--tier", "floppy:1GiB"], "floppy"),
            (vec!["tpch", "--scale", "-1"], "0.001"),
            (vec!["tpch", "--scale", "x"], "0.001"),
            (vec!["tpch", "--queries", "1,23"], "1 to 22"),
            (vec!["tpcds", "--queries", "0"], "1 to 99"),
            (vec!["tpcds", "--answers", "oracle"], "datafusion"),
            (vec!["sql", "--threads", "0"], "0"),
            (vec!["bench", "segments", "--figures", "5,8"], "7a and 7b"),
            (vec!["bench", "segments", "--benchmarks", "tpcc"], "tpcds"),
            (vec!["sql", "--format", "xml"], "ndjson"),
        ] {
            let message = parse(&words).expect_err("refused");
            assert!(message.contains(hint), "{words:?}: {message}");
        }
    }

    #[test]
    fn lists_and_repeated_options() {
        let cli = parse(&["tpch", "--queries", "1,3,18"]).expect("parsed");
        let Command::Tpch(tpch) = cli.command else { panic!("not tpch") };
        assert_eq!(tpch.queries, [1, 3, 18]);
        let cli = parse(&["sql", "-c", "a", "-c", "b"]).expect("parsed");
        let Command::Sql(sql) = cli.command else { panic!("not sql") };
        assert_eq!(sql.commands, ["a", "b"]);
    }
}
