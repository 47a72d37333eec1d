//! Operations that create, read, change and remove objects, on the store and on the map.

use terrace_objects::{Batch, LOCAL_MAX, OBJECT_BYTES_MAX, ObjectError, ObjectId};

use crate::program::{Op, SLAB_BYTES, Verb};
use crate::world::{About, By, Fault, Object, Room, Said, Verdict, World};

const NO_OBJECT: ObjectId = ObjectId::from_bits(0);

impl World {
    pub fn apply(&mut self, op: Op) -> Verdict<()> {
        let id = self.id(op);
        match op.verb {
            Verb::Create => self.create(op.any_len()).map(drop),
            Verb::CreateWith => self.create_with(op.len()).map(drop),
            Verb::CreateSome => (0..=op.x % if cfg!(miri) { 20 } else { 130 })
                .try_for_each(|_| self.create_with(op.len().min(5000)).map(drop)),
            Verb::Consecutive => self.create_consecutive(op),
            Verb::Reserve => self.reserve(),
            Verb::ReserveConsecutive => self.reserve_consecutive(op.count()),
            Verb::Release => self.release(op),
            Verb::CreateReserved => self.create_reserved(op),
            Verb::Get => self.get(id, op),
            Verb::GetVec => self.get_vec(id),
            Verb::ReadAt => self.read_at(id, op),
            Verb::Put => self.put(id, op),
            Verb::WriteAt => self.write_at(id, op),
            Verb::Replace => self.replace(By::Anybody, id, op.len()),
            Verb::Resize => self.resize(By::Anybody, id, op.any_len()),
            Verb::Remove => self.remove(id),
            Verb::RemoveMany => self.remove_many(op),
            Verb::GetMany => self.get_many(op),
            Verb::PutMany => self.put_many(op),
            Verb::ReadOnly => self.set_read_only(id, op.x.is_multiple_of(2)),
            Verb::Exhaust => self.exhaust(op),
            Verb::Ask => self.ask(id),
            _ => self.apply_held(id, op),
        }
    }

    /// Records a created object, if there is one.
    fn keep(&mut self, id: Option<ObjectId>, bytes: Vec<u8>) -> Verdict<bool> {
        let Some(id) = id else { return Ok(false) };
        if id.to_bits() == 0 || id.node() != self.setup.node {
            return Err(format!("{id} is no id of this node"));
        }
        if self.reserved.contains(&id) || !self.is_new(id) {
            return Err(format!("{id} is reserved, or was another's, and was given out"));
        }
        let object = Object { bytes, ..Object::default() };
        match self.objects.insert(id, object) {
            None => Ok(true),
            Some(_) => Err(format!("{id} was given out twice")),
        }
    }

    fn create(&mut self, len: usize) -> Verdict<bool> {
        let (got, about) = (self.store.create(len), About("create", NO_OBJECT));
        if len > OBJECT_BYTES_MAX {
            let got = got.map(drop);
            self.agree(about, got, Err(ObjectError::TooLong(len)), Room::None)?;
            return Ok(false);
        }
        let made = self.agree_on_made(about, got, Room::Bytes(len))?;
        self.keep(made, if made.is_some() { vec![0; len] } else { Vec::new() })
    }

    fn create_with(&mut self, len: usize) -> Verdict<bool> {
        let bytes = self.bytes(len);
        let got = self.store.create_with(&bytes);
        let made = self.agree_on_made(About("create_with", NO_OBJECT), got, Room::Bytes(len))?;
        self.keep(made, bytes)
    }

    /// Creates objects until there is no room.
    fn exhaust(&mut self, op: Op) -> Verdict<()> {
        let lens: [usize; 5] = if cfg!(miri) {
            [1009, 4000, 8000, 16_000, 50_000]
        } else {
            [1009, 20_000, 60_000, 250_000, SLAB_BYTES]
        };
        let len = lens[usize::from(op.x % 5)];
        for _ in 0..self.setup.bytes.min(8 << 20) / len.max(16_000) + 2 {
            if !self.create(len)? {
                break;
            }
        }
        Ok(())
    }

    fn create_consecutive(&mut self, op: Op) -> Verdict<()> {
        let count = usize::from(op.x % if cfg!(miri) { 10 } else { 80 });
        // Some of one length, some of several.
        let len =
            |n: usize| if op.who.is_multiple_of(2) { op.len() } else { (op.len() + 29 * n) % 3000 };
        let objects: Vec<Vec<u8>> = (0..count).map(|n| self.bytes(len(n))).collect();
        let slices: Vec<&[u8]> = objects.iter().map(Vec::as_slice).collect();
        let got = self.store.create_consecutive(&slices);
        // A quarter of a slab in objects is never more than half of one in runs, old and new.
        let room = Room::Bytes(2 * objects.iter().map(Vec::len).sum::<usize>());
        let first = self.agree_on_made(About("create_consecutive", NO_OBJECT), got, room)?;
        let Some(first) = first else { return Ok(()) };
        for (n, bytes) in (0..).zip(objects) {
            self.keep(Some(ObjectId::from_bits(first.to_bits() + n)), bytes)?;
        }
        Ok(())
    }

