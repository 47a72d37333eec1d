//! Random and damaged messages, generated from a seed.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use terrace_testkit::seed::{Rng, soak_time, with_seed};
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use crate::raw::{Raw, cancel, message, query, start, startup};
use crate::server::{assert_grown_by_at_most, assert_served, limits, resident_bytes, with_server};

const MIB: u64 = 1 << 20;

/// Maximum time that a client of the fuzzer waits for more messages.
const PAUSE: Duration = Duration::from_millis(20);

/// Returns valid messages.
fn meaningful() -> Vec<Vec<u8>> {
    vec![
        query("SELECT 1"),
        query("SELECT * FROM f; INSERT INTO f VALUES (1, 'a'); SELECT 1 / 0"),
        query("BEGIN; SAVEPOINT s; ROLLBACK TO s"),
        query("COMMIT"),
        query("COPY f FROM STDIN"),
        query("COPY f TO STDOUT (FORMAT binary)"),
        query("SET statement_timeout = '2s'"),
        query("SELECT value FROM generate_series(1, 1000)"),
        message(b'P', b"\0SELECT $1::BIGINT + 1\0\0\x01\0\0\0\x14"),
        message(b'P', b"named\0SELECT k, s FROM f WHERE k > $1\0\0\0"),
        message(b'B', b"\0\0\0\x01\0\x01\0\x01\0\0\0\x08\0\0\0\0\0\0\0\x07\0\x01\0\x01"),
        message(b'B', b"portal\0named\0\0\0\0\x01\0\0\0\x017\0\0"),
        message(b'D', b"S\0"),
        message(b'D', b"P\0"),
        message(b'E', b"\0\0\0\0\0"),
        message(b'E', b"portal\0\0\0\0\x02"),
        message(b'C', b"Snamed\0"),
        message(b'C', b"P\0"),
        message(b'H', b""),
        message(b'S', b""),
        message(b'd', b"1\ta\n2\tb\n"),
        message(b'd', b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0"),
        message(b'c', b""),
        message(b'f', b"no\0"),
        message(b'p', b"secret\0"),
        message(b'X', b""),
        startup(),
        cancel(1, 2),
        start(&80_877_103_u32.to_be_bytes()),
        start(&80_877_104_u32.to_be_bytes()),
    ]
}

/// Returns a message that is valid, damaged or random.
fn some_message(rng: &mut Rng, known: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = known[rng.index(known.len())].clone();
    match rng.below(8) {
        0 => {
            let len = rng.index(200) + 1;
            bytes = vec![0; len];
            rng.fill(&mut bytes);
        }
        1 => bytes.truncate(rng.index(bytes.len()) + 1),
        2 | 3 => {
            for _ in 0..=rng.index(4) {
                let at = rng.index(bytes.len());
                bytes[at] = rng.next_u64().to_le_bytes()[0];
            }
        }
        4 => {
            // Overwrites a byte of the length.
            let at = rng.index(4) + 1;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = rng.next_u64().to_le_bytes()[0];
            }
        }
        5 => {
            let other = &known[rng.index(known.len())];
            let at = rng.index(bytes.len());
            bytes.splice(at..at, other.iter().copied());
        }
        _ => {}
    }
    bytes
}

/// Runs one client that sends messages until it is disconnected or has sent its number of them.
async fn client(address: SocketAddr, rng: &mut Rng, known: &[Vec<u8>]) {
    let mut raw = Raw::connect(address).await;
    if !rng.one_in(5) {
        drop(raw.send(&startup()).await);
    }
    for _ in 0..rng.below(20) {
        if raw.send(&some_message(rng, known)).await.is_err() {
            return;
        }
        if rng.one_in(3) {
            drain(&mut raw).await;
        }
    }
    // Half of the clients leave at once.
    if rng.one_in(2) {
        let sync = [message(b'S', b""), message(b'X', b"")].concat();
        drop(raw.send(&sync).await);
        drain(&mut raw).await;
    }
}

/// Reads until the server pauses or has closed the connection.
async fn drain(raw: &mut Raw) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(Ok(1..)) = timeout(PAUSE, raw.stream.read(&mut buffer)).await {}
}

#[test]
fn any_messages_leave_the_server_serving() {
    with_seed(|seed| {
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(2).enable_all().build().expect("a runtime");
        runtime.block_on(with_server(limits(), |address| async move {
            let (mut raw, ..) = Raw::log_in(address).await;
            raw.send(&query("CREATE TABLE f (k BIGINT, s TEXT)")).await.expect("sent");
            raw.answer().await;
            drop(raw);
            let known = meaningful();
            let mut rng = Rng::new(seed);
            let (began, before) = (Instant::now(), resident_bytes());
            let mut clients = 0;
            while clients < 50 || began.elapsed() < soak_time() {
                client(address, &mut rng, &known).await;
                clients += 1;
                if clients % 50 == 0 {
                    assert_served(address).await;
                }
            }
            assert_grown_by_at_most(256 * MIB, before);
        }));
    });
}
