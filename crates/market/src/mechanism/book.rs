//! The books of one round: bounds, grants, and what they are worth.

use super::{Allotment, Snapshot, Terms, Trade, supply};
use crate::{
    Curve,
    number::{float, len, portion},
};

/// Every consumer's seat in one round.
#[derive(Debug)]
pub(crate) struct Book<'a> {
    pub(super) terms: &'a Terms,
    pub(super) seats: Vec<Seat<'a>>,
}

/// One consumer in one round.
#[derive(Clone, Debug)]
pub(crate) struct Seat<'a> {
    pub(super) id: u64,
    pub(super) curve: Option<&'a Curve>,
    /// Its grant is never below,
    pub(super) low: u64,
    /// nor above.
    pub(super) high: u64,
    /// What it would take.
    pub(super) demand: u64,
    /// What it was endowed with when the round began, within its bounds and the budget.
    pub(super) start: u64,
    /// What it has now.
    pub(super) grant: u64,
    horizon: f64,
}

impl Seat<'_> {
    /// Its penalty with `bytes` for as long as a grant is expected to stand.
    pub(super) fn penalty(&self, bytes: u64) -> f64 {
        self.curve.map_or(0.0, |curve| curve.at(bytes) * self.horizon)
    }

    /// The sizes at which its curve bends, above `low` and up to `high`.
    pub(super) fn bends(&self, low: u64, high: u64) -> impl DoubleEndedIterator<Item = u64> {
        let points = self.curve.map_or(&[][..], Curve::points);
        let from = points.partition_point(|point| point.bytes <= low);
        let to = points.partition_point(|point| point.bytes <= high).max(from);
        points[from..to].iter().map(|point| point.bytes)
    }
}

impl<'a> Book<'a> {
    /// Opens the books: everybody with what it has, cut down where the bounds or the budget ask
    /// for it, cheapest first.
    pub(crate) fn open(terms: &'a Terms, snapshots: &'a [Snapshot]) -> Self {
        let lows = lows(terms.budget_bytes, snapshots);
        let seat = |(snapshot, low): (&'a Snapshot, u64)| {
            let fixed = snapshot.curve.is_none();
            let high = if fixed { low } else { snapshot.ceiling_bytes.max(low) };
            let grant = snapshot.holding_bytes.min(snapshot.demand_bytes).clamp(low, high);
            Seat {
                id: snapshot.id,
                curve: snapshot.curve.as_deref(),
                low,
                high,
                demand: snapshot.demand_bytes,
                start: grant,
                grant,
                horizon: terms.horizon_intervals.max(1.0),
            }
        };
        let mut book = Self { terms, seats: snapshots.iter().zip(lows).map(seat).collect() };
        book.collect();
        book.seats.iter_mut().for_each(|seat| seat.start = seat.grant);
        book
    }

    /// What is granted.
    pub(super) fn granted(&self) -> u64 {
        self.seats.iter().fold(0, |sum, seat| sum.saturating_add(seat.grant))
    }

    /// What is not.
    pub(super) fn free(&self) -> u64 {
        self.terms.budget_bytes.saturating_sub(self.granted())
    }

    /// What giving up bytes costs.
    pub(super) fn moving(&self, bytes: u64) -> f64 {
        self.terms.moving_penalty_per_byte.max(0.0) * float(bytes)
    }

    /// The penalty of a seat at `bytes`, with what it costs to come down to them from its start.
    pub(super) fn standing(&self, seat: &Seat<'_>, bytes: u64) -> f64 {
        seat.penalty(bytes) + self.moving(seat.start.saturating_sub(bytes))
    }

    /// Takes back what exceeds the budget, where it is missed least.
    fn collect(&mut self) {
        let mut missing = self.granted().saturating_sub(self.terms.budget_bytes);
        for lot in supply::lots(self) {
            let Some(at) = lot.seat else { continue };
            let bytes = lot.bytes.min(missing);
            self.seats[at].grant -= bytes;
            missing -= bytes;
        }
    }