    fn take_id(&mut self, id: ObjectId) -> Verdict<()> {
        let taken = id.to_bits() == 0 || self.objects.contains_key(&id) || !self.is_new(id);
        if taken || !self.reserved.insert(id) {
            return Err(format!("{id} was reserved and is not free"));
        }
        Ok(())
    }

    fn reserve(&mut self) -> Verdict<()> {
        let got = self.store.reserve();
        let id = self.agree_on_made(About("reserve", NO_OBJECT), got, Room::Bytes(0))?;
        id.map_or(Ok(()), |id| self.take_id(id))
    }

    fn reserve_consecutive(&mut self, count: u64) -> Verdict<()> {
        let (got, about) =
            (self.store.reserve_consecutive(count), About("reserve_consecutive", NO_OBJECT));
        let room = Room::Bytes(if count > 100 { SLAB_BYTES } else { 0 });
        if let Err(ObjectError::OutOfIds(ids)) = got
            && count > ids / 2
        {
            return Ok(());
        }
        if count > LOCAL_MAX {
            return Err(format!("{about} of {count}: said {got:?}"));
        }
        let first = self.agree_on_made(about, got, room)?;
        let Some(first) = first else { return Ok(()) };
        let ids = first.to_bits()..first.to_bits() + count;
        ids.into_iter().try_for_each(|id| self.take_id(ObjectId::from_bits(id)))
    }

    fn reserved_id(&self, op: Op) -> ObjectId {
        let from = op.who / 16 % (2 + 2 * u16::try_from(self.objects.len()).unwrap_or(9999));
        let from = ObjectId::new(self.setup.node, from.into());
        let next = self.reserved.range(from..).next().or_else(|| self.reserved.first());
        next.copied().unwrap_or(from)
    }

    fn release(&mut self, op: Op) -> Verdict<()> {
        if op.x % 8 == 1 {
            let trace = self.trace.take();
            let all: Vec<ObjectId> = self.reserved.iter().copied().collect();
            all.into_iter().try_for_each(|id| self.release_one(id))?;
            self.trace = trace;
            return Ok(());
        }
        self.release_one(if op.x.is_multiple_of(8) { self.id(op) } else { self.reserved_id(op) })
    }

    fn release_one(&mut self, id: ObjectId) -> Verdict<()> {
        let has = self.reserved.contains(&id);
        let want = if has { Ok(()) } else { Err(ObjectError::NotReserved(id)) };
        let got = self.store.release(id);
        if self.agree(About("release", id), got, want, Room::None)?.is_some() {
            self.reserved.remove(&id);
            self.end_id(id);
        }
        Ok(())
    }

    fn create_reserved(&mut self, op: Op) -> Verdict<()> {
        let id = match op.x % 8 {
            0..4 => self.reserved_id(op),
            4..7 => self.foreign_id((op.who / 16).into()),
            _ => self.id(op),
        };
        let foreign = id.node() != self.setup.node && id.to_bits() != 0;
        let place = |id| self.place(id).0;
        let used = || self.objects.keys().any(|other| place(*other) == place(id));
        // No id has the last generation.
        let foreign = foreign && self.place(id).1 < 255;
        let free = self.reserved.contains(&id) || (foreign && !used());
        let want = if free { Ok(()) } else { Err(ObjectError::NotReserved(id)) };
        let bytes = self.bytes(op.len());
        let (got, room) = (self.store.create_reserved(id, &bytes), Room::Bytes(bytes.len()));
        if self.agree(About("create_reserved", id), got, want, room)?.is_some() {
            self.reserved.remove(&id);
            self.objects.insert(id, Object { bytes, ..Object::default() });
        }
        Ok(())
    }

