//! Working state of one round: bounds, grants, and their value.

use super::{
    interface::{Allotment, Snapshot, Terms, Trade},
    seat::Seat,
    supply::{self, Lot},
};
use crate::number::{float, len};

/// Working state of all consumers in one round.
#[derive(Debug)]
pub(super) struct Book<'a> {
    pub(super) terms: &'a Terms,
    pub(super) seats: Vec<Seat<'a>>,
}

impl<'a> Book<'a> {
    /// Starts a round: every consumer has its endowment, reduced where the bounds or the budget
    /// demand it, cheapest bytes first.
    pub(super) fn open(terms: &'a Terms, snapshots: &'a [Snapshot]) -> Self {
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

    /// Returns the sum of the grants in bytes.
    pub(super) fn granted(&self) -> u64 {
        self.seats.iter().fold(0, |sum, seat| sum.saturating_add(seat.grant))
    }

    /// Returns the bytes of the budget that are not granted.
    pub(super) fn free(&self) -> u64 {
        self.terms.budget_bytes.saturating_sub(self.granted())
    }

    /// Returns the penalty of giving up `bytes`.
    pub(super) fn moving(&self, bytes: u64) -> f64 {
        self.terms.moving(bytes)
    }

    /// Returns the penalty of a seat at `bytes`, including the moving penalty for bytes that it
    /// has given up since the start.
    pub(super) fn standing(&self, seat: &Seat<'_>, bytes: u64) -> f64 {
        seat.penalty(bytes) + self.moving(seat.start.saturating_sub(bytes))
    }

    /// Returns all memory that could be given up: free bytes first, then lots by rising loss per
    /// byte.
    pub(super) fn lots(&self) -> Vec<Lot> {
        supply::lots(self.terms, &self.seats, self.free())
    }

    /// Takes back what exceeds the budget, from the consumers with the least loss per byte.
    fn collect(&mut self) {
        let mut missing = self.granted().saturating_sub(self.terms.budget_bytes);
        for lot in self.lots() {
            let Some(at) = lot.seat else { continue };
            let bytes = lot.bytes.min(missing);
            self.seats[at].grant -= bytes;
            missing -= bytes;
        }
    }

    /// Restores the endowments unless the gain of the new grants, less hysteresis, exceeds their
    /// loss.
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

    /// Ends the round: returns the grants, and the trades that lead from the endowments to them.
    pub(super) fn close(self, trades: Option<Vec<Trade>>, price: Option<f64>) -> Allotment {
        let trades = trades.unwrap_or_else(|| self.matched());
        let grants = self.seats.iter().map(|seat| seat.grant).collect();
        let horizon = self.terms.horizon_intervals.max(1.0);
        Allotment { grants, trades, price: price.map(|price| price / horizon) }
    }

    /// Derives trades from the changes of the grants, for mechanisms that do not trade in pairs.
    /// Sellers and buyers are matched in the order of the seats; free bytes come last.
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

/// Returns the lower bound of each grant: the floor, or the bytes protected by patience, or the
/// whole holding if the consumer cannot shrink, or a fair share if it has no curve. If the bounds
/// exceed the budget, the parts above the floors are cut in proportion, and then the floors.
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

/// Returns the amounts, scaled down in proportion if their sum exceeds `most`.
pub(super) fn cut(amounts: Vec<u64>, most: u64) -> Vec<u64> {
    let (sum, most) = (amounts.iter().map(|it| u128::from(*it)).sum::<u128>(), u128::from(most));
    if sum <= most {
        return amounts;
    }
    // A part is at most its amount.
    let part = |amount: u64| u64::try_from(most * u128::from(amount) / sum).unwrap_or(amount);
    amounts.into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn parts_are_within_the_sum_however_large_the_amounts() {
        assert_eq!(cut(vec![1, 2], 3), [1, 2]);
        assert_eq!(cut(vec![30, 10], 20), [15, 5]);
        assert_eq!(cut(vec![u64::MAX; 4], 100), [25; 4]);
        assert_eq!(cut(vec![u64::MAX, 0], u64::MAX), [u64::MAX, 0]);
        assert_eq!(cut(vec![5], 0), [0]);
    }
}
