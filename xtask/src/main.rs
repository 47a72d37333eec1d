//! Checks of a change before it is merged: `cargo x ci` runs all of them.
//!
//! The package depends on no crate of Terrace, so that it builds in seconds.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod cargo;
mod ci;
mod clients;
mod counts;
mod features;
mod graph;
mod install;
mod job;
mod lab;
mod loom;
mod miri;
mod soak;
mod sqltest;
mod targets;
mod tidy;

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

const USAGE: &str = "\
cargo x COMMAND

  ci      everything a change passes: fmt, tidy, features, clippy, docs, tests, loom, Miri where
          it is installed, the README's main job at a small scale, the lab where there is an
          emulator
  tidy    the house rules: lengths, banned calls, unsafe, layers, links
  graph   arrows between crates and between the files of each, circles first: [CRATE],
          [--summary] for their sizes, [--known] for the list of circles that may stay
  features  one set of compiled dependencies serves running and testing
  loom    the lock-free words under the loom model checker
  miri    the crates without system calls under Miri (needs a nightly toolchain with miri)
  slt     the public sqllogictest suite: [--tenth] [--sample N] [--filter GLOB] [--jobs N]
          [--show N]
  functions  calls of every function, asked of Terrace, DuckDB and PostgreSQL: [--filter TEXT]
          [--shapes N] [--show]
  statements  scripts over all of SQL, asked of Terrace, PostgreSQL and DuckDB: [--count N]
          [--seed N] [--script N] [--show]
  fuzz    random statements, asked of Terrace and of DuckDB: [--seconds N] [--seed N] [--case N]
          [--jobs N] [--failures N] [--shrink-seconds N] [--examples]
  targets  the targets of cargo-fuzz, the canary first, which must be found: [--seconds N]
  clients  clients of other languages against the server: [python] [node] [java] [go]
  lab     tests of memory nodes in emulated machines with two and three of them: [--all]
          [--patched] [--checked] [--kernel FILE] [--nodes LIST] [--no-bench] [--timeout SECONDS]
          [--workspace]
  soak    the long versions of the tests: [--seconds N] [--rounds N] [--seed N]
  job     the README's main job and TPC-DS, at a small scale
  install  the C and C++ library, headers, and packages for CMake and pkg-config:
          --prefix DIR [--debug] [--built DIR]";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", &[][..]),
    };
    match run(command, rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &str, rest: &[String]) -> Result<(), String> {
    let root = root();
    match command {
        "soak" => return soak::run(&root, rest),
        "lab" => return lab::run(&root, rest),
        "graph" => return graph::run(&root, rest),
        "install" => return install::run(&root, rest),
        "clients" => return clients::run(&root, rest),
        "targets" => return targets::run(&root, rest),
        "slt" | "functions" | "statements" | "fuzz" => return sqltest::run(&root, command, rest),
        _ => {}
    }
    if let Some(unknown) = rest.first() {
        return Err(format!("`{command}` takes no argument, but got `{unknown}`\n\n{USAGE}"));
    }
    match command {
        "ci" => ci::run(&root),
        "tidy" => tidy::run(&root),
        "features" => features::run(&root),
        "loom" => loom::run(&root).result("loom"),
        "miri" => miri::run(&root).result("miri"),
        "job" => job::run(&root),
        other => Err(format!("`{other}` is not a command\n\n{USAGE}")),
    }
}

/// Returns the root of the workspace: the directory above this package.
///
/// The path comes from the environment that cargo sets at run time: checkouts that share compiled
/// files also share the program, and the path from compile time may be another checkout's.
fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR");
    let package = package.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    package.parent().map(Path::to_path_buf).unwrap_or(package)
}
