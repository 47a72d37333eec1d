//! Monitoring of process memory: charges what no consumer accounts for to the consumer
//! `unaccounted`.
//!
//! Plans and literals, batches being decoded, readers of files, and operators of DataFusion that
//! make no reservation take memory that the ledger does not see. While queries run, a thread
//! measures every [`INTERVAL`] how much the process holds, and charges what exceeds the baseline at
//! the start, the bytes that consumers hold, and [`BESIDE_BYTES`] to a consumer of its own. The
//! charge is taken even if the ledger has no room: the pool gives up frames for it at once, and
//! operators that can spill find less and spill. It falls as the memory is freed.
//!
//! Three rules keep the charge from failing queries. It leaves half of the budget, and at least the
//! smallest budget of an engine. An operator that cannot spill gets what it would have got without
//! the charge, as debt ([`super::QueryMemoryPool`]). And when the pool has to lend a frame beyond
//! the budget, since operators hold all others, the charge is reduced for a while.
//!
//! The charge may not suffice to keep the process alive: the kernel kills a process that takes more
//! than its control group or the machine has. So if a limit for the process is known and is
//! exceeded because of unaccounted memory, the youngest query ends with an error.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use terrace_ledger::Class;
use terrace_sys::size::{MIB, format_bytes};
use terrace_sys::sync::lock;

use super::budget::MemoryBudget;

/// Interval of reading the process's memory while queries run. A reading takes some microseconds;
/// 25 ms are about 50 MiB of allocations by one thread that touches them.
const INTERVAL: Duration = Duration::from_millis(25);
/// Time for which the charge is reduced for operators that need frames.
const YIELD: Duration = Duration::from_secs(10);
/// Number of readings after the last query ended: its memory leaves the process within this time.
const READINGS_AFTER: u32 = 12;
/// Bytes in excess of what consumers hold that are not charged: batches in flight, plans and
/// operators of ordinary queries hold about as much, whatever the budget.
pub(crate) const BESIDE_BYTES: u64 = 64 * MIB;

/// Method by which an engine measures the memory of its process that consumers of the ledger do not
/// account for.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ProcessMemory {
    /// Not measured: other parts of the program hold memory too, which the budget does not cover.
    #[default]
    Unwatched,
    /// By the statistics of jemalloc, which must be the program's allocator
    /// (`#[global_allocator]`).
    Allocator,
    /// By the resident memory of the process, without mapped files.
    Resident,
}

/// Time after the end of a query in which its memory leaves the process: no other query is ended
/// for it, unless the process grows.
const RELEASE: Duration = Duration::from_secs(10);
/// Growth of the process that is tolerated meanwhile: 1 / the first number, at most the second
/// number of bytes. The tasks of the query that was ended run for a moment longer.
const RELEASE_GROWTH: (u64, u64) = (8, 64 * MIB);

/// Limit of the process's memory, and the action when it is exceeded.
pub struct Limit {
    /// Maximum bytes of the process.
    pub bytes: u64,
    /// Ends a query with an error of this text, unless one is ending already; returns true if it
    /// ended one.
    pub end_query: Box<dyn Fn(String) -> bool + Send + Sync>,
}

/// Function that measures the bytes that the process holds and no consumer of the ledger accounts
/// for; it returns `None` if they cannot be read.
pub type Reading = Box<dyn Fn() -> Option<u64> + Send + Sync>;

#[derive(Default)]
struct State {
    queries: usize,
    /// Number of readings left since the last query ended.
    left: u32,
    is_stopped: bool,
}

struct Shared {
    budget: Arc<MemoryBudget>,
    /// Measures the bytes that the process holds and no consumer accounts for.
    reading: Reading,
    baseline_bytes: u64,
    state: Mutex<State>,
    rung: Condvar,
    limit: Option<Limit>,
    /// Held while a reading is taken and charged.
    looking: Mutex<Looking>,
}

/// State between readings.
#[derive(Default)]
struct Looking {
    yielding: Yield,
    /// Time of the latest end of a query by the limit, and the bytes of the process then.
    ended: Option<(Instant, u64)>,
}

impl Looking {
    /// True if the memory of a query that was ended may still be leaving the process, which has
    /// `resident` bytes.
    fn releases(&self, resident: u64, now: Instant) -> bool {
        let (share, growth_max) = RELEASE_GROWTH;
        let most = |bytes: u64| bytes.saturating_add((bytes / share).min(growth_max));
        self.ended.is_some_and(|(at, bytes)| now - at < RELEASE && resident <= most(bytes))
    }
}

/// Reduction of the charge in favour of operators.
#[derive(Default)]
struct Yield {
    /// Number of frames that the pool had lent at the last reading.
    lent_frames: u64,
    /// Maximum of the charge, and the time at which that expires.
    to: Option<(u64, Instant)>,
}

impl Yield {
    /// Returns the maximum charge now, if the pool has lent `lent_frames` so far and
    /// `charged_bytes` are charged.
    fn most(&mut self, lent_frames: u64, charged_bytes: u64, now: Instant) -> u64 {
        if lent_frames > self.lent_frames {
            self.lent_frames = lent_frames;
            self.to = Some((charged_bytes / 2, now + YIELD));
        }
        self.to = self.to.filter(|(_, until)| *until > now);
        self.to.map_or(u64::MAX, |(bytes, _)| bytes)
    }
}

/// Monitor of the process's memory. Dropping it stops its thread.
pub struct Watch {
    shared: Option<Arc<Shared>>,
    thread: Option<JoinHandle<()>>,
}

/// Guard of a running query, as counted by the monitor.
pub struct QueryMark(Option<Arc<Shared>>);

