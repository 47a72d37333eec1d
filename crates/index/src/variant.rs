//! Hash index with a page look-up that is selected at run time.

use terrace_pool::{Pages, Space};

use crate::error::Result;
use crate::hash_index::{HashConfig, HashIndex, Shape};
use crate::no_hints::Unhinted;
use crate::single_latch::SingleLatch;

/// Method by which an index finds the next page of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// By the hint in the reference to it.
    Hints,
    /// By the pool's page table, an array without latches.
    PageTable,
    /// In a map under one latch, as published.
    SingleLatch,
}

/// Interface of a hash index whose page look-up was selected at run time. The methods are those of
/// [`HashIndex`].
pub trait Index: Send + Sync {
    /// See [`HashIndex::insert`].
    ///
    /// # Errors
    /// As [`HashIndex::insert`].
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool>;

    /// See [`HashIndex::get_into`].
    ///
    /// # Errors
    /// As [`HashIndex::get`].
    fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    /// See [`HashIndex::shape`].
    ///
    /// # Errors
    /// As [`HashIndex::get`].
    fn shape(&self) -> Result<Shape>;
}

impl<P: Pages> Index for HashIndex<P> {
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        HashIndex::insert(self, key, value)
    }

    fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        HashIndex::get_into(self, key, value)
    }

    fn shape(&self) -> Result<Shape> {
        HashIndex::shape(self)
    }
}

impl Variant {
    /// Every variant.
    pub const ALL: [Variant; 3] = [Variant::Hints, Variant::PageTable, Variant::SingleLatch];

    /// Name of the variant.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Hints => "hints",
            Variant::PageTable => "page table",
            Variant::SingleLatch => "single latch",
        }
    }

    /// Creates an empty hash index of this variant over the pages of `space`.
    ///
    /// # Errors
    /// As [`HashIndex::new`].
    pub fn hash_index(self, space: Space, config: &HashConfig) -> Result<Box<dyn Index>> {
        Ok(match self {
            Variant::Hints => Box::new(HashIndex::new(space, config)?),
            Variant::PageTable => Box::new(HashIndex::new(Unhinted(space), config)?),
            Variant::SingleLatch => Box::new(HashIndex::new(SingleLatch::new(space), config)?),
        })
    }
}
