//! Limit on the size of a group whose states cannot be spilled.

use datafusion::common::Result;

use super::{LEVELS_MAX, Table};
use crate::error::ExecError;

/// Bytes of states outside of the rows below which the limit is not checked.
const OVERSIZED_MIN: u64 = 16 << 20;

impl Table {
    /// Returns true if spilling makes smaller tables. A single group cannot be divided, unless its
    /// result is computed from values in order; and rows with the same hash stay together, so the
    /// level is bounded.
    pub(super) fn is_divisible(&self) -> bool {
        let is_divisible = self.groups > 1 || (self.groups == 1 && self.program.picks());
        is_divisible && self.level < LEVELS_MAX
    }

    /// Returns an error if the states outside of the rows cannot be spilled and exceed all of
    /// memory.
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
