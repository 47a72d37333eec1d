//! LRU stack distances in bytes.

/// Bytes touched since a given touch: a Fenwick tree over the order of touches (Bennett and
/// Kruskal, IBM J. R&D 1975), which holds the bytes of each page at its last touch.
#[derive(Clone, Debug)]
pub(super) struct Touches {
    /// Partial sums of the tree, one-based.
    sums: Vec<u64>,
    /// Next position in the order.
    next: usize,
}

impl Touches {
    /// Returns a tree with capacity for `places` touches between two renumberings.
    pub(super) fn new(places: usize) -> Self {
        Self { sums: vec![0; places + 1], next: 0 }
    }

    /// True if the next touch needs a renumbering first.
    pub(super) fn is_full(&self) -> bool {
        self.next + 1 >= self.sums.len()
    }

    /// Adds a touch and returns its position.
    pub(super) fn push(&mut self, bytes: u64) -> usize {
        let place = self.next;
        self.next += 1;
        self.add(place, bytes);
        place
    }

    /// Removes a touch.
    pub(super) fn remove(&mut self, place: usize, bytes: u64) {
        self.add(place, bytes.wrapping_neg());
    }

    /// Returns the bytes of all touches after `place`.
    pub(super) fn after(&self, place: usize) -> u64 {
        self.up_to(self.next).wrapping_sub(self.up_to(place + 1))
    }

    /// Removes all touches.
    pub(super) fn clear(&mut self) {
        self.sums.fill(0);
        self.next = 0;
    }

    fn add(&mut self, place: usize, bytes: u64) {
        let mut at = place + 1;
        while at < self.sums.len() {
            self.sums[at] = self.sums[at].wrapping_add(bytes);
            at += at & at.wrapping_neg();
        }
    }

    fn up_to(&self, end: usize) -> u64 {
        let (mut at, mut sum) = (end, 0_u64);
        while at > 0 {
            sum = sum.wrapping_add(self.sums[at]);
            at &= at - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touches_are_summed_in_their_order() {
        let mut touches = Touches::new(8);
        let places: Vec<usize> = [10, 20, 30].iter().map(|bytes| touches.push(*bytes)).collect();
        assert_eq!(places.iter().map(|at| touches.after(*at)).collect::<Vec<_>>(), [50, 30, 0]);
        touches.remove(places[1], 20);
        assert_eq!(touches.after(places[0]), 30);
        for _ in 0..5 {
            assert!(!touches.is_full());
            touches.push(1);
        }
        assert!(touches.is_full());
        touches.clear();
        let place = touches.push(7);
        assert_eq!(touches.after(place), 0);
    }
}
