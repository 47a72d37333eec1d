//! Tests of the broker's interface, and of its damping against adversarial workloads.
#![allow(clippy::print_stdout, reason = "the figures are what the tests are for")]

use std::sync::Arc;

use proptest::prelude::*;
use terrace_ledger::Class;
use terrace_market::{Broker, BrokerConfig, Curve, Kind, Performance, Point, Sla, Standing, Tail};

const MIB: u64 = 1 << 20;

/// Returns a consumer whose requests are a second faster for each MiB, up to `useful` MiB.
fn standing(id: u64, useful: u64, requests: f64) -> Standing {
    let points = [Point::new(0, useful as f64), Point::new(useful * MIB, 0.0)];
    let performance = Performance {
        ios: Curve::new(points).expect("costs"),
        base_seconds: 0.0,
        seconds_per_io: 1.0,
        tail: Tail::Certain,
    };
    Standing {
        performance: Some(performance),
        demand_bytes: useful * MIB,
        requests,
        ..Standing::new(id, format!("consumer {id}"), Class::Query)
    }
}

#[test]
fn targets_show_what_was_decided() {
    let mut broker = Broker::new(BrokerConfig::default());
    let (one, two) = (broker.target(1), broker.target(2));
    assert_eq!((one.grant_bytes(), one.excess_bytes(u64::MAX)), (u64::MAX, 0));
    broker.round(100 * MIB, &[standing(1, 60, 1.0), standing(2, 200, 2.0)]);
    assert_eq!((one.grant_bytes(), two.grant_bytes()), (0, 100 * MIB));
    assert_eq!(one.excess_bytes(7), 7);
    assert!(two.allows(99 * MIB, MIB) && !two.allows(99 * MIB, MIB + 1));
    assert!(!two.allows(u64::MAX, 1));
    broker.round(100 * MIB, &[standing(1, 60, 1.0)]);
    assert_eq!(two.grant_bytes(), u64::MAX, "who is gone has no limit");
    assert_eq!(one.grant_bytes(), 60 * MIB, "what the other had is free");
    broker.remove(1);
    assert_eq!((one.grant_bytes(), broker.rows().count()), (u64::MAX, 0));
}

#[test]
fn free_memory_is_lent_to_who_asks() {
    let mut broker = Broker::new(BrokerConfig::default());
    let greedy = Standing { demand_bytes: 500 * MIB, ..standing(1, 10, 1.0) };
    let (one, two) = (broker.target(1), broker.target(2));
    let made = broker.round(100 * MIB, &[greedy, standing(2, 20, 1.0)]);
    assert_eq!(made.grants, [10 * MIB, 20 * MIB]);
    assert_eq!((one.grant_bytes(), two.grant_bytes()), (80 * MIB, 20 * MIB));
}

#[test]
fn rows_say_who_holds_what_and_what_it_is_worth() {
    let mut broker = Broker::new(BrokerConfig::default());
    let sla: Sla = "latency 1s penalty 3 per 1s".parse().expect("an SLA");
    let known = Standing { sla: Some(Arc::new(sla)), held_bytes: 5, ..standing(2, 100, 1.0) };
    broker.round(80 * MIB, &[standing(1, 100, 1.0), known.clone()]);
    let rows: Vec<_> = broker.rows().cloned().collect();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [1, 2]);
    let [one, two] = &rows[..] else { panic!("two rows") };
    assert_eq!((&*two.name, two.sla.as_str()), ("consumer 2", "latency 1s penalty 3 per 1s"));
    assert_eq!((two.held_bytes, two.grant_bytes, two.limit_bytes), (5, 80 * MIB, 80 * MIB));
    assert!((two.penalty.expect("a curve") - 57.0).abs() < 0.7);
    assert!((two.gain_per_mib.expect("a curve") - 3.0).abs() < 0.1);
    assert!((two.loss_per_mib.expect("a curve") - 3.0).abs() < 0.1);
    assert_eq!((one.grant_bytes, one.loss_per_mib), (0, None));
    assert!((one.gain_per_mib.expect("a curve") - 1.0).abs() < 0.1);
    assert_eq!(
        (two.last_traded_bytes, two.last_partner, two.last_round),
        ((80 << 20) - 5, None, 1)
    );
    for _ in 0..5 {
        broker.round(80 * MIB, &[standing(1, 100, 9.0), known.clone()]);
    }
    let rows: Vec<_> = broker.rows().cloned().collect();
    assert_eq!((rows[0].grant_bytes, rows[0].last_partner), (80 * MIB, Some(2)));
    assert_eq!((rows[1].last_traded_bytes, rows[1].last_partner), (-(80 << 20), Some(1)));
    assert!(rows[0].last_gain > 0.0 && rows[0].last_round < 6);
}

