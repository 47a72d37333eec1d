//! Properties of all mechanisms on random markets.
#![allow(clippy::print_stdout, reason = "the figures are what the tests are for")]

use std::sync::Arc;

use proptest::prelude::*;
use terrace_ledger::Class;
use terrace_market::{
    Curve, Kind, Point,
    mechanism::{Allotment, Snapshot, Terms, Trade},
};

const UNIT: u64 = 1 << 20;

/// Returns curves of up to six points: step functions, or lines with cliffs.
fn curve() -> impl Strategy<Value = Curve> {
    let point = (0_u64..64, 0_u32..100);
    let points = prop::collection::vec(point, 1..6);
    (points, any::<bool>()).prop_map(|(points, stairs)| {
        let points: Vec<Point> = points
            .into_iter()
            .map(|(units, value)| Point::new(units * UNIT, f64::from(value)))
            .collect();
        let made = if stairs {
            // Step functions keep their values as given, so the values must fall.
            let falling = Curve::new(points.clone()).expect("costs");
            Curve::steps(falling.points().iter().copied())
        } else {
            Curve::new(points)
        };
        made.expect("costs")
    })
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let sizes = (0_u64..40, 0_u64..6, 0_u64..60, 0_u64..60);
    let class = prop_oneof![Just(Class::Pool), Just(Class::Query)];
    let curve = prop::option::weighted(0.9, curve());
    (sizes, class, prop::bool::weighted(0.8), curve).prop_map(|(sizes, class, free, curve)| {
        let (holding, floor, ceiling, demand) = sizes;
        Snapshot {
            id: 0,
            class,
            holding_bytes: holding * UNIT,
            floor_bytes: floor * UNIT,
            kept_bytes: floor * UNIT / 2 * 3,
            ceiling_bytes: (floor + ceiling) * UNIT,
            demand_bytes: demand * UNIT,
            can_shrink: free,
            curve: curve.map(Arc::new),
        }
    })
}

fn market() -> impl Strategy<Value = (Vec<Snapshot>, Terms)> {
    let snapshots = prop::collection::vec(snapshot(), 1..7);
    let knobs = (0_u64..120, 0.0..2.0_f64, 0.0..0.5_f64);
    (snapshots, knobs).prop_map(|(mut snapshots, (budget, moving, hysteresis))| {
        for (id, snapshot) in (100..).zip(&mut snapshots) {
            snapshot.id = id;
        }
        let terms = Terms {
            budget_bytes: budget * UNIT,
            moving_penalty_per_byte: moving / UNIT as f64,
            hysteresis,
            ..Terms::default()
        };
        (snapshots, terms)
    })
}

fn allot(kind: Kind, terms: &Terms, snapshots: &[Snapshot]) -> Allotment {
    kind.mechanism().allot(terms, snapshots)
}

fn penalty(snapshots: &[Snapshot], sizes: impl IntoIterator<Item = u64>) -> f64 {
    let each = snapshots.iter().zip(sizes);
    each.filter_map(|(it, bytes)| Some(it.curve.as_ref()?.at(bytes))).sum()
}

fn with_curves(mut snapshots: Vec<Snapshot>) -> Vec<Snapshot> {
    for snapshot in &mut snapshots {
        snapshot.curve.get_or_insert_with(|| Arc::new(Curve::flat(3.0)));
    }
    snapshots
}

