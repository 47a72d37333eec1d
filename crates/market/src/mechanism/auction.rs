//! Auction: the budget is sold each round to the highest bids.

use super::{
    Allotment, Book, Kind, Mechanism, Snapshot, Terms, book::Seat, fill::fill, supply::hull,
};
use crate::number::float;

/// Everything above the floors is sold anew each round, to the highest bids by the byte.
///
/// A consumer bids for lots, each as large as its curve's next useful size: the average that the
/// lot saves by the byte, over the horizon. On what it holds it bids higher by what moving costs,
/// so a rival must be better by more than that. The price shown is the highest bid that got
/// nothing. (Auctions of memory between operators: Davison and Graefe, SIGMOD 1995.)
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
    // Stable, so that a consumer's bids of equal height stay in their order.
    bids.sort_by(|a, b| b.per_byte.total_cmp(&a.per_byte));
    bids
}

/// The hull of what bytes above its floor save: lots by falling height.
fn bids_of(book: &Book<'_>, at: usize, seat: &Seat<'_>) -> Vec<Bid> {
    let bottom = book.standing(seat, seat.low);
    let mut sizes: Vec<u64> = seat.bends(seat.low, seat.high).collect();
    // What it holds is where moving begins to cost.
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

/// Sells lot by lot and returns the highest bid that did not get all it was for. Who missed a lot
/// cannot use those above it.
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

/// Whether the first bytes of a lot are worth as much as all of it: there is no cliff in it.
fn is_worth_part(book: &Book<'_>, bid: &Bid, bytes: u64) -> bool {
    let seat = &book.seats[bid.seat];
    let saved = book.standing(seat, seat.grant) - book.standing(seat, seat.grant + bytes);
    saved >= bid.per_byte * float(bytes) * 0.99
}
