//! Hash index: its structure and look-ups.
//!
//! A writer holds the lock of the bucket that it changes; readers do not take it. A writer finds
//! the key under shared latches as readers do, then takes the exclusive latch of the one page that
//! it changes. Two latches are taken in the order of the chain, so there is no deadlock:
//!
//! 1. the lock of the bucket,
//! 2. the pages of its chain, from head to end,
//! 3. a new page, which no other thread can reach yet.
//!
//! Expected cost of a look-up in DRAM, with hints: for each page of the chain the latch of its
//! frame (one cache line), its header, and a line of its table; at the end the record.

use terrace_pool::{PAGE_MAX_BYTES, PAGE_MIN_BYTES, Pages, Space};

use crate::chain::{Bucket, Walk};
use crate::error::{IndexError, Result, in_page};
use crate::hash::KeyHash;
use crate::page::pair_limit;

/// Maximum number of buckets of an index; each takes 24 bytes of memory.
const BUCKETS_MAX: usize = 1 << 28;

/// Configuration of a hash index.
#[derive(Clone, Copy, Debug)]
pub struct HashConfig {
    /// Number of buckets (chains), 1 to 2^28. The directory is an array outside of the pool.
    pub buckets: usize,
    /// Page size in bytes, rounded up to 4 KiB, at most 16 MiB.
    pub page_bytes: usize,
}

/// Size of an index: its pages and records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Pages of all chains.
    pub pages: u64,
    /// Pages of the longest chain.
    pub longest: u64,
    /// Number of records.
    pub records: u64,
    /// Bytes of records, including their lengths and padding.
    pub record_bytes: u64,
}

/// A hash index from keys to values, both arbitrary bytes: buckets of chained pages over a pool.
///
/// All methods may be called from any number of threads. The pages belong to the space that the
/// index was created with: the pool evicts and loads them, and they are freed with that space. A
/// key has one value.
#[derive(Debug)]
pub struct HashIndex<P: Pages = Space> {
    pub(crate) pages: P,
    pub(crate) buckets: Box<[Bucket]>,
    pub(crate) page_bytes: usize,
    pub(crate) hasher: KeyHash,
}

impl<P: Pages> HashIndex<P> {
    /// Creates an empty index. Pages are allocated as they are needed.
    ///
    /// # Errors
    /// [`IndexError::Config`] outside the limits of [`HashConfig`].
    pub fn new(pages: P, config: &HashConfig) -> Result<Self> {
        let HashConfig { buckets, page_bytes } = *config;
        if !(1..=BUCKETS_MAX).contains(&buckets) {
            return Err(IndexError::Config(format!(
                "a hash index has 1 to {BUCKETS_MAX} buckets, not {buckets}"
            )));
        }
        if !(1..=PAGE_MAX_BYTES).contains(&page_bytes) {
            return Err(IndexError::Config(format!(
                "pages have {PAGE_MIN_BYTES} to {PAGE_MAX_BYTES} bytes, not {page_bytes}"
            )));
        }
        Ok(Self {
            pages,
            buckets: (0..buckets).map(|_| Bucket::new()).collect(),
            page_bytes: page_bytes.next_multiple_of(PAGE_MIN_BYTES),
            hasher: KeyHash::new(),
        })
    }

    /// Returns a copy of a key's value.
    ///
    /// # Errors
    /// [`IndexError::Pool`] if a page cannot be read, [`IndexError::Corrupt`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// Calls `read` with a key's value, in the page, and returns its result.
    ///
    /// The page is latched for reading until `read` returns, so `read` must not change the index:
    /// the change would wait for the latch and fail with [`terrace_pool::PoolError::LatchTimeout`].
    ///
    /// # Errors
    /// As [`HashIndex::get`].
    pub fn get_with<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let hash = self.hasher.of(key);
        let bucket = &self.buckets[hash.bucket(self.buckets.len())];
        let Some(mut walk) = Walk::start(&self.pages, bucket)? else { return Ok(None) };
        loop {
            let view = walk.view()?;
            if let Some(found) = in_page(walk.page.id(), view.find(hash, key))? {
                return Ok(Some(read(found.record.value)));
            }
            let next = view.header.next;
            if !walk.advance(next)? {
                return Ok(None);
            }
        }
    }

    /// Copies a key's value over the contents of `value`. Returns false, and leaves `value` empty,
    /// if the key has none.
    ///
    /// # Errors
    /// As [`HashIndex::get`].
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        Ok(self.get_with(key, |found| value.extend_from_slice(found))?.is_some())
    }

    /// True if a key has a value.
    ///
    /// # Errors
    /// As [`HashIndex::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// Calls `see` with every key and value, in no order.
    ///
    /// A record that exists throughout the call is visited once; one that is inserted, removed or
    /// changed meanwhile may or may not be visited, and a value that outgrows its page may be
    /// visited twice. `see` must not change the index, as in [`HashIndex::get_with`].
    ///
    /// # Errors
    /// As [`HashIndex::get`].
    pub fn for_each(&self, mut see: impl FnMut(&[u8], &[u8])) -> Result<()> {
        for bucket in &self.buckets {
            self.for_each_in(bucket, &mut see)?;
        }
        Ok(())
    }

    fn for_each_in(&self, bucket: &Bucket, see: &mut impl FnMut(&[u8], &[u8])) -> Result<()> {
        let Some(mut walk) = Walk::start(&self.pages, bucket)? else { return Ok(()) };
        loop {
            let view = walk.view()?;
            for record in view.records() {
                let record = in_page(walk.page.id(), record)?;
                see(record.key, record.value);
            }
            let next = view.header.next;
            if !walk.advance(next)? {
                return Ok(());
            }
        }
    }

    /// Iterates over every key and value, in no order, copied one bucket at a time. The iterator
    /// holds no page between two items, so the index may be changed there.
    pub fn iter(&self) -> impl Iterator<Item = Result<(Vec<u8>, Vec<u8>)>> + '_ {
        self.buckets.iter().flat_map(|bucket| {
            let mut pairs = Vec::new();
            let all = self.for_each_in(bucket, &mut |key, value| {
                pairs.push(Ok((key.to_vec(), value.to_vec())));
            });
            pairs.extend(all.err().map(Err));
            pairs
        })
    }

    /// Number of keys.
    pub fn len(&self) -> u64 {
        self.buckets.iter().map(|bucket| *bucket.lock()).sum()
    }

    /// True if the index has no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts pages and records by reading every chain.
    ///
    /// # Errors
    /// As [`HashIndex::get`].
    pub fn shape(&self) -> Result<Shape> {
        let mut shape = Shape::default();
        for bucket in &self.buckets {
            let Some(mut walk) = Walk::start(&self.pages, bucket)? else { continue };
            let mut chain = 0;
            loop {
                let header = walk.view()?.header;
                chain += 1;
                shape.records += header.count as u64;
                shape.record_bytes += header.live as u64;
                if !walk.advance(header.next)? {
                    break;
                }
            }
            shape.pages += chain;
            shape.longest = shape.longest.max(chain);
        }
        Ok(shape)
    }

    /// Maximum bytes of a key and its value together.
    pub fn pair_limit(&self) -> usize {
        pair_limit(self.page_bytes)
    }
}
