//! A store beside a plain map, which predicts the results of the store.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::{self, Debug};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use terrace_ledger::Ledger;
use terrace_objects::{
    Backing, Durability, LOCAL_MAX, LogConfig, ObjectConfig, ObjectError, ObjectId, ObjectStats,
    ObjectStore,
};
use terrace_testkit::Rng;

use crate::program::{Op, SLAB_BYTES, Setup, Verb};

/// Result of an operation, actual or expected.
pub type Said<T> = Result<T, ObjectError>;
/// Result of a check, with the reason that a program failed.
pub type Verdict<T> = Result<T, String>;

/// Faults injected into the map, which the fuzzer has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Objects that became longer are not padded with zeros.
    NoZeros,
    /// Objects that are pinned and read-only are reported as pinned.
    PinnedFirst,
    /// A downgraded lock is no longer counted.
    ForgottenReader,
}

/// An object in the map.
#[derive(Clone, Debug, Default)]
pub struct Object {
    pub bytes: Vec<u8>,
    pub read_only: bool,
    pub readers: u32,
    pub writer: bool,
    pub pins: u32,
    /// Address of the object while it is pinned.
    pub address: usize,
}

impl Object {
    pub fn is_locked(&self) -> bool {
        self.readers > 0 || self.writer
    }
}

/// Name of an operation, and its object.
#[derive(Clone, Copy, Debug)]
pub struct About(pub &'static str, pub ObjectId);

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.1.to_bits() == 0 { f.write_str(self.0) } else { write!(f, "{} {}", self.0, self.1) }
    }
}

/// Caller of an operation, by the locks that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Anybody,
    Holder,
}

/// Room that an operation may fail to get.
#[derive(Clone, Copy, Debug)]
pub enum Room {
    /// The operation needs none.
    None,
    /// So many bytes in runs; if a whole slab is free, runs of half a slab must be found.
    Bytes(usize),
}

pub struct World {
    pub store: ObjectStore,
    /// Directory of the store's log, if it has one.
    home: Option<TempDir>,
    pub setup: Setup,
    pub ledger: Option<Ledger>,
    pub objects: BTreeMap<ObjectId, Object>,
    pub reserved: BTreeSet<ObjectId>,
    pub gone: Vec<ObjectId>,
    /// If ids have generations, the lowest that a slot may have next.
    pub next: BTreeMap<u64, u64>,
    /// Number of pins taken so far.
    pub pinned: u64,
    pub step: u64,
    pub fault: Option<Fault>,
    /// The current operation, and the kinds of it and the one before.
    pub op: Option<Op>,
    pub before: Option<Verb>,
    /// Hashes of the observations made so far.
    pub seen: HashSet<u64>,
    pub trace: Option<Vec<String>>,
}

fn open(setup: Setup, ledger: Option<&Ledger>, home: Option<&TempDir>) -> Said<ObjectStore> {
    let memory = Backing::Dram { bytes: setup.bytes };
    let config = ObjectConfig {
        node: setup.node,
        ledger: ledger.cloned(),
        generations: setup.generations,
        huge_pages: false,
        patience: Duration::ZERO,
        ..ObjectConfig::new("fuzz", memory)
    };
    let Some(home) = home else { return ObjectStore::new(config) };
    let log = LogConfig { durability: Durability::Deferred, ..LogConfig::new(home.path()) };
    ObjectStore::open(config, log).map(|(store, _)| store)
}

impl World {
    pub fn new(setup: Setup, fault: Option<Fault>, traced: bool) -> Verdict<Self> {
        let ledger = setup.budget.map(Ledger::new);
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let home = setup.log.then(|| tempfile::tempdir_in(parent).expect("a directory"));
        let store = open(setup, ledger.as_ref(), home.as_ref());
        Ok(Self {
            store: store.map_err(|error| error.to_string())?,
            home,
            setup,
            ledger,
            objects: BTreeMap::new(),
            reserved: BTreeSet::new(),
            gone: Vec::new(),
            next: BTreeMap::new(),
            pinned: 0,
            step: 0,
            fault,
            op: None,
            before: None,
            seen: HashSet::new(),
            trace: traced.then(Vec::new),
        })
    }

    /// Closes the store and opens it again from its log.
    pub fn reopen(&mut self, checkpoint: bool) -> Verdict<()> {
        if self.home.is_none() {
            return self.check();
        }
        match (checkpoint.then(|| self.store.checkpoint()), &self.ledger) {
            (None | Some(Ok(_)), _) | (Some(Err(ObjectError::OutOfMemory { .. })), Some(_)) => {}
            (Some(Err(error)), _) => return Err(format!("checkpoint: {error}")),
        }
        let none = Backing::Dram { bytes: SLAB_BYTES };
        let none = ObjectConfig { huge_pages: false, ..ObjectConfig::new("none", none) };
        self.store = ObjectStore::new(none).map_err(|error| error.to_string())?;
        let mut store = open(self.setup, self.ledger.as_ref(), self.home.as_ref());
        if let Err(ObjectError::OutOfMemory { .. }) = store {
            // The objects of a full store need not fit when they are created again in order.
            self.note("more");
            self.setup.bytes += 3 * SLAB_BYTES;
            (self.setup.budget, self.ledger) = (None, None);
            store = open(self.setup, None, self.home.as_ref());
        }
        self.store = store.map_err(|error| format!("reopened: {error}"))?;
        for object in self.objects.values_mut() {
            (object.readers, object.writer, object.pins) = (0, false, 0);
        }
        self.check()
    }

