//! Counts of a run, and its report.

use std::collections::BTreeMap;
use std::time::Duration;

use super::answer::Verdict;

/// Maximum number of differences that are printed.
const PRINTED_MAX: usize = 4000;

/// Counts, faults and differences.
#[derive(Debug, Default)]
pub struct Tally {
    verdicts: BTreeMap<&'static str, usize>,
    /// Calls that Terrace alone refuses, by function.
    refused: BTreeMap<String, usize>,
    compared: usize,
    constant: usize,
    differences: Vec<String>,
    faults: Vec<String>,
}

impl Tally {
    /// Counts a verdict.
    pub fn count(&mut self, verdict: Verdict) {
        let name = match verdict {
            Verdict::Right => "right",
            Verdict::RefusedByAll => "refused by all",
            Verdict::Refused => "refused by Terrace alone",
            Verdict::Different => "different",
            Verdict::Unjudged => "of no other database",
        };
        *self.verdicts.entry(name).or_default() += 1;
    }

    /// Records a fault of a statement.
    pub fn fault(&mut self, statement: &str, what: &str) {
        let what = what.lines().next().unwrap_or_default();
        self.faults.push(format!("{statement}\n    {what}"));
    }

    /// Records a difference that is not known.
    pub fn different(&mut self, line: String) {
        self.differences.push(line);
    }

    /// Counts a call that Terrace alone refuses.
    pub fn refused(&mut self, function: &str) {
        *self.refused.entry(function.to_owned()).or_default() += 1;
    }

    /// Counts a comparison of literals and columns.
    pub fn compared(&mut self) {
        self.compared += 1;
    }

    /// Counts a call that is answered with literals and refused over columns.
    pub fn constant(&mut self) {
        self.constant += 1;
    }

    /// Prints everything; returns the number of failures. `unused` are known differences that were
    /// not found.
    #[must_use]
    pub fn print(&self, unused: &[&str], took: Duration) -> usize {
        for line in self.differences.iter().take(PRINTED_MAX) {
            println!("DIFFERENT: {line}");
        }
        for line in &self.faults {
            println!("FAULT: {line}");
        }
        for entry in unused {
            println!("NO LONGER DIFFERENT, remove it from functions/known.txt: {entry}");
        }
        if !self.refused.is_empty() {
            let refused: Vec<_> =
                self.refused.iter().map(|(name, n)| format!("{name} {n}")).collect();
            println!("refused by Terrace alone: {}", refused.join(", "));
        }
        let calls: usize = self.verdicts.values().sum();
        let verdicts: Vec<_> =
            self.verdicts.iter().map(|(name, n)| format!("{n} {name}")).collect();
        println!(
            "{calls} calls: {}; {} compared over columns, {} with constants alone; {} unknown \
             differences, {} faults; in {:.0} s",
            verdicts.join(", "),
            self.compared,
            self.constant,
            self.differences.len(),
            self.faults.len(),
            took.as_secs_f64()
        );
        self.differences.len() + self.faults.len() + unused.len()
    }
}
