//! The pool's background threads.

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

/// How often the keeper looks by itself: queries that take from the ledger do not wake it.
const LOOK: Duration = Duration::from_millis(20);
/// How long the keeper evicts nothing after it found nothing that can go: whoever needs a frame
/// looks as well.
const REST: Duration = Duration::from_millis(100);
/// What a fix in the memory of another node takes longer: four cache lines at 100 to 150 ns more.
const NODE_EXTRA_NS: u64 = 500;
/// Promotions that may wait; a page that is wanted again asks again.
const PROMOTIONS_MAX: usize = 1024;

/// The threads of a pool: loaders, and one keeper that keeps frames free and promotes pages.
///
/// They hold the pool's parts but not the pool, so dropping the last handle ends them.
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
            // The last handle may go inside a background thread, by a waker it calls.
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
            // From the slowest up: what leaves a tier finds room in the next.
            for tier in (0..self.tiers.len()).rev() {
                if Instant::now() >= rests_until[tier] && !self.keep_headroom(tier) {
                    rests_until[tier] = Instant::now() + REST;
                }
            }
            self.serve_promotions();
        }
    }

    /// Evicts when a tier is short of room, so that those who need a frame find one. False when it
    /// should and nothing can go.
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

    /// Asks the keeper to move the page of this frame to faster memory.
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
        // The frame may have another page by now, which has not asked.
        asked.iter().for_each(|(id, _)| self.frames[*id].asked.store(false, Ordering::Relaxed));
        self.promote(&asked.iter().map(|(_, page)| *page).collect::<Vec<_>>());
    }
}

/// What the keeper last saw of the counters.
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

    /// Tells the clock of epochs and the policy what has happened since.
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
    /// All that was counted so far.
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
