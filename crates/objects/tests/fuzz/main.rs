//! The store against a plain map: any bytes are a program of operations (see `program`), and every
//! result, errors with their reasons included, is compared with that of the map (`world`).
//!
//! Programs are random, or mutations of others that saw something new (`search`), for
//! `TERRACE_SOAK_SECONDS`, by default a second. A program that fails is minimized and printed with
//! the command that runs it again.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what ran, and how to run it again")]

mod apply;
mod holds;
mod program;
mod search;
mod world;

use std::time::{Duration, Instant};

use terrace_testkit::{soak_time, with_seed};

use crate::search::{Failure, Runner, Search};
use crate::world::Fault;

#[test]
fn the_store_is_a_map() {
    // Miri has no clock to take a seed from.
    let seeded = |test: &dyn Fn(u64)| if cfg!(miri) { test(1) } else { with_seed(test) };
    seeded(&|seed| {
        let (since, time) = (Instant::now(), soak_time());
        let goes_on = |runs| if cfg!(miri) { runs < 2 } else { since.elapsed() < time };
        let mut search = Search::new(seed, None);
        let failure = search.look(goes_on);
        println!("{} programs ran, {} things were seen", search.runs, search.seen());
        assert!(failure.is_none(), "{}", failure.map_or(String::new(), |it| it.report(None)));
    });
}

/// Runs the program in `TERRACE_FUZZ_PROGRAM` and prints its operations.
#[test]
fn a_program_that_is_named() {
    let Ok(word) = std::env::var("TERRACE_FUZZ_PROGRAM") else { return };
    let outcome = Runner::new(None).run(&program::from_hex(&word), true);
    println!("{}", outcome.trace.join("\n"));
    assert_eq!(outcome.verdict, Ok(()));
}

/// Most operations of a minimized program; mostly fewer than ten are left.
const SHORT_OPS: usize = 60;

/// Checks that the fuzzer finds a fault that is injected into the map.
fn finds(fault: Fault) {
    if cfg!(miri) {
        return;
    }
    with_seed(|seed| {
        let since = Instant::now();
        let mut search = Search::new(seed, Some(fault));
        let failure = search.look(|_| since.elapsed() < Duration::from_secs(60));
        let Failure { program, why } = failure.expect("the fault is found");
        let ops = program.len() / program::OP_BYTES - 1;
        println!("{ops} operations show {fault:?}");
        assert!(ops <= SHORT_OPS, "{ops} operations show {fault:?}: {why}");
    });
}

#[test]
fn bytes_that_are_not_zeroed_are_found() {
    finds(Fault::NoZeros);
}

#[test]
fn a_refusal_for_the_wrong_reason_is_found() {
    finds(Fault::PinnedFirst);
}

#[test]
fn a_lock_that_is_forgotten_is_found() {
    finds(Fault::ForgottenReader);
}
