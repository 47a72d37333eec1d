//! Baselines: the policies of systems without a market.

use terrace_ledger::Class;

use super::{
    book::{Book, cut},
    interface::{Allotment, Mechanism, Snapshot, Terms},
    kind::Kind,
};
use crate::number::{len, portion};

/// Divides the budget into equal parts, without regard to their use.
#[derive(Clone, Copy, Debug, Default)]
pub struct StaticSplit;

impl Mechanism for StaticSplit {
    fn kind(&self) -> Kind {
        Kind::Static
    }

    fn allot(&mut self, terms: &Terms, snapshots: &[Snapshot]) -> Allotment {
        let mut book = Book::open(terms, snapshots);
        let part = terms.budget_bytes / len(snapshots.len()).max(1);
        let lows: u64 = book.seats.iter().map(|seat| seat.low).sum();
        let above = book.seats.iter().map(|seat| part.clamp(seat.low, seat.high) - seat.low);
        let above = cut(above.collect(), terms.budget_bytes.saturating_sub(lows));
        for (seat, above) in book.seats.iter_mut().zip(above) {
            seat.grant = seat.low + above;
        }
        book.close(None, None)
    }
}

/// Grants by demand: queries get all the working memory that they demand, in the order of arrival,
/// while there is any; all other consumers share the rest in proportion to their demand.
#[derive(Clone, Copy, Debug, Default)]
pub struct DemandDriven;

impl Mechanism for DemandDriven {
    fn kind(&self) -> Kind {
        Kind::Demand
    }

    fn allot(&mut self, terms: &Terms, snapshots: &[Snapshot]) -> Allotment {
        let mut book = Book::open(terms, snapshots);
        book.seats.iter_mut().for_each(|seat| seat.grant = seat.low);
        let mut queries: Vec<usize> =
            (0..snapshots.len()).filter(|at| snapshots[*at].class == Class::Query).collect();
        queries.sort_by_key(|at| snapshots[*at].id);
        for at in queries {
            let free = book.free();
            let seat = &mut book.seats[at];
            seat.grant += seat.demand.min(seat.high).saturating_sub(seat.grant).min(free);
        }
        share_the_rest(&mut book, snapshots);
        book.close(None, None)
    }
}

fn share_the_rest(book: &mut Book<'_>, snapshots: &[Snapshot]) {
    let free = book.free();
    let wanted = |at: usize| match snapshots[at].class {
        Class::Query => 0,
        _ => book.seats[at].demand.min(book.seats[at].high).min(book.terms.budget_bytes),
    };
    let wants: Vec<u64> = (0..snapshots.len()).map(wanted).collect();
    let sum = wants.iter().fold(0, |sum: u64, want| sum.saturating_add(*want));
    for (at, want) in wants.into_iter().enumerate().filter(|(_, want)| *want > 0) {
        let left = book.free();
        let seat = &mut book.seats[at];
        let most = seat.demand.min(seat.high).saturating_sub(seat.grant);
        seat.grant += portion(free, want, sum).min(most).min(left);
    }
}
