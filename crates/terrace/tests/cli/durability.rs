//! Crash test with kill -9 at random points: after a restart every acknowledged statement is
//! present, besides at most the one that was running; there is nothing else, and no space is lost.
//!
//! `TERRACE_SOAK_ROUNDS` is the number of kills, `TERRACE_SOAK_SEED` repeats a run.

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use terrace_testkit::{Rng, soak_rounds, with_seed};

use crate::harness::Home;
use crate::model::{Change, State};

/// Statements given to one process, more than it can run before it is killed.
const CHANGES: usize = 400;

/// Maximum life of a process in milliseconds. The start takes some of it, so that recovery is
/// interrupted now and then too.
const LIFE_MS: u64 = 900;

#[test]
fn killed_at_random_points_nothing_acknowledged_is_lost() {
    with_seed(|seed| kill(seed, soak_rounds(8)));
}

#[expect(clippy::print_stdout, reason = "what a long run came to")]
fn kill(seed: u64, rounds: u64) {
    let mut rng = Rng::new(seed);
    let home = Home::new();
    home.rows("CREATE TABLE t (batch BIGINT NOT NULL, k BIGINT NOT NULL, name VARCHAR NOT NULL)");
    let (mut state, mut fresh, mut acknowledged) = (State::default(), 0, 0);
    for round in 0..rounds {
        let changes = changes(&state, &mut rng, &mut fresh);
        let done = run_and_kill(&home, &changes, &mut rng);
        acknowledged += done;
        state = verify(&home, &state, &changes, done, &format!("seed {seed}, round {round}"));
    }
    println!("seed {seed}: {rounds} processes killed, {acknowledged} changes acknowledged");
    assert!(acknowledged > 0, "no process lived long enough to do anything");
}

/// Generates a sequence of changes, each valid after those before it.
fn changes(state: &State, rng: &mut Rng, fresh: &mut u64) -> Vec<Change> {
    let mut state = state.clone();
    let next = |_| {
        let change = state.next_change(rng, fresh);
        state.apply(change);
        change
    };
    (0..CHANGES).map(next).collect()
}

/// Runs the changes in a process that is killed after a while. Returns the number of changes that
/// it acknowledged.
fn run_and_kill(home: &Home, changes: &[Change], rng: &mut Rng) -> usize {
    let mut script = String::new();
    for (index, change) in changes.iter().enumerate() {
        write!(script, "{};\nSELECT {index} AS done;\n", change.sql()).expect("text");
    }
    let script = home.write("script.sql", &script);
    let (script, data) = (script.to_string_lossy(), home.path("data"));
    let arguments =
        ["sql", "--dram", "64MiB", "--data", &data, "--format", "ndjson", "-f", &script];
    let mut command = home.command(&arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let reader = count_done(&mut child);
    std::thread::sleep(Duration::from_millis(rng.below(LIFE_MS)));
    child.kill().expect("killed");
    let ended = child.wait_with_output().expect("ended");
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "it was killed and did not fail");
    reader.join().expect("read")
}

/// Counts the acknowledgements. A line truncated by the kill is not one.
fn count_done(child: &mut Child) -> std::thread::JoinHandle<usize> {
    let mut output = BufReader::new(child.stdout.take().expect("stdout"));
    std::thread::spawn(move || {
        let mut done = 0;
        let mut line = String::new();
        while output.read_line(&mut line).expect("read") > 0 {
            if line == format!("{{\"done\":{done}}}\n") {
                done += 1;
            }
            line.clear();
        }
        done
    })
}

/// Checks that the database has the result of `done` changes, or of one more.
fn verify(home: &Home, before: &State, changes: &[Change], done: usize, when: &str) -> State {
    let mut acknowledged = before.clone();
    changes[..done].iter().for_each(|change| acknowledged.apply(*change));
    let mut ahead = acknowledged.clone();
    changes[done..].iter().take(1).for_each(|change| ahead.apply(*change));
    let found = State::read(home);
    assert!(
        found == acknowledged || found == ahead,
        "{when}: after {done} acknowledged changes, running {:?}:\nfound {found:?}\n\
         expected {acknowledged:?}\nor {ahead:?}",
        changes.get(done)
    );
    // The first page of the store is its label.
    let space = "SELECT (SELECT 4096 + coalesce(sum(store_bytes), 0) FROM terrace.segments) \
                 AS named, \
                 (SELECT sum(used_bytes) FROM terrace.tiers WHERE kind = 'store') AS used";
    let space = &home.rows(space)[0];
    assert_eq!(space["named"].as_u64(), space["used"].as_u64(), "{when}: space is lost: {space}");
    found
}
