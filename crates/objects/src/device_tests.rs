//! Stores on a device that counts the bytes read, and whose syncs wait for others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use terrace_region::Backing;
use terrace_sys::sync::lock;

use crate::config::{Durability, LogConfig, ObjectConfig};
use crate::durable::blocks::{BlockPosition, HEAD_BYTES, Link, u64_at};
use crate::durable::log::{BATCH_HEAD_BYTES, BatchHead};
use crate::id::ObjectId;
use crate::memory_files::MemoryFiles;
use crate::store::ObjectStore;

const MIB: usize = 1 << 20;

fn open(files: &MemoryFiles, durability: Durability) -> ObjectStore {
    let memory = Backing::Dram { bytes: 64 * MIB };
    let config = ObjectConfig::new("on a device", memory);
    let log = LogConfig { durability, ..LogConfig::new("store") };
    ObjectStore::open_in(Arc::new(files.clone()), config, log).expect("sound").0
}

/// An object full of heads of batches, as an attacker would make it with the salt of the log and
/// the object's offset in it. Recovery reads each byte of a log a few times at most.
#[test]
fn a_start_reads_a_log_in_a_few_passes() {
    const BYTES: usize = 3 * MIB;
    let files = MemoryFiles::default();
    let store = open(&files, Durability::Written);
    store.create_with(b"whole").expect("room");
    let begin = store.log_bytes();
    let log = std::path::Path::new("store/log-0000000000000001");
    let salt = u64_at(&files.disk().files[files.disk().names[log]], 24);
    let heads = (0..BYTES / BATCH_HEAD_BYTES).flat_map(|n| {
        // A change of this length has 13 bytes before those of the object.
        let offset = begin + (BATCH_HEAD_BYTES + 13 + n * BATCH_HEAD_BYTES) as u64;
        let place = BlockPosition { salt, offset };
        let mut head = BatchHead::of(place, Link { number: 9, sum: 9 }, 0, b"").to_bytes(place);
        // Every other one only begins as a head.
        head[8] ^= u8::from(n % 2 == 0);
        head
    });
    store.create_with(&heads.collect::<Vec<u8>>()).expect("room");
    drop(store);
    // The machine crashed before the end of the object was on the device.
    files.intrude(log, |log| log.truncate(log.len() - 1000));
    let len = files.disk().files[files.disk().names[log]].len() as u64;
    let files = MemoryFiles::of(files.disk(), 1);
    let memory = Backing::Dram { bytes: 64 * MIB };
    let config = ObjectConfig::new("on a device", memory);
    let opened = ObjectStore::open_in(Arc::new(files.clone()), config, LogConfig::new("store"));
    let (store, found) = opened.expect("sound");
    assert_eq!((store.stats().objects, found.torn_bytes), (1, len - begin));
    assert!(found.damage[0].contains("batches of changes behind it"), "{found:?}");
    let read = files.read_bytes();
    assert!(read <= 4 * len, "{read} bytes were read of {len}");
    assert!(begin > HEAD_BYTES as u64);
}

/// Recovery redoes the changes of a log upon a dump that may have later ones: these have to be in
/// the log before the dump gets its name.
#[test]
fn a_dump_has_no_change_that_its_log_lacks() {
    let files = MemoryFiles::default();
    let store = Arc::new(open(&files, Durability::Deferred));
    let id = store.create_with(&[1; 40]).expect("room");
    let beside = Arc::clone(&store);
    files.before_dump(move || {
        beside.write_at(id, 0, &[2; 8]).expect("inside");
        beside.sync().expect("a device");
        beside.replace(id, &[3; 40]).expect("room");
    });
    store.checkpoint().expect("a device");
    // The process is killed here, or the machine crashes.
    let left = files.disk();
    let found = open(&MemoryFiles::of(left, 1), Durability::Deferred).get_vec(id).expect("there");
    assert_eq!(found, [3; 40], "the change before the last is made again upon the last");
}

/// Time within which an operation ends that does not wait for a sync, whatever else the machine
/// does.
const AT_ONCE: Duration = Duration::from_secs(20);

/// Makes a checkpoint of a store, and within each of its syncs has another thread put (if `puts`)
/// and get every object, which the sync waits for. Returns the number of syncs, and of those in
/// which the other thread did not finish.
fn work_within_syncs(durability: Durability, puts: bool) -> (usize, usize) {
    let files = MemoryFiles::default();
    let store = Arc::new(open(&files, durability));
    let ids: Arc<[ObjectId]> =
        (0..32).map(|_| store.create_with(&vec![1; 60_000]).expect("room")).collect();
    let (syncs, late) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (Arc::clone(&syncs), Arc::clone(&late));
    // The files outlive the store, and would keep it.
    let within = Arc::downgrade(&store);
    files.in_each_sync(move || {
        // The last sync of all is made when the store is dropped.
        let Some(store) = within.upgrade() else { return };
        counts.0.fetch_add(1, Ordering::Relaxed);
        let ids = Arc::clone(&ids);
        let (done, is_done) = mpsc::channel();
        // If this thread panics, its end of the channel is gone, and the sync counts as late.
        std::thread::spawn(move || {
            for id in ids.iter() {
                if puts {
                    store.put(*id, &vec![2; 60_000]).expect("as long");
                }
                store.get_vec(*id).expect("there");
            }
            drop(store);
            // The other end is gone if this took too long.
            let _ = done.send(());
        });
        if is_done.recv_timeout(AT_ONCE).is_err() {
            counts.1.fetch_add(1, Ordering::Relaxed);
        }
    });
    store.checkpoint().expect("a device");
    assert!(files.disk().names.keys().any(|path| path.to_string_lossy().contains("dump-")));
    (syncs.load(Ordering::Relaxed), late.load(Ordering::Relaxed))
}

#[test]
fn no_thread_waits_for_the_sync_of_a_checkpoint() {
    for durability in [Durability::Written, Durability::Deferred] {
        let (syncs, late) = work_within_syncs(durability, true);
        assert!(syncs >= 3 && late == 0, "{durability:?}: {late} of {syncs} syncs");
    }
    // Here a put has to wait for the device; a get does not.
    let (syncs, late) = work_within_syncs(Durability::Synced, false);
    assert!(syncs >= 3 && late == 0, "{late} of {syncs} syncs");
}

#[test]
fn a_synced_put_waits_for_the_device_and_a_get_does_not() {
    let files = MemoryFiles::default();
    let store = Arc::new(open(&files, Durability::Synced));
    let id = store.create_with(&[1; 40]).expect("room");
    let (within, found) = (Arc::downgrade(&store), Arc::new(Mutex::new(None)));
    let seen = Arc::clone(&found);
    files.in_each_sync(move || {
        let Some(store) = within.upgrade() else { return };
        *lock(&seen) = store.get_vec(id).ok();
    });
    store.put(id, &[2; 40]).expect("a device");
    assert_eq!(lock(&found).take(), Some(vec![2; 40]), "the put returned after a sync");
}
