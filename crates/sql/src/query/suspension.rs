//! Stopping a query without ending it.

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

/// Whether a query is suspended, and who waits for it to go on.
///
/// What suspends is not interrupted: a paged operator drops its pins at its next batch and waits,
/// and so does the stream of the result. Nothing is written for it; the pool evicts the unpinned
/// pages when others need their frames.
#[derive(Debug)]
pub(crate) struct Suspension {
    suspended: watch::Sender<bool>,
}

impl Default for Suspension {
    fn default() -> Self {
        Self { suspended: watch::Sender::new(false) }
    }
}

impl Suspension {
    /// Stops the query, or lets it go on.
    pub(crate) fn set(&self, suspended: bool) {
        self.suspended.send_replace(suspended);
    }

    pub(crate) fn is_set(&self) -> bool {
        *self.suspended.borrow()
    }

    /// While the query is suspended, what ends when it goes on.
    pub(crate) fn wait(&self) -> Option<BoxFuture<'static, ()>> {
        if !self.is_set() {
            return None;
        }
        let mut suspended = self.suspended.subscribe();
        let resumed = async move {
            // Without its sender the query is gone, and with it whoever waits here.
            drop(suspended.wait_for(|suspended| !suspended).await);
        };
        Some(resumed.boxed())
    }
}
