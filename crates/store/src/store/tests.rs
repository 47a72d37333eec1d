use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::size::MIB;

use super::*;
use crate::memory_blocks::MemoryBlocks;

fn memory(capacity_bytes: u64) -> Store {
    let blocks = Arc::new(MemoryBlocks::new(capacity_bytes));
    Store::open(blocks, "memory", capacity_bytes).expect("a capacity of pages")
}

fn page(value: u8) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(PAGE_BYTES);
    buffer.fill(value);
    buffer
}

fn write(store: &Store, extent: Extent, data: &[u8]) -> Result<Stored, StoreError> {
    store.write_batch(&[Write { extent, data }]).remove(0)
}

fn read(store: &Store, stored: Stored, data: &mut [u8]) -> Result<(), StoreError> {
    store.read_batch(&mut [Read { stored, data }]).remove(0)
}

#[test]
fn what_is_written_is_read_and_stats_follow() {
    let store = memory(MIB);
    let extent = store.allocate(1).expect("room");
    assert_eq!(extent, Extent { offset_bytes: 0, len_bytes: 4096 });
    let stored = write(&store, extent, &page(3)).expect("memory does not fail");
    let mut data = page(0);
    read(&store, stored, &mut data).expect("written above");
    assert_eq!(&*data, &*page(3));
    let stats = store.stats();
    assert_eq!((stats.reads, stats.read_bytes, stats.writes), (1, 4096, 1));
    assert_eq!((stats.used_bytes, stats.largest_free_bytes), (4096, MIB - 4096));
    store.free(extent);
    assert_eq!(store.stats().used_bytes, 0);
}

#[test]
fn bad_buffers_fail_alone_and_by_name() {
    let store = memory(MIB);
    let good = store.allocate(4096).expect("room");
    let other = store.allocate(8192).expect("room");
    let data = AlignedBuffer::zeroed(3 * PAGE_BYTES);
    let writes = [
        Write { extent: other, data: &data[..4096] },
        Write { extent: good, data: &data[..4096] },
        Write { extent: good, data: &data[1..4097] },
    ];
    let results = store.write_batch(&writes);
    assert!(matches!(&results[0], Err(StoreError::Invalid { store, .. }) if store == "memory"));
    assert!(results[1].is_ok());
    assert!(matches!(&results[2], Err(StoreError::Invalid { .. })));
}

#[test]
fn a_reference_to_other_bytes_is_corrupt() {
    let store = memory(MIB);
    let first = store.allocate(4096).expect("room");
    let second = store.allocate(4096).expect("room");
    let stored = write(&store, first, &page(1)).expect("memory does not fail");
    write(&store, second, &page(1)).expect("memory does not fail");
    let elsewhere = Stored { extent: second, checksum: stored.checksum };
    let error = read(&store, elsewhere, &mut page(0)).expect_err("another position");
    assert!(matches!(error, StoreError::Corrupt { offset: 4096, len: 4096, .. }), "{error}");
    assert_eq!(store.stats().corrupt_reads, 1);
    assert_eq!(store.latched(), None);
}

#[test]
fn a_full_store_says_so_and_serves_again_after_freeing() {
    let store = memory(4 * 4096);
    let extents: Vec<Extent> = (0..4).map(|_| store.allocate(4096).expect("room")).collect();
    let error = store.allocate(4096).expect_err("no room");
    assert!(matches!(error, StoreError::Full { asked_bytes: 4096, free_bytes: 0, .. }), "{error}");
    store.free(extents[1]);
    store.free(extents[3]);
    let error = store.allocate(8192).expect_err("two holes of one page");
    assert!(
        matches!(error, StoreError::Full { free_bytes: 8192, largest_free_bytes: 4096, .. }),
        "{error}"
    );
    assert_eq!(store.allocate(4096).expect("a hole"), extents[1]);
}

