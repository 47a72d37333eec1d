//! Stores that are closed and opened again.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use terrace_store::{
    EngineChoice, Extent, Label, Lifetime, Read, Store, StoreError, Stored, Write,
};
use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::size::MIB;
use terrace_testkit::Rng;
use terrace_testkit::device::{LoopDevice, or_skip};

fn write(store: &Store, data: &[u8]) -> Stored {
    let extent = store.allocate(data.len().try_into().expect("small")).expect("room");
    store.write_batch(&[Write { extent, data }]).remove(0).expect("written")
}

fn read(store: &Store, stored: Stored) -> Result<AlignedBuffer, StoreError> {
    let len = usize::try_from(stored.extent.len_bytes).expect("small");
    let mut data = AlignedBuffer::zeroed(len);
    store.read_batch(&mut [Read { stored, data: &mut data }]).remove(0).map(|()| data)
}

fn random(len: usize, seed: u64) -> AlignedBuffer {
    let mut data = AlignedBuffer::zeroed(len);
    Rng::new(seed).fill(&mut data);
    data
}

/// Writes with one engine, then claims and reads with the other.
fn outlives_its_process(open: impl Fn(EngineChoice) -> Store) {
    let engines = [EngineChoice::Uring, EngineChoice::Pread];
    for (first, second) in [(engines[0], engines[1]), (engines[1], engines[0])] {
        let store = open(first);
        let stored: Vec<Stored> = (0..20).map(|seed| write(&store, &random(65536, seed))).collect();
        store.sync().expect("a sound device");
        drop(store);
        let store = open(second);
        for stored in stored.iter().skip(1).step_by(2) {
            store.claim(stored.extent).expect("not in use yet");
        }
        assert_eq!(store.stats().used_bytes, 10 * 65536);
        for (stored, seed) in stored.iter().zip(0..).skip(1).step_by(2) {
            assert_eq!(*read(&store, *stored).expect("synced"), *random(65536, seed));
        }
        let fresh = write(&store, &random(65536, 99));
        assert_eq!(fresh.extent, stored[0].extent, "what was not claimed is free");
        assert!(store.claim(stored[1].extent).is_err());
    }
}

#[test]
fn a_file_outlives_its_process() {
    let dir = tempfile::tempdir().expect("writable");
    let path = dir.path().join("store");
    outlives_its_process(|choice| {
        Store::overwrite_file_with(&path, Some(64 * MIB), choice).expect("writable")
    });
}

#[test]
fn a_device_outlives_its_process() {
    let Some(device) = or_skip("a block device", LoopDevice::attach(8 * MIB)) else { return };
    outlives_its_process(|choice| {
        Store::overwrite_device_with(device.path(), None, choice).expect("attached")
    });
    let open = |bytes| Store::overwrite_device(device.path(), Some(bytes));
    let error = open(9 * MIB).expect_err("too large").to_string();
    assert!(error.contains("it has 8388608 bytes"), "{error}");
    let _held = open(8 * MIB).expect("free");
    let error = open(8 * MIB).expect_err("held").to_string();
    assert!(error.contains("busy"), "{error}");
    let full = _held.allocate(9 * MIB).expect_err("larger than the device");
    assert!(matches!(full, StoreError::Full { .. }), "{full}");
}

fn disk_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).expect("it is there").blocks() * 512
}

#[test]
fn trim_gives_a_file_back_to_its_file_system() {
    let dir = tempfile::tempdir().expect("writable");
    let path = dir.path().join("store");
    let store = Store::open_file(&path, Some(256 * MIB)).expect("writable");
    let stored: Vec<Stored> = (0..32).map(|seed| write(&store, &random(1 << 20, seed))).collect();
    assert!(disk_bytes(&path) >= 32 * MIB);
    stored.iter().skip(1).for_each(|stored| store.free(stored.extent));
    store.trim();
    assert!(disk_bytes(&path) <= 2 * MIB, "{}", disk_bytes(&path));
    assert_eq!(*read(&store, stored[0]).expect("in use"), *random(1 << 20, 0));
}

#[test]
fn a_file_cut_short_is_a_read_error_not_other_bytes() {
    let dir = tempfile::tempdir().expect("writable");
    let path = dir.path().join("store");
    let store = Store::open_file(&path, None).expect("writable");
    let stored = write(&store, &random(65536, 1));
    drop(store);
    std::fs::File::options().write(true).open(&path).and_then(|f| f.set_len(4096)).expect("there");
    for choice in [EngineChoice::Uring, EngineChoice::Pread] {
        let store = Store::overwrite_file_with(&path, Some(MIB), choice).expect("writable");
        store.claim(stored.extent).expect("free");
        let error = read(&store, stored).expect_err("cut short");
        assert!(matches!(error, StoreError::Read { .. }), "{error}");
    }
    let beyond = Extent { offset_bytes: MIB, len_bytes: 4096 };
    let store = Store::overwrite_file(&path, Some(MIB)).expect("writable");
    assert!(store.claim(beyond).is_err());
}

#[test]
fn a_file_of_something_else_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().expect("writable");
    let path = dir.path().join("letters");
    let letters = "Dear reader,\n".repeat(800);
    std::fs::write(&path, &letters).expect("writable");
    let error = Store::open_file(&path, Some(64 * MIB)).expect_err("letters");
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    let text = error.to_string();
    for part in ["it holds 10.2KiB that are of no store", "nothing was changed", "letters)"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    assert_eq!(std::fs::read_to_string(&path).expect("there"), letters);
    let store = Store::overwrite_file(&path, Some(64 * MIB)).expect("it was said so");
    let stored = write(&store, &random(65536, 1));
    assert_eq!(*read(&store, stored).expect("written"), *random(65536, 1));
}

#[test]
fn a_store_is_opened_by_its_owner_again() {
    let dir = tempfile::tempdir().expect("writable");
    let path = dir.path().join("store");
    let owner = Label { id: 7, lifetime: Lifetime::Lasting };
    let open = || Store::open_file(&path, Some(64 * MIB)).expect("a new file, or a label");
    let store = open();
    store.settle(owner).expect("blank");
    let stored = write(&store, &random(65536, 1));
    drop(store);
    let store = open();
    assert_eq!(store.label().expect("readable"), Some(owner));
    let other = store.settle(Label { id: 8, ..owner }).expect_err("of another").to_string();
    assert!(other.contains("the pages of another owner"), "{other}");
    store.settle(owner).expect("its own");
    store.claim(stored.extent).expect("free");
    assert_eq!(*read(&store, stored).expect("kept"), *random(65536, 1));
}

#[test]
fn a_device_of_something_else_is_refused() {
    let Some(device) = or_skip("a block device", LoopDevice::attach(8 * MIB)) else { return };
    let open = || Store::open_device(device.path(), None);
    drop(open().expect("blank"));
    write(&Store::overwrite_device(device.path(), None).expect("free"), &random(4096, 1));
    let error = open().expect_err("it was written").to_string();
    assert!(error.contains("blkdiscard"), "{error}");
}

#[test]
fn temporary_stores_leave_nothing() {
    let dir = tempfile::tempdir().expect("writable");
    let store = Store::temporary(dir.path(), None).expect("writable");
    write(&store, &random(1 << 20, 1));
    assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 0);
    let error = Store::temporary(&dir.path().join("missing"), None).expect_err("missing");
    assert!(error.to_string().contains("missing"), "{error}");
}
