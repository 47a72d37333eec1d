//! The hash index: what it is made of, and look-ups.
//!
//! Who changes a bucket has the bucket's lock; readers do without. A writer looks for the key under
//! shared latches like everybody, and takes the exclusive latch of the one page that it changes.
//! Latches of two pages are taken in the order of the chain, so nobody waits in a circle:
//!
//! 1. the bucket's lock,
//! 2. pages of its chain, from its head to its end,
//! 3. a new page, which nobody else knows yet.
//!
//! Expected cost of a look-up in DRAM, with hints: per page of the chain the latch of its frame
//! (one cache line), its header, and a line of its table; at the end the record.

use terrace_pool::{PAGE_MAX_BYTES, PAGE_MIN_BYTES, Pages, Space};

use crate::chain::{Bucket, Walk};
use crate::error::{IndexError, Result, in_page};
use crate::hash::KeyHash;
use crate::page::pair_limit;

/// Buckets that an index can have; each takes 24 bytes of memory.
const BUCKETS_MAX: usize = 1 << 28;

/// How a hash index is set up.
#[derive(Clone, Copy, Debug)]
pub struct HashConfig {
    /// How many chains there are: 1 to 2^28. The directory is an array beside the pool.
    pub buckets: usize,
    /// Bytes of a page, rounded up to 4 KiB, at most 16 MiB.
    pub page_bytes: usize,
}

/// What an index is made of at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Pages of all chains.
    pub pages: u64,
    /// Pages of the longest chain.
    pub longest: u64,
    /// Records.
    pub records: u64,
    /// Bytes of records, with their lengths and padding.
    pub record_bytes: u64,
}

/// A hash index from keys to values, both of any bytes: buckets of chained pages over a pool.
///
/// All methods may be called from any number of threads. The pages are in the space that the index
/// was made with, evicted and brought back as the pool sees fit, and go with that space. A key has
/// one value.
#[derive(Debug)]
pub struct HashIndex<P: Pages = Space> {
    pub(crate) pages: P,
    pub(crate) buckets: Box<[Bucket]>,
    pub(crate) page_bytes: usize,
    pub(crate) hasher: KeyHash,
}

impl<P: Pages> HashIndex<P> {
    /// An empty index. Pages are made as they are needed.
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

    /// A copy of a key's value.
    ///
    /// # Errors
    /// [`IndexError::Pool`] when a page cannot be had, [`IndexError::Corrupt`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// What `read` makes of a key's value, which it sees in the page.
    ///
    /// The page is held for reading until `read` returns, so `read` must not change the index: the
    /// change would wait for it and end as [`terrace_pool::PoolError::LatchTimeout`].
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

    /// Copies a key's value into `value`, in place of what was there. False, and `value` empty,
    /// when the key has none.
    ///
    /// # Errors
    /// As [`HashIndex::get`].
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        Ok(self.get_with(key, |found| value.extend_from_slice(found))?.is_some())
    }

    /// Whether a key has a value.
    ///
    /// # Errors
    /// As [`HashIndex::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// Shows `see` every key and value, in no order.
    ///
    /// What is there all the while is seen once; what comes, goes or changes meanwhile may or may
    /// not be, and a value that outgrows its page may be seen twice. `see` must not change the
    /// index, as in [`HashIndex::get_with`].
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

    /// Every key and value, in no order, copied a bucket at a time. While the iterator is not being
    /// asked it holds no page, so the index may be changed between two items.
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

    /// How many keys there are.
    pub fn len(&self) -> u64 {
        self.buckets.iter().map(|bucket| *bucket.lock()).sum()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts pages and records by walking along every chain.
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

    /// Bytes that a key and its value may have together.
    pub fn pair_limit(&self) -> usize {
        pair_limit(self.page_bytes)
    }
}
