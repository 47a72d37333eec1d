//! The outcome of a query, and the time, I/Os and bytes that it has used.

use std::task::Poll;

use terrace_market::sla::Request;
use terrace_sys::size::KIB;

use super::Query;
use super::requests::{Outcome, Work};

/// Bytes that count as one I/O of the store: the size of a page.
const IO_BYTES: f64 = (256 * KIB) as f64;

impl Query {
    /// Returns its time and its I/Os so far.
    pub(super) fn request(&self) -> Request {
        Request {
            seconds: self.began().elapsed().as_secs_f64(),
            ios: self.progress().store_bytes as f64 / IO_BYTES,
        }
    }

    /// Records the end that a reader of its rows has observed. Only the first is kept.
    pub fn note_end<T, E>(&self, polled: &Poll<Option<Result<T, E>>>) {
        let _ = match polled {
            Poll::Ready(None) => self.outcome.set(Outcome::Finished),
            Poll::Ready(Some(Err(_))) if self.ended_by.get().is_some() => {
                self.outcome.set(Outcome::Failed)
            }
            Poll::Ready(Some(Err(_))) if !self.memory.is_cancelled() => {
                self.outcome.set(Outcome::Failed)
            }
            _ => return,
        };
    }

    /// Returns its outcome; a query without a recorded one was cancelled.
    pub(super) fn outcome(&self) -> Outcome {
        self.outcome.get().copied().unwrap_or_default()
    }

    /// Returns what it has spilled and returned so far.
    pub(super) fn work(&self) -> Work {
        Work {
            spilled_bytes: self.spilled().bytes(),
            spill_files: self.spilled().files(),
            rows: self.rows_returned(),
        }
    }
}
