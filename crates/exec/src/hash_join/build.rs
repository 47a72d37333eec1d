//! The build side of a hash join: collected once, and partitioned only when it does not fit.
//!
//! While the grant allows it, the rows go to one collection. When it refuses bytes, they are
//! scattered into partitions by bits of their hashes, and whole partitions are spilled (unpinned),
//! the largest first. Partitions still pinned at the end get hash tables; the spilled ones are
//! joined after the probe input (hybrid hash join; DeWitt et al., SIGMOD 1984; Kuiper, Muehleisen:
//! Saving Private Hash Join, VLDB 2024).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::Time;
use terrace_sys::size::{to_u64, to_usize};
use terrace_sys::sync::lock;

use super::bounds::KeyBounds;
use super::spec::{HASH, Keys, Spec};
use super::table::{Flags, Granted, Table, index};
use crate::rows::{Access, Columns, RowPages};
use crate::stream::{give_way, next_batch};
use crate::{Grant, QueryMemory};

/// Number of partitions that rows are scattered into at a time.
pub(super) const FANOUT: usize = 16;
/// Maximum number of levels of scattering. Each level uses four bits of the hash, which are neither
/// part of the salt nor among the lowest bits, by which the directory finds its slots.
pub(super) const LEVELS: u32 = 4;

/// Returns the partition of a hash at a level of scattering, from 0.
pub(super) fn partition_of(hash: u64, level: u32) -> usize {
    to_usize(hash >> (44 - 4 * level)) % FANOUT
}

/// A build side that has been collected.
#[derive(Debug)]
pub(super) struct Build {
    pub(super) parts: Vec<Part>,
    /// Rows whose key is null, which match nothing.
    pub(super) unmatchable: Option<Arc<RowPages>>,
    pub(super) flags: Option<Flags>,
    _flag_bytes: Granted,
    pub(super) rows: u64,
    pub(super) matchable: u64,
    /// Limit of the bytes of open pages (those being filled) of one probe stream in one partition.
    pub(super) open_bytes: usize,
    pub(super) bounds: Option<KeyBounds>,
    pub(super) grant: Arc<dyn Grant>,
    /// Number of probe streams that have not ended, and of those whose input has not ended.
    probing: AtomicUsize,
    reading: AtomicUsize,
    /// True once a probe row was seen, and once one with a null key was seen.
    probe_rows: AtomicBool,
    probe_nulls: AtomicBool,
}

/// A partition of the build side.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) rows: Arc<RowPages>,
    table: Mutex<Option<Arc<Table>>>,
}

impl Part {
    pub(super) fn table(&self) -> Option<Arc<Table>> {
        lock(&self.table).clone()
    }

    fn demote(&self) {
        lock(&self.table).take();
    }
}

impl Build {
    /// Returns the table of the whole build side; `None` if that was scattered or is not in memory.
    pub(super) fn whole(&self) -> Option<Arc<Table>> {
        if self.parts.len() == 1 { self.parts[0].table() } else { None }
    }

    /// Drops the tables of partitions, the largest first, as long as the grant is in excess: they
    /// count as spilled from then on.
    pub(super) fn relieve(&self) {
        while self.grant.excess_bytes() > 0 {
            let tables = self.parts.iter().filter_map(|part| Some((part, part.table()?)));
            let Some((part, table)) = tables.max_by_key(|(_, table)| table.bytes()) else { return };
            self.grant.count_spilled(table.rows.pinned_bytes());
            part.demote();
            drop(table);
            // Other streams hold demoted tables until the end of their batch, so the excess may
            // last when nothing is left to demote.
            if self.parts.iter().all(|part| part.table().is_none()) {
                return;
            }
        }
    }

    /// Records, for a null-aware join, that a batch of `rows` probe rows was seen, with these keys.
    pub(super) fn note_probe(&self, rows: usize, keys: &Keys) {
        if rows > 0 {
            self.probe_rows.store(true, Ordering::Release);
        }
        if keys.valid.as_ref().is_some_and(|valid| valid.null_count() > 0) {
            self.probe_nulls.store(true, Ordering::Release);
        }
    }

    /// Returns true once a stream has seen a probe row.
    pub(super) fn has_probe_rows(&self) -> bool {
        self.probe_rows.load(Ordering::Acquire)
    }

    /// Returns true once a stream has seen a probe row whose key is null.
    pub(super) fn has_probe_nulls(&self) -> bool {
        self.probe_nulls.load(Ordering::Acquire)
    }

    /// Drops the tables of all partitions, which count as spilled from then on.
    pub(super) fn demote_all(&self) {
        self.parts.iter().for_each(Part::demote);
    }

