//! Linearizability of single operations: histories of many threads are checked against an object
//! used by one thread.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use terrace_objects::{Backing, ObjectConfig, ObjectError, ObjectId, ObjectStore};
use terrace_testkit::{Rng, soak_time, with_seed};

/// Number of objects, in many groups, so that some are moved.
const OBJECTS: u64 = 24;
const APART: u64 = 24;
const THREADS: u64 = if cfg!(miri) { 3 } else { 8 };
/// Objects that are created and removed to leave holes.
const HOLES: u64 = if cfg!(miri) { 40 } else { 3000 };
/// Lengths in words. Objects of the last ones have runs of their own.
const LENS: [usize; 6] = [1, 4, 5, 20, 126, 300];

/// An object: words of one stamp, then zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct State {
    stamp: u64,
    stamped: usize,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Get,
    Create(State),
    Put(State),
    Replace(State),
    Resize(usize),
    Remove,
}

/// Result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Done,
    Found(State),
    Missing,
    There,
    OtherLength,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    object: u64,
    op: Op,
    said: Said,
    begun: u64,
    ended: u64,
}

impl Op {
    /// Returns the state of the object after the operation, if its result is possible.
    fn apply(self, now: Option<State>, said: Said) -> Option<Option<State>> {
        match (self, now, said) {
            (Self::Get, Some(state), Said::Found(found)) if state == found => Some(now),
            (Self::Create(state), None, Said::Done)
            | (Self::Replace(state), Some(_), Said::Done) => Some(Some(state)),
            (Self::Create(_), Some(_), Said::There) => Some(now),
            (Self::Put(state), Some(old), Said::Done) if old.len == state.len => Some(Some(state)),
            (Self::Put(state), Some(old), Said::OtherLength) if old.len != state.len => Some(now),
            (Self::Resize(len), Some(old), Said::Done) => {
                Some(Some(State { len, stamped: old.stamped.min(len), ..old }))
            }
            (Self::Remove, Some(_), Said::Done) => Some(None),
            (Self::Create(_), ..) => None,
            (_, None, Said::Missing) => Some(None),
            _ => None,
        }
    }
}

fn bytes(state: State) -> Vec<u8> {
    let word = |n| if n < state.stamped { state.stamp } else { 0 };
    (0..state.len).flat_map(|n| word(n).to_le_bytes()).collect()
}

fn state(bytes: &[u8]) -> State {
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        .collect();
    let (stamp, len) = (words[0], words.len());
    let stamped = words.iter().take_while(|word| **word == stamp).count();
    assert!(words[stamped..].iter().all(|word| *word == 0), "torn: {words:?}");
    State { stamp, stamped, len }
}

fn said(result: Result<(), ObjectError>) -> Said {
    match result {
        Ok(()) => Said::Done,
        Err(ObjectError::NotFound(_)) => Said::Missing,
        Err(ObjectError::NotReserved(_)) => Said::There,
        Err(ObjectError::Length { .. }) => Said::OtherLength,
        Err(error) => panic!("{error}"),
    }
}

/// Returns an id of another node, so that a removed object may be created again.
fn id(object: u64) -> ObjectId {
    ObjectId::new(7, 1000 + APART * object)
}

struct World {
    store: ObjectStore,
    clock: AtomicU64,
    stamps: AtomicU64,
    done: AtomicBool,
}

impl World {
    fn call(&self, rng: &mut Rng) -> Call {
        let len = LENS[rng.index(LENS.len())];
        let object = rng.below(OBJECTS);
        let new = State { stamp: self.stamps.fetch_add(1, Ordering::Relaxed), stamped: len, len };
        let op = match rng.below(20) {
            0..8 => Op::Get,
            8..12 => Op::Create(new),
            12..14 => Op::Put(new),
            14..16 => Op::Replace(new),
            16..18 => Op::Resize(len),
            _ => Op::Remove,
        };
        let (id, store) = (id(object), &self.store);
        let begun = self.clock.fetch_add(1, Ordering::SeqCst);
        let mut found = None;
        let result = match op {
            Op::Get => store.get_vec(id).map(|bytes| found = Some(bytes)),
            Op::Create(state) => store.create_reserved(id, &bytes(state)),
            Op::Put(state) => store.put(id, &bytes(state)),
            Op::Replace(state) => store.replace(id, &bytes(state)),
            Op::Resize(len) => store.resize(id, 8 * len),
            Op::Remove => store.remove(id),
        };
        let ended = self.clock.fetch_add(1, Ordering::SeqCst);
        let said = found.map_or_else(|| said(result), |bytes| Said::Found(state(&bytes)));
        Call { object, op, said, begun, ended }
    }

    fn calls(&self, seed: u64, most: usize) -> Vec<Call> {
        let mut rng = Rng::new(seed);
        let mut calls = Vec::new();
        while calls.len() < most && !self.done.load(Ordering::Relaxed) {
            calls.push(self.call(&mut rng));
        }
        calls
    }
}

