//! Locks, pins, and operations on the whole store.

use std::time::Duration;

use terrace_objects::{Backing, LockMode, ObjectConfig, ObjectError, ObjectId, ObjectStore};

use crate::program::{Op, SLAB_BYTES, Verb};
use crate::world::{About, By, Fault, Room, Said, Verdict, World, locked};

const NOW: Duration = Duration::ZERO;

impl World {
    pub fn apply_held(&mut self, id: ObjectId, op: Op) -> Verdict<()> {
        let id = if op.x.is_multiple_of(4) { id } else { self.held_id(op).unwrap_or(id) };
        match op.verb {
            Verb::Pin => self.pin(id),
            Verb::Unpin => self.unpin(id),
            Verb::Lock => self.lock(id, mode(op)),
            Verb::Unlock => self.unlock(id, mode(op)),
            Verb::Upgrade => self.upgrade(id),
            Verb::Downgrade => self.downgrade(id),
            Verb::Guarded => self.guarded(id, op),
            Verb::Defragment => self.defragment(),
            Verb::List => self.list(op),
            Verb::Budget => self.change_budget(op),
            Verb::Dump => self.dump(),
            Verb::Reopen => self.reopen(op.x.is_multiple_of(2)),
            _ => self.check(),
        }
    }

    /// Returns the id of one of the objects that are locked or pinned.
    fn held_id(&self, op: Op) -> Option<ObjectId> {
        let held = self.objects.iter().filter(|(_, it)| it.is_locked() || it.pins > 0);
        let held: Vec<ObjectId> = held.map(|(id, _)| *id).take(64).collect();
        (!held.is_empty()).then(|| held[usize::from(op.who / 16) % held.len()])
    }

    fn pin(&mut self, id: ObjectId) -> Verdict<()> {
        let want = self.objects.get(&id).map(|it| it.bytes.len());
        let room = Room::Bytes(want.unwrap_or(0));
        let mut address = 0;
        let got = self.store.pin_raw(id).map(|(at, len)| {
            address = at.expose_provenance();
            len
        });
        let want = want.ok_or(ObjectError::NotFound(id));
        if self.agree(About("pin", id), got, want, room)?.is_none() {
            return Ok(());
        }
        self.pinned += 1;
        let object = self.object(id);
        let moved = object.pins > 0 && object.address != address;
        (object.pins, object.address) = (object.pins + 1, address);
        if moved || !address.is_multiple_of(64) {
            return Err(format!("pin {id}: it was moved, or begins at an odd address"));
        }
        self.look_at_pinned(id)
    }

    /// Reads a pinned object in place.
    fn look_at_pinned(&self, id: ObjectId) -> Verdict<()> {
        let object = &self.objects[&id];
        let at = std::ptr::with_exposed_provenance::<u8>(object.address);
        // SAFETY: the object is pinned, so it keeps its address and length, and no other thread
        // runs that could write it.
        let bytes = unsafe { std::slice::from_raw_parts(at, object.bytes.len()) };
        let same = bytes == object.bytes;
        if same { Ok(()) } else { Err(format!("{id} is pinned and other bytes are there")) }
    }

    pub fn unpin(&mut self, id: ObjectId) -> Verdict<()> {
        let pinned = self.objects.get(&id).is_some_and(|it| it.pins > 0);
        let want = if pinned { Ok(()) } else { Err(ObjectError::NotPinned(id)) };
        let got = self.store.unpin(id);
        if self.agree(About("unpin", id), got, want, Room::None)?.is_some() {
            self.object(id).pins -= 1;
        }
        Ok(())
    }

    fn lockable(&self, id: ObjectId, mode: LockMode) -> Said<()> {
        match mode {
            LockMode::Read => self.readable(id).map(|_| ()),
            LockMode::Write => self.unlocked(id, By::Anybody).map(|_| ()),
        }
    }

