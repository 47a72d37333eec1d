//! Automatic placement: segments that are read most are copied to the fastest heap.
//!
//! A byte in a heap saves, on each read, the cost of reading it from its other location. That cost
//! is the same for every byte, so the benefit of a segment per byte is its read count. Segments
//! with the highest benefit are chosen first, until a heap is full. A segment that already is in
//! that heap counts half as much again (hysteresis), so that segments do not move back and forth.

/// A segment whose placement the engine chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Recent reads.
    pub(super) reads: u32,
    /// Bytes that it takes in a heap.
    pub(super) bytes: u64,
    /// Index of the heap that it is in; `None` if it is in none of them.
    pub(super) at: Option<usize>,
}

impl Candidate {
    fn benefit(&self, heap: usize) -> u64 {
        let reads = u64::from(self.reads);
        2 * reads + if self.at == Some(heap) { reads.max(1) } else { 0 }
    }
}

/// Returns the index of the heap that each candidate is to be in; `None` for the pool. `rooms` are
/// the bytes available in each heap, the fastest heap first.
pub(super) fn plan(candidates: &[Candidate], rooms: &[u64]) -> Vec<Option<usize>> {
    let mut homes = vec![None; candidates.len()];
    for (heap, mut room) in rooms.iter().copied().enumerate() {
        let benefit = |at: &usize| candidates[*at].benefit(heap);
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        order.retain(|at| homes[*at].is_none() && benefit(at) > 0);
        order.sort_by_key(|at| std::cmp::Reverse(benefit(at)));
        for at in order {
            let bytes = candidates[at].bytes;
            if bytes <= room {
                room -= bytes;
                homes[at] = Some(heap);
            }
        }
    }
    homes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(reads: u32, bytes: u64, at: Option<usize>) -> Candidate {
        Candidate { reads, bytes, at }
    }

    #[test]
    fn what_is_read_most_is_nearest() {
        let all = [
            candidate(1, 10, None),
            candidate(9, 10, None),
            candidate(0, 10, None),
            candidate(5, 30, None),
        ];
        assert_eq!(plan(&all, &[10, 40]), [Some(1), Some(0), None, Some(1)]);
        assert_eq!(plan(&all, &[10]), [None, Some(0), None, None]);
        assert_eq!(plan(&all, &[]), [None; 4]);
    }

    #[test]
    fn nothing_goes_to_and_fro() {
        let there = candidate(10, 10, Some(0));
        assert_eq!(plan(&[candidate(14, 10, None), there], &[10]), [None, Some(0)]);
        assert_eq!(plan(&[candidate(16, 10, None), there], &[10]), [Some(0), None]);
        // A segment without reads stays until another one needs its bytes.
        let idle = candidate(0, 10, Some(0));
        assert_eq!(plan(&[idle], &[10]), [Some(0)]);
        assert_eq!(plan(&[idle, candidate(1, 10, None)], &[10]), [None, Some(0)]);
        // The same hysteresis applies between two heaps.
        let (near, far) = (candidate(10, 10, Some(0)), candidate(14, 10, Some(1)));
        assert_eq!(plan(&[far, near], &[10, 10]), [Some(1), Some(0)]);
        let far = candidate(16, 10, Some(1));
        assert_eq!(plan(&[far, near], &[10, 10]), [Some(0), Some(1)]);
    }
}
