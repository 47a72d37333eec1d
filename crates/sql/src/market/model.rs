//! What a query costs with how much memory, from what its operators are and what they have done.
//!
//! The shape of a curve is the operator's: passes of a sort, partitions of a hash join or aggregate
//! ([`terrace_market::curve`]). Its size is what was seen of the operator's state - pinned and
//! spilled - and, while that still grows, what the query's scans have before them. Its height is
//! corrected by what operators of that kind spilled before.

use std::collections::BTreeMap;

use terrace_market::{Correction, Curve, HashModel, SortModel, Spill};
use terrace_sys::size::{KIB, MIB};

use super::number::{count, float};
use crate::memory::OperatorState;

/// Bytes of a page of an operator.
pub(super) const PAGE_BYTES: u64 = 256 * KIB;
/// Partitions into which hash operators split.
const FAN_OUT: u64 = 16;

/// By how much the state of an operator that still grows is expected to grow, at least and at most:
/// scans are read at their own pace, so more would be a guess.
const GROWTH: (f64, f64) = (1.25, 4.0);

/// A kind of operator with a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Sort,
    Join,
    Aggregate,
}

impl Kind {
    /// The kind of an operator of this name; none where it holds little or cannot spill.
    fn of(name: &str) -> Option<Self> {
        let kinds = [
            ("PagedSort[", Self::Sort),
            ("ExternalSorter[", Self::Sort),
            ("PagedWindow[", Self::Sort),
            ("PagedHashJoin[", Self::Join),
            ("PagedAggregate[", Self::Aggregate),
            ("GroupedHashAggregateStream[", Self::Aggregate),
        ];
        kinds.into_iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, kind)| kind)
    }

    /// What it takes to go on at all: the first blocks of the fewest runs that a sort merges, a
    /// page of each partition and one to read.
    fn floor_bytes(self) -> u64 {
        match self {
            Self::Sort => 9 * MIB,
            Self::Join | Self::Aggregate => (FAN_OUT + 1) * PAGE_BYTES,
        }
    }

    /// I/Os as a function of bytes, for a state of so many bytes.
    fn ios(self, bytes: u64) -> Curve {
        match self {
            Self::Sort => {
                let (input_bytes, spill) = (bytes, Spill::Excess);
                SortModel { input_bytes, page_bytes: PAGE_BYTES, spill }.ios()
            }
            // Of the probe side nothing is known but that it goes where the build side goes.
            Self::Join => HashModel::join(bytes, bytes, PAGE_BYTES, FAN_OUT).ios(),
            Self::Aggregate => HashModel::aggregate(bytes, bytes, PAGE_BYTES, FAN_OUT).ios(),
        }
    }
}

/// What a query would do with memory.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// I/Os of the whole query as a function of bytes.
    pub(super) ios: Curve,
    pub(super) held_bytes: u64,
    pub(super) demand_bytes: u64,
    pub(super) floor_bytes: u64,
    pub(super) spilled_bytes: u64,
}

/// What was learned of models.
#[derive(Debug, Default)]
pub(super) struct Corrections(BTreeMap<Kind, Correction>);

impl Corrections {
    /// Learns from an operator that has ended.
    pub(super) fn learn(&mut self, ended: &OperatorState) {
        let Some(kind) = Kind::of(&ended.name) else { return };
        let seen = ended.peak_bytes.max(ended.held_bytes.saturating_add(ended.spilled_bytes));
        let predicted = kind.ios(seen).at(ended.peak_bytes);
        // What is spilled is read again.
        let measured = 2.0 * float(ended.spilled_bytes) / float(PAGE_BYTES);
        self.0.entry(kind).or_default().observe_cost(predicted, measured);
    }

    fn curve(&self, kind: Kind, bytes: u64) -> Curve {
        let model = kind.ios(bytes);
        self.0.get(&kind).map_or(model.clone(), |correction| correction.apply(&model))
    }
}

