//! Command line arguments.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use terrace_bench::flag::{scale, tpcds_query, tpch_query};
use terrace_bench::suite::table::Benchmark;
use terrace_pool::Placement;
use terrace_sql::Encoding;
use terrace_sys::size::parse_bytes;
use terrace_tier::TierSpec;

use crate::answers::Answers;
use crate::bench_args::Choice;
use crate::dram::Dram;
use crate::serve_args::ServeArgs;

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
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_bytes)]
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
    Bench {
        /// The experiment and its options.
        #[command(subcommand)]
        choice: Option<Choice>,
    },
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
    /// Values alone: a line per row, columns separated by |, without a header
    Lines,
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
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = tpch_query)]
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
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = tpcds_query)]
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

/// Parses a name and a value.
fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_string(), value.trim().to_string()))
        }
        _ => Err("a setting is written NAME=VALUE".into()),
    }
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
