//! The store, and single operations on its objects.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use terrace_latch::ParkingLot;
use terrace_region::Backing;
use terrace_sys::size::to_u64;

use crate::account::Account;
use crate::bytes;
use crate::config::ObjectConfig;
use crate::defrag::Exhausted;
use crate::error::ObjectError;
use crate::group::{Found, GROUP_SLOTS, Group};
use crate::group_edit::Editor;
use crate::id::ObjectId;
use crate::ids::{FreeGroups, Maker};
use crate::locks::{Locks, Record};
use crate::log::{Log, Position};
use crate::memory::Memory;
use crate::record::Change;
use crate::recover::Home;
use crate::slabs::{GRANULE_BYTES, NoRoom, Run, SLAB_BYTES, Slabs, Supply};
use crate::snapshot::Snapshot;
use crate::table::{Table, slot_of};

/// The longest object in bytes: 1 TiB.
pub const OBJECT_BYTES_MAX: usize = 1 << 40;

/// Most optimistic reads before a reader takes the latch.
const LOOKS: u32 = 64;
/// Most bytes that a reader copies in failed optimistic reads before it takes the latch.
const WASTED_BYTES_MAX: usize = 64 << 10;
/// Most defragmentations of an operation that finds no free run.
const ROOM_TRIES: u32 = 3;

/// A store of small objects. See the crate's documentation.
///
/// All operations take `&self` and may run on any thread.
pub struct ObjectStore {
    pub(crate) config: ObjectConfig,
    pub(crate) table: Table,
    pub(crate) slabs: Slabs,
    pub(crate) account: Arc<Account>,
    pub(crate) lot: ParkingLot,
    pub(crate) locks: Locks,
    pub(crate) makers: Vec<Mutex<Maker>>,
    /// Runs of long objects that no group has yet.
    pub(crate) placed: Vec<Mutex<Vec<Run>>>,
    /// Held shared by threads that build groups no other thread can see yet.
    pub(crate) building: RwLock<()>,
    pub(crate) free: FreeGroups,
    /// Number of groups made for the store's own ids.
    pub(crate) groups: AtomicU64,
    pub(crate) counters: Vec<Counters>,
    pub(crate) moving: Mutex<()>,
    pub(crate) exhausted: Mutex<Option<Exhausted>>,
    pub(crate) snapshot: Snapshot,
    pub(crate) log: Option<Log>,
    pub(crate) home: Option<Home>,
    /// Held during a checkpoint, of which one runs at a time.
    pub(crate) checkpoints: Mutex<()>,
}

/// Counters of a group of threads, on a cache line of their own.
#[repr(align(64))]
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) objects: AtomicI64,
    pub(crate) reserved: AtomicI64,
    pub(crate) retired: AtomicI64,
    pub(crate) bytes: AtomicI64,
}

/// Reason that a change of a latched group failed.
pub(crate) enum Trouble {
    NoRoom(u64),
    Error(ObjectError),
}

impl From<NoRoom> for Trouble {
    fn from(no_room: NoRoom) -> Self {
        Self::NoRoom(no_room.0)
    }
}

impl From<ObjectError> for Trouble {
    fn from(error: ObjectError) -> Self {
        Self::Error(error)
    }
}

/// Tells if the caller of an operation already holds the object's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The caller does not hold the lock and waits while the object is locked.
    Anybody,
    /// The caller holds the object's lock.
    Holder,
}

/// A group whose latch is held until this is dropped.
pub(crate) struct Latched<'a> {
    pub(crate) group: &'a Group,
    pub(crate) lot: &'a ParkingLot,
}

impl Drop for Latched<'_> {
    #[inline]
    fn drop(&mut self) {
        self.group.latch.release_exclusive(self.lot);
    }
}

impl<'a> Latched<'a> {
    /// Downgrades to a shared hold: the group cannot change, but others may read it.
    pub(crate) fn downgrade(self) -> Held<'a> {
        let latched = ManuallyDrop::new(self);
        latched.group.latch.downgrade(latched.lot);
        Held { group: latched.group, lot: latched.lot }
    }
}

/// A group that cannot change while this lives, by a shared hold of its latch.
pub(crate) struct Held<'a> {
    group: &'a Group,
    lot: &'a ParkingLot,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.group.latch.release_shared(self.lot);
    }
}

