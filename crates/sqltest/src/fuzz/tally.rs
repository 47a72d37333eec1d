//! The counts of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use super::pair::Verdict;
use crate::outcome::reason;

/// Counts of verdicts, with the reasons of refusals.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    cases: u64,
    same: u64,
    both_refused: u64,
    /// Refusals by Terrace: the count and an example for each reason.
    refused: BTreeMap<String, (u64, String)>,
    peer_refused: BTreeMap<String, (u64, String)>,
    /// Cases that failed.
    pub failed: u64,
}

impl Tally {
    /// Counts a verdict on a case.
    pub fn count(&mut self, verdict: &Verdict, example: impl FnOnce() -> String) {
        self.cases += 1;
        match verdict {
            Verdict::Same => self.same += 1,
            Verdict::BothRefused => self.both_refused += 1,
            Verdict::Refused(message) => note(&mut self.refused, message, example()),
            Verdict::PeerRefused(message) | Verdict::NeitherAnswered(message) => {
                note(&mut self.peer_refused, message, example())
            }
            Verdict::Wrong(..) | Verdict::Panicked(_) | Verdict::Hung => self.failed += 1,
        }
    }

    /// Adds the counts of another tally.
    pub fn add(&mut self, other: Self) {
        self.cases += other.cases;
        self.same += other.same;
        self.both_refused += other.both_refused;
        self.failed += other.failed;
        merge(&mut self.refused, other.refused);
        merge(&mut self.peer_refused, other.peer_refused);
    }

    /// Prints the counts.
    pub fn print(&self, took: Duration, examples: bool) {
        let rate = u128::from(self.cases) * 1000 / took.as_millis().max(1);
        println!("\n{:>8}  cases in {} s, {rate} a second", self.cases, took.as_secs());
        println!("{:>8}  same", self.same);
        println!("{:>8}  wrong, panicked or hung", self.failed);
        println!("{:>8}  refused by both", self.both_refused);
        print_reasons("refused by Terrace alone", &self.refused, examples);
        print_reasons("refused by the peer alone", &self.peer_refused, examples);
    }
}

type Reasons = BTreeMap<String, (u64, String)>;

/// Counts a reason and keeps the shortest example of it.
fn note(reasons: &mut Reasons, message: &str, example: String) {
    let entry = reasons.entry(reason(message)).or_insert_with(|| (0, example.clone()));
    entry.0 += 1;
    if example.len() < entry.1.len() {
        entry.1 = example;
    }
}

fn merge(reasons: &mut Reasons, others: Reasons) {
    for (reason, (count, example)) in others {
        let entry = reasons.entry(reason).or_insert_with(|| (0, example.clone()));
        entry.0 += count;
        if example.len() < entry.1.len() {
            entry.1 = example;
        }
    }
}

fn print_reasons(title: &str, reasons: &Reasons, examples: bool) {
    let total: u64 = reasons.values().map(|(count, _)| count).sum();
    println!("{total:>8}  {title}");
    let mut reasons: Vec<_> = reasons.iter().collect();
    reasons.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    for (reason, (count, example)) in reasons {
        println!("{count:>12}  {reason}");
        if examples {
            println!("{:>12}  such as: {example}", "");
        }
    }
}
