//! Emulated remote blocks: adds the latency and bandwidth of a block-level memory appliance to
//! other blocks.

use std::io;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use terrace_sys::duration::parse_duration;
use terrace_sys::size::{GIB, to_u64};
use terrace_sys::sync::lock;

use super::blocks::{Blocks, Done, Io};
use super::memory_blocks::MemoryBlocks;

/// Longest wait that spins on the clock: a sleep ends some 50 us late.
const SPIN_MAX: Duration = Duration::from_micros(50);
const NANOSECONDS: u64 = 1_000_000_000;

/// Latency and bandwidth of emulated remote blocks. [`FromStr`] reads a latency such as `10us` and
/// uses the default bandwidth.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Distance {
    /// Latency of every transfer, regardless of its length; latencies of concurrent transfers
    /// overlap.
    pub latency: Duration,
    /// Bandwidth shared by all transfers, reads and writes alike. Zero means unlimited.
    pub bytes_per_second: u64,
}

impl Default for Distance {
    /// Returns 10 us and 3 GiB/s: memory behind a bridge that presents itself as an NVMe namespace,
    /// on four lanes of PCIe 3.0. The lanes carry 3.9 GB/s, of which some 3.3 GiB/s remain after
    /// headers, and drives reach 3. The fastest NVMe drives answer in 10 us, most of which is the
    /// protocol and the kernel's path to the device; a fabric and a memory module add less than 1
    /// us.
    fn default() -> Self {
        Distance { latency: Duration::from_micros(10), bytes_per_second: 3 * GIB }
    }
}

/// Maximum latency of emulated memory in nanoseconds: above it, it would be slower than a
/// solid-state drive.
pub const LATENCY_NS_MAX: u64 = 1_000_000;

/// Parses a delay such as `250ns` or `2us`, at most 1 ms, into nanoseconds.
///
/// # Errors
/// If the text is no delay or a longer one, as a sentence that names it.
pub fn parse_latency(text: &str) -> Result<u64, String> {
    let parsed = parse_duration(text).and_then(|delay| u64::try_from(delay.as_nanos()).ok());
    match parsed {
        Some(latency_ns) if latency_ns <= LATENCY_NS_MAX => Ok(latency_ns),
        Some(_) => Err(format!("a delay of {text} is above the most, 1ms")),
        None => Err(format!("\"{text}\" is not a delay such as 250ns or 2us")),
    }
}

impl FromStr for Distance {
    type Err = String;

    fn from_str(text: &str) -> Result<Distance, String> {
        let latency = Duration::from_nanos(parse_latency(text)?);
        Ok(Distance { latency, ..Distance::default() })
    }
}

/// Wraps other blocks and adds a latency to each transfer and a bandwidth limit for all of them.
///
/// ```text
///  arrives       link is free             last byte             done
///     |  others' bytes  |  own bytes / bandwidth  |    latency    |
/// ```
///
/// There is one link, which serves transfers one after the other in order of arrival; the latency
/// of a transfer elapses while the link serves others. The time taken by the blocks below is hidden
/// in this time if they are faster. A failed transfer takes just as long. [`Blocks::sync`] takes
/// one latency; no other operation takes any.
///
/// A waiting thread sleeps, and for the last 50 us it yields the processor until the time has come.
pub struct EmulatedBlocks {
    blocks: Arc<dyn Blocks>,
    distance: Distance,
    /// Time at which the link will have served all transfers so far.
    free_at: Mutex<Instant>,
}

impl EmulatedBlocks {
    /// Wraps `blocks` with the given latency and bandwidth.
    #[must_use]
    pub fn new(blocks: Arc<dyn Blocks>, distance: Distance) -> Self {
        EmulatedBlocks { blocks, distance, free_at: Mutex::new(Instant::now()) }
    }

    /// Creates emulated remote memory of `capacity_bytes`. Written bytes take DRAM that no budget
    /// counts, because it stands for memory of another machine.
    #[must_use]
    pub fn over_memory(capacity_bytes: u64, distance: Distance) -> Self {
        EmulatedBlocks::new(Arc::new(MemoryBlocks::new(capacity_bytes)), distance)
    }

    /// Returns the emulated latency and bandwidth.
    #[must_use]
    pub fn distance(&self) -> Distance {
        self.distance
    }

    /// Returns the completion time of transfers of this many bytes that arrive now, and reserves
    /// the link for them.
    fn done_at(&self, now: Instant, bytes: u64) -> Instant {
        let mut free_at = lock(&self.free_at);
        *free_at = (*free_at).max(now) + self.on_the_link(bytes);
        *free_at + self.distance.latency
    }

    fn on_the_link(&self, bytes: u64) -> Duration {
        let nanoseconds = bytes.saturating_mul(NANOSECONDS);
        let nanoseconds = nanoseconds.checked_div(self.distance.bytes_per_second);
        Duration::from_nanos(nanoseconds.unwrap_or(0))
    }
}

fn wait_until(end: Instant) {
    let left = end.saturating_duration_since(Instant::now());
    if left > SPIN_MAX {
        thread::sleep(left - SPIN_MAX);
    }
    while Instant::now() < end {
        thread::yield_now();
    }
}

