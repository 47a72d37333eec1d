//! Traces: the requests of tenants by time.

use terrace_market::Sla;

/// Requests of several tenants in the order of time, with the I/O latencies of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Page size in bytes.
    pub page_bytes: u64,
    /// Duration of one random page read, in nanoseconds.
    pub random_nanos: u64,
    /// Duration per page of a long sequential read or write, in nanoseconds.
    pub sequential_nanos: u64,
    /// The tenants, which send the requests.
    pub tenants: Vec<Tenant>,
    /// Requests, by rising time.
    pub events: Vec<Event>,
}

/// A tenant, and the SLA of its requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Name of the tenant: one word.
    pub name: String,
    /// CPU time for each page of a request, in nanoseconds.
    pub cpu_nanos: u64,
    /// SLA of the requests.
    pub sla: Sla,
}

/// Record of one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Arrival time in nanoseconds since the beginning of the trace.
    pub at_nanos: u64,
    /// Index of the tenant in [`Trace::tenants`].
    pub tenant: usize,
    /// Work of the request.
    pub work: Work,
}

/// Work of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Touches these pages of the tenant; each miss is a random read.
    Get(Vec<u64>),
    /// Touches consecutive pages of the tenant; misses are sequential reads.
    Scan {
        /// First page.
        first: u64,
        /// Number of pages.
        pages: u64,
    },
    /// Sorts pages.
    Sort {
        /// Number of pages.
        pages: u64,
    },
}

impl Trace {
    /// Returns the highest page number that a tenant touches, plus 1; 0 if it touches none.
    #[must_use]
    pub fn pages_of(&self, tenant: usize) -> u64 {
        let own = self.events.iter().filter(|event| event.tenant == tenant);
        let ends = own.map(|event| match &event.work {
            Work::Get(pages) => pages.iter().max().map_or(0, |page| page + 1),
            Work::Scan { first, pages } => first + pages,
            Work::Sort { .. } => 0,
        });
        ends.max().unwrap_or(0)
    }

    /// True if the tenant sorts.
    #[must_use]
    pub fn sorts(&self, tenant: usize) -> bool {
        let is_sort = |event: &Event| matches!(event.work, Work::Sort { .. });
        self.events.iter().any(|event| event.tenant == tenant && is_sort(event))
    }
}