    /// Runs one operation. An error if its result is wrong.
    pub fn run(&mut self, op: Op) -> Verdict<()> {
        self.step += 1;
        self.op = Some(op);
        self.apply(op)?;
        self.before = Some(op.verb);
        self.counts()
    }

    pub fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Returns the slot of an id in the order of ids, and its generation.
    pub fn place(&self, id: ObjectId) -> (u64, u64) {
        let generation = if self.setup.generations { id.to_bits() >> 40 & 0xff } else { 0 };
        (id.to_bits() & !(generation << 40), generation)
    }

    /// True if an id of this node was not used before, and may name an object or be reserved. Ids
    /// of other nodes may be used again.
    pub fn is_new(&self, id: ObjectId) -> bool {
        let (place, generation) = self.place(id);
        !self.setup.generations || self.next.get(&place).is_none_or(|next| generation >= *next)
    }

    /// Ends the use of an id.
    pub fn end_id(&mut self, id: ObjectId) {
        let (place, generation) = self.place(id);
        self.next.insert(place, generation + 1);
    }

    /// Returns bytes that differ from one operation to the next.
    pub fn bytes(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        Rng::new(self.step.rotate_left(32) ^ len as u64).fill(&mut bytes);
        bytes
    }

    pub fn limit(&self) -> u64 {
        (self.setup.bytes / SLAB_BYTES * SLAB_BYTES) as u64
    }

    /// True if another slab can be allocated. A refused operation has not taken it.
    fn has_spare_slab(&self) -> bool {
        let slab = SLAB_BYTES as u64;
        let paid = self.ledger.as_ref().is_none_or(|it| it.available() >= slab + 4096);
        paid && self.store.stats().held_bytes + slab <= self.limit()
    }

    /// Records an observation together with the current operation.
    pub fn note(&mut self, what: impl Hash) {
        let mut hasher = DefaultHasher::new();
        (self.op.map(|op| op.verb), what).hash(&mut hasher);
        self.seen.insert(hasher.finish());
    }

