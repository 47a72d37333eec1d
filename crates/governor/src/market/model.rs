//! Cost model of a query as a function of its memory, from its operators and what they have done.
//!
//! The shape of a curve depends on the operator: passes of a sort, partitions of a hash join or
//! aggregate ([`terrace_market::curve`]). Its size is the observed state of the operator (pinned
//! and spilled), extrapolated by the progress of the query's scans while the state still grows. Its
//! height is corrected by what operators of that kind spilled before.

use std::collections::BTreeMap;

use terrace_market::{Correction, Curve, HashModel, SortModel, Spill};
use terrace_sys::size::{KIB, MIB};

use super::number::{count, float};
use crate::memory::OperatorState;

/// Bytes of a page of an operator.
pub(super) const PAGE_BYTES: u64 = 256 * KIB;
/// Number of partitions into which hash operators split.
const FAN_OUT: u64 = 16;

/// Minimum and maximum factor by which the state of a growing operator is expected to grow: scans
/// proceed at different speeds, so a larger factor would be a guess.
const GROWTH: (f64, f64) = (1.25, 4.0);

/// A kind of operator with a cost curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Sort,
    Join,
    Aggregate,
}

impl Kind {
    /// Returns the kind of an operator of this name; `None` if it holds little or cannot spill.
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

    /// Returns the minimum bytes to make progress: the first blocks of the fewest runs that a sort
    /// merges, or a page of each partition and one to read.
    fn floor_bytes(self) -> u64 {
        match self {
            Self::Sort => 9 * MIB,
            Self::Join | Self::Aggregate => (FAN_OUT + 1) * PAGE_BYTES,
        }
    }

    /// Returns the I/Os as a function of memory, for a state of this many bytes.
    fn ios(self, bytes: u64) -> Curve {
        match self {
            Self::Sort => {
                let (input_bytes, spill) = (bytes, Spill::Excess);
                SortModel { input_bytes, page_bytes: PAGE_BYTES, spill }.ios()
            }
            // The probe side is unknown, except that it is partitioned like the build side.
            Self::Join => HashModel::join(bytes, bytes, PAGE_BYTES, FAN_OUT).ios(),
            Self::Aggregate => HashModel::aggregate(bytes, bytes, PAGE_BYTES, FAN_OUT).ios(),
        }
    }
}

/// Work of a query as a function of its memory.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// I/Os of the whole query as a function of bytes.
    pub(super) ios: Curve,
    pub(super) held_bytes: u64,
    pub(super) demand_bytes: u64,
    pub(super) floor_bytes: u64,
    pub(super) spilled_bytes: u64,
}

/// Learned corrections of the models.
#[derive(Debug, Default)]
pub(super) struct Corrections(BTreeMap<Kind, Correction>);

impl Corrections {
    /// Learns from an operator that has ended.
    pub(super) fn learn(&mut self, ended: &OperatorState) {
        let Some(kind) = Kind::of(&ended.name) else { return };
        let seen = ended.peak_bytes.max(ended.held_bytes.saturating_add(ended.spilled_bytes));
        let predicted = kind.ios(seen).at(ended.peak_bytes);
        // Spilled bytes are written once and read once.
        let measured = 2.0 * float(ended.spilled_bytes) / float(PAGE_BYTES);
        self.0.entry(kind).or_default().observe_cost(predicted, measured);
    }

    fn curve(&self, kind: Kind, bytes: u64) -> Curve {
        let model = kind.ios(bytes);
        self.0.get(&kind).map_or(model.clone(), |correction| correction.apply(&model))
    }
}

impl Work {
    /// Sums up the work of operators, in a query whose scans have done this fraction of their work.
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
        // It held at most half of its state, and spilled as much as the model predicts; then twice
        // that.
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
