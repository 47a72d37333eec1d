//! A program of operations on objects, compared with a plain map.
#![no_main]
#![allow(dead_code, reason = "the search for programs is that of the crate's own test")]

#[path = "../../crates/objects/tests/fuzz/apply.rs"]
mod apply;
#[path = "../../crates/objects/tests/fuzz/holds.rs"]
mod holds;
#[path = "../../crates/objects/tests/fuzz/program.rs"]
mod program;
#[path = "../../crates/objects/tests/fuzz/search.rs"]
mod search;
#[path = "../../crates/objects/tests/fuzz/world.rs"]
mod world;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|program: &[u8]| {
    let outcome = search::Runner::new(None).run(program, false);
    assert_eq!(outcome.verdict, Ok(()));
});
