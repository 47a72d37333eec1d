//! Price: a broker posts what a byte costs, and everyone takes what pays (Otaki et al., CIDR 2025,
//! figure 3b).

use super::{Allotment, Book, Kind, Mechanism, Snapshot, Terms, book::Seat, fill::fill};
use crate::number::float;

/// One price for all, moved by demand: up while more is wanted than there is, down while less is.
/// It begins each round where the last one ended.
///
/// Nobody has a purse. A penalty is money already, so a consumer takes the bytes that make its
/// penalty plus their price least. Demand for curves with cliffs jumps, so there may be no price
/// at which all is taken; what is left then goes to whom it is worth most.
#[derive(Clone, Copy, Debug, Default)]
pub struct Price {
    /// The last price of a byte over the horizon.
    last: f64,
}

/// Moves of the price in one round: enough to double it from the least that counts to the most,
/// and to settle it to a thousandth.
const MOVES_MAX: usize = 96;

impl Price {
    /// A broker that asks nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The lowest price found at which demand fits.
    fn clearing(&self, book: &Book<'_>) -> f64 {
        let fits = |price: f64| demanded(book, price) <= book.terms.budget_bytes;
        if fits(0.0) {
            return 0.0;
        }
        // Too low and high enough, when found; the price doubles or halves until both are.
        let (mut low, mut high) = (0.0, f64::INFINITY);
        let mut price = if self.last > 0.0 { self.last } else { least_price(book) };
        for _ in 0..MOVES_MAX {
            if fits(price) {
                high = price
            } else {
                low = price
            }
            price = match (low > 0.0, high.is_finite()) {
                (true, true) if high <= low * 1.001 => break,
                (true, true) => f64::midpoint(low, high),
                (_, false) => low * 2.0,
                (false, true) => high / 2.0,
            };
        }
        if high.is_finite() { high } else { price }
    }
}

impl Mechanism for Price {
    fn kind(&self) -> Kind {
        Kind::Price
    }

    fn allot(&mut self, terms: &Terms, snapshots: &[Snapshot]) -> Allotment {
        let mut book = Book::open(terms, snapshots);
        self.last = self.clearing(&book);
        let wanted: Vec<u64> =
            book.seats.iter().map(|seat| demand(&book, seat, self.last)).collect();
        if wanted.iter().sum::<u64>() <= terms.budget_bytes {
            for (seat, wanted) in book.seats.iter_mut().zip(wanted) {
                seat.grant = wanted;
            }
            fill(&mut book);
            book.settle();
        }
        book.close(None, Some(self.last))
    }
}

/// A price that somebody might feel: a penalty spread over the whole budget.
fn least_price(book: &Book<'_>) -> f64 {
    let sum: f64 = book.seats.iter().map(|seat| seat.penalty(seat.low)).sum();
    (sum / float(book.terms.budget_bytes.max(1))).max(f64::MIN_POSITIVE * 1e30)
}

fn demanded(book: &Book<'_>, price: f64) -> u64 {
    let wanted = book.seats.iter().map(|seat| demand(book, seat, price));
    wanted.fold(0, u64::saturating_add)
}

/// The bytes at which penalty, price and moving together are least; the fewest of them.
fn demand(book: &Book<'_>, seat: &Seat<'_>, price: f64) -> u64 {
    let sizes = seat.bends(seat.low, seat.high).chain([seat.low, seat.grant]);
    let cost = |bytes: u64| book.standing(seat, bytes) + price * float(bytes);
    sizes
        .map(|bytes| (bytes, cost(bytes)))
        .min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)))
        .map_or(seat.low, |(bytes, _)| bytes)
}
