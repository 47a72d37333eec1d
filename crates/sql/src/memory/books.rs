//! The books of one query: what it took of the ledger and which operator holds how much of it.
//!
//! What is leased and not reserved is idle, or *earmarked*: given back by a sort that still holds
//! something. DataFusion's sort reserves twice the size of its batches and gives half of it back
//! when it begins to merge them; the merge asks for that half under another name, a moment later,
//! and fails the query if someone else has taken it meanwhile. So the half stays with the two.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::paged::PinnedBytes;
use datafusion::execution::memory_pool::MemoryConsumer;

/// What one operator of a query holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorMemory {
    /// DataFusion's name of the operator and its partition, such as `ExternalSorter[1]`.
    pub name: String,
    /// Whether the operator can go on with less by writing to the spill space.
    pub can_spill: bool,
    /// Bytes it holds now.
    pub reserved_bytes: u64,
    /// The most bytes it held at one time.
    pub peak_bytes: u64,
}

/// An operator as the market sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OperatorState {
    pub(crate) name: String,
    pub(crate) held_bytes: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) spilled_bytes: u64,
    /// Whether it has got more since the market looked last.
    pub(crate) grows: bool,
}

const SORT: &str = "ExternalSorter[";
const MERGE: &str = "ExternalSorterMerge[";

/// An operator, and the sort it merges for if it is the merge of one.
#[derive(Debug)]
struct Entry {
    memory: OperatorMemory,
    sort: Option<usize>,
    /// For sorts: whether they have a merge, and what is kept for the two of them.
    has_merge: bool,
    earmarked_bytes: u64,
    /// For merges: how often they began to set bytes aside while their sort held nothing. That is
    /// at the start, and again after each run that the sort has spilled.
    rounds: u32,
}

#[derive(Debug, Default)]
pub(super) struct Books {
    leased_bytes: u64,
    reserved_bytes: u64,
    earmarked_bytes: u64,
    peak_bytes: u64,
    operators: HashMap<usize, Entry>,
    paged: Vec<Weak<PinnedBytes>>,
    /// Paged operators that have ended since somebody asked.
    ended: Vec<OperatorState>,
}

/// Ended operators that are remembered: nobody may ever ask.
const ENDED_MAX: usize = 64;

impl Books {
    pub(super) fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    pub(super) fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Leased bytes that are nobody's.
    pub(super) fn idle_bytes(&self) -> u64 {
        self.leased_bytes - self.reserved_bytes - self.earmarked_bytes
    }

    /// Bytes that must be leased so that the operator with this id can have `bytes` more.
    pub(super) fn shortage_bytes(&self, id: usize, bytes: u64) -> u64 {
        let earmarked = self.sort_of(id).map_or(0, |sort| sort.earmarked_bytes);
        bytes.saturating_sub(self.idle_bytes()).saturating_sub(earmarked)
    }

    /// Bytes that the operator with this id holds.
    pub(super) fn held_bytes(&self, id: usize) -> u64 {
        self.operators.get(&id).map_or(0, |entry| entry.memory.reserved_bytes)
    }

    /// Whether this is a sort that merges under another name.
    pub(super) fn is_sort(&self, id: usize) -> bool {
        self.operators.get(&id).is_some_and(|entry| entry.has_merge)
    }

    /// Whether this is a merge that reads spilled runs: its sort has spilled, and is gone. Before
    /// that it merges what the sort has in memory, and nothing else can be done with those batches.
    pub(super) fn merges_runs(&self, id: usize) -> bool {
        self.operators.get(&id).is_some_and(|entry| {
            let gone = entry.sort.is_none_or(|sort| !self.operators.contains_key(&sort));
            entry.rounds > 1 && gone
        })
    }

    /// Bytes that operators beside this one, and the sort it merges for, would give back if they
    /// were refused more.
    pub(super) fn spillable_beside(&self, id: usize) -> u64 {
        let sort = self.operators.get(&id).and_then(|entry| entry.sort);
        let others =
            self.operators.iter().filter(|(other, _)| **other != id && Some(**other) != sort);
        let memory = others.map(|(_, entry)| &entry.memory);
        memory.filter(|memory| memory.can_spill).map(|memory| memory.reserved_bytes).sum()
    }

    /// Bytes that merges may need beyond what their sorts have reserved, should these stop and
    /// merge now. Sort keys of narrow rows take more room than the rows.
    pub(super) fn promised_bytes(&self) -> u64 {
        let sorts = self.operators.values().filter(|entry| entry.has_merge);
        sorts.map(|entry| entry.memory.reserved_bytes).sum()
    }

    /// The sort that this id is, or is the merge of.
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

    /// The sort that a merge of this name belongs to: the newest of its partition without a merge.
    /// A sort registers both in one go.
    fn claim_sort(&mut self, name: &str) -> Option<usize> {
        let name = format!("{SORT}{}", name.strip_prefix(MERGE)?);
        let sorts = self.operators.iter();
        let sorts = sorts.filter(|(_, entry)| entry.memory.name == name && !entry.has_merge);
        let sort = sorts.map(|(id, _)| *id).max()?;
        self.operators.entry(sort).and_modify(|entry| entry.has_merge = true);
        Some(sort)
    }

    /// Forgets an operator. DataFusion does this after the last of its bytes was given back.
    pub(super) fn unregister(&mut self, id: usize) {
        if let Some(gone) = self.operators.remove(&id) {
            debug_assert_eq!(gone.memory.reserved_bytes, 0, "{}", gone.memory.name);
            self.earmarked_bytes -= gone.earmarked_bytes;
        }
    }

    pub(super) fn add_lease(&mut self, bytes: u64) {
        self.leased_bytes += bytes;
    }

    /// Ends the lease of idle bytes beyond `keep` and returns how many that are.
    pub(super) fn drop_lease(&mut self, keep: u64) -> u64 {
        let surplus = self.idle_bytes().saturating_sub(keep);
        self.leased_bytes -= surplus;
        surplus
    }

    /// Hands `bytes` of the lease to an operator, earmarked ones first.
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

    /// Remembers a paged operator for as long as it lives.
    pub(super) fn register_paged(&mut self, operator: &Arc<PinnedBytes>) {
        self.paged.retain(|operator| operator.strong_count() > 0);
        self.paged.push(Arc::downgrade(operator));
    }

    /// Bytes that the query's paged operators keep pinned, most of which they would give back.
    pub(super) fn pinned_bytes(&self) -> u64 {
        self.paged.iter().filter_map(Weak::upgrade).map(|operator| operator.now()).sum()
    }

    /// A paged operator has ended.
    pub(super) fn paged_ended(&mut self, operator: &PinnedBytes) {
        if self.ended.len() < ENDED_MAX && operator.spilled() > 0 {
            self.ended.push(operator.state());
        }
    }

    /// The paged operators that have ended since this was asked last.
    pub(super) fn take_ended(&mut self) -> Vec<OperatorState> {
        std::mem::take(&mut self.ended)
    }

    /// Every operator as it is now.
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