    /// Compares a result with the expected one. Returns the value unless the operation failed.
    pub fn agree<T: PartialEq + Debug>(
        &mut self,
        about: About,
        got: Said<T>,
        want: Said<T>,
        room: Room,
    ) -> Verdict<Option<T>> {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("    {about}: {}", short(&got)));
        }
        self.note((kind(&got), self.before));
        match (got, want) {
            (Ok(got), Ok(want)) if got == want => Ok(Some(got)),
            (Err(ObjectError::OutOfMemory { asked, held, limit }), Ok(_)) => {
                let Room::Bytes(bytes) = room else {
                    return Err(format!("{about}: no memory, and it needs none"));
                };
                if bytes <= SLAB_BYTES / 2 && self.has_spare_slab() {
                    return Err(format!("{about}: no {bytes} bytes beside an empty slab"));
                }
                if asked == 0 || held > limit || limit != self.limit() {
                    return Err(format!("{about}: asked {asked}, held {held}, limit {limit}"));
                }
                Ok(None)
            }
            (Err(got), Err(want)) if plain(&got) == plain(&want) => Ok(None),
            (got, want) => Err(format!("{about}: said {}, and not {}", short(&got), short(&want))),
        }
    }

    /// As [`World::agree`] for a result that is unknown, except that there may be no room.
    pub fn agree_on_made<T: PartialEq + Debug + Clone>(
        &mut self,
        about: About,
        got: Said<T>,
        room: Room,
    ) -> Verdict<Option<T>> {
        match got {
            Ok(value) => self.agree(about, Ok(value.clone()), Ok(value), room),
            Err(error @ ObjectError::OutOfMemory { .. }) => {
                self.agree(about, Err::<(), _>(error), Ok(()), room).map(|_| None)
            }
            Err(error) => Err(format!("{about}: said {error:?}")),
        }
    }

    pub fn readable(&self, id: ObjectId) -> Said<&Object> {
        let object = self.objects.get(&id).ok_or(ObjectError::NotFound(id))?;
        if object.writer { Err(locked(id)) } else { Ok(object) }
    }

    pub fn unlocked(&self, id: ObjectId, by: By) -> Said<&Object> {
        let object = self.objects.get(&id).ok_or(ObjectError::NotFound(id))?;
        if by == By::Anybody && object.is_locked() { Err(locked(id)) } else { Ok(object) }
    }

    pub fn writable(&self, id: ObjectId, by: By) -> Said<&Object> {
        let object = self.unlocked(id, by)?;
        if object.read_only && !(object.pins > 0 && self.has(Fault::PinnedFirst)) {
            return Err(ObjectError::ReadOnly(id));
        }
        Ok(object)
    }

    /// Returns the expected result of a removal, locks not considered.
    pub fn removable(&self, id: ObjectId, by: By) -> Said<()> {
        let object = self.writable(id, by)?;
        if object.pins > 0 { Err(ObjectError::Pinned(id)) } else { Ok(()) }
    }

    pub fn object(&mut self, id: ObjectId) -> &mut Object {
        self.objects.get_mut(&id).unwrap_or_else(|| unreachable!("the answer was as expected"))
    }

    /// Returns the id of an operation: mostly that of an object.
    pub fn id(&self, op: Op) -> ObjectId {
        if op.who % 16 == 15 || self.objects.is_empty() {
            return self.odd_id(op);
        }
        let among = u64::from(op.who / 16) % (2 + 2 * self.objects.len() as u64);
        let from = ObjectId::new(self.setup.node, among);
        let next = self.objects.range(from..).next().or_else(|| self.objects.iter().next());
        next.map_or(from, |(id, _)| *id)
    }

    /// Returns an id that mostly no object has.
    pub fn odd_id(&self, op: Op) -> ObjectId {
        let n = usize::from(op.who / 128);
        let gone = self.gone.len().checked_sub(1 + n % 8).map(|n| self.gone[n]);
        match op.who / 16 % 8 {
            0 => ObjectId::from_bits(0),
            1 => ObjectId::new(self.setup.node, 1_000_000),
            2 => ObjectId::new(self.setup.node, LOCAL_MAX),
            3 => ObjectId::from_bits(u64::MAX),
            4 => self.foreign_id(n),
            _ => gone.unwrap_or(ObjectId::new(self.setup.node, 1)),
        }
    }

    /// Returns one of a few ids of other nodes, so that groups fill and ids recur.
    pub fn foreign_id(&self, n: usize) -> ObjectId {
        if cfg!(miri) {
            // Groups of other nodes are made by the thousand, and all of them are walked.
            return ObjectId::new(self.setup.node, 1000);
        }
        const LOCALS: [u64; 8] = [0, 1, 2, 62, 63, 64, 1 << 31, LOCAL_MAX];
        let nodes = [0, u16::MAX].map(|node| if node == self.setup.node { 7 } else { node });
        let node = nodes[n % 2];
        match n / 3 % 4 {
            0 if (n / 12).is_multiple_of(4) => ObjectId::new(1, LOCALS[n / 48 % 8]),
            _ => ObjectId::new(node, 128 + (n / 12 % 40) as u64),
        }
    }

    /// Compares the counters of the store with those of the map, and of the ledger with both.
    fn counts(&mut self) -> Verdict<()> {
        let stats = self.store.stats();
        self.note((stats.held_bytes, stats.used_bytes.max(1).ilog2() / 2));
        self.note((stats.objects + 1).ilog2());
        // Adding up takes longer than most operations.
        if self.objects.len() > 100 && !self.step.is_multiple_of(16) {
            return Ok(());
        }
        let bytes: usize = self.objects.values().map(|it| it.bytes.len()).sum();
        let held = self.objects.values().filter(|it| it.is_locked() || it.pins > 0).count();
        let known = [self.objects.len(), bytes, self.reserved.len(), held].map(|n| n as u64);
        let said = [stats.objects, stats.object_bytes, stats.reserved, stats.held];
        if said != known {
            return Err(format!("(objects, bytes, reserved, held): {said:?}, and not {known:?}"));
        }
        if stats.used_bytes > stats.held_bytes || stats.held_bytes > self.limit() {
            return Err(format!("more than there is: {stats:?}"));
        }
        self.paid(&stats)
    }

    fn paid(&self, stats: &ObjectStats) -> Verdict<()> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let (paid, due) = (ledger.granted() + ledger.debt(), stats.held_bytes + stats.table_bytes);
        if paid == due { Ok(()) } else { Err(format!("{paid} bytes are paid, and not {due}")) }
    }
}

pub fn locked(id: ObjectId) -> ObjectError {
    ObjectError::LockTimeout { id, waited_ms: 0 }
}

/// Returns an error as text, without times.
fn plain(error: &ObjectError) -> String {
    match error {
        ObjectError::LockTimeout { id, .. } => format!("{:?}", locked(*id)),
        error => format!("{error:?}"),
    }
}

/// Returns the kind of a result.
fn kind<T>(said: &Said<T>) -> String {
    let error = said.as_ref().err().map(|error| format!("{error:?}"));
    let name = error.as_deref().map_or("Ok", |text| text.split(['(', ' ']).next().unwrap_or(""));
    name.to_owned()
}

fn short<T: Debug>(said: &Said<T>) -> String {
    let mut text = format!("{said:?}");
    if text.len() > 160 {
        text.truncate(150);
        text.push_str(" ...");
    }
    text
}
