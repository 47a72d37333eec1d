//! Stores after a power loss, or a kill, at any moment.
//!
//! A store with a log runs over files in memory that record its operations. From each record, the
//! states of the device are built that a stop at some moment may leave:
//!
//! - of the writes that were not synced, all survive, none, all up to some moment, or random
//!   512-byte sectors (torn writes);
//! - of the names that were not synced, all survive that were changed before some moment:
//!   directories keep their order;
//! - a process that is killed leaves all of its operations, the last write in part.
//!
//! The store is opened from each state, and must have the contents that it had after one of its
//! changes: not before the last that was acknowledged as durable, and not after the last that had
//! begun. The same holds for a second power loss while the store is being opened. Then the store is
//! used further, and stopped again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use terrace_region::Backing;
use terrace_sys::size::to_usize;
use terrace_testkit::{Rng, soak_rounds, with_seed};

use crate::config::{Durability, LogConfig, ObjectConfig};
use crate::id::ObjectId;
use crate::memory_files::{Asked, Disk, MemoryFiles};
use crate::recover::Recovered;
use crate::store::ObjectStore;

const SECTOR: usize = 512;
/// Stops tried at moments of one record.
const STOPS: usize = 8;
const STATES_PER_ROUND: u64 = 50;
/// Rounds without a soak: 1,000 states.
const ROUNDS: u64 = 20;

type Contents = BTreeMap<ObjectId, Vec<u8>>;

/// Operations that survive a power loss, of those that were not synced.
#[derive(Clone, Copy, Debug)]
enum Survives {
    All,
    Nothing,
    Prefix,
    Sectors,
}

/// Cause of a stop.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Power(Survives),
    Kill,
}

/// A store and its history through all of its stops.
struct Life {
    durability: Durability,
    generations: bool,
    /// Every other sync is ignored: the test must find the losses.
    careless: bool,
    /// Contents of the device when the machine was started, and the operations since.
    base: Disk,
    asked: Vec<Asked>,
    boot: u128,
    /// Number of operations when the store had last been opened.
    opened: usize,
    /// Contents of the store after each change, and the number of operations when it began.
    states: Vec<Contents>,
    begun: Vec<usize>,
    /// Pairs of a number of operations and the earliest state allowed from then on, after a power
    /// loss, and after a kill.
    on_device: Vec<(usize, usize)>,
    in_kernel: Vec<(usize, usize)>,
}

impl Life {
    fn new(rng: &mut Rng, careless: bool) -> Self {
        let all = [Durability::Synced, Durability::Written, Durability::Deferred];
        Self {
            durability: all[rng.index(3)],
            generations: rng.one_in(3),
            careless,
            base: Disk::default(),
            asked: Vec::new(),
            boot: 1,
            opened: 0,
            states: vec![Contents::new()],
            begun: vec![0],
            on_device: vec![(0, 0)],
            in_kernel: vec![(0, 0)],
        }
    }

    fn open(&self, files: &MemoryFiles) -> Result<(ObjectStore, Recovered), String> {
        let memory = Backing::Dram { bytes: 4 << 20 };
        let usual = ObjectConfig::new("stopped", memory);
        let (generations, huge_pages) = (self.generations, false);
        let config = ObjectConfig { generations, huge_pages, ..usual };
        let log = LogConfig { durability: self.durability, ..LogConfig::new("store") };
        let opened = ObjectStore::open_in(Arc::new(files.clone()), config, log);
        opened.map_err(|error| format!("refused: {error}"))
    }

