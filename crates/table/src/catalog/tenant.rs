//! Tenants: named groups of sessions with an SLA and limits.

use std::sync::Arc;

use terrace_market::{Sla, SlaError};

use terrace_governor::limits::TenantLimits;

/// A tenant: the SLA and limits of its sessions and queries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tenant {
    /// SLA of those of its sessions that set none of their own: the penalties for slow queries.
    pub sla: Option<Arc<Sla>>,
    /// Limits of its sessions and queries.
    pub limits: TenantLimits,
}

impl Tenant {
    /// Builds a tenant with the SLA of this text and these limits.
    ///
    /// # Errors
    /// [`SlaError`] for a text that is no valid SLA.
    pub fn of(sla: Option<&str>, limits: TenantLimits) -> Result<Self, SlaError> {
        Ok(Self { sla: sla.map(|text| text.parse().map(Arc::new)).transpose()?, limits })
    }

    pub(super) fn text(&self) -> Option<String> {
        self.sla.as_ref().map(ToString::to_string)
    }
}
