//! Background threads of a pool: loaders and the background worker.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::arena::TierFrames;
use crate::error::PoolError;
use crate::evict::Effort;
use crate::heat::HeatClock;
use crate::page::{FrameId, PageId};
use crate::pool::Inner;
use crate::residency::Interval;
use crate::sync::lock;

/// Sleep of the background worker between two rounds: queries that take bytes from the ledger do
/// not wake it.
const LOOK: Duration = Duration::from_millis(20);
/// Back-off of the background worker after it found nothing to evict in a tier; a caller that needs
/// a frame evicts by itself meanwhile.
const REST: Duration = Duration::from_millis(100);
/// Extra nanoseconds of a fix in the memory of another node: four cache lines at 100 to 150 ns
/// more.
const NODE_EXTRA_NS: u64 = 500;
/// Maximum length of the promotion queue; a page left out is queued again by a later fix.
const PROMOTIONS_MAX: usize = 1024;

/// The threads of a pool: loaders, and one background worker (`keeper`) that keeps frames free and
/// promotes pages.
///
/// The threads hold the pool's state but no handle to the pool, so dropping the last handle ends
/// them.
#[derive(Debug)]
pub(crate) struct Workers {
    pool: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(crate) fn start(pool: &Arc<Inner>, loaders: usize) -> Result<Self, PoolError> {
        let mut workers = Self { pool: Arc::clone(pool), threads: Vec::new() };
        for index in 0..loaders {
            workers.spawn(&format!("{}-load{index}", pool.name), Inner::run_loader)?;
        }
        workers.spawn(&format!("{}-keep", pool.name), Inner::run_keeper)?;
        Ok(workers)
    }

    fn spawn(&mut self, name: &str, run: fn(&Arc<Inner>)) -> Result<(), PoolError> {
        let pool = Arc::clone(&self.pool);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&pool));
        let thread = thread.map_err(|source| PoolError::System {
            pool: self.pool.name.clone(),
            what: "starting a background thread",
            source,
        })?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.pool.closed.store(true, Ordering::SeqCst);
        self.pool.loads.wake_all();
        self.pool.progress.ask();
        for thread in self.threads.drain(..) {
            // The last handle may be dropped inside a background thread, by a waker that it calls;
            // a thread cannot join itself.
            if thread.thread().id() != std::thread::current().id() {
                let panicked = thread.join().is_err();
                debug_assert!(!panicked, "a pool thread panicked");
            }
        }
    }
}

impl Inner {
    fn run_keeper(self: &Arc<Self>) {
        let mut rests_until = vec![Instant::now(); self.tiers.len()];
        let mut watch = Watch::new(self);
        let mut is_done = true;
        while !self.closed.load(Ordering::SeqCst) {
            if is_done {
                self.progress.idle(LOOK);
            }
            is_done = true;
            watch.look(self);
            self.pay_debt();
            if Instant::now() >= rests_until[0] {
                is_done = !self.keep_reserve();
            }
            // From the slowest tier up: a page demoted from a tier then finds room in the next.
            for tier in (0..self.tiers.len()).rev() {
                if Instant::now() >= rests_until[tier] && !self.keep_headroom(tier) {
                    rests_until[tier] = Instant::now() + REST;
                }
            }
            self.serve_promotions();
        }
    }

    /// Evicts ahead of demand when a tier's headroom is below its low watermark, up to the high
    /// one. False if it should evict and no page could be.
    fn keep_headroom(self: &Arc<Self>, tier: usize) -> bool {
        let headroom = self.tiers[tier].headroom();
        if headroom >= self.low_water(tier) || self.tiers[tier].page_bytes() == 0 {
            return true;
        }
        let wanted = self.high_water(tier).saturating_sub(headroom);
        let gone = self.evict(tier, wanted, Effort::Keep, None);
        self.progress.notify();
        gone > 0
    }

    /// Queues the page of this frame for promotion to faster memory.
    pub(crate) fn ask_promotion(&self, id: FrameId) {
        let frame = &self.frames[id];
        let Some(page) = frame.page() else { return };
        let mut promotions = lock(&self.promotions);
        if promotions.len() < PROMOTIONS_MAX {
            frame.asked.store(true, Ordering::Relaxed);
            promotions.push_back((id, page));
        } else {
            frame.forget_promotion();
        }
    }

    fn serve_promotions(self: &Arc<Self>) {
        let asked: Vec<(FrameId, PageId)> = lock(&self.promotions).drain(..).collect();
        // The frame may have another page by now; clearing its mark does no harm.
        asked.iter().for_each(|(id, _)| self.frames[*id].asked.store(false, Ordering::Relaxed));
        self.promote(&asked.iter().map(|(_, page)| *page).collect::<Vec<_>>());
    }
}

/// Counters as of the background worker's last round.
#[derive(Debug)]
struct Watch {
    clock: HeatClock,
    seen: Interval,
    at: Instant,
}

impl Watch {
    fn new(pool: &Inner) -> Self {
        Self { clock: HeatClock::default(), seen: pool.totals(), at: Instant::now() }
    }

    /// Advances the epoch clock and reports the activity since the last round to the policy.
    fn look(&mut self, pool: &Inner) {
        let (now, totals) = (Instant::now(), pool.totals());
        let tiers = totals.fixes.iter().zip(&pool.tiers);
        let counts: Vec<_> = tiers.map(|((fixes, _), tier)| (*fixes, tier.pages())).collect();
        pool.heat.note(&mut self.clock, &counts);
        let fixes = totals.fixes.iter().zip(&self.seen.fixes);
        let since = Interval {
            elapsed: now - self.at,
            fixes: fixes.map(|((now, extra), (before, _))| (now - before, *extra)).collect(),
            loads: totals.loads - self.seen.loads,
            write_backs: totals.write_backs - self.seen.write_backs,
            moves: totals.moves - self.seen.moves,
        };
        pool.residency.observe(&since);
        (self.seen, self.at) = (totals, now);
    }
}

impl Inner {
    /// Returns the totals of the counters so far.
    fn totals(&self) -> Interval {
        let tiers = self.tiers.iter().zip(&self.tier_counters);
        let extra = |tier: &TierFrames| match (tier.tier.latency_ns, tier.tier.node) {
            (0, Some(_)) => NODE_EXTRA_NS,
            (latency_ns, _) => latency_ns,
        };
        Interval {
            elapsed: Duration::ZERO,
            fixes: tiers.map(|(tier, counters)| (counters.fixes.get(), extra(tier))).collect(),
            loads: self.counters.loads.get(),
            write_backs: self.counters.write_backs.get(),
            moves: self.tier_counters.iter().map(|c| c.promoted.get() + c.demoted.get()).sum(),
        }
    }
}
