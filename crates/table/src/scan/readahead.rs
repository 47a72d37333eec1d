//! Read-ahead of a scan.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::prune::ChunkFilter;
use crate::table::TableVersion;

/// Prefetches the chunks that a scan will open next. Clones belong to the same scan, so that its
/// partitions, which take chunks from one queue, do not prefetch a chunk twice.
#[derive(Clone, Debug)]
pub(super) struct ReadAhead {
    plan: Arc<Plan>,
}

#[derive(Debug)]
struct Plan {
    /// Indices of the chunks in the order of the queue, and the position of each in it.
    sequence: Vec<usize>,
    places: Vec<usize>,
    /// By index of the chunk: true once it was opened or prefetched.
    asked: Vec<AtomicBool>,
    /// Read-ahead distance in bytes.
    bytes: u64,
}

impl ReadAhead {
    /// Builds the read-ahead of a scan; `sequence` has the index of each chunk once.
    pub(super) fn new(sequence: Vec<usize>, bytes: u64) -> Self {
        let mut places = vec![0; sequence.len()];
        for (place, chunk) in sequence.iter().enumerate() {
            places[*chunk] = place;
        }
        let asked = sequence.iter().map(|_| AtomicBool::new(false)).collect();
        Self { plan: Arc::new(Plan { sequence, places, asked, bytes }) }
    }

    /// Returns the position of a chunk in the order in which the scan reads them.
    pub(super) fn place(&self, chunk: usize) -> usize {
        self.plan.places.get(chunk).copied().unwrap_or(usize::MAX)
    }

    /// Prefetches `columns` of the chunks behind `chunk`, which is being opened, except for chunks
    /// that `filter` prunes.
    pub(super) fn opened(
        &self,
        chunk: usize,
        version: &TableVersion,
        columns: &[usize],
        filter: &ChunkFilter,
    ) {
        self.first_to_ask(chunk);
        let mut ahead = 0;
        let mut pages = Vec::new();
        let behind = self.plan.sequence.iter().skip(self.place(chunk).saturating_add(1));
        for next in behind.filter(|next| filter.kept_at_first(**next)) {
            let next_chunk = &version.chunks[*next];
            let segments = columns.iter().map(|column| &next_chunk.columns[*column]);
            ahead += segments.map(|segment| segment.len_bytes()).sum::<u64>();
            // At least one chunk ahead, further ones only as far as they fit the distance.
            if ahead > self.plan.bytes && !pages.is_empty() {
                break;
            }
            if self.first_to_ask(*next) {
                pages.extend(next_chunk.pages_ahead(columns));
            }
            if ahead >= self.plan.bytes {
                break;
            }
        }
        if !pages.is_empty() {
            version.chunks[chunk].space().prefetch(&pages);
        }
    }

    fn first_to_ask(&self, chunk: usize) -> bool {
        self.plan.asked.get(chunk).is_some_and(|asked| !asked.swap(true, Ordering::Relaxed))
    }
}
