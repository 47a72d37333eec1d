//! Looking up many keys at once, so that reads of the store overlap, and misses of the processor's
//! caches.
//!
//! Keys go down together, some [`LANES`] at a time and a level in each round: what a key needs in
//! the next round is on its way into the caches while the other keys have theirs (group
//! prefetching; Chen et al., ICDE 2004). A key whose page is not in memory waits until those of all
//! are brought in together.

use terrace_pool::{PageRef, Pages};

use crate::error::{Fault, Result};
use crate::tree::node::{Node, Seek};
use crate::tree::walk::{Look, RESTARTS, WRONG_LEVEL, is_below};
use crate::tree::{BTree, CopyValue};

/// Keys that are looked up together.
const GROUP: usize = 1024;
/// Keys that go down together: more than the cache misses that a processor has under way.
const LANES: usize = 16;
/// Pages that are brought in together: more would find no more to overlap, and take memory from
/// each other.
const LOADED_MAX: usize = 256;
/// Bytes of a record that are brought into the caches before it is read.
const RECORD_BYTES: usize = 256;

/// How far a key has come.
enum Lane<'t> {
    /// Not to the root yet.
    Start,
    /// To a child that is to be looked at.
    Toward(Toward<'t>),
    /// To its place in a leaf.
    Found(Look<'t>, usize),
    /// To its end; the value's length, if there is one.
    Ended(Option<usize>),
    /// To a page that is not in memory.
    Absent(PageRef),
    /// To a change.
    Nowhere,
}

/// A child, and the parent that it was found in.
struct Toward<'t> {
    parent: Look<'t>,
    level: u8,
    place: usize,
    child: PageRef,
}

impl<P: Pages> BTree<P> {
    /// Looks up many keys: `see` gets the place of each among `keys`, and its value if it has one,
    /// as a copy, in any order.
    ///
    /// The keys go down through the pages in memory; what is absent is then brought in together.
    ///
    /// # Errors
    /// As [`BTree::get`]; some keys may have been seen by then.
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
            // Each level may be absent, and pages may leave again before their keys come by.
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

    /// Takes the pending keys as far as pages are in memory; those that come to an end are seen and
    /// no longer pending.
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

    /// Takes a key a level further. A value that it comes to is copied over `value`.
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

    /// Finds what a key needs of a node, and has it come.
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
    /// Whether the key goes further.
    fn moves(&self) -> bool {
        matches!(self, Lane::Start | Lane::Toward(_) | Lane::Found(..))
    }
}
