//! Fairness policy: decides if an operator may grow while others may need bytes too.
//!
//! DataFusion's operators never give bytes back on request, so the first operator could take
//! everything, and a later one that cannot spill would fail. Dividing the budget by the number of
//! registered operators avoids that, but starves the one or two that are active.
//!
//! The rule here is that of dynamic thresholds for a shared packet buffer (Choudhury and Hahne,
//! "Dynamic queue length thresholds for shared-memory packet switches", 1998): an operator that can
//! spill may hold at most [`SHARE`] times the bytes that are *free* at that moment. One such
//! operator alone gets `SHARE / (SHARE + 1)` of the room, `n` of them get `SHARE / (n * SHARE + 1)`
//! each, idle ones cost nothing, and something is always left for a new one. Free bytes are those
//! of the whole budget, so the rule holds across queries as well.
//!
//! In addition, [`Fairness::headroom_bytes`] are not available to operators that can spill. They
//! are for those that cannot (hash join build sides, merges, top-k), which are never refused while
//! a byte is left. Every operator may hold [`Fairness::floor_bytes`], and a first request is never
//! refused: an operator that has just spilled everything must be able to take its next batch.
//!
//! Some operators hold several reservations under one name, and fail when one of them is refused:
//! - An aggregate that has spilled merges its runs, as many as it is granted, and aggregates their
//!   rows once more. The merge begins while it holds nothing else; the reservation that grows
//!   beside it is the new aggregate, which is not limited.
//! - A sort splits its reservation among the batches that it sorts. The rules apply to its larger
//!   part; see [`Fairness::is_minor`].

use datafusion::execution::memory_pool::MemoryConsumer;
use terrace_sys::size::{KIB, MIB};

use super::limit::OPERATOR_FLOOR_BYTES;

/// Multiple of the free bytes that one operator may hold.
const SHARE: u64 = 4;

/// Class of an operator by its reaction to a refusal.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// It spills and asks again.
    Spills,
    /// It merges spilled runs and takes fewer at a time. Merges of a sort's in-memory batches ask
    /// under the same name and fail if refused; the reservations tell them apart, and they are
    /// treated as rigid.
    Merges,
    /// A repartitioning of DataFusion, including one that merges its inputs. It could spill, but
    /// not safely: if two of its inputs spill at the same time, its reader may wait forever
    /// (apache/datafusion#24883). It holds only rows in flight, so it is granted that much even
    /// beyond the budget, as debt.
    Flows,
    /// The query fails.
    Rigid,
}

impl Asker {
    pub(super) fn of(consumer: &MemoryConsumer) -> Self {
        if consumer.name().starts_with("RepartitionExec") {
            Self::Flows
        } else if consumer.can_spill() {
            Self::Spills
        } else if consumer.name().starts_with("ExternalSorterMerge") {
            Self::Merges
        } else {
            Self::Rigid
        }
    }
}

/// Thresholds derived from a budget.
#[derive(Copy, Clone, Debug)]
pub(super) struct Fairness {
    /// Bytes that operators which can spill must leave to those which cannot.
    pub(super) headroom_bytes: u64,
    /// Bytes that every operator may hold while there are any.
    pub(super) floor_bytes: u64,
    /// Bytes that a repartitioning may hold even as debt.
    pub(super) flow_bytes: u64,
}

impl Fairness {
    pub(super) fn of_budget(budget: u64) -> Self {
        Self {
            headroom_bytes: budget / 8,
            floor_bytes: (budget / 64).clamp(256 * KIB, 8 * MIB),
            flow_bytes: (budget / 8).clamp(16 * MIB, 64 * MIB),
        }
    }

    /// Returns true if a reservation of `own` bytes, grown by `bytes`, is the smaller part of the
    /// `held` bytes of its operator; then its growth is not what uses up the memory.
    pub(super) fn is_minor(own: u64, held: u64, bytes: u64) -> bool {
        own.saturating_add(bytes).saturating_mul(2) <= held.saturating_add(bytes)
    }

    /// Returns true if an operator that holds `held` bytes may take `bytes`, if its query has
    /// `room` left below the market's limit and `free` bytes are unused.
    pub(super) fn permits_within(&self, held: u64, bytes: u64, room: u64, free: u64) -> bool {
        let after = held.saturating_add(bytes);
        let is_there = free >= bytes.saturating_add(self.headroom_bytes);
        let within = after <= room.saturating_sub(bytes).saturating_mul(SHARE);
        held == 0 || after <= OPERATOR_FLOOR_BYTES.min(self.floor_bytes) || (is_there && within)
    }

    /// Returns true if an operator that can work with less and holds `held` bytes may take `bytes`
    /// of the `free` ones.
    pub(super) fn permits(&self, held: u64, bytes: u64, free: u64) -> bool {
        let after = held.saturating_add(bytes);
        if held == 0 || after <= self.floor_bytes {
            return true;
        }
        let shared = free.saturating_sub(bytes).saturating_sub(self.headroom_bytes);
        after <= shared.saturating_mul(SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates operators that take turns requesting `step` bytes until all are refused.
    fn settle(room: u64, operators: usize, step: u64) -> Vec<u64> {
        let fairness = Fairness::of_budget(room);
        let mut held = vec![0; operators];
        loop {
            let before = held.clone();
            for index in 0..operators {
                let free = room - held.iter().sum::<u64>();
                if free >= step && fairness.permits(held[index], step, free) {
                    held[index] += step;
                }
            }
            if held == before {
                return held;
            }
        }
    }

    #[test]
    fn one_operator_gets_most_of_the_room() {
        let held = settle(256 * MIB, 1, 64 * KIB)[0];
        assert!(held > 256 * MIB * 2 / 3, "{held}");
        assert!(held < 256 * MIB * 7 / 8, "{held}");
    }

    #[test]
    fn many_operators_share_evenly_and_leave_the_headroom() {
        for operators in [2, 4, 8, 16] {
            let held = settle(256 * MIB, operators, 64 * KIB);
            let (least, most) = (held.iter().min(), held.iter().max());
            assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 128 * KIB));
            let sum = held.iter().sum::<u64>();
            assert!(sum <= 256 * MIB * 7 / 8, "{operators} operators hold {sum}");
            assert!(sum >= 256 * MIB * 2 / 3, "{operators} operators hold {sum}");
        }
    }

    #[test]
    fn a_newcomer_gets_its_floor_and_its_first_batch() {
        let fairness = Fairness::of_budget(64 * MIB);
        assert!(fairness.permits(0, 20 * MIB, 21 * MIB));
        assert!(fairness.permits(512 * KIB, 256 * KIB, MIB));
        assert!(!fairness.permits(2 * MIB, MIB, 4 * MIB));
    }

    #[test]
    fn the_smaller_part_of_an_operator_is_not_held_back() {
        assert!(Fairness::is_minor(0, 6 * MIB, MIB));
        assert!(Fairness::is_minor(2 * MIB, 8 * MIB, MIB));
        assert!(!Fairness::is_minor(4 * MIB, 4 * MIB, MIB));
        assert!(!Fairness::is_minor(0, 0, MIB));
    }
}
