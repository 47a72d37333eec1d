//! Stages of a server's shutdown, and the wait for it.

use tokio::sync::watch;

/// Stages of a server's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The server is serving.
    No,
    /// The server shuts down; running statements may finish.
    Soon,
    /// Running statements are cancelled.
    Now,
}

/// Waits until the server shuts down.
pub(crate) async fn stopping(stopped: &mut watch::Receiver<Stop>) {
    // An error means that the sender, and with it the server, is gone.
    let _gone = stopped.wait_for(|stop| *stop != Stop::No).await;
}
