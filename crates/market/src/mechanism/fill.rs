//! Distribution of the memory that is left when large lots did not fit.

use super::book::Book;
use crate::number::float;

/// Grants free bytes to the consumers that save most per byte with them. A grant goes up to a point
/// of the consumer's curve, or takes all that is left.
pub(super) fn fill(book: &mut Book<'_>) {
    for _ in 0..book.terms.trades_max {
        let free = book.free();
        if free < book.terms.trade_bytes_min.max(1) {
            return;
        }
        let best = (0..book.seats.len()).filter_map(|at| step(book, at, free));
        let Some((at, bytes, _)) = best.max_by(|a, b| a.2.total_cmp(&b.2)) else { return };
        book.seats[at].grant += bytes;
    }
}

/// Returns the step of one consumer with the highest saving per byte: seat, bytes and saving per
/// byte.
fn step(book: &Book<'_>, at: usize, free: u64) -> Option<(usize, u64, f64)> {
    let seat = &book.seats[at];
    let now = book.standing(seat, seat.grant);
    let end = seat.high.min(seat.grant.saturating_add(free));
    let sizes = seat.bends(seat.grant, end).chain([end]).filter(|size| *size > seat.grant);
    let worth = sizes.map(|size| {
        let bytes = size - seat.grant;
        (at, bytes, (now - book.standing(seat, size)) / float(bytes))
    });
    worth.filter(|step| step.2 > 0.0).max_by(|a, b| a.2.total_cmp(&b.2))
}
