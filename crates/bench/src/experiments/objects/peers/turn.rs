//! Measurements of one map or of the store, and their row of the table.

use serde::Serialize;

use super::super::popularity::Popularity;
use super::super::rates::Way;

/// Name of the store in the comparison.
pub(super) const STORE: &str = "the store";

/// Measurements of one map or of the store.
#[derive(Clone, Debug, Serialize)]
pub(in crate::experiments::objects) struct Turn {
    pub(super) peer: &'static str,
    pub(super) way: Way,
    pub(super) popularity: Popularity,
    pub(super) threads: usize,
    /// Bytes of memory per object, as the kernel counts them.
    pub(super) taken_bytes: f64,
    /// Millions of operations per second of elapsed time.
    pub(super) per_second_m: f64,
    /// Millions of operations per second of processor time.
    pub(super) per_core_second_m: f64,
    /// Rate of the store in the same rounds, relative to this one; set in medians only.
    pub(super) store_over_it: Option<f64>,
}

impl Turn {
    pub(in crate::experiments::objects) fn cells(&self) -> [String; 5] {
        let Self { per_core_second_m, per_second_m, taken_bytes, .. } = self;
        let over = self.store_over_it.filter(|_| self.peer != STORE);
        [
            String::new(),
            format!("{}: {}, {}", self.peer, self.way.name(), self.popularity.name()),
            self.threads.to_string(),
            format!(
                "{per_core_second_m:.1} M/core s, {per_second_m:.1} M/s, {taken_bytes:.1} B each"
            ),
            over.map_or_else(String::new, |over| format!("the store gives {over:.2} of it")),
        ]
    }
}
