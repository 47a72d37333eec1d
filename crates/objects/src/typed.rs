//! Typed objects.
//!
//! Types of a fixed layout, which derive the traits of `zerocopy`, are stored as they are in
//! memory: nothing is encoded, and a value can be borrowed in place. All other types that implement
//! the traits of `serde` are stored in the format of `postcard` (feature `serde`).
//!
//! ```
//! use terrace_objects::{ObjectConfig, Backing, ObjectStore};
//! use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
//!
//! #[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Debug, PartialEq)]
//! #[repr(C)]
//! struct Account {
//!     owner: u64,
//!     cents: i64,
//! }
//!
//! # fn main() -> Result<(), terrace_objects::ObjectError> {
//! let memory = Backing::Dram { bytes: 64 << 20 };
//! let store = ObjectStore::new(ObjectConfig::new("accounts", memory))?;
//! let accounts = store.typed::<Account>();
//! let id = accounts.create(&Account { owner: 7, cents: 100 })?;
//! let left = accounts.update(id, |account| {
//!     account.cents -= 30;
//!     account.cents
//! })?;
//! assert_eq!((left, accounts.get(id)?), (70, Account { owner: 7, cents: 70 }));
//! assert_eq!(accounts.look(id)?.owner, 7);
//! # Ok(())
//! # }
//! ```

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::batch::Batch;
use crate::error::ObjectError;
use crate::guard::{Pin, ReadGuard};
use crate::id::ObjectId;
use crate::store::ObjectStore;

/// Id of an object that is a value of a type, so that ids of different types are not mixed up.
///
/// The type is not stored with the object: [`Id::of`] does not check it, and bytes that are no such
/// value are found when they are read.
pub struct Id<T> {
    object: ObjectId,
    of: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// Makes a typed id. The caller states that the object is such a value.
    #[must_use]
    pub const fn of(object: ObjectId) -> Self {
        Self { object, of: PhantomData }
    }

    /// Returns the id of the object.
    #[must_use]
    pub const fn object(self) -> ObjectId {
        self.object
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.object == other.object
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.object.cmp(&other.object)
    }
}

impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.object.hash(state);
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.object)
    }
}

impl<T> fmt::Display for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}

/// Encoding of the values of a type as bytes.
pub trait Codec<T> {
    /// Calls `work` with a value's bytes.
    ///
    /// # Errors
    /// The reason that the value cannot be encoded.
    fn encode<R>(value: &T, work: impl FnOnce(&[u8]) -> R) -> Result<R, String>;

    /// Returns the value that the bytes encode.
    ///
    /// # Errors
    /// The reason that they encode none.
    fn decode(bytes: &[u8]) -> Result<T, String>;
}

/// Values are stored as they are in memory.
#[derive(Clone, Copy, Debug)]
pub struct InPlace;

impl<T: FromBytes + IntoBytes + Immutable> Codec<T> for InPlace {
    fn encode<R>(value: &T, work: impl FnOnce(&[u8]) -> R) -> Result<R, String> {
        Ok(work(value.as_bytes()))
    }

    fn decode(bytes: &[u8]) -> Result<T, String> {
        let wrong = |_| format!("it has {} bytes, not {}", bytes.len(), size_of::<T>());
        T::read_from_bytes(bytes).map_err(wrong)
    }
}

/// Values are stored in the format of `postcard`.
#[cfg(feature = "serde")]
#[derive(Clone, Copy, Debug)]
pub struct Postcard;

#[cfg(feature = "serde")]
impl<T: serde::Serialize + serde::de::DeserializeOwned> Codec<T> for Postcard {
    fn encode<R>(value: &T, work: impl FnOnce(&[u8]) -> R) -> Result<R, String> {
        postcard::to_stdvec(value).map(|bytes| work(&bytes)).map_err(|error| error.to_string())
    }

    fn decode(bytes: &[u8]) -> Result<T, String> {
        let (value, rest) = postcard::take_from_bytes(bytes).map_err(|error| error.to_string())?;
        if rest.is_empty() { Ok(value) } else { Err(format!("{} bytes are left", rest.len())) }
    }
}

/// Typed view of a store, for the objects that are values of one type `T` in the encoding `C`.
pub struct Typed<'a, T, C = InPlace> {
    store: &'a ObjectStore,
    of: PhantomData<fn() -> (T, C)>,
}

impl<T, C> Clone for Typed<'_, T, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, C> Copy for Typed<'_, T, C> {}

impl<T, C> fmt::Debug for Typed<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Typed<{}> of {}", std::any::type_name::<T>(), self.store.name())
    }
}

impl ObjectStore {
    /// Returns a view of the store for values of a type with a fixed layout, stored as they are.
    #[must_use]
    pub fn typed<T: FromBytes + IntoBytes + Immutable>(&self) -> Typed<'_, T> {
        Typed { store: self, of: PhantomData }
    }

    /// Returns a view of the store for values of a type with the traits of `serde`.
    #[cfg(feature = "serde")]
    #[must_use]
    pub fn encoded<T>(&self) -> Typed<'_, T, Postcard>
    where
        T: serde::Serialize + serde::de::DeserializeOwned,
    {
        Typed { store: self, of: PhantomData }
    }
}

impl<'a, T, C: Codec<T>> Typed<'a, T, C> {
    /// Creates an object from a value.
    ///
    /// # Errors
    /// As [`ObjectStore::create_with`]; [`ObjectError::Type`] for a value that cannot be encoded.
    pub fn create(&self, value: &T) -> Result<Id<T>, ObjectError> {
        let created = C::encode(value, |bytes| self.store.create_with(bytes));
        created.map_err(|reason| wrong::<T>(None, reason))?.map(Id::of)
    }