    fn lock(&mut self, id: ObjectId, mode: LockMode) -> Verdict<()> {
        let (got, want) = (self.store.lock(id, mode, NOW), self.lockable(id, mode));
        if self.agree(About("lock", id), got, want, Room::None)?.is_some() {
            let object = self.object(id);
            match mode {
                LockMode::Read => object.readers += 1,
                LockMode::Write => object.writer = true,
            }
        }
        Ok(())
    }

    pub fn unlock(&mut self, id: ObjectId, mode: LockMode) -> Verdict<()> {
        let object = self.objects.get(&id);
        let held = object.is_some_and(|it| match mode {
            LockMode::Read => it.readers > 0,
            LockMode::Write => it.writer,
        });
        let want = if held { Ok(()) } else { Err(ObjectError::NotLocked(id)) };
        let got = self.store.unlock(id, mode);
        if self.agree(About("unlock", id), got, want, Room::None)?.is_some() {
            let object = self.object(id);
            match mode {
                LockMode::Read => object.readers -= 1,
                LockMode::Write => object.writer = false,
            }
        }
        Ok(())
    }

    fn upgrade(&mut self, id: ObjectId) -> Verdict<()> {
        let want = match self.objects.get(&id).map_or(0, |it| it.readers) {
            0 => Err(ObjectError::NotLocked(id)),
            1 => Ok(()),
            _ => Err(locked(id)),
        };
        let got = self.store.upgrade(id, NOW);
        if self.agree(About("upgrade", id), got, want, Room::None)?.is_some() {
            let object = self.object(id);
            (object.readers, object.writer) = (0, true);
        }
        Ok(())
    }

    fn downgrade(&mut self, id: ObjectId) -> Verdict<()> {
        let held = self.objects.get(&id).is_some_and(|it| it.writer);
        let want = if held { Ok(()) } else { Err(ObjectError::NotLocked(id)) };
        let got = self.store.downgrade(id);
        if self.agree(About("downgrade", id), got, want, Room::None)?.is_some() {
            let readers = u32::from(!self.has(Fault::ForgottenReader));
            let object = self.object(id);
            (object.readers, object.writer) = (readers, false);
        }
        Ok(())
    }

    /// Operations on a guard.
    fn guarded(&mut self, id: ObjectId, op: Op) -> Verdict<()> {
        let free = self.lockable(id, LockMode::Write);
        let guard = self.store.write_lock(id, NOW).map(drop);
        if self.agree(About("write_lock", id), guard, free, Room::None)?.is_none() {
            return self.read_guarded(id);
        }
        match op.x / 4 % 8 {
            0 => {
                let same = op.who.is_multiple_of(2);
                let bytes = self.bytes(if same { self.objects[&id].bytes.len() } else { op.len() });
                let got = self.store.write_lock(id, NOW).and_then(|mut guard| guard.put(&bytes));
                self.have_put(By::Holder, id, bytes, got)
            }
            1 | 2 => self.replace(By::Holder, id, op.len()),
            3 => self.resize(By::Holder, id, op.any_len()),
            4 | 5 => {
                let got = self.store.write_lock(id, NOW);
                let got = got.and_then(|guard| guard.remove().map_err(|(_, error)| error));
                self.have_removed(By::Holder, id, got)
            }
            6 => self.guards_change(id),
            _ => self.read_guarded(id),
        }
    }

    /// Downgrades and upgrades a guard, once beside another reader and once alone.
    fn guards_change(&self, id: ObjectId) -> Verdict<()> {
        let word = |error: ObjectError| error.to_string();
        let shared = self.store.write_lock(id, NOW).map_err(word)?.downgrade();
        let second = self.store.read_lock(id, NOW).map_err(word)?;
        let Err((shared, error)) = shared.upgrade(NOW) else {
            return Err(format!("{id} is written to beside a reader"));
        };
        drop(second);
        let _write = shared.upgrade(NOW).map_err(|(_, error)| word(error))?;
        let alone = self.store.read_lock(id, NOW).is_err();
        let right = alone && matches!(error, ObjectError::LockTimeout { .. });
        if right { Ok(()) } else { Err(format!("{id}: {error}, then alone: {alone}")) }
    }

