//! Objects that are values of a type.
//!
//! Types of a fixed layout, which say so by the derives of `zerocopy`, are kept as they are in
//! memory: nothing is encoded, and a value can be looked at in its place. Everything else that
//! `serde` knows is kept as `postcard` writes it (feature `serde`).
//!
//! ```
//! use terrace_objects::{ObjectConfig, ObjectMemory, ObjectStore};
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
//! let memory = ObjectMemory::Dram { bytes: 64 << 20 };
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

/// The id of an object that is a value of a type, so that ids of different types are not mixed up.
///
/// Nothing of the type is kept with the object: [`Id::of`] takes whoever says so at their word, and
/// bytes that are no such value are found when they are read.
pub struct Id<T> {
    object: ObjectId,
    of: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// The id of an object that is said to be such a value.
    #[must_use]
    pub const fn of(object: ObjectId) -> Self {
        Self { object, of: PhantomData }
    }

    /// The object.
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

/// How values of a type are kept as bytes.
pub trait Codec<T> {
    /// Calls `work` with a value's bytes.
    ///
    /// # Errors
    /// Why the value has none.
    fn encode<R>(value: &T, work: impl FnOnce(&[u8]) -> R) -> Result<R, String>;

    /// The value that bytes are.
    ///
    /// # Errors
    /// Why they are none.
    fn decode(bytes: &[u8]) -> Result<T, String>;
}

/// Values are kept as they are in memory.
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

/// Values are kept as `postcard` writes them.
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

/// The objects of a store that are values of one type.
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
    /// The store's objects that are values of a fixed layout.
    #[must_use]
    pub fn typed<T: FromBytes + IntoBytes + Immutable>(&self) -> Typed<'_, T> {
        Typed { store: self, of: PhantomData }
    }

    /// The store's objects that are values of a type that `serde` knows.
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
    /// Makes an object of a value.
    ///
    /// # Errors
    /// As [`ObjectStore::create_with`]; [`ObjectError::Type`] for a value that cannot be encoded.
    pub fn create(&self, value: &T) -> Result<Id<T>, ObjectError> {
        let created = C::encode(value, |bytes| self.store.create_with(bytes));
        created.map_err(|reason| wrong::<T>(None, reason))?.map(Id::of)
    }

    /// Makes objects of values, all or none.
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

    /// A copy of a value.
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

    /// Copies of values, as [`ObjectStore::get_many`] reads them; `batch` keeps its memory from one
    /// call to the next.
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

    /// Changes a value under its write lock: nobody else changes it between `change` being called
    /// with it and the new one being there.
    ///
    /// # Errors
    /// As [`Typed::get`] and [`Typed::put`].
    pub fn update<R>(&self, id: Id<T>, change: impl FnOnce(&mut T) -> R) -> Result<R, ObjectError> {
        let mut locked = self.store.write_lock(id.object, self.store.config.patience)?;
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

    /// The store.
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

/// A value in its place: it is read-locked and pinned until this is dropped.
pub struct Look<'a, T> {
    // No reference: it would be one still while the pin and the lock are given back.
    value: NonNull<T>,
    _pin: Pin<'a>,
    lock: ReadGuard<'a>,
}

impl<'a, T> Typed<'a, T>
where
    T: FromBytes + IntoBytes + Immutable + KnownLayout,
{
    /// Looks at a value where it is, without a copy. Others may look and read meanwhile; who wants
    /// to change the value waits.
    ///
    /// # Errors
    /// As [`ObjectStore::read_lock`] and [`ObjectStore::pin`]; [`ObjectError::Type`] when the
    /// object is no such value.
    pub fn look(&self, id: Id<T>) -> Result<Look<'a, T>, ObjectError> {
        const { assert!(align_of::<T>() <= 64, "pinned objects are aligned to 64 bytes") };
        let store = self.store;
        let lock = store.read_lock(id.object, store.config.patience)?;
        let pin = store.pin(id.object)?;
        // SAFETY: the pin keeps the bytes where they are until it is dropped. All that changes an
        // object waits while it is read-locked; who writes to the address of a pin of its own
        // answers for that by its `unsafe` block. Memory of a store is initialized.
        let bytes = unsafe { std::slice::from_raw_parts(pin.as_ptr(), pin.len()) };
        let value = T::ref_from_bytes(bytes).map(NonNull::from).map_err(|_| {
            wrong(Some(id), format!("it has {} bytes, not {}", bytes.len(), size_of::<T>()))
        })?;
        Ok(Look { value, _pin: pin, lock })
    }
}

impl<T> Look<'_, T> {
    /// The object.
    #[must_use]
    pub fn id(&self) -> Id<T> {
        Id::of(self.lock.id())
    }
}

impl<T> Deref for Look<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: it was made of a reference to bytes that the pin and the lock, which live as long
        // as this, keep in place and as they are.
        unsafe { self.value.as_ref() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Look<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
