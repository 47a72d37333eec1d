//! Choice of the cheapest mover of this machine, by measurement.

use std::io;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use terrace_sys::map::Mapping;
use terrace_sys::migrate::{MigrateMode, MovePages2};
use terrace_sys::probe::Probe;
use terrace_sys::size::PAGE_BYTES;

use super::{Mover, Outcome};
use crate::timing::{scattered, us_each};

/// The chosen mover, the reason, and the measurements.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The chosen mover.
    pub mover: Mover,
    /// Reason for the choice, in words.
    pub why: String,
    /// Measured costs; empty on a machine with one node.
    pub costs: Vec<MoverCost>,
}

/// Measured cost of a mover.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MoverCost {
    /// Description of the mover.
    pub mover: String,
    /// Microseconds per page of 4 KiB when 1,024 scattered pages move together.
    pub page_us: f64,
    /// Microseconds per page of 4 KiB when eight pages move together.
    pub few_us: f64,
}

/// Pages moved there and back in each round: 4 MiB.
const PAGES: usize = 1024;
/// Batch size of the second measurement: the cost per page when few pages move.
const FEW: usize = 8;
const FEW_PAGES: usize = 64;
const ROUNDS: usize = 3;
/// Ratio by which costs vary between measurements; smaller differences are ignored.
const NOISE: f64 = 1.1;

/// A mover that moved every page, with its microseconds per page of large and small batches.
#[derive(Copy, Clone, Debug)]
struct Measured {
    mover: Mover,
    page_us: f64,
    few_us: f64,
}

impl Mover {
    /// Measures the movers of this machine between two nodes and returns the cheapest: the one with
    /// the lowest cost per page of large batches and, among those that are equal in that within 10
    /// %, of small ones. Without two nodes or `move_pages` it returns [`Mover::PLAIN`].
    #[must_use]
    pub fn choose(probe: &Probe) -> Choice {
        if !probe.move_pages.works() {
            return Choice::plain("there is none: the kernel has no move_pages");
        }
        // A node without processors, if there is one, is the last.
        let [here, .., there] = probe.nodes.as_slice() else {
            return Choice::plain("not measured: with one node there is nothing to move");
        };
        match measure(&candidates(), [here.id, there.id]) {
            Ok(measured) => choose(&measured),
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

/// Returns the costs of the movers that moved every page.
fn measure(movers: &[Mover], nodes: [u32; 2]) -> io::Result<Vec<Measured>> {
    let mapping = Mapping::reserve(PAGES * PAGE_BYTES)?;
    // The advice fails on kernels without huge pages, which need none.
    let _ = mapping.advise_huge(false);
    mapping.populate(0, PAGES * PAGE_BYTES)?;
    let pages: Vec<(usize, usize)> =
        scattered(PAGES).map(|index| (index * PAGE_BYTES, PAGE_BYTES)).collect();
    // A warm-up round puts pages just touched on the kernel's LRU lists.
    round(Mover::PLAIN, &mapping, &pages, PAGES, nodes);
    let cost = |mover: &Mover| {
        let of = |pages: &[_], call| {
            let rounds = (0..ROUNDS).map(|_| round(*mover, &mapping, pages, call, nodes));
            // Other load on the machine only ever adds time, so the best round is the most
            // accurate.
            let rounds = rounds.collect::<Option<Vec<f64>>>()?;
            rounds.into_iter().min_by(f64::total_cmp)
        };
        let (page_us, few_us) = (of(&pages, PAGES)?, of(&pages[..FEW_PAGES], FEW)?);
        Some(Measured { mover: *mover, page_us, few_us })
    };
    Ok(movers.iter().filter_map(cost).collect())
}

/// Returns the microseconds per page of moving pages there and back in batches of `few`; `None`
/// unless every page has moved.
fn round(
    mover: Mover,
    mapping: &Mapping,
    pages: &[(usize, usize)],
    few: usize,
    [here, there]: [u32; 2],
) -> Option<f64> {
    let start = Instant::now();
    let moved = |node, pages| {
        mover.migrate(mapping, pages, node).iter().all(|outcome| *outcome == Outcome::Moved)
    };
    let all = pages.chunks(few).all(|chunk| moved(there, chunk) && moved(here, chunk));
    let took = start.elapsed().as_secs_f64();
    all.then(|| us_each(2 * pages.len(), took))
}

fn choose(measured: &[Measured]) -> Choice {
    let cost = |one: &Measured| MoverCost {
        mover: one.mover.to_string(),
        page_us: one.page_us,
        few_us: one.few_us,
    };
    let costs = measured.iter().map(cost).collect();
    let best = measured.iter().map(|one| one.page_us).fold(f64::INFINITY, f64::min);
    let equal = measured.iter().filter(|one| one.page_us <= best * NOISE);
    let Some(chosen) = equal.min_by(|a, b| a.few_us.total_cmp(&b.few_us)) else {
        return Choice::plain("not measured: pages were held by others");
    };
    let why = format!(
        "{:.1} us for one page of many, {:.1} us for one of eight",
        chosen.page_us, chosen.few_us
    );
    Choice { mover: chosen.mover, why, costs }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    const SMALL: Mover = Mover::MovePages { batch: 64 };

    fn measured(mover: Mover, page_us: f64, few_us: f64) -> Measured {
        Measured { mover, page_us, few_us }
    }

    #[test]
    fn the_cheapest_for_many_is_chosen_and_among_equals_the_cheapest_for_few() {
        let both = [measured(SMALL, 3.0, 9.0), measured(Mover::PLAIN, 2.0, 90.0)];
        let choice = choose(&both);
        assert_eq!((choice.mover, choice.costs.len()), (Mover::PLAIN, 2));
        let both = [measured(SMALL, 2.1, 9.0), measured(Mover::PLAIN, 2.0, 90.0)];
        let choice = choose(&both);
        assert_eq!(choice.mover, SMALL);
        assert!(choice.why.contains("2.1 us") && choice.why.contains("9.0 us"));
        let choice = choose(&[]);
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
        assert!(choice.costs.iter().all(|cost| cost.page_us > 0.0 && cost.few_us > 0.0));
        let named = |cost: &&MoverCost| cost.mover == choice.mover.to_string();
        let chosen = choice.costs.iter().find(named).expect("the one chosen was measured");
        let best = choice.costs.iter().map(|cost| cost.page_us).fold(f64::MAX, f64::min);
        assert!(chosen.page_us <= best * NOISE, "{choice:?}");
    }
}
