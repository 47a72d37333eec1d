//! Background thread that defragments a store and shortens its log.

use std::io;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use terrace_sys::identity::ProcessMark;
use terrace_sys::sync::lock;

use crate::durable::log::Log;
use crate::store::ObjectStore;

/// Schedule and thresholds of a maintenance thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaintenanceConfig {
    /// Time between two rounds.
    pub every: Duration,
    /// Used bytes in percent of the held bytes of memory, below which the maintenance thread
    /// defragments.
    pub used_percent: u64,
    /// Length of the log in bytes above which the maintenance thread makes a checkpoint.
    pub log_bytes: u64,
}

impl Default for MaintenanceConfig {
    /// Returns a round every second, 80 percent of used memory and a log of 256 MiB.
    fn default() -> Self {
        Self { every: Duration::from_secs(1), used_percent: 80, log_bytes: 256 << 20 }
    }
}

/// Defragments a store and shortens its log in the background, until this or the store is dropped.
/// Changes are on the device after two rounds at most, also those that no thread waits for
/// ([`crate::Durability::Deferred`]), and a failed log is replaced by a new one.
///
/// Other threads wait for it as for [`ObjectStore::defragment`] and [`ObjectStore::checkpoint`]:
/// for one group at most, and for no sync. Errors are reported to `tracing`, and the operation is
/// retried.
#[derive(Debug)]
pub struct Maintenance {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
    owner: ProcessMark,
}

#[derive(Debug, Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Sleeps for `time`, or until the maintenance thread is stopped: then returns false.
    fn sleep(&self, time: Duration) -> bool {
        let stopped = lock(&self.stopped);
        let woken = self.changed.wait_timeout_while(stopped, time, |stopped| !*stopped);
        !*woken.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Maintenance {
    /// Starts the maintenance thread of a store.
    ///
    /// # Errors
    /// The error of the system, if it cannot start a thread.
    pub fn start(store: &Arc<ObjectStore>, config: MaintenanceConfig) -> io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let (store, signal) = (Arc::downgrade(store), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("terrace-objects".to_owned())
            .spawn(move || keep(&store, &signal, config))?;
        Ok(Self { stop, thread: Some(thread), owner: ProcessMark::new() })
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            // A child of the process (fork) does not have the thread, so there is nothing to wait
            // for.
            let _never_joined = self.thread.take().map(ManuallyDrop::new);
            return;
        }
        *lock(&self.stop.stopped) = true;
        self.stop.changed.notify_all();
        // If the thread was the last owner of the store, it runs this itself.
        let thread = self.thread.take();
        let other = thread.filter(|it| it.thread().id() != std::thread::current().id());
        if other.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the maintenance thread of a store of objects panicked");
        }
    }
}

fn keep(store: &Weak<ObjectStore>, stop: &Stop, config: MaintenanceConfig) {
    let (mut futile, mut synced) = (None, None);
    while stop.sleep(config.every) {
        let Some(store) = store.upgrade() else { return };
        // A round that achieved nothing is not repeated before something was freed.
        let slabs = store.objects().groups().slabs();
        let now = slabs.given();
        let wastes = slabs.used_bytes() < slabs.held_bytes() / 100 * config.used_percent;
        if wastes && futile != Some(now) {
            let done = store.defragment();
            tracing::debug!(name = store.name(), ?done, "defragmented");
            let achieved = done.moved > 0 || done.used_bytes_after < done.used_bytes_before;
            futile = Some(now).filter(|_| !achieved);
        }
        // A log whose end is recorded as synced can be told from one that was being written.
        let journal = store.objects().journal();
        let end = journal.log().map(Log::end);
        if end != synced {
            match store.sync() {
                Ok(()) => synced = end,
                Err(error) => tracing::warn!(name = store.name(), %error, "changes wait"),
            }
        }
        if (journal.is_sound().is_err() || store.log_bytes() > config.log_bytes)
            && let Err(error) = store.checkpoint()
        {
            tracing::warn!(name = store.name(), %error, "no checkpoint");
        }
    }
}
