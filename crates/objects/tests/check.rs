//! The consistency check, beside other users of the store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terrace_objects::{Backing, ObjectConfig, ObjectId, ObjectStore};
use terrace_testkit::soak_time;

const MIB: usize = 1 << 20;
/// Objects of other nodes that exist at a time, each in a part of the table of its own.
const ALIVE: u64 = 64;

/// Ids of other nodes make groups that did not exist at the check before.
#[test]
fn a_sound_store_passes_beside_ids_of_other_nodes() {
    let memory = Backing::Dram { bytes: 64 * MIB };
    let store = ObjectStore::new(ObjectConfig::new("checked", memory)).expect("memory");
    let (stop, end) = (AtomicBool::new(false), Instant::now() + soak_time());
    std::thread::scope(|scope| {
        for node in 1..=2 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                let id = |n: u64| ObjectId::new(node, n << 14);
                for n in 1_u64.. {
                    store.create_reserved(id(n), &[7; 500]).expect("a free id");
                    if n > ALIVE {
                        store.remove(id(n - ALIVE)).expect("made before");
                    }
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    // Parts are never freed: some thousands are enough.
                    std::thread::sleep(Duration::from_micros(50));
                }
            });
        }
        let mut checked = Ok(());
        while checked.is_ok() && Instant::now() < end {
            checked = store.check().map(|_| ());
        }
        stop.store(true, Ordering::Relaxed);
        checked.expect("in order");
    });
}