impl Work {
    /// The work of operators, `rigid_bytes` of which cannot be given back, in a query whose scans
    /// are so far.
    pub(super) fn of(
        operators: &[OperatorState],
        fraction: Option<f64>,
        corrections: &Corrections,
    ) -> Self {
        let growth = (1.0 / fraction.unwrap_or(0.5).max(1e-3)).clamp(GROWTH.0, GROWTH.1);
        let (mut curves, mut demand, mut floor) = (Vec::new(), 0_u64, 0_u64);
        for operator in operators {
            let seen =
                operator.peak_bytes.max(operator.held_bytes.saturating_add(operator.spilled_bytes));
            let Some(kind) = Kind::of(&operator.name).filter(|_| seen >= MIB) else {
                floor = floor.saturating_add(operator.held_bytes);
                demand = demand.saturating_add(operator.held_bytes);
                continue;
            };
            let whole = if operator.grows { count(float(seen) * growth) } else { seen };
            curves.push(corrections.curve(kind, whole));
            floor = floor.saturating_add(kind.floor_bytes().min(whole));
            // An operator may have four fifths of what is left of its query's share.
            demand = demand.saturating_add(whole / 4 * 5);
        }
        let sum = |of: fn(&OperatorState) -> u64| operators.iter().map(of).sum::<u64>();
        let held_bytes = sum(|operator| operator.held_bytes);
        Self {
            ios: Curve::shared(&curves),
            held_bytes,
            demand_bytes: demand.max(held_bytes),
            floor_bytes: floor,
            spilled_bytes: sum(|operator| operator.spilled_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(name: &str, held: u64, spilled: u64, grows: bool) -> OperatorState {
        OperatorState {
            name: name.to_owned(),
            held_bytes: held,
            peak_bytes: held,
            spilled_bytes: spilled,
            grows,
        }
    }

    #[test]
    fn a_state_that_grows_is_taken_for_larger() {
        let none = Corrections::default();
        let sort = |grows| operator("PagedSort[0]", 100 * MIB, 0, grows);
        let still = Work::of(&[sort(false)], Some(0.25), &none);
        let grows = Work::of(&[sort(true)], Some(0.25), &none);
        assert_eq!(still.ios.at(100 * MIB), 0.0);
        assert!(grows.ios.at(100 * MIB) > 0.0 && grows.demand_bytes > 4 * still.demand_bytes - MIB);
        assert_eq!((still.held_bytes, still.floor_bytes), (100 * MIB, Kind::Sort.floor_bytes()));
    }

    #[test]
    fn what_is_not_adaptive_is_the_floor() {
        let operators = [
            operator("HashJoinInput[0]", 30 * MIB, 0, true),
            operator("PagedSort[1]", 4096, 0, true),
        ];
        let work = Work::of(&operators, None, &Corrections::default());
        assert_eq!((work.floor_bytes, work.demand_bytes), (30 * MIB + 4096, 30 * MIB + 4096));
        assert_eq!(work.ios.at(0), 0.0);
    }

    #[test]
    fn what_was_spilled_corrects_the_model() {
        let mut corrections = Corrections::default();
        let before = corrections.curve(Kind::Sort, 128 * MIB).at(64 * MIB);
        // It held half of its state at most, and spilled as much as the model says; then half.
        let ended = |spilled_bytes| OperatorState {
            peak_bytes: 64 * MIB,
            spilled_bytes,
            ..operator("PagedSort[0]", 64 * MIB, 0, false)
        };
        (0..20).for_each(|_| corrections.learn(&ended(64 * MIB)));
        let after = corrections.curve(Kind::Sort, 128 * MIB).at(64 * MIB);
        assert!((after / before - 1.0).abs() < 0.05, "the model was right: {before} {after}");
        let twice = OperatorState { held_bytes: 0, ..ended(128 * MIB) };
        (0..40).for_each(|_| corrections.learn(&twice));
        let after = corrections.curve(Kind::Sort, 128 * MIB).at(64 * MIB);
        assert!((after / before - 2.0).abs() < 0.1, "it spills twice as much: {before} {after}");
    }
}