impl ObjectStore {
    /// Makes an empty store.
    ///
    /// # Errors
    /// [`ObjectError::Config`] for invalid settings, [`ObjectError::Memory`] when the kernel
    /// refuses addresses or the node.
    pub fn new(config: ObjectConfig) -> Result<Self, ObjectError> {
        let memory = Memory::new(&config.memory, config.huge_pages)?;
        let places = std::thread::available_parallelism().map_or(4, |cores| 2 * cores.get());
        let places = places.clamp(4, 64);
        let in_region = matches!(config.memory, Backing::Region { .. });
        let account = Account::new(config.ledger.as_ref(), &config.name, !in_region);
        let account = Arc::new(account);
        // A store has at most as many objects as bytes, except for empty objects and ids reserved
        // ahead.
        let groups = (to_u64(memory.len()) / GROUP_SLOTS).max(GROUPS_MIN);
        let table = Table::new(&config, groups)?;
        Ok(Self {
            table,
            slabs: Slabs::new(memory, places, Arc::clone(&account))?,
            account,
            lot: ParkingLot::new(),
            locks: Locks::new(),
            makers: (0..places).map(|_| Mutex::new(Maker::new())).collect(),
            placed: (0..places).map(|_| Mutex::default()).collect(),
            building: RwLock::default(),
            free: FreeGroups::new(),
            groups: AtomicU64::new(0),
            counters: (0..places).map(|_| Counters::default()).collect(),
            moving: Mutex::default(),
            exhausted: Mutex::default(),
            snapshot: Snapshot::new(),
            log: None,
            home: None,
            checkpoints: Mutex::default(),
            config,
        })
    }

    /// Returns the store's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns the node in the store's ids.
    #[must_use]
    pub fn node(&self) -> u16 {
        self.config.node
    }

    /// Copies an object to the beginning of `to` and returns its length in bytes.
    ///
    /// Waits while another thread has the object locked for writing. The read writes no shared
    /// memory, so that readers do not slow each other down.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`]; [`ObjectError::Buffer`] when `to` is too short;
    /// [`ObjectError::LockTimeout`].
    #[inline]
    pub fn get(&self, id: ObjectId, to: &mut [u8]) -> Result<usize, ObjectError> {
        if let Some(group) = self.table.plain(id)
            && let Some(seen) = group.latch.version()
            && let Some((at, len)) = group.view().find_plainly(&self.slabs, slot_of(id))
            && let Some(to) = to.get_mut(..len)
        {
            // SAFETY: as in `copy_out`.
            unsafe { bytes::read(at, to) };
            if group.is_still(seen) {
                return Ok(len);
            }
        }
        self.get_slowly(id, to)
    }

    #[cold]
    #[inline(never)]
    fn get_slowly(&self, id: ObjectId, to: &mut [u8]) -> Result<usize, ObjectError> {
        self.look(id, By::Anybody, |found| copy_out(id, found, to))?
    }

    /// Returns a copy of an object.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`], [`ObjectError::LockTimeout`].
    pub fn get_vec(&self, id: ObjectId) -> Result<Vec<u8>, ObjectError> {
        self.look(id, By::Anybody, copy_whole)
    }

    /// Copies the bytes of an object from `offset` on, as many as `to` has.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`]; [`ObjectError::Length`] when the range exceeds the object;
    /// [`ObjectError::LockTimeout`].
    pub fn read_at(&self, id: ObjectId, offset: usize, to: &mut [u8]) -> Result<(), ObjectError> {
        self.read_at_by(By::Anybody, id, offset, to)
    }

    pub(crate) fn read_at_by(
        &self,
        by: By,
        id: ObjectId,
        offset: usize,
        to: &mut [u8],
    ) -> Result<(), ObjectError> {
        self.look(id, by, |found| {
            let from = part(id, found, offset, to.len())?;
            // SAFETY: the range lies in the object, whose memory is mapped as long as the store.
            unsafe { bytes::read(from, to) };
            Ok(())
        })?
    }

    /// Returns the length of an object in bytes, without waiting for its lock.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`].
    pub fn size(&self, id: ObjectId) -> Result<usize, ObjectError> {
        self.look(id, By::Holder, |found| found.len)
    }

    /// True if an object has this id. Does not wait for its lock.
    #[must_use]
    pub fn exists(&self, id: ObjectId) -> bool {
        self.size(id).is_ok()
    }

    /// True if an object is read-only. Does not wait for its lock.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`].
    pub fn is_read_only(&self, id: ObjectId) -> Result<bool, ObjectError> {
        self.look(id, By::Holder, |found| found.read_only)
    }

