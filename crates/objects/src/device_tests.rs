//! Stores on a device that counts the bytes read, and whose syncs are slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terrace_region::Backing;

use crate::config::{Durability, LogConfig, ObjectConfig};
use crate::durable::blocks::{BlockPosition, HEAD_BYTES, Link, u64_at};
use crate::durable::log::{BATCH_HEAD_BYTES, BatchHead};
use crate::id::ObjectId;
use crate::maintenance::{Maintenance, MaintenanceConfig};
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

/// Returns the times of the longest put and get beside a maintenance thread that makes checkpoints
/// constantly.
fn longest(durability: Durability, sync: Duration) -> (Duration, Duration) {
    let files = MemoryFiles::default();
    let store = Arc::new(open(&files, durability));
    let ids: Vec<ObjectId> =
        (0..32).map(|_| store.create_with(&vec![1; 60_000]).expect("room")).collect();
    files.slow_down(sync);
    let (every, log_bytes) = (Duration::from_millis(1), 100);
    let maintenance = MaintenanceConfig { every, log_bytes, ..MaintenanceConfig::default() };
    let maintenance = Maintenance::start(&store, maintenance).expect("a thread");
    let stop = AtomicBool::new(false);
    let end = Instant::now() + 4 * sync;
    let until_the_end = |work: &dyn Fn(usize)| {
        let mut longest = Duration::ZERO;
        for n in 0.. {
            if Instant::now() > end || stop.load(Ordering::Relaxed) {
                break;
            }
            let start = Instant::now();
            work(n % ids.len());
            longest = longest.max(start.elapsed());
            // The measured thread leaves the processor to others.
            std::thread::sleep(Duration::from_micros(500));
        }
        longest
    };
    let longest = std::thread::scope(|scope| {
        let puts = scope
            .spawn(|| until_the_end(&|n| store.put(ids[n], &vec![2; 60_000]).expect("as long")));
        let gets = until_the_end(&|n| drop(store.get_vec(ids[n]).expect("there")));
        (puts.join().expect("no panic"), gets)
    });
    drop(maintenance);
    assert!(files.disk().names.keys().any(|path| path.to_string_lossy().contains("dump-")));
    longest
}

#[test]
fn no_thread_waits_for_the_sync_of_a_checkpoint() {
    let sync = Duration::from_millis(200);
    for durability in [Durability::Written, Durability::Deferred] {
        let (put, get) = longest(durability, sync);
        assert!(put < sync / 2 && get < sync / 2, "{durability:?}: put {put:?}, get {get:?}");
    }
    // Here a put has to wait for the device; a get does not.
    let (put, get) = longest(Durability::Synced, sync);
    assert!(put >= sync && get < sync / 2, "put {put:?}, get {get:?}");
}
