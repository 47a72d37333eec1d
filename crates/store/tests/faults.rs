//! Guarantees of a store when the device fails: the table of the fault model, row by row.

use std::sync::Arc;
use std::time::Duration;

use terrace_store::{
    Blocks, EngineChoice, Extent, MemoryBlocks, Read, Store, StoreError, Stored, Write,
};
use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::size::MIB;
use terrace_testkit::device::{SmallFileSystem, or_skip};
use terrace_testkit::{Fault, FaultyBlocks, Rng, Target, When, with_seed};

const CAPACITY_BYTES: u64 = 16 * MIB;

fn faulty(seed: u64) -> (Arc<FaultyBlocks>, Store) {
    let blocks = Arc::new(FaultyBlocks::new(Arc::new(MemoryBlocks::new(CAPACITY_BYTES)), seed));
    let shared: Arc<dyn Blocks> = Arc::clone(&blocks) as Arc<dyn Blocks>;
    (blocks, Store::open(shared, "disk", CAPACITY_BYTES).expect("a capacity of whole pages"))
}

fn page(value: u8) -> AlignedBuffer {
    AlignedBuffer::copy_of(&[value; 8192])
}

fn write_to(store: &Store, extent: Extent, data: &[u8]) -> Result<Stored, StoreError> {
    store.write_batch(&[Write { extent, data }]).remove(0)
}

fn write(store: &Store, data: &[u8]) -> Result<Stored, StoreError> {
    let extent = store.allocate(data.len().try_into().expect("small"))?;
    write_to(store, extent, data)
}

fn read(store: &Store, stored: Stored) -> Result<AlignedBuffer, StoreError> {
    let mut data = page(0);
    store.read_batch(&mut [Read { stored, data: &mut data }]).remove(0).map(|()| data)
}

#[test]
fn a_write_error_latches_and_reads_go_on() {
    for fault in [Fault::Eio, Fault::Short] {
        let (blocks, store) = faulty(1);
        let sound = write(&store, &page(1)).expect("sound");
        blocks.inject(Target::Write, When::Nth(2), fault);
        let extents: Vec<Extent> = (0..3).map(|_| store.allocate(8192).expect("room")).collect();
        let data = page(2);
        let writes: Vec<Write<'_>> =
            extents.iter().map(|extent| Write { extent: *extent, data: &data }).collect();
        let results = store.write_batch(&writes);
        assert!(results[0].is_ok() && results[2].is_ok(), "the others are whole");
        let first = results[1].as_ref().expect_err("planned").to_string();
        assert!(first.contains("disk") && first.contains("cannot write"), "{first}");
        blocks.heal();
        assert_eq!(store.latched().as_deref(), Some(first.as_str()));
        for error in [
            write_to(&store, extents[1], &data).expect_err("latched"),
            store.allocate(4096).expect_err("latched"),
            store.sync().expect_err("latched"),
        ] {
            assert!(
                matches!(&error, StoreError::Latched { first: named, .. } if *named == first),
                "{error}"
            );
        }
        assert_eq!(*read(&store, sound).expect("reads go on"), *page(1));
        let whole = *results[0].as_ref().expect("whole");
        assert_eq!(*read(&store, whole).expect("reads go on"), *data);
        store.free(whole.extent);
    }
}

#[test]
fn a_sync_error_latches() {
    let (blocks, store) = faulty(2);
    let stored = write(&store, &page(1)).expect("sound");
    blocks.inject(Target::Sync, When::Nth(1), Fault::Eio);
    let error = store.sync().expect_err("planned");
    assert!(matches!(error, StoreError::Sync { .. }), "{error}");
    let error = store.sync().expect_err("what was lost is unknown");
    assert!(error.to_string().contains("cannot sync"), "{error}");
    read(&store, stored).expect("reads go on");
}

#[test]
fn a_read_error_is_named_and_does_not_latch() {
    for fault in [Fault::Eio, Fault::Short] {
        let (blocks, store) = faulty(3);
        let stored = write(&store, &page(1)).expect("sound");
        blocks.inject(Target::Read, When::Nth(1), fault);
        let error = read(&store, stored).expect_err("planned");
        assert!(matches!(error, StoreError::Read { .. }), "{error}");
        assert_eq!(store.latched(), None);
        assert_eq!(*read(&store, stored).expect("sound again"), *page(1));
        assert_eq!(store.stats().read_errors, 1);
    }
}

#[test]
fn silent_damage_is_corrupt_by_name() {
    for fault in [Fault::Torn, Fault::Lost, Fault::Misdirected, Fault::FlippedBit] {
        let (blocks, store) = faulty(4);
        let extent = store.allocate(8192).expect("room");
        let neighbour = write(&store, &page(9)).expect("sound");
        write_to(&store, extent, &page(1)).expect("sound");
        blocks.inject(Target::Write, When::Nth(1), fault);
        let stored = write_to(&store, extent, &page(2)).expect("the fault is silent");
        let error = read(&store, stored).expect_err("damaged");
        assert!(
            matches!(&error, StoreError::Corrupt { store, offset: 0, len: 8192, .. }
            if store == "disk"),
            "{fault:?}: {error}"
        );
        let hit = read(&store, neighbour).is_err();
        assert_eq!(hit, fault == Fault::Misdirected, "the overwritten neighbour shows too");
        assert_eq!(store.latched(), None);
    }
}

