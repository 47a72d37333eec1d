//! Shrinks a script with a difference: parts of its tree, then whole statements.

use std::time::{Duration, Instant};

use super::databases::Databases;
use super::difference::Difference;
use super::grammar::{Judges, Script};
use crate::error::Result;

/// Returns the difference of the smallest script that is found within the time limit.
///
/// # Errors
/// If a database itself fails.
pub async fn shrink(
    databases: &mut Databases,
    script: &Script,
    difference: Difference,
    limit: Duration,
) -> Result<Difference> {
    let judges = script.judges();
    let deadline = Instant::now() + limit;
    let mut shrinker = Shrinker { databases, judges, difference, deadline };
    shrinker.tree(script.clone()).await?;
    shrinker.statements().await?;
    Ok(shrinker.difference)
}

struct Shrinker<'a> {
    databases: &'a mut Databases,
    judges: Judges,
    difference: Difference,
    deadline: Instant,
}

impl Shrinker<'_> {
    fn late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Returns true if a script has a difference of the same kind, which then replaces that of the
    /// larger one.
    async fn takes(&mut self, statements: &[String]) -> Result<bool> {
        let verdict = self.databases.verdict(self.judges, statements).await?;
        let mut found = verdict.differences.into_iter();
        let Some(found) = found.find(|it| it.is_like(&self.difference)) else { return Ok(false) };
        self.difference = found;
        Ok(true)
    }

    async fn tree(&mut self, mut script: Script) -> Result<()> {
        while let Some(smaller) = self.smaller(&script).await? {
            script = smaller;
        }
        Ok(())
    }

    async fn smaller(&mut self, script: &Script) -> Result<Option<Script>> {
        for node in script.node.smaller() {
            let candidate = Script { node };
            if self.late() {
                return Ok(None);
            }
            if candidate.judges() == self.judges && self.takes(&candidate.statements()).await? {
                return Ok(Some(candidate));
            }
        }
        Ok(None)
    }

    /// Removes the statements that the difference does not need.
    async fn statements(&mut self) -> Result<()> {
        let mut place = 0;
        while place + 1 < self.difference.statements.len() && !self.late() {
            let mut statements = self.difference.statements.clone();
            statements.remove(place);
            if !self.takes(&statements).await? {
                place += 1;
            }
        }
        Ok(())
    }
}
