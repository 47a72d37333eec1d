//! The consumer `unaccounted`: what the process holds beside what its consumers account for.
//!
//! Plans and literals, decoded batches on their way, readers of files, and operators of DataFusion
//! that ask nobody take memory of which the ledger does not know. While queries run, a thread asks
//! every [`INTERVAL`] how much the process holds, and charges what is more than at the start, more
//! than consumers hold and more than [`BESIDE_BYTES`] to a consumer of its own. The charge is taken
//! whether there is room or not: the pool gives up frames for it at once, and operators that can
//! spill find less and spill. It falls as the memory is freed.
//!
//! Three rules keep queries from failing by it. The charge leaves half of the budget, and at least
//! the smallest budget of an engine. An operator that cannot spill gets what it would have got
//! without the charge, as debt ([`super::QueryMemory`]). And when the pool has to lend a frame
//! beyond the budget, since operators hold all others, the charge yields for a while.
//!
//! What the charge does not hold back may end the process: the kernel kills one that takes more
//! than its control group or the machine has. So where a limit for the process is known, and it is
//! passed by memory that no consumer accounts for, the query that began last ends with an error.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use terrace_market::Class;
use terrace_sys::size::{MIB, format_bytes};

use super::MemoryBudget;

/// How often the process's memory is read while queries run. That takes some microseconds; 25 ms
/// are about 50 MiB of allocations by one thread that touches them.
const INTERVAL: Duration = Duration::from_millis(25);
/// How long the charge yields to operators that need frames.
const YIELD: Duration = Duration::from_secs(10);
/// Readings after the last query ended: what it held leaves the process within this time.
const READINGS_AFTER: u32 = 12;
/// Bytes beside what consumers hold that are not charged: batches on their way, plans and operators
/// of ordinary queries hold about as much, whatever the budget.
pub(crate) const BESIDE_BYTES: u64 = 64 * MIB;

/// How an engine learns what its process holds beside what consumers of the ledger account for.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ProcessMemory {
    /// It does not: other parts of the program hold memory too, and the budget is not for that.
    #[default]
    Unwatched,
    /// By the statistics of jemalloc, which is the program's allocator (`#[global_allocator]`).
    Allocator,
    /// By the resident memory of the process, less what is mapped from files.
    Resident,
}

/// What may be done about a process that takes more than it may.
pub(crate) struct Limit {
    pub(crate) bytes: u64,
    /// Ends a query, by an error with this text; nothing while one is ending.
    pub(crate) end_query: Box<dyn Fn(String) + Send + Sync>,
}

/// Reads bytes that the process holds; none where they cannot be read.
pub(crate) type Reading = Box<dyn Fn() -> Option<u64> + Send + Sync>;

#[derive(Default)]
struct State {
    queries: usize,
    /// Readings left since the last query ended.
    left: u32,
    is_stopped: bool,
}

struct Shared {
    budget: Arc<MemoryBudget>,
    /// Bytes that the process holds and no consumer accounts for.
    reading: Reading,
    baseline_bytes: u64,
    state: Mutex<State>,
    rung: Condvar,
    limit: Option<Limit>,
    /// Held while a reading is taken and charged.
    looking: Mutex<Yield>,
}

/// How far the charge makes way for operators.
#[derive(Default)]
struct Yield {
    /// Frames that the pool had lent at the last reading.
    lent_frames: u64,
    /// The most that is charged, and until when.
    to: Option<(u64, Instant)>,
}

impl Yield {
    /// The most that may be charged now, where the pool has lent `lent_frames` so far and
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

/// Watches the memory of the process. The thread ends with this.
pub(crate) struct Watch {
    shared: Option<Arc<Shared>>,
    thread: Option<JoinHandle<()>>,
}

/// A query that runs, as the watch counts it.
pub(crate) struct Watched(Option<Arc<Shared>>);

impl Watch {
    /// Begins to watch: what the process holds now is not charged. Without a reading nothing is.
    ///
    /// # Errors
    /// When the system has no thread.
    pub(crate) fn start(
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

    /// A query begins; it runs until the value is dropped.
    pub(crate) fn query(&self) -> Watched {
        if let Some(shared) = &self.shared {
            let mut state = shared.state();
            state.queries += 1;
            if state.queries == 1 {
                shared.rung.notify_all();
            }
        }
        Watched(self.shared.clone())
    }

    /// Charges what the process holds now.
    pub(crate) fn look(&self) {
        if let Some(shared) = &self.shared {
            shared.look();
        }
    }
}

impl Drop for Watched {
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while self.waits() {
            self.look();
        }
    }

    /// Waits until it is time for a reading; false at the end.
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
        let mut yielding = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        // One that cannot be read now is read the next time.
        let Some(bytes) = (self.reading)() else { return };
        let beside = self.baseline_bytes.saturating_add(BESIDE_BYTES);
        let bytes = bytes.saturating_sub(beside);
        let lent = self.budget.reserve.lent_frames();
        let most = yielding.most(lent, self.budget.unaccounted_bytes(), Instant::now());
        self.budget.charge_unaccounted(bytes.min(most));
        if bytes > 0 {
            self.keep_limit(bytes);
        }
    }

    /// Ends a query if the process takes more than it may; `unaccounted` are bytes of it that no
    /// consumer accounts for.
    fn keep_limit(&self, unaccounted: u64) {
        let Some(limit) = &self.limit else { return };
        let Ok(resident) = terrace_sys::process::resident_bytes() else { return };
        if resident > limit.bytes {
            (limit.end_query)(format!(
                "it was ended because the process takes {} of the {} that it may take \
                 (--memory-limit), {} of them for plans, literals and batches that no operator \
                 accounts for; shorter lists, smaller values or a higher limit help",
                format_bytes(resident),
                format_bytes(limit.bytes),
                format_bytes(unaccounted.min(resident))
            ));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(shared) = &self.shared else { return };
        shared.state().is_stopped = true;
        shared.rung.notify_all();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("is_on", &self.shared.is_some()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

impl ProcessMemory {
    /// Reads what the process holds beside what consumers of the ledger of `budget` account for;
    /// `slower_bytes` are what it holds of slower memory, which no ledger knows.
    pub(crate) fn reading(
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
