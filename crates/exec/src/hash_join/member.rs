//! Membership filter: rules out keys that are not among those of the build side.
//!
//! For dense integers the filter is a bitmap with one bit per integer. For other keys it is a
//! blocked Bloom filter: the bits of a key are in one word, and are one of a few patterns (Putze,
//! Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters, JEA 2009, sections 3 and 4),
//! so that a lookup is one access to memory. The hashes are those by which the join itself looks up
//! rows, so no row that has a match is filtered out.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::hash_utils::create_hashes;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use terrace_sys::size::{to_u64, to_usize};

use super::integer::{integers, is_integer};
use super::spec::{HASHES, Keys};
use crate::block::Lease;
use crate::floats::all_canonical;
use crate::memory::Grant;

/// Maximum number of rows whose keys are collected: a larger build side seldom filters out much.
const KEYS_MAX: usize = 1 << 19;
/// Minimum bits of the filter per key: one in two hundred absent keys passes.
const BITS_PER_KEY: usize = 16;
/// Maximum size of a bitmap over a range of integers, as a multiple of the words of a Bloom filter.
const BITMAP_WORDS_MAX: usize = 2;
/// Number of bits of a word that a key sets.
const BITS_SET: u32 = 4;
/// Patterns of `BITS_SET` bits; a key's pattern is rotated, too.
static PATTERNS: [u64; 1 << 10] = patterns();

const fn patterns() -> [u64; 1 << 10] {
    let (mut patterns, mut state, mut n) = ([0_u64; 1 << 10], MIX, 0);
    while n < patterns.len() {
        while patterns[n].count_ones() < BITS_SET {
            state = (state ^ (state >> 29)).wrapping_mul(MIX) ^ (state >> 7);
            patterns[n] |= 1 << (state >> 58);
        }
        n += 1;
    }
    patterns
}

/// An odd number of many bits (Knuth's, from the golden ratio).
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// The keys of one build partition, at most `KEYS_MAX`; charged to its grant.
#[derive(Debug)]
pub(super) struct KeyList {
    /// Type of the only key if that is an integer, and then `keys` has its values; else `keys` has
    /// hashes.
    integer: Option<DataType>,
    keys: Vec<u64>,
    lease: Lease,
}

impl KeyList {
    /// Creates an empty list of keys of these types.
    pub(super) fn new(types: &[DataType], grant: &Arc<dyn Grant>) -> Self {
        let integer = match types {
            [only] if is_integer(only) => Some(only.clone()),
            _ => None,
        };
        Self { integer, keys: Vec::new(), lease: Lease::take_heap(grant, 0) }
    }

    /// Adds keys; returns false, without adding, if there would be more than `KEYS_MAX` or the
    /// grant refuses the memory.
    ///
    /// # Errors
    /// If the keys are not of the types of the list.
    pub(super) fn add(&mut self, keys: &Keys) -> Result<bool> {
        let count = self.keys.len() + keys.hashes.len();
        if count > KEYS_MAX {
            return Ok(false);
        }
        let room = count.next_power_of_two();
        let more = to_u64(room * size_of::<u64>()).saturating_sub(self.lease.bytes());
        if more > 0 && !self.lease.try_extend(more) {
            return Ok(false);
        }
        self.keys.reserve_exact(room - self.keys.len());
        match (&self.integer, keys.arrays.first()) {
            (Some(_), Some(key)) => {
                let integers = integers(key)?;
                self.keys.extend(integers.iter().flatten().map(i64::cast_unsigned));
            }
            _ => self.keys.extend_from_slice(&keys.hashes),
        }
        Ok(true)
    }

    /// Returns the least and the greatest integer, if the keys are integers.
    fn range(&self) -> Option<(i64, i64)> {
        self.integer.as_ref()?;
        let integers = || self.keys.iter().map(|key| key.cast_signed());
        integers().min().zip(integers().max())
    }

    fn hashes(&self) -> Result<Cow<'_, [u64]>> {
        let Some(data_type) = &self.integer else { return Ok(Cow::Borrowed(&self.keys)) };
        let integers = Int64Array::from_iter_values(self.keys.iter().map(|it| it.cast_signed()));
        let mut hashes = vec![0; self.keys.len()];
        create_hashes([&cast(&integers, data_type)?], &HASHES, &mut hashes)?;
        Ok(Cow::Owned(hashes))
    }
}

/// The membership filter, charged to the grant of a build side until the plan is dropped.
pub(super) struct Members {
    words: Vec<u64>,
    /// The integer of the first bit, if the filter is a bitmap of integers.
    least: Option<i64>,
    keys: usize,
    _lease: Lease,
}

