//! Batched look-ups, which overlap the reads of the store and the cache misses of the processor.
//!
//! Keys descend in groups of [`LANES`], one level per round: the memory that a key needs in the
//! next round is prefetched while the other keys have their turns (group prefetching; Chen et al.,
//! ICDE 2004). Keys whose pages are not in memory wait until the pages of all are loaded together.

use terrace_pool::{PageRef, Pages};

use crate::error::{Fault, Result};
use crate::tree::btree::BTree;
use crate::tree::lookup::CopyValue;
use crate::tree::node::{Node, Seek};
use crate::tree::walk::{Look, RESTARTS, WRONG_LEVEL, is_below};

/// Number of keys that are looked up together.
const GROUP: usize = 1024;
/// Number of keys that descend together: more than the outstanding cache misses of a processor.
const LANES: usize = 16;
/// Maximum number of pages that are loaded together: more would not overlap further, and the loads
/// would evict each other's pages.
const LOADED_MAX: usize = 256;
/// Bytes of a record that are prefetched before it is read.
const RECORD_BYTES: usize = 256;

/// Progress of a key in its descent.
enum Lane<'t> {
    /// The root was not read yet.
    Start,
    /// The next node is known and not read yet.
    Toward(Toward<'t>),
    /// The record was found at this index of a leaf.
    Found(Look<'t>, usize),
    /// The look-up is done, with the length of the value, if any.
    Ended(Option<usize>),
    /// The next page is not in memory.
    Absent(PageRef),
    /// A concurrent change was met: the look-up restarts.
    Nowhere,
}

/// A child, and the parent that refers to it.
struct Toward<'t> {
    parent: Look<'t>,
    level: u8,
    place: usize,
    child: PageRef,
}

