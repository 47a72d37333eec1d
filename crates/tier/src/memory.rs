//! A tier of memory.

use terrace_sys::size::format_bytes;

/// Memory that frames are cut from: local, of a NUMA or CXL node, or local but delayed like a
/// remote tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryTier {
    /// What statistics and errors call it.
    pub name: String,
    /// Bytes it may hold.
    pub capacity_bytes: u64,
    /// The NUMA node its frames are bound to, or wherever the kernel likes.
    pub node: Option<u32>,
    /// Nanoseconds that each fix of a page in it waits beyond the memory's own latency: zero but
    /// for an emulated tier.
    pub latency_ns: u64,
}

impl MemoryTier {
    /// Local memory without a binding or a delay.
    #[must_use]
    pub fn dram(capacity_bytes: u64) -> Self {
        MemoryTier { name: "dram".into(), capacity_bytes, node: None, latency_ns: 0 }
    }

    /// Local memory, accounted on its own, whose pages cost `latency_ns` more to fix.
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