impl Members {
    /// Builds the filter of all keys of `lists`; `None` if there is no list or the grant refuses
    /// the memory.
    ///
    /// # Errors
    /// If the keys of a list are not of its type.
    pub(super) fn of(lists: &[KeyList]) -> Result<Option<Self>> {
        let Some(first) = lists.first() else { return Ok(None) };
        let keys = lists.iter().map(|list| list.keys.len()).sum::<usize>();
        let mut words = (keys * BITS_PER_KEY).div_ceil(64).next_power_of_two();
        let ranges = lists.iter().filter(|list| !list.keys.is_empty()).map(KeyList::range);
        let range = ranges.reduce(|all, range| {
            let ((least, most), (min, max)) = all.zip(range)?;
            Some((least.min(min), most.max(max)))
        });
        let range = range
            .flatten()
            .filter(|(least, most)| most.abs_diff(*least) / 64 < to_u64(words * BITMAP_WORDS_MAX));
        if let Some((least, most)) = range {
            words = to_usize(most.abs_diff(least) / 64) + 1;
        }
        let lease = Lease::ask_heap(first.lease.grant(), to_u64(words * size_of::<u64>()));
        let Some(lease) = lease else { return Ok(None) };
        let mut words = vec![0; words];
        let last = words.len() - 1;
        for list in lists {
            if let Some((least, _)) = range {
                for key in &list.keys {
                    let distance = key.cast_signed().abs_diff(least);
                    words[to_usize(distance / 64)] |= 1 << (distance % 64);
                }
                continue;
            }
            for hash in list.hashes()?.iter() {
                let (word, bits) = place(*hash);
                words[word & last] |= bits;
            }
        }
        Ok(Some(Self { words, least: range.map(|(least, _)| least), keys, _lease: lease }))
    }

    /// Returns a bit for each key: set if it may be one of the filter's keys. The bit of a null is
    /// undefined.
    fn may_have(&self, keys: &[ArrayRef], rows: usize) -> Result<BooleanBuffer> {
        let words = self.words.as_slice();
        if let (Some(least), [key]) = (self.least, keys) {
            let integers = integers(key)?;
            return Ok(bits_of(integers.values(), |key| {
                // A key below the least wraps around to a distance beyond every word.
                let distance = key.wrapping_sub(least).cast_unsigned();
                let word = words.get(to_usize(distance / 64)).copied().unwrap_or(0);
                word >> (distance % 64) & 1
            }));
        }
        let mut hashes = vec![0; rows];
        create_hashes(&all_canonical(keys)?, &HASHES, &mut hashes)?;
        let last = words.len() - 1;
        Ok(bits_of(&hashes, |hash| {
            let (word, bits) = place(*hash);
            u64::from(words[word & last] & bits == bits)
        }))
    }
}

/// Returns a buffer of one bit per value, which `bit` returns as 0 or 1.
fn bits_of<T>(values: &[T], bit: impl Fn(&T) -> u64) -> BooleanBuffer {
    let of_chunk =
        |values: &[T]| values.iter().rev().fold(0_u64, |bits, value| bits << 1 | bit(value));
    let words: Vec<u64> = values.chunks(64).map(of_chunk).collect();
    BooleanBuffer::new(Buffer::from_vec(words), 0, values.len())
}

/// Returns the index of a hash's word, to be taken modulo the number of words, and the bits that
/// the hash sets there.
#[inline]
fn place(hash: u64) -> (usize, u64) {
    // The hash of an integer may be weak in some of its bits.
    let mixed = hash.wrapping_mul(MIX);
    let bits = PATTERNS[to_usize(mixed >> 54)].rotate_left((mixed >> 48) as u32 & 63);
    (to_usize(mixed >> 16 ^ hash), bits)
}

/// Expression that is true for keys that may be among those of a build side.
#[derive(Clone)]
pub(super) struct MemberExpr {
    keys: Vec<PhysicalExprRef>,
    members: Arc<Members>,
}

impl MemberExpr {
    pub(super) fn new(keys: Vec<PhysicalExprRef>, members: Members) -> Self {
        Self { keys, members: Arc::new(members) }
    }
}

