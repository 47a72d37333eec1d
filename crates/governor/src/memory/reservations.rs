//! Reservations of one query: the bytes leased from the ledger, and each operator's share of them.
//!
//! Leased bytes that are not reserved are idle, or *earmarked*: released by a sort that still holds
//! something. DataFusion's sort reserves twice the size of its batches and releases half of it when
//! it begins to merge them; the merge requests that half under another name, a moment later, and
//! fails the query if another operator has taken it meanwhile. So that half stays reserved for the
//! two.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use datafusion::execution::memory_pool::MemoryConsumer;

use super::operator::{OperatorMemory, OperatorState, PinnedBytes};

const SORT: &str = "ExternalSorter[";
const MERGE: &str = "ExternalSorterMerge[";

/// An operator; for a merge, with the sort that it belongs to.
#[derive(Debug)]
struct Entry {
    memory: OperatorMemory,
    sort: Option<usize>,
    /// For a sort: true if it has a merge, and the bytes earmarked for the two of them.
    has_merge: bool,
    earmarked_bytes: u64,
    /// For a merge: number of times that it began to reserve bytes while its sort held nothing.
    /// That happens at the start, and again after each run that the sort has spilled.
    rounds: u32,
}

#[derive(Debug, Default)]
pub(super) struct Reservations {
    leased_bytes: u64,
    reserved_bytes: u64,
    earmarked_bytes: u64,
    peak_bytes: u64,
    operators: HashMap<usize, Entry>,
    paged: Vec<Weak<PinnedBytes>>,
    /// Paged operators that have ended since the last query of them.
    ended: Vec<OperatorState>,
}

/// Maximum number of ended operators that are kept, since they may never be queried.
const ENDED_MAX: usize = 64;

impl Reservations {
    pub(super) fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    pub(super) fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Returns the leased bytes that are neither reserved nor earmarked.
    pub(super) fn idle_bytes(&self) -> u64 {
        self.leased_bytes - self.reserved_bytes - self.earmarked_bytes
    }

    /// Returns the bytes that must be leased so that the operator with this id can have `bytes`
    /// more.
    pub(super) fn shortage_bytes(&self, id: usize, bytes: u64) -> u64 {
        let earmarked = self.sort_of(id).map_or(0, |sort| sort.earmarked_bytes);
        bytes.saturating_sub(self.idle_bytes()).saturating_sub(earmarked)
    }

    /// Returns the bytes that the operator with this id holds.
    pub(super) fn held_bytes(&self, id: usize) -> u64 {
        self.operators.get(&id).map_or(0, |entry| entry.memory.reserved_bytes)
    }

    /// Returns true if this is a sort that merges under another name.
    pub(super) fn is_sort(&self, id: usize) -> bool {
        self.operators.get(&id).is_some_and(|entry| entry.has_merge)
    }

    /// Returns true if this is a merge that reads spilled runs: its sort has spilled, and is gone.
    /// Before that it merges the sort's in-memory batches, which cannot be spilled at that point.
    pub(super) fn merges_runs(&self, id: usize) -> bool {
        self.operators.get(&id).is_some_and(|entry| {
            let gone = entry.sort.is_none_or(|sort| !self.operators.contains_key(&sort));
            entry.rounds > 1 && gone
        })
    }

    /// Returns the bytes that operators other than this one, and the sort it merges for, would
    /// release if they were refused more.
    pub(super) fn spillable_beside(&self, id: usize) -> u64 {
        let sort = self.operators.get(&id).and_then(|entry| entry.sort);
        let others =
            self.operators.iter().filter(|(other, _)| **other != id && Some(**other) != sort);
        let memory = others.map(|(_, entry)| &entry.memory);
        memory.filter(|memory| memory.can_spill).map(|memory| memory.reserved_bytes).sum()
    }

    /// Returns the bytes that merges may need beyond what their sorts have reserved, if these
    /// stopped and merged now. Sort keys of narrow rows take more room than the rows.
    pub(super) fn promised_bytes(&self) -> u64 {
        let sorts = self.operators.values().filter(|entry| entry.has_merge);
        sorts.map(|entry| entry.memory.reserved_bytes).sum()
    }

    /// Returns the sort with this id, or the sort of the merge with this id.
    fn sort_of(&self, id: usize) -> Option<&Entry> {
        let entry = self.operators.get(&id)?;
        entry.sort.map_or(Some(entry), |sort| self.operators.get(&sort))
    }

    pub(super) fn register(&mut self, consumer: &MemoryConsumer) {
        if self.operators.contains_key(&consumer.id()) {
            return;
        }
        let sort = self.claim_sort(consumer.name());
        let memory = OperatorMemory {
            name: consumer.name().to_owned(),
            can_spill: consumer.can_spill(),
            reserved_bytes: 0,
            peak_bytes: 0,
        };
        let entry = Entry { memory, sort, has_merge: false, earmarked_bytes: 0, rounds: 0 };
        self.operators.insert(consumer.id(), entry);
    }

