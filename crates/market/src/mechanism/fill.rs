//! What is left when large lots did not fit.

use super::Book;
use crate::number::float;

/// Gives free bytes to whom they are worth most by the byte, in steps of its curve or all that is
/// left.
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

/// The step of one consumer that is worth most by the byte, and how much.
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
