//! An unmodified engine on a tier: SQLite with four times as much data as DRAM.

#[path = "../examples/sqlite/engine.rs"]
mod engine;
#[path = "../examples/sqlite/memory.rs"]
mod memory;

use std::process::Command;

use terrace_testkit::needs;

/// Rows of some 60 MiB with their index, of which 8 MiB may be in DRAM.
const ROWS: u64 = 200_000;
const CAP_BYTES: u64 = 8 << 20;
const TEST: &str = "an_engine_answers_the_same_on_a_tier";

/// Runs the queries in a process of its own, since SQLite's allocator is set once per process.
fn answers(part: &str) -> String {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", TEST, "--nocapture"]).env("TERRACE_TEST_PART", part);
    let output = command.output().expect("started");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{part}: {text} {}", String::from_utf8_lossy(&output.stderr));
    let lines = text.lines().filter_map(|line| line.strip_prefix("answer: "));
    lines.collect::<Vec<_>>().join("\n")
}

#[expect(clippy::print_stdout, reason = "read by the process that started this one")]
fn answer(part: &str) {
    let heap = (part == "tier").then(|| memory::install(CAP_BYTES).expect("a heap"));
    for answer in engine::run(ROWS).expect("answers") {
        answer.lines().for_each(|line| println!("answer: {line}"));
    }
    if let Some(heap) = heap {
        let (held, region) = (heap.stats().expect("statistics"), heap.region().expect("a region"));
        let below = region.stats();
        assert!(held.taken_bytes_max >= 4 * CAP_BYTES, "{held:?}");
        assert!(below.resident_bytes <= CAP_BYTES, "{below:?}");
        assert!(below.written_bytes > 2 * CAP_BYTES && below.read_bytes > CAP_BYTES, "{below:?}");
    }
}

#[test]
fn an_engine_answers_the_same_on_a_tier() {
    if let Ok(part) = std::env::var("TERRACE_TEST_PART") {
        return answer(&part);
    }
    if !needs::regions() {
        return;
    }
    let plain = answers("plain");
    assert!(plain.lines().count() > 10, "{plain}");
    assert_eq!(answers("tier"), plain);
}
