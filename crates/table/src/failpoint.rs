//! Failpoints, at which tests interrupt a write. Outside tests they hold no state and check
//! nothing.

use crate::error::SqlError;

/// A point in a statement that writes, named by the step that follows.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// The pages of a chunk are written to the store.
    Persist,
    /// A persisted chunk is handed to its statement.
    Persisted,
    /// The store is synced.
    Sync,
    /// The catalog commits.
    Commit,
    /// The device reports whether the commit reached it.
    Committed,
    /// The new version is published to readers.
    Swap,
}

#[cfg(test)]
pub(crate) type Hook = std::sync::Arc<dyn Fn(Point) -> Result<(), SqlError> + Send + Sync>;

/// The failpoints that a test has set.
#[derive(Default)]
pub(crate) struct Failpoints {
    #[cfg(test)]
    hook: std::sync::Mutex<Option<Hook>>,
}

impl Failpoints {
    /// Calls `hook` at every point from now on; an error of the hook fails the statement there.
    #[cfg(test)]
    pub fn set(&self, hook: Option<Hook>) {
        *self.hook.lock().expect("no hook panics") = hook;
    }

    /// Passes `point`, unless the test's hook fails it.
    #[cfg(test)]
    pub(crate) fn hit(&self, point: Point) -> Result<(), SqlError> {
        let hook = self.hook.lock().expect("no hook panics").clone();
        hook.map_or(Ok(()), |hook| hook(point))
    }

    /// Passes `point`.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests may fail here")]
    pub(crate) fn hit(&self, _: Point) -> Result<(), SqlError> {
        Ok(())
    }
}
