//! Hash directory: an open-addressing table of words, each a salt and a row address.

use terrace_sys::size::{to_u64, to_usize};

use crate::rows::{RowAddress, prefetch};
use crate::words::Words;

/// Slots of an empty directory: 8 KiB.
const FIRST_SLOTS: usize = 1 << 10;
/// Slots from which on the directory doubles; a smaller one grows fourfold, so that rows are
/// inserted again less often.
const LARGE_SLOTS: usize = 1 << 22;
/// Set in every used slot, so that zero is an empty one.
const USED: u64 = 1 << 63;
/// Distance in rows at which slots are prefetched.
const AHEAD: usize = 16;
const ADDRESS_MASK: u64 = (1 << RowAddress::BITS) - 1;

/// Hash directory: maps a hash to the candidate row of its group.
///
/// A used slot has 15 bits of the hash, the salt, and the 48 bits of the row's address, so that
/// nearly always only the right row is compared (Leis et al.; Kuiper et al., ICDE 2024, section 5).
#[derive(Debug)]
pub(super) struct Directory {
    slots: Words,
    used: usize,
}

/// Result of [`Directory::probe`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// A slot that was empty and is now reserved for the caller's address.
    Made,
    /// A slot with the same salt: the caller compares the keys of its row.
    Alike,
    /// No slot: the directory must grow first.
    Full,
}

impl Directory {
    pub(super) fn new() -> Self {
        Self { slots: Words::zeroed(FIRST_SLOTS), used: 0 }
    }

    pub(super) fn bytes(&self) -> u64 {
        to_u64(self.slots.len() * size_of::<u64>())
    }

    /// Returns the bytes of this directory after its next growth.
    pub(super) fn bytes_grown(&self) -> u64 {
        to_u64(self.slots_grown() * size_of::<u64>())
    }

    fn slots_grown(&self) -> usize {
        self.slots.len() * if self.slots.len() < LARGE_SLOTS { 4 } else { 2 }
    }

    /// Returns true at a load factor of two thirds.
    fn is_full(&self) -> bool {
        self.used * 3 >= self.slots.len() * 2
    }

    /// Returns the slot at which the search for a hash begins.
    #[inline]
    pub(super) fn home(&self, hash: u64) -> usize {
        to_usize(hash) & (self.slots.len() - 1)
    }

    #[inline]
    pub(super) fn next(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }

    /// Reads the addresses in the home slots of `hashes` into `addresses`. Returns true if every
    /// slot has the salt of its hash; else `alike` receives the indexes of the hashes whose slot
    /// has it, and `open` the others.
    pub(super) fn look(
        &self,
        hashes: &[u64],
        addresses: &mut Vec<RowAddress>,
        alike: &mut Vec<u32>,
        open: &mut Vec<u32>,
    ) -> bool {
        let slots: &[u64] = &self.slots;
        let mask = slots.len() - 1;
        let mut differ = 0;
        addresses.clear();
        addresses.extend(hashes.iter().map(|hash| {
            let entry = slots[to_usize(*hash) & mask];
            differ |= entry ^ salt(*hash);
            RowAddress::from_bits(entry)
        }));
        let all = differ & !ADDRESS_MASK == 0;
        if !all {
            split(hashes, addresses, alike, open);
        }
        for address in addresses.iter_mut() {
            *address = RowAddress::from_bits(address.to_bits() & ADDRESS_MASK);
        }
        all
    }

    /// Advances `slot` to the next slot that has the salt of `hash` or is empty; reserves an empty
    /// one for `hash`.
    #[inline]
    pub(super) fn probe(&mut self, hash: u64, slot: &mut usize) -> Found {
        let salt = salt(hash);
        let mask = self.slots.len() - 1;
        loop {
            let entry = self.slots[*slot & mask];
            if entry & !ADDRESS_MASK == salt {
                return Found::Alike;
            }
            if entry == 0 {
                if self.is_full() {
                    return Found::Full;
                }
                self.slots[*slot & mask] = salt | ADDRESS_MASK;
                self.used += 1;
                return Found::Made;
            }
            *slot = (*slot + 1) & mask;
        }
    }

    #[inline]
    pub(super) fn address(&self, slot: usize) -> RowAddress {
        RowAddress::from_bits(self.slots[slot] & ADDRESS_MASK)
    }

    #[inline]
    pub(super) fn set_address(&mut self, slot: usize, address: RowAddress) {
        let entry = &mut self.slots[slot];
        *entry = (*entry & !ADDRESS_MASK) | (address.to_bits() & ADDRESS_MASK);
    }

    /// Replaces the directory by a larger empty one; the caller inserts every row again.
    pub(super) fn grow(&mut self) {
        *self = Self { slots: Words::zeroed(self.slots_grown()), used: 0 };
    }

    /// Resets the directory to an empty one of the initial size.
    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Inserts the rows at `addresses`, which are not in the directory yet, by their `hashes`.
    pub(super) fn put(&mut self, hashes: &[u64], addresses: &[RowAddress]) {
        let slots: &mut [u64] = &mut self.slots;
        let mask = slots.len() - 1;
        for (n, (hash, address)) in hashes.iter().zip(addresses).enumerate() {
            if let Some(ahead) = hashes.get(n + AHEAD) {
                prefetch(&slots[to_usize(*ahead) & mask]);
            }
            let mut slot = to_usize(*hash) & mask;
            while slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            slots[slot] = salt(*hash) | (address.to_bits() & ADDRESS_MASK);
        }
        self.used += addresses.len();
    }
}

/// Splits rows by a comparison of the salt of their slot, in `entries`, with that of their hash.
fn split(hashes: &[u64], entries: &[RowAddress], alike: &mut Vec<u32>, open: &mut Vec<u32>) {
    for rows in [&mut *alike, &mut *open] {
        rows.clear();
        rows.resize(hashes.len(), 0);
    }
    let (mut alikes, mut opens) = (0, 0);
    for ((row, hash), entry) in (0_u32..).zip(hashes).zip(entries) {
        let is_alike = (entry.to_bits() ^ salt(*hash)) & !ADDRESS_MASK == 0;
        // Branch-free: writes both, keeps one. A branch here would be mispredicted too often.
        alike[alikes] = row;
        open[opens] = row;
        alikes += usize::from(is_alike);
        opens += usize::from(!is_alike);
    }
    alike.truncate(alikes);
    open.truncate(opens);
}

#[inline]
fn salt(hash: u64) -> u64 {
    (hash & !ADDRESS_MASK) | USED
}