    /// Puts everybody back to where the round began, unless the new grants are worth the move.
    pub(super) fn settle(&mut self) {
        let (mut gain, mut loss) = (0.0, 0.0);
        for seat in &self.seats {
            let change = seat.penalty(seat.start) - self.standing(seat, seat.grant);
            if change > 0.0 { gain += change } else { loss -= change }
        }
        if gain * (1.0 - self.terms.hysteresis) <= loss {
            self.seats.iter_mut().for_each(|seat| seat.grant = seat.start);
        }
    }

    /// Closes the books: the grants, and trades that lead from the beginning to them.
    pub(super) fn close(self, trades: Option<Vec<Trade>>, price: Option<f64>) -> Allotment {
        let trades = trades.unwrap_or_else(|| self.matched());
        let grants = self.seats.iter().map(|seat| seat.grant).collect();
        let horizon = self.terms.horizon_intervals.max(1.0);
        Allotment { grants, trades, price: price.map(|price| price / horizon) }
    }

    /// Who gave to whom, where only sums are known: in the order of the seats, free bytes last.
    fn matched(&self) -> Vec<Trade> {
        let mut givers: Vec<(u64, u64)> = self
            .seats
            .iter()
            .filter(|seat| seat.grant < seat.start)
            .map(|seat| (seat.id, seat.start - seat.grant))
            .rev()
            .collect();
        let gains: f64 =
            self.seats.iter().map(|it| it.penalty(it.start) - it.penalty(it.grant)).sum();
        let moved: u64 = self.seats.iter().map(|it| it.grant.saturating_sub(it.start)).sum();
        let per_byte = gains / float(moved.max(1)) / self.terms.horizon_intervals.max(1.0);
        let mut trades = Vec::new();
        for seat in self.seats.iter().filter(|seat| seat.grant > seat.start) {
            let mut wanted = seat.grant - seat.start;
            while wanted > 0 {
                let (from, has) = givers.pop().map_or((None, wanted), |(id, has)| (Some(id), has));
                let bytes = has.min(wanted);
                if let Some(id) = from.filter(|_| has > bytes) {
                    givers.push((id, has - bytes));
                }
                trades.push(Trade { from, to: seat.id, bytes, gain: per_byte * float(bytes) });
                wanted -= bytes;
            }
        }
        trades
    }
}

/// The least that each gets: its floor, or what it was just given, or all it holds if it cannot
/// shrink, or a fair share if it has no curve. Where these exceed the budget, what is above the
/// floors is cut in proportion, and then the floors.
fn lows(budget: u64, snapshots: &[Snapshot]) -> Vec<u64> {
    let fair = budget / len(snapshots.len()).max(1);
    let wanted = snapshots.iter().map(|snapshot| match (&snapshot.curve, snapshot.can_shrink) {
        (_, false) => snapshot.holding_bytes.max(snapshot.floor_bytes),
        (None, true) => {
            let most = snapshot.demand_bytes.min(snapshot.ceiling_bytes);
            fair.min(most).max(snapshot.floor_bytes)
        }
        (Some(_), true) => snapshot.kept_bytes.max(snapshot.floor_bytes),
    });
    let floors = cut(snapshots.iter().map(|it| it.floor_bytes).collect(), budget);
    let left = budget - floors.iter().sum::<u64>();
    let above = wanted.zip(&floors).map(|(wanted, floor)| wanted.saturating_sub(*floor)).collect();
    floors.iter().zip(cut(above, left)).map(|(floor, above)| floor + above).collect()
}

/// The amounts, in proportion less if their sum exceeds `most`.
pub(super) fn cut(amounts: Vec<u64>, most: u64) -> Vec<u64> {
    let sum = amounts.iter().fold(0_u64, |sum, amount| sum.saturating_add(*amount));
    if sum <= most {
        return amounts;
    }
    // Where the sum saturates, what is left of each is rounded to nothing rather than too much.
    amounts.into_iter().map(|amount| portion(most, amount, sum)).collect()
}
