//! A tree in the heap, with the interface of the tree over pages.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};
use std::sync::{Mutex, PoisonError};

use terrace_index::Result;
use terrace_pool::Pages;

pub struct TreeConfig {
    pub page_bytes: usize,
}

pub struct BTree<P: Pages>(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>, PhantomData<P>);

impl<P: Pages> BTree<P> {
    fn map(&self) -> std::sync::MutexGuard<'_, BTreeMap<Vec<u8>, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn new(_: P, config: &TreeConfig) -> Result<Self> {
        debug_assert!(config.page_bytes > 0);
        Ok(Self(Mutex::default(), PhantomData))
    }

    pub fn get_with<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        Ok(self.map().get(key).map(|value| read(value)))
    }

    pub fn get_batch<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut see: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let map = self.map();
        keys.iter()
            .enumerate()
            .for_each(|(at, key)| see(at, map.get(key.as_ref()).map(Vec::as_slice)));
        Ok(())
    }

    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let mut map = self.map();
        if map.contains_key(key) {
            return Ok(false);
        }
        map.insert(key.to_vec(), value.to_vec());
        Ok(true)
    }

    pub fn update<T>(&self, key: &[u8], change: impl FnOnce(&mut [u8]) -> T) -> Result<Option<T>> {
        Ok(self.map().get_mut(key).map(|value| change(value)))
    }

    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(self.map().remove(key).is_some())
    }

    pub fn scan(
        &self,
        from: Bound<&[u8]>,
        mut see: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let map = self.map();
        let _ = map.range::<[u8], _>((from, Bound::Unbounded)).try_for_each(|(k, v)| see(k, v));
        Ok(())
    }

    pub fn scan_back(
        &self,
        from: Bound<&[u8]>,
        mut see: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let map = self.map();
        let mut range = map.range::<[u8], _>((Bound::Unbounded, from)).rev();
        let _ = range.try_for_each(|(k, v)| see(k, v));
        Ok(())
    }

    pub fn bulk_load(
        _: P,
        _: &TreeConfig,
        sorted: impl IntoIterator<Item = (impl AsRef<[u8]>, impl AsRef<[u8]>)>,
    ) -> Result<Self> {
        let pairs = sorted.into_iter();
        let map = pairs.map(|(k, v)| (k.as_ref().to_vec(), v.as_ref().to_vec())).collect();
        Ok(Self(Mutex::new(map), PhantomData))
    }
}
