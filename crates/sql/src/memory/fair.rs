//! Which operator may grow while others may need bytes too.
//!
//! DataFusion's operators never give bytes back on request, so whoever comes first could take
//! everything; an operator that cannot spill and comes later would fail. Dividing the budget by
//! the number of registered operators avoids that and starves the one or two that are at work.
//!
//! The rule here is that of dynamic thresholds for a shared packet buffer (Choudhury and Hahne,
//! "Dynamic queue length thresholds for shared-memory packet switches", 1998): an operator that
//! can spill may hold at most [`SHARE`] times the bytes that are *free* at that moment. One such
//! operator alone gets `SHARE / (SHARE + 1)` of the room, `n` of them get
//! `SHARE / (n * SHARE + 1)` each, idle ones cost nothing, and something is always left for a
//! newcomer. Free bytes are those of the whole budget, so the rule holds across queries as well.
//!
//! Beside that, a [`Fairness::headroom_bytes`] is out of reach of operators that can spill; it is
//! for those that cannot (hash join build sides, merges, top-k), which are never held back while a
//! byte is left. Every operator may hold [`Fairness::floor_bytes`], and a first request is never
//! held back: an operator that has just spilled everything must be able to take its next batch.
//!
//! Some operators hold several reservations under one name, and fail when one of them is refused:
//! - An aggregate that has spilled merges its runs, as many as it may take, and aggregates once
//!   more what comes of them. The merge begins while it holds nothing else; what grows beside it is
//!   the new aggregate, which is not held back.
//! - A sort splits its reservation among the batches that it sorts. The rules are for its larger
//!   part; see [`Fairness::is_minor`].

use datafusion::execution::memory_pool::MemoryConsumer;
use terrace_sys::size::{KIB, MIB};

use super::limit::OPERATOR_FLOOR_BYTES;

/// How many times the free bytes one operator may hold.
const SHARE: u64 = 4;

/// How an operator takes a refusal.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// It spills and asks again.
    Spills,
    /// It merges spilled runs and takes fewer at a time. Merges of what a sort has in memory ask
    /// under the same name and fail; the books tell them apart, and they are treated as rigid.
    Merges,
    /// A repartitioning of DataFusion's, which one that merges its inputs still is. It could spill,
    /// but not safely: when two of its inputs do so at a time, its reader may wait for ever
    /// (apache/datafusion#24883). It holds what flows past it, so it is given that much even beyond
    /// what there is, as debt.
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

/// The thresholds that follow from a budget.
#[derive(Copy, Clone, Debug)]
pub(super) struct Fairness {
    /// Bytes that operators which can spill leave to those which cannot.
    pub(super) headroom_bytes: u64,
    /// Bytes that every operator may hold while they last.
    pub(super) floor_bytes: u64,
    /// Bytes that a repartitioning may hold whether there are any or not.
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

    /// Whether a reservation of `own` bytes, grown by `bytes`, is the smaller part of the `held`
    /// bytes of its operator. Its growth is not where the memory goes.
    pub(super) fn is_minor(own: u64, held: u64, bytes: u64) -> bool {
        own.saturating_add(bytes).saturating_mul(2) <= held.saturating_add(bytes)
    }

    /// Whether an operator that holds `held` bytes may take `bytes` where its query has `room` left
    /// of what the market lets it have, and `free` bytes are nobody's.
    pub(super) fn permits_within(&self, held: u64, bytes: u64, room: u64, free: u64) -> bool {
        let after = held.saturating_add(bytes);
        let is_there = free >= bytes.saturating_add(self.headroom_bytes);
        let within = after <= room.saturating_sub(bytes).saturating_mul(SHARE);
        held == 0 || after <= OPERATOR_FLOOR_BYTES.min(self.floor_bytes) || (is_there && within)
    }

    /// Whether an operator that can do with less and holds `held` bytes may take `bytes` of `free`
    /// ones.
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

    /// Operators that take turns asking for `step` bytes until all are refused.
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
