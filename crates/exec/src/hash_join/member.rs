//! Which keys can be among those of the build side, by their hashes.
//!
//! A Bloom filter whose bits of one key are in one word, and are one of a few patterns (Putze,
//! Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters, JEA 2009, sections 3 and 4):
//! a look-up is one access to the filter, and a scan looks up every row. The hashes are those that
//! the join itself looks rows up by, so no row that has a match is left out.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::hash_utils::create_hashes;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use terrace_sys::size::{to_u64, to_usize};

use super::spec::HASHES;
use crate::block::Lease;
use crate::memory::Grant;

/// The keys of more rows than this are not collected: a build side that large seldom leaves much
/// out.
const KEYS_MAX: usize = 1 << 19;
/// Bits of the filter for each key, at least: one key in two hundred that is not there passes.
const BITS_PER_KEY: usize = 16;
/// Bits of a word that a key sets.
const BITS_SET: u32 = 4;
/// Patterns of so many bits; a key's is rotated, too.
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

/// The hashes of the keys of one build side, while they are not too many; counted in its grant.
#[derive(Debug)]
pub(super) struct KeyHashes {
    hashes: Vec<u64>,
    lease: Lease,
}

impl KeyHashes {
    pub(super) fn new(grant: &Arc<dyn Grant>) -> Self {
        Self { hashes: Vec::new(), lease: Lease::take_heap(grant, 0) }
    }

    /// Takes hashes in; false if that is too many, or memory too scarce.
    pub(super) fn add(&mut self, hashes: &[u64]) -> bool {
        let keys = self.hashes.len() + hashes.len();
        if keys > KEYS_MAX {
            return false;
        }
        let room = keys.next_power_of_two();
        let more = to_u64(room * size_of::<u64>()).saturating_sub(self.lease.bytes());
        if more > 0 && !self.lease.try_extend(more) {
            return false;
        }
        self.hashes.reserve_exact(room - self.hashes.len());
        self.hashes.extend_from_slice(hashes);
        true
    }
}

/// The filter, counted in the grant of a build side until the plan is gone.
pub(super) struct Members {
    words: Vec<u64>,
    keys: usize,
    _lease: Lease,
}

impl Members {
    /// The filter of all these hashes, if there is memory for it.
    pub(super) fn of(lists: &[KeyHashes]) -> Option<Self> {
        let keys = lists.iter().map(|list| list.hashes.len()).sum::<usize>();
        let words = (keys * BITS_PER_KEY).div_ceil(64).next_power_of_two();
        let lease =
            Lease::ask_heap(lists.first()?.lease.grant(), to_u64(words * size_of::<u64>()))?;
        let mut words = vec![0; words];
        let last = words.len() - 1;
        for hash in lists.iter().flat_map(|list| &list.hashes) {
            let (word, bits) = place(*hash);
            words[word & last] |= bits;
        }
        Some(Self { words, keys, _lease: lease })
    }

    /// Whether each of these hashes may be one of its own.
    fn may_have(&self, hashes: &[u64]) -> BooleanBuffer {
        let words = self.words.as_slice();
        let last = words.len() - 1;
        let of_chunk = |hashes: &[u64]| {
            hashes.iter().rev().fold(0_u64, |found, hash| {
                let (word, bits) = place(*hash);
                found << 1 | u64::from(words[word & last] & bits == bits)
            })
        };
        let found: Vec<u64> = hashes.chunks(64).map(of_chunk).collect();
        BooleanBuffer::new(Buffer::from_vec(found), 0, hashes.len())
    }
}

/// The word of a hash, modulo the number of words, and its bits there.
#[inline]
fn place(hash: u64) -> (usize, u64) {
    // The hash of an integer may be weak in some of its bits.
    let mixed = hash.wrapping_mul(MIX);
    let bits = PATTERNS[to_usize(mixed >> 54)].rotate_left((mixed >> 48) as u32 & 63);
    (to_usize(mixed >> 16 ^ hash), bits)
}

/// Whether keys may be among those of a build side.
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
        let mut hashes = vec![0; rows];
        create_hashes(&arrays, &HASHES, &mut hashes)?;
        let found = self.members.may_have(&hashes);
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
    use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
    use datafusion::physical_expr::expressions::col;
    use terrace_market::Ledger;
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

    fn numbers(values: impl Iterator<Item = i64>) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(values))
    }

    fn hashes(keys: &ArrayRef) -> Vec<u64> {
        let mut hashes = vec![0; keys.len()];
        create_hashes([keys], &HASHES, &mut hashes).expect("hashes");
        hashes
    }

    #[test]
    fn keys_that_are_there_pass_and_few_others() {
        let (memory, grant) = grant(1 << 20);
        let keys = numbers((0..10_000).map(|n| n * 7));
        let mut lists = [KeyHashes::new(&grant), KeyHashes::new(&grant)];
        assert!(lists[0].add(&hashes(&keys.slice(0, 4000))));
        assert!(lists[1].add(&hashes(&keys.slice(4000, 6000))));
        assert!(memory.held_bytes() >= 80_000);
        let members = Members::of(&lists).expect("memory");
        drop(lists);
        assert_eq!(memory.held_bytes(), 32 << 10);
        let all = numbers(0..70_000);
        let batch = RecordBatch::try_from_iter([("k", all)]).expect("batch");
        let key = col("k", &batch.schema()).expect("column");
        let expr = MemberExpr::new(vec![key], members);
        let found = expr.evaluate(&batch).expect("bits").into_array(70_000).expect("array");
        let found = found.as_boolean();
        assert!((0..10_000).all(|n| found.value(n * 7)));
        let wrong = found.true_count() - 10_000;
        assert!(wrong < 60_000 / 50, "{wrong} of 60,000 others pass");
        drop(expr);
        assert_eq!(memory.held_bytes(), 0);
    }

    #[test]
    fn too_many_keys_or_too_little_memory_end_the_list() {
        let (memory, grant) = grant(1 << 10);
        let mut list = KeyHashes::new(&grant);
        assert!(list.add(&[1; 100]));
        assert!(!list.add(&[1; 100]));
        drop(list);
        assert_eq!(memory.held_bytes(), 0);
        let (_memory, grant) = self::grant(1 << 30);
        assert!(!KeyHashes::new(&grant).add(&vec![1; KEYS_MAX + 1]));
    }
}
