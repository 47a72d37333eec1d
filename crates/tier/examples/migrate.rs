//! Benchmark of page migration to another memory node, for machines without space for all of
//! `terrace`: `terrace bench migration` prints the same figures, and next to them those of the
//! reports that this example writes on other machines.
//!
//! `cargo run --release -p terrace-tier --example migrate -- --json FILE`

use std::error::Error;

use terrace_sys::probe::Probe;

use self::survey::{Speed, Survey};

#[path = "../../bench/src/experiments/migration/survey.rs"]
mod survey;

fn main() -> Result<(), Box<dyn Error>> {
    let json = json_file()?;
    let survey = Survey::take(&Probe::detect(), &mut |_| {})?;
    print(&survey);
    if let Some(path) = json {
        std::fs::write(path, serde_json::to_string_pretty(&survey)?)?;
    }
    Ok(())
}

fn json_file() -> Result<Option<String>, String> {
    let mut words = std::env::args().skip(1);
    match (words.next().as_deref(), words.next(), words.next()) {
        (None, ..) => Ok(None),
        (Some("--json"), Some(path), None) => Ok(Some(path)),
        _ => Err("usage: migrate [--json FILE]".into()),
    }
}

#[expect(clippy::print_stdout, reason = "a program that prints")]
fn print(survey: &Survey) {
    println!("Linux {}, memory nodes: {}", survey.kernel, survey.nodes);
    if !survey.between_nodes {
        println!("one node: calls find every page where it should be, and move nothing");
    }
    println!("{:<18} {:>6} {:>10} {:>12} {:>7}", "how", "batch", "us/page", "pages/s", "missed");
    for speed in &survey.results {
        let Speed { how, batch, page_us, pages_per_s, missed, .. } = speed;
        println!("{how:<18} {batch:>6} {page_us:>10.2} {pages_per_s:>12.0} {missed:>7}");
    }
    println!("to prefer a node and no longer: {:.2} us", survey.policy_us);
    println!("mover: {}: {}", survey.chosen.mover, survey.chosen.why);
}
