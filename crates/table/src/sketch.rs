//! HyperLogLog sketches: the number of distinct values of a column, estimated in at most 4 KiB
//! whatever the column's size.
//!
//! HyperLogLog (Flajolet, Fusy, Gandouet, Meunier, AofA 2007) with 4,096 registers of one byte and
//! 64-bit hashes, read by the estimator of Ertl ("New cardinality estimation algorithms for
//! HyperLogLog sketches", 2017, section 4), which needs neither bias tables nor a switch to linear
//! counting: standard error 1.04 / sqrt(4096) = 1.6 % at every size. Sketches of parts of a column
//! merge into the sketch of the whole without loss.
//!
//! A sketch of few values is a sorted list of the registers that they touched, and an empty sketch
//! allocates no memory.
//!
//! Hashes are part of the catalog's format: changing them is a format change.

const INDEX_BITS: u32 = 12;
const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of a hash that remain for a register's rank.
const RANK_BITS: u32 = 64 - INDEX_BITS;
/// Maximum value of a register; 0 means never touched.
const RANK_MAX: usize = 53;
/// Maximum number of registers in the sparse form: at four bytes each they take an eighth of the
/// dense form, and inserting one takes a few nanoseconds.
const SPARSE_MAX: usize = 128;

const FORM_DENSE: u8 = 0;
const FORM_SPARSE: u8 = 1;

/// A mergeable estimate of the number of distinct values.
///
/// Equal sketches are in the same form: sparse while at most `SPARSE_MAX` registers are touched.
#[derive(Clone, PartialEq, Eq)]
pub struct Sketch(Form);

#[derive(Clone, PartialEq, Eq)]
enum Form {
    /// Index and rank of each register that is not zero, by index.
    Sparse(Vec<(u16, u8)>),
    Dense(Box<[u8; REGISTERS]>),
}

impl Default for Sketch {
    fn default() -> Self {
        Self(Form::Sparse(Vec::new()))
    }
}

impl std::fmt::Debug for Sketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sketch(about {})", self.estimate())
    }
}

impl Sketch {
    /// Adds a value by its hash, which must be computed by this module.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        // The highest bits choose the register; the set bit keeps the rank within 53.
        let index = (hash >> RANK_BITS) as u16;
        let rest = hash << INDEX_BITS | 1 << (INDEX_BITS - 1);
        #[expect(clippy::cast_possible_truncation, reason = "at most 53")]
        let rank = rest.leading_zeros() as u8 + 1;
        match &mut self.0 {
            Form::Dense(registers) => {
                // Soon almost no value changes a register: a branch that is never taken costs less
                // than a store that the next value may have to wait for.
                let register = &mut registers[usize::from(index) % REGISTERS];
                if rank > *register {
                    *register = rank;
                }
            }
            Form::Sparse(_) => self.raise(index, rank),
        }
    }

    /// Adds every value of `other`.
    pub fn merge(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Form::Dense(mine), Form::Dense(theirs)) => {
                for (mine, theirs) in mine.iter_mut().zip(theirs.iter()) {
                    *mine = (*mine).max(*theirs);
                }
            }
            (_, Form::Sparse(theirs)) => {
                theirs.iter().for_each(|&(index, rank)| self.raise(index, rank));
            }
            (Form::Sparse(mine), Form::Dense(theirs)) => {
                let mine = std::mem::take(mine);
                self.0 = Form::Dense(theirs.clone());
                mine.into_iter().for_each(|(index, rank)| self.raise(index, rank));
            }
        }
    }

    /// Returns true if no value was ever added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Sparse(registers) if registers.is_empty())
    }

    /// Returns the estimated number of distinct values.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        let mut counts = [0_u32; RANK_MAX + 1];
        for (_, register) in self.touched() {
            counts[usize::from(register).min(RANK_MAX)] += 1;
        }
        let touched: u32 = counts.iter().sum();
        counts[0] = u32::try_from(REGISTERS).unwrap_or(u32::MAX) - touched;
        let estimate = ertl(&counts);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let estimate = estimate.round() as u64;
        estimate
    }

    /// Encodes the sketch for the catalog: as pairs of index and rank while those are shorter.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        if let Form::Dense(registers) = &self.0
            && self.touched().count() * 3 >= REGISTERS
        {
            return std::iter::once(FORM_DENSE).chain(registers.iter().copied()).collect();
        }
        let mut bytes = vec![FORM_SPARSE];
        for (index, rank) in self.touched() {
            bytes.extend(index.to_le_bytes());
            bytes.push(rank);
        }
        bytes
    }

    /// Decodes a sketch written by [`Sketch::to_bytes`]; returns `None` for any other bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&form, bytes) = bytes.split_first()?;
        let mut sketch = Self::default();
        let mut raise = |index: u16, rank: u8| {
            let in_range = usize::from(index) < REGISTERS && usize::from(rank) <= RANK_MAX;
            in_range.then(|| sketch.raise(index, rank))
        };
        match form {
            FORM_DENSE => {
                let registers: &[u8; REGISTERS] = bytes.try_into().ok()?;
                (0_u16..).zip(registers).try_for_each(|(index, rank)| raise(index, *rank))?;
            }
            FORM_SPARSE => {
                let (entries, []) = bytes.as_chunks::<3>() else { return None };
                for &[low, high, rank] in entries {
                    raise(u16::from_le_bytes([low, high]), rank)?;
                }
            }
            _ => return None,
        }
        Some(sketch)
    }

    /// Switches to the dense form, which is faster for many values; [`Sketch::settle`] undoes this
    /// if only few were added.
    pub(crate) fn expect_many(&mut self) {
        if let Form::Sparse(touched) = &self.0 {
            self.0 = Form::Dense(dense_of(touched));
        }
    }

    /// Switches to the canonical form, in which equal sketches compare equal.
    pub fn settle(&mut self) {
        if matches!(self.0, Form::Dense(_)) && self.touched().nth(SPARSE_MAX).is_none() {
            self.0 = Form::Sparse(self.touched().collect());
        }
    }

    /// Returns index and rank of every register that is not zero, by index.
    fn touched(&self) -> impl Iterator<Item = (u16, u8)> {
        let (sparse, dense) = match &self.0 {
            Form::Sparse(registers) => (registers.as_slice(), &[][..]),
            Form::Dense(registers) => (&[][..], registers.as_slice()),
        };
        let dense = (0_u16..).zip(dense.iter().copied()).filter(|(_, rank)| *rank != 0);
        sparse.iter().copied().chain(dense)
    }

    /// Raises a register to `rank`. Switches to the dense form when too many are touched.
    #[inline(never)]
    fn raise(&mut self, index: u16, rank: u8) {
        let touched = match &mut self.0 {
            Form::Dense(registers) => {
                let register = &mut registers[usize::from(index)];
                *register = (*register).max(rank);
                return;
            }
            Form::Sparse(_) if rank == 0 => return,
            Form::Sparse(touched) => touched,
        };
        match touched.binary_search_by_key(&index, |(index, _)| *index) {
            Ok(place) => touched[place].1 = touched[place].1.max(rank),
            Err(place) if touched.len() < SPARSE_MAX => touched.insert(place, (index, rank)),
            Err(_) => {
                let mut registers = dense_of(touched);
                registers[usize::from(index)] = rank;
                self.0 = Form::Dense(registers);
            }
        }
    }
}

