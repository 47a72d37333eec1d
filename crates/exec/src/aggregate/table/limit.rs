//! The limit of groups that cannot leave memory.

use datafusion::common::Result;

use super::{LEVELS_MAX, Table};
use crate::error::ExecError;

/// Bytes of states beside the rows from which a group may be too large for memory.
const OVERSIZED_MIN: u64 = 16 << 20;

impl Table {
    /// Returns true if spilling makes smaller tables. One group is one row in any partition, unless
    /// it is computed from values in order; and rows with the same hash stay together.
    pub(super) fn is_divisible(&self) -> bool {
        let is_divisible = self.groups > 1 || (self.groups == 1 && self.program.picks());
        is_divisible && self.level < LEVELS_MAX
    }

    /// Refuses a group whose values cannot leave memory and are more than all of it.
    ///
    /// # Errors
    /// [`ExecError::GroupTooLarge`].
    pub(super) fn refuse_oversized(&self) -> Result<()> {
        let bytes = self.beside_bytes;
        let may_leave = self.program.hands_on() || self.is_divisible();
        if bytes < OVERSIZED_MIN || may_leave || self.pages.grant.excess_bytes() == 0 {
            return Ok(());
        }
        let dram = self.pages.space.pool_handle().stats().tiers.into_iter().next();
        match dram.map(|dram| dram.capacity_bytes).filter(|dram| bytes > *dram) {
            Some(dram_bytes) => Err(ExecError::GroupTooLarge { bytes, dram_bytes }.into()),
            None => Ok(()),
        }
    }
}
