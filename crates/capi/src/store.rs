//! Creating and closing stores of objects.

use std::ffi::c_char;
use std::sync::Arc;

use terrace_objects::{
    Backing, Durability, LogConfig, Maintenance, MaintenanceConfig, ObjectConfig, ObjectError,
    ObjectId, ObjectStore,
};

use crate::arguments::{self, path, patience, place, shared, take_handle};
use crate::found::Found;
use crate::ledger::Ledger;
use crate::region::Region;
use crate::status::{Failure, Status, status};

/// A store of small objects, which are accessed by id, in DRAM, on a memory node, or in a part of a
/// region.
///
/// An object is any number of bytes. Its id is the node that created it, above
/// TERRACE_OBJECT_LOCAL_BITS bits of its own; no object has the id 0, which programs may use for
/// "none". An operation of one thread on an object is atomic for all others, and an operation that
/// is refused has changed nothing. An operation waits while a lock conflicts, for as long as the
/// options say; after that it returns TERRACE_STATUS_TIMEOUT.
///
/// All functions may be called from any thread, except terrace_objects_close during another call
/// with the same handle. In a child process (fork), a store with a log that the parent opened may
/// be read; a change is TERRACE_STATUS_FORKED there. A daemon opens its stores after it has forked.
pub struct Objects {
    /// Stopped with the handle, even if a lock keeps the store alive.
    maintenance: Option<Maintenance>,
    pub(crate) found: Found,
    pub(crate) store: Arc<ObjectStore>,
}

/// Number of the low bits of an object's id that identify it within its node; the node's 16 are
/// above them.
pub const OBJECT_LOCAL_BITS: u32 = 48;
const _: () = assert!(OBJECT_LOCAL_BITS == terrace_objects::LOCAL_BITS);

/// A flag of terrace_objects_options: transparent huge pages are not requested.
pub const OBJECTS_HUGE_PAGES_OFF: u32 = 1;

/// A flag of terrace_objects_options: a damaged log is opened without its damaged part, and without
/// the changes after it. Without the flag the status is TERRACE_STATUS_DAMAGED.
pub const OBJECTS_ACCEPT_DAMAGE: u32 = 2;

/// A flag of terrace_objects_options: an id never names a second object. Ids have a generation in
/// the upper 8 of their own bits, and that of an object which was removed is
/// TERRACE_STATUS_NOT_FOUND even if another object has its slot. It takes a byte for each id.
///
/// Such a store can run out of ids for good: a slot serves 255 objects and is then retired, so that
/// a store creates 255 times as many objects in its life as it has slots. It has as many slots as
/// bytes of memory, at least 4194304 and at most 2^40: 1.07e9 creates with 4 MiB, 2.7e11 with 1
/// GiB, which last 7.6 hours at 10 million a second and 317 days at 10 thousand. After that every
/// create is TERRACE_STATUS_NO_ROOM. terrace_objects_stats.retired counts the slots.
pub const OBJECTS_GENERATIONS: u32 = 4;

/// A flag of terrace_objects_options: a background thread of the store does the work of
/// terrace_objects_defragment, terrace_objects_sync and terrace_objects_checkpoint. Each second it
/// checks if objects use less than 80 percent of the memory held, if there are changes that no call
/// waits for, or if the log has grown by 256 MiB. Operations wait for one group of objects at most.
/// The thread ends with the handle.
pub const OBJECTS_MAINTENANCE: u32 = 8;

const FLAGS: u32 =
    OBJECTS_HUGE_PAGES_OFF | OBJECTS_ACCEPT_DAMAGE | OBJECTS_GENERATIONS | OBJECTS_MAINTENANCE;

/// Options of a store of objects. Zero, or NULL, selects the default of every field: begin with
/// terrace_objects_options_default or zeroed memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ObjectsOptions {
    /// Name in statistics and in the ledger. NULL: "objects".
    pub name: *const c_char,
    /// Budget that memory in use counts against: that of the table of objects, and that of the
    /// objects, which a region counts itself. NULL: none.
    pub ledger: *const Ledger,
    /// Time that an operation waits for a locked object, in milliseconds. 0: 10000; UINT64_MAX:
    /// forever.
    pub patience_ms: u64,
    /// Node in the store's ids, up to 65535. The program assigns this number; it is not a memory
    /// node.
    pub node: u32,
    /// Sum of any of TERRACE_OBJECTS_HUGE_PAGES_OFF, TERRACE_OBJECTS_ACCEPT_DAMAGE,
    /// TERRACE_OBJECTS_GENERATIONS and TERRACE_OBJECTS_MAINTENANCE.
    pub flags: u32,
    /// Directory for a log of all changes, created if it does not exist; the changes in it are
    /// restored. NULL: none, and the objects are lost with the process.
    pub log_dir: *const c_char,
    /// Dump whose objects the store begins with. NULL: none. Not together with a log.
    pub dump: *const c_char,
    /// Durability that a change waits for if there is a log: TERRACE_DURABILITY_SYNCED,
    /// TERRACE_DURABILITY_WRITTEN or TERRACE_DURABILITY_DEFERRED.
    pub durability: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// A change waits for the device: it survives a crash of the machine.