fn dense_of(touched: &[(u16, u8)]) -> Box<[u8; REGISTERS]> {
    let mut registers = Box::new([0; REGISTERS]);
    touched.iter().for_each(|&(index, rank)| registers[usize::from(index)] = rank);
    registers
}

/// Computes Ertl's improved raw estimator from the number of registers per rank.
fn ertl(counts: &[u32; RANK_MAX + 1]) -> f64 {
    const M: f64 = REGISTERS as f64;
    let mut z = M * tau(1.0 - f64::from(counts[RANK_MAX]) / M);
    for &count in counts[1..RANK_MAX].iter().rev() {
        z = 0.5 * (z + f64::from(count));
    }
    z += M * sigma(f64::from(counts[0]) / M);
    M / (2.0 * std::f64::consts::LN_2) * M / z
}

/// Ertl's sigma, the term of the registers that were never touched; infinite if none ever was.
fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z <= before {
            return z;
        }
    }
}

/// Ertl's tau, the term of the registers that are full.
fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z >= before {
            return z / 3.0;
        }
    }
}

const K0: u64 = 0x9e37_79b9_7f4a_7c15;
const K1: u64 = 0xbf58_476d_1ce4_e5b9;
const K2: u64 = 0x94d0_49bb_1331_11eb;

/// Hashes a value of up to eight bytes with the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA
/// 2014).
#[inline]
#[must_use]
pub fn hash_word(word: u64) -> u64 {
    let mut hash = word.wrapping_add(K0);
    hash = (hash ^ (hash >> 30)).wrapping_mul(K1);
    hash = (hash ^ (hash >> 27)).wrapping_mul(K2);
    hash ^ (hash >> 31)
}

/// Hashes a value of any length, 16 bytes at a time through a 128-bit product folded in half.
#[inline]
#[must_use]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hash = K0 ^ (bytes.len() as u64).wrapping_mul(K2);
    let mut rest = bytes;
    while let Some((block, after)) = rest.split_first_chunk::<16>() {
        let block = u128::from_le_bytes(*block);
        hash = fold(hash ^ low(block), K1 ^ high(block));
        rest = after;
    }
    let tail = tail_of(rest);
    hash = fold(hash ^ low(tail), K2 ^ high(tail));
    hash_word(hash)
}

