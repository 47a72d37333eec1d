//! Input side of a join that is collected once and shared by the streams of all partitions.

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use datafusion::common::{DataFusionError, Result};
use futures::future::{BoxFuture, Shared};
use terrace_sys::sync::lock;

/// Future of a side being collected, by the stream that is polled first.
pub(crate) type Collecting<T> = Shared<BoxFuture<'static, Result<Arc<T>, Arc<DataFusionError>>>>;

/// Input side of a join: collected on first request, and kept until the streams of all partitions
/// have dropped their [`Share`].
#[derive(Debug)]
pub(crate) struct SharedSide<T> {
    side: Mutex<Option<Collecting<T>>>,
    streams: AtomicUsize,
}

impl<T> SharedSide<T> {
    /// Creates a side for `streams` streams.
    pub(crate) fn new(streams: usize) -> Arc<Self> {
        Arc::new(Self { side: Mutex::default(), streams: AtomicUsize::new(streams) })
    }

    /// Returns the side; `collect` starts its collection on the first call.
    pub(crate) fn get(
        &self,
        collect: impl FnOnce() -> Result<Collecting<T>>,
    ) -> Result<Collecting<T>> {
        let mut side = lock(&self.side);
        if let Some(side) = side.as_ref() {
            return Ok(side.clone());
        }
        Ok(side.insert(collect()?).clone())
    }

    /// Returns a stream's share: the side is dropped with the last one.
    pub(crate) fn share(self: &Arc<Self>) -> Share<T> {
        Share(Arc::clone(self))
    }
}

/// A stream's share of a side; see [`SharedSide::share`].
pub(crate) struct Share<T>(Arc<SharedSide<T>>);

impl<T> Drop for Share<T> {
    fn drop(&mut self) {
        if self.0.streams.fetch_sub(1, Ordering::AcqRel) == 1 {
            lock(&self.0.side).take();
        }
    }
}
