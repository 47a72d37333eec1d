//! Model test: the pool against a map, with random operations, evictions, store failures and
//! concurrent readers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::common::{KIB, MIB, pool, space, stamp};
use proptest::prelude::*;
use terrace_pool::{PageRef, Pinned, Pool, PoolError, Space};
use terrace_store::{MemoryBlocks, Store};
use terrace_testkit::{Fault, FaultyBlocks, Target, When};

#[derive(Clone, Debug)]
enum Op {
    Allocate {
        len: usize,
    },
    Write {
        nth: usize,
        byte: u8,
    },
    Read {
        nth: usize,
    },
    Pin {
        nth: usize,
    },
    Unpin {
        nth: usize,
    },
    Persist {
        nth: usize,
    },
    Free {
        nth: usize,
    },
    Evict {
        mib: u64,
    },
    Prefetch {
        nth: usize,
    },
    /// Makes the store fail one read in so many, until it is healed.
    Break {
        one_in: u64,
    },
    Heal,
}

fn ops() -> impl Strategy<Value = Op> {
    let nth = 0..64_usize;
    prop_oneof![
        4 => (1..300 * KIB).prop_map(|len| Op::Allocate { len }),
        4 => (nth.clone(), any::<u8>()).prop_map(|(nth, byte)| Op::Write { nth, byte }),
        6 => nth.clone().prop_map(|nth| Op::Read { nth }),
        1 => nth.clone().prop_map(|nth| Op::Pin { nth }),
        2 => nth.clone().prop_map(|nth| Op::Unpin { nth }),
        1 => nth.clone().prop_map(|nth| Op::Persist { nth }),
        2 => nth.clone().prop_map(|nth| Op::Free { nth }),
        1 => (0..3_u64).prop_map(|mib| Op::Evict { mib }),
        1 => nth.prop_map(|nth| Op::Prefetch { nth }),
        1 => (1..4_u64).prop_map(|one_in| Op::Break { one_in }),
        1 => Just(Op::Heal),
    ]
}

/// A page and its expected contents.
struct Known {
    page: PageRef,
    byte: u8,
    durable: bool,
}

#[derive(Default)]
struct Model {
    pages: BTreeMap<u64, Known>,
    /// Pins, each with the byte that it must show for as long as it lives, and its page's id.
    pins: Vec<(Pinned, u8, u64)>,
    /// True if the store may fail reads.
    broken: bool,
    /// Number of reads that the store failed.
    failures: usize,
}

