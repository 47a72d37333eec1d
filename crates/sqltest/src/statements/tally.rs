//! Counts of a run, and its report.

use std::collections::BTreeMap;
use std::time::Duration;

use super::databases::Verdict;
use super::difference::Difference;
use super::reply::Reply;

/// Kind of differences of which each is printed; of any other kind only the first is.
const ROWS: &str = "rows";

/// Counts of scripts, statements and differences.
#[derive(Debug, Default)]
pub struct Tally {
    scripts: usize,
    compared: usize,
    refused: usize,
    known: usize,
    printed: usize,
    /// Differences that are not known, by database and kind.
    unknown: BTreeMap<(&'static str, String), usize>,
}

impl Tally {
    /// Counts a script.
    pub fn count(&mut self, verdict: &Verdict) {
        self.scripts += 1;
        self.compared += verdict.compared;
        self.refused += verdict.refused;
    }

    /// Counts a known difference.
    pub fn known(&mut self) {
        self.known += 1;
    }

    /// Counts a difference that is not known; returns true if it is to be printed: rows that
    /// differ, and the first of another kind.
    pub fn is_first(&mut self, difference: &Difference) -> bool {
        let count = self.unknown.entry((difference.peer, difference.kind.clone())).or_default();
        *count += 1;
        *count == 1 || difference.kind == ROWS
    }

    /// Returns the number of differences that were printed.
    #[must_use]
    pub fn printed(&self) -> usize {
        self.printed
    }

    /// Prints a difference.
    pub fn print_difference(&mut self, seed: u64, number: u64, difference: &Difference) {
        self.printed += 1;
        println!("\nDIFFERENT: {} (--seed {seed} --script {number})", difference.line());
        for statement in &difference.statements {
            println!("    {statement};");
        }
        print_reply("Terrace", &difference.ours);
        print_reply(difference.peer, &difference.theirs);
    }

    /// Prints the counts; returns the number of failures. `unused` are known differences that were
    /// not found.
    #[must_use]
    pub fn print(&self, unused: &[&str], took: Duration) -> usize {
        println!();
        for ((peer, kind), count) in &self.unknown {
            println!("{count:>6}  {peer}: {kind}");
        }
        for entry in unused {
            println!("NO LONGER DIFFERENT, remove it from statements/known.txt: {entry}");
        }
        let unknown: usize = self.unknown.values().sum();
        println!(
            "{} scripts, {} statements compared, {} refused by all; {} known differences, \
             {unknown} unknown ones; in {:.0} s",
            self.scripts,
            self.compared,
            self.refused,
            self.known,
            took.as_secs_f64()
        );
        unknown + unused.len()
    }
}

fn print_reply(name: &str, reply: &Reply) {
    match reply {
        Reply::Rows(table) => {
            println!("  {name}: {} rows of {}", table.rows.len(), table.types.join(", "));
            for line in table.lines() {
                println!("      {line}");
            }
        }
        Reply::Done(count) => println!("  {name}: done, {count}"),
        Reply::Refused { state, message } => println!("  {name}: {state} {message}"),
        Reply::Lost(what) => println!("  {name}: no reply: {what}"),
    }
}
