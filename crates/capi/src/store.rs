//! Creating and closing stores of objects.

use std::ffi::c_char;
use std::sync::Arc;

use terrace_objects::{
    Durability, Keeper, KeeperConfig, LogConfig, ObjectConfig, ObjectError, ObjectId, ObjectMemory,
    ObjectStore,
};

use crate::arguments::{self, path, patience, place, shared, take_handle};
use crate::ledger::Ledger;
use crate::recovered::Found;
use crate::region::Region;
use crate::status::{Failure, Status, status};

/// A store of small objects, found by id, in DRAM, on a memory node, or in a part of a region.
///
/// An object is any number of bytes. Its id is the node that made it, above
/// TERRACE_OBJECT_LOCAL_BITS of its own; no object has the id 0, which programs may use for "none".
/// What one thread does to an object is one step to all others, and what is refused has changed
/// nothing. An operation waits while somebody else's lock keeps it out, as long as the options say;
/// after that it answers TERRACE_STATUS_TIMEOUT.
///
/// All functions may be called from any thread, except terrace_objects_close beside another call
/// with the same handle. In a child process (fork), a store with a log that the parent opened may
/// be read; what changes something is TERRACE_STATUS_FORKED there. A daemon opens its stores after
/// it has forked.
pub struct Objects {
    /// Stopped with the handle, even if a lock keeps the store alive.
    keeper: Option<Keeper>,
    pub(crate) found: Found,
    pub(crate) store: Arc<ObjectStore>,
}

/// The bits of an object's id that say which one of its node it is; the node's 16 are above them.
pub const OBJECT_LOCAL_BITS: u32 = 48;
const _: () = assert!(OBJECT_LOCAL_BITS == terrace_objects::LOCAL_BITS);

/// A flag of terrace_objects_options: no transparent huge pages are asked for.
pub const OBJECTS_HUGE_PAGES_OFF: u32 = 1;

/// A flag of terrace_objects_options: a log that is damaged is opened without what is damaged of
/// it, and without what came after. Without the flag that is TERRACE_STATUS_DAMAGED.
pub const OBJECTS_ACCEPT_DAMAGE: u32 = 2;

/// A flag of terrace_objects_options: an id names one object ever. Ids have a generation in the
/// upper 8 of their own bits, and that of an object which was removed is TERRACE_STATUS_NOT_FOUND
/// whatever has its place. It takes a byte for each id.
///
/// Such a store ends: a place serves 255 objects and is retired then, so that a store creates 255
/// times as many objects in its life as it has places. It has as many places as bytes of memory,
/// 4194304 at least and 2^40 at most: 1.07e9 creates with 4 MiB, 2.7e11 with 1 GiB, which last 7.6
/// hours at 10 million a second and 317 days at 10 thousand. After that a create is
/// TERRACE_STATUS_NO_ROOM for good. terrace_objects_stats.retired counts the places.
pub const OBJECTS_GENERATIONS: u32 = 4;

/// A flag of terrace_objects_options: a thread of the store's own does in the background what
/// terrace_objects_defragment, terrace_objects_sync and terrace_objects_checkpoint do. Each second
/// it looks whether objects use less than 80 percent of the memory held, changes wait that nobody
/// waits for, or the log has grown by 256 MiB. Operations wait for one group of objects at most.
/// The thread ends with the handle.
pub const OBJECTS_KEEPER: u32 = 8;

const FLAGS: u32 =
    OBJECTS_HUGE_PAGES_OFF | OBJECTS_ACCEPT_DAMAGE | OBJECTS_GENERATIONS | OBJECTS_KEEPER;

