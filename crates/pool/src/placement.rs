//! Framed and mapped page placement.

use std::fmt;

/// Placement of a pool's pages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Placement {
    /// A page is in a frame of its tier's arenas and moves to another tier by being copied: no
    /// system call, no TLB flush. A fix follows a hint or asks the page table (LIPAH; Otaki et al.,
    /// CIDR 2025, section 3).
    #[default]
    Framed,
    /// A page has one address for life, in one reserved range: its id determines the address. The
    /// kernel takes the memory back when the page is evicted, and moves it between nodes (vmcache,
    /// Leis et al., SIGMOD 2023; vmcache^n, 2026). A pool of this kind has at most 1 TiB of pages.
    Mapped,
}

impl Placement {
    /// All placements.
    pub const ALL: [Placement; 2] = [Placement::Framed, Placement::Mapped];

    /// Returns the placement's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Placement::Framed => "framed",
            Placement::Mapped => "mapped",
        }
    }
}

impl std::str::FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|placement| placement.name() == text);
        found.ok_or_else(|| format!("there is no placement \"{text}\"; framed and mapped are"))
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