    fn get(&mut self, id: ObjectId, op: Op) -> Verdict<()> {
        let has = self.objects.get(&id).map_or(0, |it| it.bytes.len());
        let room = match op.x % 4 {
            0 => op.len(),
            1 => has.saturating_sub(1),
            _ => has,
        };
        let want = self.readable(id).and_then(|it| match it.bytes.len() {
            has if has > room => Err(ObjectError::Buffer { id, has, room }),
            _ => Ok(it.bytes.clone()),
        });
        let mut buffer = vec![0xA5; room];
        let got = self.store.get(id, &mut buffer);
        let rest = *got.as_ref().unwrap_or(&0);
        if got.is_ok() && buffer[rest.min(room)..].iter().any(|byte| *byte != 0xA5) {
            return Err(format!("get {id} wrote behind the object"));
        }
        let got = got.map(|len| buffer[..len].to_vec());
        self.agree(About("get", id), got, want, Room::None).map(drop)
    }

    pub fn get_vec(&mut self, id: ObjectId) -> Verdict<()> {
        let want = self.readable(id).map(|it| it.bytes.clone());
        let got = self.store.get_vec(id);
        self.agree(About("get_vec", id), got, want, Room::None).map(drop)
    }

    fn read_at(&mut self, id: ObjectId, op: Op) -> Verdict<()> {
        let all = self.objects.get(&id).map_or(0, |it| it.bytes.len());
        let (offset, len) = op.range(all);
        let want = self.readable(id).and_then(|it| {
            let range = offset..offset.saturating_add(len);
            let given = range.end;
            let part = it.bytes.get(range);
            part.map(<[u8]>::to_vec).ok_or(ObjectError::Length { id, has: all, given })
        });
        let mut buffer = vec![0; len];
        let got = self.store.read_at(id, offset, &mut buffer).map(|()| buffer);
        self.agree(About("read_at", id), got, want, Room::None).map(drop)
    }

    fn put(&mut self, id: ObjectId, op: Op) -> Verdict<()> {
        let has = self.objects.get(&id).map_or(0, |it| it.bytes.len());
        let bytes = self.bytes(if op.x.is_multiple_of(8) { op.len() } else { has });
        let got = self.store.put(id, &bytes);
        self.have_put(By::Anybody, id, bytes, got)
    }

    pub fn have_put(&mut self, by: By, id: ObjectId, to: Vec<u8>, got: Said<()>) -> Verdict<()> {
        let want = self.writable(id, by).and_then(|it| match (it.bytes.len(), to.len()) {
            (has, given) if has != given => Err(ObjectError::Length { id, has, given }),
            _ => Ok(()),
        });
        if self.agree(About("put", id), got, want, Room::None)?.is_some() {
            self.object(id).bytes = to;
        }
        Ok(())
    }

    fn write_at(&mut self, id: ObjectId, op: Op) -> Verdict<()> {
        let all = self.objects.get(&id).map_or(0, |it| it.bytes.len());
        let (offset, len) = op.range(all);
        let bytes = self.bytes(len);
        let given = offset.saturating_add(len);
        let want = self.writable(id, By::Anybody).and_then(|_| {
            let fits = given <= all;
            if fits { Ok(()) } else { Err(ObjectError::Length { id, has: all, given }) }
        });
        let got = self.store.write_at(id, offset, &bytes);
        if self.agree(About("write_at", id), got, want, Room::None)?.is_some() {
            self.object(id).bytes[offset..given].copy_from_slice(&bytes);
        }
        Ok(())
    }

    /// Returns the expected result of giving an object a length.
    fn reshapable(&self, by: By, id: ObjectId, len: usize) -> Said<()> {
        let object = self.writable(id, by)?;
        if len > OBJECT_BYTES_MAX {
            return Err(ObjectError::TooLong(len));
        }
        let pinned = object.pins > 0 && object.bytes.len() != len;
        if pinned { Err(ObjectError::Pinned(id)) } else { Ok(()) }
    }

    pub fn replace(&mut self, by: By, id: ObjectId, len: usize) -> Verdict<()> {
        let (bytes, want) = (self.bytes(len), self.reshapable(by, id, len));
        let got = match by {
            By::Anybody => self.store.replace(id, &bytes),
            By::Holder => self
                .store
                .write_lock(id, std::time::Duration::ZERO)
                .and_then(|mut guard| guard.replace(&bytes)),
        };
        let room = self.objects.get(&id).map_or(0, |it| it.bytes.len());
        let room = if room == len { Room::None } else { Room::Bytes(len) };
        if self.agree(About("replace", id), got, want, room)?.is_some() {
            self.object(id).bytes = bytes;
        }
        Ok(())
    }