/// Returns a market with an endowment that is a valid outcome of a round.
fn settled(snapshots: Vec<Snapshot>, terms: Terms) -> (Vec<Snapshot>, Terms) {
    let mut snapshots = with_curves(snapshots);
    for snapshot in &mut snapshots {
        snapshot.floor_bytes = snapshot.floor_bytes.min(snapshot.holding_bytes);
        snapshot.kept_bytes = snapshot.kept_bytes.min(snapshot.holding_bytes);
        snapshot.demand_bytes = snapshot.demand_bytes.max(snapshot.holding_bytes);
        snapshot.ceiling_bytes = snapshot.ceiling_bytes.max(snapshot.holding_bytes);
    }
    let held = snapshots.iter().map(|it| it.holding_bytes).sum();
    (snapshots, Terms { budget_bytes: terms.budget_bytes.max(held), ..terms })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 2000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn grants_keep_to_the_budget_and_the_floors((snapshots, terms) in market()) {
        let floors: u64 = snapshots.iter().map(|it| it.floor_bytes).sum();
        for kind in Kind::ALL {
            let made = allot(kind, &terms, &snapshots);
            prop_assert_eq!(made.grants.len(), snapshots.len());
            let sum: u64 = made.grants.iter().sum();
            prop_assert!(sum <= terms.budget_bytes, "{kind}: {sum} of {}", terms.budget_bytes);
            for (snapshot, grant) in snapshots.iter().zip(&made.grants) {
                if floors <= terms.budget_bytes {
                    prop_assert!(*grant >= snapshot.floor_bytes, "{kind}: {grant}");
                }
                let most = match snapshot.can_shrink {
                    true => snapshot.ceiling_bytes.max(snapshot.kept_bytes),
                    false => snapshot.ceiling_bytes.max(snapshot.holding_bytes),
                };
                prop_assert!(*grant <= most, "{kind}: {grant} over the ceiling");
            }
            prop_assert_eq!(&made, &allot(kind, &terms, &snapshots), "{} is not repeatable", kind);
        }
    }

    #[test]
    fn consumers_that_cannot_shrink_keep_their_memory((snapshots, terms) in market()) {
        let snapshots = with_curves(snapshots);
        let firm = |it: &Snapshot| match it.can_shrink {
            true => it.floor_bytes,
            false => it.holding_bytes.max(it.floor_bytes),
        };
        let fixed: u64 = snapshots.iter().map(|it| firm(it).max(it.kept_bytes)).sum();
        let terms = Terms { budget_bytes: terms.budget_bytes.max(fixed), ..terms };
        for kind in Kind::ALL {
            let made = allot(kind, &terms, &snapshots);
            for (snapshot, grant) in snapshots.iter().zip(&made.grants) {
                prop_assert!(*grant >= firm(snapshot), "{kind}: {grant} of {snapshot:?}");
            }
        }
    }

    #[test]
    fn trades_make_things_better((snapshots, terms) in market()) {
        let (snapshots, terms) = settled(snapshots, terms);
        let before = penalty(&snapshots, snapshots.iter().map(|it| it.holding_bytes));
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_market()) {
            let made = allot(kind, &terms, &snapshots);
            let after = penalty(&snapshots, made.grants.iter().copied());
            prop_assert!(after <= before + 1e-6, "{kind}: {after} after {before}");
            let gains: f64 = made.trades.iter().map(|trade| trade.gain).sum();
            prop_assert!((before - after - gains).abs() < 1e-6 * (1.0 + before), "{kind}: {gains}");
            for (snapshot, grant) in snapshots.iter().zip(&made.grants) {
                let of = |id| move |trade: &&Trade| trade.to == id;
                let got: u64 = made.trades.iter().filter(of(snapshot.id)).map(|it| it.bytes).sum();
                let from = |trade: &&Trade| trade.from == Some(snapshot.id);
                let gave: u64 = made.trades.iter().filter(from).map(|it| it.bytes).sum();
                // Price and auction also release memory that is of no use; exchange leaves it with
                // its holder.
                let released = snapshot.holding_bytes + got - grant - gave;
                let exchange = matches!(kind, Kind::Cooperative | Kind::Selfish);
                prop_assert!(released == 0 || !exchange, "{kind} lost {released} bytes");
                if kind == Kind::Selfish {
                    let curve = snapshot.curve.as_ref().expect("settled");
                    prop_assert!(curve.at(*grant) <= curve.at(snapshot.holding_bytes) + 1e-6);
                }
            }
        }
    }
}

fn of(curve: Curve, holding: u64, id: u64) -> Snapshot {
    Snapshot {
        id,
        class: Class::Query,
        holding_bytes: holding * UNIT,
        floor_bytes: 0,
        kept_bytes: 0,
        ceiling_bytes: u64::MAX,
        demand_bytes: u64::MAX,
        can_shrink: true,
        curve: Some(Arc::new(curve)),
    }
}

fn line(points: &[(u64, f64)]) -> Curve {
    let point = |&(units, value): &(u64, f64)| Point::new(units * UNIT, value);
    Curve::new(points.iter().map(point)).expect("costs")
}

fn stairs(points: &[(u64, f64)]) -> Curve {
    let point = |&(units, value): &(u64, f64)| Point::new(units * UNIT, value);
    Curve::steps(points.iter().map(point)).expect("costs")
}

fn terms(budget: u64) -> Terms {
    Terms {
        budget_bytes: budget * UNIT,
        moving_penalty_per_byte: 0.0,
        hysteresis: 0.0,
        trade_bytes_min: 1,
        ..Terms::default()
    }
}

#[test]
fn a_cliff_is_crossed_in_one_step_fed_by_several() {
    // The sort gains nothing below 30 units, and no other consumer alone has enough to sell.
    let sort = stairs(&[(0, 100.0), (30, 0.0)]);
    let cache = line(&[(0, 40.0), (20, 0.0)]);
    let snapshots = [of(sort, 0, 1), of(cache.clone(), 20, 2), of(cache, 20, 3)];
    for kind in [Kind::Cooperative, Kind::Price, Kind::Auction] {
        let made = allot(kind, &terms(40), &snapshots);
        assert_eq!(made.grants[0], 30 * UNIT, "{kind}: {made:?}");
        assert_eq!(made.grants.iter().sum::<u64>(), 40 * UNIT, "{kind} leaves nothing over");
    }
    let selfish = allot(Kind::Selfish, &terms(40), &snapshots);
    assert_eq!(selfish.grants, [0, 20 * UNIT, 20 * UNIT], "no consumer gives what it can use");
}

