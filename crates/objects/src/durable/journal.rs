//! The journal: passes changes of objects to the log, and copies of changed groups to a dump.
//!
//! A change latches its group by [`Journal::latch`], which first copies the group for a dump that
//! has yet to come to it. Under that latch the change asks [`Journal::is_sound`], is made, and is
//! noted ([`Journal::note`]). Without the latch it waits by [`Journal::commit`]. A store without a
//! log has a journal too, as it may be dumped.

use super::change::Change;
use super::log::{Log, Position};
use super::snapshot::{Cut, Snapshot};
use crate::error::ObjectError;
use crate::groups::Groups;
use crate::groups::group::{Group, Latched, View};

/// Journal of a store: its log, if it has one, and the snapshot for a dump.
pub(crate) struct Journal {
    log: Option<Log>,
    snapshot: Snapshot,
}

impl Journal {
    /// Makes a journal without a log.
    pub(crate) fn new() -> Self {
        Self { log: None, snapshot: Snapshot::new() }
    }

    /// Sends the changes that are made from now on to a log.
    pub(crate) fn begin(&mut self, log: Log) {
        self.log = Some(log);
    }

    /// Returns the log, if there is one.
    #[inline]
    pub(crate) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Checks that this process may change the store: a child of the process that opened its log
    /// may not. Called before any lock is taken that a thread of the parent may have held at the
    /// fork, and which then is never released here.
    #[inline]
    pub(crate) fn is_here(&self) -> Result<(), ObjectError> {
        self.log.as_ref().map_or(Ok(()), Log::is_here)
    }

    /// Checks that the log, if there is one, accepts changes. The caller holds the latch of the
    /// group that it is about to change.
    #[inline]
    pub(crate) fn is_sound(&self) -> Result<(), ObjectError> {
        self.log.as_ref().map_or(Ok(()), Log::is_sound)
    }

    /// Appends a change to the log, under the latch of the changed group. Returns the position to
    /// pass to [`Journal::commit`]; 0 without a log.
    #[inline]
    pub(crate) fn note(&self, change: Change<'_>) -> Position {
        self.log.as_ref().map_or(0, |log| log.append(change))
    }

    /// Waits until all changes up to `position` are as durable as configured.
    #[inline]
    pub(crate) fn commit(&self, position: Position) -> Result<(), ObjectError> {
        self.log.as_ref().map_or(Ok(()), |log| log.commit(position))
    }

    /// Latches a group for a change of its contents, after a copy for a dump if one is needed.
    #[inline]
    pub(crate) fn latch<'a>(
        &self,
        groups: &'a Groups,
        number: u64,
        group: &'a Group,
    ) -> Latched<'a> {
        self.snapshot.latch(groups, number, group)
    }

    /// True if a latched group may be changed without a copy for a dump.
    #[inline]
    pub(crate) fn needs_no_copy(&self, view: &View) -> bool {
        self.snapshot.turn().suits(view.word)
    }

    /// True if a dump is writing this group, which cannot be changed meanwhile.
    pub(crate) fn is_writing(&self, number: u64) -> bool {
        self.snapshot.is_writing(number)
    }

    /// Begins a dump of the groups as they are now; waits for a dump in progress.
    pub(crate) fn cut<'a>(&'a self, groups: &'a Groups) -> Cut<'a> {
        self.snapshot.cut(groups)
    }
}
