//! Steps of FETCH and MOVE among the rows of a cursor, in the directions and with the counts of
//! PostgreSQL.

use terrace_sql::session::Steps;

use super::failure::Failure;
use super::guard::Guard;
use super::rows::{Keep, Rows, Target, forward_only};

/// Source of the rows that a step of a cursor needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The rows that follow, and the kept ones.
    Rows,
    /// The query, run again from its beginning, since the rows that were read are not kept.
    Restart,
}

impl Rows {
    /// Returns the source of the rows for `steps`; `returns` is true if the steps return the rows
    /// (FETCH), false if they skip them (MOVE).
    ///
    /// # Errors
    /// A cursor that cannot move backward.
    pub(super) fn way(&self, steps: Steps, returns: bool) -> Result<Way, Failure> {
        let rewinds = match steps {
            Steps::Absolute(number) => u64::try_from(number).is_ok_and(|it| it <= self.at()),
            Steps::Backward(None) => !returns,
            _ => false,
        };
        // A cursor before its first row is where it would rewind to.
        if rewinds && (self.is_kept() || self.at() == 0) {
            return Ok(Way::Rows);
        }
        if rewinds && self.keep() == Keep::Few {
            return Ok(Way::Restart);
        }
        let goes_back = match steps {
            Steps::Forward(Some(0)) | Steps::Relative(0) => returns && self.is_on_row(),
            Steps::Forward(_) => false,
            Steps::Backward(Some(0)) => returns,
            Steps::Backward(_) => true,
            Steps::Absolute(number) => rewinds || number < 0,
            Steps::Relative(rows) => rows < 0,
        };
        if goes_back && !self.is_kept() {
            return Err(forward_only());
        }
        Ok(Way::Rows)
    }

    /// Makes steps that [`Rows::way`] has allowed. Returns the number of rows passed on, or that
    /// would have been if they were not skipped.
    ///
    /// # Errors
    /// The failure of the query, or the event that ended it.
    pub(super) async fn go(
        &mut self,
        steps: Steps,
        target: &mut Target<'_>,
        guard: &Guard<'_>,
    ) -> Result<u64, Failure> {
        match steps {
            Steps::Forward(Some(0)) | Steps::Backward(Some(0)) | Steps::Relative(0) => {
                self.stay(target, guard).await
            }
            Steps::Forward(rows) => self.forward(target, guard, rows).await,
            Steps::Backward(rows) => self.back(target, guard, rows).await,
            Steps::Absolute(number) if number < 0 => {
                // The row is found from the end, so that any of the rows may be needed.
                self.keep_all();
                self.forward(&mut Target::Nowhere, guard, None).await?;
                self.back(&mut Target::Nowhere, guard, Some(number.unsigned_abs() - 1)).await?;
                self.back(target, guard, Some(1)).await
            }
            Steps::Absolute(number) => {
                let before = number.unsigned_abs().saturating_sub(1);
                match before.checked_sub(self.at()) {
                    None | Some(0) => self.place(before),
                    Some(ahead) => {
                        self.forward(&mut Target::Nowhere, guard, Some(ahead)).await?;
                    }
                }
                self.forward(target, guard, Some(number.unsigned_abs().min(1))).await
            }
            Steps::Relative(rows) if rows < 0 => {
                self.back(&mut Target::Nowhere, guard, Some(rows.unsigned_abs() - 1)).await?;
                self.back(target, guard, Some(1)).await
            }
            Steps::Relative(rows) => {
                let ahead = Some(rows.unsigned_abs() - 1);
                self.forward(&mut Target::Nowhere, guard, ahead).await?;
                self.forward(target, guard, Some(1)).await
            }
        }
    }

    /// Passes the current row on again. Returns 1 if there is one.
    async fn stay(&mut self, target: &mut Target<'_>, guard: &Guard<'_>) -> Result<u64, Failure> {
        if !self.is_on_row() {
            return Ok(0);
        }
        if matches!(target, Target::Nowhere) {
            return Ok(1);
        }
        self.place(self.at() - 1);
        self.forward(target, guard, Some(1)).await
    }

    /// Moves backward by `rows`, or to before the first row. Rows that are skipped are not read.
    async fn back(
        &mut self,
        target: &mut Target<'_>,
        guard: &Guard<'_>,
        rows: Option<u64>,
    ) -> Result<u64, Failure> {
        if !matches!(target, Target::Nowhere) {
            return self.backward(target, guard, rows).await;
        }
        let before = self.at().saturating_sub(1);
        match rows.filter(|rows| *rows <= before) {
            Some(rows) => {
                self.place(self.at() - rows);
                Ok(rows)
            }
            None => {
                self.place(0);
                Ok(before)
            }
        }
    }
}
