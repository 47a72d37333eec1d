//! Locks and pins of one object.

/// Mode of an object's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Shared with other readers.
    Read,
    /// Exclusive.
    Write,
}

/// Way in which a lock or pin is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// By dropping a guard.
    Guard,
    /// By id.
    Bare,
}

/// Locks and pins of one object, and its waiters.
///
/// Locks and pins taken without a guard are counted separately as well, so that a release by id
/// never releases the hold of a guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    readers: u32,
    writer: bool,
    pins: u32,
    /// The share of the readers, the writer and the pins that is held without a guard.
    bare_readers: u32,
    bare_writer: bool,
    bare_pins: u32,
    /// A reader waits to upgrade.
    upgrading: bool,
    /// Threads that wait to write or to change the object, without the one that upgrades.
    waiting: u32,
}

impl Record {
    /// True if the object is locked or pinned, as the group's bit says.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.readers > 0 || self.writer || self.pins > 0
    }

    /// True if the object is locked in any mode.
    #[inline]
    pub(crate) fn is_locked(&self) -> bool {
        self.readers > 0 || self.writer
    }

    /// True if nothing is held, and no thread waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// True if a thread holds the write lock.
    #[inline]
    pub(crate) fn is_writing(&self) -> bool {
        self.writer
    }

    /// True if the object is pinned.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pins > 0
    }

    /// Releases the lock and returns true, if it is held in this mode and manner.
    #[inline]
    pub(crate) fn give(&mut self, mode: LockMode, hold: Hold) -> bool {
        let held = self.holds(mode, hold);
        match mode {
            LockMode::Read if held => self.readers -= 1,
            LockMode::Write if held => self.writer = false,
            _ => return false,
        }
        self.count_bare(mode, hold, false);
        true
    }

    /// True if the lock is held in this mode and manner.
    #[inline]
    pub(crate) fn holds(&self, mode: LockMode, hold: Hold) -> bool {
        match (mode, hold) {
            (LockMode::Read, Hold::Bare) => self.bare_readers > 0,
            (LockMode::Read, Hold::Guard) => self.readers > self.bare_readers,
            (LockMode::Write, Hold::Bare) => self.bare_writer,
            (LockMode::Write, Hold::Guard) => self.writer && !self.bare_writer,
        }
    }

    /// Counts a lock that was taken or released without a guard.
    #[inline]
    pub(crate) fn count_bare(&mut self, mode: LockMode, hold: Hold, taken: bool) {
        match (hold, mode) {
            (Hold::Guard, _) => {}
            (Hold::Bare, LockMode::Write) => self.bare_writer = taken,
            (Hold::Bare, LockMode::Read) if taken => self.bare_readers += 1,
            (Hold::Bare, LockMode::Read) => self.bare_readers -= 1,
        }
    }

    /// Takes the lock and returns true, if it is free. `queued`: the caller is one of the waiters.
    #[inline]
    pub(crate) fn take(&mut self, mode: LockMode, queued: bool) -> bool {
        match mode {
            LockMode::Read => {
                let others = self.waiting > 0 || self.upgrading;
                let free = !self.writer && !others && self.readers < u32::MAX;
                self.readers += u32::from(free);
                free
            }
            LockMode::Write => {
                let free = !self.is_locked();
                self.writer |= free;
                self.waiting -= u32::from(free && queued);
                free
            }
        }
    }

    /// Adds a thread to those that wait to write or to change the object.
    pub(crate) fn enqueue(&mut self) {
        self.waiting += 1;
    }

    /// Removes a thread from those that wait.
    pub(crate) fn leave_queue(&mut self) {
        self.waiting -= 1;
    }

    /// Notes that a reader waits to upgrade. Returns false if another one already does.
    pub(crate) fn begin_upgrade(&mut self) -> bool {
        !std::mem::replace(&mut self.upgrading, true)
    }

    /// Notes that no reader waits to upgrade any more.
    pub(crate) fn end_upgrade(&mut self) {
        self.upgrading = false;
    }

    /// Makes the read lock the write lock and returns true, if it is the only one.
    pub(crate) fn upgrade(&mut self, hold: Hold) -> bool {
        let alone = self.readers == 1;
        if alone {
            self.give(LockMode::Read, hold);
            (self.writer, self.upgrading) = (true, false);
            self.count_bare(LockMode::Write, hold, true);
        }
        alone
    }

    /// Makes the write lock a read lock and returns true, if it is held in this manner.
    pub(crate) fn downgrade(&mut self, hold: Hold) -> bool {
        let held = self.give(LockMode::Write, hold);
        if held {
            self.readers = 1;
            self.count_bare(LockMode::Read, hold, true);
        }
        held
    }

    /// Adds a pin.
    pub(crate) fn pin(&mut self, hold: Hold) {
        self.pins += 1;
        self.bare_pins += u32::from(hold == Hold::Bare);
    }

    /// Removes a pin and returns true, if one is held in this manner.
    pub(crate) fn unpin(&mut self, hold: Hold) -> bool {
        let pinned = match hold {
            Hold::Guard => self.pins > self.bare_pins,
            Hold::Bare => self.bare_pins > 0,
        };
        self.pins -= u32::from(pinned);
        self.bare_pins -= u32::from(pinned && hold == Hold::Bare);
        pinned
    }

    /// Releases the write lock of an object that its holder removed.
    pub(crate) fn forget_writer(&mut self) {
        (self.writer, self.bare_writer) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_lets_in_readers_or_one_writer() {
        let mut record = Record::default();
        assert!(record.take(LockMode::Read, false) && record.take(LockMode::Read, false));
        assert!(!record.take(LockMode::Write, false));
        record.waiting += 1;
        assert!(!record.take(LockMode::Read, false), "a writer waits");
        record.readers = 0;
        assert!(record.take(LockMode::Write, true) && record.waiting == 0);
        assert!(!record.take(LockMode::Read, false) && !record.take(LockMode::Write, false));
        assert!(record.is_held() && record.is_locked());
        assert!(Record { pins: 1, ..Record::default() }.is_held());
    }
}
