//! Looking up many keys at once, so that reads of the store overlap.

use terrace_pool::{PageRef, Pages};

use crate::error::Result;
use crate::tree::node::{Node, Seek};
use crate::tree::walk::{Look, RESTARTS, Visit, WRONG_LEVEL, is_below};
use crate::tree::{BTree, CopyValue};

/// Keys that are looked up together.
const GROUP: usize = 1024;
/// Pages that are brought in together: more would find no more to overlap, and take memory from
/// each other.
const LOADED_MAX: usize = 256;

/// How far a look-up came.
enum Came {
    /// To its end; the value's length, if there is one.
    ToEnd(Option<usize>),
    /// To a page that is not in memory.
    ToAbsent(PageRef),
    /// To a change.
    Nowhere,
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
        let mut failed = None;
        pending.retain(|index| {
            if failed.is_some() {
                return true;
            }
            match self.try_resident(keys[*index].as_ref(), value) {
                Ok(Came::ToEnd(found)) => {
                    see(*index, found.map(|len| &value[..len]));
                    return false;
                }
                Ok(Came::ToAbsent(page)) => absent.push(page),
                Ok(Came::Nowhere) => {}
                Err(error) => failed = Some(error),
            }
            true
        });
        failed.map_or(Ok(()), Err)
    }

    fn try_resident(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Came> {
        let mut page = self.root();
        let Some(guard) = self.pages.optimistic_resident(&mut page) else {
            return Ok(Came::ToAbsent(page));
        };
        let mut look = Look { page, guard };
        loop {
            let node = match Node::open(&look.guard) {
                Ok(node) => node,
                Err(fault) => return self.nowhere(&look, fault),
            };
            if node.level == 0 {
                return match (CopyValue { key, value }).leaf(node) {
                    Ok(found) if look.guard.is_valid() => Ok(Came::ToEnd(found)),
                    Ok(_) => Ok(Came::Nowhere),
                    Err(fault) => self.nowhere(&look, fault),
                };
            }
            let child = node
                .child_index(Seek::At(key))
                .and_then(|index| Ok((node.child_place(index), node.child(index)?, node.level)));
            let (place, known, level) = match child {
                Ok(child) => child,
                Err(fault) => return self.nowhere(&look, fault),
            };
            let mut page = known;
            let guard = self.pages.optimistic_resident(&mut page);
            if !look.guard.is_valid() {
                return Ok(Came::Nowhere);
            }
            let Some(guard) = guard else { return Ok(Came::ToAbsent(known)) };
            if page != known {
                look.guard.repair(place, page);
            }
            look = Look { page, guard };
            if Node::open(&look.guard).is_ok_and(|node| !is_below(node.level, level)) {
                return self.nowhere(&look, WRONG_LEVEL);
            }
        }
    }

    fn nowhere(&self, look: &Look<'_>, fault: &'static str) -> Result<Came> {
        self.doubt::<()>(look, fault)?;
        Ok(Came::Nowhere)
    }
}
