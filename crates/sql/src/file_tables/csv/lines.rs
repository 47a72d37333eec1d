//! Counting of lines.

/// Number of line ends.
pub(super) fn lines_in(bytes: &[u8]) -> u64 {
    let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
    u64::try_from(ends).unwrap_or(u64::MAX)
}
