//! Price: a broker posts the price of a byte, and every consumer takes the bytes that pay off
//! (Otaki et al., CIDR 2025, figure 3b).

use super::{
    book::Book,
    fill::fill,
    interface::{Allotment, Mechanism, Snapshot, Terms},
    kind::Kind,
    seat::Seat,
};
use crate::number::float;

/// Posts one price for all consumers and adjusts it by demand: up while demand exceeds the budget,
/// down while it falls short. Each round begins with the last price.
///
/// Consumers have no budgets of money. A penalty is already in the unit of the price, so a consumer
/// takes the bytes that minimize the sum of penalty and price. With curves that have cliffs, demand
/// jumps, so there may be no price at which demand equals the budget; the rest is then granted to
/// the consumers that save most with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Price {
    /// Price of a byte over the horizon in the last round.
    last: f64,
}

/// Maximum number of price adjustments in one round: enough to double the lowest relevant price up
/// to the highest, and to narrow the result to a thousandth.
const MOVES_MAX: usize = 96;

impl Price {
    /// Returns a broker whose price is zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the lowest price found at which demand fits into the budget.
    fn clearing(&self, book: &Book<'_>) -> f64 {
        let fits = |price: f64| demanded(book, price) <= book.terms.budget_bytes;
        if fits(0.0) {
            return 0.0;
        }
        // Bounds of the price: demand exceeds the budget at `low` and fits at `high`. The price
        // doubles or halves until both are known.
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

/// Returns the first price to try: the sum of all penalties, spread over the budget.
fn least_price(book: &Book<'_>) -> f64 {
    let sum: f64 = book.seats.iter().map(|seat| seat.penalty(seat.low)).sum();
    (sum / float(book.terms.budget_bytes.max(1))).max(f64::MIN_POSITIVE * 1e30)
}

fn demanded(book: &Book<'_>, price: f64) -> u64 {
    let wanted = book.seats.iter().map(|seat| demand(book, seat, price));
    wanted.fold(0, u64::saturating_add)
}

/// Returns the bytes at which a consumer's penalty, the price of the bytes and the moving penalty
/// have the least sum; the fewest bytes if several sizes cost the same.
fn demand(book: &Book<'_>, seat: &Seat<'_>, price: f64) -> u64 {
    let sizes = seat.bends(seat.low, seat.high).chain([seat.low, seat.grant]);
    let cost = |bytes: u64| book.standing(seat, bytes) + price * float(bytes);
    sizes
        .map(|bytes| (bytes, cost(bytes)))
        .min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)))
        .map_or(seat.low, |(bytes, _)| bytes)
}