    /// Reads an object, without the latch if possible. The result of `work` is discarded if the
    /// group changed meanwhile.
    #[inline]
    pub(crate) fn look<T>(
        &self,
        id: ObjectId,
        by: By,
        mut work: impl FnMut(Found) -> T,
    ) -> Result<T, ObjectError> {
        let slot = slot_of(id);
        let Some(group) = self.table.get(self.group_of(id)) else {
            return Err(ObjectError::NotFound(id));
        };
        let mut wasted = 0;
        for _ in 0..LOOKS {
            let Some(seen) = group.latch.version() else {
                std::hint::spin_loop();
                continue;
            };
            let view = group.view();
            if !view.is_present(slot) || !self.table.is_current(id) {
                if group.is_still(seen) {
                    return Err(ObjectError::NotFound(id));
                }
                continue;
            }
            if view.is_marked(slot) && by == By::Anybody && self.is_write_locked(id) {
                break;
            }
            let Some(found) = view.find(&self.slabs, slot) else { continue };
            // An object with a run of its own may be long, and its location was read from the
            // group's run.
            if found.far.is_some() && !group.is_still(seen) {
                continue;
            }
            let value = work(found);
            if group.is_still(seen) {
                return Ok(value);
            }
            // Long objects are not copied again and again while other threads change the group.
            wasted += found.len;
            if wasted > WASTED_BYTES_MAX {
                break;
            }
        }
        self.look_latched(id, group, by, work)
    }

    #[cold]
    fn look_latched<T>(
        &self,
        id: ObjectId,
        group: &Group,
        by: By,
        mut work: impl FnMut(Found) -> T,
    ) -> Result<T, ObjectError> {
        let (mut wait, mut queue) = (Wait::new(self.config.patience), self.queue(id, false));
        loop {
            let latched = self.latch(group);
            let view = group.view();
            let present = view.is_present(slot_of(id)) && self.table.is_current(id);
            let found = present.then(|| view.find(&self.slabs, slot_of(id)));
            let found = found.flatten().ok_or(ObjectError::NotFound(id))?;
            let asks = by == By::Anybody && view.is_marked(slot_of(id));
            let busy = |record: &Record| asks && record.writer;
            if let Some(_latched) = self.pass(latched, &mut wait, &mut queue, busy)? {
                return Ok(work(found));
            }
        }
    }

    /// Returns the number of the group that an id is in.
    #[inline]
    pub(crate) fn group_of(&self, id: ObjectId) -> u64 {
        self.table.group_of(id)
    }

    /// Returns the current id of a slot.
    pub(crate) fn id_at(&self, group: u64, slot: u32) -> ObjectId {
        self.table.id_at(group, slot)
    }