impl Blocks for EmulatedBlocks {
    fn run(&self, batch: &mut [Io<'_>], done: &Done<'_>) {
        if batch.is_empty() {
            return;
        }
        let bytes = batch.iter().map(|io| to_u64(io.buffer.len())).sum();
        let end = self.done_at(Instant::now(), bytes);
        self.blocks.run(batch, done);
        wait_until(end);
    }

    fn sync(&self) -> io::Result<()> {
        let end = Instant::now() + self.distance.latency;
        self.blocks.sync()?;
        wait_until(end);
        Ok(())
    }

    fn ensure(&self, end_bytes: u64) -> io::Result<()> {
        self.blocks.ensure(end_bytes)
    }

    fn punch(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.blocks.punch(offset, len_bytes)
    }

    fn truncate(&self, end_bytes: u64) -> io::Result<()> {
        self.blocks.truncate(end_bytes)
    }

    fn is_blank(&self) -> io::Result<bool> {
        self.blocks.is_blank()
    }

    fn len_bytes(&self) -> io::Result<u64> {
        self.blocks.len_bytes()
    }

    fn room_bytes(&self) -> u64 {
        self.blocks.room_bytes()
    }

    fn alignment_bytes(&self) -> u64 {
        self.blocks.alignment_bytes()
    }

    // `file` keeps its default, `None`: transfers must pass through this type.

    fn kind(&self) -> &str {
        "emulated"
    }
}

#[cfg(test)]
mod tests {
    use terrace_sys::buffer::AlignedBuffer;
    use terrace_sys::size::{MIB, PAGE_BYTES};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn far(latency: Duration, bytes_per_second: u64) -> EmulatedBlocks {
        EmulatedBlocks::over_memory(16 * MIB, Distance { latency, bytes_per_second })
    }

    #[test]
    fn latencies_overlap_and_bytes_queue() {
        let blocks = far(10 * MS, 1000);
        let now = Instant::now() + MS;
        assert_eq!(blocks.done_at(now, 5), now + 15 * MS);
        assert_eq!(blocks.done_at(now, 20), now + 35 * MS, "behind the first");
        assert_eq!(blocks.done_at(now + 25 * MS, 0), now + 35 * MS, "the link has just got free");
        let later = now + 100 * MS;
        assert_eq!(blocks.done_at(later, 1), later + 11 * MS, "idle time is not saved up");
        let wide = far(10 * MS, 0);
        assert_eq!(wide.done_at(later, u64::MAX), later + 10 * MS, "no limit");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has a clock of its own")]
    fn a_batch_waits_once_and_its_bytes_come_back() {
        let blocks = far(30 * MS, GIB);
        let mut page = AlignedBuffer::zeroed(PAGE_BYTES);
        page.fill(7);
        let pages = (0..8).map(|at| at * to_u64(PAGE_BYTES));
        let batch = || {
            let mut writes: Vec<Io<'_>> =
                pages.clone().map(|offset| Io::write(offset, &page)).collect();
            let began = Instant::now();
            blocks.run(&mut writes, &|_| {});
            assert!(writes.iter().all(|io| io.result.is_ok()));
            began.elapsed()
        };
        let times = [(); 5].map(|()| batch());
        assert!(times.iter().all(|took| *took >= 30 * MS), "{times:?}");
        // One after the other they would take 240 ms; other processes may delay some batches.
        assert!(times.iter().any(|took| *took < 200 * MS), "{times:?}");
        let began = Instant::now();
        let mut found = AlignedBuffer::zeroed(PAGE_BYTES);
        blocks.run(&mut [Io::read(4096, &mut found)], &|_| {});
        assert_eq!(&*found, &*page);
        assert!(began.elapsed() >= 30 * MS);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has a clock of its own")]
    fn threads_share_the_bandwidth_and_not_the_latency() {
        let blocks = far(200 * MS, 100 * MIB);
        let began = Instant::now();
        thread::scope(|scope| {
            for at in 0..4 {
                let blocks = &blocks;
                let data = AlignedBuffer::zeroed(PAGE_BYTES * 256);
                scope.spawn(move || blocks.run(&mut [Io::write(at * MIB, &data)], &|_| {}));
            }
        });
        let took = began.elapsed();
        // 4 MiB at 100 MiB/s and one latency; without overlap of latencies it would be 840 ms.
        assert!(took >= 240 * MS && took < 800 * MS, "{took:?}");
    }

    #[test]
    fn failures_are_those_of_the_blocks_below() {
        let blocks = far(Duration::ZERO, 0);
        let mut page = AlignedBuffer::zeroed(PAGE_BYTES);
        let mut batch = [Io::read(16 * MIB, &mut page)];
        blocks.run(&mut batch, &|_| panic!("beyond the end"));
        assert!(batch[0].result.is_err());
        assert!(blocks.ensure(17 * MIB).is_err());
        assert!(blocks.file().is_none() && blocks.is_blank().expect("memory"));
    }

    #[test]
    fn latencies_are_read() {
        let distance: Distance = "2us".parse().expect("a latency");
        assert_eq!(distance.latency, Duration::from_micros(2));
        assert_eq!(distance.bytes_per_second, Distance::default().bytes_per_second);
        for text in ["", "10", "us", "2s", "10ms", "-1us"] {
            assert!(text.parse::<Distance>().is_err(), "{text}");
        }
    }
}