impl World {
    /// Defragments until nothing is left to move. Returns the number of runs moved.
    fn move_about(&self) -> u64 {
        let mut moved = 0;
        while !self.done.load(Ordering::Relaxed) {
            moved += self.store.defragment().moved;
            std::thread::yield_now();
        }
        moved
    }

    /// Creates objects that fill slabs and removes them, which leaves the other objects in sparse
    /// slabs.
    fn make_holes(&self) {
        while !self.done.load(Ordering::Relaxed) {
            let ids = (0..HOLES).map_while(|_| self.store.create(1000).ok());
            let ids: Vec<ObjectId> = ids.collect();
            ids.into_iter().for_each(|id| self.store.remove(id).expect("there"));
        }
    }
}

/// Stops the background work when the calls end, also after a panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A possible state at a moment: that of the object, and the calls in progress that have taken
/// effect.
type Case = (Option<State>, BTreeSet<usize>);

/// Follows the calls of one object through time, with all possible states.
fn check(calls: &[Call]) {
    let mut events: Vec<(u64, usize, bool)> = Vec::new();
    for (n, call) in calls.iter().enumerate() {
        events.extend([(call.begun, n, true), (call.ended, n, false)]);
    }
    events.sort_unstable();
    let mut under_way = BTreeSet::new();
    let mut cases: BTreeSet<Case> = BTreeSet::from([(None, BTreeSet::new())]);
    for (_, n, begins) in events {
        if begins {
            under_way.insert(n);
            continue;
        }
        cases = after(&cases, n, &under_way, calls);
        assert!(!cases.is_empty(), "no order explains {:?} among {under_way:?}", calls[n]);
        under_way.remove(&n);
    }
}

/// Returns all cases in which call `n` has taken effect, without that call.
fn after(
    cases: &BTreeSet<Case>,
    n: usize,
    under_way: &BTreeSet<usize>,
    calls: &[Call],
) -> BTreeSet<Case> {
    let (mut found, mut open) = (BTreeSet::new(), cases.iter().cloned().collect::<Vec<Case>>());
    let mut seen: BTreeSet<Case> = cases.clone();
    while let Some((state, mut had)) = open.pop() {
        if had.contains(&n) {
            had.remove(&n);
            found.insert((state, had));
            continue;
        }
        for next in under_way.difference(&had) {
            let Some(then) = calls[*next].op.apply(state, calls[*next].said) else { continue };
            let mut had = had.clone();
            had.insert(*next);
            if seen.insert((then, had.clone())) {
                open.push((then, had));
            }
        }
    }
    found
}

#[test]
fn operations_are_as_if_they_came_one_after_the_other() {
    with_seed(|seed| {
        let bytes = if cfg!(miri) { 1 << 20 } else { 16 << 20 };
        let config = ObjectConfig::new("history", Backing::Dram { bytes });
        let begun = std::time::Instant::now();
        let (mut round, mut moved) = (0, 0);
        // On one slow processor a round may end before anything is moved.
        let is_short = |moved| moved == 0 && begun.elapsed() < Duration::from_secs(60);
        while round == 0 || begun.elapsed() < soak_time() || (is_short(moved) && !cfg!(miri)) {
            round += 1;
            let world = World {
                store: ObjectStore::new(config.clone()).expect("memory"),
                clock: AtomicU64::new(0),
                stamps: AtomicU64::new(1),
                done: AtomicBool::new(false),
            };
            let most = if cfg!(miri) { 12 } else { 8000 };
            let (calls, moves) = std::thread::scope(|scope| {
                let world = &world;
                let _end = End(&world.done);
                let mover = scope.spawn(|| world.move_about());
                scope.spawn(|| world.make_holes());
                let seeds = (0..THREADS).map(|thread| seed ^ (round * THREADS + thread));
                let threads: Vec<_> =
                    seeds.map(|seed| scope.spawn(move || world.calls(seed, most))).collect();
                let calls = threads.into_iter().map(|thread| thread.join().expect("no panic"));
                let calls: Vec<Vec<Call>> = calls.collect();
                world.done.store(true, Ordering::Relaxed);
                (calls, mover.join().expect("no panic"))
            });
            moved += moves;
            world.store.check().expect("in order");
            let mut of: HashMap<u64, Vec<Call>> = HashMap::new();
            calls
                .into_iter()
                .flatten()
                .for_each(|call| of.entry(call.object).or_default().push(call));
            of.values().for_each(|calls| check(calls));
        }
        assert!(moved > 0 || cfg!(miri), "nothing was ever moved");
    });
}

#[test]
#[should_panic(expected = "no order explains")]
fn a_history_that_cannot_be_is_found() {
    let state = |stamp| State { stamp, stamped: 1, len: 1 };
    let call = |op, said, begun, ended| Call { object: 0, op, said, begun, ended };
    check(&[
        call(Op::Create(state(1)), Said::Done, 0, 1),
        call(Op::Replace(state(2)), Said::Done, 2, 5),
        call(Op::Get, Said::Found(state(2)), 3, 4),
        call(Op::Get, Said::Found(state(1)), 6, 7),
    ]);
}
