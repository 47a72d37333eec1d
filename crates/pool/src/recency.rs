//! Recency of pages: a fix updates counters and the frame's marks, and may queue the page for
//! promotion.

use crate::core::Core;
use crate::page::FrameId;
use crate::residency::Access;

/// Counts the fix, updates the page's recency, and emulates the latency of a slow tier.
#[inline]
pub(crate) fn after_fix(core: &Core, id: FrameId, access: Access) {
    let frame = &core.frames[id];
    frame.touch(core.clock.now(), core.heat.epoch());
    let tier = frame.tier();
    core.counters.count_fixes(tier, 1, frame.len());
    if tier > 0 {
        serve_slowly(core, id, tier, access);
    }
}

/// Injects the slow tier's emulated latency, and requests promotion if the policy wants it.
#[cold]
pub(crate) fn serve_slowly(core: &Core, id: FrameId, tier: usize, access: Access) {
    core.tiers[tier].delay();
    consider_promotion(core, id, access);
}

/// Queues the page of a slower tier for promotion if the policy wants it.
pub(crate) fn consider_promotion(core: &Core, id: FrameId, access: Access) {
    let frame = &core.frames[id];
    if !frame.is_queued() && core.residency.promote(&core.view(frame), access) {
        ask_promotion(core, id);
    }
}

/// Queues the page of this frame for promotion to faster memory.
fn ask_promotion(core: &Core, id: FrameId) {
    let frame = &core.frames[id];
    let Some(page) = frame.page() else { return };
    if !core.promotions.push(id, page, || frame.set_queued(true)) {
        frame.forget_promotion();
    }
}
