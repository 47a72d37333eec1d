//! Locks and pins of objects that outlive the call that took them.

use std::collections::hash_map::Entry;
use std::time::Duration;

use super::Locks;
use super::queue::{Wait, leave_queue};
use super::record::{Hold, LockMode, Record};
use super::shard::forget_empty;
use crate::error::ObjectError;
use crate::groups::Groups;
use crate::id::ObjectId;

impl Locks {
    /// Locks an object, waiting up to `timeout`.
    pub(crate) fn lock(
        &self,
        groups: &Groups,
        id: ObjectId,
        mode: LockMode,
        timeout: Duration,
        hold: Hold,
    ) -> Result<(), ObjectError> {
        let (slot, shard) = (groups.find(id)?, self.shard(id));
        let (mut wait, mut queued) = (Wait::new(timeout), false);
        loop {
            let latched = groups.latch(slot.group());
            let mut records = shard.records();
            if !slot.is_present(&slot.group().view()) {
                leave_queue(shard, &mut records, id, queued);
                return Err(ObjectError::NotFound(id));
            }
            let record = records.entry(id).or_default();
            if record.take(mode, queued) {
                record.count_bare(mode, hold, true);
                slot.group().set_marked(slot.index(), true);
                return Ok(());
            }
            if mode == LockMode::Write && !queued {
                record.enqueue();
                queued = true;
            }
            drop(latched);
            if shard.sleep(records, wait.deadline()).is_none() {
                leave_queue(shard, &mut shard.records(), id, queued);
                return Err(wait.error(id));
            }
        }
    }

    /// Releases a lock of this mode that is held with a guard or by id, as `hold` says.
    pub(crate) fn unlock(
        &self,
        groups: &Groups,
        id: ObjectId,
        mode: LockMode,
        hold: Hold,
    ) -> Result<(), ObjectError> {
        let held = self.with_record(groups, id, |record| record.give(mode, hold));
        if held { Ok(()) } else { Err(ObjectError::NotLocked(id)) }
    }

    /// Upgrades a read lock to the write lock once it is the only read lock.
    pub(crate) fn upgrade(
        &self,
        id: ObjectId,
        timeout: Duration,
        hold: Hold,
    ) -> Result<(), ObjectError> {
        let shard = self.shard(id);
        let mut wait = Wait::new(timeout);
        let mut records = shard.records();
        let record = records.get_mut(&id).filter(|record| record.holds(LockMode::Read, hold));
        let Some(record) = record else { return Err(ObjectError::NotLocked(id)) };
        if !record.begin_upgrade() {
            return Err(ObjectError::UpgradeConflict(id));
        }
        loop {
            // The record stays as long as the caller's read lock does.
            let Some(record) = records.get_mut(&id) else { return Err(ObjectError::NotLocked(id)) };
            if !record.holds(LockMode::Read, hold) {
                record.end_upgrade();
                forget_empty(&mut records, id);
                shard.wake();
                return Err(ObjectError::NotLocked(id));
            }
            if record.upgrade(hold) {
                return Ok(());
            }
            if let Some(woken) = shard.sleep(records, wait.deadline()) {
                records = woken;
                continue;
            }
            if let Some(record) = shard.records().get_mut(&id) {
                record.end_upgrade();
            }
            shard.wake();
            return Err(wait.error(id));
        }
    }

    /// Downgrades the write lock to a read lock.
    pub(crate) fn downgrade(
        &self,
        groups: &Groups,
        id: ObjectId,
        hold: Hold,
    ) -> Result<(), ObjectError> {
        let held = self.with_record(groups, id, |record| record.downgrade(hold));
        if held { Ok(()) } else { Err(ObjectError::NotLocked(id)) }
    }

    /// Releases a pin that is held with a guard or by id, as `hold` says.
    pub(crate) fn unpin(
        &self,
        groups: &Groups,
        id: ObjectId,
        hold: Hold,
    ) -> Result<(), ObjectError> {
        let pinned = self.with_record(groups, id, |record| record.unpin(hold));
        if pinned { Ok(()) } else { Err(ObjectError::NotPinned(id)) }
    }

    /// Calls `change` with the record of a held object, and removes the record once nothing is
    /// held. Returns the result of `change`; false if there is no record.
    fn with_record(
        &self,
        groups: &Groups,
        id: ObjectId,
        change: impl FnOnce(&mut Record) -> bool,
    ) -> bool {
        let Ok(slot) = groups.find(id) else { return false };
        let shard = self.shard(id);
        let _latched = groups.latch(slot.group());
        let mut records = shard.records();
        let Entry::Occupied(mut record) = records.entry(id) else { return false };
        let changed = change(record.get_mut());
        if !record.get().is_held() && slot.group().view().is_present(slot.index()) {
            slot.group().set_marked(slot.index(), false);
        }
        if record.get().is_empty() {
            record.remove();
        }
        shard.wake();
        changed
    }
}
