//! Memory tiers.

use terrace_sys::size::format_bytes;

/// A memory tier, from which frames are allocated: local memory, memory of a NUMA or CXL node, or
/// local memory delayed like a remote tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryTier {
    /// Name of the tier in statistics and errors.
    pub name: String,
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// NUMA node to which its frames are bound; `None` leaves placement to the kernel.
    pub node: Option<u32>,
    /// Delay of each fix of a page in this tier in nanoseconds, on top of the memory's own latency:
    /// zero except for an emulated tier.
    pub latency_ns: u64,
}

impl MemoryTier {
    /// Creates a tier of local memory without a binding or a delay.
    #[must_use]
    pub fn dram(capacity_bytes: u64) -> Self {
        MemoryTier { name: "dram".into(), capacity_bytes, node: None, latency_ns: 0 }
    }

    /// Creates a tier of local memory that is accounted for separately and whose pages cost
    /// `latency_ns` more to fix.
    #[must_use]
    pub fn emulated(capacity_bytes: u64, latency_ns: u64) -> Self {
        MemoryTier { name: "emu".into(), capacity_bytes, node: None, latency_ns }
    }
}

impl std::fmt::Display for MemoryTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, format_bytes(self.capacity_bytes))
    }
}
