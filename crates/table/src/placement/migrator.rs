//! Background thread that maintains requested placements.
//!
//! Every second it checks tables with requested placements for segments that were written since,
//! and for segments whose placement the engine chooses. What it cannot do it retries.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use terrace_exec::run_blocking;
use terrace_sys::size::{MIB, to_u64};
use terrace_sys::sync::lock;

use super::auto::{Candidate, plan};
use super::heaps::{Heaps, NamedHeap};
use super::migration::move_segment;
use super::request::{PlacementRequest, Target};
use super::segment_placement::copy_bytes;
use crate::catalog::Catalog;
use crate::chunk::{Chunk, ColumnSegment};
use crate::table::Table;
use terrace_governor::memory::MemoryBudget;
use terrace_governor::pins::PagePins;

/// Interval between rounds.
const ROUND: Duration = Duration::from_secs(1);
/// Maximum back-off for a heap without room.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Bytes of segments that the thread moves in a round, at most; a larger segment is moved if it is
/// the first one.
const MOVED_BYTES_MAX: u64 = 256 * MIB;
/// Maximum bytes of DRAM that are freed for one region in a round.
const FED_BYTES_MAX: u64 = 64 * MIB;

/// Parts of the engine that the thread works on.
pub struct Parts {
    /// Catalog of the tables.
    pub catalog: Arc<Catalog>,
    /// Heaps that segments are placed in.
    pub heaps: Arc<Heaps>,
    /// Budget that heaps over regions take DRAM of.
    pub budget: Arc<MemoryBudget>,
    /// Account of the bytes that copying pins.
    pub pins: Arc<PagePins>,
}

#[derive(Default)]
struct StopSignal {
    ended: Mutex<bool>,
    changed: Condvar,
}

/// Handle of the thread; dropping it stops the thread.
pub struct Migrator {
    stop: Arc<StopSignal>,
    thread: Option<JoinHandle<()>>,
}

impl Migrator {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub fn start(parts: Parts) -> std::io::Result<Self> {
        let stop = Arc::new(StopSignal::default());
        let own = Arc::clone(&stop);
        let run = move || {
            let mut paces = Paces::default();
            while own.waits() {
                let (parts, stop) = (&parts, &*own);
                Round { parts, stop, left_bytes: MOVED_BYTES_MAX, paces: &mut paces }.run();
            }
        };
        let thread = std::thread::Builder::new().name("terrace-migrate".to_owned()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl StopSignal {
    /// Waits for the next round. Returns false if the thread is to stop.
    fn waits(&self) -> bool {
        let ended = lock(&self.ended);
        let waited = self.changed.wait_timeout_while(ended, ROUND, |ended| !*ended);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn has_ended(&self) -> bool {
        *lock(&self.ended)
    }
}

impl Drop for Migrator {
    fn drop(&mut self) {
        *lock(&self.stop.ended) = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported already; a segment that is being copied is
            // finished first.
            let _ = run_blocking(|| thread.join());
        }
    }
}

impl fmt::Debug for Migrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Migrator")
    }
}

/// A segment of a table with requested placements.
struct Own {
    table: Arc<Table>,
    chunk: Arc<Chunk>,
    column: usize,
}

impl Own {
    fn segment(&self) -> &ColumnSegment {
        &self.chunk.columns[self.column]
    }

    /// Returns the bytes that a copy takes in a heap.
    fn taken_bytes(&self) -> u64 {
        copy_bytes(self.segment().extent_bytes())
    }
}

/// One pass over all tables.
struct Round<'a> {
    parts: &'a Parts,
    stop: &'a StopSignal,
    left_bytes: u64,
    paces: &'a mut Paces,
}

/// Back-off for targets without room: a failed attempt costs a read of the segment, so no segment
/// of at least that size is tried there in the same round, and the intervals at which a target that
/// accepted nothing is tried double up to [`PAUSE_MAX`].
#[derive(Default)]
struct Paces(HashMap<PlaceNumber, Pace>);

