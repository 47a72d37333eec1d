//! Access hints.

/// Access hint for a range of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Access is sequential: the blocks that follow are read ahead, as by default. Applies to the
    /// whole region.
    Sequential,
    /// Access is random: no readahead. Applies to the whole region.
    Random,
    /// The bytes never change again: blocks are evicted without a check for changes. Writes to them
    /// may be lost.
    Immutable,
    /// The bytes may change, as by default.
    Mutable,
    /// The bytes are not needed any more. Blocks that lie completely in the range are evicted
    /// without write-back, and read as zeros or as their former bytes until they are declared used.
    Unused,
    /// The bytes are used again, as by default, and may change. The caller must say so before it
    /// writes to them.
    Used,
}