/// How a store of objects is set up. Zero, or NULL, is the usual value of every field: begin with
/// terrace_objects_options_default or zeroed memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ObjectsOptions {
    /// Its name in statistics and in the ledger. NULL: "objects".
    pub name: *const c_char,
    /// The budget that memory in use counts against: that of what finds objects, and that of the
    /// objects, which a region counts itself. NULL: none.
    pub ledger: *const Ledger,
    /// How long an operation waits for an object that somebody else has locked, in milliseconds. 0:
    /// 10000; UINT64_MAX: for ever.
    pub patience_ms: u64,
    /// The node that the store's ids name, up to 65535. It is a number of the program's own, and
    /// none of a memory node.
    pub node: u32,
    /// TERRACE_OBJECTS_HUGE_PAGES_OFF, TERRACE_OBJECTS_ACCEPT_DAMAGE, TERRACE_OBJECTS_GENERATIONS
    /// and TERRACE_OBJECTS_KEEPER, or none of them.
    pub flags: u32,
    /// A directory for a log of all changes, made if it is not there: what it has of before is in
    /// the store again. NULL: none, and the objects are gone with the process.
    pub log_dir: *const c_char,
    /// A dump whose objects the store is to begin with. NULL: none. Not together with a log.
    pub dump: *const c_char,
    /// What a change waits for where there is a log: TERRACE_DURABILITY_SYNCED,
    /// TERRACE_DURABILITY_WRITTEN or TERRACE_DURABILITY_DEFERRED.
    pub durability: u32,
    /// 0.
    pub reserved: u32,
}

/// A change waits for the device: it survives the machine.
pub const DURABILITY_SYNCED: u32 = 0;
/// A change waits for the kernel: it survives the process, and not the machine.
pub const DURABILITY_WRITTEN: u32 = 1;
/// A change waits for nothing, up to 1 MiB of them; terrace_objects_sync waits for the device, and
/// TERRACE_OBJECTS_KEEPER does now and then.
pub const DURABILITY_DEFERRED: u32 = 2;

impl ObjectsOptions {
    const USUAL: Self = Self {
        name: std::ptr::null(),
        ledger: std::ptr::null(),
        patience_ms: 0,
        node: 0,
        flags: 0,
        log_dir: std::ptr::null(),
        dump: std::ptr::null(),
        durability: 0,
        reserved: 0,
    };

    /// Opens an empty store, or one with the contents of a log or a dump.
    ///
    /// # Safety
    /// As for [`ObjectsOptions::config`].
    unsafe fn open(&self, memory: ObjectMemory) -> Result<(ObjectStore, Found), Failure> {
        // SAFETY: the caller's promise.
        let config = unsafe { self.config(memory) }?;
        let name = config.name.clone();
        let durability = match self.durability {
            DURABILITY_SYNCED => Durability::Synced,
            DURABILITY_WRITTEN => Durability::Written,
            DURABILITY_DEFERRED => Durability::Deferred,
            other => {
                let what = format!("objects {name}: durability {other} is none of 0, 1 and 2");
                return Err(Failure::invalid(what));
            }
        };
        match (self.log_dir.is_null(), self.dump.is_null()) {
            (true, true) => Ok((ObjectStore::new(config)?, Found::default())),
            (true, false) => {
                // SAFETY: the caller's promise.
                let dump = unsafe { path(self.dump, "dump") }?;
                Ok((ObjectStore::restore(config, dump)?, Found::default()))
            }
            (false, true) => {
                // SAFETY: the caller's promise.
                let dir = unsafe { path(self.log_dir, "log_dir") }?.to_owned();
                let accepts_damage = self.flags & OBJECTS_ACCEPT_DAMAGE != 0;
                let (store, recovered) =
                    ObjectStore::open(config, LogConfig { dir, durability, accepts_damage })?;
                Ok((store, recovered.into()))
            }
            (false, false) => {
                let what = format!("objects {name}: a dump and a log cannot both begin a store");
                Err(Failure::invalid(what))
            }
        }
    }

