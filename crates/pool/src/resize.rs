//! Resizing of memory tiers while the pool is in use.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use terrace_sys::size::format_bytes;

use crate::allocate::LOOK_AGAIN;
use crate::error::PoolError;
use crate::evict::Effort;
use crate::pool::{Inner, config_error};

/// Bytes that a shrinking tier releases per step, and the minimum size of a tier.
const STEP_BYTES: u64 = 1 << 20;

impl Inner {
    /// See [`crate::Pool::resize`].
    pub(crate) fn resize(self: &Arc<Self>, tier: usize, bytes: u64) -> Result<(), PoolError> {
        self.check_size(tier, bytes)?;
        let account = &self.tiers[tier].account;
        let mut since = Instant::now();
        loop {
            let now = account.budget();
            // Bytes that are free at this moment are taken at once: other threads compete for them.
            let next = bytes.max(now.saturating_sub(account.available()));
            if next != now && account.set_budget(next) {
                since = Instant::now();
            }
            if account.budget() == bytes {
                return Ok(());
            }
            let released = self.release(tier, STEP_BYTES.min(now.abs_diff(bytes)), Effort::Write);
            let waited = since.elapsed();
            if waited >= self.patience {
                return Err(PoolError::Resize {
                    pool: self.name.clone(),
                    tier: self.tiers[tier].tier.name.clone(),
                    asked_bytes: bytes,
                    has_bytes: now,
                    waited,
                });
            }
            if released == 0 {
                self.progress.wait(LOOK_AGAIN);
            }
        }
    }

    fn check_size(&self, tier: usize, bytes: u64) -> Result<(), PoolError> {
        let wrong = |reason: String| Err(config_error(&self.name, reason));
        let Some(frames) = self.tiers.get(tier) else {
            let names: Vec<&str> = self.tiers.iter().map(|tier| &*tier.tier.name).collect();
            return wrong(format!("there is no memory tier {tier}, but {}", names.join(", ")));
        };
        // Every page must fit in DRAM.
        let longest = if tier == 0 { self.longest.load(Ordering::Relaxed) as u64 } else { 0 };
        let least = frames.account.floor().max(STEP_BYTES).max(longest);
        let name = &frames.tier.name;
        if bytes < least {
            let (asked, least) = (format_bytes(bytes), format_bytes(least));
            return wrong(format!("{name} cannot shrink to {asked}: it has {least} at least"));
        }
        if bytes > frames.most_bytes {
            let (asked, most) = (format_bytes(bytes), format_bytes(frames.most_bytes));
            return wrong(format!("{name} cannot grow to {asked}: it was set up for {most}"));
        }
        Ok(())
    }
}