    /// Creates objects from values, all or none.
    ///
    /// # Errors
    /// As [`Typed::create`].
    pub fn create_many(&self, values: &[T]) -> Result<Vec<Id<T>>, ObjectError> {
        let encoded = values.iter().map(|value| C::encode(value, <[u8]>::to_vec));
        let encoded: Result<Vec<Vec<u8>>, String> = encoded.collect();
        let encoded = encoded.map_err(|reason| wrong::<T>(None, reason))?;
        let slices: Vec<&[u8]> = encoded.iter().map(Vec::as_slice).collect();
        Ok(self.store.create_many(&slices)?.into_iter().map(Id::of).collect())
    }

    /// Returns a copy of a value.
    ///
    /// # Errors
    /// As [`ObjectStore::get_vec`]; [`ObjectError::Type`] when the object is no such value.
    pub fn get(&self, id: Id<T>) -> Result<T, ObjectError> {
        let mut bytes = [0; 256];
        match self.store.get(id.object, &mut bytes) {
            Ok(len) => decode::<T, C>(id, &bytes[..len]),
            Err(ObjectError::Buffer { .. }) => decode::<T, C>(id, &self.store.get_vec(id.object)?),
            Err(error) => Err(error),
        }
    }

    /// Returns copies of values, as [`ObjectStore::get_many`] reads them; `batch` keeps its memory
    /// from one call to the next.
    pub fn get_many(&self, ids: &[Id<T>], batch: &mut Batch) -> Vec<Result<T, ObjectError>> {
        let objects: Vec<ObjectId> = ids.iter().map(|id| id.object).collect();
        self.store.get_many(&objects, batch);
        let one = |(id, result): (&Id<T>, Result<Vec<u8>, ObjectError>)| {
            result.and_then(|bytes| decode::<T, C>(*id, &bytes))
        };
        ids.iter().zip(batch.take()).map(one).collect()
    }

    /// Replaces a value as one step, whatever the length of its bytes.
    ///
    /// # Errors
    /// As [`ObjectStore::replace`]; [`ObjectError::Type`] for a value that cannot be encoded.
    pub fn put(&self, id: Id<T>, value: &T) -> Result<(), ObjectError> {
        let put = C::encode(value, |bytes| self.store.replace(id.object, bytes));
        put.map_err(|reason| wrong(Some(id), reason))?
    }

    /// Changes a value under its write lock: no other thread changes it between the read of the old
    /// value and the write of the new one.
    ///
    /// # Errors
    /// As [`Typed::get`] and [`Typed::put`].
    pub fn update<R>(&self, id: Id<T>, change: impl FnOnce(&mut T) -> R) -> Result<R, ObjectError> {
        let mut locked = self.store.write_lock(id.object, self.store.config().patience)?;
        let mut value = decode::<T, C>(id, &locked.get_vec()?)?;
        let result = change(&mut value);
        let put = C::encode(&value, |bytes| locked.replace(bytes));
        put.map_err(|reason| wrong(Some(id), reason))??;
        Ok(result)
    }

    /// Removes a value.
    ///
    /// # Errors
    /// As [`ObjectStore::remove`].
    pub fn remove(&self, id: Id<T>) -> Result<(), ObjectError> {
        self.store.remove(id.object)
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &'a ObjectStore {
        self.store
    }
}

fn decode<T, C: Codec<T>>(id: Id<T>, bytes: &[u8]) -> Result<T, ObjectError> {
    C::decode(bytes).map_err(|reason| wrong(Some(id), reason))
}

fn wrong<T>(id: Option<Id<T>>, reason: String) -> ObjectError {
    let id = id.map(Id::object);
    ObjectError::Type { id, type_name: std::any::type_name::<T>(), reason }
}

/// A borrowed value: its object is read-locked and pinned until this is dropped.
pub struct Look<'a, T> {
    // Not a reference, which would have to stay valid while the pin and the lock are released.
    value: NonNull<T>,
    _pin: Pin<'a>,
    lock: ReadGuard<'a>,
}

impl<'a, T> Typed<'a, T>
where
    T: FromBytes + IntoBytes + Immutable + KnownLayout,
{
    /// Borrows a value in place, without a copy. Other threads may read it meanwhile; changes of
    /// the value wait.
    ///
    /// # Errors
    /// As [`ObjectStore::read_lock`] and [`ObjectStore::pin`]; [`ObjectError::Type`] when the
    /// object is no such value.
    pub fn look(&self, id: Id<T>) -> Result<Look<'a, T>, ObjectError> {
        const { assert!(align_of::<T>() <= 64, "pinned objects are aligned to 64 bytes") };
        let store = self.store;
        let lock = store.read_lock(id.object, store.config().patience)?;
        let pin = store.pin(id.object)?;
        // SAFETY: the pin keeps the bytes at their address until it is dropped. All operations that
        // change an object wait while it is read-locked; code that writes to the address of another
        // pin answers for that by its `unsafe` block. Memory of a store is initialized.
        let bytes = unsafe { std::slice::from_raw_parts(pin.as_ptr(), pin.len()) };
        let value = T::ref_from_bytes(bytes).map(NonNull::from).map_err(|_| {
            wrong(Some(id), format!("it has {} bytes, not {}", bytes.len(), size_of::<T>()))
        })?;
        Ok(Look { value, _pin: pin, lock })
    }
}

impl<T> Look<'_, T> {
    /// Returns the id of the object.
    #[must_use]
    pub fn id(&self) -> Id<T> {
        Id::of(self.lock.id())
    }
}

impl<T> Deref for Look<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the pointer was made from a reference to bytes that the pin and the lock, which
        // live as long as this, keep in place and unchanged.
        unsafe { self.value.as_ref() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Look<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
