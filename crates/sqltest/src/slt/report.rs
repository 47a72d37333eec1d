//! The counts of a run, printed as a table.

use std::collections::BTreeMap;
use std::time::Duration;

/// A record with a wrong result.
#[derive(Clone, Debug)]
pub struct Failure {
    line: usize,
    sql: String,
    what: String,
}

/// The counts of one script.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// The script.
    pub name: String,
    /// Records with the right result.
    pub passed: usize,
    /// Records that gave a wrong result, panicked or hung.
    pub failures: Vec<Failure>,
    /// Records that Terrace refused, by reason.
    pub refused: BTreeMap<String, usize>,
    /// Time that the records took.
    pub seconds: f64,
}

impl FileReport {
    /// Returns the empty report of a script.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let (failures, refused) = (Vec::new(), BTreeMap::new());
        Self { name: name.to_owned(), passed: 0, failures, refused, seconds: 0.0 }
    }

    /// Counts a failure.
    pub fn fail(&mut self, line: usize, sql: &str, what: &str) {
        self.failures.push(Failure { line, sql: sql.to_owned(), what: what.to_owned() });
    }

    /// Counts a refusal.
    pub fn refuse(&mut self, reason: &str) {
        *self.refused.entry(reason.to_owned()).or_default() += 1;
    }
}

/// The counts of all scripts.
#[derive(Debug)]
pub struct Report {
    files: Vec<FileReport>,
}

impl Report {
    /// Combines the reports of scripts, sorted by name.
    #[must_use]
    pub fn of(mut files: Vec<FileReport>) -> Self {
        files.sort_by(|left, right| left.name.cmp(&right.name));
        Self { files }
    }

    /// Returns the number of records with a wrong result.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.files.iter().map(|file| file.failures.len()).sum()
    }

    /// Prints the counts by directory, the reasons of refusals and the first `show` failures.
    pub fn print(&self, show: usize, took: Duration) {
        println!(
            "{:<28} {:>7} {:>9} {:>7} {:>11}",
            "scripts", "files", "passed", "failed", "refused"
        );
        for (name, counts) in self.directories() {
            println!("{name:<28} {counts}");
        }
        let total = self.files.iter().fold(Counts::default(), |sum, file| sum.plus(file));
        println!("{:<28} {total}   in {} s", "all", took.as_secs());
        let mut refused = BTreeMap::<_, usize>::new();
        for (reason, count) in self.files.iter().flat_map(|file| &file.refused) {
            *refused.entry(reason.as_str()).or_default() += count;
        }
        let mut refused: Vec<_> = refused.into_iter().collect();
        refused.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        if !refused.is_empty() {
            println!("\nrefused  reason");
        }
        for (reason, count) in refused {
            println!("{count:>7}  {reason}");
        }
        self.print_failures(show);
    }

    fn print_failures(&self, show: usize) {
        let all = self.files.iter().flat_map(|file| file.failures.iter().map(move |it| (file, it)));
        for (file, failure) in all.take(show) {
            println!("\nFAILED {}:{}\n      {}", file.name, failure.line, failure.sql);
            println!("      {}", failure.what);
        }
        if self.failed() > show {
            println!("\nand {} more; --show says how many are printed", self.failed() - show);
        }
    }

    fn directories(&self) -> BTreeMap<&str, Counts> {
        let mut sums = BTreeMap::<_, Counts>::new();
        for file in &self.files {
            let directory = file.name.rsplit_once('/').map_or("", |(directory, _)| directory);
            let sum = sums.entry(directory).or_default();
            *sum = sum.plus(file);
        }
        sums
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    files: usize,
    passed: usize,
    failed: usize,
    refused: usize,
}

impl Counts {
    fn plus(self, file: &FileReport) -> Self {
        Self {
            files: self.files + 1,
            passed: self.passed + file.passed,
            failed: self.failed + file.failures.len(),
            refused: self.refused + file.refused.values().sum::<usize>(),
        }
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { files, passed, failed, refused } = self;
        write!(f, "{files:>7} {passed:>9} {failed:>7} {refused:>11}")
    }
}
