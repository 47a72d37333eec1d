//! Conformance tests of both placements, over every kind of lower tiers.

use std::sync::Arc;

use super::common::{KIB, MIB, comes_to_hold, config, pool, space, stamp, store};
use terrace_pool::{
    Adaptive, PAGE_MAX_BYTES, PageRef, Pages, Pool, PoolError, Residency, Spitfire,
};

/// Fills more pages than DRAM holds, of all sizes, and finds every byte again, twice.
pub(super) fn keeps_every_byte(pages: &impl Pages) {
    let lens = [4 * KIB, 12 * KIB, 64 * KIB, 100 * KIB, 256 * KIB, 700 * KIB];
    let mut held: Vec<(PageRef, usize)> = Vec::new();
    for n in 0..120 {
        let len = lens[n % lens.len()];
        let (page, mut bytes) = pages.allocate(len).expect("the store has room");
        assert!(bytes.len() >= len && bytes.iter().all(|byte| *byte == 0), "new pages are zero");
        bytes.fill(stamp(n, 0));
        drop(bytes);
        held.push((page, bytes_len(len)));
    }
    for round in 0..2 {
        for (n, (page, len)) in held.iter_mut().enumerate() {
            let mut bytes = pages.write(page).expect("the page is there");
            assert_eq!(bytes.len(), *len);
            assert!(bytes.iter().all(|byte| *byte == stamp(n, round)), "page {n} lost its bytes");
            bytes.fill(stamp(n, round + 1));
        }
    }
    for (n, (page, _)) in held.iter_mut().enumerate() {
        let bytes = pages.read(page).expect("the page is there");
        assert!(bytes.iter().all(|byte| *byte == stamp(n, 2)));
    }
    for (page, _) in &held {
        pages.free(*page).expect("its own page");
    }
    let gone = pages.read(&mut held[0].0);
    assert!(matches!(gone.err(), Some(PoolError::NoSuchPage { .. })));
}

fn bytes_len(len: usize) -> usize {
    len.next_multiple_of(4 * KIB)
}

#[test]
fn every_byte_is_kept_over_dram_and_store() {
    keeps_every_byte(&space(&pool(4 * MIB, &[])));
}

#[test]
fn every_byte_is_kept_over_three_tiers() {
    keeps_every_byte(&space(&pool(4 * MIB, &[2 * MIB])));
}

#[test]
fn every_byte_is_kept_over_four_tiers() {
    keeps_every_byte(&space(&pool(2 * MIB, &[2 * MIB, 8 * MIB])));
}

#[test]
fn every_byte_is_kept_by_every_policy() {
    let policies: [Arc<dyn Residency>; 4] = [
        Arc::new(Spitfire::EAGER),
        Arc::new(Spitfire::LAZY),
        Arc::new(Spitfire { demote: 0.5, fetch_below: 0.5, ..Spitfire::EAGER }),
        Arc::new(Adaptive::default()),
    ];
    for policy in policies {
        let mut config = config(3 * MIB, &[2 * MIB, 4 * MIB], Some(store(64 * MIB)));
        config.residency = policy;
        keeps_every_byte(&space(&Pool::new(config).expect("opens")));
    }
}

#[test]
fn pages_come_in_where_the_policy_says() {
    let mut config = config(4 * MIB, &[8 * MIB], Some(store(64 * MIB)));
    config.residency = Arc::new(Spitfire { promote_on_read: 0.0, ..Spitfire::LAZY });
    let pool = Pool::new(config).expect("opens");
    let pages = space(&pool);
    let mut refs: Vec<_> = (0..512).map(|_| pages.allocate(4 * KIB).expect("room").0).collect();
    pages.persist(&mut refs).expect("written");
    pool.release_clean(u64::MAX);
    let stored: Vec<_> =
        refs.iter().copied().filter(|page| pages.tier_of(*page).is_none()).collect();
    for page in stored.clone() {
        drop(pages.read(&mut page.without_hint()).expect("there"));
    }
    let in_tier = |tier| stored.iter().filter(|page| pages.tier_of(**page) == Some(tier)).count();
    assert_eq!((in_tier(0), in_tier(1)), (0, stored.len()), "fetched below, and never promoted");
    assert_eq!(pool.stats().tiers[0].promoted, 0);
}

#[test]
fn every_byte_is_kept_without_a_store() {
    let pool = Pool::new(config(4 * MIB, &[64 * MIB], None)).expect("opens");
    keeps_every_byte(&space(&pool));
}

