//! Wait reasons of queries.

use std::fmt;

/// Event that a query waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// A slot of its tenant's concurrency limit.
    Turn,
    /// [`Query::resume`](super::Query::resume), after a user has suspended it.
    User,
    /// Admission control: memory has no room for the minimum of all queries, and it is among the
    /// youngest.
    Admission,
    /// Memory that a query of a higher priority needs.
    PriorityMemory,
    /// Processor time that a query of a higher priority needs.
    PriorityTime,
    /// Processors and the device, used by queries whose delay would cost more, by their SLAs.
    Time,
    /// Memory requested by one of its operators.
    Memory,
    /// A lock of a table that another transaction or statement holds.
    Lock,
    /// Its client, which has not requested more rows yet.
    Client,
}

impl WaitReason {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::Turn,
        Self::User,
        Self::Admission,
        Self::PriorityMemory,
        Self::PriorityTime,
        Self::Time,
        Self::Memory,
        Self::Lock,
        Self::Client,
    ];

    /// Returns the name used in `terrace.queries`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::User => "user",
            Self::Admission => "admission",
            Self::PriorityMemory => "priority_memory",
            Self::PriorityTime => "priority_time",
            Self::Time => "time",
            Self::Memory => "memory",
            Self::Lock => "lock",
            Self::Client => "client",
        }
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