#[test]
fn claims_rebuild_the_map() {
    let store = memory(MIB);
    let claimed = Extent { offset_bytes: 8192, len_bytes: 4096 };
    store.claim(claimed).expect("free");
    let error = store.claim(claimed).expect_err("claimed above");
    assert!(error.to_string().contains("overlaps an extent in use"), "{error}");
    assert_eq!(store.allocate(8192).expect("room").offset_bytes, 0);
    assert_eq!(store.allocate(4096).expect("room").offset_bytes, 12288);
    let beyond = Extent { offset_bytes: MIB, len_bytes: 4096 };
    assert!(matches!(store.claim(beyond), Err(StoreError::Claim { .. })));
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "free already"))]
fn a_double_free_is_caught() {
    let store = memory(MIB);
    let extent = store.allocate(4096).expect("room");
    store.free(extent);
    store.free(extent);
    assert_eq!(store.stats().double_frees, 1);
}

#[test]
#[cfg_attr(miri, ignore = "checksums of megabytes take Miri minutes")]
fn trim_gives_memory_back_and_keeps_what_is_used() {
    let blocks = Arc::new(MemoryBlocks::new(8 * MIB));
    let store = Store::open(Arc::clone(&blocks) as Arc<dyn Blocks>, "memory", 8 * MIB)
        .expect("a capacity of pages");
    let data = AlignedBuffer::zeroed(usize::try_from(MIB).expect("small"));
    let stored: Vec<Stored> = (0..8)
        .map(|_| store.allocate(MIB).expect("room"))
        .map(|extent| write(&store, extent, &data).expect("memory does not fail"))
        .collect();
    assert_eq!(blocks.resident_bytes(), 8 * MIB);
    for index in [1, 6, 7] {
        store.free(stored[index].extent);
    }
    store.trim();
    assert_eq!(blocks.resident_bytes(), 5 * MIB);
    assert_eq!(store.stats().extent_bytes, 6 * MIB);
    let mut buffer = AlignedBuffer::zeroed(data.len());
    for index in [0, 2, 3, 4, 5] {
        read(&store, stored[index], &mut buffer).expect("still in use");
    }
    assert_eq!(store.allocate(MIB).expect("the hole"), stored[1].extent);
}

#[test]
fn impossible_stores_are_refused() {
    let open = |capacity| Store::open(Arc::new(MemoryBlocks::new(MIB)), "tiny", capacity);
    assert!(matches!(open(4095), Err(StoreError::Invalid { .. })));
    let store = open(2 * 4096 + 5).expect("two pages");
    assert_eq!(store.capacity_bytes(), 8192);
    assert!(matches!(store.allocate(0), Err(StoreError::Invalid { .. })));
    assert!(matches!(store.allocate(u64::MAX), Err(StoreError::Invalid { .. })));
}

#[test]
fn threads_never_share_an_extent() {
    let store = memory(4 * MIB);
    std::thread::scope(|scope| {
        for seed in 0..4u8 {
            let store = &store;
            scope.spawn(move || churn(store, seed));
        }
    });
    assert_eq!(store.stats().used_bytes, 0);
    assert_eq!(store.stats().double_frees, 0);
}

/// Allocates, writes, reads back and frees with a pattern of its own: an extent given to two
/// threads would be detected as corrupt.
fn churn(store: &Store, seed: u8) {
    let mut held: Vec<Stored> = Vec::new();
    let mut state = u32::from(seed) + 1;
    let rounds = if cfg!(miri) { 6 } else { 400u32 };
    for round in 0..rounds {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let len = 4096 * (1 + usize::try_from(state >> 24).expect("small") % 8);
        let mut data = AlignedBuffer::zeroed(len);
        data.fill(seed ^ u8::try_from(round % 251).expect("small"));
        match store.allocate(to_u64(len)) {
            Ok(extent) => held.push(write(store, extent, &data).expect("memory does not fail")),
            Err(error) => assert!(matches!(error, StoreError::Full { .. }), "{error}"),
        }
        if round % 50 == 5 {
            store.trim();
        }
        if round % 3 == 2 && !held.is_empty() {
            release(store, held.swap_remove(0));
        }
    }
    held.into_iter().for_each(|stored| release(store, stored));
}

fn release(store: &Store, stored: Stored) {
    let mut data = AlignedBuffer::zeroed(usize::try_from(stored.extent.len_bytes).expect("small"));
    read(store, stored, &mut data).expect("no other writer");
    store.free(stored.extent);
}