/// Number of a heap, or `None` for the pool.
type PlaceNumber = Option<u64>;

#[derive(Default)]
struct Pace {
    pause: Duration,
    until: Option<Instant>,
    /// Number of segments that were moved to the target in this round.
    moved: usize,
    /// Bytes of the smallest segment that the target had no room for in this round.
    refused: Option<u64>,
}

impl Paces {
    fn lets(&self, place: PlaceNumber, bytes: u64, now: Instant) -> bool {
        let Some(pace) = self.0.get(&place) else { return true };
        pace.until.is_none_or(|until| until <= now)
            && pace.refused.is_none_or(|refused| bytes < refused)
    }

    fn note(&mut self, place: PlaceNumber, bytes: u64, moved: bool) {
        let pace = self.0.entry(place).or_default();
        if moved {
            pace.moved += 1;
        } else {
            pace.refused = Some(pace.refused.map_or(bytes, |refused| refused.min(bytes)));
        }
    }

    fn end_round(&mut self, now: Instant) {
        for pace in self.0.values_mut() {
            match (pace.moved, pace.refused) {
                (0, None) => {}
                (0, Some(_)) => {
                    pace.pause = (2 * pace.pause).clamp(2 * ROUND, PAUSE_MAX);
                    pace.until = Some(now + pace.pause);
                }
                _ => (pace.pause, pace.until) = (ROUND, None),
            }
            (pace.moved, pace.refused) = (0, None);
        }
        // Entries of heaps that were dropped meanwhile expire.
        self.0.retain(|_, pace| pace.until.is_some_and(|until| until + PAUSE_MAX > now));
    }
}

impl Round<'_> {
    fn run(&mut self) {
        let catalog = &self.parts.catalog;
        let tables = catalog.schemas().into_iter().flat_map(|schema| catalog.tables(&schema));
        let mut own = Vec::new();
        for table in tables.filter(|table| !table.placement_requests().is_empty()) {
            let version = table.snapshot();
            table.placement_requests().tidy(&version);
            for (chunk, column) in version.segments_by_column() {
                let (table, chunk) = (Arc::clone(&table), Arc::clone(chunk));
                let request = table.placement_requests().of(chunk.id, column);
                let segment = Own { table, chunk, column };
                match &request {
                    Some(request @ PlacementRequest::Fixed(target)) => {
                        self.put(&segment, request, target)
                    }
                    Some(PlacementRequest::Auto) => own.push(segment),
                    None => {}
                }
            }
        }
        self.decide(&own);
        self.paces.end_round(Instant::now());
        self.feed();
        // The heap checks only in this call if freed pages have been retained long enough.
        self.parts.heaps.all().iter().for_each(|heap| heap.heap().decay());
    }

    /// Frees DRAM for regions whose frames the budget has refused, as far as the pool can.
    fn feed(&self) {
        for heap in self.parts.heaps.all() {
            let lacks = heap.lacks();
            if lacks > 0 {
                self.parts.budget.make_room(lacks.min(FED_BYTES_MAX));
            }
        }
    }

    /// Places the segments whose placement the engine chooses.
    fn decide(&mut self, own: &[Own]) {
        if own.is_empty() {
            return;
        }
        let mut heaps = self.parts.heaps.all();
        heaps.retain(|heap| heap.is_memory());
        heaps.sort_by_key(|heap| !heap.is_dram());
        let at = |own: &Own| {
            let copied = own.segment().placement.copied()?;
            heaps.iter().position(|heap| Arc::ptr_eq(heap, copied.heap()))
        };
        let candidates: Vec<Candidate> = own
            .iter()
            .map(|own| {
                let (reads, bytes) = (own.segment().placement.reads_lately(), own.taken_bytes());
                Candidate { reads, bytes, at: at(own) }
            })
            .collect();
        let room = |(place, heap): (usize, &Arc<NamedHeap>)| {
            let ours = candidates.iter().filter(|candidate| candidate.at == Some(place));
            room(heap, ours.map(|candidate| candidate.bytes).sum())
        };
        let homes = plan(&candidates, &heaps.iter().enumerate().map(room).collect::<Vec<_>>());
        // Segments that move out make room for those that move in.
        for (own, _) in own.iter().zip(&homes).filter(|(_, to)| to.is_none()) {
            self.put(own, &PlacementRequest::Auto, &Target::Pool);
        }
        for (own, to) in own.iter().zip(homes) {
            if let Some(heap) = to.and_then(|to| heaps.get(to)) {
                self.put(own, &PlacementRequest::Auto, &Target::Heap(Arc::clone(heap)));
            }
        }
    }

    /// Moves a segment to `target`, unless it is there already, another task is moving segments of
    /// the table, `request` is no longer that of the segment, or the round has moved enough.
    fn put(&mut self, own: &Own, request: &PlacementRequest, target: &Target) {
        let bytes = own.taken_bytes();
        let is_first = self.left_bytes == MOVED_BYTES_MAX;
        if self.stop.has_ended() || (self.left_bytes < bytes && !is_first) {
            return;
        }
        let place = match target {
            Target::Heap(heap) => Some(heap.number()),
            Target::Pool => None,
        };
        if !self.paces.lets(place, bytes, Instant::now()) {
            return;
        }
        let Some(_moving) = own.table.placement_requests().try_lock() else { return };
        if !own.table.placement_requests().matches(own.chunk.id, own.column, request) {
            return;
        }
        let parts = (&*self.parts.budget, &self.parts.pins);
        let moved = match block_on(move_segment(&own.chunk, own.column, target, parts)) {
            Ok(false) => return,
            Ok(true) => true,
            Err(error) => {
                let table = own.table.full_name();
                tracing::debug!(table, own.column, %error, "a segment stays where it is");
                false
            }
        };
        // A segment that does not fit was read all the same.
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        self.paces.note(place, bytes, moved);
    }
}

