//! Options of the experiment.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use serde::Serialize;

use super::figure::Figure;
use crate::error::{BenchError, Result};
use crate::flag::{scale, tpcds_query};
use crate::suite::table::Benchmark;

/// Options of the experiment.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct SegmentOptions {
    /// Figures of the study to repeat: 5 (blocks), fit (queries with everything in memory; needs
    /// the memory of two engines), 6 (footprint), 7a (queries), 7b (migration)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "5,fit,6,7a,7b")]
    pub(super) figures: Vec<Figure>,

    /// Benchmarks whose tables and queries are used: tpch, tpcds
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tpch")]
    #[serde(serialize_with = "names")]
    pub(super) benchmarks: Vec<Benchmark>,

    /// TPC-DS queries to run, such as 1,3,72; all by default
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = tpcds_query)]
    pub(super) tpcds_queries: Vec<u32>,

    /// Directory with the texts of the TPC-DS queries; by default they come from a package
    #[arg(long, value_name = "DIR")]
    pub(super) queries_dir: Option<PathBuf>,

    /// Memory of the heaps, as in CREATE HEAP: file, file:DIRECTORY, emu, emu@LATENCY
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "emu")]
    pub(super) memories: Vec<String>,

    /// Block sizes of figure 5: 4KiB, 16KiB, 32KiB, 64KiB, 256KiB, 1MiB, 4MiB; all by default
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = Block::ALL,
          hide_default_value = true)]
    pub(super) blocks: Vec<Block>,

    /// Largest scale of figures 6 and 7b, which are also measured at twice, four and eight times
    /// the scale; 8 is published
    #[arg(long, value_name = "FACTOR", value_parser = scale)]
    pub(super) scale_max: Option<f64>,

    /// Measured runs of each query in each round; 5 are published for figure 7a
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) runs: NonZeroUsize,

    /// Warm-up runs of each query, for figure 7a; 5 are published
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) warm_runs: usize,
}

fn names<S: serde::Serializer>(
    benchmarks: &[Benchmark],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_seq(benchmarks.iter().map(|benchmark| benchmark.name()))
}

/// A block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Block(pub(super) &'static str);

impl Block {
    /// Block sizes to measure: the powers of four of the study, and its best size for TPC-DS.
    pub const ALL: [Block; 7] = [
        Block("4KiB"),
        Block("16KiB"),
        Block("32KiB"),
        Block("64KiB"),
        Block("256KiB"),
        Block("1MiB"),
        Block("4MiB"),
    ];
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl FromStr for Block {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Block> {
        let found = Block::ALL.into_iter().find(|block| block.0 == text);
        let sizes = Block::ALL.map(|block| block.0).join(", ");
        found.ok_or_else(|| BenchError::input(format!("there are blocks of {sizes}")))
    }
}
