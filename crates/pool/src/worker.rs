//! Background threads of a pool: loaders and the background worker.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::background;
use crate::core::Core;
use crate::error::PoolError;
use crate::load_queue::LoadQueue;
use crate::loader;

/// The threads of a pool: loaders with their queue, and one background worker that keeps
/// frames free and promotes pages.
///
/// The threads hold the pool's core but no handle to the pool, so dropping the last handle ends
/// them.
#[derive(Debug)]
pub(crate) struct Workers {
    core: Arc<Core>,
    queue: Arc<LoadQueue>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(crate) fn start(core: &Arc<Core>, loaders: usize) -> Result<Self, PoolError> {
        let queue = Arc::default();
        let mut workers = Self { core: Arc::clone(core), queue, threads: Vec::new() };
        for index in 0..loaders {
            workers.spawn(&format!("load{index}"), loader::run)?;
        }
        workers.spawn("keep", |core, _| background::run(core))?;
        Ok(workers)
    }

    /// Returns the queue of the loader threads.
    pub(crate) fn queue(&self) -> &LoadQueue {
        &self.queue
    }

    fn spawn(&mut self, name: &str, run: fn(&Arc<Core>, &LoadQueue)) -> Result<(), PoolError> {
        let (core, queue) = (Arc::clone(&self.core), Arc::clone(&self.queue));
        let name = format!("{}-{name}", core.name);
        let thread = std::thread::Builder::new().name(name).spawn(move || run(&core, &queue));
        let failed = PoolError::system(&self.core.name, "starting a background thread");
        self.threads.push(thread.map_err(failed)?);
        Ok(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.core.progress.close();
        self.queue.close();
        self.core.progress.ask();
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