/// Returns the bytes of a heap available to segments placed by the engine, including the `ours`
/// that they take already. An allocator does not fill its range to the last byte.
fn room(heap: &NamedHeap, ours: u64) -> u64 {
    let all = to_u64(heap.heap().addresses().1) / 10 * 9;
    let held = heap.heap().stats().map_or(0, |stats| stats.small_bytes + stats.large_bytes);
    all.saturating_sub(held.saturating_sub(ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_full_place_is_left_alone_and_no_other() {
        let (mut paces, start) = (Paces::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut round = |now, outcomes: &[bool]| {
            outcomes.iter().for_each(|moved| paces.note(Some(2), 10, *moved));
            paces.end_round(now);
            let waits =
                |seconds: &u64| !paces.lets(Some(2), 1, now + Duration::from_secs(*seconds));
            assert!(paces.lets(Some(1), 10, now));
            (0..100).take_while(waits).count()
        };
        assert_eq!(round(start, &[]), 0);
        assert_eq!(round(start, &[false, true, false]), 0, "what it took counts");
        assert_eq!(round(start, &[false]), 2);
        assert_eq!(round(after(2), &[false, false]), 4);
        for _ in 0..10 {
            round(after(6), &[false]);
        }
        assert_eq!(round(after(6), &[false]), 30);
        assert_eq!(round(after(36), &[true]), 0);
        assert_eq!(round(after(37), &[false]), 2);
    }

    #[test]
    fn nothing_as_large_is_tried_again_in_a_round() {
        let (mut paces, now) = (Paces::default(), Instant::now());
        paces.note(Some(2), 20, false);
        paces.note(Some(2), 10, false);
        paces.note(Some(2), 8, true);
        assert!(paces.lets(Some(2), 9, now) && !paces.lets(Some(2), 10, now));
        assert!(paces.lets(Some(1), 20, now));
        paces.end_round(now);
        assert!(paces.lets(Some(2), 20, now), "it took something");
    }
}
