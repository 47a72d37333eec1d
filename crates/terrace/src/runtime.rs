//! Runtimes whose threads run queries.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::error::Result;
use crate::settings::Settings;

/// Maximum time to wait for cancelled tasks at the end of the program.
pub const SHUTDOWN: Duration = Duration::from_millis(500);

/// Creates a runtime whose threads run queries; the name is that of its threads.
///
/// # Errors
/// If a thread cannot be started.
pub fn create(name: &str, settings: &Settings) -> Result<Runtime> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(settings.threads.get())
        .thread_name(name)
        .enable_all()
        .build()?;
    Ok(runtime)
}
