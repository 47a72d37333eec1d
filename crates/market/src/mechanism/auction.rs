//! Auction: sells the budget each round to the highest bids.

use super::{
    book::Book,
    fill::fill,
    interface::{Allotment, Mechanism, Snapshot, Terms},
    kind::Kind,
    seat::Seat,
    supply::hull,
};
use crate::number::float;

/// Sells all memory above the floors anew each round, to the highest bids per byte.
///
/// A consumer bids for lots, each as large as the next useful size of its curve. A bid is the
/// average saving per byte of the lot over the horizon. For memory that the consumer holds already,
/// the bid is raised by the moving penalty, so a rival must value the memory by more than that. The
/// published price is the highest bid that was not served in full. (Auctions of memory between
/// operators: Davison and Graefe, SIGMOD 1995.)
#[derive(Clone, Copy, Debug, Default)]
pub struct Auction;

#[derive(Clone, Copy, Debug)]
struct Bid {
    seat: usize,
    bytes: u64,
    per_byte: f64,
}

impl Mechanism for Auction {
    fn kind(&self) -> Kind {
        Kind::Auction
    }

    fn allot(&mut self, terms: &Terms, snapshots: &[Snapshot]) -> Allotment {
        let mut book = Book::open(terms, snapshots);
        let bids = sorted_bids(&book);
        book.seats.iter_mut().for_each(|seat| seat.grant = seat.low);
        let price = sell(&mut book, &bids);
        fill(&mut book);
        book.settle();
        book.close(None, Some(price))
    }
}

fn sorted_bids(book: &Book<'_>) -> Vec<Bid> {
    let each = |(at, seat)| bids_of(book, at, seat);
    let mut bids: Vec<Bid> = book.seats.iter().enumerate().flat_map(each).collect();
    // The sort is stable, to keep a consumer's bids of equal height in their order.
    bids.sort_by(|a, b| b.per_byte.total_cmp(&a.per_byte));
    bids
}

/// Returns the bids of one consumer, by falling height: the segments of the convex hull of what
/// bytes above its lower bound save.
fn bids_of(book: &Book<'_>, at: usize, seat: &Seat<'_>) -> Vec<Bid> {
    let bottom = book.standing(seat, seat.low);
    let mut sizes: Vec<u64> = seat.bends(seat.low, seat.high).collect();
    // The size at the start of the round is a corner, since the moving penalty begins below it.
    if let Err(place) = sizes.binary_search(&seat.start)
        && seat.start > seat.low
    {
        sizes.insert(place, seat.start);
    }
    let saved = sizes.iter().map(|&size| (size - seat.low, book.standing(seat, size) - bottom));
    let corners = hull(saved);
    let bid = |pair: &[(u64, f64)]| {
        let bytes = pair[1].0 - pair[0].0;
        Bid { seat: at, bytes, per_byte: (pair[0].1 - pair[1].1) / float(bytes.max(1)) }
    };
    corners.windows(2).map(bid).filter(|bid| bid.per_byte > 0.0).collect()
}

/// Sells the lots in order and returns the highest bid that was not served in full. A consumer that
/// missed a lot gets none of its later lots, which build on it.
fn sell(book: &mut Book<'_>, bids: &[Bid]) -> f64 {
    let mut missed = vec![false; book.seats.len()];
    let mut price = 0.0_f64;
    for bid in bids {
        let free = book.free();
        if !missed[bid.seat] && bid.bytes <= free {
            book.seats[bid.seat].grant += bid.bytes;
            continue;
        }
        price = price.max(bid.per_byte);
        if !missed[bid.seat] && free > 0 && is_worth_part(book, bid, free) {
            book.seats[bid.seat].grant += free;
        }
        missed[bid.seat] = true;
    }
    price
}

/// True if the first `bytes` of a lot save as much per byte as the whole lot, to 1 %: the part has
/// no cliff to wait for.
fn is_worth_part(book: &Book<'_>, bid: &Bid, bytes: u64) -> bool {
    let seat = &book.seats[bid.seat];
    let saved = book.standing(seat, seat.grant) - book.standing(seat, seat.grant + bytes);
    saved >= bid.per_byte * float(bytes) * 0.99
}
