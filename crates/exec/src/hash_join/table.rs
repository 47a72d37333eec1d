//! Hash table of build rows in memory, and its probing.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use datafusion::arrow::compute::take;
use datafusion::common::{JoinSide, Result};
use terrace_sys::size::{to_u64, to_usize};

use super::directory::{Directory, Heads, not_pinned};
use super::spec::{HASH, Keys, NUMBER, Source, Spec};
use crate::Grant;
use crate::rows::{Access, Columns, RowAddress, RowPages, Rows};

/// Distance in heads at which links are prefetched.
const AHEAD: usize = 16;

/// Hash table: build rows pinned in memory, and a hash directory of them.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) rows: RowPages,
    directory: Directory,
    granted: Granted,
    /// True if the number of each row is its index in the table: it has all rows of the build side
    /// in the order of the input.
    pub(super) is_numbered: bool,
}

impl Table {
    /// Returns the bytes to charge to a grant for a table of the rows of `pages`, without those of
    /// pages that `rows` has pinned.
    pub(super) fn bytes_for(rows: &RowPages, pages: Range<usize>) -> u64 {
        let count: usize = pages.clone().map(|page| rows.rows_in(page)).sum();
        rows.bytes_to_pin(pages) + Directory::bytes_of(to_u64(count))
    }

    /// Pins some pages and builds a table of their rows. The bytes for that, as returned by
    /// [`Table::bytes_for`], have been granted.
    pub(super) async fn new(
        mut rows: RowPages,
        pages: Range<usize>,
        grant: Arc<dyn Grant>,
        spec: &Spec,
    ) -> Result<Self> {
        let count: usize = pages.clone().map(|page| rows.rows_in(page)).sum();
        let mut granted = Granted::of(Directory::bytes_of(to_u64(count)), grant);
        rows.take_reserve(rows.bytes_to_pin(pages.clone()));
        rows.pin_pages(pages.clone(), Access::Read).await?;
        let may_have = |bytes| granted.try_add(bytes);
        let directory = Directory::new(&rows, pages, spec.is_integer, may_have).await?;
        granted.shrink_to(directory.bytes());
        Ok(Self { rows, directory, granted, is_numbered: false })
    }

    /// Returns the bytes that are released to the grant when the table is dropped.
    pub(super) fn bytes(&self) -> u64 {
        self.granted.bytes + self.rows.pinned_bytes()
    }
}

/// Heap bytes that are charged to a grant and given back when dropped.
#[derive(Debug)]
pub(super) struct Granted {
    bytes: u64,
    grant: Arc<dyn Grant>,
}

impl Granted {
    /// Charges bytes without which the operator cannot continue, even beyond the grant's limit.
    pub(super) fn take(bytes: u64, grant: &Arc<dyn Grant>) -> Self {
        grant.grow(bytes);
        Self::of(bytes, Arc::clone(grant))
    }

    /// Takes over bytes that the grant has already allowed.
    fn of(bytes: u64, grant: Arc<dyn Grant>) -> Self {
        grant.hold_heap(bytes);
        Self { bytes, grant }
    }

    /// Asks for `bytes` more; returns false if the grant refuses them.
    fn try_add(&mut self, bytes: u64) -> bool {
        let added = self.grant.try_grow_heap(bytes);
        self.bytes += if added { bytes } else { 0 };
        added
    }

    fn shrink_to(&mut self, bytes: u64) {
        self.give_back(self.bytes.saturating_sub(bytes));
    }

