//! A log file of an object store: any bytes open to a store in order, or are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use terrace_objects::{Backing, LogConfig, ObjectConfig, ObjectStore};

fuzz_target!(|bytes: &[u8]| {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join(format!("log-{:016x}", 1)), bytes).expect("written");
    let config = ObjectConfig::new("fuzz", Backing::Dram { bytes: 16 << 20 });
    if let Ok((store, _)) = ObjectStore::open(config, LogConfig::new(directory.path())) {
        store.check().expect("in order");
    }
});
