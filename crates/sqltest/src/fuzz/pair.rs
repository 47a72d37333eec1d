//! Terrace and its peer with the same tables, and the verdict on their answers.

use std::time::Duration;

use tempfile::TempDir;

use super::cell::{self, Answer, Cell};
use super::compare;
use super::dialect::Dialect;
use super::generate::{CHANGED, Case};
use super::load;
use super::peer::Peer;
use super::schema::Table;
use super::setup::Setup;
use crate::database::Database;
use crate::error::{CheckError, Result};
use crate::outcome::{HANG, Outcome, execute, execute_within};

/// Time limit of a statement that the peer refused: there is no answer to compare with.
const HANG_ALONE: Duration = Duration::from_secs(10);

/// Rows of an answer.
pub type Rows = Vec<Vec<Cell>>;

/// A function that alters Terrace's answer to a statement: the canary of the tests.
pub type Sabotage = fn(&str, &mut Rows);

/// The verdict on one case.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Both databases gave the same rows.
    Same,
    /// Both databases refused.
    BothRefused,
    /// The peer refused, or did not answer within its limits.
    PeerRefused(String),
    /// The peer refused, and Terrace gave no answer within the time limit.
    NeitherAnswered(String),
    /// Terrace refused, and the peer answered.
    Refused(String),
    /// The answers differ: Terrace's and the peer's.
    Wrong(Rows, Rows),
    /// Terrace panicked.
    Panicked(String),
    /// Terrace gave no answer within the time limit, and the peer answered.
    Hung,
}

impl Verdict {
    /// True for a failure: wrong rows, a panic or a hang.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Wrong(..) | Self::Panicked(_) | Self::Hung)
    }

    /// True if Terrace may still be running the case.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        matches!(self, Self::Hung | Self::NeitherAnswered(_))
    }

    /// True if both are failures of one kind.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.is_failure() && std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// Terrace and its peer, with the same tables.
pub struct Pair {
    database: Database,
    peer: Peer,
    files: TempDir,
    tables: Vec<Table>,
    /// The canary of a test, which alters Terrace's answers.
    pub sabotage: Option<Sabotage>,
}

impl Pair {
    /// Opens a database and loads the tables into both databases.
    ///
    /// # Errors
    /// If one of the databases refuses a table.
    pub async fn open(setup: &Setup, tables: Vec<Table>, peer: Peer) -> Result<Self> {
        let database = Database::open(setup.dram_bytes, setup.partitions)?;
        let files = tempfile::tempdir();
        let parent = std::env::temp_dir();
        let files = files.map_err(|error| CheckError::file("create", &parent, error))?;
        let mut pair = Self { database, peer, files, tables: Vec::new(), sabotage: None };
        pair.load(tables).await?;
        Ok(pair)
    }

    /// Returns the tables.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Returns the peer's SQL dialect.
    #[must_use]
    pub fn peer_dialect(&self) -> Dialect {
        self.peer.dialect()
    }

    /// Replaces all tables.
    ///
    /// # Errors
    /// If one of the databases refuses a table.
    pub async fn load(&mut self, tables: Vec<Table>) -> Result<()> {
        self.tables = tables;
        for place in 0..self.tables.len() {
            self.load_one(place).await?;
        }
        Ok(())
    }

    /// Replaces one table.
    ///
    /// # Errors
    /// If one of the databases refuses it.
    pub async fn replace(&mut self, place: usize, table: Table) -> Result<()> {
        self.tables[place] = table;
        self.load_one(place).await
    }

    async fn load_one(&mut self, place: usize) -> Result<()> {
        let table = &self.tables[place];
        let file = self.files.path().join(format!("{}.parquet", table.name));
        if load::from_file(table) {
            load::write(table, &file)?;
        }
        for statement in load::statements(table, Dialect::Terrace, &file) {
            self.must(&statement).await?;
        }
        self.peer.load(&self.tables[place], &file).await
    }

    /// Applies settings to Terrace's session.
    ///
    /// # Errors
    /// If the session refuses one.
    pub async fn set(&self, setup: &Setup) -> Result<()> {
        for statement in setup.statements() {
            self.must(&statement).await?;
        }
        Ok(())
    }

