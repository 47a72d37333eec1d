//! The states of a device after a power loss, built from the record of a [`crate::disk`].
//!
//! # The model
//!
//! - Synced state survives: the bytes, the length and the holes of a file as they were when its
//!   sync began, and the names of a directory.
//! - Each sector (512 bytes) of a write that was not synced survives or not, in any order.
//! - Changes of a file's length and holes that were not synced survive up to some point of the
//!   record: file systems journal them in order. A write that extends a file is such a change too:
//!   its sectors are zeros until they are written.
//! - Changes of names that were not synced survive up to some point, or each independently.
//!
//! The survival of each file is drawn independently: all of its operations, none, all up to some
//! point, or random sectors. The dangerous states are those in which one file is ahead of another.

use terrace_sys::size::to_u64;

use crate::disk::{Image, Operation};
use crate::seed::Rng;

const SECTOR_BYTES: usize = 512;

/// Syncs of a record that take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncs {
    /// All of them.
    All,
    /// A pseudo-random half, by their index in the record; checks that a test detects lost syncs.
    Half,
}

impl Syncs {
    fn takes_place(self, at: usize) -> bool {
        self == Self::All || to_u64(at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 0
    }
}

/// Part of the operations on one file, or on the names, that survives without a sync.
#[derive(Clone, Copy, Debug)]
enum Survival {
    /// Operations before this index in the record.
    Before(usize),
    /// Random operations, drawn one by one; changes of length and holes before this index.
    Some(usize),
}

impl Survival {
    fn draw(rng: &mut Rng, end: usize, durable: usize) -> Self {
        let some = |rng: &mut Rng| durable + rng.index(end.saturating_sub(durable) + 1);
        match rng.below(4) {
            0 => Self::Before(end),
            1 => Self::Before(0),
            2 => Self::Before(some(rng)),
            _ => Self::Some(some(rng)),
        }
    }
}

/// Draws a state of a device that had the state `base` and lost power after `record`.
#[must_use]
pub fn after_power_loss(base: &Image, record: &[Operation], syncs: Syncs, rng: &mut Rng) -> Image {
    let (files, names) = durable(record, syncs);
    let names = Durable { until: names, survival: Survival::draw(rng, record.len(), names) };
    let files = files.into_iter().map(|until| {
        let survival = Survival::draw(rng, record.len(), until);
        Durable { until, survival }
    });
    let files: Vec<Durable> = files.collect();
    let mut image = base.clone();
    for (at, operation) in record.iter().enumerate() {
        match operation {
            Operation::Create { .. } | Operation::Rename { .. } | Operation::Remove { .. } => {
                if names.keeps(at, || rng.one_in(2)) {
                    image.apply(operation);
                }
            }
            Operation::SetLen { file, .. } | Operation::Punch { file, .. } => {
                if files[*file].keeps_length(at) {
                    image.apply(operation);
                }
            }
            Operation::Write { file, offset, bytes } => {
                if files[*file].keeps_length(at) {
                    image.extend(*file, offset + bytes.len());
                }
                for (start, sector) in sectors(*offset, bytes) {
                    if files[*file].keeps(at, || rng.one_in(2)) {
                        image.overwrite(*file, start, sector);
                    }
                }
            }
            Operation::SyncNames | Operation::Sync { .. } => {}
        }
    }
    image
}

/// Operations on one file, or on the names, that survive a power loss.
struct Durable {
    /// Operations before this index in the record were synced.
    until: usize,
    survival: Survival,
}

impl Durable {
    /// True if the operation at index `at` of the record survives; `draw` decides for operations
    /// that are drawn one by one.
    fn keeps(&self, at: usize, draw: impl FnOnce() -> bool) -> bool {
        at < self.until
            || match self.survival {
                Survival::Before(end) => at < end,
                Survival::Some(_) => draw(),
            }
    }

