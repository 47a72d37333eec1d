//! Examines this machine and the tiers named on the command line:
//! `cargo run --release -p terrace-tier --example doctor -- emu:1GiB file:/data/terrace`.

use std::process::ExitCode;

use terrace_tier::TierSpec;
use terrace_tier::doctor::Report;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints")]
fn main() -> ExitCode {
    let specs: Result<Vec<TierSpec>, _> = std::env::args().skip(1).map(|arg| arg.parse()).collect();
    match specs {
        Ok(specs) => {
            print!("{}", Report::gather(&specs, &std::env::temp_dir()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
