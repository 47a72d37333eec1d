//! The store: the interface to its objects, their ids and their durable form.

mod durability;

use crate::config::ObjectConfig;
use crate::durable::checkpoint::Checkpoints;
use crate::durable::identity::Identity;
use crate::error::ObjectError;
use crate::groups::content::Content;
use crate::id::ObjectId;
use crate::ids::Ids;
use crate::ids::maker::Makers;
use crate::objects::{By, Defragmented, Objects, copy_whole};
use crate::threads::places;

/// A store of small objects. See the crate's documentation.
///
/// All operations take `&self` and may run on any thread.
pub struct ObjectStore {
    config: ObjectConfig,
    objects: Objects,
    makers: Makers,
    /// Checkpoints of a store with a log. Dropped after the log, as they hold its directory.
    checkpoints: Option<Checkpoints>,
}

impl ObjectStore {
    /// Makes an empty store.
    ///
    /// # Errors
    /// [`ObjectError::Config`] for invalid settings, [`ObjectError::Memory`] when the kernel
    /// refuses addresses or the node.
    pub fn new(config: ObjectConfig) -> Result<Self, ObjectError> {
        let objects = Objects::new(&config)?;
        let makers = Makers::new(places(), config.node);
        Ok(Self { objects, makers, checkpoints: None, config })
    }

    /// Returns the configuration of the store.
    pub(crate) fn config(&self) -> &ObjectConfig {
        &self.config
    }

    /// Returns the objects of the store.
    #[inline]
    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Returns the makers of the store's objects.
    pub(crate) fn makers(&self) -> &Makers {
        &self.makers
    }

    fn creation(&self) -> Ids<'_> {
        Ids::new(&self.objects, &self.makers)
    }

    fn identity(&self) -> Identity {
        Identity::of(&self.config)
    }

    /// Returns the store's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns the node in the store's ids.
    #[must_use]
    pub fn node(&self) -> u16 {
        self.config.node
    }

    /// Copies an object to the beginning of `to` and returns its length in bytes.
    ///
    /// Waits while another thread has the object locked for writing. The read writes no shared
    /// memory, so that readers do not slow each other down.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`]; [`ObjectError::Buffer`] when `to` is too short;
    /// [`ObjectError::LockTimeout`].
    #[inline]
    pub fn get(&self, id: ObjectId, to: &mut [u8]) -> Result<usize, ObjectError> {
        self.objects.get(id, to)
    }

    /// Returns a copy of an object.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`], [`ObjectError::LockTimeout`].
    pub fn get_vec(&self, id: ObjectId) -> Result<Vec<u8>, ObjectError> {
        self.objects.look(id, By::Anybody, copy_whole)
    }

    /// Copies the bytes of an object from `offset` on, as many as `to` has.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`]; [`ObjectError::Length`] when the range exceeds the object;
    /// [`ObjectError::LockTimeout`].
    pub fn read_at(&self, id: ObjectId, offset: usize, to: &mut [u8]) -> Result<(), ObjectError> {
        self.objects.read_at(By::Anybody, id, offset, to)
    }

    /// Returns the length of an object in bytes, without waiting for its lock.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`].
    pub fn size(&self, id: ObjectId) -> Result<usize, ObjectError> {
        self.objects.look(id, By::Holder, |found| found.len)
    }

    /// True if an object has this id. Does not wait for its lock.
    #[must_use]
    pub fn exists(&self, id: ObjectId) -> bool {
        self.size(id).is_ok()
    }

    /// True if an object is read-only. Does not wait for its lock.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`].
    pub fn is_read_only(&self, id: ObjectId) -> Result<bool, ObjectError> {
        self.objects.look(id, By::Holder, |found| found.read_only)
    }
}

/// Changes of objects.
impl ObjectStore {
    /// Replaces the bytes of an object by as many others. Waits while another thread has the object
    /// locked.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`]; [`ObjectError::Length`] when the object has another length;
    /// [`ObjectError::ReadOnly`]; [`ObjectError::LockTimeout`]; [`ObjectError::Log`] of a store
    /// with a log, as for all changes.
    #[inline]
    pub fn put(&self, id: ObjectId, from: &[u8]) -> Result<(), ObjectError> {
        self.objects.put(id, from)
    }

    /// Replaces bytes of an object from `offset` on.
    ///
    /// # Errors
    /// As [`ObjectStore::put`]; [`ObjectError::Length`] when the range exceeds the object.
    pub fn write_at(&self, id: ObjectId, offset: usize, from: &[u8]) -> Result<(), ObjectError> {
        self.objects.write_at(By::Anybody, id, offset, from)
    }