    /// # Safety
    /// Each pointer of the options is NULL or valid for its type, and its target does not change
    /// during the call.
    unsafe fn config(&self, memory: ObjectMemory) -> Result<ObjectConfig, Failure> {
        // SAFETY: the caller's promise, for both.
        let (name, ledger) =
            unsafe { (arguments::name(self.name, "objects"), arguments::ledger(self.ledger)) };
        let wrong = |what: String| Err(Failure::invalid(format!("objects {name}: {what}")));
        let Ok(node) = u16::try_from(self.node) else {
            return wrong(format!("node {}: ids have 16 bits for it", self.node));
        };
        if self.reserved != 0 {
            return wrong(format!("reserved is {}; it is 0", self.reserved));
        }
        if self.flags & !FLAGS != 0 {
            return wrong(format!("flags {:#x} are not all known", self.flags));
        }
        let usual = ObjectConfig::new(name.as_str(), memory);
        Ok(ObjectConfig {
            node,
            ledger,
            huge_pages: self.flags & OBJECTS_HUGE_PAGES_OFF == 0,
            generations: self.flags & OBJECTS_GENERATIONS != 0,
            patience: match self.patience_ms {
                0 => usual.patience,
                ms => patience(ms),
            },
            ..usual
        })
    }
}

/// The usual options of a store of objects: all zero.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_objects_options_default() -> ObjectsOptions {
    ObjectsOptions::USUAL
}

/// Creates a store over a given memory.
///
/// # Safety
/// `options` is NULL, or leads to options whose pointers are valid; `out` is NULL or leads to room
/// for a pointer.
unsafe fn start(
    memory: ObjectMemory,
    options: *const ObjectsOptions,
    out: *mut *mut Objects,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise, for both.
    let (out, options) =
        unsafe { (place(out, "out")?, options.as_ref().unwrap_or(&ObjectsOptions::USUAL)) };
    // SAFETY: the caller's promise.
    let (store, found) = unsafe { options.open(memory) }?;
    let store = Arc::new(store);
    let keeper = match options.flags & OBJECTS_KEEPER {
        0 => None,
        _ => Some(Keeper::start(&store, KeeperConfig::default()).map_err(|error| {
            Failure::no_room(format!("objects {}: no thread for a keeper: {error}", store.name()))
        })?),
    };
    out.put_handle(Objects { keeper, found, store });
    Ok(())
}

/// Returns the store of a handle.
///
/// # Safety
/// The handle is NULL, or belongs to a store and is not closed before the last use of the result.
pub(crate) unsafe fn store<'a>(objects: *const Objects) -> Result<&'a Arc<ObjectStore>, Failure> {
    // SAFETY: the caller's promise.
    Ok(&unsafe { shared(objects, "objects") }?.store)
}

/// Returns the id that a number stands for; every number is a valid argument.
pub(crate) fn id(bits: u64) -> ObjectId {
    ObjectId::from_bits(bits)
}

/// Makes an empty store of objects in DRAM and gives it to *out: so many bytes of addresses,
/// 2097152 at least, which take memory as they are used.
///
/// TERRACE_STATUS_INVALID for options that cannot be; TERRACE_STATUS_NO_ROOM without addresses,
/// without room for what a log or a dump has, or without a thread for the keeper;
/// TERRACE_STATUS_DAMAGED when a log or a dump is; TERRACE_STATUS_UNSUPPORTED when it is of another
/// version of the library; TERRACE_STATUS_IO. What a log had is told by
/// terrace_objects_get_recovered.
///
/// # Safety
/// options are NULL or lead to options, whose name, log_dir and dump are NULL or strings and whose
/// ledger is NULL or a ledger; out is NULL or leads to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_dram(
    bytes: usize,
    options: *const ObjectsOptions,
    out: *mut *mut Objects,
) -> Status {
    // SAFETY: the caller's promise.
    status(|| unsafe { start(ObjectMemory::Dram { bytes }, options, out) })
}

/// Makes an empty store of objects in the memory of one NUMA node and gives it to *out; otherwise
/// as terrace_objects_dram.
///
/// A node that is not there is TERRACE_STATUS_INVALID.
///
/// # Safety
/// As for terrace_objects_dram.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_node(
    node: u32,
    bytes: usize,
    options: *const ObjectsOptions,
    out: *mut *mut Objects,
) -> Status {
    // SAFETY: the caller's promise.
    status(|| unsafe { start(ObjectMemory::Node { node, bytes }, options, out) })
}