#[test]
fn freed_pages_leave_nothing_behind() {
    let pool = pool(4 * MIB, &[2 * MIB]);
    let pages = space(&pool);
    keeps_every_byte(&pages);
    comes_to_hold(&pool, 0, 0);
    assert_eq!(pages.resident_bytes(), 0);
}

#[test]
fn a_dropped_space_leaves_nothing_behind() {
    let pool = pool(4 * MIB, &[2 * MIB]);
    let pages = space(&pool);
    let mut kept = None;
    for n in 0..64 {
        let (page, bytes) = pages.allocate(256 * KIB).expect("room");
        drop(bytes);
        if n == 63 {
            let mut page = page;
            kept = Some(pages.read(&mut page).expect("there").pin());
        }
    }
    drop(pages);
    assert_eq!(pool.spaces().len(), 0);
    comes_to_hold(&pool, 256 * KIB, 0);
    assert_eq!(kept.as_deref().map(<[u8]>::len), Some(256 * KIB));
    drop(kept);
    comes_to_hold(&pool, 0, 0);
}

#[test]
fn durable_pages_outlive_their_space_and_cannot_be_written() {
    let pool = pool(4 * MIB, &[]);
    let pages = space(&pool);
    let (mut page, mut bytes) = pages.allocate(64 * KIB).expect("room");
    bytes.fill(7);
    drop(bytes);
    let stored = pages.persist(std::slice::from_mut(&mut page)).expect("the store writes");
    let refused = pages.write(&mut page);
    assert!(matches!(refused.err(), Some(PoolError::Durable { .. })));
    drop(pages);
    comes_to_hold(&pool, 0, 64 * KIB);
    let pages = space(&pool);
    let mut page = pages.adopt(stored[0]).expect("the extent is a page");
    assert!(pages.read(&mut page).expect("readable").iter().all(|byte| *byte == 7));
    pages.free(page).expect("its own page");
    comes_to_hold(&pool, 0, 0);
}

#[test]
fn impossible_pages_are_refused() {
    let pages = space(&pool(4 * MIB, &[]));
    for len in [0, PAGE_MAX_BYTES + 1] {
        let refused = pages.allocate(len).err();
        assert!(matches!(refused, Some(PoolError::PageSize { .. })), "{len}: {refused:?}");
    }
    let too_large = pages.allocate(5 * 1024 * KIB).expect_err("larger than DRAM");
    assert!(too_large.to_string().contains("4MiB"), "{too_large}");
    let mut stranger = PageRef::from_bits(u64::MAX);
    assert!(matches!(pages.read(&mut stranger).err(), Some(PoolError::NoSuchPage { .. })));
}

/// Pages are charged by their length, so the shortest pages of a size class fill memory like any
/// others.
#[test]
fn pages_of_any_length_fill_memory() {
    for len in [4 * KIB, 12 * KIB, 36 * KIB, 132 * KIB, 1028 * KIB] {
        let mut config = config(32 * MIB, &[], Some(store(64 * MIB)));
        config.patience = std::time::Duration::from_millis(50);
        let pool = Pool::new(config).expect("opens");
        let pages = pool.create_space("pins", None).expect("room");
        let allocate = || pages.allocate(len).map(|(_, bytes)| bytes.downgrade().pin());
        let pins: Vec<_> = std::iter::from_fn(|| allocate().ok()).collect();
        let fit = 32 * 1024 * KIB / len;
        assert!(pins.len() + 1 >= fit, "{} of {fit} pages of {len} bytes", pins.len());
    }
}

#[test]
fn all_frames_pinned_is_an_error_that_names_the_holder() {
    let mut config = config(MIB, &[], Some(store(64 * MIB)));
    let patience = std::time::Duration::from_millis(500);
    config.patience = patience;
    let pool = Pool::new(config).expect("opens");
    let pages = pool.create_space("greedy", None).expect("room");
    let mut pins = Vec::new();
    let error = loop {
        match pages.allocate(128 * KIB) {
            Ok((_, bytes)) => pins.push(bytes.downgrade().pin()),
            Err(error) => break error,
        }
    };
    assert_eq!(pins.len(), 8);
    let text = error.to_string();
    assert!(matches!(error, PoolError::Exhausted { .. }) && text.contains("greedy"), "{text}");
    let at_once = pages.try_allocate(128 * KIB).err();
    assert!(
        matches!(at_once, Some(PoolError::Exhausted { waited, .. }) if waited < patience),
        "{at_once:?}"
    );
    drop(pins);
    assert!(pages.try_allocate(128 * KIB).is_ok());
    assert!(pages.allocate(128 * KIB).is_ok(), "the pool goes on when pins are gone");
}