    /// Ends the id of a slot in a latched group, so that it names no object any more. The slot is
    /// used again, or retired if its generations are used up; only slots of the store's own ids are
    /// marked and counted as retired.
    pub(crate) fn end_id(&self, number: u64, group: &Group, slot: u32) {
        let goes_on = self.table.end_generation(number, slot);
        if !goes_on && self.table.own_number(number).is_some() {
            group.set_marked(slot, true);
            self.count().retired.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn latch<'a>(&'a self, group: &'a Group) -> Latched<'a> {
        if !group.latch.try_exclusive() {
            group.latch.exclusive(&self.lot);
        }
        Latched { group, lot: &self.lot }
    }

    /// Returns an editor of a group that the caller has latched.
    pub(crate) fn editor<'a>(&'a self, group: &'a Group) -> Editor<'a> {
        Editor { slabs: &self.slabs, group, place: place(), supply: Supply::All }
    }

    /// Changes an object under its group's latch, once no lock of another thread prevents it.
    #[inline]
    pub(crate) fn change<T>(
        &self,
        id: ObjectId,
        by: By,
        mut work: impl FnMut(&Editor<'_>, u32) -> Result<T, Trouble>,
    ) -> Result<T, ObjectError> {
        self.is_here()?;
        let slot = slot_of(id);
        let Some(group) = self.table.get(self.group_of(id)) else {
            return Err(ObjectError::NotFound(id));
        };
        let (mut wait, mut queue) = (Wait::new(self.config.patience), self.queue(id, true));
        let mut tries = 0;
        loop {
            let mut latched = self.latch_to_change(self.group_of(id), group);
            let view = group.view();
            if !view.is_present(slot) || !self.table.is_current(id) {
                return Err(ObjectError::NotFound(id));
            }
            if by == By::Anybody && view.is_marked(slot) {
                match self.pass(latched, &mut wait, &mut queue, Record::is_locked)? {
                    Some(passed) => latched = passed,
                    None => continue,
                }
            }
            match work(&self.editor(group), slot) {
                Ok(value) => return Ok(value),
                Err(Trouble::Error(error)) => return Err(error),
                Err(Trouble::NoRoom(granules)) => {
                    drop(latched);
                    self.make_room(granules, &mut tries)?;
                }
            }
        }
    }

    /// Checks that this process may change the store: a child of the process that opened its log
    /// may not. Called before any lock is taken that a thread of the parent may have held at the
    /// fork, and which then is never released here.
    #[inline]
    pub(crate) fn is_here(&self) -> Result<(), ObjectError> {
        self.log.as_ref().map_or(Ok(()), Log::is_here)
    }

    /// Checks that the log, if there is one, accepts changes. The caller holds the latch of what it
    /// changes.
    #[inline]
    pub(crate) fn is_loggable(&self) -> Result<(), ObjectError> {
        self.log.as_ref().map_or(Ok(()), Log::is_sound)
    }

    /// Appends a change to the log, under the latch of what was changed.
    #[inline]
    pub(crate) fn note(&self, change: Change<'_>) -> Position {
        self.log.as_ref().map_or(0, |log| log.append(change))
    }

    /// Waits until the log has made the change as durable as configured.
    #[inline]
    pub(crate) fn commit(&self, position: Position) -> Result<(), ObjectError> {
        self.log.as_ref().map_or(Ok(()), |log| log.commit(position))
    }

    /// Defragments after an operation found no free run, or returns an error if that is no use.
    pub(crate) fn make_room(&self, granules: u64, tries: &mut u32) -> Result<(), ObjectError> {
        *tries += 1;
        if !self.is_exhausted(granules) {
            if *tries <= ROOM_TRIES && self.defragment_for_room(granules) {
                return Ok(());
            }
            self.note_exhausted(granules);
        }
        Err(self.out_of_memory(granules * to_u64(GRANULE_BYTES)))
    }

    pub(crate) fn out_of_memory(&self, asked: u64) -> ObjectError {
        let limit = to_u64(self.config.memory.bytes() / SLAB_BYTES * SLAB_BYTES);
        ObjectError::OutOfMemory { asked, held: self.slabs.held_bytes(), limit }
    }

    pub(crate) fn count(&self) -> &Counters {
        &self.counters[place() % self.counters.len()]
    }
}

/// Least number of groups that a store has addresses for: 4 Mi ids, 2 MiB of addresses.
const GROUPS_MIN: u64 = if cfg!(miri) { 256 } else { 1 << 16 };

/// Time limit of one operation's waits.
pub(crate) struct Wait {
    pub(crate) patience: Duration,
    since: Option<Instant>,
}

impl Wait {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, since: None }
    }

    /// Returns the deadline. The clock starts with the first call.
    pub(crate) fn deadline(&mut self) -> Option<Instant> {
        let since = *self.since.get_or_insert_with(Instant::now);
        since.checked_add(self.patience)
    }

    pub(crate) fn error(&self, id: ObjectId) -> ObjectError {
        let waited_ms = self.since.map_or(0, |since| since.elapsed().as_millis());
        ObjectError::LockTimeout { id, waited_ms }
    }
}

#[inline]
pub(crate) fn copy_out(id: ObjectId, found: Found, to: &mut [u8]) -> Result<usize, ObjectError> {
    let room = to.len();
    let Some(to) = to.get_mut(..found.len) else {
        return Err(ObjectError::Buffer { id, has: found.len, room });
    };
    // SAFETY: `find` checked that the object lies in the slabs, which are mapped as long as the
    // store; concurrent writes to them go through `bytes`.
    unsafe { bytes::read(found.at, to) };
    Ok(found.len)
}

pub(crate) fn copy_whole(found: Found) -> Vec<u8> {
    let mut to = vec![0; found.len];
    // SAFETY: as in `copy_out`.
    unsafe { bytes::read(found.at, &mut to) };
    to
}

/// Returns the address of a range of an object.
pub(crate) fn part(
    id: ObjectId,
    found: Found,
    offset: usize,
    len: usize,
) -> Result<*mut u8, ObjectError> {
    let end = offset.checked_add(len).filter(|end| *end <= found.len);
    if end.is_none() {
        let given = offset.saturating_add(len);
        return Err(ObjectError::Length { id, has: found.len, given });
    }
    Ok(found.at.wrapping_add(offset))
}

pub(crate) fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static PLACE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the number of the calling thread, which its places in stores follow from: threads are
/// numbered in order of their first call.
pub(crate) fn place() -> usize {
    PLACE.get().unwrap_or_else(|| {
        let place = THREADS.fetch_add(1, Ordering::Relaxed);
        PLACE.set(Some(place));
        place
    })
}

impl std::fmt::Debug for ObjectStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectStore").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