    fn read_guarded(&mut self, id: ObjectId) -> Verdict<()> {
        let want = self.readable(id).map(|it| it.bytes.clone());
        let guard = self.store.read_lock(id, NOW);
        let got = guard.and_then(|guard| {
            let mut bytes = guard.get_vec()?;
            let len = guard.get(&mut bytes)?;
            bytes.truncate(len);
            Ok(bytes)
        });
        self.agree(About("read_lock and get", id), got, want, Room::None).map(drop)
    }

    pub fn defragment(&mut self) -> Verdict<()> {
        let done = self.store.defragment();
        let stats = self.store.stats();
        let now = (done.held_bytes_after, done.used_bytes_after);
        if now != (stats.held_bytes, stats.used_bytes) {
            return Err(format!("{done:?} is followed by {stats:?}"));
        }
        // Moves add neither bytes nor slabs. For some of the objects of a group that were pinned
        // once there may be room in the group's run, and none for the rest.
        let headers = 256 * (self.pinned / 2);
        let more = done.used_bytes_after > done.used_bytes_before + headers
            || done.held_bytes_after > done.held_bytes_before;
        self.note((done.moved + 1).ilog2());
        self.note(done.held_bytes_before - done.held_bytes_after.min(done.held_bytes_before));
        if more { Err(format!("{done:?} is no less")) } else { Ok(()) }
    }

    pub fn check(&mut self) -> Verdict<()> {
        let checked = self.store.check().map_err(|error| error.to_string())?;
        let bytes: usize = self.objects.values().map(|it| it.bytes.len()).sum();
        if (checked.objects, checked.object_bytes) != (self.objects.len() as u64, bytes as u64) {
            return Err(format!("{checked:?}, and there are {} objects", self.objects.len()));
        }
        let kinds = [checked.uniform, checked.mixed, checked.remote];
        self.note(kinds.map(|groups| (groups + 1).ilog2()));
        let trace = self.trace.take();
        let ids: Vec<ObjectId> = self.objects.keys().copied().collect();
        ids.iter().try_for_each(|id| self.get_vec(*id))?;
        self.trace = trace;
        let mut pinned = self.objects.iter().filter(|(_, it)| it.pins > 0);
        pinned.try_for_each(|(id, _)| self.look_at_pinned(*id))
    }

    fn list(&mut self, op: Op) -> Verdict<()> {
        let (from, most) = (self.id(op), [0, 1, 7, 64, 1000, usize::MAX][usize::from(op.x % 6)]);
        let place = |id: ObjectId| self.place(id).0;
        let mut all: Vec<ObjectId> = self.objects.keys().copied().collect();
        all.sort_by_key(|id| place(*id));
        let behind = all.iter().copied().filter(|id| place(*id) >= place(from));
        let want: Vec<ObjectId> = behind.take(most).collect();
        let got = self.store.ids(from, most);
        if got != want {
            return Err(format!("ids from {from}, {most}: {got:?}, and not {want:?}"));
        }
        let is_first = want.first().is_some_and(|id| place(*id) == place(from));
        let want = &want[usize::from(is_first)..];
        let got = self.store.ids_after(from, want.len());
        if got != want {
            return Err(format!("ids after {from}: {got:?}, and not {want:?}"));
        }
        let mut ranges: Vec<(ObjectId, ObjectId)> = Vec::new();
        for id in &all {
            match ranges.last_mut() {
                Some((_, last)) if last.to_bits() + 1 == id.to_bits() => *last = *id,
                _ => ranges.push((*id, *id)),
            }
        }
        let got = self.store.id_ranges();
        if got == ranges { Ok(()) } else { Err(format!("ranges {got:?}, and not {ranges:?}")) }
    }

