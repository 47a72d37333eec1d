//! Sizes of batches that go to the store or come from it.

use terrace_store::Store;

/// Maximum bytes written in one batch: enough to keep the device busy, few enough to be held
/// briefly.
pub(crate) const WRITE_BATCH_BYTES: usize = 8 << 20;
/// Maximum bytes and pages of one read batch: beyond these the device has nothing more to overlap.
pub(crate) const READ_BATCH_BYTES: usize = 16 << 20;
pub(crate) const READ_BATCH_PAGES: usize = 64;
/// Number of background batches in a second: each is sized to take the store about 1/400 s, so that
/// a foreground read does not queue behind one for long.
const BATCHES_PER_SECOND: f64 = 400.0;
/// Minimum bytes of a batch, however slow the device is.
const BATCH_MIN_BYTES: usize = 512 << 10;

/// Size in bytes of a background batch: less than `most` if the store is slow, so that a foreground
/// read does not queue behind a batch for longer than some milliseconds.
pub(crate) fn batch_bytes(store: Option<&Store>, most: usize) -> usize {
    let rate = store.and_then(Store::bytes_per_second);
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates, which is meant")]
    #[expect(clippy::cast_sign_loss, reason = "rates are positive")]
    rate.map_or(most, |rate| (rate / BATCHES_PER_SECOND) as usize).clamp(BATCH_MIN_BYTES, most)
}