    async fn must(&self, statement: &str) -> Result<()> {
        match execute(self.database.session(), statement).await {
            Outcome::Rows(_) => Ok(()),
            other => {
                let start: String = statement.chars().take(300).collect();
                Err(CheckError::Rows(format!("Terrace at `{start}`: {other:?}")))
            }
        }
    }

    /// Runs a case in both databases and returns the verdict.
    ///
    /// # Errors
    /// If the peer itself fails.
    pub async fn verdict(&mut self, case: &Case) -> Result<Verdict> {
        let render = |dialect| {
            let statements = case.statements.iter();
            statements.map(|statement| statement.render(dialect)).collect::<Vec<_>>()
        };
        let theirs = self.peer.ask(&render(self.peer.dialect())).await?;
        if let Err(message) = &theirs
            && (message.contains("INTERRUPT") || message.contains("peer limit"))
        {
            self.clean(case).await?;
            return Ok(Verdict::PeerRefused("the answer is above the peer's limits".to_owned()));
        }
        let limit = if theirs.is_ok() { HANG } else { HANG_ALONE };
        let ours = self.answer(&render(Dialect::Terrace), limit).await;
        self.clean(case).await?;
        Ok(judge(ours, theirs))
    }

    /// Returns Terrace's answer, or the verdict that it panicked or hung.
    async fn answer(&self, statements: &[String], limit: Duration) -> Result<Answer, Verdict> {
        let mut rows = Vec::new();
        for statement in statements {
            rows = match execute_within(self.database.session(), statement, limit).await {
                Outcome::Rows(batches) => batches,
                Outcome::Refused(message) => return Ok(Err(message)),
                Outcome::Panicked(message) => return Err(Verdict::Panicked(message)),
                Outcome::Hung => return Err(Verdict::Hung),
            };
        }
        let mut rows = match cell::rows(&rows) {
            Ok(rows) => rows,
            Err(message) => return Ok(Err(message)),
        };
        if let (Some(sabotage), Some(last)) = (self.sabotage, statements.last()) {
            sabotage(last, &mut rows);
        }
        Ok(Ok(rows))
    }

    /// Drops the table that the case has created.
    async fn clean(&mut self, case: &Case) -> Result<()> {
        if case.statements.len() < 2 {
            return Ok(());
        }
        let drop = format!("DROP TABLE IF EXISTS {CHANGED}");
        let _ = execute(self.database.session(), &drop).await;
        self.peer.ask(&[drop]).await.map(|_| ())
    }
}

fn judge(ours: Result<Answer, Verdict>, theirs: Answer) -> Verdict {
    match (ours, theirs) {
        // Without an answer of the peer, the case may be one that nothing answers in time.
        (Err(Verdict::Hung), Err(message)) => Verdict::NeitherAnswered(message),
        (Err(failure), _) => failure,
        (Ok(Err(_)), Err(_)) => Verdict::BothRefused,
        (Ok(Err(message)), Ok(_)) => Verdict::Refused(message),
        (Ok(Ok(_)), Err(message)) => Verdict::PeerRefused(message),
        (Ok(Ok(ours)), Ok(theirs)) if compare::same(&ours, &theirs) => Verdict::Same,
        (Ok(Ok(ours)), Ok(theirs)) => Verdict::Wrong(ours, theirs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hang_fails_only_where_the_peer_answered() {
        let refused = || Err("Binder Error".to_owned());
        let hung = judge(Err(Verdict::Hung), refused());
        assert!(matches!(hung, Verdict::NeitherAnswered(_)) && hung.is_unfinished(), "{hung:?}");
        assert!(!hung.is_failure());
        let hung = judge(Err(Verdict::Hung), Ok(Vec::new()));
        assert!(hung.is_failure() && hung.is_unfinished(), "{hung:?}");
        let panic = judge(Err(Verdict::Panicked("index".to_owned())), refused());
        assert!(panic.is_failure() && !panic.is_unfinished(), "{panic:?}");
    }
}