    /// Finds the sort that a merge of this name belongs to: the newest of its partition without a
    /// merge. A sort registers both together.
    fn claim_sort(&mut self, name: &str) -> Option<usize> {
        let name = format!("{SORT}{}", name.strip_prefix(MERGE)?);
        let sorts = self.operators.iter();
        let sorts = sorts.filter(|(_, entry)| entry.memory.name == name && !entry.has_merge);
        let sort = sorts.map(|(id, _)| *id).max()?;
        self.operators.entry(sort).and_modify(|entry| entry.has_merge = true);
        Some(sort)
    }

    /// Removes an operator. DataFusion does this after the last of its bytes was released.
    pub(super) fn unregister(&mut self, id: usize) {
        if let Some(gone) = self.operators.remove(&id) {
            debug_assert_eq!(gone.memory.reserved_bytes, 0, "{}", gone.memory.name);
            self.earmarked_bytes -= gone.earmarked_bytes;
        }
    }

    pub(super) fn add_lease(&mut self, bytes: u64) {
        self.leased_bytes += bytes;
    }

    /// Ends the lease of idle bytes beyond `keep` and returns their number.
    pub(super) fn drop_lease(&mut self, keep: u64) -> u64 {
        let surplus = self.idle_bytes().saturating_sub(keep);
        self.leased_bytes -= surplus;
        surplus
    }

    /// Grants `bytes` of the lease to an operator, earmarked ones first.
    pub(super) fn take(&mut self, consumer: &MemoryConsumer, bytes: u64) {
        self.register(consumer);
        self.reserved_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.reserved_bytes);
        let id = consumer.id();
        let merged = self.operators.get(&id).and_then(|entry| entry.sort);
        let begins = merged
            .is_some_and(|sort| self.held_bytes(sort) == 0 && self.operators.contains_key(&sort));
        let sort = merged.unwrap_or(id);
        if let Some(entry) = self.operators.get_mut(&sort) {
            let used = entry.earmarked_bytes.min(bytes);
            entry.earmarked_bytes -= used;
            self.earmarked_bytes -= used;
        }
        if let Some(Entry { memory, rounds, .. }) = self.operators.get_mut(&id) {
            *rounds += u32::from(begins && memory.reserved_bytes == 0);
            memory.reserved_bytes += bytes;
            memory.peak_bytes = memory.peak_bytes.max(memory.reserved_bytes);
        }
    }

    /// Takes `bytes` back from an operator. They stay in the lease.
    pub(super) fn give(&mut self, id: usize, bytes: u64) {
        debug_assert!(bytes <= self.held_bytes(id));
        self.reserved_bytes -= bytes;
        let Some(entry) = self.operators.get_mut(&id) else { return };
        entry.memory.reserved_bytes -= bytes;
        if entry.has_merge {
            let before = entry.earmarked_bytes;
            entry.earmarked_bytes = (before + bytes).min(entry.memory.reserved_bytes);
            self.earmarked_bytes = self.earmarked_bytes - before + entry.earmarked_bytes;
        }
    }

    /// Registers a paged operator for as long as it lives.
    pub(super) fn register_paged(&mut self, operator: &Arc<PinnedBytes>) {
        self.paged.retain(|operator| operator.strong_count() > 0);
        self.paged.push(Arc::downgrade(operator));
    }

    /// Returns the bytes that the query's paged operators keep pinned, most of which they could
    /// release.
    pub(super) fn pinned_bytes(&self) -> u64 {
        self.paged.iter().filter_map(Weak::upgrade).map(|operator| operator.now()).sum()
    }

    /// Records that a paged operator has ended.
    pub(super) fn paged_ended(&mut self, operator: &PinnedBytes) {
        if self.ended.len() < ENDED_MAX && operator.spilled() > 0 {
            self.ended.push(operator.state());
        }
    }

    /// Returns the paged operators that have ended since the last call.
    pub(super) fn take_ended(&mut self) -> Vec<OperatorState> {
        std::mem::take(&mut self.ended)
    }

    /// Returns the current state of every operator.
    pub(super) fn states(&self) -> Vec<OperatorState> {
        let stock = self.operators.values().map(|entry| OperatorState {
            name: entry.memory.name.clone(),
            held_bytes: entry.memory.reserved_bytes,
            peak_bytes: entry.memory.peak_bytes,
            spilled_bytes: 0,
            grows: entry.memory.reserved_bytes == entry.memory.peak_bytes,
        });
        let paged = self.paged.iter().filter_map(Weak::upgrade).map(|operator| operator.state());
        stock.chain(paged).collect()
    }

    pub(super) fn operators(&self) -> Vec<OperatorMemory> {
        let paged = self.paged.iter().filter_map(Weak::upgrade).map(|operator| OperatorMemory {
            name: operator.name().to_owned(),
            can_spill: true,
            reserved_bytes: operator.now(),
            peak_bytes: operator.peak(),
        });
        let mut operators: Vec<_> =
            self.operators.values().map(|entry| entry.memory.clone()).chain(paged).collect();
        operators.sort_by(|a, b| {
            (Reverse(a.reserved_bytes), &a.name).cmp(&(Reverse(b.reserved_bytes), &b.name))
        });
        operators
    }
}
