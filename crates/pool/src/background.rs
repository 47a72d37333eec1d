//! Background worker of a pool: keeps frames free, promotes pages, and reports to the
//! policy.

use std::time::{Duration, Instant};

use crate::admission::keep_reserve;
use crate::allocate::pay_debt;
use crate::core::Core;
use crate::evict::{Effort, evict};
use crate::heat::HeatClock;
use crate::promote::serve_promotions;
use crate::residency::Interval;
use crate::tier::TierFrames;

/// Sleep of the background worker between two rounds: queries that take bytes from the ledger do
/// not wake it.
const LOOK: Duration = Duration::from_millis(20);
/// Back-off of the background worker after it found nothing to evict in a tier; a caller that needs
/// a frame evicts by itself meanwhile.
const REST: Duration = Duration::from_millis(100);
/// Extra nanoseconds of a fix in the memory of another node: four cache lines at 100 to 150 ns
/// more.
const NODE_EXTRA_NS: u64 = 500;

/// Main loop of the background worker.
pub(crate) fn run(core: &Core) {
    let mut rests_until = vec![Instant::now(); core.tiers.len()];
    let mut watch = Watch::new(core);
    let mut is_done = true;
    while !core.progress.is_closed() {
        if is_done {
            core.progress.idle(LOOK);
        }
        is_done = true;
        watch.look(core);
        pay_debt(core);
        if Instant::now() >= rests_until[0] {
            is_done = !keep_reserve(core);
        }
        // From the slowest tier up: a page demoted from a tier then finds room in the next.
        for tier in (0..core.tiers.len()).rev() {
            if Instant::now() >= rests_until[tier] && !keep_headroom(core, tier) {
                rests_until[tier] = Instant::now() + REST;
            }
        }
        serve_promotions(core);
    }
}

/// Evicts ahead of demand when a tier's headroom is below its low watermark, up to the high one.
/// False if it should evict and no page could be.
fn keep_headroom(core: &Core, tier: usize) -> bool {
    let frames = &core.tiers[tier];
    let headroom = frames.headroom();
    if headroom >= frames.low_water() || frames.page_bytes() == 0 {
        return true;
    }
    let wanted = frames.high_water().saturating_sub(headroom);
    let gone = evict(core, tier, wanted, Effort::Keep, None);
    core.progress.notify();
    gone > 0
}

/// Counters as of the background worker's last round.
#[derive(Debug)]
struct Watch {
    clock: HeatClock,
    seen: Interval,
    at: Instant,
}

impl Watch {
    fn new(core: &Core) -> Self {
        Self { clock: HeatClock::default(), seen: totals(core), at: Instant::now() }
    }

    /// Advances the epoch clock and reports the activity since the last round to the policy.
    fn look(&mut self, core: &Core) {
        let (now, totals) = (Instant::now(), totals(core));
        let tiers = totals.fixes.iter().zip(&core.tiers);
        let counts: Vec<_> = tiers.map(|((fixes, _), tier)| (*fixes, tier.pages())).collect();
        core.heat.note(&mut self.clock, &counts);
        let fixes = totals.fixes.iter().zip(&self.seen.fixes);
        let since = Interval {
            elapsed: now - self.at,
            fixes: fixes.map(|((now, extra), (before, _))| (now - before, *extra)).collect(),
            loads: totals.loads - self.seen.loads,
            write_backs: totals.write_backs - self.seen.write_backs,
            moves: totals.moves - self.seen.moves,
        };
        core.residency.observe(&since);
        (self.seen, self.at) = (totals, now);
    }
}

/// Returns the totals of the counters so far.
fn totals(core: &Core) -> Interval {
    let counters = &core.counters;
    let extra = |tier: &TierFrames| match (tier.memory().latency_ns, tier.memory().node) {
        (0, Some(_)) => NODE_EXTRA_NS,
        (latency_ns, _) => latency_ns,
    };
    let tiers = core.tiers.iter().zip(&counters.tiers);
    Interval {
        elapsed: Duration::ZERO,
        fixes: tiers.map(|(tier, counters)| (counters.fixes.get(), extra(tier))).collect(),
        loads: counters.loads.get(),
        write_backs: counters.write_backs.get(),
        moves: counters.tiers.iter().map(|c| c.promoted.get() + c.demoted.get()).sum(),
    }
}