/// Makes an empty store of objects in a part of a region and gives it to *out. The part begins at
/// the offset, a multiple of 4096, and has so many bytes, 2097152 at least; 0 bytes are all to the
/// region's end. What finds the objects is in DRAM.
///
/// Nobody else may use the part; another store or heap that wants bytes of it is refused. The store
/// keeps the region: its handle may be closed. What objects hold is written to the region's file in
/// time, but a store cannot be opened again from it.
///
/// Fails as terrace_objects_dram does, and with TERRACE_STATUS_INVALID for a part of which somebody
/// has bytes.
///
/// # Safety
/// The region is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed; otherwise as for terrace_objects_dram.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_region(
    region: *const Region,
    offset: usize,
    bytes: usize,
    options: *const ObjectsOptions,
    out: *mut *mut Objects,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise.
        let region = Arc::clone(&unsafe { shared(region, "region") }?.region);
        let rest = region.len().saturating_sub(offset);
        let bytes = if bytes == 0 { rest } else { bytes };
        // SAFETY: the caller's promise.
        unsafe { start(ObjectMemory::Region { region, offset, bytes }, options, out) }
    })
}

/// Writes all objects and reserved ids to a file as they are at one moment within the call, while
/// everybody goes on. The file appears under its name once it is whole and on the device.
///
/// TERRACE_STATUS_IO or TERRACE_STATUS_NO_ROOM when it cannot be written: what was there before
/// stays.
///
/// # Safety
/// The handle is NULL, or a store's that was not closed; the path is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_dump(
    objects: *const Objects,
    path: *const c_char,
) -> Status {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        store(objects)?.dump(self::path(path, "path")?)?;
        Ok(())
    })
}

/// Waits until every change made before is on the device, whatever the store's durability; without
/// a log it does nothing.
///
/// # Safety
/// The handle is NULL, or a store's that was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_sync(objects: *const Objects) -> Status {
    // SAFETY: the caller's promise.
    status(|| Ok(unsafe { store(objects) }?.sync()?))
}

/// Writes everything to the log's directory anew and lets go of the log so far, while everybody
/// goes on. After the log failed, this makes the store take changes again.
///
/// TERRACE_STATUS_INVALID without a log; TERRACE_STATUS_IO or TERRACE_STATUS_NO_ROOM when it cannot
/// be written: what was there before stays.
///
/// # Safety
/// As for terrace_objects_sync.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_checkpoint(objects: *const Objects) -> Status {
    status(|| {
        // SAFETY: the caller's promise.
        unsafe { store(objects) }?.checkpoint()?;
        Ok(())
    })
}

/// Gives the handle back; NULL is allowed. The store ends, with every object, as soon as the last
/// of its locks is given back, too. No other thread is in a call with the handle.
///
/// Where the store has a log, every change is made durable before, as by terrace_objects_sync; a
/// status other than TERRACE_STATUS_OK says that this failed, and that changes may be lost that
/// were not synced before. The handle is gone in any case. What locks change later is synced when
/// the last of them is given back, which can tell terrace_set_log alone. In a child process (fork)
/// nothing is written, and that is TERRACE_STATUS_OK.
///
/// Addresses of pinned objects are invalid from here on, whether or not a lock is left.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and is not used again, nor any address that came from it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_close(objects: *mut Objects) -> Status {
    status(|| {
        // SAFETY: the caller's promise.
        let Some(Objects { keeper, store, .. }) = (unsafe { take_handle(objects) }) else {
            return Ok(());
        };
        drop(keeper);
        match Arc::try_unwrap(store) {
            Ok(store) => Ok(store.close()?),
            Err(kept) => match kept.sync() {
                Err(ObjectError::Forked { .. }) => Ok(()),
                synced => Ok(synced?),
            },
        }
    })
}
