//! Locks of stores between processes: one that was killed during transfers, and one that lives.
//!
//! The tests run their own program again as the other process.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use terrace_store::{EngineChoice, Store, Write};
use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::size::MIB;
use terrace_testkit::soak_rounds;

const VICTIM: &str = "TERRACE_LOCK_VICTIM";
const READY: &str = "the store is open";

fn other_process(path: &Path) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", "writes_until_it_is_killed", "--nocapture"]);
    command.env(VICTIM, path).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("this program runs");
    let lines = BufReader::new(child.stderr.as_mut().expect("piped")).lines();
    let ready = lines.map_while(Result::ok).any(|line| line.contains(READY));
    assert!(ready, "the other process has not opened its store");
    child
}

/// Body of the other process, which does nothing in the test process. Writes batches of 8 MiB, so
/// that it is killed in the middle of one.
#[test]
fn writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(VICTIM) else { return };
    let choice = EngineChoice::Auto;
    let store = Store::open_file_with(Path::new(&path), Some(64 * MIB), choice).expect("free");
    let data = AlignedBuffer::zeroed(64 << 10);
    let extents: Vec<_> = (0..128).map(|_| store.allocate(64 << 10).expect("room")).collect();
    let writes: Vec<_> =
        extents.iter().map(|extent| Write { extent: *extent, data: &data }).collect();
    std::io::Write::write_all(&mut std::io::stderr(), format!("{READY}\n").as_bytes())
        .expect("the parent reads");
    loop {
        for written in store.write_batch(&writes) {
            written.expect("a sound device");
        }
    }
}

#[test]
fn the_store_of_a_process_that_was_killed_opens_at_once() {
    let dir = tempfile::tempdir().expect("writable");
    let mut slowest = Duration::ZERO;
    for round in 0..soak_rounds(50) {
        let path = dir.path().join(format!("store-{}", round % 2));
        // A new file, independent of the one that the previous process left.
        drop(std::fs::remove_file(&path));
        let mut child = other_process(&path);
        std::thread::sleep(Duration::from_micros(500 * (round % 16)));
        child.kill().expect("it is this test's");
        child.wait().expect("it was killed");
        let start = Instant::now();
        let opened = Store::reopen_file(&path, Some(64 * MIB));
        slowest = slowest.max(start.elapsed());
        assert!(opened.is_ok(), "round {round}: {opened:?}");
    }
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
}

#[test]
fn a_store_that_a_living_process_has_is_refused_by_its_number() {
    let dir = tempfile::tempdir().expect("writable");
    let path = dir.path().join("store");
    let mut child = other_process(&path);
    let start = Instant::now();
    let refused = Store::reopen_file(&path, Some(64 * MIB)).expect_err("it is open").to_string();
    let waited = start.elapsed();
    child.kill().expect("it is this test's");
    child.wait().expect("it was killed");
    assert!(refused.contains(&format!("process {} ", child.id())), "{refused}");
    let (least, most) = (Duration::from_millis(1900), Duration::from_secs(6));
    assert!((least..most).contains(&waited), "waited for {waited:?}");
}
