//! The pool's background threads.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::PoolError;
use crate::evict::Effort;
use crate::page::PageId;
use crate::pool::Inner;
use crate::sync::lock;

/// How often the keeper looks by itself: queries that take from the ledger do not wake it.
const LOOK: Duration = Duration::from_millis(20);
/// How long the keeper evicts nothing after it found nothing that can go: whoever needs a frame
/// looks as well.
const REST: Duration = Duration::from_millis(100);
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
        let mut rests_until = Instant::now();
        while !self.closed.load(Ordering::SeqCst) {
            self.progress.idle(LOOK);
            self.pay_debt();
            if Instant::now() >= rests_until {
                self.keep_reserve();
                if !self.keep_headroom() {
                    rests_until = Instant::now() + REST;
                }
            }
            self.serve_promotions();
        }
    }

    /// Evicts when DRAM is short of room, so that those who need a frame find one. False when it
    /// should and nothing can go.
    ///
    /// Slower tiers fill up and stay full: a page that is worth more than one of theirs makes its
    /// room itself, and room made ahead would only admit pages that are worth less.
    fn keep_headroom(self: &Arc<Self>) -> bool {
        let headroom = self.tiers[0].headroom();
        if headroom >= self.low_water() || self.tiers[0].page_bytes() == 0 {
            return true;
        }
        let wanted = self.high_water().saturating_sub(headroom);
        let gone = self.evict(0, wanted, Effort::Write, None);
        self.progress.notify();
        gone > 0
    }

    /// Asks the keeper to move the page of this held frame to faster memory.
    pub(crate) fn ask_promotion(&self, frame: &crate::frame::Frame) {
        let Some(page) = frame.page() else { return };
        let mut promotions = lock(&self.promotions);
        if promotions.len() < PROMOTIONS_MAX {
            frame.asked.store(true, Ordering::Relaxed);
            promotions.push_back(page);
        } else {
            frame.forget_promotion();
        }
    }

    fn serve_promotions(self: &Arc<Self>) {
        let pages: Vec<PageId> = lock(&self.promotions).drain(..).collect();
        self.promote(&pages);
    }
}
