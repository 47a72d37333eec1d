//! Progress bar on standard error for statements that take longer than a second.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use terrace_sql::query::Query;
use terrace_sys::size::format_bytes;

/// Minimum run time of a statement that gets a bar.
const QUIET: Duration = Duration::from_secs(1);

/// Time between two updates of the bar.
const INTERVAL: Duration = Duration::from_millis(200);

/// Number of steps of a bar.
const STEPS: u64 = 1_000;

/// Shows the progress of a statement until it is dropped. The bar is drawn by its own thread, so
/// that a busy statement does not delay it.
pub struct Progress {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts to watch a statement; nothing is drawn if standard error is not a terminal.
    pub fn watch(query: Arc<Query>) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress { stop: None, thread: None };
        }
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            if stopped.recv_timeout(QUIET) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
            bar.set_elapsed(QUIET);
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                show(&bar, &query);
            }
            bar.finish_and_clear();
        });
        Progress { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // An error of the drawing thread is ignored.
            let _ = thread.join();
        }
    }
}

/// Returns the style of a line: a bar if the total is known, and a message beside it.
///
/// The line does not fill the terminal: the `^C` that a terminal echoes at its end would wrap to
/// another line, and the bar could not be erased.
fn style(known: bool) -> ProgressStyle {
    let template = match known {
        true => "{elapsed} {bar:20} {percent:>3}% {msg}",
        false => "{elapsed} {spinner} {msg}",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Updates the bar, which shows the share of rows that were read.
fn show(bar: &ProgressBar, query: &Query) {
    let progress = query.progress();
    let total = progress.rows_total.filter(|total| *total > 0);
    bar.set_style(style(total.is_some()));
    if let Some(total) = total {
        bar.set_position((progress.rows.saturating_mul(STEPS) / total).min(STEPS));
    }
    bar.set_message(format!(
        "{} rows read, {} from the store, {} held",
        progress.rows,
        format_bytes(progress.store_bytes),
        format_bytes(query.memory().reserved_bytes()),
    ));
    bar.tick();
}
