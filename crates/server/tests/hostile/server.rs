//! A server in this process, and measurements of its memory.

use std::net::SocketAddr;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use terrace_server::Limits;
use tokio::sync::Mutex;

use crate::raw::{Raw, query};
use crate::running::{Running, engine};

/// Serializes the tests: they measure the memory of the process.
static TURN: Mutex<()> = Mutex::const_new(());

/// Number of panics of this process so far.
static PANICS: AtomicUsize = AtomicUsize::new(0);
static HOOK: Once = Once::new();

/// Returns short limits, so that tests reach them.
pub fn limits() -> Limits {
    let (login_time, unread_time) = (Duration::from_secs(2), Duration::from_secs(2));
    Limits { connections: 20, login_time, unread_time, ..Limits::default() }
}

/// Runs a test against a server. Nothing may panic, and the server must release the engine.
pub async fn with_server<T: Future<Output = ()>>(
    limits: Limits,
    test: impl FnOnce(SocketAddr) -> T,
) {
    HOOK.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            print(panic);
        }));
    });
    let _turn = TURN.lock().await;
    let panics = PANICS.load(Ordering::Relaxed);
    let running = Running::start(engine(), limits).await;
    test(running.address).await;
    assert_served(running.address).await;
    running.end().await.close().expect("the engine is free");
    assert_eq!(PANICS.load(Ordering::Relaxed), panics, "nothing panics");
}

/// Asserts that another client can log in and is answered within ten seconds.
pub async fn assert_served(address: SocketAddr) {
    let began = Instant::now();
    let (mut raw, ..) = Raw::log_in(address).await;
    raw.send(&query("SELECT 6 * 7")).await.expect("sent");
    let answer = raw.answer().await;
    let row = answer.iter().find(|(kind, _)| *kind == b'D').expect("a row");
    assert_eq!(row.1, b"\0\x01\0\0\0\x0242");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// Returns the number of running statements, including this query.
pub async fn running(asking: &mut Raw) -> String {
    asking.send(&query("SELECT count(*) FROM terrace.queries")).await.expect("sent");
    let answer = asking.answer().await;
    let row = answer.iter().find(|(kind, _)| *kind == b'D').expect("a row");
    String::from_utf8_lossy(&row.1[6..]).into_owned()
}

/// Waits until no statement runs except for this query.
pub async fn assert_idle_within(address: SocketAddr, limit: Duration) {
    let (mut asking, ..) = Raw::log_in(address).await;
    let began = Instant::now();
    while running(&mut asking).await != "1" {
        assert!(began.elapsed() < limit, "a statement of a client that is gone runs on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the resident bytes of this process.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    let kib: u64 = line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("KiB");
    kib << 10
}

/// Asserts that the process has grown by at most this number of bytes since `before`.
pub fn assert_grown_by_at_most(bytes: u64, before: u64) {
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown <= bytes, "{} MiB more than before", grown >> 20);
}

/// True in `cargo x soak`, where tests that run a number of steps run more of them.
pub fn is_soak() -> bool {
    std::env::var_os("TERRACE_SOAK_SECONDS").is_some()
}
