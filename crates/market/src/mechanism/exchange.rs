//! Exchange: consumers trade the memory they hold (Otaki et al., CIDR 2025, figure 3a).

use super::{
    book::Book,
    interface::{Allotment, Mechanism, Snapshot, Terms, Trade},
    kind::Kind,
    supply::Lot,
};
use crate::number::float;

/// Executes trades one after another, the most valuable first, until none pays off.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    selfish: bool,
}

/// Number of candidate trades that are computed exactly, of those with the best estimate.
const RECKONED_MAX: usize = 16;

/// A candidate trade.
#[derive(Clone, Copy, Debug)]
struct Idea {
    buyer: usize,
    bytes: u64,
    /// Estimate of the net gain over the horizon; an upper bound.
    worth: f64,
}

/// A trade computed exactly.
#[derive(Debug)]
struct Plan {
    buyer: usize,
    /// Sellers and the bytes of each; the index is `None` for free bytes.
    givers: Vec<(Option<usize>, u64)>,
    bytes: u64,
    /// Gain of the buyer less losses of the sellers, over the horizon.
    gain: f64,
    /// Net gain: the part of `gain` that remains after moving and hysteresis are paid.
    worth: f64,
}

impl Exchange {
    /// Returns an exchange that trades whenever the sum of penalties falls.
    #[must_use]
    pub const fn cooperative() -> Self {
        Self { selfish: false }
    }

    /// Returns an exchange in which no seller accepts a loss: it sells only memory that is of no
    /// use to it. The outcome is Pareto optimal, and may leave memory with consumers that gain
    /// little from it.
    #[must_use]
    pub const fn selfish() -> Self {
        Self { selfish: true }
    }

    /// Returns the trade with the highest net gain, if any is positive.
    fn best(self, book: &Book<'_>) -> Option<Plan> {
        let lots = book.lots();
        let mut ideas: Vec<Idea> =
            (0..book.seats.len()).flat_map(|buyer| self.ideas(book, &lots, buyer)).collect();
        // Among trades of equal worth the smallest wins, so that no buyer takes more than it can
        // use.
        ideas.sort_by(|a, b| b.worth.total_cmp(&a.worth).then(a.bytes.cmp(&b.bytes)));
        ideas.truncate(RECKONED_MAX);
        let plans = ideas.iter().map(|idea| self.plan(book, &lots, idea.buyer, idea.bytes));
        let smaller = |a: &Plan, b: &Plan| a.worth.total_cmp(&b.worth).then(b.bytes.cmp(&a.bytes));
        plans.filter(|plan| plan.worth > 0.0).max_by(smaller)
    }

    /// Returns the candidate trades of one buyer: one for each bend of its own curve and of the
    /// supply, since the difference of two piecewise linear functions has its extremes at bends.
    fn ideas(self, book: &Book<'_>, lots: &[Lot], buyer: usize) -> Vec<Idea> {
        let seat = &book.seats[buyer];
        let supply = Supply::of(lots, buyer, |lot| self.accepts(book, lot));
        let room = supply.bytes().min(seat.high - seat.grant);
        let own = seat.bends(seat.grant, seat.grant.saturating_add(room));
        let own = own.map(|bytes| bytes - seat.grant);
        let now = seat.penalty(seat.grant);
        let idea = |bytes: u64| {
            let gain = now - seat.penalty(seat.grant.saturating_add(bytes));
            let (loss, paid) = supply.loss(bytes);
            let margin = if paid { gain * book.terms.hysteresis } else { 0.0 };
            Idea { buyer, bytes, worth: gain - loss - margin }
        };
        let sizes = own.chain(supply.corners()).chain([room]);
        let sizes = sizes.filter(|bytes| (book.terms.trade_bytes_min..=room).contains(bytes));
        sizes.map(idea).filter(|idea| idea.worth > now * 1e-9).collect()
    }

    /// True if the seller agrees to give up the lot.
    fn accepts(self, book: &Book<'_>, lot: &Lot) -> bool {
        !self.selfish || lot.loss <= book.moving(lot.bytes) * (1.0 + 1e-9)
    }