    fn give_back(&mut self, bytes: u64) {
        self.grant.shrink_heap(bytes);
        self.bytes -= bytes;
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

/// One bit per build row: set if the row has a match.
#[derive(Debug)]
pub(crate) struct Flags(Vec<AtomicU64>);

impl Flags {
    pub(crate) fn new(rows: u64) -> Self {
        Self((0..rows.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn bytes_of(rows: u64) -> u64 {
        rows.div_ceil(64) * 8
    }

    pub(crate) fn set(&self, number: u64) {
        let (word, bit) = (&self.0[to_usize(number / 64)], 1 << (number % 64));
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_set(&self, number: u64) -> bool {
        self.0[to_usize(number / 64)].load(Ordering::Relaxed) >> (number % 64) & 1 == 1
    }
}

/// A probe batch while it is joined.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) batch: RecordBatch,
    pub(super) hashes: Vec<u64>,
    pub(super) keys: Columns,
    /// The arrays of the keys.
    arrays: Vec<ArrayRef>,
    /// True if the key is one integer.
    is_integer: bool,
    /// True for rows with a match so far; empty if the join does not emit probe rows by their
    /// match.
    pub(super) matched: Vec<bool>,
}

impl Probe {
    pub(super) fn new(spec: &Spec, batch: RecordBatch, keys: Keys) -> Result<Self> {
        let matched = if spec.emits_probe() { vec![false; batch.num_rows()] } else { Vec::new() };
        let prepared = spec.build_layout.prepare_first(&keys.arrays)?;
        let Keys { arrays, hashes, .. } = keys;
        let is_integer = spec.is_integer;
        Ok(Self { batch, hashes, keys: prepared, arrays, is_integer, matched })
    }

    /// Returns the key, if it is one integer.
    fn integer(&self) -> Option<&ArrayRef> {
        self.arrays.first().filter(|_| self.is_integer)
    }

    /// Returns the probe side for pairs with equal keys.
    fn side(&self) -> ProbeSide<'_> {
        ProbeSide { batch: &self.batch, keys: &self.arrays }
    }
}

/// Source of the probe columns of pairs.
#[derive(Clone, Copy)]
struct ProbeSide<'a> {
    batch: &'a RecordBatch,
    /// Arrays of the keys; empty for pairs whose keys may differ.
    keys: &'a [ArrayRef],
}

/// Cursor over the candidate matches of a probe batch in a table: `at` is the current head, `link`
/// the next row of its chain, if the head itself was returned.
#[derive(Debug)]
pub(super) struct Matches {
    heads: Heads,
    at: usize,
    link: Option<RowAddress>,
    /// True if the key of every head is equal, not only its hash.
    verified: bool,
    /// Probe rows below this one have been emitted.
    emitted: usize,
}

/// Result of [`Table::next`].
#[derive(Debug)]
pub(super) enum Step {
    /// Rows of the output.
    Batch(RecordBatch),
    /// No rows in this step, but pairs remain.
    Nothing,
    /// No more pairs.
    End,
}

/// Pairs of a probe row (in `picks`) and a row of the table (in `rows`).
#[derive(Debug, Default)]
struct Pairs {
    picks: Vec<u32>,
    rows: Vec<RowAddress>,
}

impl Table {
    /// Returns true if a lookup needs the hashes of its keys.
    pub(super) fn needs_hashes(&self) -> bool {
        !self.directory.is_exact()
    }

    /// Looks up the keys of the probe rows `picks`, or of all of them.
    pub(super) fn look_up(
        &self,
        spec: &Spec,
        probe: &Probe,
        picks: Option<&[u32]>,
    ) -> Result<Matches> {
        if let Some(key) = probe.integer().filter(|_| self.directory.is_exact()) {
            let heads = match picks {
                Some(picks) => self.directory.exact_heads(key, picks.iter().copied())?,
                None => self.directory.exact_heads(key, 0..index(key.len()))?,
            };
            return Ok(Matches { heads, at: 0, link: None, verified: true, emitted: 0 });
        }
        let mut heads = match picks {
            Some(picks) => self.directory.heads(&probe.hashes, picks.iter().copied()),
            None => self.directory.heads(&probe.hashes, 0..index(probe.hashes.len())),
        };
        let rows = self.rows.resolve(heads.rows.iter().copied())?;
        let equal = self.equal(spec, probe, &rows, &heads.picks)?;
        let mut verified = true;
        if equal.len() < heads.picks.len() {
            let mut kept = 0;
            let mut equal = equal.into_iter().peekable();
            for n in 0..heads.picks.len() {
                let pick = heads.picks[n];
                let mut row = Some(heads.rows[n]);
                if equal.next_if_eq(&index(n)).is_none() {
                    verified = false;
                    let hash = probe.hashes[pick as usize];
                    if rows.extra(n, HASH) != hash {
                        row = self.directory.find_hash(&self.rows, hash)?;
                    }
                }
                if let Some(row) = row {
                    (heads.picks[kept], heads.rows[kept]) = (pick, row);
                    kept += 1;
                }
            }
            heads.picks.truncate(kept);
            heads.rows.truncate(kept);
            if !verified {
                let rows = self.rows.resolve(heads.rows.iter().copied())?;
                verified = self.equal(spec, probe, &rows, &heads.picks)?.len() == kept;
            }
        }
        Ok(Matches { heads, at: 0, link: None, verified, emitted: 0 })
    }

    /// Returns the `n` for which the keys of row `n` and of probe row `picks[n]` are equal.
    fn equal(
        &self,
        spec: &Spec,
        probe: &Probe,
        rows: &Rows<'_>,
        picks: &[u32],
    ) -> Result<Vec<u32>> {
        let mut selection: Vec<u32> = (0..index(picks.len())).collect();
        for key in 0..spec.build_keys.len() {
            rows.equal(key, &probe.keys, picks, spec.equality(), &mut selection)?;
        }
        Ok(selection)
    }

    /// Processes the next pairs of `matches`, at most a batch: filters them, sets the match flags
    /// of both sides, and returns output rows. With `in_order`, all probe rows were looked up in
    /// this table, and those without a match are emitted in their place.
    pub(super) fn next(
        &self,
        spec: &Spec,
        probe: &mut Probe,
        matches: &mut Matches,
        flags: Option<&Flags>,
        in_order: bool,
    ) -> Result<Step> {
        let pairs = self.next_pairs(spec, probe, matches, flags)?;
        let is_last = matches.at >= matches.heads.picks.len();
        if pairs.picks.is_empty() && is_last && matches.emitted >= probe.batch.num_rows() {
            return Ok(Step::End);
        }
        let pairs = self.filtered(spec, probe, pairs)?;
        let mut batch = None;
        {
            let rows = self.rows.resolve(pairs.rows.iter().copied())?;
            if let Some(flags) = flags {
                if self.is_numbered {
                    let numbers = pairs.rows.iter().map(|row| self.directory.number(*row));
                    numbers.for_each(|number| flags.set(to_u64(number)));
                } else {
                    rows.extras(NUMBER).into_iter().for_each(|number| flags.set(number));
                }
            }
            if spec.emits_pairs() && !(in_order && spec.emits_probe()) && !rows.is_empty() {
                batch = Some(spec.pairs(&rows, probe.side(), &pairs.picks)?);
            }
        }
        if in_order && spec.emits_pairs() && spec.emits_probe() {
            let upto = if is_last {
                probe.batch.num_rows()
            } else {
                matches.heads.picks[matches.at] as usize
            };
            let pairs = fill(&pairs, &probe.matched, matches.emitted..upto);
            matches.emitted = matches.emitted.max(upto);
            let rows = self.rows.resolve(pairs.rows.iter().copied())?;
            if !rows.is_empty() {
                batch = Some(spec.output(Some(&rows), &probe.batch, &pairs.picks, None)?);
            }
        }
        for pick in pairs.picks {
            if let Some(matched) = probe.matched.get_mut(pick as usize) {
                *matched = true;
            }
        }
        if is_last {
            matches.emitted = probe.batch.num_rows();
        }
        Ok(match batch {
            Some(batch) => Step::Batch(batch),
            None if is_last => Step::End,
            None => Step::Nothing,
        })
    }

    /// Returns the next pairs with equal keys, at most a batch. Pairs of a row that needs one match
    /// and has it are left out.
    fn next_pairs(
        &self,
        spec: &Spec,
        probe: &Probe,
        matches: &mut Matches,
        flags: Option<&Flags>,
    ) -> Result<Pairs> {
        let of_probe = spec.wants_one() == Some(JoinSide::Right);
        if of_probe && spec.filter.is_some() && !self.directory.is_unique() {
            return self.untried_pairs(spec, probe, matches);
        }
        // With a filter, the flag of a row says nothing about other rows with its key.
        let of_build = flags.filter(|_| spec.wants_one() == Some(JoinSide::Left));
        let (of_chains, of_rows) = match spec.filter.is_none() && matches.verified {
            true => (of_build, None),
            false => (None, of_build),
        };
        let heads = &mut matches.heads;
        // The heads may have been taken out all at once.
        let left = heads.picks.len().saturating_sub(matches.at);
        if left == 0 {
            return Ok(Pairs::default());
        }
        let is_one = self.directory.is_unique() || (of_probe && spec.filter.is_none());
        if matches.verified && is_one {
            let pairs = if matches.at == 0 && left <= spec.batch_size {
                Pairs {
                    picks: std::mem::take(&mut heads.picks),
                    rows: std::mem::take(&mut heads.rows),
                }
            } else {
                let range = matches.at..matches.at + left.min(spec.batch_size);
                Pairs {
                    picks: heads.picks[range.clone()].to_vec(),
                    rows: heads.rows[range].to_vec(),
                }
            };
            matches.at += pairs.picks.len();
            return Ok(pairs);
        }
        let most = left.min(spec.batch_size);
        let mut pairs = Pairs { picks: Vec::with_capacity(most), rows: Vec::with_capacity(most) };
        while matches.at < heads.picks.len() && pairs.picks.len() < spec.batch_size {
            if let Some(ahead) = heads.rows.get(matches.at + AHEAD) {
                self.directory.prefetch_next(*ahead);
            }
            let row = matches.link.unwrap_or(heads.rows[matches.at]);
            // The stream that sets the flag of a chain's head sets those of the whole chain.
            if matches.link.is_none() && self.is_flagged(row, of_chains)? {
                matches.at += 1;
                continue;
            }
            if !self.is_flagged(row, of_rows)? {
                pairs.picks.push(heads.picks[matches.at]);
                pairs.rows.push(row);
            }
            matches.link = match of_rows {
                Some(_) => self.directory.next_undone(row, |row| self.is_flagged(row, of_rows))?,
                None => self.directory.next(row),
            };
            matches.at += usize::from(matches.link.is_none());
        }
        self.with_equal_keys(spec, probe, pairs)
    }

    /// Returns the next pairs of probe rows that have no match so far, with about equally many
    /// build rows for each: a probe row with a match needs no further pairs.
    fn untried_pairs(&self, spec: &Spec, probe: &Probe, matches: &mut Matches) -> Result<Pairs> {
        let Heads { picks, rows } = &mut matches.heads;
        let (mut pairs, mut kept) = (Pairs::default(), 0);
        let is_open = |pick: u32| !probe.matched[pick as usize];
        let open = picks.iter().filter(|pick| is_open(**pick)).count();
        let each = spec.batch_size.checked_div(open).unwrap_or(0).max(1);
        for n in 0..picks.len() {
            let pick = picks[n];
            let mut row = is_open(pick).then_some(rows[n]);
            let room = spec.batch_size.saturating_sub(pairs.picks.len());
            for _ in 0..each.min(room) {
                let Some(address) = row else { break };
                pairs.picks.push(pick);
                pairs.rows.push(address);
                row = self.directory.next(address);
            }
            if let Some(row) = row {
                (picks[kept], rows[kept]) = (pick, row);
                kept += 1;
            }
        }
        picks.truncate(kept);
        rows.truncate(kept);
        self.with_equal_keys(spec, probe, pairs)
    }

    fn with_equal_keys(&self, spec: &Spec, probe: &Probe, pairs: Pairs) -> Result<Pairs> {
        if self.directory.is_exact() {
            return Ok(pairs);
        }
        let rows = self.rows.resolve(pairs.rows.iter().copied())?;
        let equal = self.equal(spec, probe, &rows, &pairs.picks)?;
        Ok(if equal.len() == pairs.picks.len() { pairs } else { pairs.keep(&equal) })
    }

    /// Returns true if the row's flag is set, false if there are no flags.
    fn is_flagged(&self, row: RowAddress, flags: Option<&Flags>) -> crate::Result<bool> {
        let Some(flags) = flags else { return Ok(false) };
        let number = match self.is_numbered {
            true => to_u64(self.directory.number(row)),
            false => self.rows.extra(row, NUMBER).ok_or_else(|| not_pinned(row))?,
        };
        Ok(flags.is_set(number))
    }

    /// Returns the pairs that pass the filter of the join.
    fn filtered(&self, spec: &Spec, probe: &Probe, pairs: Pairs) -> Result<Pairs> {
        let Some(filter) = spec.filter.as_ref().filter(|_| !pairs.picks.is_empty()) else {
            return Ok(pairs);
        };
        let rows = self.rows.resolve(pairs.rows.iter().copied())?;
        let columns =
            spec.columns(&spec.filter_sources, Some(&rows), probe.side(), &pairs.picks, None)?;
        let options = RecordBatchOptions::new().with_row_count(Some(pairs.picks.len()));
        let schema = Arc::clone(filter.schema());
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let passes = filter.expression().evaluate(&batch)?.into_array(batch.num_rows())?;
        let passes = passes.as_boolean();
        let passed: Vec<u32> = (0..index(passes.len()))
            .filter(|n| passes.is_valid(*n as usize) && passes.value(*n as usize))
            .collect();
        Ok(pairs.keep(&passed))
    }
}

impl Pairs {
    fn keep(&self, kept: &[u32]) -> Self {
        Self {
            picks: kept.iter().map(|n| self.picks[*n as usize]).collect(),
            rows: kept.iter().map(|n| self.rows[*n as usize]).collect(),
        }
    }
}

/// Returns `pairs` with the probe rows of `range` that have no match inserted in their places, each
/// with a null build row. A row has a match if `matched` says so or it is in `pairs`.
fn fill(pairs: &Pairs, matched: &[bool], range: Range<usize>) -> Pairs {
    let mut filled = Pairs::default();
    let mut at = 0;
    let copy = |filled: &mut Pairs, at: usize| {
        filled.picks.push(pairs.picks[at]);
        filled.rows.push(pairs.rows[at]);
    };
    for row in range {
        let mut found = matched[row];
        while pairs.picks.get(at).is_some_and(|pick| *pick as usize <= row) {
            found |= pairs.picks[at] as usize == row;
            copy(&mut filled, at);
            at += 1;
        }
        if !found {
            filled.picks.push(index(row));
            filled.rows.push(RowAddress::NONE);
        }
    }
    (at..pairs.picks.len()).for_each(|at| copy(&mut filled, at));
    filled
}

/// Converts a position in a batch to 32 bits; batches have fewer than 2^32 rows.
pub(super) fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

impl Spec {
    /// Returns a batch of output rows: the build rows `rows` (or null rows), the probe rows
    /// `picks`, and the column `marks`, as far as the output has columns of each.
    pub(super) fn output(
        &self,
        rows: Option<&Rows<'_>>,
        probe: &RecordBatch,
        picks: &[u32],
        marks: Option<&ArrayRef>,
    ) -> Result<RecordBatch> {
        let side = ProbeSide { batch: probe, keys: &[] };
        let columns = self.columns(&self.outputs, rows, side, picks, marks)?;
        self.batch(columns, picks.len())
    }

    /// Returns a batch of output rows: pairs of the build rows `rows` and the probe rows `picks`,
    /// which have equal keys.
    fn pairs(&self, rows: &Rows<'_>, probe: ProbeSide<'_>, picks: &[u32]) -> Result<RecordBatch> {
        let columns = self.columns(&self.pair_outputs, Some(rows), probe, picks, None)?;
        self.batch(columns, picks.len())
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    fn columns(
        &self,
        sources: &[Source],
        rows: Option<&Rows<'_>>,
        probe: ProbeSide<'_>,
        picks: &[u32],
        marks: Option<&ArrayRef>,
    ) -> Result<Vec<ArrayRef>> {
        let is_all = picks.len() == probe.batch.num_rows()
            && picks.iter().enumerate().all(|(n, pick)| *pick as usize == n);
        let indices = UInt32Array::from(picks.to_vec());
        let picked = |array: &ArrayRef| match is_all {
            true => Ok(Arc::clone(array)),
            false => take(array, &indices, None),
        };
        let column = |source: &Source| -> Result<ArrayRef> {
            Ok(match (source, rows, marks) {
                (Source::Build(column), Some(rows), _) => rows.gather(*column)?,
                (Source::Probe(column), ..) => picked(probe.batch.column(*column))?,
                (Source::Key(key), ..) if *key < probe.keys.len() => picked(&probe.keys[*key])?,
                (Source::Mark, _, Some(marks)) => Arc::clone(marks),
                (source, ..) => {
                    return datafusion::common::internal_err!(
                        "{source:?} of rows that are not there"
                    );
                }
            })
        };
        sources.iter().map(column).collect()
    }
}
