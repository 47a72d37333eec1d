//! Profiles that survive the end of the process.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use terrace_objects::{Backing, LogConfig, ObjectConfig, ObjectId, ObjectStore};

const PROFILES: usize = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let ids = write(directory.path())?;
    // Opens the store again, as after a crash: every acknowledged write is there.
    let store = open(directory.path())?;
    let mut profile = [0; 64];
    let len = store.get(ids[PROFILES / 2], &mut profile)?;
    println!("{}", String::from_utf8_lossy(&profile[..len]));
    println!("{:?}", store.stats());
    Ok(())
}

fn open(directory: &Path) -> Result<ObjectStore, Box<dyn Error>> {
    let memory = Backing::Dram { bytes: 256 << 20 };
    let config = ObjectConfig::new("profiles", memory);
    let (store, recovered) = ObjectStore::open(config, LogConfig::new(directory))?;
    println!("{recovered:?}");
    Ok(store)
}

fn write(directory: &Path) -> Result<Vec<ObjectId>, Box<dyn Error>> {
    let store = open(directory)?;
    let mut ids = Vec::new();
    for number in 0..PROFILES {
        ids.push(store.create_with(format!("profile {number}").as_bytes())?);
    }
    // Other writers wait for the lock; readers without a lock read the old value in the meantime.
    let mut locked = store.write_lock(ids[PROFILES / 2], Duration::from_secs(1))?;
    locked.replace(b"a profile that has changed its length")?;
    drop(locked);
    Ok(ids)
}