/// Without an overdraft, two threads that hold all frames and need more would deadlock.
#[test]
fn an_overdraft_lets_holders_go_on_and_is_paid() {
    let mut config = config(MIB, &[], Some(store(64 * MIB)));
    config.patience = std::time::Duration::from_millis(400);
    config.overdraft_bytes = 256 * KIB as u64;
    let ledger = config.ledger.clone();
    let pool = Pool::new(config).expect("opens");
    let pages = pool.create_space("greedy", None).expect("room");
    let mut pins: Vec<_> =
        (0..8).map(|_| pages.allocate(128 * KIB).expect("room").1.downgrade().pin()).collect();
    assert!(pages.try_allocate(128 * KIB).is_err(), "whoever does not wait gets none");
    for owed in 1..=2 {
        pins.push(pages.allocate(128 * KIB).expect("owed").1.downgrade().pin());
        assert_eq!((ledger.debt(), pool.stats().owed_frames), (owed * 128 * KIB as u64, owed));
    }
    let refused = pages.allocate(128 * KIB).expect_err("more than may be owed").to_string();
    assert!(refused.contains("1.3MiB latched or pinned"), "{refused}");
    drop(pins);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while ledger.debt() > 0 && std::time::Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(ledger.debt(), 0, "paid without anybody asking");
    assert!(pool.dram_bytes() <= MIB, "{}", pool.dram_bytes());
}

#[test]
fn a_writer_waits_for_pins_and_gives_up_in_the_end() {
    let mut config = config(MIB, &[], Some(store(64 * MIB)));
    config.patience = std::time::Duration::from_millis(50);
    let pages = space(&Pool::new(config).expect("opens"));
    let (mut page, bytes) = pages.allocate(4 * KIB).expect("room");
    let pin = bytes.downgrade().pin();
    let refused = pages.write(&mut page).expect_err("pinned");
    assert!(matches!(refused, PoolError::LatchTimeout { .. }), "{refused}");
    drop(pin);
    assert!(pages.write(&mut page).is_ok());
}

#[test]
fn an_owned_pin_for_writing_is_alone_until_it_is_dropped() {
    let mut config = config(MIB, &[], Some(store(64 * MIB)));
    config.patience = std::time::Duration::from_millis(50);
    let pages = space(&Pool::new(config).expect("opens"));
    let (mut page, bytes) = pages.allocate(256 * KIB).expect("room");
    let mut pin = bytes.pin();
    std::thread::scope(|scope| {
        scope.spawn(|| pin.fill(7));
    });
    assert!(matches!(pages.read(&mut page), Err(PoolError::LatchTimeout { .. })));
    let others: Vec<_> = (0..16).map(|_| pages.allocate(256 * KIB).expect("room").0).collect();
    assert_eq!(pages.tier_of(page), Some(0), "the pinned page stayed, others made room");
    assert!(others.iter().any(|other| pages.tier_of(*other).is_none()));
    drop(pin);
    for _ in 0..16 {
        pages.allocate(256 * KIB).expect("room");
    }
    assert_eq!(pages.tier_of(page), None, "it left as soon as it could");
    assert!(pages.read(&mut page).expect("written back").iter().all(|byte| *byte == 7));
    let pin = pages.write(&mut page).expect("free").pin().downgrade();
    assert_eq!(pages.read(&mut page).expect("shared now")[0], 7);
    pages.free(page).expect("its own page");
    assert!(pin.iter().all(|byte| *byte == 7), "a freed page goes with its pin");
    drop(pin);
    assert!(matches!(pages.read(&mut page), Err(PoolError::NoSuchPage { .. })));
}

#[test]
fn fetches_pin_all_or_say_why() {
    let pool = pool(4 * MIB, &[]);
    let pages = space(&pool);
    let refs: Vec<_> = (0..48)
        .map(|n| {
            let (page, mut bytes) = pages.allocate(256 * KIB).expect("room");
            bytes.fill(stamp(n, 0));
            page
        })
        .collect();
    for (group, chunk) in refs.chunks(8).enumerate() {
        let pins = pages.fetch(chunk).wait().expect("8 of 16 frames");
        for (n, pin) in pins.iter().enumerate() {
            assert!(pin.iter().all(|byte| *byte == stamp(group * 8 + n, 0)));
        }
    }
    let too_many = pages.fetch(&refs).wait().expect_err("12 MiB in 4");
    assert!(matches!(too_many, PoolError::Exhausted { .. }), "{too_many}");
    drop(pages.fetch(&refs));
    pages.prefetch(&refs);
    assert!(pages.fetch(&refs[..4]).wait().is_ok(), "an abandoned fetch holds nothing");
}

