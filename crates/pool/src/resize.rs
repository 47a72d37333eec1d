//! Resizing of memory tiers while the pool is in use.

use std::time::Instant;

use terrace_sys::size::format_bytes;

use crate::core::Core;
use crate::error::PoolError;
use crate::evict::{Effort, reclaim};
use crate::progress::LOOK_AGAIN;

/// Bytes that a shrinking tier releases per step, and the minimum size of a tier.
const STEP_BYTES: u64 = 1 << 20;

/// See [`crate::Pool::resize`].
pub(crate) fn resize(core: &Core, tier: usize, bytes: u64) -> Result<(), PoolError> {
    check_size(core, tier, bytes)?;
    let account = core.tiers[tier].account();
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
        let released = reclaim(core, tier, STEP_BYTES.min(now.abs_diff(bytes)), Effort::Write);
        let waited = since.elapsed();
        if waited >= core.patience {
            return Err(PoolError::Resize {
                pool: core.name.clone(),
                tier: core.tiers[tier].memory().name.clone(),
                asked_bytes: bytes,
                has_bytes: now,
                waited,
            });
        }
        if released == 0 {
            core.progress.wait(LOOK_AGAIN);
        }
    }
}

fn check_size(core: &Core, tier: usize, bytes: u64) -> Result<(), PoolError> {
    let wrong = |reason: String| Err(PoolError::config(&core.name, reason));
    let Some(frames) = core.tiers.get(tier) else {
        let names: Vec<&str> = core.tiers.iter().map(|tier| &*tier.memory().name).collect();
        return wrong(format!("there is no memory tier {tier}, but {}", names.join(", ")));
    };
    // Every page must fit in DRAM.
    let longest = if tier == 0 { core.pages.longest() as u64 } else { 0 };
    let least = frames.account().floor().max(STEP_BYTES).max(longest);
    let name = &frames.memory().name;
    if bytes < least {
        let (asked, least) = (format_bytes(bytes), format_bytes(least));
        return wrong(format!("{name} cannot shrink to {asked}: it has {least} at least"));
    }
    if bytes > frames.most_bytes() {
        let (asked, most) = (format_bytes(bytes), format_bytes(frames.most_bytes()));
        return wrong(format!("{name} cannot grow to {asked}: it was set up for {most}"));
    }
    Ok(())
}