impl Model {
    /// Returns the pool's answer, or `None` if the store failed and was allowed to.
    fn answer<T>(&mut self, answer: Result<T, PoolError>) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(PoolError::Store(_)) if self.broken => {
                self.failures += 1;
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn set_faults(&mut self, blocks: &FaultyBlocks, one_in: Option<u64>) {
        blocks.heal();
        self.broken = one_in.is_some();
        for fault in [Fault::Eio, Fault::FlippedBit] {
            if let Some(one_in) = one_in {
                blocks.inject(Target::Read, When::OneIn(one_in), fault);
            }
        }
    }

    fn nth(&self, nth: usize) -> Option<u64> {
        let keys: Vec<_> = self.pages.keys().copied().collect();
        (!keys.is_empty()).then(|| keys[nth % keys.len()])
    }

    fn pinned(&self, id: u64) -> bool {
        self.pins.iter().any(|pin| pin.2 == id)
    }

    fn apply(&mut self, space: &Space, blocks: &FaultyBlocks, op: &Op) {
        match op {
            Op::Break { one_in } => self.set_faults(blocks, Some(*one_in)),
            Op::Heal => self.set_faults(blocks, None),
            Op::Allocate { len } => {
                let (page, bytes) = space.allocate(*len).expect("the store has room");
                assert!(bytes.iter().all(|byte| *byte == 0));
                drop(bytes);
                let new = Known { page, byte: 0, durable: false };
                assert!(self.pages.insert(page.id_bits(), new).is_none(), "an id given twice");
            }
            Op::Evict { mib } => {
                space.pool_handle().release_clean(mib * MIB);
            }
            Op::Unpin { nth } => {
                if !self.pins.is_empty() {
                    let (pin, byte, _) = self.pins.remove(nth % self.pins.len());
                    assert!(pin.iter().all(|b| *b == byte), "a pinned page changed");
                }
            }
            Op::Write { nth, .. }
            | Op::Read { nth }
            | Op::Pin { nth }
            | Op::Persist { nth }
            | Op::Free { nth }
            | Op::Prefetch { nth } => {
                if let Some(id) = self.nth(*nth) {
                    self.apply_to(space, op, id);
                }
            }
        }
    }

    fn apply_to(&mut self, space: &Space, op: &Op, id: u64) {
        let pinned = self.pinned(id);
        let Known { mut page, mut byte, mut durable } = self.pages.remove(&id).expect("chosen");
        match op {
            Op::Write { byte: new, .. } if !durable && !pinned => {
                if let Some(mut bytes) = self.answer(space.write(&mut page)) {
                    bytes.fill(*new);
                    byte = *new;
                }
            }
            Op::Read { .. } => {
                if let Some(bytes) = self.answer(space.read(&mut page)) {
                    assert!(bytes.iter().all(|found| *found == byte));
                }
            }
            // Few enough pins to leave room for the other pages.
            Op::Pin { .. } if self.pins.len() < 4 => {
                if let Some(bytes) = self.answer(space.read(&mut page)) {
                    self.pins.push((bytes.pin(), byte, id));
                }
            }
            Op::Persist { .. } => {
                let done = space.persist(std::slice::from_mut(&mut page));
                durable |= self.answer(done).is_some();
            }
            Op::Free { .. } if !pinned => return space.free(page).expect("its own page"),
            Op::Prefetch { .. } => space.prefetch(&[page]),
            _ => {}
        }
        self.pages.insert(id, Known { page, byte, durable });
    }
}

trait IdBits {
    fn id_bits(&self) -> u64;
}

impl IdBits for PageRef {
    fn id_bits(&self) -> u64 {
        PageRef::to_bits(*self) >> 28
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_pool_is_a_map(ops in prop::collection::vec(ops(), 1..200), tiers in 0..3_usize) {
        let lower = [MIB, 2 * MIB];
        let blocks = Arc::new(FaultyBlocks::new(Arc::new(MemoryBlocks::new(64 * MIB)), 1));
        let store = Store::open(blocks.clone(), "faulty", 64 * MIB).expect("opens");
        let config = super::common::config(3 * MIB, &lower[..tiers], Some(Arc::new(store)));
        let pool = Pool::new(config).expect("opens");
        let space = space(&pool);
        let mut model = Model::default();
        for op in &ops {
            model.apply(&space, &blocks, op);
        }
        model.set_faults(&blocks, None);
        for known in model.pages.values_mut() {
            let bytes = space.read(&mut known.page).expect("there");
            prop_assert!(bytes.iter().all(|byte| *byte == known.byte));
        }
        for known in model.pages.values() {
            space.free(known.page).expect("its own page");
        }
        drop(model);
        super::common::comes_to_hold(&pool, 0, 0);
    }
}

/// Runs writers and readers on more pages than DRAM holds, for `TERRACE_SOAK_SECONDS` or a second.
#[test]
fn churn_loses_nothing() {
    let each = terrace_testkit::soak_time() / 2;
    for tiers in [&[][..], &[2 * MIB][..]] {
        churn(&pool(4 * MIB, tiers), std::time::Instant::now() + each);
    }
}

/// Runs writers and readers on 13 MiB of pages until `end`, and asserts that some were evicted.
pub(super) fn churn(pool: &Pool, end: std::time::Instant) {
    let space = space(pool);
    let lens = [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB];
    // A page's round is known exactly, since it changes under this lock.
    let pages: Vec<Mutex<(PageRef, usize)>> = (0..160)
        .map(|n| {
            let (page, mut bytes) = space.allocate(lens[n % 4]).expect("room");
            bytes.fill(stamp(n, 0));
            Mutex::new((page, 0))
        })
        .collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let (space, pages, stop) = (&space, &pages, &stop);
            scope.spawn(move || {
                let mut n = thread * 40;
                while !stop.load(Ordering::Relaxed) {
                    n = (n * 7 + 11 + thread) % pages.len();
                    let mut known = pages[n].lock().expect("no panic");
                    let (page, round) = &mut *known;
                    if n % 3 == 0 {
                        let mut bytes = space.write(page).expect("there");
                        assert!(bytes.iter().all(|byte| *byte == stamp(n, *round)), "page {n}");
                        *round += 1;
                        bytes.fill(stamp(n, *round));
                    } else {
                        let bytes = space.read(page).expect("there");
                        assert!(bytes.iter().all(|byte| *byte == stamp(n, *round)), "page {n}");
                    }
                }
            });
        }
        scope.spawn(|| {
            while std::time::Instant::now() < end {
                pool.release_clean(MIB);
                std::thread::sleep(std::time::Duration::from_millis(3));
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
    assert!(pool.stats().loads > 0, "nothing was ever evicted: {:?}", pool.stats());
}