    /// Computes a trade exactly: part of a lot may cost more than its share of the hull.
    fn plan(self, book: &Book<'_>, lots: &[Lot], buyer: usize, bytes: u64) -> Plan {
        let mut givers: Vec<(Option<usize>, u64)> = Vec::new();
        let mut missing = bytes;
        let others = lots.iter().filter(|lot| lot.seat != Some(buyer));
        for lot in others.filter(|lot| self.accepts(book, lot)) {
            let part = lot.bytes.min(missing);
            match givers.iter_mut().find(|giver| giver.0 == lot.seat) {
                Some(giver) => giver.1 += part,
                None if part > 0 => givers.push((lot.seat, part)),
                None => break,
            }
            missing -= part;
        }
        let taken = bytes - missing;
        let seat = &book.seats[buyer];
        let won = seat.penalty(seat.grant) - seat.penalty(seat.grant + taken);
        let (mut loss, mut paid) = (0.0, 0);
        for (at, part) in givers.iter().filter_map(|(at, part)| Some(((*at)?, *part))) {
            let giver = &book.seats[at];
            loss += giver.penalty(giver.grant - part) - giver.penalty(giver.grant);
            paid += part;
        }
        let margin = if paid > 0 { won * book.terms.hysteresis } else { 0.0 };
        let selfless = self.selfish && loss > won * 1e-9;
        let gain = won - loss;
        let worth = if selfless { 0.0 } else { gain - book.moving(paid) - margin };
        Plan { buyer, givers, bytes: taken, gain, worth }
    }
}

impl Mechanism for Exchange {
    fn kind(&self) -> Kind {
        if self.selfish { Kind::Selfish } else { Kind::Cooperative }
    }

    fn allot(&mut self, terms: &Terms, snapshots: &[Snapshot]) -> Allotment {
        let mut book = Book::open(terms, snapshots);
        let mut trades = Vec::new();
        for _ in 0..terms.trades_max {
            let Some(plan) = self.best(&book) else { break };
            apply(&mut book, &plan, &mut trades);
        }
        book.close(Some(trades), None)
    }
}

fn apply(book: &mut Book<'_>, plan: &Plan, trades: &mut Vec<Trade>) {
    let per_byte = plan.gain / float(plan.bytes.max(1)) / book.terms.horizon_intervals.max(1.0);
    let to = book.seats[plan.buyer].id;
    for &(giver, bytes) in &plan.givers {
        let from = giver.map(|at| {
            book.seats[at].grant -= bytes;
            book.seats[at].id
        });
        trades.push(Trade { from, to, bytes, gain: per_byte * float(bytes) });
    }
    book.seats[plan.buyer].grant += plan.bytes;
}

/// Cumulative supply of one buyer: the lots that it can buy.
struct Supply {
    /// Cumulative bytes and loss after each lot.
    sums: Vec<(u64, f64)>,
    free: u64,
}

impl Supply {
    fn of(lots: &[Lot], buyer: usize, accepts: impl Fn(&Lot) -> bool) -> Self {
        let (mut bytes, mut loss, mut free) = (0_u64, 0.0, 0);
        let mut sums = vec![(0, 0.0)];
        for lot in lots.iter().filter(|lot| lot.seat != Some(buyer) && accepts(lot)) {
            if lot.seat.is_none() {
                free = lot.bytes;
            }
            bytes = bytes.saturating_add(lot.bytes);
            loss += lot.loss;
            sums.push((bytes, loss));
        }
        Self { sums, free }
    }

    fn bytes(&self) -> u64 {
        self.sums.last().map_or(0, |sum| sum.0)
    }

    fn corners(&self) -> impl Iterator<Item = u64> {
        self.sums.iter().skip(1).map(|sum| sum.0)
    }

    /// Returns the lowest loss for which `bytes` can be bought, and true if consumers must give
    /// some of them up, since fewer are free.
    fn loss(&self, bytes: u64) -> (f64, bool) {
        let after = self.sums.partition_point(|sum| sum.0 < bytes).max(1);
        let left = self.sums[after - 1];
        let loss = self.sums.get(after).map_or(left.1, |right| {
            let part = float(bytes - left.0) / float((right.0 - left.0).max(1));
            left.1 + (right.1 - left.1) * part
        });
        (loss, bytes > self.free)
    }
}
