//! Shrinks a failing case: its statements, then rows, then columns, until the time is up.

use std::time::{Duration, Instant};

use super::generate::Case;
use super::pair::{Pair, Verdict};
use super::schema::Table;
use crate::error::Result;

/// A shrunk case that fails as `verdict` says, and its tables.
pub struct Shrunk {
    /// The case.
    pub case: Case,
    /// The tables; the pair has them loaded as well.
    pub tables: Vec<Table>,
    /// The verdict on the case.
    pub verdict: Verdict,
}

/// Searches for the smallest case and tables that fail in the same way.
///
/// # Errors
/// If the peer or the loading of a table fails.
pub async fn shrink(
    pair: &mut Pair,
    case: Case,
    verdict: Verdict,
    limit: Duration,
) -> Result<Shrunk> {
    let mut shrinker = Shrinker { pair, case, verdict, deadline: Instant::now() + limit };
    // A hanging case is not shrunk: every candidate would take a minute.
    if !matches!(shrinker.verdict, Verdict::Hung) {
        shrinker.statements().await?;
        shrinker.rows().await?;
        shrinker.columns().await?;
        shrinker.statements().await?;
        shrinker.rows().await?;
    }
    let Shrinker { pair, case, verdict, .. } = shrinker;
    Ok(Shrunk { case, tables: pair.tables().to_vec(), verdict })
}

struct Shrinker<'a> {
    pair: &'a mut Pair,
    case: Case,
    verdict: Verdict,
    deadline: Instant,
}

impl Shrinker<'_> {
    fn late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Returns true if a candidate fails in the same way; it then replaces the case.
    async fn takes(&mut self, candidate: Case) -> Result<bool> {
        let verdict = self.pair.verdict(&candidate).await?;
        let same = verdict.is_like(&self.verdict);
        if same {
            (self.case, self.verdict) = (candidate, verdict);
        }
        Ok(same)
    }

    async fn statements(&mut self) -> Result<()> {
        while !self.late() && self.smaller_statement().await? {}
        Ok(())
    }

    /// Replaces the case by the first smaller one that still fails. False if there is none.
    async fn smaller_statement(&mut self) -> Result<bool> {
        for candidate in candidates(&self.case) {
            if self.late() {
                return Ok(false);
            }
            if self.takes(candidate).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn rows(&mut self) -> Result<()> {
        for place in 0..self.pair.tables().len() {
            let mut size = self.pair.tables()[place].rows.len();
            while size > 0 && !self.late() {
                self.runs_of_rows(place, size).await?;
                size /= 2;
            }
        }
        Ok(())
    }

    /// Removes runs of `size` rows where the case still fails without them.
    async fn runs_of_rows(&mut self, place: usize, size: usize) -> Result<()> {
        let mut at = 0;
        while at < self.pair.tables()[place].rows.len() && !self.late() {
            let mut table = self.pair.tables()[place].clone();
            let end = (at + size).min(table.rows.len());
            table.rows.drain(at..end);
            table.inserts = 1;
            if !self.takes_table(place, table).await? {
                at = end;
            }
        }
        Ok(())
    }

    async fn columns(&mut self) -> Result<()> {
        for place in 0..self.pair.tables().len() {
            for column in (0..self.pair.tables()[place].columns.len()).rev() {
                let mut table = self.pair.tables()[place].clone();
                if table.columns.len() < 2 || self.late() {
                    break;
                }
                table.columns.remove(column);
                for row in &mut table.rows {
                    row.remove(column);
                }
                self.takes_table(place, table).await?;
            }
        }
        Ok(())
    }

    /// Replaces a table by a smaller one and returns true if the case still fails; otherwise
    /// restores the old table.
    async fn takes_table(&mut self, place: usize, table: Table) -> Result<bool> {
        let old = self.pair.tables()[place].clone();
        self.pair.replace(place, table).await?;
        if self.takes(self.case.clone()).await? {
            return Ok(true);
        }
        self.pair.replace(place, old).await?;
        Ok(false)
    }
}

/// Returns the cases that have one statement less, or one smaller statement.
fn candidates(case: &Case) -> Vec<Case> {
    let last = case.statements.len().saturating_sub(1);
    let without = (0..last).map(|place| {
        let mut case = case.clone();
        case.statements.remove(place);
        case
    });
    let smaller = case.statements.iter().enumerate().flat_map(|(place, statement)| {
        statement.smaller().into_iter().map(move |smaller| {
            let mut case = case.clone();
            case.statements[place] = smaller;
            case
        })
    });
    without.chain(smaller).collect()
}