impl Watch {
    /// Starts the monitor and its thread. Bytes that `reading` returns now are the baseline, which
    /// is not charged. Without a reading nothing is charged and there is no thread.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub fn start(
        budget: &Arc<MemoryBudget>,
        reading: Option<Reading>,
        limit: Option<Limit>,
    ) -> std::io::Result<Self> {
        let Some(reading) = reading else { return Ok(Self { shared: None, thread: None }) };
        let baseline_bytes = reading().unwrap_or(0);
        let shared = Arc::new(Shared {
            budget: Arc::clone(budget),
            reading,
            baseline_bytes,
            state: Mutex::default(),
            rung: Condvar::new(),
            limit,
            looking: Mutex::default(),
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("terrace-memory".to_owned());
        let thread = thread.spawn(move || own.run())?;
        Ok(Self { shared: Some(shared), thread: Some(thread) })
    }

    /// Registers a query, which runs until the value is dropped.
    pub fn query(&self) -> QueryMark {
        if let Some(shared) = &self.shared {
            let mut state = shared.state();
            state.queries += 1;
            if state.queries == 1 {
                shared.rung.notify_all();
            }
        }
        QueryMark(self.shared.clone())
    }

    /// Takes a reading and charges it.
    pub fn look(&self) {
        if let Some(shared) = &self.shared {
            shared.look();
        }
    }
}

impl Drop for QueryMark {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            let mut state = shared.state();
            state.queries -= 1;
            state.left = READINGS_AFTER;
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn run(&self) {
        while self.waits() {
            self.look();
        }
    }

    /// Waits for the time of the next reading. Returns false if the thread is to stop.
    fn waits(&self) -> bool {
        let quiet = |state: &mut State| state.queries == 0 && state.left == 0 && !state.is_stopped;
        let state = self.state();
        let state = self.rung.wait_while(state, quiet).unwrap_or_else(PoisonError::into_inner);
        let running = |state: &mut State| !state.is_stopped;
        let waited = self.rung.wait_timeout_while(state, INTERVAL, running);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if state.queries == 0 {
            state.left = state.left.saturating_sub(1);
        }
        !state.is_stopped
    }

    fn look(&self) {
        let mut looking = lock(&self.looking);
        // A failed reading is repeated in the next interval.
        let Some(bytes) = (self.reading)() else { return };
        let beside = self.baseline_bytes.saturating_add(BESIDE_BYTES);
        let bytes = bytes.saturating_sub(beside);
        let lent = self.budget.reserve.lent_frames();
        let most = looking.yielding.most(lent, self.budget.unaccounted_bytes(), Instant::now());
        self.budget.charge_unaccounted(bytes.min(most));
        if bytes > 0 {
            self.keep_limit(bytes, &mut looking);
        }
    }

    /// Ends a query if the process exceeds its limit; `unaccounted` are bytes of it that no
    /// consumer accounts for.
    fn keep_limit(&self, unaccounted: u64, looking: &mut Looking) {
        let Some(limit) = &self.limit else { return };
        let Ok(mut resident) = terrace_sys::process::resident_bytes() else { return };
        if resident > limit.bytes && !looking.releases(resident, Instant::now()) {
            // The allocator keeps pages of objects that were freed, of a query that has ended too.
            if let Err(error) = terrace_heap::release_free_pages() {
                tracing::debug!(%error, "free pages stay with the allocator");
            }
            let Ok(left) = terrace_sys::process::resident_bytes() else { return };
            resident = left;
        }
        let now = Instant::now();
        if resident > limit.bytes && !looking.releases(resident, now) {
            let has_ended = (limit.end_query)(format!(
                "it was ended because the process takes {} of the {} that it may take \
                 (--memory-limit), {} of them for plans, literals and batches that no operator \
                 accounts for; shorter lists, smaller values or a higher limit help",
                format_bytes(resident),
                format_bytes(limit.bytes),
                format_bytes(unaccounted.min(resident))
            ));
            if has_ended {
                looking.ended = Some((now, resident));
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(shared) = &self.shared else { return };
        shared.state().is_stopped = true;
        shared.rung.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported already.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("is_on", &self.shared.is_some()).finish_non_exhaustive()
    }
}

impl fmt::Debug for QueryMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueryMark")
    }
}

impl ProcessMemory {
    /// Returns a function that measures the memory of the process which consumers of the ledger of
    /// `budget` do not account for; `slower_bytes` are those that it holds of slower memory, which
    /// no ledger covers.
    pub fn reading(
        self,
        budget: &Arc<MemoryBudget>,
        slower_bytes: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Option<Reading> {
        let budget = Arc::clone(budget);
        match self {
            Self::Unwatched => None,
            Self::Allocator => Some(Box::new(move || {
                let held = terrace_heap::allocator_bytes().ok()?;
                let known = budget.held_by(|class| class == Class::Query);
                Some(held.saturating_sub(known.saturating_add(budget.sessions_bytes())))
            })),
            Self::Resident => Some(Box::new(move || {
                let held = terrace_sys::process::anonymous_bytes().ok()?;
                let known = budget.held_by(|_| true).saturating_add(slower_bytes());
                Some(held.saturating_sub(known))
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_an_ended_query_has_time_to_leave() {
        let now = Instant::now();
        let mut looking = Looking::default();
        assert!(!looking.releases(300, now), "no query was ended");
        looking.ended = Some((now, 300));
        let soon = now + RELEASE / 2;
        assert!(looking.releases(300, soon) && looking.releases(290, soon));
        assert!(looking.releases(337, soon) && !looking.releases(338, soon), "another query grows");
        assert!(!looking.releases(290, now + RELEASE), "it did not help");
    }
}
