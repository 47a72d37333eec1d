//! The engine after a power loss at any moment, even during recovery from another one.
//!
//! Engines run random statements over an in-memory disk that records every write, sync and rename
//! (`terrace_testkit::disk`). From each record, states are built that a power loss may leave
//! (`terrace_testkit::power`). Each state has to open, with all acknowledged statements and no
//! partial ones, and every row of every table is read. In a third of them the power is lost again
//! during recovery; the database then continues from one of the states.
//!
//! `TERRACE_SOAK_ROUNDS` sets the number of rounds of 50 states, `TERRACE_SOAK_SEED` the seed.

mod files;
mod life;
mod workload;

use terrace_sys::size::to_usize;
use terrace_testkit::{Rng, Syncs, soak_rounds, with_seed};
use tokio::runtime::{Builder, Handle, Runtime};

use life::Life;

/// Power losses tried within one record.
const LOSSES: usize = 16;
/// Records of one database.
const RECORDS: usize = 4;
const STATES_PER_ROUND: u64 = 50;
/// Rounds without a soak: 1,000 states.
const ROUNDS: u64 = 20;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads")
}

/// Builds and opens at least `states` states; returns the errors.
fn lose_power(runtime: &Handle, rng: &mut Rng, states: usize, syncs: Syncs) -> Vec<String> {
    let (mut tried, mut wrong) = (0, vec![]);
    while tried < states {
        let mut life = Life::new(runtime.clone(), syncs);
        'life: for _ in 0..RECORDS {
            if let Err(error) = life.run(rng) {
                wrong.push(error);
                break;
            }
            for loss in 1..=LOSSES {
                tried += 1;
                if let Err(error) = life.lose_power(rng, loss == LOSSES) {
                    wrong.push(error);
                    break 'life;
                }
            }
        }
    }
    wrong
}

/// Runs [`lose_power`] on two threads.
fn lose_power_twice(seed: u64, states: usize, syncs: Syncs) -> Vec<String> {
    let runtime = runtime();
    let lose = |seed| lose_power(runtime.handle(), &mut Rng::new(seed), states / 2, syncs);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| lose(!seed));
        let mut wrong = lose(seed);
        wrong.extend(other.join().expect("no panic"));
        wrong
    })
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_half_done_shows() {
    with_seed(|seed| {
        let states = to_usize(STATES_PER_ROUND * soak_rounds(ROUNDS));
        let wrong = lose_power_twice(seed, states, Syncs::All);
        assert!(wrong.is_empty(), "{} states are wrong; the first: {}", wrong.len(), wrong[0]);
    });
}

/// The test detects an engine that forgets to sync.
#[test]
fn an_engine_with_half_of_its_syncs_loses_statements() {
    let wrong = lose_power_twice(1, 200, Syncs::Half);
    let lost = wrong.iter().filter(|error| error.contains("lost: ")).count();
    assert!(wrong.len() >= 10 && lost > 0, "{} states are wrong, {lost} lost", wrong.len());
}