#[test]
fn the_mechanism_can_be_changed() {
    let mut broker =
        Broker::new(BrokerConfig { mechanism: Kind::Static, ..BrokerConfig::default() });
    let both = [standing(1, 100, 1.0), standing(2, 100, 5.0)];
    assert_eq!(broker.round(80 * MIB, &both).grants, [40 * MIB, 40 * MIB]);
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_market() && *kind != Kind::Selfish) {
        broker.set_mechanism(kind);
        (0..40).for_each(|_| drop(broker.round(80 * MIB, &both)));
        assert_eq!(broker.round(80 * MIB, &both).grants, [0, 80 * MIB], "{kind}");
        assert_eq!(broker.config().mechanism.to_string().parse(), Ok(kind));
        broker.set_mechanism(Kind::Static);
        broker.round(80 * MIB, &both);
    }
    let unknown = "barter".parse::<Kind>().expect_err("unknown").to_string();
    assert!(unknown.contains("\"barter\"") && unknown.contains("auction"), "{unknown}");
}

/// Result of an adversarial workload.
#[derive(Debug)]
struct Fight {
    /// Number of rounds in which memory moved.
    moves: u64,
    moved_bytes: u64,
    penalty: f64,
}

/// Runs two consumers of which one has the higher demand in each round: `wants` returns its index,
/// given the index of the consumer that holds the memory.
fn fight(config: BrokerConfig, rounds: u64, mut wants: impl FnMut(u64, usize) -> usize) -> Fight {
    let mut broker = Broker::new(config);
    let mut fight = Fight { moves: 0, moved_bytes: 0, penalty: 0.0 };
    let mut has = 0;
    for round in 0..rounds {
        let wanted = wants(round, has);
        let of = |id: usize| standing(id as u64, 100, if id == wanted { 0.02 } else { 0.001 });
        let made = broker.round(100 * MIB, &[of(0), of(1)]);
        fight.moves += u64::from(made.moved_bytes > 0);
        fight.moved_bytes += made.moved_bytes;
        fight.penalty += made.expected_penalty;
        has = usize::from(made.grants[1] > made.grants[0]);
    }
    fight
}

fn config(kind: Kind) -> BrokerConfig {
    BrokerConfig { mechanism: kind, ..BrokerConfig::default() }
}

fn without_hysteresis(kind: Kind) -> BrokerConfig {
    BrokerConfig {
        hysteresis: 0.0,
        patience_rounds_min: 0,
        patience_rounds_max: 0,
        moving_penalty_per_byte: 0.0,
        ..config(kind)
    }
}

const MARKETS: [Kind; 3] = [Kind::Cooperative, Kind::Price, Kind::Auction];

#[test]
#[cfg_attr(miri, ignore)]
fn hysteresis_stops_oscillation() {
    type Adversary = fn(u64, usize) -> usize;
    let adversaries: [(&str, Adversary); 3] = [
        ("flips every round", |round, _| usize::from(round.is_multiple_of(2))),
        ("flips every fourth", |round, _| usize::from(round % 8 < 4)),
        ("wants what the other has", |_, has| 1 - has),
    ];
    for kind in MARKETS {
        for (name, adversary) in adversaries {
            let naive = fight(without_hysteresis(kind), 2000, adversary);
            let damped = fight(config(kind), 2000, adversary);
            println!("{kind}, {name}: {} moves for {}", damped.moves, naive.moves);
            assert!(naive.moves > 100, "{kind}, {name}: it tempts: {naive:?}");
            // The patience doubles up to 64 rounds: 2000 / 64 moves, and those before it reaches
            // 64.
            assert!(damped.moves <= 45, "{kind}, {name}: {damped:?}");
            assert!(damped.moved_bytes <= naive.moved_bytes / 2, "{kind}, {name}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore)]
fn who_changes_for_good_is_followed() {
    for kind in MARKETS {
        for phase in [17, 200] {
            let fight = fight(config(kind), 2000, |round, _| usize::from(round / phase % 2 == 1));
            let (best, halves) = (2000.0 * 100.0 * 0.001, 2000.0 * 50.0 * 0.021);
            println!("{kind}, phases of {phase}: {} for {best}, {halves} split", fight.penalty);
            assert_eq!(fight.moves, 1999 / phase, "{kind}: once a change");
            assert!(fight.penalty < best + (halves - best) / 10.0, "{kind}: {}", fight.penalty);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 300 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn limits_keep_to_the_budget_while_everything_changes(
        kind in prop::sample::select(Kind::ALL.to_vec()),
        rounds in prop::collection::vec(
            (20_u64..200, prop::collection::vec((0_u64..6, 1_u64..150, 0.0..2.0_f64), 1..6)),
            1..20,
        ),
    ) {
        let mut broker = Broker::new(config(kind));
        for (budget, wanted) in rounds {
            let mut standings: Vec<Standing> = Vec::new();
            for (id, useful, requests) in wanted {
                if standings.iter().all(|other| other.id != id) {
                    let floor_bytes = id.min(3) * MIB;
                    standings.push(Standing { floor_bytes, ..standing(id, useful, requests) });
                }
            }
            let made = broker.round(budget * MIB, &standings);
            prop_assert!(made.grants.iter().sum::<u64>() <= budget * MIB, "{kind}");
            let mut limits = 0;
            for (standing, grant) in standings.iter().zip(&made.grants) {
                let limit = broker.target(standing.id).grant_bytes();
                prop_assert!(limit >= *grant && *grant >= standing.floor_bytes, "{kind}");
                limits += limit;
            }
            prop_assert!(limits <= budget * MIB, "{kind}: {limits} of {budget} MiB");
            prop_assert_eq!(broker.rows().count(), standings.len());
        }
    }
}
