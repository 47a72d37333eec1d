//! Plan of a query as the governor reads it.

use super::progress::Progress;

/// Estimated size of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanSize {
    /// Rows that its operators are expected to return, all together; `None` if that is unknown.
    pub rows: Option<f64>,
    /// True for a plan that changes tables.
    pub writes: bool,
}

/// A plan whose size and progress the market and the reports read while its query runs.
pub trait QueryPlan: Send + Sync {
    /// Estimates the size of the plan, that of the statement `text`.
    fn size(&self, text: &str) -> PlanSize;

    /// Returns the progress of its scans.
    fn progress(&self) -> Progress;
}