impl PhysicalExpr for MemberExpr {
    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _schema: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let evaluate = |key: &PhysicalExprRef| key.evaluate(batch)?.into_array(rows);
        let arrays = self.keys.iter().map(evaluate).collect::<Result<Vec<_>>>()?;
        let found = self.members.may_have(&arrays, rows)?;
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(found, None))))
    }

    fn children(&self) -> Vec<&PhysicalExprRef> {
        self.keys.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, keys: Vec<PhysicalExprRef>) -> Result<PhysicalExprRef> {
        Ok(Arc::new(Self { keys, members: Arc::clone(&self.members) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for MemberExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        write!(f, "{} among those of {} rows", keys.join(", "), self.members.keys)
    }
}

impl fmt::Debug for MemberExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for MemberExpr {
    fn eq(&self, other: &Self) -> bool {
        self.keys == other.keys && Arc::ptr_eq(&self.members, &other.members)
    }
}

impl Eq for MemberExpr {}

impl Hash for MemberExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.keys.hash(state);
        Arc::as_ptr(&self.members).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Array, AsArray, Int32Array};
    use datafusion::physical_expr::expressions::col;
    use terrace_ledger::Ledger;
    use terrace_pool::{Pool, PoolConfig};

    use super::*;
    use crate::memory::{FixedMemory, QueryMemory};

    fn grant(limit_bytes: u64) -> (FixedMemory, Arc<dyn Grant>) {
        let pool = Pool::new(PoolConfig::new("test", Ledger::new(1 << 20))).expect("pool");
        let space = pool.create_space("test", None).expect("space");
        let memory = FixedMemory::new(space, limit_bytes);
        let grant = memory.register("join");
        (memory, grant)
    }

    fn keys_of(array: &ArrayRef) -> Keys {
        let mut hashes = vec![0; array.len()];
        create_hashes([array], &HASHES, &mut hashes).expect("hashes");
        Keys { arrays: vec![Arc::clone(array)], hashes, valid: None }
    }

    fn numbers(values: impl Iterator<Item = i32>) -> ArrayRef {
        Arc::new(Int32Array::from_iter_values(values))
    }

    /// Returns the filter's result for other keys, and its bytes.
    fn found(keys: &ArrayRef, others: &ArrayRef) -> (BooleanArray, u64) {
        let (memory, grant) = grant(1 << 20);
        let types = [keys.data_type().clone()];
        let mut lists = [KeyList::new(&types, &grant), KeyList::new(&types, &grant)];
        let part = keys.len() / 3;
        assert!(lists[0].add(&keys_of(&keys.slice(0, part))).expect("keys"));
        assert!(lists[1].add(&keys_of(&keys.slice(part, keys.len() - part))).expect("keys"));
        assert!(memory.held_bytes() >= to_u64(keys.len() - keys.null_count()) * 8);
        let members = Members::of(&lists).expect("keys").expect("memory");
        drop(lists);
        let bytes = memory.held_bytes();
        let batch = RecordBatch::try_from_iter([("k", Arc::clone(others))]).expect("batch");
        let key = col("k", &batch.schema()).expect("column");
        let expr = MemberExpr::new(vec![key], members);
        let found = expr.evaluate(&batch).expect("bits").into_array(others.len()).expect("array");
        drop(expr);
        assert_eq!(memory.held_bytes(), 0);
        (found.as_boolean().clone(), bytes)
    }

    #[test]
    fn keys_that_are_there_pass_and_few_others() {
        let keys = numbers((0..10_000).map(|n| n * 200_000 - 1_000_000_000));
        let others = numbers((0..70_000).map(|n| n / 7 * 200_000 + n % 7 - 1_000_000_000));
        let text = |array: &ArrayRef| cast(array, &DataType::Utf8View).expect("text");
        for (keys, others) in [(text(&keys), text(&others)), (keys, others)] {
            let (found, bytes) = found(&keys, &others);
            assert_eq!(bytes, 32 << 10);
            assert!((0..10_000).all(|n| found.value(n * 7)));
            let wrong = found.true_count() - 10_000;
            assert!(wrong < 60_000 / 50, "{wrong} of 60,000 others pass");
        }
    }

    #[test]
    fn of_integers_close_together_nothing_else_passes() {
        for first in [-9_000, i32::MIN, i32::MAX - 70_000] {
            let keys = numbers((0..10_000).map(|n| first + n * 7));
            let (found, bytes) = found(&keys, &numbers((0..70_000).map(|n| first + n)));
            assert_eq!(bytes, 70_000_u64.div_ceil(64) * 8);
            assert!((0..70_000).all(|n| found.value(n) == (n % 7 == 0)));
        }
        let keys: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(5), Some(70), None]));
        let (found, _) = found(&keys, &numbers([4, 5, 69, 70, 71, i32::MIN, i32::MAX].into_iter()));
        let passed: Vec<bool> = found.values().iter().collect();
        assert_eq!(passed, [false, true, false, true, false, false, false]);
    }

    #[test]
    fn too_many_keys_or_too_little_memory_end_the_list() {
        let (memory, grant) = grant(1 << 10);
        let mut list = KeyList::new(&[DataType::Int32], &grant);
        let many = |count| keys_of(&numbers(0..count));
        assert!(list.add(&many(100)).expect("keys"));
        assert!(!list.add(&many(100)).expect("keys"));
        drop(list);
        assert_eq!(memory.held_bytes(), 0);
        let (_memory, grant) = self::grant(1 << 30);
        let mut list = KeyList::new(&[DataType::Int32], &grant);
        assert!(!list.add(&many((1 << 19) + 1)).expect("keys"));
    }
}
