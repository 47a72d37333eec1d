//! A recorded trace.

use crate::Sla;

/// Requests of several tenants by time, with what the machine's I/O takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// What it takes to read one page at random, in nanoseconds.
    pub random_nanos: u64,
    /// What a page takes in a long read or write, in nanoseconds.
    pub sequential_nanos: u64,
    /// Who sends requests.
    pub tenants: Vec<Tenant>,
    /// The requests by rising time.
    pub events: Vec<Event>,
}

/// Who sends requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Its name: a word.
    pub name: String,
    /// What the processor does for each page of its requests, in nanoseconds.
    pub cpu_nanos: u64,
    /// What slowness costs.
    pub sla: Sla,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, in nanoseconds from the beginning.
    pub at_nanos: u64,
    /// Whose: a place in [`Trace::tenants`].
    pub tenant: usize,
    /// What it does.
    pub work: Work,
}

/// What a request does.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// It touches these pages of its tenant, each a random read if absent.
    Get(Vec<u64>),
    /// It touches pages in a row, absent ones in long reads.
    Scan {
        /// The first page.
        first: u64,
        /// How many.
        pages: u64,
    },
    /// It sorts that many pages.
    Sort {
        /// How many.
        pages: u64,
    },
}

impl Trace {
    /// The time of the last request, in nanoseconds.
    #[must_use]
    pub fn end_nanos(&self) -> u64 {
        self.events.last().map_or(0, |event| event.at_nanos)
    }

    /// One above the highest page that a tenant touches; 0 if it touches none.
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

    /// Whether a tenant sorts.
    #[must_use]
    pub fn sorts(&self, tenant: usize) -> bool {
        let is_sort = |event: &Event| matches!(event.work, Work::Sort { .. });
        self.events.iter().any(|event| event.tenant == tenant && is_sort(event))
    }
}
