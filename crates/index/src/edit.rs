//! Changes to a page of a bucket.

use terrace_pool::PageRef;

use crate::error::Fault;
use crate::hash::{Hash, KeyHash};
use crate::page::{
    EMPTY, Fit, Found, Header, RECORD, REMOVED, SLOT, SLOTS_MIN, TABLE, View, record_bytes,
    slot_at, slot_of,
};

/// Initial table size: one slot for this many bytes of a page.
const BYTES_PER_SLOT: usize = 256;

/// A page for writing. Every method leaves the page valid.
#[derive(Debug)]
pub(crate) struct Edit<'a> {
    bytes: &'a mut [u8],
    header: Header,
}

impl<'a> Edit<'a> {
    /// Initializes an empty page, with room for a record of `need` bytes if possible.
    ///
    /// `slots` is the table size of the previous page of the chain, so that this table need not
    /// grow.
    pub(crate) fn create(bytes: &'a mut [u8], slots: Option<usize>, need: usize) -> Self {
        let len = bytes.len();
        let wanted = slots.unwrap_or_else(|| (len / BYTES_PER_SLOT).next_power_of_two());
        let mut slots = wanted.max(SLOTS_MIN);
        while slots > SLOTS_MIN && TABLE + slots * SLOT + need > len {
            slots /= 2;
        }
        let header = Header { next: None, count: 0, slots, begin: len, live: 0, used: 0 };
        let mut edit = Self { bytes, header };
        edit.clear(slots);
        edit
    }

    pub(crate) fn of(bytes: &'a mut [u8]) -> Result<Self, Fault> {
        let header = Header::read(bytes)?;
        Ok(Self { bytes, header })
    }

