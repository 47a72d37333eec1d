//! Generator of a trace with three tenants that need memory at different times.

use terrace_market::Sla;
use terrace_sys::number::{count, float};
use terrace_workload::zipf::ZipfTable;

use super::random::Random;
use super::trace::{Event, Tenant, Trace, Work};

/// Parameters of a generated trace. The default is the trace of the experiments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Length of the trace in seconds.
    pub seconds: u64,
    /// Factor for the rate of all requests.
    pub load: f64,
}

impl Default for Shape {
    fn default() -> Self {
        Self { seed: 1, seconds: 120, load: 1.0 }
    }
}

/// Page size in bytes.
const PAGE_BYTES: u64 = 64 << 10;
/// Inner pages of the index, above its leaves: the hottest pages.
const INNER_PAGES: u64 = 64;
/// Number of leaf pages of the index, and of pages of rows: 256 MiB each.
const LEAF_PAGES: u64 = 4096;
/// Pages of a table that reports scan repeatedly: 192 MiB.
const SMALL_TABLE_PAGES: u64 = 3072;
/// Pages of a table that is scanned occasionally and exceeds every cache: 1.5 GiB.
const LARGE_TABLE_PAGES: u64 = 24_576;
/// Smallest and largest sort in pages: 64 MiB and 512 MiB.
const SORT_PAGES: (u64, u64) = (1024, 8192);
/// Period after which the request rates repeat, in seconds.
const CYCLE_SECONDS: f64 = 30.0;

/// Returns a trace of short look-ups with a tight SLA, scans, and sorts, over pages of 64 KiB on a
/// device with random reads of 500 us and sequential reads of 0.9 s per GiB.
///
/// In each cycle of 30 seconds look-ups are frequent for 18 seconds and rare for 12. A report scans
/// a table of 192 MiB about three times a second from second 8 to 22, and rarely outside of it. A
/// table of 1.5 GiB is scanned occasionally. Sorts of 64 to 512 MiB arrive all the time, and more
/// often while look-ups are rare. All arrivals are random (Poisson).
///
/// # Panics
/// Never: the SLAs in it are tested.
#[must_use]
pub fn three_tenants(shape: &Shape) -> Trace {
    let mut events = Vec::new();
    lookups(shape, &mut events);
    scans(shape, &mut events);
    sorts(shape, &mut events);
    events.sort_by_key(|event| event.at_nanos);
    let tenant = |name: &str, cpu_nanos, sla: &str| Tenant {
        name: name.to_string(),
        cpu_nanos,
        sla: sla.parse().unwrap_or_else(|_| Sla::per_second()),
    };
    Trace {
        page_bytes: PAGE_BYTES,
        random_nanos: 500_000,
        sequential_nanos: 55_000,
        tenants: vec![
            tenant("lookups", 20_000, "latency 1ms penalty 0.01"),
            tenant("scans", 15_000, "latency 100ms penalty 1 per 1s"),
            tenant("sorts", 60_000, "latency 300ms penalty 3 per 1s"),
        ],
        events,
    }
}

/// Returns the position of a time in its cycle, in seconds.
fn phase(nanos: u64) -> f64 {
    (float(nanos) / 1e9) % CYCLE_SECONDS
}

/// Returns random arrival times at `rate` events per second, which varies with the time and is at
/// most `highest`.
fn arrivals(shape: &Shape, salt: u64, highest: f64, rate: fn(u64) -> f64) -> (Vec<u64>, Random) {
    let mut random = Random::new(shape.seed.wrapping_mul(1_000_003).wrapping_add(salt));
    let end = shape.seconds.saturating_mul(1_000_000_000);
    let (mut at, mut times) = (0_u64, Vec::new());
    loop {
        // Thinning: draws arrivals at the highest rate and keeps the fraction that the current rate
        // demands.
        at = at.saturating_add(random.pause_nanos(highest * shape.load));
        if at >= end {
            return (times, random);
        }
        if random.unit() * highest < rate(at) {
            times.push(at);
        }
    }
}

fn lookups(shape: &Shape, events: &mut Vec<Event>) {
    let rate = |at: u64| if phase(at) < 18.0 { 1500.0 } else { 200.0 };
    let (times, mut random) = arrivals(shape, 1, 1500.0, rate);
    let zipf = ZipfTable::new(LEAF_PAGES, 0.8);
    for at_nanos in times {
        let inner = random.below(INNER_PAGES);
        let leaf = INNER_PAGES + zipf.draw(random.unit());
        let row = INNER_PAGES + LEAF_PAGES + zipf.draw(random.unit());
        events.push(Event { at_nanos, tenant: 0, work: Work::Get(vec![inner, leaf, row]) });
    }
}

fn scans(shape: &Shape, events: &mut Vec<Event>) {
    let rate = |at: u64| if (8.0..22.0).contains(&phase(at)) { 3.0 } else { 0.1 };
    for at_nanos in arrivals(shape, 2, 3.0, rate).0 {
        let work = Work::Scan { first: 0, pages: SMALL_TABLE_PAGES };
        events.push(Event { at_nanos, tenant: 1, work });
    }
    for at_nanos in arrivals(shape, 3, 0.1, |_| 0.1).0 {
        let work = Work::Scan { first: SMALL_TABLE_PAGES, pages: LARGE_TABLE_PAGES };
        events.push(Event { at_nanos, tenant: 1, work });
    }
}

fn sorts(shape: &Shape, events: &mut Vec<Event>) {
    let rate = |at: u64| if phase(at) < 18.0 { 0.2 } else { 0.6 };
    let (times, mut random) = arrivals(shape, 4, 0.6, rate);
    let (least, most) = SORT_PAGES;
    for at_nanos in times {
        // Sizes are log-uniform: equally many in each octave.
        let octaves = random.unit() * float(most / least).log2();
        let pages = count(float(least) * octaves.exp2());
        events.push(Event { at_nanos, tenant: 2, work: Work::Sort { pages } });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        let shape = Shape { seconds: 2, ..Shape::default() };
        let trace = three_tenants(&shape);
        assert_eq!(trace, three_tenants(&shape));
        assert_ne!(trace, three_tenants(&Shape { seed: 2, ..shape }));
        let slas: Vec<String> = trace.tenants.iter().map(|it| it.sla.to_string()).collect();
        assert_eq!(
            slas,
            [
                "latency 1ms penalty 0.01",
                "latency 100ms penalty 1 per 1s",
                "latency 300ms penalty 3 per 1s"
            ]
        );
    }
}