#[test]
fn a_bit_flipped_on_the_way_in_is_corrupt_once() {
    let (blocks, store) = faulty(5);
    let stored = write(&store, &page(1)).expect("sound");
    blocks.inject(Target::Read, When::Nth(1), Fault::FlippedBit);
    let error = read(&store, stored).expect_err("planned");
    assert!(error.to_string().contains("damaged: their checksum is"), "{error}");
    assert_eq!(*read(&store, stored).expect("the device has it right"), *page(1));
}

#[test]
fn a_full_device_is_full_and_not_latched() {
    let (blocks, store) = faulty(6);
    blocks.inject(Target::Grow, When::Nth(1), Fault::Full);
    let error = store.allocate(8192).expect_err("planned");
    assert!(matches!(error, StoreError::Full { asked_bytes: 8192, .. }), "{error}");
    assert_eq!(store.stats().used_bytes, 0, "what was not given is free");
    let extent = store.allocate(8192).expect("room now");
    blocks.inject(Target::Write, When::Nth(1), Fault::Full);
    let error = write_to(&store, extent, &page(1)).expect_err("planned");
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert_eq!(store.latched(), None);
    write_to(&store, extent, &page(1)).expect("room again");
    blocks.inject(Target::Grow, When::Nth(1), Fault::Eio);
    let error = store.allocate(8192).expect_err("planned");
    assert!(matches!(error, StoreError::Grow { .. }), "{error}");
    assert_eq!((store.latched(), store.stats().full), (None, 2));
}

#[test]
fn a_slow_device_is_waited_for() {
    let (blocks, store) = faulty(7);
    blocks.inject(Target::Write, When::Always, Fault::Delay(Duration::from_millis(5)));
    let started = std::time::Instant::now();
    let stored = write(&store, &page(1)).expect("slow");
    assert!(started.elapsed() >= Duration::from_millis(5));
    read(&store, stored).expect("written");
}

/// Under any mixture of faults, a read returns the written bytes or an error, never other bytes.
#[test]
fn no_mixture_of_faults_gives_wrong_bytes() {
    with_seed(|seed| {
        let mut rng = Rng::new(seed);
        for round in 0..50 {
            let (blocks, store) = faulty(rng.next_u64());
            inject_mixture(&blocks, &mut rng);
            let mut kept = Vec::new();
            for value in 0..40u8 {
                if let Ok(stored) = write(&store, &page(value)) {
                    kept.push((stored, value));
                }
            }
            let struck = blocks.struck();
            blocks.heal();
            let wrong = |(stored, value): &(Stored, u8)| {
                read(&store, *stored).is_ok_and(|data| *data != *page(*value))
            };
            assert!(!kept.iter().any(wrong), "round {round}: {struck:?}");
            let silent = |fault: &Fault| !matches!(fault, Fault::Eio | Fault::Full | Fault::Short);
            let unharmed = !struck.iter().any(|(_, fault)| silent(fault));
            let readable = kept.iter().filter(|(stored, _)| read(&store, *stored).is_ok()).count();
            assert!(!unharmed || readable == kept.len(), "round {round}: {struck:?}");
        }
    });
}

fn inject_mixture(blocks: &FaultyBlocks, rng: &mut Rng) {
    let faults = [
        Fault::Eio,
        Fault::Full,
        Fault::Short,
        Fault::Torn,
        Fault::Lost,
        Fault::Misdirected,
        Fault::FlippedBit,
    ];
    for fault in faults.into_iter().filter(|_| rng.one_in(2)).collect::<Vec<_>>() {
        blocks.inject(Target::Write, When::OneIn(10 + rng.below(30)), fault);
    }
}

#[test]
fn a_full_file_system_is_full_and_serves_again() {
    let small = or_skip("a small file system", SmallFileSystem::mount(8 * MIB));
    let Some(small) = small else { return };
    for choice in [EngineChoice::Uring, EngineChoice::Pread] {
        let path = small.path().join("store");
        let store = Store::open_file_with(&path, Some(64 * MIB), choice).expect("writable");
        let mut extents = Vec::new();
        let error = loop {
            match store.allocate(MIB) {
                Ok(extent) => extents.push(extent),
                Err(error) => break error,
            }
        };
        let text = error.to_string();
        assert!(matches!(error, StoreError::Full { asked_bytes: MIB, .. }), "{text}");
        assert!(
            text.contains(&path.display().to_string()) && text.contains("1MiB asked"),
            "{text}"
        );
        assert!(
            matches!(error, StoreError::Full { capacity_bytes, .. } if capacity_bytes <= 8 * MIB)
        );
        assert!((6..=8).contains(&extents.len()), "{} of 8 MiB were given", extents.len());
        store.free(extents.pop().expect("some were given"));
        write(&store, &page(1)).expect("room after freeing");
        assert_eq!(store.latched(), None);
        drop(store);
        std::fs::remove_file(&path).expect("created above");
    }
}
