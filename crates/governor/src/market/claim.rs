//! Claim of a query on memory.

use std::sync::Arc;

use terrace_market::Sla;

/// The tenant and SLA that a query is charged to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// Tenant of its session.
    pub tenant: Option<Arc<str>>,
    /// SLA with the penalties for slowness; `None` if none was set.
    pub sla: Option<Arc<Sla>>,
}

impl Claim {
    /// Returns the priority of the SLA; 0 without one.
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.sla.as_ref().map_or(0, |sla| sla.priority())
    }
}
