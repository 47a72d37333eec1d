//! What it costs to handle pages of a size.

use std::hint::black_box;
use std::io;

use serde::Serialize;
use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::pages::Pages;
use terrace_sys::size::{MIB, to_u64, to_usize};

use super::{Effort, gib_per_s, median, seconds, us_each};
use crate::store::checksum;

/// Microseconds for one page of a size.
#[derive(Copy, Clone, Debug, Serialize)]
pub struct PageCosts {
    /// Its bytes.
    pub page_bytes: u64,
    /// To copy it from memory to memory, neither in a cache.
    pub copy_us: f64,
    /// To touch all of it for the first time: the kernel finds and clears its memory.
    pub touch_us: f64,
    /// To give its memory back, one page a call.
    pub decommit_us: f64,
    /// To give its memory back, up to 1,024 scattered pages a call.
    pub decommit_batch_us: f64,
}

/// Measures pages of each size, without huge pages.
///
/// # Errors
/// When the memory cannot be reserved.
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
        touch_us: us_each(count, touch),
        decommit_us: us_each(count, one_by_one),
        decommit_batch_us: us_each(count, batched),
    })
}

/// The indices below `count`, each once, far from the one before. The step is a prime, so it meets
/// every index unless `count` is a multiple of it, where it is replaced.
fn scattered(count: usize) -> impl Iterator<Item = usize> {
    let step = if count.is_multiple_of(7919) { 7907 } else { 7919 };
    (0..count).map(move |index| index * step % count)
}

fn copy_scattered(from: &[u8], to: &mut [u8], page: usize) {
    for index in scattered(from.len() / page) {
        let range = index * page..(index + 1) * page;
        to[range.clone()].copy_from_slice(&from[range]);
    }
}

/// GiB a second of the store's checksum, for bytes in the cache.
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
    fn scattered_indices_are_a_permutation() {
        for count in [1, 2, 4096, 7919, 2 * 7919] {
            let mut seen: Vec<usize> = scattered(count).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count), "{count}");
        }
    }

    #[test]
    fn costs_grow_with_the_page() {
        let costs = page_costs(&[4096, 2 * MIB], &Effort::brief()).expect("memory");
        assert!(costs[1].touch_us > costs[0].touch_us && costs[1].copy_us > costs[0].copy_us);
        assert!(costs.iter().all(|cost| cost.decommit_us > 0.0 && cost.decommit_batch_us > 0.0));
        assert!(checksum_gib_per_s() > 0.0);
    }
}
