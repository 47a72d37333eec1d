//! The ticker, which sends server-sent events to its clients.
//!
//! One task takes a sample per second, keeps it for ten minutes, and sends the state of the engine
//! to every connected client. The first event of a client is `history`, with the samples that are
//! kept. Locking order: the clients, then the history.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use terrace_sys::sync::lock;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::history::History;
use super::state::{self, Waits};
use crate::shared::Shared;

/// Interval between two samples.
const INTERVAL: Duration = Duration::from_secs(1);
/// Number of events between two comments that keep proxies from closing a quiet connection: one in
/// 15 seconds.
const HEARTBEAT: u64 = 15;
/// Maximum number of clients at a time.
const CLIENTS_MAX: usize = 16;
/// Maximum number of events queued for a client; a slower client is dropped.
const QUEUE_MAX: usize = 8;
/// Delay in milliseconds after which a client reconnects.
const RETRY_MS: u32 = 2000;

/// The ticker: the connected clients, and the samples of the last ten minutes.
pub(super) struct Hub {
    shared: Arc<Shared>,
    clients: Mutex<Vec<mpsc::Sender<Bytes>>>,
    ring: Mutex<Ring>,
}

/// Samples and waits that the ticker keeps from one tick to the next.
#[derive(Default)]
struct Ring {
    history: History,
    waits: Waits,
    ticks: u64,
}

impl Hub {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, clients: Mutex::default(), ring: Mutex::default() }
    }

    /// Takes samples as long as it is polled.
    pub(super) async fn run(&self) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.tick();
        }
    }

    /// Adds a client, whose first event is the history. `None` if there are too many clients.
    pub(super) fn listen(&self) -> Option<mpsc::Receiver<Bytes>> {
        let mut clients = lock(&self.clients);
        clients.retain(|client| !client.is_closed());
        if clients.len() >= CLIENTS_MAX {
            return None;
        }
        let (client, events) = mpsc::channel(QUEUE_MAX);
        let ring = lock(&self.ring);
        let state = state::of(&self.shared, &ring.waits);
        let history = format!("{{\"samples\":{},\"state\":{state}}}", ring.history.to_json());
        let retry = format!("retry: {RETRY_MS}\n");
        // Cannot fail: the queue is empty.
        let _ = client.try_send(event(&retry, "history", ring.ticks, &history));
        clients.push(client);
        Some(events)
    }

    fn tick(&self) {
        let mut clients = lock(&self.clients);
        clients.retain(|client| !client.is_closed());
        let (ticks, waits) = self.sample();
        if clients.is_empty() {
            return;
        }
        let state = state::of(&self.shared, &waits);
        let event = event("", "state", ticks, &state.to_string());
        let is_heartbeat = ticks.is_multiple_of(HEARTBEAT);
        clients.retain(|client| {
            let heard =
                !is_heartbeat || client.try_send(Bytes::from_static(b": alive\n\n")).is_ok();
            heard && client.try_send(event.clone()).is_ok()
        });
    }

    /// Adds a sample to the history. Returns the number of the tick, and the waiting queries with
    /// the start of their waits.
    fn sample(&self) -> (u64, Waits) {
        let sample = state::sample(&self.shared, SystemTime::now());
        let mut ring = lock(&self.ring);
        ring.history.add(&sample);
        ring.ticks += 1;
        let (before, now) = (std::mem::take(&mut ring.waits), Instant::now());
        for query in self.shared.engine.queries().running() {
            let Some(reason) = query.wait_reason() else { continue };
            let since = before.get(&query.id()).filter(|(was, _)| *was == reason);
            let since = since.map_or(now, |(_, since)| *since);
            ring.waits.insert(query.id(), (reason, since));
        }
        (ring.ticks, ring.waits.clone())
    }
}

/// Encodes a server-sent event; `before` stands before it. `json` must have no line breaks, which
/// JSON escapes in texts.
fn event(before: &str, name: &str, number: u64, json: &str) -> Bytes {
    Bytes::from(format!("{before}id: {number}\nevent: {name}\ndata: {json}\n\n"))
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use terrace_sql::{Engine, EngineConfig};
    use terrace_store::MemoryBlocks;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::limits::Limits;

    #[test]
    fn a_client_that_reads_nothing_is_dropped() -> Result<(), Box<dyn Error>> {
        let (capacity, config) = (64 << 20, EngineConfig::new(32 << 20));
        let engine = Engine::over_blocks(&config, Arc::new(MemoryBlocks::new(capacity)), capacity)?;
        let limits = Limits::default();
        let hub = Hub::new(Arc::new(Shared {
            engine,
            registry: Arc::default(),
            limits,
            tls: None,
            secret: [0; 32],
            counters: Arc::default(),
            places: Arc::new(Semaphore::new(limits.connections)),
        }));
        let (mut slow, mut quick) = (hub.listen().ok_or("full")?, hub.listen().ok_or("full")?);
        let (mut heard, mut heartbeats) = (0, 0);
        for _ in 0..40 {
            hub.tick();
            while let Ok(event) = quick.try_recv() {
                heard += 1;
                heartbeats += usize::from(event.starts_with(b":"));
            }
        }
        assert_eq!((heard, heartbeats), (1 + 40 + 2, 2));
        assert_eq!(lock(&hub.clients).len(), 1, "the other one is dropped");
        let mut events = 0;
        while let Ok(event) = slow.try_recv() {
            let begin: &[u8] = if events == 0 { b"retry: " } else { b"id: " };
            events += usize::from(event.starts_with(begin));
        }
        assert_eq!((events, slow.is_closed()), (QUEUE_MAX, true));
        Ok(())
    }
}