#[test]
fn release_clean_gives_the_ledger_its_bytes() {
    let mut config = config(8 * MIB, &[], Some(store(64 * MIB)));
    config.floor_bytes = MIB;
    let ledger = config.ledger.clone();
    let pool = Pool::new(config).expect("opens");
    assert_eq!(ledger.granted(), MIB, "the floor is taken at once");
    let pages = space(&pool);
    let mut refs: Vec<_> = (0..28).map(|_| pages.allocate(256 * KIB).expect("room").0).collect();
    assert!(ledger.available() < 2 * MIB);
    pages.persist(&mut refs).expect("the store writes");
    assert!(pool.release_clean(4 * MIB) >= 4 * MIB);
    assert!(ledger.available() >= 4 * MIB);
    pool.release_clean(u64::MAX);
    assert!(ledger.granted() >= MIB && ledger.granted() < 2 * MIB, "down to the floor");
    for page in &mut refs {
        pages.read(page).expect("evicted pages come back");
    }
}

#[test]
fn a_repair_changes_a_hint_and_nothing_else() {
    let pool = pool(8 * MIB, &[]);
    let pages = space(&pool);
    // Zero bytes are a reference to page 0, which must not be the target.
    let zero = pages.allocate(4096).expect("room").0;
    let target = pages.allocate(4096).expect("room").0;
    assert_ne!(zero, target);
    let (mut holder, mut bytes) = pages.allocate(4096).expect("room");
    bytes[8..16].copy_from_slice(&target.without_hint().to_bits().to_le_bytes());
    drop(bytes);
    pages.persist(&mut [holder]).expect("the store writes");
    let mut held = pages.read(&mut holder).expect("there");
    assert!(!held.repair(16, target), "no reference there");
    assert!(!held.repair(4089, target) && !held.repair(usize::MAX, target), "beyond the page");
    let other = pages.read(&mut holder).expect("there");
    assert!(!held.repair(8, target), "others read it");
    drop(other);
    assert!(held.repair(8, target));
    assert_eq!(held[8..16], target.to_bits().to_le_bytes());
    assert!(held[..8].iter().chain(&held[16..]).all(|byte| *byte == 0));
    drop(held);
    pool.release_clean(u64::MAX);
    assert_eq!(pages.tier_of(holder), None, "a repaired page is still clean");
    let held = pages.read(&mut holder).expect("the checksum is right");
    assert_eq!(held[8..16], target.without_hint().to_bits().to_le_bytes());
}

#[test]
fn release_clean_goes_on_until_it_has_the_bytes() {
    let config = config(112 * MIB, &[], Some(store(128 * MIB)));
    let ledger = config.ledger.clone();
    let pool = Pool::new(config).expect("opens");
    let pages = space(&pool);
    let mut refs: Vec<_> =
        (0..96 * MIB / 4096).map(|_| pages.allocate(4 * KIB).expect("room").0).collect();
    pages.persist(&mut refs).expect("the store writes");
    let before = ledger.granted();
    let given = pool.release_clean(u64::MAX);
    assert_eq!(given, before - ledger.granted(), "what the ledger got");
    assert!(ledger.granted() < 8 * MIB, "{} bytes stayed", ledger.granted());
}

#[test]
fn endless_patience_is_a_long_one() {
    let mut config = config(MIB, &[], Some(store(4 * MIB)));
    config.patience = std::time::Duration::MAX;
    let pages = space(&Pool::new(config).expect("opens"));
    let (page, bytes) = pages.allocate(4 * KIB).expect("room");
    drop(bytes);
    let mut unhinted = PageRef::from_bits(page.to_bits() | 0xFFF_FFFF);
    assert!(pages.read(&mut unhinted).is_ok());
}

#[test]
fn optimistic_reads_see_whole_versions() {
    let pool = pool(4 * MIB, &[]);
    let pages = space(&pool);
    let (page, bytes) = pages.allocate(4 * KIB).expect("room");
    drop(bytes);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut page = page;
            for round in 0..20_000_u64 {
                let mut bytes = pages.write(&mut page).expect("there");
                bytes[..8].copy_from_slice(&round.to_le_bytes());
                bytes[2048..2056].copy_from_slice(&round.to_le_bytes());
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let mut page = page;
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            let seen = pages.optimistic(&mut page).expect("there");
            let (first, second) = (seen.u64_at(0), seen.u64_at(2048));
            assert!(!seen.is_valid() || first == second, "a torn read was let through");
        }
    });
}

