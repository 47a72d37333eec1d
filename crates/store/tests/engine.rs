//! I/O engines under many threads, and without io_uring.

use std::fs::File;
use std::process::Command;

use terrace_store::{EngineChoice, Read, Store, Stored, Write};
use terrace_sys::buffer::AlignedBuffer;
use terrace_testkit::Rng;

/// Number of threads: more than there are rings.
#[test]
fn more_threads_than_rings_are_served() {
    for choice in [EngineChoice::Uring, EngineChoice::Pread] {
        let store = Store::temporary_with(&std::env::temp_dir(), None, choice).expect("writable");
        std::thread::scope(|scope| {
            for seed in 0..40 {
                let store = &store;
                scope.spawn(move || batches(store, seed));
            }
        });
        let stats = store.stats();
        assert_eq!((stats.used_bytes, stats.reads, stats.writes), (0, 40 * 80, 40 * 80));
    }
}

fn batches(store: &Store, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut pages: Vec<AlignedBuffer> = (0..8).map(|_| AlignedBuffer::zeroed(8192)).collect();
    for _ in 0..10 {
        pages.iter_mut().for_each(|page| rng.fill(page));
        let writes: Vec<Write<'_>> = pages
            .iter()
            .map(|data| Write { extent: store.allocate(8192).expect("room"), data })
            .collect();
        let stored: Vec<Stored> =
            store.write_batch(&writes).into_iter().map(|result| result.expect("written")).collect();
        let mut back: Vec<AlignedBuffer> = (0..8).map(|_| AlignedBuffer::zeroed(8192)).collect();
        let mut reads: Vec<Read<'_>> = stored
            .iter()
            .zip(&mut back)
            .map(|(stored, data)| Read { stored: *stored, data })
            .collect();
        assert!(store.read_batch(&mut reads).iter().all(Result::is_ok));
        assert!(pages.iter().zip(&back).all(|(page, back)| **page == **back));
        stored.iter().for_each(|stored| store.free(stored.extent));
    }
}

const CHILD: &str = "TERRACE_TEST_WITHOUT_RINGS";

/// Exhausts the file descriptors of a child process: a ring needs one, so the kernel refuses
/// io_uring there.
#[test]
fn pread_serves_where_io_uring_is_refused() {
    if std::env::var_os(CHILD).is_some() {
        return without_rings();
    }
    let program = std::env::current_exe().expect("it runs");
    let script = "ulimit -n 64 && exec \"$0\" --exact pread_serves_where_io_uring_is_refused";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(program)
        .env(CHILD, "1")
        .output()
        .expect("there is a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn without_rings() {
    let dir = tempfile::tempdir().expect("writable");
    let mut held: Vec<File> = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        held.push(file);
    }
    held.pop();
    let refused = Store::temporary_with(dir.path(), None, EngineChoice::Uring);
    assert!(refused.is_err(), "the only descriptor goes to the file");
    let store = Store::temporary(dir.path(), None).expect("the other engine serves");
    assert_eq!(store.kind(), "pread");
    batches(&store, 1);
}