    /// The same page for reading.
    pub(crate) fn view(&self) -> Result<View<'_>, Fault> {
        View::of(self.bytes)
    }

    pub(crate) fn set_next(&mut self, next: Option<PageRef>) {
        self.header.next = next;
        self.header.write(self.bytes);
    }

    pub(crate) fn fit(&self, need: usize) -> Fit {
        self.header.fit(self.bytes.len(), need)
    }

    /// Removes every record and starts a table of `slots`.
    fn clear(&mut self, slots: usize) {
        let len = self.bytes.len();
        let table = TABLE..(TABLE + slots * SLOT).min(len);
        self.bytes[table].fill(0);
        let next = self.header.next;
        self.header = Header { next, count: 0, slots, begin: len, live: 0, used: 0 };
        self.header.write(self.bytes);
    }

    /// Adds a record whose key is not in the page. Returns false if it does not fit.
    pub(crate) fn append(
        &mut self,
        hasher: KeyHash,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, Fault> {
        match self.fit(record_bytes(key, value)) {
            Fit::Now => {}
            Fit::Rebuilt(slots) => self.rebuild(hasher, slots)?,
            Fit::Not => return Ok(false),
        }
        self.put(hasher.of(key), key, value);
        Ok(true)
    }

    /// Writes a record that fits, and its slot.
    fn put(&mut self, hash: Hash, key: &[u8], value: &[u8]) {
        let need = record_bytes(key, value);
        let at = self.header.begin - need;
        let record = &mut self.bytes[at..at + need];
        // Both are shorter than a page.
        let len = |part: &[u8]| u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes();
        record[..4].copy_from_slice(&len(key));
        record[4..RECORD].copy_from_slice(&len(value));
        record[RECORD..RECORD + key.len()].copy_from_slice(key);
        record[RECORD + key.len()..RECORD + key.len() + value.len()].copy_from_slice(value);
        let slot = self.free_slot(hash);
        if slot_at(self.bytes, slot) == EMPTY {
            self.header.used += 1;
        }
        self.set_slot(slot, slot_of(hash, at));
        self.header.begin = at;
        self.header.count += 1;
        self.header.live += need;
        self.header.write(self.bytes);
    }

    /// Returns the first free slot for a hash; tables are never full.
    fn free_slot(&self, hash: Hash) -> usize {
        let mut slot = hash.slot(self.header.slots);
        while !matches!(slot_at(self.bytes, slot), EMPTY | REMOVED) {
            slot = (slot + 1) & (self.header.slots - 1);
        }
        slot
    }

    fn set_slot(&mut self, slot: usize, bits: u32) {
        let at = TABLE + slot * SLOT;
        self.bytes[at..at + SLOT].copy_from_slice(&bits.to_le_bytes());
    }

    /// Rewrites all records without gaps, with a table of `slots`.
    fn rebuild(&mut self, hasher: KeyHash, slots: usize) -> Result<(), Fault> {
        let before = self.bytes.to_vec();
        let before = View::of(&before)?;
        // A damaged record is detected before anything is changed.
        before.records().try_for_each(|record| record.map(drop))?;
        self.clear(slots);
        for record in before.records() {
            let record = record?;
            self.put(hasher.of(record.key), record.key, record.value);
        }
        Ok(())
    }

    /// Finds the record of a key.
    pub(crate) fn find(&self, hash: Hash, key: &[u8]) -> Result<Option<Found<'_>>, Fault> {
        self.view()?.find(hash, key)
    }

    /// Removes the record of a key. Returns false if there is none.
    pub(crate) fn remove(&mut self, hash: Hash, key: &[u8]) -> Result<bool, Fault> {
        let Some(found) = self.find(hash, key)? else { return Ok(false) };
        let (slot, bytes) = (found.slot, record_bytes(found.record.key, found.record.value));
        if self.header.count <= 1 {
            self.clear(self.header.slots);
            return Ok(true);
        }
        let following = (slot + 1) & (self.header.slots - 1);
        let last = slot_at(self.bytes, following) == EMPTY;
        self.set_slot(slot, if last { EMPTY } else { REMOVED });
        self.header.used -= usize::from(last);
        self.header.count -= 1;
        self.header.live = self.header.live.saturating_sub(bytes);
        self.header.write(self.bytes);
        Ok(true)
    }

    /// Overwrites a value by one of the same length. Returns false if the key is missing or the
    /// length differs.
    pub(crate) fn overwrite(
        &mut self,
        hash: Hash,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, Fault> {
        let same = |found: &Found<'_>| found.record.value.len() == value.len();
        let Some(found) = self.find(hash, key)?.filter(same) else { return Ok(false) };
        let at = found.at + RECORD + key.len();
        self.bytes[at..at + value.len()].copy_from_slice(value);
        Ok(true)
    }

    /// Replaces the value of a key. Returns false, with nothing changed, if the page does not have
    /// the key or the value does not fit; the bytes of the old record count as free only if the
    /// page is rebuilt for other reasons.
    pub(crate) fn replace(
        &mut self,
        hasher: KeyHash,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, Fault> {
        let hash = hasher.of(key);
        if self.overwrite(hash, key, value)? {
            return Ok(true);
        }
        // A value that fits beside the old record also fits without it.
        let fit = self.fit(record_bytes(key, value));
        if fit == Fit::Not || !self.remove(hash, key)? {
            return Ok(false);
        }
        if let Fit::Rebuilt(slots) = fit {
            self.rebuild(hasher, slots)?;
        }
        self.put(hash, key, value);
        Ok(true)
    }

    /// True if the page has no records.
    pub(crate) fn is_empty(&self) -> bool {
        self.header.count == 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Put(u8, Vec<u8>),
        Remove(u8),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let value = proptest::collection::vec(any::<u8>(), 0..200);
        let op = prop_oneof![
            3 => (any::<u8>(), value).prop_map(|(key, value)| Op::Put(key, value)),
            2 => any::<u8>().prop_map(Op::Remove),
        ];
        proptest::collection::vec(op, 0..400)
    }

    /// Keys of different lengths, the empty one among them.
    fn key(number: u8) -> Vec<u8> {
        vec![number; usize::from(number) / 4]
            .into_iter()
            .chain((number > 0).then_some(number))
            .collect()
    }

    proptest! {
        #[test]
        fn a_page_is_a_map(ops in ops(), seed: u64) {
            let hasher = KeyHash::seeded(seed);
            let mut bytes = vec![0xAA; 4096];
            let mut page = Edit::create(&mut bytes, None, 0);
            let mut model: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
            for op in ops {
                match op {
                    Op::Put(number, value) => {
                        let key = key(number);
                        if model.contains_key(&key) {
                            if !page.replace(hasher, &key, &value).expect("whole") {
                                prop_assert_eq!(page.fit(record_bytes(&key, &value)), Fit::Not);
                                continue;
                            }
                        } else if !page.append(hasher, &key, &value).expect("whole") {
                            continue;
                        }
                        model.insert(key, value);
                    }
                    Op::Remove(number) => {
                        let key = key(number);
                        let gone = page.remove(hasher.of(&key), &key);
                        prop_assert_eq!(gone, Ok(model.remove(&key).is_some()));
                    }
                }
                let view = page.view().expect("whole");
                prop_assert_eq!(view.check(hasher), Ok(()));
                prop_assert_eq!(view.header.count, model.len());
                prop_assert_eq!(page.is_empty(), model.is_empty());
            }
            let view = page.view().expect("whole");
            for (key, value) in &model {
                let found = view.find(hasher.of(key), key).expect("whole").expect("there");
                prop_assert_eq!(found.record.value, value.as_slice());
            }
        }

        #[test]
        fn damage_is_a_fault_and_never_a_panic(
            at in 0..600_usize, byte: u8, seed: u64, cut in 0..4096_usize,
        ) {
            let hasher = KeyHash::seeded(seed);
            let mut bytes = vec![0; 4096];
            let mut page = Edit::create(&mut bytes, None, 0);
            for number in 0..40 {
                page.append(hasher, &key(number), b"value").expect("whole");
            }
            bytes[at] = byte;
            let look = |bytes: &[u8]| {
                let Ok(view) = View::of(bytes) else { return };
                for number in 0..60 {
                    let _ = view.find(hasher.of(&key(number)), &key(number));
                }
                drop(view.records().collect::<Result<Vec<_>, _>>());
            };
            look(&bytes);
            look(&bytes[..cut]);
        }
    }

    #[test]
    fn a_full_page_says_so_and_room_comes_back() {
        let hasher = KeyHash::seeded(3);
        let mut bytes = vec![0; 4096];
        let mut page = Edit::create(&mut bytes, None, 0);
        let key = |number: u16| number.to_le_bytes();
        let mut held = 0;
        while page.append(hasher, &key(held), &[7; 70]).expect("whole") {
            held += 1;
        }
        assert!((44..50).contains(&held), "{held} records of 80 bytes and a slot");
        assert_eq!(page.fit(80), Fit::Not);
        for number in 0..held / 4 {
            assert_eq!(page.remove(hasher.of(&key(number)), &key(number)), Ok(true));
        }
        assert!(matches!(page.fit(80), Fit::Rebuilt(_)));
        assert_eq!(page.append(hasher, &key(held), &[8; 70]), Ok(true));
        assert_eq!(page.view().expect("whole").check(hasher), Ok(()));
    }

    #[test]
    fn a_page_takes_the_largest_pair() {
        for len in [4096, 262_144] {
            let limit = crate::page::pair_limit(len);
            let value = vec![1; limit];
            let mut bytes = vec![0; len];
            let mut page = Edit::create(&mut bytes, Some(4096), record_bytes(b"", &value));
            assert_eq!(page.append(KeyHash::seeded(1), b"", &value), Ok(true));
        }
    }
}