#[test]
fn the_selfish_give_what_is_of_no_use_to_them() {
    let sort = stairs(&[(0, 100.0), (10, 60.0), (30, 0.0)]);
    let idle = stairs(&[(0, 50.0), (10, 0.0)]);
    let made = allot(Kind::Selfish, &terms(40), &[of(sort, 5, 1), of(idle, 35, 2)]);
    assert_eq!(made.grants, [30 * UNIT, 10 * UNIT]);
    assert_eq!((made.trades.len(), made.trades[0].from), (1, Some(2)));
}

#[test]
fn a_price_follows_demand() {
    let cache = || line(&[(0, 40.0), (20, 10.0), (40, 0.0)]);
    let mut price = Kind::Price.mechanism();
    let mut posted = |budget, holdings: [u64; 2]| {
        let snapshots = [of(cache(), holdings[0], 1), of(cache(), holdings[1], 2)];
        price.allot(&terms(budget), &snapshots).price.expect("it has one")
    };
    let per_unit = UNIT as f64;
    assert_eq!(posted(80, [0, 0]), 0.0, "enough for all costs nothing");
    let scarce = posted(40, [20, 20]) * per_unit;
    assert!((0.4..0.6).contains(&scarce), "a unit is worth 0.5 to 1.5: {scarce}");
    let scarcer = posted(20, [10, 10]) * per_unit;
    assert!((1.4..1.6).contains(&scarcer), "a unit is worth 1.5: {scarcer}");
}

#[test]
fn who_values_memory_more_gets_it() {
    let cheap = line(&[(0, 10.0), (40, 0.0)]);
    let dear = line(&[(0, 90.0), (30, 0.0)]);
    for kind in [Kind::Cooperative, Kind::Price, Kind::Auction] {
        let made = allot(kind, &terms(40), &[of(cheap.clone(), 40, 1), of(dear.clone(), 0, 2)]);
        assert_eq!(made.grants, [10 * UNIT, 30 * UNIT], "{kind}");
    }
}

#[test]
fn a_move_must_pay_for_itself() {
    let a = line(&[(0, 10.0), (10, 0.0)]);
    let b = line(&[(0, 11.0), (10, 0.0)]);
    let snapshots = [of(a, 10, 1), of(b, 0, 2)];
    for kind in [Kind::Cooperative, Kind::Price, Kind::Auction] {
        assert_eq!(allot(kind, &terms(10), &snapshots).grants, [0, 10 * UNIT], "{kind}");
        let sticky = Terms { hysteresis: 0.2, ..terms(10) };
        assert_eq!(allot(kind, &sticky, &snapshots).grants, [10 * UNIT, 0], "{kind} and habit");
        let moving = 1.1 * sticky.horizon_intervals * 0.1 / UNIT as f64;
        let costly = Terms { moving_penalty_per_byte: moving, ..terms(10) };
        assert_eq!(allot(kind, &costly, &snapshots).grants, [10 * UNIT, 0], "{kind} and cost");
    }
}

#[test]
fn who_has_no_curve_gets_a_fair_share() {
    let known = line(&[(0, 10.0), (100, 0.0)]);
    let unknown = Snapshot { curve: None, ..of(known.clone(), 0, 2) };
    for kind in [Kind::Cooperative, Kind::Price, Kind::Auction] {
        let made = allot(kind, &terms(40), &[of(known.clone(), 40, 1), unknown.clone()]);
        assert_eq!(made.grants, [20 * UNIT, 20 * UNIT], "{kind}");
    }
}

/// Returns the lowest sum of penalties of any grants in whole units.
fn optimum(snapshots: &[Snapshot], units: u64) -> f64 {
    let mut best: Vec<f64> = vec![0.0; usize::try_from(units).expect("few") + 1];
    for snapshot in snapshots {
        let curve = snapshot.curve.as_ref().expect("all have one");
        let with = |all: usize| {
            let own = |own: usize| curve.at(own as u64 * UNIT) + best[all - own];
            (0..=all).map(own).fold(f64::INFINITY, f64::min)
        };
        best = (0..best.len()).map(with).collect();
    }
    best[best.len() - 1]
}

#[test]
#[cfg_attr(miri, ignore)]
fn they_come_close_to_the_optimum() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let strategy = prop::collection::vec(curve(), 2..7);
    let rounds = 400;
    for kind in [Kind::Cooperative, Kind::Price, Kind::Auction] {
        let (mut reached, mut possible) = (0.0, 0.0);
        for _ in 0..rounds {
            let curves = strategy.new_tree(&mut runner).expect("curves").current();
            let part = 60 / curves.len() as u64;
            let snapshots: Vec<Snapshot> =
                (0..).zip(curves).map(|(id, curve)| of(curve, part, id)).collect();
            let before = penalty(&snapshots, snapshots.iter().map(|it| it.holding_bytes));
            let made = allot(kind, &terms(60), &snapshots);
            let after = penalty(&snapshots, made.grants);
            let best = optimum(&snapshots, 60);
            assert!(after >= best - 2.0, "{kind}: whole units are nearly enough: {after} {best}");
            reached += before - after;
            possible += before - best;
        }
        let share = reached / possible;
        println!("{kind}: {:.1} % of what an optimum saves", share * 100.0);
        assert!(share > 0.9, "{kind}: {share}");
    }
}