#[test]
fn optimistic_bytes_are_those_of_the_page() {
    let pages = space(&pool(4 * MIB, &[]));
    let (mut page, mut bytes) = pages.allocate(4 * KIB).expect("room");
    bytes.iter_mut().enumerate().for_each(|(n, byte)| *byte = stamp(n, 1));
    let copy = bytes.to_vec();
    drop(bytes);
    let seen = pages.optimistic(&mut page).expect("there");
    for (offset, len) in (0..40).flat_map(|offset| (0..40).map(move |len| (offset, len))) {
        for offset in [offset, 4 * KIB - 40 + offset - len.min(offset)] {
            let end = offset + len;
            let mut into = vec![0; len];
            assert_eq!(seen.copy(offset, &mut into), end <= 4 * KIB);
            if end > 4 * KIB {
                assert_eq!(seen.compare(offset, len, b""), None);
                continue;
            }
            assert_eq!(into, copy[offset..end]);
            let others = [&into[..], &into[..len / 2], &copy[offset..], &copy[1..], b""];
            for other in others {
                assert_eq!(seen.compare(offset, len, other), Some(into.as_slice().cmp(other)));
            }
        }
    }
    assert_eq!(seen.u8_at(4095), Some(copy[4095]));
    assert_eq!(seen.u16_at(4094), Some(u16::from_le_bytes([copy[4094], copy[4095]])));
    assert_eq!((seen.u8_at(4096), seen.u16_at(4095), seen.u32_at(2)), (None, None, None));
    assert_eq!(
        (seen.u64_at(4096), seen.u64_at(4), seen.u32_at(usize::MAX - 3)),
        (None, None, None)
    );
    let numbers: Vec<_> = (0..512).filter_map(|n| seen.u64_at(n * 8)).collect();
    for (first, count) in [(0, 0), (0, 1), (3, 50), (0, 512), (511, 1), (512, 0)] {
        let some = &numbers[first..first + count];
        for bound in [0, numbers[7], numbers[300], u64::MAX] {
            let below = some.iter().filter(|number| **number < bound).count();
            assert_eq!(seen.count_below(first * 8, count, bound), Some(below));
        }
    }
    let beyond = [(4, 1), (0, 513), (4096, 1), (8, usize::MAX / 8), (8, usize::MAX)];
    assert!(beyond.iter().all(|(at, count)| seen.count_below(*at, *count, 1).is_none()));
    assert!(seen.is_valid() && !seen.copy(usize::MAX, &mut [0; 8]));
}

#[test]
fn what_was_seen_is_held_or_written_only_while_it_is_so() {
    let mut config = config(4 * MIB, &[], Some(store(64 * MIB)));
    config.patience = std::time::Duration::from_millis(50);
    let pool = Pool::new(config).expect("opens");
    let pages = space(&pool);
    let (mut page, bytes) = pages.allocate(4 * KIB).expect("room");
    drop(bytes);
    let seen = pages.optimistic(&mut page).expect("there");
    let held = seen.hold().expect("unchanged");
    let waited = seen.upgrade().expect_err("a reader stays");
    assert!(matches!(waited, PoolError::LatchTimeout { .. }), "{waited}");
    drop(held);
    seen.upgrade().expect("free").expect("unchanged").fill(9);
    assert!(!seen.is_valid() && seen.hold().is_none(), "it has been written");
    assert!(seen.upgrade().expect("free").is_none());
    let seen = pages.optimistic(&mut page).expect("there");
    assert_eq!((seen.u8_at(7), seen.is_valid()), (Some(9), true));
    pool.release(u64::MAX);
    assert!(!seen.is_valid() && seen.upgrade().expect("free").is_none(), "it left memory");
    assert!(pages.optimistic_resident(&mut page).is_none());
    pages.load(&mut [page]).expect("the store has it");
    assert_eq!(pages.optimistic_resident(&mut page).and_then(|seen| seen.u8_at(7)), Some(9));
    pages.persist(&mut [page]).expect("the store writes");
    let seen = pages.optimistic(&mut page).expect("there");
    assert!(matches!(seen.upgrade(), Err(PoolError::Durable { .. })));
}