    /// True if the change of a length or a hole at index `at` of the record survives.
    fn keeps_length(&self, at: usize) -> bool {
        let (Survival::Before(end) | Survival::Some(end)) = self.survival;
        at < self.until.max(end)
    }
}

/// Returns the index in the record up to which each file was synced, and that of the names.
fn durable(record: &[Operation], syncs: Syncs) -> (Vec<usize>, usize) {
    let (mut files, mut names) = (Vec::new(), 0);
    for (at, operation) in record.iter().enumerate() {
        match operation {
            Operation::Create { file, .. }
            | Operation::Write { file, .. }
            | Operation::SetLen { file, .. }
            | Operation::Punch { file, .. } => {
                files.resize(files.len().max(file + 1), 0);
            }
            Operation::Sync { file, since } if syncs.takes_place(at) => {
                files.resize(files.len().max(file + 1), 0);
                files[*file] = files[*file].max(*since);
            }
            Operation::SyncNames if syncs.takes_place(at) => names = at,
            _ => {}
        }
    }
    (files, names)
}

/// Splits bytes at `offset` by sectors, each part with its offset.
fn sectors(offset: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let start = offset + done;
        let len = (SECTOR_BYTES - start % SECTOR_BYTES).min(bytes.len() - done);
        let sector = &bytes[done..done + len];
        done += len;
        (len > 0).then_some((start, sector))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::disk::RecordedDisk;

    /// Returns the states of `path` found after many power losses after the record of `disk`.
    fn found(disk: &RecordedDisk, path: &str, syncs: Syncs) -> BTreeSet<Option<Vec<u8>>> {
        let (mut rng, record) = (Rng::new(1), disk.record());
        let found = (0..500).map(|_| {
            let image = after_power_loss(&Image::default(), &record, syncs, &mut rng);
            let file = RecordedDisk::new(image).open(Path::new(path)).ok()?;
            let mut bytes = vec![0; file.len()];
            file.read(0, &mut bytes).expect("whole");
            Some(bytes)
        });
        found.collect()
    }

    #[test]
    fn what_was_synced_is_there_and_the_rest_in_every_state() {
        let disk = RecordedDisk::default();
        let file = disk.create(Path::new("f"));
        file.write(0, &[1; 1024]);
        file.sync();
        disk.sync_names();
        let synced = BTreeSet::from([Some(vec![1; 1024])]);
        assert_eq!(found(&disk, "f", Syncs::All), synced);
        file.write(0, &[2; 1024]);
        let torn = |first, second| Some([[first; 512], [second; 512]].concat());
        let all = BTreeSet::from([torn(1, 1), torn(1, 2), torn(2, 1), torn(2, 2)]);
        assert_eq!(found(&disk, "f", Syncs::All), all);
    }

    #[test]
    fn a_write_after_the_sync_began_and_a_length_may_be_lost() {
        let disk = RecordedDisk::default();
        let file = disk.create(Path::new("f"));
        disk.sync_names();
        file.set_len(1024);
        let lens = |disk: &RecordedDisk| -> BTreeSet<_> {
            found(disk, "f", Syncs::All).into_iter().map(|f| f.map(|f| f.len())).collect()
        };
        assert_eq!(lens(&disk), BTreeSet::from([Some(0), Some(1024)]));
        file.sync();
        assert_eq!(lens(&disk), BTreeSet::from([Some(1024)]));
    }

    #[test]
    fn names_are_durable_with_their_directory_alone() {
        let disk = RecordedDisk::default();
        let file = disk.create(Path::new("f.new"));
        file.write(0, b"line");
        file.sync();
        disk.rename(Path::new("f.new"), Path::new("f")).expect("there");
        let line = Some(b"line".to_vec());
        assert_eq!(found(&disk, "f", Syncs::All), BTreeSet::from([None, line.clone()]));
        disk.sync_names();
        assert_eq!(found(&disk, "f", Syncs::All), BTreeSet::from([line]));
        assert_eq!(found(&disk, "f.new", Syncs::All), BTreeSet::from([None]));
    }

    #[test]
    fn half_of_the_syncs_are_left_out() {
        let taken = (0..1000).filter(|at| Syncs::Half.takes_place(*at)).count();
        assert!((400..600).contains(&taken), "{taken}");
    }
}
