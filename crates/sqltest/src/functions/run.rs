//! State of a run over all functions: the databases, the known differences and the counts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_sql::Session;

use super::answer::{Answer, Verdict, verdict};
use super::argument;
use super::call::table;
use super::peers::Peers;
use super::tally::Tally;
use super::terrace;
use crate::database::Database;
use crate::error::{CheckError, Result};
use crate::known::Known;
use crate::outcome::{Outcome, execute};

/// Memory budget of the engine in bytes.
const DRAM_BYTES: u64 = 128 << 20;
/// Duration from which a call counts as a fault, since each call has only a few rows.
const SLOW: Duration = Duration::from_secs(3);

/// A run over all functions.
pub struct Run {
    database: Database,
    peers: Peers,
    known: Known,
    tally: Tally,
    /// True if calls that Terrace alone refuses, and calls that no other database knows, are
    /// printed.
    shows: bool,
}

impl Run {
    /// Opens a database with the table of values.
    ///
    /// # Errors
    /// If the engine refuses the table.
    pub async fn open(peers: Peers, known: Known, shows: bool) -> Result<Self> {
        // With one partition, the rows of lists and of the first value have an order.
        let database = Database::open(DRAM_BYTES, 1)?;
        for statement in table(argument::Database::Terrace) {
            match execute(database.session(), &statement).await {
                Outcome::Rows(_) => {}
                other => return Err(CheckError::Rows(format!("{statement}: {other:?}"))),
            }
        }
        let tally = Tally::default();
        Ok(Self { database, peers, known, tally, shows })
    }

    /// Returns Terrace's session.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        self.database.session()
    }

    /// True if another database has a function of these names.
    #[must_use]
    pub fn is_judged(&self, names: &[String]) -> bool {
        self.peers.have(names)
    }

    /// Runs a query in Terrace and returns its answer. Records a fault if it panics, takes too
    /// long, or ends with an internal error.
    pub async fn answer(&mut self, query: &str) -> Answer {
        let began = Instant::now();
        let outcome = execute(self.database.session(), query).await;
        let took = began.elapsed();
        if took > SLOW {
            self.tally.fault(query, &format!("it takes {took:.1?}"));
        }
        match outcome {
            Outcome::Rows(batches) => match terrace::values(&batches) {
                Ok(values) => Answer::Values(values),
                Err(error) => {
                    self.tally.fault(query, &format!("its result cannot be read: {error}"));
                    Answer::Unknown
                }
            },
            Outcome::Refused(message) => Answer::Refused(message),
            Outcome::Panicked(message) => {
                self.tally.fault(query, &message);
                Answer::Unknown
            }
            Outcome::Hung => {
                self.tally.fault(query, "it does not end");
                Answer::Unknown
            }
        }
    }

    /// Compares Terrace's answer to a call with those of the other databases.
    ///
    /// # Errors
    /// If DuckDB's process ended.
    pub async fn judge(
        &mut self,
        call: &str,
        own: &Answer,
        names: &[String],
        query: impl Fn(&str, argument::Database) -> Option<String>,
    ) -> Result<()> {
        let judges = self.peers.ask(names, query).await?;
        let verdict = verdict(own, &judges);
        self.tally.count(verdict);
        let [duck, postgres] = &judges;
        let line = || format!("{call}\n    Terrace: {own}  DuckDB: {duck}  PostgreSQL: {postgres}");
        match verdict {
            Verdict::Different if !self.known.has(call) => self.tally.different(line()),
            Verdict::Refused => {
                self.tally.refused(names.first().map_or("", String::as_str));
                if self.shows {
                    println!("refused: {}", line());
                }
            }
            Verdict::Unjudged if self.shows => println!("unjudged: {call}\n    Terrace: {own}"),
            _ => {}
        }
        Ok(())
    }

    /// Compares Terrace's answers to a call with literals and to the same call with columns, and
    /// records a difference that is not known.
    pub fn compare(&mut self, call: &str, literals: &Answer, columns: &Answer) {
        self.tally.compared();
        if !columns.agrees(literals) && !self.known.has(call) {
            let line = format!("{call}\n    literals: {literals}  columns: {columns}");
            self.tally.different(line);
        }
    }

    /// Counts a call that is refused over columns and answered with literals.
    pub fn refused_columns(&mut self, call: &str, error: &Answer) {
        self.tally.constant();
        if self.shows {
            println!("refused over columns: {call}\n    {error}");
        }
    }

    /// Prints the results; returns the number of failures.
    #[must_use]
    pub fn finish(&self, is_whole: bool, took: Duration) -> usize {
        let unused: Vec<_> = match is_whole && self.peers.is_complete() {
            true => self.known.unused().collect(),
            false => Vec::new(),
        };
        self.tally.print(&unused, took)
    }
}
