//! Which mover is the cheapest here, by trying.

use std::io;
use std::time::Instant;

use serde::Serialize;
use terrace_sys::map::Mapping;
use terrace_sys::migrate::{MigrateMode, MovePages2};
use terrace_sys::probe::Probe;
use terrace_sys::size::PAGE_BYTES;

use super::{Mover, Outcome};
use crate::calibrate::{median, scattered, us_each};

/// A mover, and why it and no other.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The mover.
    pub mover: Mover,
    /// A sentence for people.
    pub why: String,
    /// What was measured; nothing on a machine with one node.
    pub costs: Vec<MoverCost>,
}

/// What a mover costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MoverCost {
    /// The mover.
    pub mover: String,
    /// Microseconds for a page of 4 KiB, one of many scattered ones.
    pub page_us: f64,
}

/// Pages that are moved there and back in each round: 4 MiB.
const PAGES: usize = 1024;
const ROUNDS: usize = 3;
/// How much cheaper the patch's call must be than the kernel's own to be taken: what calls cost
/// varies by more than a tenth from one measurement to the next.
const GAIN_MIN: f64 = 0.9;

impl Mover {
    /// The cheapest mover of this machine: measured in some 20 ms where there are two nodes.
    #[must_use]
    pub fn choose(probe: &Probe) -> Choice {
        if !probe.move_pages.works() {
            return Choice::plain("there is none: the kernel has no move_pages");
        }
        let [here, there, ..] = probe.nodes.as_slice() else {
            return Choice::plain("not measured: with one node there is nothing to move");
        };
        match measure(&candidates(), [here.id, there.id]) {
            Ok(measured) => choose(measured),
            Err(error) => Choice::plain(&format!("not measured: {error}")),
        }
    }
}

impl Choice {
    fn plain(why: &str) -> Choice {
        Choice { mover: Mover::PLAIN, why: why.to_owned(), costs: Vec::new() }
    }
}

fn candidates() -> Vec<Mover> {
    let mut movers = vec![Mover::MovePages { batch: 64 }, Mover::PLAIN];
    if let Ok(call) = MovePages2::find() {
        let mode = MigrateMode::SyncLight;
        movers.extend([64, 512, PAGES].map(|batch| Mover::MovePages2 { call, mode, batch }));
    }
    movers
}

/// Microseconds a page of each mover, if it moves every page.
fn measure(movers: &[Mover], nodes: [u32; 2]) -> io::Result<Vec<(Mover, Option<f64>)>> {
    let mapping = Mapping::reserve(PAGES * PAGE_BYTES)?;
    // Where there are no huge pages there is nothing to decline.
    let _ = mapping.advise_huge(false);
    mapping.populate(0, PAGES * PAGE_BYTES)?;
    let pages: Vec<(usize, usize)> =
        scattered(PAGES).map(|index| (index * PAGE_BYTES, PAGE_BYTES)).collect();
    // A round before those that count puts pages just touched on the kernel's lists.
    let of_all = |_| movers.iter().map(|mover| round(*mover, &mapping, &pages, nodes)).collect();
    let rounds: Vec<Vec<Option<f64>>> = (0..=ROUNDS).map(of_all).collect();
    let cost = |at: usize| {
        let all: Option<Vec<f64>> = rounds[1..].iter().map(|round| round[at]).collect();
        all.map(median)
    };
    Ok(movers.iter().enumerate().map(|(at, mover)| (*mover, cost(at))).collect())
}

/// Microseconds a page of moving all pages there and back; none unless all have moved.
fn round(
    mover: Mover,
    mapping: &Mapping,
    pages: &[(usize, usize)],
    nodes: [u32; 2],
) -> Option<f64> {
    let start = Instant::now();
    let [here, there] = nodes;
    let moved = [there, here].map(|node| {
        mover.migrate(mapping, pages, node).iter().all(|outcome| *outcome == Outcome::Moved)
    });
    let took = start.elapsed().as_secs_f64();
    moved.iter().all(|moved| *moved).then(|| us_each(2 * pages.len(), took))
}

/// The cheapest of the kernel's own, unless one of the patch's is clearly cheaper.
fn choose(measured: Vec<(Mover, Option<f64>)>) -> Choice {
    let cheapest = |own: bool| {
        let of_kind = measured.iter().filter(|(mover, _)| is_own(mover) == own);
        let known = of_kind.filter_map(|(mover, cost)| Some((*mover, (*cost)?)));
        known.min_by(|a, b| a.1.total_cmp(&b.1))
    };
    let (mover, why) = match (cheapest(true), cheapest(false)) {
        (Some((own, us)), None) => (own, format!("{us:.1} us a page, the cheapest")),
        (Some((_, own)), Some((patch, us))) if us < own * GAIN_MIN => {
            (patch, format!("{us:.1} us a page, {own:.1} us by move_pages"))
        }
        (Some((own, us)), Some((_, patch))) => {
            (own, format!("{us:.1} us a page; move_pages2 gains too little with {patch:.1} us"))
        }
        (None, Some((patch, us))) => {
            (patch, format!("{us:.1} us a page; move_pages left pages behind"))
        }
        (None, None) => (Mover::PLAIN, "not measured: pages were held by others".to_owned()),
    };
    let cost = |(mover, cost): (Mover, Option<f64>)| {
        Some(MoverCost { mover: mover.to_string(), page_us: cost? })
    };
    Choice { mover, why, costs: measured.into_iter().filter_map(cost).collect() }
}

fn is_own(mover: &Mover) -> bool {
    matches!(mover, Mover::MovePages { .. })
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    const SMALL: Mover = Mover::MovePages { batch: 64 };

    #[test]
    fn the_cheapest_that_moved_everything_is_chosen() {
        let choice = choose(vec![(SMALL, Some(3.0)), (Mover::PLAIN, Some(2.0))]);
        assert_eq!(choice.mover, Mover::PLAIN);
        assert_eq!(choice.costs.len(), 2);
        let choice = choose(vec![(SMALL, Some(3.0)), (Mover::PLAIN, None)]);
        assert_eq!((choice.mover, choice.costs.len()), (SMALL, 1));
        let choice = choose(vec![(SMALL, None)]);
        assert_eq!(choice.mover, Mover::PLAIN);
        assert!(choice.why.contains("held by others") && choice.costs.is_empty());
    }

    #[test]
    fn the_choice_is_by_measuring_where_there_is_something_to_move() {
        let probe = Probe::detect();
        let choice = Mover::choose(&probe);
        assert!(!choice.why.is_empty());
        if probe.nodes.len() < 2 {
            assert!(choice.why.contains("one node") && choice.costs.is_empty());
            return;
        }
        let ways = if probe.move_pages2.works() { 5 } else { 2 };
        assert_eq!(choice.costs.len(), ways, "{choice:?}");
        assert!(choice.costs.iter().all(|cost| cost.page_us > 0.0));
        let named = |cost: &&MoverCost| cost.mover == choice.mover.to_string();
        let chosen = choice.costs.iter().find(named).expect("the one chosen was measured");
        let best = choice.costs.iter().map(|cost| cost.page_us).fold(f64::MAX, f64::min);
        assert!(chosen.page_us * GAIN_MIN <= best, "{choice:?}");
    }
}