    /// Makes some changes, in a third of the cases beside checkpoints.
    fn run(&mut self, rng: &mut Rng) -> Result<(), String> {
        let files = MemoryFiles::resume(self.base.clone(), self.asked.clone(), self.boot);
        let (store, _) = self.open(&files)?;
        let (stop, crowded) = (AtomicBool::new(false), rng.one_in(3));
        self.opened = files.asked_count();
        // Recovery has synced the logs that it read.
        self.promise(&files, true);
        std::thread::scope(|scope| {
            if crowded {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        store.checkpoint().expect("a device");
                    }
                });
            }
            for _ in 0..2 + rng.index(20) {
                self.step(&store, &files, rng, crowded);
            }
            stop.store(true, Ordering::Relaxed);
        });
        self.asked = files.asked();
        Ok(())
    }

    fn promise(&mut self, files: &MemoryFiles, on_device: bool) {
        let promise = (files.asked_count(), self.states.len() - 1);
        self.in_kernel.push(promise);
        if on_device {
            self.on_device.push(promise);
        }
    }

    fn step(&mut self, store: &ObjectStore, files: &MemoryFiles, rng: &mut Rng, crowded: bool) {
        match rng.below(12) {
            0 => {
                store.sync().expect("a device");
                return self.promise(files, true);
            }
            1 if !crowded => {
                store.checkpoint().expect("a device");
                return self.promise(files, true);
            }
            _ => {}
        }
        self.begun.push(files.asked_count());
        let mut now = self.states.last().cloned().unwrap_or_default();
        change(store, &mut now, rng, crowded);
        self.states.push(now);
        match self.durability {
            Durability::Synced => self.promise(files, true),
            Durability::Written => self.promise(files, false),
            Durability::Deferred => {}
        }
    }

    /// Stops the store at a moment of its record, and continues with the resulting state.
    fn stop(&mut self, rng: &mut Rng, from: usize, goes_on: bool) -> Result<(), String> {
        let at = from + rng.index(self.asked.len() + 1 - from);
        let survives = [Survives::All, Survives::Nothing, Survives::Prefix, Survives::Sectors];
        let stop = if rng.one_in(5) { Stop::Kill } else { Stop::Power(survives[rng.index(4)]) };
        let what = |error| format!("{:?}, {stop:?} after {at}: {error}", self.durability);
        let mut next = self.stopped(rng, from, at, stop);
        let files = MemoryFiles::resume(next.base.clone(), next.asked.clone(), next.boot);
        let (store, found) = self.open(&files).map_err(what)?;
        store.check().map_err(|error| what(error.to_string()))?;
        let contents = contents(&store);
        let state = self.find(&contents, at, stop).map_err(what)?;
        if let Stop::Power(_) = stop {
            self.stop_again(rng, &next, &files.asked(), &contents).map_err(what)?;
        } else if at >= self.opened && !found.damage.is_empty() {
            // While it is being opened, the traces of an earlier power loss are still there.
            return Err(what(format!("damaged: {found:?}")));
        }
        drop(store);
        if goes_on {
            next.states.truncate(state + 1);
            next.begun.truncate(state + 1);
            if let Stop::Power(_) = stop {
                next.begun.fill(0);
                (next.on_device, next.in_kernel) = (vec![(0, state)], vec![(0, state)]);
            } else {
                let is_known = |(from, least): &(usize, usize)| *from <= at && *least <= state;
                next.on_device.retain(is_known);
                next.in_kernel = vec![(0, state)];
            }
            *self = next;
        }
        Ok(())
    }

    /// Returns the state that the next process finds, if this one was started after `from`.
    fn stopped(&self, rng: &mut Rng, from: usize, at: usize, stop: Stop) -> Self {
        let mut next = Self {
            base: self.base.clone(),
            asked: self.asked[..at].to_vec(),
            states: self.states.clone(),
            begun: self.begun.clone(),
            on_device: self.on_device.clone(),
            in_kernel: self.in_kernel.clone(),
            ..*self
        };
        match stop {
            Stop::Kill => {
                // The writes of earlier processes stay whole.
                if let Some(Asked::Write { bytes, .. }) = next.asked[from..].last_mut() {
                    bytes.truncate(rng.index(bytes.len() + 1));
                }
            }
            Stop::Power(survives) => {
                let careless = self.careless;
                next.base =
                    after_power_loss(&self.base, &self.asked[..at], survives, careless, rng);
                (next.asked, next.boot) = (Vec::new(), self.boot + 1);
            }
        }
        next
    }

    /// Returns the number of this state, among those that are allowed.
    fn find(&self, found: &Contents, at: usize, stop: Stop) -> Result<usize, String> {
        // The last write of a killed process may be incomplete.
        let (promises, known) = match stop {
            Stop::Kill => (&self.in_kernel, at.saturating_sub(1)),
            Stop::Power(_) => (&self.on_device, at),
        };
        let least = promises.iter().filter(|(from, _)| *from <= known).map(|(_, state)| *state);
        let least = least.max().unwrap_or(0);
        let last = self.begun.iter().filter(|begun| **begun <= at).count() - 1;
        let state = (least..=last).rev().find(|state| self.states[*state] == *found);
        let earlier = || (0..least).rev().find(|state| self.states[*state] == *found);
        state
            .ok_or_else(|| format!("no state of {least} to {last}, but {:?}: {found:?}", earlier()))
    }

    /// Loses the power again while the store is being opened.
    fn stop_again(
        &self,
        rng: &mut Rng,
        next: &Self,
        asked: &[Asked],
        expected: &Contents,
    ) -> Result<(), String> {
        let at = rng.index(asked.len() + 1);
        let survives = [Survives::Prefix, Survives::Sectors][rng.index(2)];
        let careless = self.careless;
        let disk = after_power_loss(&next.base, &asked[..at], survives, careless, rng);
        let files = MemoryFiles::of(disk, next.boot + 1);
        let again = format!("again after {at} of {} ({survives:?})", asked.len());
        let (store, _) = self.open(&files).map_err(|error| format!("{again}: {error}"))?;
        let found = contents(&store);
        if found == *expected { Ok(()) } else { Err(format!("{again}: {found:?}")) }
    }
}

fn contents(store: &ObjectStore) -> Contents {
    let ids = store.ids(ObjectId::from_bits(0), usize::MAX);
    ids.into_iter().map(|id| (id, store.get_vec(id).expect("there"))).collect()
}

