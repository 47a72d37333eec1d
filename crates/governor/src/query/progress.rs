//! Progress of a query.

/// Progress summed over the scans of a plan.
///
/// Scans are not all of the work: a sort or an aggregate continues after its input was read. They
/// are the part that can be foreseen.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows read or skipped so far.
    pub rows: u64,
    /// Rows that all scans together will read or skip; `None` if one of them does not know.
    pub rows_total: Option<u64>,
    /// Bytes of tables that were in DRAM when they were requested.
    pub dram_bytes: u64,
    /// Bytes of tables that were in slower memory.
    pub remote_bytes: u64,
    /// Bytes of tables that came from the store.
    pub store_bytes: u64,
}

impl Progress {
    /// Returns the part that is done, from 0 to 1, if it is known.
    #[must_use]
    pub fn fraction(&self) -> Option<f64> {
        let total = self.rows_total.filter(|total| *total > 0)?;
        // Row counts stay far below 2^53, above which the conversion would round.
        Some((self.rows as f64 / total as f64).min(1.0))
    }
}
