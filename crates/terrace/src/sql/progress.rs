//! A bar on standard error for statements that take longer than a moment.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use terrace_sql::query::Query;
use terrace_sys::size::format_bytes;

/// Statements shorter than this have no bar.
const QUIET: Duration = Duration::from_secs(1);

/// Time between two looks at the statement.
const INTERVAL: Duration = Duration::from_millis(200);

/// Steps of a bar.
const STEPS: u64 = 1_000;

/// Shows how far a statement is until it is dropped. A thread of its own draws, so that a busy
/// statement does not hold it up.
pub struct Progress {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Begins to watch a statement; nothing appears when standard error is no terminal.
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
            // A thread that failed to draw has nothing more to say.
            let _ = thread.join();
        }
    }
}

/// A bar where the end is known, and what is known beside it, on one line.
///
/// The line does not fill the terminal: the `^C` that a terminal shows at its end would begin
/// another one, and the bar could not be taken away.
fn style(known: bool) -> ProgressStyle {
    let template = match known {
        true => "{elapsed} {bar:20} {percent:>3}% {msg}",
        false => "{elapsed} {spinner} {msg}",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The bar is the share of the rows to read.
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