    /// Records that a probe stream has reached the end of its input; returns true for the last one.
    pub(super) fn is_last_reader(&self) -> bool {
        self.reading.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Records that a probe stream has ended; returns true for the last one.
    pub(super) fn is_last_probe(&self) -> bool {
        self.probing.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// Rows scattered into partitions by their hashes.
#[derive(Debug)]
pub(super) struct Scatter {
    pub(super) parts: Vec<RowPages>,
    spilled: Vec<bool>,
    level: u32,
    grant: Arc<dyn Grant>,
    picks: Vec<Vec<u32>>,
}

impl Scatter {
    /// Creates empty partitions with the row layout of `like`, for the bits of `level`. With
    /// `spill`, full pages of all partitions are unpinned. `open_bytes` limits the pages that one
    /// partition fills.
    pub(super) fn new(
        memory: &dyn QueryMemory,
        grant: &Arc<dyn Grant>,
        like: &RowPages,
        level: u32,
        spill: bool,
        open_bytes: usize,
    ) -> Self {
        let new = |_| {
            let rows =
                RowPages::new(memory.space().clone(), Arc::clone(grant), like.layout().clone());
            rows.with_open_limit(open_bytes)
        };
        let parts = (0..FANOUT).map(new).collect();
        let picks = vec![Vec::new(); FANOUT];
        let (spilled, grant) = (vec![spill; FANOUT], Arc::clone(grant));
        Self { parts, spilled, level, grant, picks }
    }

    /// Scatters all rows of a collection, page by page, and frees its pages if it owns them.
    pub(super) async fn take(&mut self, mut rows: RowPages) -> Result<()> {
        // The pages being filled need room before the first of these is free; without it several
        // streams that scatter at the same time could pin all memory, and wait for each other.
        rows.unpin_last(self.parts.iter().map(RowPages::open_bytes).sum());
        for page in 0..rows.pages() {
            rows.pin_pages(page..page + 1, Access::Read).await?;
            if page + 1 < rows.pages() {
                rows.prefetch(page + 1..page + 2);
            }
            self.take_page(&rows, page)?;
            rows.unpin_pages(page..page + 1);
            if rows.is_owner() {
                rows.free_pages(page..page + 1);
            }
            give_way().await;
        }
        Ok(())
    }

    fn take_page(&mut self, rows: &RowPages, page: usize) -> Result<()> {
        let borrowed = rows.resolve(rows.addresses(page))?;
        self.assign(&borrowed.extras(HASH), None);
        for part in 0..FANOUT {
            let picks = std::mem::take(&mut self.picks[part]);
            let width = self.parts[part].layout().width();
            self.make_room(part, to_u64(picks.len() * width));
            self.parts[part].append_rows(&borrowed, &picks)?;
            self.picks[part] = picks;
        }
        Ok(())
    }

    /// Appends the rows of a batch that `selection` has, or all of them, with their hashes and row
    /// numbers.
    pub(super) fn append(
        &mut self,
        columns: &Columns,
        hashes: &[u64],
        selection: Option<&[u32]>,
        numbers: Option<&[u64]>,
    ) -> Result<()> {
        self.assign(hashes, selection);
        for part in 0..FANOUT {
            let picks = std::mem::take(&mut self.picks[part]);
            if !picks.is_empty() {
                let bytes = self.parts[part].bytes_to_append(columns, picks.len());
                self.make_room(part, bytes);
                let extras: &[&[u64]] = match numbers {
                    Some(numbers) => &[hashes, numbers],
                    None => &[hashes],
                };
                self.parts[part].append_with(columns, Some(&picks), extras, None)?;
            }
            self.picks[part] = picks;
        }
        Ok(())
    }

    fn assign(&mut self, hashes: &[u64], selection: Option<&[u32]>) {
        self.picks.iter_mut().for_each(Vec::clear);
        let level = self.level;
        let mut put = |row: u32| {
            self.picks[partition_of(hashes[row as usize], level)].push(row);
        };
        match selection {
            Some(rows) => rows.iter().copied().for_each(&mut put),
            None => (0..index(hashes.len())).for_each(&mut put),
        }
    }

    /// Spills partitions until `part` has room for `bytes` more, or none is left to spill.
    fn make_room(&mut self, part: usize, bytes: u64) {
        if self.spilled[part] {
            let unpinned = self.parts[part].unpin_full();
            self.grant.count_spilled(unpinned);
        }
        while !self.parts[part].try_reserve_bytes(bytes) {
            if !self.spill_largest() {
                return;
            }
        }
    }

    /// Spills the largest partition that was not spilled; returns false if all were.
    pub(super) fn spill_largest(&mut self) -> bool {
        let whole = (0..FANOUT).filter(|part| !self.spilled[*part]);
        let Some(largest) = whole.max_by_key(|part| self.parts[*part].pinned_bytes()) else {
            return false;
        };
        self.spilled[largest] = true;
        let unpinned = self.parts[largest].unpin_full();
        self.grant.count_spilled(unpinned);
        true
    }

    /// Returns the partitions, each with a flag that is true if it was spilled; those are unpinned.
    pub(super) fn finish(mut self) -> Vec<(RowPages, bool)> {
        for (part, spilled) in self.parts.iter_mut().zip(&self.spilled) {
            if *spilled {
                self.grant.count_spilled(part.unpin());
            } else {
                part.release_reserve();
            }
        }
        self.parts.into_iter().zip(self.spilled).collect()
    }
}

/// Collector of a build side: reads its input to the end and returns a [`Build`].
pub(super) struct Collector {
    pub(super) spec: Arc<Spec>,
    pub(super) memory: Arc<dyn QueryMemory>,
    pub(super) grant: Arc<dyn Grant>,
    pub(super) bounds: Option<KeyBounds>,
    pub(super) probes: usize,
    /// Limit of the bytes of open pages of one partition.
    pub(super) open_bytes: AtomicUsize,
    /// Processor time of the join.
    pub(super) compute: Time,
}

enum Rows {
    Whole(RowPages),
    Scattered(Scatter),
}

impl Rows {
    /// Unpins all of them.
    fn unpin(&mut self) {
        match self {
            Self::Whole(rows) => {
                rows.unpin();
            }
            Self::Scattered(scatter) => {
                while scatter.spill_largest() {}
                for part in &mut scatter.parts {
                    part.unpin();
                }
            }
        }
    }
}

impl Collector {
    fn pages(&self) -> RowPages {
        let space = self.memory.space().clone();
        RowPages::new(space, Arc::clone(&self.grant), self.spec.build_layout.clone())
    }

    async fn scatter(&self, rows: RowPages) -> Result<Scatter> {
        // Long pages are written and read faster; together the open ones take no more than the
        // collection did.
        let bytes = to_usize(self.grant.held_bytes()) / FANOUT;
        self.open_bytes.store(bytes, Ordering::Relaxed);
        let memory = self.memory.as_ref();
        let mut scatter = Scatter::new(memory, &self.grant, &rows, 0, false, bytes);
        scatter.take(rows).await?;
        Ok(scatter)
    }

    /// Collects the input to its end.
    pub(super) async fn collect(mut self, mut input: SendableRecordBatchStream) -> Result<Build> {
        let mut rows = Rows::Whole(self.pages());
        let mut unmatchable = self.pages();
        let mut count = 0;
        let compute = self.compute.clone();
        while let Some(batch) = next_batch(&mut input, &self.grant, || {
            rows.unpin();
            Ok(())
        })
        .await
        {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            let timer = compute.timer();
            let keys = self.spec.keys(&self.spec.build_keys, &batch)?;
            if let Some(bounds) = &mut self.bounds {
                bounds.update(&keys)?;
            }
            let columns =
                self.spec.build_layout.prepare(&self.spec.build_columns(&keys, &batch))?;
            let numbers: Vec<u64> = (count..count + to_u64(batch.num_rows())).collect();
            count += to_u64(batch.num_rows());
            let mut selection = None;
            if let Some(valid) = &keys.valid {
                let all = 0..index(batch.num_rows());
                let (good, bad): (Vec<u32>, Vec<u32>) =
                    all.partition(|row| valid.is_valid(*row as usize));
                if self.spec.emits_build() {
                    unmatchable.append_with(
                        &columns,
                        Some(&bad),
                        &[&keys.hashes, &numbers],
                        None,
                    )?;
                    unmatchable.unpin_full();
                }
                selection = Some(good);
            }
            let appended = selection.as_ref().map_or(batch.num_rows(), Vec::len);
            timer.done();
            rows = self.with_room(rows, &columns, appended).await?;
            let _timer = compute.timer();
            let selection = selection.as_deref();
            match &mut rows {
                Rows::Whole(rows) => {
                    rows.append_with(&columns, selection, &[&keys.hashes, &numbers], None)?;
                }
                Rows::Scattered(scatter) => {
                    scatter.append(&columns, &keys.hashes, selection, Some(&numbers))?;
                }
            }
        }
        self.finish(rows, unmatchable, count).await
    }

    /// Makes room for `count` rows of `columns`: scatters the rows if the grant refuses it, and
    /// spills partitions as long as the grant is in excess. Waits while the query is suspended.
    async fn with_room(&mut self, rows: Rows, columns: &Columns, count: usize) -> Result<Rows> {
        let mut rows = rows;
        if let Some(resumed) = self.grant.suspended() {
            rows.unpin();
            resumed.await;
        }
        match rows {
            Rows::Whole(mut whole) => {
                let grant = Arc::clone(&self.grant);
                let mut has_room =
                    || grant.excess_bytes() == 0 && whole.try_reserve(columns, count);
                // The keys for the dynamic filter only save time, so their memory is given up
                // first.
                let mut forgets = || self.bounds.as_mut().is_some_and(KeyBounds::forget_keys);
                if has_room() || (forgets() && has_room()) {
                    return Ok(Rows::Whole(whole));
                }
                Ok(Rows::Scattered(self.scatter(whole).await?))
            }
            Rows::Scattered(mut scatter) => {
                self.bounds.as_mut().map(KeyBounds::forget_keys);
                while self.grant.excess_bytes() > 0 && scatter.spill_largest() {}
                Ok(Rows::Scattered(scatter))
            }
        }
    }

    async fn finish(mut self, rows: Rows, mut unmatchable: RowPages, count: u64) -> Result<Build> {
        unmatchable.unpin();
        let flag_bytes = if self.spec.emits_build() { Flags::bytes_of(count) } else { 0 };
        let flag_bytes = Granted::take(flag_bytes, &self.grant);
        let parts = match rows {
            Rows::Whole(mut whole) => {
                whole.release_reserve();
                let pages = whole.pages();
                if self.grant.try_grow(Table::bytes_for(&whole, 0..pages)) {
                    // If no row was left out, the rows are in the order of their numbers.
                    let is_numbered = whole.rows() == count;
                    vec![self.resident(whole, is_numbered).await?]
                } else if whole.pages() < 2 {
                    whole.unpin();
                    vec![Part { rows: Arc::new(whole), table: Mutex::default() }]
                } else {
                    let scatter = self.scatter(whole).await?;
                    self.settle(scatter).await?
                }
            }
            Rows::Scattered(scatter) => self.settle(scatter).await?,
        };
        let matchable = parts.iter().map(|part| part.rows.rows()).sum();
        let flags = self.spec.emits_build().then(|| Flags::new(count));
        Ok(Build {
            parts,
            unmatchable: (unmatchable.rows() > 0).then(|| Arc::new(unmatchable)),
            flags,
            _flag_bytes: flag_bytes,
            rows: count,
            matchable,
            open_bytes: self.open_bytes.load(Ordering::Relaxed) / self.probes.max(1),
            bounds: self.bounds.take(),
            grant: Arc::clone(&self.grant),
            probing: AtomicUsize::new(self.probes),
            reading: AtomicUsize::new(self.probes),
            probe_rows: AtomicBool::new(false),
            probe_nulls: AtomicBool::new(false),
        })
    }

    /// Builds tables of the partitions that were not spilled, the smallest first, as far as the
    /// grant allows; unpins the others.
    async fn settle(&self, scatter: Scatter) -> Result<Vec<Part>> {
        let mut parts: Vec<_> = scatter.finish().into_iter().enumerate().collect();
        parts.sort_by_key(|(_, (rows, spilled))| (*spilled, rows.bytes()));
        let mut settled = Vec::new();
        for (number, (mut rows, spilled)) in parts {
            let pages = rows.pages();
            let fits = !spilled && self.grant.try_grow(Table::bytes_for(&rows, 0..pages));
            let part = if fits {
                self.resident(rows, false).await?
            } else {
                self.grant.count_spilled(rows.unpin());
                Part { rows: Arc::new(rows), table: Mutex::default() }
            };
            settled.push((number, part));
        }
        settled.sort_by_key(|(number, _)| *number);
        Ok(settled.into_iter().map(|(_, part)| part).collect())
    }

    /// Builds the table of a partition, whose bytes the grant has allowed. `is_numbered` is true if
    /// the rows are in the order of their numbers, without gaps.
    async fn resident(&self, rows: RowPages, is_numbered: bool) -> Result<Part> {
        let (owner, view) = rows.share();
        let pages = view.pages();
        let mut table = Table::new(view, 0..pages, Arc::clone(&self.grant), &self.spec).await?;
        table.is_numbered = is_numbered;
        Ok(Part { rows: owner, table: Mutex::new(Some(Arc::new(table))) })
    }
}