    pub fn resize(&mut self, by: By, id: ObjectId, len: usize) -> Verdict<()> {
        let want = self.reshapable(by, id, len);
        let got = match by {
            By::Anybody => self.store.resize(id, len),
            By::Holder => self
                .store
                .write_lock(id, std::time::Duration::ZERO)
                .and_then(|mut guard| guard.resize(len)),
        };
        let room = self.objects.get(&id).map_or(0, |it| it.bytes.len());
        let room = if room == len { Room::None } else { Room::Bytes(len) };
        if self.agree(About("resize", id), got, want, room)?.is_some() {
            let forgets = self.has(Fault::NoZeros);
            let bytes = &mut self.object(id).bytes;
            let last = bytes.last().copied().filter(|_| forgets);
            bytes.resize(len, last.unwrap_or(0));
        }
        Ok(())
    }

    pub fn remove(&mut self, id: ObjectId) -> Verdict<()> {
        let got = self.store.remove(id);
        self.have_removed(By::Anybody, id, got)
    }

    pub fn have_removed(&mut self, by: By, id: ObjectId, got: Said<()>) -> Verdict<()> {
        let want = self.removable(id, by);
        if self.agree(About("remove", id), got, want, Room::None)?.is_some() {
            self.objects.remove(&id);
            self.gone.push(id);
            self.end_id(id);
        }
        Ok(())
    }

    /// Returns some ids, most of them of objects, one perhaps twice.
    fn some_ids(&self, op: Op, most: usize) -> Vec<ObjectId> {
        let first = self.id(op);
        let apart = 1 + usize::from(op.x % 4);
        let ids = self.objects.range(first..).map(|(id, _)| *id).step_by(apart);
        let mut ids: Vec<ObjectId> = ids.take(most).collect();
        ids.push(self.odd_id(op));
        ids.push(first);
        ids
    }

    fn remove_many(&mut self, op: Op) -> Verdict<()> {
        let ids = self.some_ids(op, 2 + usize::from(op.x));
        let said = self.store.remove_many(&ids);
        self.all(&ids, said.len())?;
        ids.into_iter().zip(said).try_for_each(|(id, got)| self.have_removed(By::Anybody, id, got))
    }

    fn get_many(&mut self, op: Op) -> Verdict<()> {
        let ids = self.some_ids(op, 80);
        let mut batch = Batch::new();
        // The second time the batch has its memory already.
        for _ in 0..2 {
            self.store.get_many(&ids, &mut batch);
            self.all(&ids, batch.len())?;
            for (id, got) in ids.iter().zip(batch.iter()) {
                let want = self.readable(*id).map(|it| it.bytes.clone());
                let got = got.map(<[u8]>::to_vec).map_err(|error| format!("{error:?}"));
                if got != want.as_ref().map(Vec::clone).map_err(|error| format!("{error:?}")) {
                    return Err(format!("get_many {id}: said {got:?}, and not {want:?}"));
                }
            }
        }
        self.note(ids.len());
        Ok(())
    }

    fn put_many(&mut self, op: Op) -> Verdict<()> {
        let ids = self.some_ids(op, 80);
        let len = |id: &ObjectId| self.objects.get(id).map_or(op.len(), |it| it.bytes.len());
        let puts: Vec<(ObjectId, Vec<u8>)> =
            ids.iter().map(|id| (*id, self.bytes(len(id)))).collect();
        let slices: Vec<(ObjectId, &[u8])> =
            puts.iter().map(|(id, bytes)| (*id, bytes.as_slice())).collect();
        let said = self.store.put_many(&slices);
        self.all(&ids, said.len())?;
        let mut puts = puts.into_iter().zip(said);
        puts.try_for_each(|((id, bytes), got)| self.have_put(By::Anybody, id, bytes, got))
    }

    fn all(&self, ids: &[ObjectId], said: usize) -> Verdict<()> {
        if said == ids.len() { Ok(()) } else { Err(format!("{said} answers of {}", ids.len())) }
    }

    pub fn set_read_only(&mut self, id: ObjectId, read_only: bool) -> Verdict<()> {
        let want = self.unlocked(id, By::Anybody).map(|_| ());
        let room = if read_only { Room::Bytes(1) } else { Room::None };
        let got = self.store.set_read_only(id, read_only);
        if self.agree(About("set_read_only", id), got, want, room)?.is_some() {
            self.object(id).read_only = read_only;
        }
        Ok(())
    }

    /// Compares the results of operations that do not wait for locks.
    fn ask(&mut self, id: ObjectId) -> Verdict<()> {
        let want = self.objects.get(&id).map(|it| (it.bytes.len(), it.read_only));
        let want = want.ok_or(ObjectError::NotFound(id));
        let got = self.store.size(id);
        let got = got.and_then(|len| Ok((len, self.store.is_read_only(id)?)));
        if self.store.exists(id) != want.is_ok() {
            return Err(format!("exists {id}: said {}", want.is_err()));
        }
        self.agree(About("size and is_read_only of", id), got, want, Room::None).map(drop)
    }
}
