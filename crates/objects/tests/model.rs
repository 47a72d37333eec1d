//! The store against a plain map: random operations in random order.

use std::collections::{BTreeMap, BTreeSet};

use terrace_objects::{Backing, ObjectConfig, ObjectError, ObjectId, ObjectStore};
use terrace_testkit::{Rng, soak_rounds, with_seed};

const MIB: usize = 1 << 20;

struct Model {
    store: ObjectStore,
    objects: BTreeMap<ObjectId, Vec<u8>>,
    read_only: BTreeSet<ObjectId>,
    reserved: Vec<ObjectId>,
    rng: Rng,
}

impl Model {
    fn new(bytes: usize, seed: u64) -> Self {
        let config = ObjectConfig::new("model", Backing::Dram { bytes });
        let config = ObjectConfig { generations: seed.is_multiple_of(2), ..config };
        Self {
            store: ObjectStore::new(config).expect("memory"),
            objects: BTreeMap::new(),
            read_only: BTreeSet::new(),
            reserved: Vec::new(),
            rng: Rng::new(seed),
        }
    }

    fn len(&mut self) -> usize {
        match self.rng.below(20) {
            0 => 0,
            1..8 => 32,
            8..12 => 16 + self.rng.index(3),
            12..18 => self.rng.index(200),
            18 => 900 + self.rng.index(300),
            _ => self.rng.index(20_000),
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        self.rng.fill(&mut bytes);
        bytes
    }

    fn any(&mut self) -> Option<ObjectId> {
        let from = ObjectId::from_bits(self.rng.below(1 + self.objects.len() as u64 * 2));
        let next = self.objects.range(from..).next().or_else(|| self.objects.iter().next());
        next.map(|(id, _)| *id)
    }

    fn make(&mut self) {
        let bytes = self.bytes();
        let made = match self.rng.below(4) {
            0 => self.store.create(bytes.len()).map(|id| (id, vec![0; bytes.len()])),
            1 if !self.reserved.is_empty() => {
                let n = self.rng.index(self.reserved.len());
                let id = self.reserved[n];
                self.store.create_reserved(id, &bytes).map(|()| {
                    self.reserved.swap_remove(n);
                    (id, bytes)
                })
            }
            _ => self.store.create_with(&bytes).map(|id| (id, bytes)),
        };
        match made {
            Ok((id, bytes)) => {
                assert_ne!(id.to_bits(), 0);
                assert!(self.objects.insert(id, bytes).is_none(), "{id} was given out twice");
                assert!(!self.reserved.contains(&id), "{id} was reserved");
            }
            Err(ObjectError::OutOfMemory { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn make_consecutive(&mut self) {
        let count = 1 + self.rng.index(80);
        let objects: Vec<Vec<u8>> = (0..count).map(|_| self.bytes()).collect();
        let slices: Vec<&[u8]> = objects.iter().map(Vec::as_slice).collect();
        match self.store.create_consecutive(&slices) {
            Ok(first) => {
                for (n, bytes) in (0..).zip(objects) {
                    let id = ObjectId::from_bits(first.to_bits() + n);
                    assert!(self.objects.insert(id, bytes).is_none(), "{id} was given out twice");
                }
            }
            Err(ObjectError::OutOfMemory { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn change(&mut self, id: ObjectId) {
        let (bytes, kind) = (self.bytes(), self.rng.below(4));
        let now = self.objects[&id].clone();
        let (result, then) = match kind {
            0 => {
                let mut same = now.clone();
                self.rng.fill(&mut same);
                (self.store.put(id, &same), same)
            }
            1 => (self.store.replace(id, &bytes), bytes),
            2 => {
                let mut then = now.clone();
                then.resize(bytes.len(), 0);
                (self.store.resize(id, bytes.len()), then)
            }
            _ => {
                let mut then = now.clone();
                let (from, to) = (self.rng.index(now.len() + 1), self.rng.index(now.len() + 1));
                let range = from.min(to)..from.max(to);
                self.rng.fill(&mut then[range.clone()]);
                (self.store.write_at(id, range.start, &then[range]), then)
            }
        };
        match result {
            Ok(()) => {
                assert!(!self.read_only.contains(&id), "{id} is read-only");
                self.objects.insert(id, then);
            }
            Err(ObjectError::ReadOnly(_)) => assert!(self.read_only.contains(&id)),
            Err(ObjectError::OutOfMemory { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn remove(&mut self, id: ObjectId) {
        match self.store.remove(id) {
            Ok(()) => {
                assert!(!self.read_only.contains(&id), "{id} is read-only");
                self.objects.remove(&id);
            }
            Err(ObjectError::ReadOnly(_)) => {
                self.store.set_read_only(id, false).expect("less room");
                self.read_only.remove(&id);
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn pin(&mut self, id: ObjectId) {
        let Ok(pin) = self.store.pin(id) else { return };
        let expected = &self.objects[&id];
        // SAFETY: the pin keeps the object at its address, and no other thread runs.
        let found = unsafe { std::slice::from_raw_parts(pin.as_ptr(), pin.len()) };
        assert_eq!(found, expected);
        if !self.read_only.contains(&id) {
            let longer = expected.len() + 1;
            assert!(matches!(self.store.resize(id, longer), Err(ObjectError::Pinned(_))));
            assert!(matches!(self.store.remove(id), Err(ObjectError::Pinned(_))));
        }
        self.store.defragment();
        assert_eq!(self.store.get_vec(id).expect("there"), *expected);
    }

    fn step(&mut self) {
        let any = self.any();
        match (self.rng.below(100), any) {
            (0..30, _) | (_, None) => self.make(),
            (30..33, _) => self.make_consecutive(),
            (33..36, _) => self.reserved.push(self.store.reserve().expect("ids")),
            (36..38, _) => {
                if let Some(id) = self.reserved.pop() {
                    self.store.release(id).expect("reserved");
                }
            }
            (38..60, Some(id)) => self.change(id),
            (60..85, Some(id)) => self.remove(id),
            (85..87, Some(id)) => {
                let read_only = self.rng.one_in(2);
                if self.store.set_read_only(id, read_only).is_ok() {
                    if read_only {
                        self.read_only.insert(id);
                    } else {
                        self.read_only.remove(&id);
                    }
                }
            }
            (87..89, Some(id)) => self.pin(id),
            (89, _) => drop(self.store.defragment()),
            (_, Some(id)) => {
                assert_eq!(self.store.get_vec(id).expect("there"), self.objects[&id]);
            }
        }
    }

    fn check(&self) {
        for (id, bytes) in &self.objects {
            assert_eq!(self.store.get_vec(*id).as_ref().ok(), Some(bytes), "{id}");
        }
        let checked = self.store.check().expect("in order");
        assert_eq!(checked.objects, self.objects.len() as u64);
        // In the order of their slots, which with generations is not that of the ids.
        let mut found = self.store.ids(ObjectId::from_bits(0), usize::MAX);
        found.sort_unstable();
        assert!(found.iter().eq(self.objects.keys()), "{} of {}", found.len(), self.objects.len());
    }
}

#[test]
fn the_store_is_a_map() {
    with_seed(|seed| {
        let rounds = soak_rounds(if cfg!(miri) { 1 } else { 20 });
        for round in 0..rounds {
            let mut model = Model::new(4 * MIB, seed ^ round);
            let steps = if cfg!(miri) { 60 } else { 6000 };
            for step in 0..steps {
                model.step();
                if step % 500 == 0 {
                    model.check();
                }
            }
            model.check();
            let ids: Vec<ObjectId> = model.objects.keys().copied().collect();
            for id in ids {
                while model.objects.contains_key(&id) {
                    model.remove(id);
                }
            }
            model.check();
            model.store.defragment();
            let stats = model.store.stats();
            assert!(stats.used_bytes == 0 && stats.held_bytes <= 16 * 2 * MIB as u64, "{stats:?}");
        }
    });
}
