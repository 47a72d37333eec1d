//! Stopping a query without ending it.

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

/// Whether a query is suspended, and who waits for it to go on.
///
/// What suspends is not interrupted: a paged operator drops its pins at its next batch and waits.
/// The stream of the result is read on, so that the operators in it come to that, and keeps the
/// batch that it may get. Nothing is written for it; the pool evicts the unpinned pages when others
/// need their frames.
///
/// Two may suspend it, and it goes on when neither wants it suspended: people, and the market,
/// which does so for queries of a higher priority and never for long.
#[derive(Debug)]
pub(crate) struct Suspension {
    by: watch::Sender<By>,
}

#[derive(Clone, Copy, Debug, Default)]
struct By {
    people: bool,
    market: bool,
    /// The query is to end.
    cancelled: bool,
}

impl By {
    fn any(self) -> bool {
        self.people || self.market
    }
}

impl Default for Suspension {
    fn default() -> Self {
        Self { by: watch::Sender::new(By::default()) }
    }
}

impl Suspension {
    /// Stops the query, or lets it go on, also if the market has stopped it.
    pub(crate) fn set(&self, suspended: bool) {
        self.by.send_modify(|by| {
            *by = By { people: suspended, market: by.market && suspended, ..*by };
        });
    }

    /// Wakes whoever reads or waits: the query is to end.
    pub(crate) fn cancel(&self) {
        self.by.send_modify(|by| *by = By { cancelled: true, ..By::default() });
    }

    /// What ends when the query is cancelled.
    pub(crate) fn cancelled(&self) -> BoxFuture<'static, ()> {
        let mut by = self.by.subscribe();
        let cancelled = async move {
            // Without its sender the query is gone, and with it whoever waits here.
            drop(by.wait_for(|by| by.cancelled).await);
        };
        cancelled.boxed()
    }

    /// Stops the query for one of a higher priority, or no longer.
    pub(crate) fn preempt(&self, preempted: bool) {
        self.by.send_modify(|by| by.market = preempted && !by.cancelled);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.by.borrow().any()
    }

    /// Whether the market alone has stopped it.
    pub(crate) fn is_preempted(&self) -> bool {
        let by = *self.by.borrow();
        by.market && !by.people
    }

    /// While the query is suspended, what ends when it goes on.
    pub(crate) fn wait(&self) -> Option<BoxFuture<'static, ()>> {
        if !self.is_set() {
            return None;
        }
        let mut by = self.by.subscribe();
        let resumed = async move {
            // Without its sender the query is gone, and with it whoever waits here.
            drop(by.wait_for(|by| !by.any()).await);
        };
        Some(resumed.boxed())
    }
}