/// Returns up to 15 bytes as a number, by overlapping loads. The length is hashed already, so
/// different values of one length give different numbers.
#[inline]
fn tail_of(rest: &[u8]) -> u128 {
    if let (Some(first), Some(last)) = (rest.first_chunk::<8>(), rest.last_chunk::<8>()) {
        let last = u128::from(u64::from_le_bytes(*last));
        return last << 64 | u128::from(u64::from_le_bytes(*first));
    }
    if let (Some(first), Some(last)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        let last = u128::from(u32::from_le_bytes(*last));
        return last << 64 | u128::from(u32::from_le_bytes(*first));
    }
    match *rest {
        [] => 0,
        [a] => a.into(),
        [a, .., b] => u128::from(a) | u128::from(rest[rest.len() / 2]) << 8 | u128::from(b) << 64,
    }
}

/// Hashes a value that is stored inside its view, which no longer value shares.
#[inline]
#[must_use]
pub fn hash_view(view: u128) -> u64 {
    hash_word(fold(K0 ^ low(view), K1 ^ high(view)))
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    low(product) ^ high(product)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
fn low(word: u128) -> u64 {
    word as u64
}

#[inline]
fn high(word: u128) -> u64 {
    low(word >> 64)
}

/// Change of the sketches of a table's columns.
pub(crate) enum SketchChange {
    /// Merged into the existing sketches. Sketches cannot remove values, so after a DELETE they are
    /// an upper bound until the table is emptied.
    Merge(Vec<Sketch>),
    /// Replace the existing sketches.
    Replace(Vec<Sketch>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch_of(values: impl Iterator<Item = u64>) -> Sketch {
        let mut sketch = Sketch::default();
        values.for_each(|value| sketch.add(hash_word(value)));
        sketch
    }

    fn error(sketch: &Sketch, truth: u64) -> f64 {
        (sketch.estimate() as f64 - truth as f64).abs() / truth as f64
    }

    #[test]
    fn estimates_are_within_five_percent_at_every_size() {
        for size in [1, 2, 10, 100, 1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000, 10_000_000] {
            let sketch = sketch_of((0..size).map(|i| i * 7 + 3));
            assert!(error(&sketch, size) < 0.05, "{size}: {}", sketch.estimate());
        }
        assert_eq!(Sketch::default().estimate(), 0);
    }

    #[test]
    fn strings_are_told_apart_by_every_byte() {
        for prefix in ["", "a", "a prefix of more than sixteen bytes, and of thirty-two"] {
            let mut sketch = Sketch::default();
            for i in 0..100_000 {
                sketch.add(hash_bytes(format!("{prefix}{i}").as_bytes()));
            }
            assert!(error(&sketch, 100_000) < 0.05, "{}", sketch.estimate());
        }
        assert_ne!(hash_bytes(b""), hash_bytes(b"\0"));
    }

    #[test]
    fn parts_merge_into_the_whole() {
        let mut left = sketch_of(0..60_000);
        left.merge(&sketch_of(40_000..100_000));
        assert_eq!(left, sketch_of(0..100_000));
    }

    #[test]
    fn bytes_round_trip_in_both_forms() {
        for size in [0, 1, 500, 5_000, 500_000] {
            let sketch = sketch_of(0..size);
            let bytes = sketch.to_bytes();
            assert!(bytes.len() <= REGISTERS + 1);
            assert_eq!(Sketch::from_bytes(&bytes), Some(sketch));
        }
        assert_eq!(sketch_of(0..3).to_bytes().len(), 10);
    }

    #[test]
    fn the_form_says_nothing_of_how_the_values_came() {
        for size in [0, 1, 100, 127, 128, 129, 131, 140, 1_000] {
            let whole = sketch_of(0..size);
            for cut in [0, size.min(1), size / 2, size] {
                for [first, second] in [[0..cut, cut..size], [cut..size, 0..cut]] {
                    let mut parts = sketch_of(first);
                    parts.merge(&sketch_of(second));
                    assert_eq!(parts, whole, "{cut} of {size}");
                }
            }
            assert_eq!(whole.is_empty(), size == 0);
            let mut many = Sketch::default();
            many.expect_many();
            (0..size).for_each(|value| many.add(hash_word(value)));
            many.settle();
            assert_eq!(many, whole);
        }
    }

    #[test]
    fn few_values_take_little_memory() {
        let bytes = |sketch: &Sketch| match &sketch.0 {
            Form::Sparse(touched) => touched.capacity() * size_of::<(u16, u8)>(),
            Form::Dense(registers) => registers.len(),
        };
        assert_eq!(bytes(&Sketch::default()), 0);
        assert!(bytes(&sketch_of(0..4)) <= 16);
        assert!(bytes(&sketch_of(0..100)) <= 512);
        assert_eq!(bytes(&sketch_of(0..10_000)), REGISTERS);
        assert!(size_of::<Sketch>() <= 24);
    }

    #[test]
    fn foreign_bytes_are_refused() {
        for bytes in [&b""[..], b"\x02", b"\0\0", b"\x01\0", b"\x01\xff\xff\x01", b"\x01\0\0\xff"] {
            assert_eq!(Sketch::from_bytes(bytes), None, "{bytes:?}");
        }
    }
}
