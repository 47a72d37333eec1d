//! Timing of measurements: durations, rates, medians, and an order without locality.

use std::time::Instant;

use terrace_sys::size::GIB;

/// Returns the seconds that `work` takes.
pub(crate) fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64().max(1e-9)
}

/// Returns the throughput in GiB/s of `bytes` in `seconds`.
#[expect(clippy::cast_precision_loss, reason = "figures have three digits")]
pub(crate) fn gib_per_s(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / GIB as f64 / seconds
}

/// Returns the microseconds per item for `count` items in `seconds`.
#[expect(clippy::cast_precision_loss, reason = "figures have three digits")]
pub(crate) fn us_each(count: usize, seconds: f64) -> f64 {
    seconds * 1e6 / count.max(1) as f64
}

/// Returns the median of the figures, or 0 if there are none.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

/// Returns each index below `count` once, far from the previous one. The step is a prime, so it
/// reaches every index unless `count` is a multiple of it, in which case another prime is used.
pub(crate) fn scattered(count: usize) -> impl Iterator<Item = usize> {
    let step = if count.is_multiple_of(7919) { 7907 } else { 7919 };
    (0..count).map(move |index| index * step % count)
}

#[cfg(test)]
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
}
