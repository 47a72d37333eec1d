//! Cost of page operations, by page size.

use std::hint::black_box;
use std::io;
use std::time::Instant;

use serde::Serialize;
use terrace_store::checksum;
use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::map::Mapping;
use terrace_sys::migrate::nodes_of;
use terrace_sys::numa::nodes;
use terrace_sys::pages::Pages;
use terrace_sys::size::{MIB, to_u64, to_usize};
use terrace_sys::userfault::FilledPages;

use super::effort::Effort;
use crate::mover::{Mover, Outcome};
use crate::timing::{gib_per_s, median, scattered, seconds, us_each};

/// Cost of page operations for one page size, in microseconds per page.
#[derive(Copy, Clone, Debug, Serialize)]
pub struct PageCosts {
    /// Page size in bytes.
    pub page_bytes: u64,
    /// Copy from memory to memory, neither of them cached.
    pub copy_us: f64,
    /// Fill with a copy through userfaultfd (`UFFDIO_COPY`); `None` if the kernel lacks
    /// `UFFDIO_COPY` or `UFFDIO_MOVE`.
    pub fault_copy_us: Option<f64>,
    /// Fill with the memory of another page through userfaultfd (`UFFDIO_MOVE`); `None` if it is
    /// not supported.
    pub fault_move_us: Option<f64>,
    /// Migration to another node by `move_pages`, up to 512 kernel pages per call; `None` on a
    /// machine with one node.
    pub migrate_us: Option<f64>,
    /// First touch of the whole page: the kernel allocates and clears its memory.
    pub touch_us: f64,
    /// Decommit, one page per call.
    pub decommit_us: f64,
    /// Decommit, up to 1,024 scattered pages per call.
    pub decommit_batch_us: f64,
}

/// Measures the page operations for each page size, without huge pages.
///
/// # Errors
/// Returns an error if the memory cannot be reserved.
pub fn page_costs(page_sizes: &[u64], effort: &Effort) -> io::Result<Vec<PageCosts>> {
    page_sizes.iter().map(|size| costs(*size, effort)).collect()
}

fn costs(page_bytes: u64, effort: &Effort) -> io::Result<PageCosts> {
    let len = to_usize(effort.page_bytes.next_multiple_of(page_bytes));
    let page = to_usize(page_bytes);
    let count = len / page;
    let mut from = Pages::reserve(len, None, false)?;
    let mut to = Pages::reserve(len, None, false)?;
    let touch = seconds(|| from.touch());
    to.touch();
    let (fault_copy_us, fault_move_us) = match fault_costs(&mut from, page) {
        Ok((copy, moved)) => (Some(copy), Some(moved)),
        Err(_) => (None, None),
    };
    let migrate_us = migration_cost(len, page);
    from.touch();
    let copy = seconds(|| copy_scattered(from.bytes(), to.bytes_mut(), page));
    let mut result = Ok(());
    let one_by_one = seconds(|| {
        result = (0..count).try_for_each(|index| from.decommit(index * page, page));
    });
    result?;
    let ranges: Vec<(usize, usize)> = scattered(count).map(|index| (index * page, page)).collect();
    let mut result = Ok(());
    let batched = seconds(|| result = to.decommit_batch(&ranges));
    result?;
    Ok(PageCosts {
        page_bytes,
        copy_us: us_each(count, copy),
        fault_copy_us,
        fault_move_us,
        migrate_us,
        touch_us: us_each(count, touch),
        decommit_us: us_each(count, one_by_one),
        decommit_batch_us: us_each(count, batched),
    })
}

/// Returns the microseconds per page of filling memory by copy and by move, without page faults.
/// The moves take the pages out of `from`.
fn fault_costs(from: &mut Pages, page: usize) -> io::Result<(f64, f64)> {
    let len = from.bytes().len();
    let count = len / page;
    let offsets = || scattered(count).map(|index| index * page);
    let mut copied = FilledPages::reserve(len)?;
    let bytes = from.bytes();
    let (result, copy) = timed(|| {
        offsets().try_for_each(|offset| copied.copy_in(offset, &bytes[offset..offset + page]))
    });
    result?;
    let mut moved = FilledPages::reserve(len)?;
    let (result, by_move) =
        timed(|| offsets().try_for_each(|offset| moved.move_in(offset, from, offset, page)));
    result?;
    Ok((us_each(count, copy), us_each(count, by_move)))
}

/// Returns the microseconds per page of migration to another node; `None` if there is no other node
/// or a page has not moved.
fn migration_cost(len: usize, page: usize) -> Option<f64> {
    let all = nodes();
    let pages = Mapping::reserve(len).ok()?;
    // The advice fails on kernels without huge pages, which need none.
    let _ = pages.advise_huge(false);
    pages.populate(0, len).ok()?;
    let here = *nodes_of(&pages, &[0]).ok()?.first()?;
    let there = all.iter().map(|node| node.id).find(|id| i32::try_from(*id) != Ok(here))?;
    let run: Vec<(usize, usize)> =
        scattered(len / page).map(|index| (index * page, page)).collect();
    let (outcomes, took) = timed(|| Mover::PLAIN.migrate(&pages, &run, there));
    let moved = outcomes.iter().all(|outcome| *outcome == Outcome::Moved);
    moved.then(|| us_each(run.len(), took))
}

/// Runs `work` and returns its result and the seconds it took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_secs_f64().max(1e-9))
}

fn copy_scattered(from: &[u8], to: &mut [u8], page: usize) {
    for index in scattered(from.len() / page) {
        let range = index * page..(index + 1) * page;
        to[range.clone()].copy_from_slice(&from[range]);
    }
}

/// Measures the throughput of the store's checksum in GiB/s, for cached bytes.
#[must_use]
pub fn checksum_gib_per_s() -> f64 {
    const ROUNDS: u64 = 16;
    let data = AlignedBuffer::copy_of(&vec![0x5a; to_usize(MIB / 4)]);
    let bytes = to_u64(data.len()) * ROUNDS;
    let round = |_| {
        let sum = || (0..ROUNDS).fold(0, |all, offset| all ^ checksum(offset, &data));
        gib_per_s(
            bytes,
            seconds(|| {
                black_box(sum());
            }),
        )
    };
    median((0..3).map(round).collect())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn costs_grow_with_the_page() {
        let costs = page_costs(&[4096, 2 * MIB], &Effort::brief()).expect("memory");
        assert!(costs[1].touch_us > costs[0].touch_us && costs[1].copy_us > costs[0].copy_us);
        assert!(costs.iter().all(|cost| cost.decommit_us > 0.0 && cost.decommit_batch_us > 0.0));
        assert!(checksum_gib_per_s() > 0.0);
        let probe = terrace_sys::probe::Probe::detect();
        let moves = probe.userfaultfd_features.contains(&"move");
        assert!(costs.iter().all(|cost| cost.fault_move_us.is_some() == moves));
        assert!(costs.iter().all(|cost| cost.migrate_us.is_some() == (probe.nodes.len() > 1)));
    }
}
