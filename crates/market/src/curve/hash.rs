//! Cost model of hash join and hash aggregation: partitions spilled as a function of memory.

use super::{point::Point, polyline::Curve};
use crate::number::float;

/// I/O of a partitioned hash operator.
///
/// Rows are split into `fan_out` partitions. As many partitions stay in memory as fit; the others
/// are spilled and read again. A partition that does not fit when it is processed is split again,
/// which writes and reads everything once more (hybrid hash join with recursive partitioning:
/// Shapiro, TODS 1986).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashModel {
    /// Memory in bytes with which nothing is spilled: the hash table of the build side, or the
    /// states of all groups.
    pub table_bytes: u64,
    /// Bytes spilled when nothing stays in memory.
    pub spilled_bytes: u64,
    /// Size of one I/O in bytes.
    pub page_bytes: u64,
    /// Number of partitions per level.
    pub fan_out: u64,
}

/// Maximum number of partitioning levels: 16 to the power of 8 pages exceed any device.
const LEVELS_MAX: u32 = 8;

impl HashModel {
    /// Returns the model of a join: a spilled part of the build side also spills the same part of
    /// the probe side.
    #[must_use]
    pub fn join(build_bytes: u64, probe_bytes: u64, page_bytes: u64, fan_out: u64) -> Self {
        let spilled_bytes = build_bytes.saturating_add(probe_bytes);
        Self { table_bytes: build_bytes, spilled_bytes, page_bytes, fan_out }
    }

    /// Returns the model of an aggregation of `input_bytes` into groups with states of
    /// `groups_bytes` together. It spills states or rows, whichever is less.
    #[must_use]
    pub fn aggregate(groups_bytes: u64, input_bytes: u64, page_bytes: u64, fan_out: u64) -> Self {
        let spilled_bytes = groups_bytes.min(input_bytes);
        Self { table_bytes: groups_bytes, spilled_bytes, page_bytes, fan_out }
    }

    /// Returns the minimum number of bytes: a page for every partition and one to read.
    #[must_use]
    pub fn floor_bytes(&self) -> u64 {
        self.fan_out().saturating_add(1).saturating_mul(self.page_bytes.max(1))
    }

    /// Returns the levels of partitioning with `bytes` of memory; 0 if everything fits.
    #[must_use]
    pub fn levels(&self, bytes: u64) -> u32 {
        let mut largest = self.table_bytes;
        let mut levels = 0;
        while largest > bytes.max(self.floor_bytes()) && levels < LEVELS_MAX {
            largest = largest.div_ceil(self.fan_out());
            levels += 1;
        }
        levels
    }

    /// Returns the number of pages written and read again, as a function of bytes.
    #[must_use]
    pub fn ios(&self) -> Curve {
        let enough = self.table_bytes;
        let mut points = Vec::new();
        let mut from = self.floor_bytes();
        while from < enough {
            let levels = self.levels(from);
            let next = self.first_with_fewer(levels, from, enough);
            points.push(Point::new(from, self.ios_with(levels, from)));
            if next - 1 > from {
                points.push(Point::new(next - 1, self.ios_with(levels, next - 1)));
            }
            from = next;
        }
        points.push(Point::new(enough.max(self.floor_bytes()), 0.0));
        Curve::descending(points)
    }

    fn fan_out(&self) -> u64 {
        self.fan_out.max(2)
    }

    /// Returns the bytes above `from` at which fewer than `levels` suffice; `enough` needs none.
    fn first_with_fewer(&self, levels: u32, from: u64, enough: u64) -> u64 {
        let (mut low, mut high) = (from, enough);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.levels(middle) < levels { high = middle } else { low = middle }
        }
        high
    }

    /// At the first level the data that fits beside the partitions' pages stays in memory; each
    /// further level spills all of it.
    fn ios_with(&self, levels: u32, bytes: u64) -> f64 {
        let all = 2.0 * float(self.spilled_bytes) / float(self.page_bytes.max(1));
        let resident = bytes.saturating_sub(self.floor_bytes()).min(self.table_bytes);
        let away = 1.0 - float(resident) / float(self.table_bytes.max(1));
        match levels {
            0 => 0.0,
            levels => all * (f64::from(levels - 1) + away),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn nothing_is_spilled_when_the_build_side_fits() {
        let join = HashModel::join(100 * MIB, 900 * MIB, MIB, 16);
        let ios = join.ios();
        assert_eq!((ios.at(100 * MIB), join.levels(100 * MIB)), (0.0, 0));
        assert_eq!(ios.at(17 * MIB), 2000.0, "everything once");
        assert!((ios.at(67 * MIB) - 1000.0).abs() < 1.0, "half of it");
    }

    #[test]
    fn partitions_that_do_not_fit_are_split_again() {
        let join = HashModel::join(16_000 * MIB, 0, MIB, 16);
        assert_eq!((join.levels(1000 * MIB - 1), join.levels(1000 * MIB)), (2, 1));
        let ios = join.ios();
        assert!(ios.at(1000 * MIB - 1) - ios.at(1000 * MIB) > 31_000.0);
        assert!(!ios.is_convex());
    }

    #[test]
    fn an_aggregation_spills_states_or_rows() {
        let few_rows = HashModel::aggregate(100 * MIB, 40 * MIB, MIB, 16);
        assert_eq!(few_rows.ios().at(0), 80.0);
        let many_rows = HashModel::aggregate(100 * MIB, 4000 * MIB, MIB, 16);
        assert_eq!(many_rows.ios().at(0), 200.0);
    }

    #[test]
    fn the_smallest_tables() {
        for bytes in [0, 1, MIB, 17 * MIB] {
            assert_eq!(HashModel::join(bytes, bytes, MIB, 16).ios().at(0), 0.0, "{bytes}");
        }
        assert_eq!(HashModel::join(u64::MAX, 1, 0, 0).levels(0), LEVELS_MAX);
    }
}