impl<P: Pages> BTree<P> {
    /// Looks up many keys. Calls `see` with the index of each in `keys` and a copy of its value, if
    /// any, in no order.
    ///
    /// The keys descend through the pages in memory; absent pages are then loaded together.
    ///
    /// # Errors
    /// As [`BTree::get`]; `see` may have been called for some keys before.
    pub fn get_batch<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut see: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let mut value = Vec::new();
        let mut pending = Vec::with_capacity(GROUP.min(keys.len()));
        let mut absent = Vec::new();
        for first in (0..keys.len()).step_by(GROUP) {
            pending.clear();
            pending.extend(first..keys.len().min(first + GROUP));
            // Each level may be absent, and a page may be evicted again before its keys are read.
            let mut stalls = 0;
            while stalls < RESTARTS {
                let before = pending.len();
                self.advance(keys, &mut pending, &mut absent, &mut value, &mut see)?;
                if absent.is_empty() {
                    break;
                }
                stalls = if pending.len() < before { 0 } else { stalls + 1 };
                absent.sort_unstable_by_key(|page: &PageRef| page.id());
                absent.dedup_by_key(|page| page.id());
                absent.truncate(LOADED_MAX);
                // A page that cannot be read, or was freed meanwhile, is met again below.
                drop(self.pages.load(&mut absent));
            }
            for index in pending.drain(..) {
                let mut visit = CopyValue { key: keys[index].as_ref(), value: &mut value };
                let found = self.visit(Seek::At(keys[index].as_ref()), &mut visit)?;
                see(index, found.map(|len| &value[..len]));
            }
        }
        Ok(())
    }

    /// Moves the pending keys down as far as pages are in memory. Keys that finish are passed to
    /// `see` and removed from `pending`.
    fn advance<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        pending: &mut Vec<usize>,
        absent: &mut Vec<PageRef>,
        value: &mut Vec<u8>,
        see: &mut impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        absent.clear();
        let mut kept = 0;
        for first in (0..pending.len()).step_by(LANES) {
            let end = pending.len().min(first + LANES);
            let mut lanes: [Lane<'_>; LANES] = std::array::from_fn(|_| Lane::Start);
            let mut moving = true;
            while moving {
                moving = false;
                for (lane, index) in lanes.iter_mut().zip(&pending[first..end]) {
                    if !lane.moves() {
                        continue;
                    }
                    let at = std::mem::replace(lane, Lane::Nowhere);
                    *lane = self.go_on(at, keys[*index].as_ref(), value)?;
                    match lane {
                        Lane::Ended(len) => see(*index, len.map(|len| &value[..len])),
                        _ => moving |= lane.moves(),
                    }
                }
            }
            for (at, lane) in (first..end).zip(&lanes) {
                match lane {
                    Lane::Ended(_) => continue,
                    Lane::Absent(page) => absent.push(*page),
                    _ => {}
                }
                pending[kept] = pending[at];
                kept += 1;
            }
        }
        pending.truncate(kept);
        Ok(())
    }

    /// Moves a key one level down. A value that it reaches is copied over `value`.
    fn go_on<'t>(&'t self, lane: Lane<'t>, key: &[u8], value: &mut Vec<u8>) -> Result<Lane<'t>> {
        match lane {
            Lane::Start => {
                let mut page = self.root();
                match self.pages.optimistic_resident(&mut page) {
                    Some(guard) => self.go_down(Look { page, guard }, key),
                    None => Ok(Lane::Absent(page)),
                }
            }
            Lane::Toward(Toward { parent, level, place, child }) => {
                let mut page = child;
                let guard = self.pages.optimistic_resident(&mut page);
                if !parent.guard.is_valid() {
                    return Ok(Lane::Nowhere);
                }
                let Some(guard) = guard else { return Ok(Lane::Absent(child)) };
                if page != child {
                    parent.guard.repair(place, page);
                }
                let look = Look { page, guard };
                if Node::open(&look.guard).is_ok_and(|node| !is_below(node.level, level)) {
                    return self.nowhere(&look, WRONG_LEVEL);
                }
                self.go_down(look, key)
            }
            Lane::Found(look, index) => {
                let copied = Node::open(&look.guard).and_then(|leaf| leaf.copy_value(index, value));
                match copied {
                    Ok(len) if look.guard.is_valid() => Ok(Lane::Ended(Some(len))),
                    Ok(_) => Ok(Lane::Nowhere),
                    Err(fault) => self.nowhere(&look, fault),
                }
            }
            other => Ok(other),
        }
    }

    /// Finds the next child or the record of a key in a node, and prefetches it.
    fn go_down<'t>(&'t self, look: Look<'t>, key: &[u8]) -> Result<Lane<'t>> {
        let found = Node::open(&look.guard).and_then(|node| {
            if node.level == 0 {
                let (index, is_there) = node.search(key)?;
                return Ok(is_there.then_some((index, node.slot(index).at, None)));
            }
            let index = node.child_index(Seek::At(key))?;
            Ok(Some((node.child_place(index), 0, Some((node.level, node.child(index)?)))))
        });
        let found: Result<_, Fault> = found;
        match found {
            Err(fault) => self.nowhere(&look, fault),
            Ok(_) if !look.guard.is_valid() => Ok(Lane::Nowhere),
            Ok(None) => Ok(Lane::Ended(None)),
            Ok(Some((index, record, None))) => {
                look.guard.approach(record, RECORD_BYTES);
                Ok(Lane::Found(look, index))
            }
            Ok(Some((place, _, Some((level, child))))) => {
                self.pages.approach(child);
                Ok(Lane::Toward(Toward { parent: look, level, place, child }))
            }
        }
    }

    fn nowhere<'t>(&self, look: &Look<'_>, fault: Fault) -> Result<Lane<'t>> {
        self.doubt::<()>(look, fault)?;
        Ok(Lane::Nowhere)
    }
}

impl Lane<'_> {
    /// True if the key can move further.
    fn moves(&self) -> bool {
        matches!(self, Lane::Start | Lane::Toward(_) | Lane::Found(..))
    }
}