    /// Restores a dump in another store, which must have the same contents.
    fn dump(&mut self) -> Verdict<()> {
        let word = |error: ObjectError| error.to_string();
        let mut dump = Vec::new();
        match (self.store.dump_to(&mut dump), &self.ledger) {
            (Ok(_), _) => {}
            (Err(ObjectError::OutOfMemory { .. }), Some(_)) => return Ok(()),
            (Err(error), _) => return Err(format!("dump: {error}")),
        }
        // Ids are reserved again one by one.
        if self.reserved.len() > 10_000 {
            return Ok(());
        }
        let memory = Backing::Dram { bytes: self.setup.bytes + 2 * SLAB_BYTES };
        let config = ObjectConfig {
            generations: self.setup.generations,
            huge_pages: false,
            ..ObjectConfig::new("restored", memory)
        };
        let restored = ObjectStore::restore_from(config, &dump[..]).map_err(word)?;
        restored.check().map_err(word)?;
        for (id, object) in &self.objects {
            let bytes = restored.get_vec(*id).map_err(word)?;
            let read_only = restored.is_read_only(*id).map_err(word)?;
            if bytes != object.bytes || read_only != object.read_only {
                return Err(format!("{id} was dumped and is another"));
            }
        }
        let (stats, reserved) = (restored.stats(), self.reserved.len());
        if (stats.objects, stats.reserved) != (self.objects.len() as u64, reserved as u64) {
            return Err(format!("{} objects, {reserved} ids, and {stats:?}", self.objects.len()));
        }
        for id in self.gone.iter().rev().take(50) {
            if restored.exists(*id) != self.objects.contains_key(id) {
                return Err(format!("{id} is gone, and was dumped"));
            }
        }
        let made = restored.create(8).map_err(word)?;
        if !self.is_new(made) || self.objects.contains_key(&made) || self.reserved.contains(&made) {
            return Err(format!("{made} was another's before the dump"));
        }
        self.reserved.iter().try_for_each(|id| restored.release(*id)).map_err(word)
    }

    /// Changes the budget, never to less than is held, which the ledger would refuse.
    fn change_budget(&mut self, op: Op) -> Verdict<()> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let slab = SLAB_BYTES as u64;
        let more = [0, 31, 32, 4096, slab, slab + 4096, 3 * slab, 64 * slab];
        let budget = ledger.granted() + more[usize::from(op.x % 8)];
        ledger.set_budget(budget).map_err(|error| error.to_string())
    }

    /// Removes and releases everything; the store must then hold nothing.
    pub fn end(&mut self) -> Verdict<()> {
        self.check()?;
        let ids: Vec<ObjectId> = self.objects.keys().copied().collect();
        for id in ids {
            for _ in 0..self.objects[&id].pins {
                self.unpin(id)?;
            }
            for _ in 0..self.objects[&id].readers {
                self.unlock(id, LockMode::Read)?;
            }
            if self.objects[&id].writer {
                self.unlock(id, LockMode::Write)?;
            }
            if self.objects[&id].read_only {
                self.set_read_only(id, false)?;
            }
            self.remove(id)?;
            if self.objects.contains_key(&id) {
                return Err(format!("{id} stays"));
            }
        }
        for id in std::mem::take(&mut self.reserved) {
            self.store.release(id).map_err(|error| error.to_string())?;
        }
        self.check()?;
        self.store.defragment();
        self.is_empty()
    }

    fn is_empty(&mut self) -> Verdict<()> {
        let stats = self.store.stats();
        let rest = [stats.objects, stats.object_bytes, stats.reserved, stats.held];
        // Each of the two threads keeps the slab that it allocates from.
        if rest != [0; 4] || stats.used_bytes != 0 || stats.held_bytes > 2 * SLAB_BYTES as u64 {
            return Err(format!("nothing is left, and the store says {stats:?}"));
        }
        if let Some(ledger) = &self.ledger {
            let budget = ledger.granted() + 2 * SLAB_BYTES as u64;
            ledger.set_budget(budget).map_err(|error| error.to_string())?;
        }
        let made = self.store.create(SLAB_BYTES / 4);
        made.map(drop).map_err(|error| format!("the store is empty: {error}"))
    }
}

fn mode(op: Op) -> LockMode {
    if (op.who / 1024).is_multiple_of(2) { LockMode::Read } else { LockMode::Write }
}
