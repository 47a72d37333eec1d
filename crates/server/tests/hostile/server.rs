//! A server in this process, and what it costs.

use std::net::SocketAddr;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use terrace_server::Limits;
use tokio::sync::Mutex;

use crate::raw::{Raw, query};
use crate::running::{Running, engine};

/// One test at a time: they measure the memory of the process.
static TURN: Mutex<()> = Mutex::const_new(());

/// Panics of this process so far.
static PANICS: AtomicUsize = AtomicUsize::new(0);
static HOOK: Once = Once::new();

/// Short limits, so that tests see their ends.
pub fn limits() -> Limits {
    let (login_time, unread_time) = (Duration::from_secs(2), Duration::from_secs(2));
    Limits { connections: 20, login_time, unread_time, ..Limits::default() }
}

/// Runs a test beside a server. Nothing may panic, and the server must let go of the engine.
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

/// Another client logs in and is answered within a few seconds.
pub async fn assert_served(address: SocketAddr) {
    let began = Instant::now();
    let (mut raw, ..) = Raw::log_in(address).await;
    raw.send(&query("SELECT 6 * 7")).await.expect("sent");
    let answer = raw.answer().await;
    let row = answer.iter().find(|(kind, _)| *kind == b'D').expect("a row");
    assert_eq!(row.1, b"\0\x01\0\0\0\x0242");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// Statements that run, that which asks included.
pub async fn running(asking: &mut Raw) -> String {
    asking.send(&query("SELECT count(*) FROM terrace.queries")).await.expect("sent");
    let answer = asking.answer().await;
    let row = answer.iter().find(|(kind, _)| *kind == b'D').expect("a row");
    String::from_utf8_lossy(&row.1[6..]).into_owned()
}

/// Waits until nothing runs but the question itself.
pub async fn assert_idle_within(address: SocketAddr, limit: Duration) {
    let (mut asking, ..) = Raw::log_in(address).await;
    let began = Instant::now();
    while running(&mut asking).await != "1" {
        assert!(began.elapsed() < limit, "a statement of a client that is gone runs on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Bytes of this process in physical memory.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    let kib: u64 = line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("KiB");
    kib << 10
}

/// Fails where the process has taken more than so many bytes since `before`.
pub fn assert_grown_by_at_most(bytes: u64, before: u64) {
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown <= bytes, "{} MiB more than before", grown >> 20);
}

/// A test that goes by numbers in place of time has so many times more in `cargo x soak`.
pub fn is_soak() -> bool {
    std::env::var_os("TERRACE_SOAK_SECONDS").is_some()
}