    /// Replaces the bytes of an object by others of any number. All of it is one step: no reader
    /// sees the one length with the other bytes.
    ///
    /// # Errors
    /// As [`ObjectStore::put`], except for the length; [`ObjectError::Pinned`] when the length of a
    /// pinned object would change; [`ObjectError::OutOfMemory`], [`ObjectError::TooLong`].
    pub fn replace(&self, id: ObjectId, from: &[u8]) -> Result<(), ObjectError> {
        self.objects.replace(By::Anybody, id, from)
    }

    /// Changes the length of an object. The bytes up to the shorter length are kept, added ones are
    /// zero.
    ///
    /// # Errors
    /// As [`ObjectStore::replace`].
    pub fn resize(&self, id: ObjectId, len: usize) -> Result<(), ObjectError> {
        self.objects.resize(By::Anybody, id, len)
    }

    /// Removes an object. Its id may name another object at once.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`], [`ObjectError::Pinned`], [`ObjectError::ReadOnly`],
    /// [`ObjectError::LockTimeout`].
    pub fn remove(&self, id: ObjectId) -> Result<(), ObjectError> {
        self.objects.remove(By::Anybody, id)
    }

    /// Makes an object read-only or writable. While it is read-only, it can neither be written to,
    /// nor resized, nor removed.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`], [`ObjectError::LockTimeout`], [`ObjectError::OutOfMemory`].
    pub fn set_read_only(&self, id: ObjectId, read_only: bool) -> Result<(), ObjectError> {
        self.objects.set_read_only(By::Anybody, id, read_only)
    }

    /// Frees the unused ends of groups' runs, and empties the slabs with the fewest used granules.
    /// One call runs at a time; a second one waits for the first.
    ///
    /// Other threads wait for at most the time that one group takes: a copy of at most 80 KiB, or
    /// of one object that is longer than 1008 bytes. Pinned objects keep their addresses.
    pub fn defragment(&self) -> Defragmented {
        self.objects.defragment()
    }
}

/// New objects and ids.
impl ObjectStore {
    /// Creates an object of `len` zeros.
    ///
    /// # Errors
    /// [`ObjectError::OutOfMemory`], [`ObjectError::OutOfIds`], [`ObjectError::TooLong`].
    pub fn create(&self, len: usize) -> Result<ObjectId, ObjectError> {
        self.creation().create(Content::Zeros(len))
    }

    /// Creates an object with these bytes.
    ///
    /// # Errors
    /// As [`ObjectStore::create`].
    pub fn create_with(&self, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        self.creation().create(Content::Bytes(bytes))
    }

    /// Creates objects with these bytes, all or none. Returns their ids, which need not be
    /// consecutive.
    ///
    /// # Errors
    /// As [`ObjectStore::create`].
    pub fn create_many(&self, objects: &[&[u8]]) -> Result<Vec<ObjectId>, ObjectError> {
        self.creation().create_many(objects)
    }

    /// Creates objects with these bytes and consecutive ids. Returns the first id, or the id of
    /// zero bits, which names nothing, if there are no objects. None of the objects is visible
    /// before there is room for all, and up to 64 appear at once.
    ///
    /// # Errors
    /// As [`ObjectStore::create`]; none of the objects exists then.
    pub fn create_consecutive(&self, objects: &[&[u8]]) -> Result<ObjectId, ObjectError> {
        self.creation().create_consecutive(objects)
    }

    /// Creates an object with a reserved id, or with an id of another node that no object has here:
    /// this is how objects come from other nodes. If ids have generations, no id has the last one;
    /// an id of another node may be used again after its object was removed, as that node decides
    /// what it names.
    ///
    /// # Errors
    /// [`ObjectError::NotReserved`]; [`ObjectError::OutOfMemory`], [`ObjectError::TooLong`].
    pub fn create_reserved(&self, id: ObjectId, bytes: &[u8]) -> Result<(), ObjectError> {
        self.creation().create_reserved(id, bytes)
    }

    /// Reserves an id without an object: [`ObjectStore::create_reserved`] creates its object, and
    /// [`ObjectStore::release`] releases the id.
    ///
    /// # Errors
    /// [`ObjectError::OutOfIds`]; [`ObjectError::OutOfMemory`] when the budget has no room for more
    /// of the table.
    pub fn reserve(&self) -> Result<ObjectId, ObjectError> {
        self.creation().reserve()
    }

    /// Reserves `count` consecutive ids. Returns the first, as [`ObjectStore::create_consecutive`].
    ///
    /// # Errors
    /// As [`ObjectStore::reserve`].
    pub fn reserve_consecutive(&self, count: u64) -> Result<ObjectId, ObjectError> {
        self.creation().reserve_consecutive(count)
    }

    /// Releases a reserved id.
    ///
    /// # Errors
    /// [`ObjectError::NotReserved`].
    pub fn release(&self, id: ObjectId) -> Result<(), ObjectError> {
        self.creation().release(id)
    }
}

impl std::fmt::Debug for ObjectStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectStore").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