fn change(store: &ObjectStore, now: &mut Contents, rng: &mut Rng, crowded: bool) {
    let mut bytes = vec![0; [40, rng.index(300), rng.index(3000)][rng.index(3)]];
    rng.fill(&mut bytes);
    let some = now.keys().nth(rng.index(now.len().max(1))).copied();
    let (Some(id), kind) = (some, rng.below(8)) else {
        let id = store.create_with(&bytes).expect("room");
        now.insert(id, bytes);
        return;
    };
    match kind {
        0 | 1 => {
            let id = store.create_with(&bytes).expect("room");
            now.insert(id, bytes);
        }
        // Several changes are one batch if no other thread writes the log meanwhile.
        2 if !crowded => {
            let first = store.create_consecutive(&[&bytes, b"second"]).expect("room");
            now.insert(first, bytes);
            now.insert(ObjectId::from_bits(first.to_bits() + 1), b"second".to_vec());
        }
        3 => {
            store.remove(id).expect("there");
            now.remove(&id);
        }
        4 => {
            let object = now.get_mut(&id).expect("chosen from these");
            let len = bytes.len().min(object.len());
            store.write_at(id, 0, &bytes[..len]).expect("inside");
            object[..len].copy_from_slice(&bytes[..len]);
        }
        5 => {
            store.resize(id, bytes.len()).expect("room");
            now.get_mut(&id).expect("chosen from these").resize(bytes.len(), 0);
        }
        _ => {
            store.replace(id, &bytes).expect("room");
            now.insert(id, bytes);
        }
    }
}

/// Returns the contents of a device after a power loss, from those before and the operations since.
fn after_power_loss(
    base: &Disk,
    asked: &[Asked],
    survives: Survives,
    careless: bool,
    rng: &mut Rng,
) -> Disk {
    // Every other sync by its place in the record, so that the same ones are ignored each time.
    let counts =
        |at: usize| !careless || (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 0;
    let is_name_sync = |(at, asked): &(usize, &Asked)| **asked == Asked::SyncNames && counts(*at);
    let named = asked.iter().enumerate().rfind(is_name_sync).map_or(0, |(at, _)| at);
    let until = |all: usize, rng: &mut Rng| match survives {
        Survives::All => asked.len(),
        Survives::Nothing => all,
        Survives::Prefix | Survives::Sectors => all + rng.index(asked.len() + 1 - all),
    };
    let names_until = until(named, rng);
    let writes_until = until(0, rng);
    let mut disk = base.clone();
    for (at, asked_for) in asked.iter().enumerate() {
        let Asked::Write { file, offset, bytes } = asked_for else {
            if at < names_until {
                disk.take(asked_for);
            }
            continue;
        };
        let synced = asked.iter().enumerate().any(|(n, asked)| match asked {
            Asked::Sync { file: synced, since } => synced == file && at < *since && counts(n),
            _ => false,
        });
        let offset = to_usize(*offset);
        match survives {
            _ if synced => disk.write(*file, offset, bytes),
            Survives::All => disk.write(*file, offset, bytes),
            Survives::Nothing => {}
            Survives::Prefix if at < writes_until => disk.write(*file, offset, bytes),
            Survives::Prefix => {}
            Survives::Sectors => write_sectors(&mut disk, *file, offset, bytes, rng),
        }
    }
    disk.files.resize(disk.files.len().max(1), Vec::new());
    disk
}

fn write_sectors(disk: &mut Disk, file: usize, offset: usize, bytes: &[u8], rng: &mut Rng) {
    let mut done = 0;
    while done < bytes.len() {
        let sector = SECTOR - (offset + done) % SECTOR;
        let end = bytes.len().min(done + sector);
        if rng.one_in(2) {
            disk.write(file, offset + done, &bytes[done..end]);
        }
        done = end;
    }
}

/// Tries `count` states after a stop. Returns the errors of the wrong ones.
fn stops(rng: &mut Rng, count: usize, careless: bool) -> Vec<String> {
    let (mut tried, mut wrong) = (0, Vec::new());
    while tried < count {
        let mut life = Life::new(rng, careless);
        'life: for _ in 0..4 {
            let from = life.asked.len();
            if let Err(error) = life.run(rng) {
                wrong.push(error);
                break;
            }
            for stop in 1..=STOPS {
                tried += 1;
                if let Err(error) = life.stop(rng, from, stop == STOPS) {
                    wrong.push(error);
                    break 'life;
                }
            }
        }
    }
    wrong
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_half_done_shows() {
    with_seed(|seed| {
        let states = to_usize(STATES_PER_ROUND * soak_rounds(ROUNDS));
        let wrong = stops(&mut Rng::new(seed), states, false);
        assert!(wrong.is_empty(), "{} states are wrong; the first: {}", wrong.len(), wrong[0]);
    });
}

/// The test detects a store that forgets syncs.
#[test]
fn a_store_with_half_of_its_syncs_loses_changes() {
    // Their number depends on the schedule of the workload's threads.
    let mut random = Rng::new(1);
    let (mut wrong, mut rounds) = (Vec::new(), 0);
    let lost = |wrong: &[String]| wrong.iter().any(|error| error.contains("no state of"));
    while rounds < 10 && (wrong.len() < 10 || !lost(&wrong)) {
        wrong.extend(stops(&mut random, 200, true));
        rounds += 1;
    }
    assert!(wrong.len() >= 10 && lost(&wrong), "{} states are wrong", wrong.len());
}
