//! Decides when a partial aggregation flushes its groups early or passes rows through unaggregated.
//!
//! A partial aggregation saves its consumer work if rows share groups. Where nearly every row is a
//! group of its own it saves nothing, and rows are passed through unaggregated, at the thresholds
//! of DataFusion's settings. Where the rows of a group are clustered, as in a table that was loaded
//! in the order of the keys, a hash table that fits the caches finds as many groups as one that
//! holds all of them, and faster; so groups are flushed early. Other tables grow for as long as the
//! grant allows.

/// Approximate number of groups of a table that fits the caches.
const FEW_GROUPS: usize = 8 << 10;

/// Decision about the groups of a partial aggregation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Advice {
    /// Keep the groups in the table.
    Keep,
    /// Flush the groups, and begin with an empty table.
    HandOn,
    /// Flush the groups, and pass all further rows through unaggregated.
    LetThrough,
}

/// Pass-through threshold: after `rows` rows, a partial aggregation passes rows through if the
/// number of groups exceeds `share` times the number of rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Probe {
    pub(super) rows: usize,
    pub(super) share: f64,
}

/// Statistics of the rows and groups of one partial aggregation.
#[derive(Debug)]
pub(super) struct Early {
    /// None if rows cannot be passed through.
    probe: Option<Probe>,
    /// Rows and groups of earlier, flushed tables.
    rows_before: usize,
    groups_before: usize,
    /// Rows of this table.
    rows: usize,
    /// Rows and groups of this table when it last had fewer than half of `FEW_GROUPS`.
    half: (usize, usize),
    /// True once this table reached `FEW_GROUPS` and was tested for clustered rows.
    is_judged: bool,
}

impl Early {
    pub(super) fn new(probe: Option<Probe>) -> Self {
        Self { probe, rows_before: 0, groups_before: 0, rows: 0, half: (0, 0), is_judged: false }
    }

    /// Records that the table has `groups` groups after `rows` further rows; returns the decision.
    pub(super) fn note(&mut self, rows: usize, groups: usize) -> Advice {
        self.rows += rows;
        if let Some(probe) = self.probe {
            let (rows, groups) = (self.rows_before + self.rows, self.groups_before + groups);
            if rows >= probe.rows && groups as f64 > rows as f64 * probe.share {
                return Advice::LetThrough;
            }
        }
        if groups < FEW_GROUPS / 2 {
            self.half = (self.rows, groups);
        }
        if groups < FEW_GROUPS || self.is_judged {
            return Advice::Keep;
        }
        self.is_judged = true;
        match self.come_together(groups) {
            true => Advice::HandOn,
            false => Advice::Keep,
        }
    }

    /// Returns true if the rows of a group are clustered: new groups are still created at the
    /// initial rate, though at least half of the rows found an existing group. In random order the
    /// rate would fall.
    fn come_together(&self, groups: usize) -> bool {
        let (rows, made) = self.half;
        let (later_rows, later_made) = (self.rows - rows, groups - made);
        self.rows >= 2 * groups && later_rows * made <= (rows + rows / 4) * later_made
    }

    /// Records that the table was flushed with `groups` groups.
    pub(super) fn hand_on(&mut self, groups: usize) {
        self.rows_before += self.rows;
        self.groups_before += groups;
        (self.rows, self.half, self.is_judged) = (0, (0, 0), false);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use terrace_testkit::Rng;

    use super::*;

    const BATCH: usize = 1 << 12;
    const PROBE: Probe = Probe { rows: 100_000, share: 0.8 };

    /// Feeds batches of rows with the groups `of(row)`; returns the number of early flushes, and
    /// the row at which pass-through began.
    fn run(probe: Option<Probe>, rows: usize, of: impl Fn(usize) -> u64) -> (usize, Option<usize>) {
        let mut early = Early::new(probe);
        let (mut table, mut handed_on) = (HashSet::new(), 0);
        for from in (0..rows).step_by(BATCH) {
            table.extend((from..from + BATCH).map(&of));
            match early.note(BATCH, table.len()) {
                Advice::Keep => {}
                Advice::HandOn => {
                    handed_on += 1;
                    early.hand_on(table.len());
                    table.clear();
                }
                Advice::LetThrough => return (handed_on, Some(from + BATCH)),
            }
        }
        (handed_on, None)
    }

    fn random(row: usize) -> u64 {
        Rng::new(row as u64).next_u64()
    }

    #[test]
    fn groups_whose_rows_come_together_are_handed_on() {
        let (handed_on, through) = run(Some(PROBE), 1 << 20, |row| row as u64 / 4);
        assert_eq!(handed_on, (1 << 20) / 4 / FEW_GROUPS);
        assert_eq!(through, None);
    }

    #[test]
    fn groups_in_any_order_are_kept_however_many() {
        for groups in [100, 10_000, 17_000, 20_000, 50_000, 100_000, 300_000] {
            let found = run(Some(PROBE), 1 << 21, |row| random(row) % groups);
            let (handed_on, through) = found;
            assert_eq!(handed_on, 0, "{groups}");
            assert_eq!(through.is_some(), groups >= 300_000, "{groups}");
        }
    }

    #[test]
    fn rows_that_share_no_groups_go_through_if_they_can() {
        assert_eq!(run(Some(PROBE), 1 << 20, random), (0, Some(25 * BATCH)));
        assert_eq!(run(None, 1 << 20, random), (0, None));
        // Judged by all rows, not by those of the last table.
        let later = |row: usize| if row < 1 << 20 { row as u64 / 8 } else { random(row) };
        let (handed_on, through) = run(Some(PROBE), 1 << 24, later);
        assert!(handed_on > 4 && through.is_some_and(|row| row > 4 << 20), "{through:?}");
    }
}