pub const DURABILITY_SYNCED: u32 = 0;
/// A change waits for the kernel: it survives a crash of the process, but not of the machine.
pub const DURABILITY_WRITTEN: u32 = 1;
/// A change does not wait, up to 1 MiB of them; terrace_objects_sync waits for the device, and
/// TERRACE_OBJECTS_MAINTENANCE syncs now and then.
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
    unsafe fn open(&self, memory: Backing) -> Result<(ObjectStore, Found), Failure> {
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
    unsafe fn config(&self, memory: Backing) -> Result<ObjectConfig, Failure> {
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

/// Returns the default options of a store of objects: all zero.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_objects_options_default() -> ObjectsOptions {
    ObjectsOptions::USUAL
}

/// Opens a store in `memory`: empty, or with the contents of the log or dump that the options name.
///
/// # Safety
/// `options` is NULL, or leads to options whose pointers are valid; `out` is NULL or leads to room
/// for a pointer.
unsafe fn start(
    memory: Backing,
    options: *const ObjectsOptions,
    out: *mut *mut Objects,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise, for both.
    let (out, options) =
        unsafe { (place(out, "out")?, options.as_ref().unwrap_or(&ObjectsOptions::USUAL)) };
    // SAFETY: the caller's promise.
    let (store, found) = unsafe { options.open(memory) }?;
    let store = Arc::new(store);
    let maintenance = match options.flags & OBJECTS_MAINTENANCE {
        0 => None,
        _ => Some(Maintenance::start(&store, MaintenanceConfig::default()).map_err(|error| {
            Failure::no_room(format!(
                "objects {}: no thread for maintenance: {error}",
                store.name()
            ))
        })?),
    };
    out.put_handle(Objects { maintenance, found, store });
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

/// Creates a store of objects in DRAM, empty unless the options name a log or a dump, and stores
/// its handle in *out. The size in bytes is that of its address space, at least 2097152, which
/// takes memory as it is used.
///
/// TERRACE_STATUS_INVALID for invalid options; TERRACE_STATUS_NO_ROOM if address space is
/// exhausted, if the contents of a log or a dump do not fit, or if the maintenance thread cannot be
/// started; TERRACE_STATUS_DAMAGED if a log or a dump is damaged; TERRACE_STATUS_UNSUPPORTED if it
/// is of another version of the library; TERRACE_STATUS_IO. terrace_objects_get_recovered returns
/// the results of recovery from a log.
///
/// # Safety
/// options is NULL or points to options, whose name, log_dir and dump are NULL or strings and whose
/// ledger is NULL or a ledger; out is NULL or points to space for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_dram(
    bytes: usize,
    options: *const ObjectsOptions,
    out: *mut *mut Objects,
) -> Status {
    // SAFETY: the caller's promise.
    status(|| unsafe { start(Backing::Dram { bytes }, options, out) })
}

/// Creates a store of objects in the memory of one NUMA node and stores its handle in *out;
/// otherwise as terrace_objects_dram.
///
/// TERRACE_STATUS_INVALID if the node does not exist.
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
    status(|| unsafe { start(Backing::Node { node, bytes }, options, out) })
}

/// Creates a store of objects in a part of a region and stores its handle in *out; otherwise as
/// terrace_objects_dram. The part begins at the offset, a multiple of 4096, and has the given
/// bytes, at least 2097152; 0 bytes mean all up to the region's end. The table of objects is in
/// DRAM.
///
/// No other code may use the part; another store or heap that requests bytes of it is refused. The
/// store keeps the region alive: its handle may be closed. The contents of objects are written to
/// the region's file over time, but a store cannot be reopened from it.
///
/// Fails as terrace_objects_dram does, and with TERRACE_STATUS_INVALID if bytes of the part are in
/// use.
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
        unsafe { start(Backing::Region { region, offset, bytes }, options, out) }
    })
}

/// Writes all objects and reserved ids to a file as they are at one moment within the call, while
/// other operations continue. The file appears under its name once it is complete and on the
/// device.
///
/// TERRACE_STATUS_IO or TERRACE_STATUS_NO_ROOM if it cannot be written: an earlier file is kept.
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

/// Waits until every change made before is on the device, regardless of the store's durability;
/// does nothing without a log.
///
/// # Safety
/// The handle is NULL, or a store's that was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_sync(objects: *const Objects) -> Status {
    // SAFETY: the caller's promise.
    status(|| Ok(unsafe { store(objects) }?.sync()?))
}

/// Writes all contents to the log's directory anew and deletes the log so far, while other
/// operations continue. After a failure of the log, this makes the store accept changes again.
///
/// TERRACE_STATUS_INVALID without a log; TERRACE_STATUS_IO or TERRACE_STATUS_NO_ROOM if it cannot
/// be written: the earlier files are kept.
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

/// Releases the handle; NULL is allowed. The store ends, with every object, as soon as the last of
/// its locks is released, too. No other thread may be in a call with the handle.
///
/// If the store has a log, every change is made durable first, as by terrace_objects_sync; a status
/// other than TERRACE_STATUS_OK reports that this failed, and that changes may be lost that were
/// not synced before. The handle is invalid in any case. Later changes under locks are synced when
/// the last of them is released, and a failure is then reported to terrace_set_log only. In a child
/// process (fork) nothing is written, and the status is TERRACE_STATUS_OK.
///
/// Addresses of pinned objects are invalid from here on, even if a lock remains.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and is not used again, nor any address that came from it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_close(objects: *mut Objects) -> Status {
    status(|| {
        // SAFETY: the caller's promise.
        let Some(Objects { maintenance, store, .. }) = (unsafe { take_handle(objects) }) else {
            return Ok(());
        };
        drop(maintenance);
        match Arc::try_unwrap(store) {
            Ok(store) => Ok(store.close()?),
            Err(kept) => match kept.sync() {
                Err(ObjectError::Forked { .. }) => Ok(()),
                synced => Ok(synced?),
            },
        }
    })
}
