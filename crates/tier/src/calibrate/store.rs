//! Latency and bandwidth of stores and devices.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use terrace_store::{
    Blocks, EngineChoice, Extent, FileBlocks, Io, Read, Store, StoreError, Stored, Write,
};
use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::file::DirectFile;
use terrace_sys::size::{KIB, to_u64, to_usize};

use super::effort::Effort;
use crate::timing::{gib_per_s, median, seconds, us_each};

const PAGE_BYTES: u64 = 4 * KIB;
const LONG_BYTES: u64 = 256 * KIB;
const LONG_DEPTH: usize = 8;
const SHORT_DEPTH: usize = 32;
const SYNC_ROUNDS: usize = 5;
/// Number of single transfers behind a median.
const SINGLE_ROUNDS: usize = 200;

/// Measured performance of a store. Write figures are missing for a device that must not be
/// written.
#[derive(Clone, Debug, Serialize)]
pub struct StoreFigures {
    /// I/O engine of the store.
    pub engine: String,
    /// Latency of a single 4 KiB read in microseconds.
    pub read_latency_us: f64,
    /// Latency of a single 4 KiB write in microseconds.
    pub write_latency_us: Option<f64>,
    /// Latency of a 4 KiB write and the sync that makes it durable, in microseconds.
    pub sync_latency_us: Option<f64>,
    /// 4 KiB reads per second, 32 in flight.
    pub reads_per_s: f64,
    /// Read bandwidth in GiB/s: 256 KiB reads, 8 in flight.
    pub read_gib_per_s: f64,
    /// Write bandwidth in GiB/s: 256 KiB writes, 8 in flight.
    pub write_gib_per_s: Option<f64>,
}

/// Measures a store in scratch extents, which are freed afterwards.
///
/// # Errors
/// Errors of the store, such as a lack of space for the scratch extents.
pub fn store(store: &Store, effort: &Effort) -> Result<StoreFigures, StoreError> {
    let long = Scratch::allocate(store, LONG_BYTES, effort.store_bytes)?;
    let short_bytes = (effort.store_bytes / 16).max(PAGE_BYTES * to_u64(SHORT_DEPTH));
    let short = Scratch::allocate(store, PAGE_BYTES, short_bytes)?;
    let (first_write, long_stored) = long.write(LONG_DEPTH)?;
    let (_, short_stored) = short.write(SHORT_DEPTH)?;
    let short_stored = scattered(&short_stored);
    let write = long.write(LONG_DEPTH).map(|(seconds, _)| seconds.min(first_write))?;
    let single = short.singles(effort)?;
    let read = long.read(&long_stored, LONG_DEPTH)?;
    let reads = short.read(&short_stored, SHORT_DEPTH)?;
    Ok(StoreFigures {
        engine: store.kind().to_string(),
        read_latency_us: single.read_us,
        write_latency_us: Some(single.write_us),
        sync_latency_us: Some(single.sync_us),
        reads_per_s: per_s(short.extents.len(), reads),
        read_gib_per_s: gib_per_s(long.bytes(), read),
        write_gib_per_s: Some(gib_per_s(long.bytes(), write)),
    })
}

/// Measures only reads of a block device, which may hold data in use.
///
/// # Errors
/// Returns an error if the device cannot be opened or read.
pub fn device(path: &Path, effort: &Effort) -> Result<StoreFigures, StoreError> {
    let failed = |source: std::io::Error| StoreError::Open {
        store: format!("dev:{}", path.display()),
        source: Arc::new(source),
    };
    let file = DirectFile::device(path).map_err(failed)?;
    let len_bytes = file.len().map_err(failed)?;
    let blocks = FileBlocks::open(file, len_bytes, EngineChoice::Auto).map_err(failed)?;
    let read = |len, depth, most| read_blocks(&blocks, len_bytes, len, depth, most, effort);
    let (count, single) = read(PAGE_BYTES, 1, SINGLE_ROUNDS).map_err(failed)?;
    let (shorts, short) = read(PAGE_BYTES, SHORT_DEPTH, usize::MAX).map_err(failed)?;
    let (longs, long) = read(LONG_BYTES, LONG_DEPTH, usize::MAX).map_err(failed)?;
    Ok(StoreFigures {
        engine: blocks.kind().to_string(),
        read_latency_us: us_each(count, single),
        write_latency_us: None,
        sync_latency_us: None,
        reads_per_s: per_s(shorts, short),
        read_gib_per_s: gib_per_s(to_u64(longs) * LONG_BYTES, long),
        write_gib_per_s: None,
    })
}

/// Performs scattered reads of the device until the time limit or `most` is reached. Returns the
/// number of reads and the seconds.
fn read_blocks(
    blocks: &FileBlocks,
    device_bytes: u64,
    len: u64,
    depth: usize,
    most: usize,
    effort: &Effort,
) -> std::io::Result<(usize, f64)> {
    let places = (device_bytes / len).max(1);
    let mut buffers = buffers(len, depth);
    let (mut count, start) = (0, Instant::now());
    while count < most && start.elapsed() < effort.time_max {
        let place = |index: usize| to_u64(count + index).wrapping_mul(7919) % places * len;
        let mut batch: Vec<Io<'_>> = buffers
            .iter_mut()
            .enumerate()
            .map(|(index, buffer)| Io::read(place(index), buffer))
            .collect();
        blocks.run(&mut batch, &|_| ());
        batch.into_iter().try_for_each(|io| io.result)?;
        count += depth;
    }
    Ok((count, start.elapsed().as_secs_f64()))
}

#[expect(clippy::cast_precision_loss, reason = "figures have three digits")]
fn per_s(count: usize, seconds: f64) -> f64 {
    count as f64 / seconds
}

/// Returns the extents in an order in which no two adjacent ones follow each other, because a batch
/// would merge them into one read.
fn scattered(stored: &[Stored]) -> Vec<Stored> {
    let half = stored.len().div_ceil(2);
    let (low, high) = stored.split_at(half);
    let pairs = low.iter().map(Some).zip(high.iter().map(Some).chain([None]));
    pairs.flat_map(|(low, high)| [low, high]).flatten().copied().collect()
}

/// Returns buffers filled with a non-zero byte, because a device may handle zeros specially.
fn buffers(len: u64, count: usize) -> Vec<AlignedBuffer> {
    let buffer = |_| {
        let mut buffer = AlignedBuffer::zeroed(to_usize(len));
        buffer.fill(0xa5);
        buffer
    };
    (0..count).map(buffer).collect()
}

/// Scratch extents for measurements, freed on drop.
struct Scratch<'s> {
    store: &'s Store,
    extents: Vec<Extent>,
}

struct Singles {
    read_us: f64,
    write_us: f64,
    sync_us: f64,
}

impl<'s> Scratch<'s> {
    fn allocate(store: &'s Store, len: u64, bytes: u64) -> Result<Scratch<'s>, StoreError> {
        let mut scratch = Scratch { store, extents: Vec::new() };
        for _ in 0..(bytes / len).max(1) {
            scratch.extents.push(store.allocate(len)?);
        }
        Ok(scratch)
    }

    fn bytes(&self) -> u64 {
        self.extents.iter().map(|extent| extent.len_bytes).sum()
    }

    fn buffers(&self, depth: usize) -> Vec<AlignedBuffer> {
        buffers(self.extents[0].len_bytes, depth)
    }

    /// Writes every extent. Returns the seconds and the stored extents.
    fn write(&self, depth: usize) -> Result<(f64, Vec<Stored>), StoreError> {
        let buffers = self.buffers(depth);
        let mut results = Vec::with_capacity(self.extents.len());
        let elapsed = seconds(|| {
            for extents in self.extents.chunks(depth) {
                let pairs = extents.iter().zip(&buffers);
                let writes: Vec<Write<'_>> =
                    pairs.map(|(extent, data)| Write { extent: *extent, data }).collect();
                results.extend(self.store.write_batch(&writes));
            }
        });
        Ok((elapsed, results.into_iter().collect::<Result<_, _>>()?))
    }

    /// Reads every extent and returns the seconds.
    fn read(&self, stored: &[Stored], depth: usize) -> Result<f64, StoreError> {
        let mut buffers = self.buffers(depth);
        let mut result = Ok(());
        let elapsed = seconds(|| {
            for stored in stored.chunks(depth) {
                let pairs = stored.iter().zip(&mut buffers);
                let mut reads: Vec<Read<'_>> =
                    pairs.map(|(stored, data)| Read { stored: *stored, data }).collect();
                for read in self.store.read_batch(&mut reads) {
                    if read.is_err() {
                        result = read;
                    }
                }
            }
        });
        result.map(|()| elapsed)
    }

    /// Measures single, scattered transfers.
    fn singles(&self, effort: &Effort) -> Result<Singles, StoreError> {
        let mut buffer = self.buffers(1);
        let (mut reads, mut writes, mut syncs) = (Vec::new(), Vec::new(), Vec::new());
        let start = Instant::now();
        for index in 0..SINGLE_ROUNDS {
            if index > 0 && start.elapsed() > effort.time_max {
                break;
            }
            let extent = self.extents[index * 7919 % self.extents.len()];
            let (write_us, stored) = self.write_one(extent, &buffer[0])?;
            writes.push(write_us);
            let mut read = [Read { stored, data: &mut buffer[0] }];
            let mut result = Vec::new();
            reads.push(seconds(|| result = self.store.read_batch(&mut read)) * 1e6);
            result.into_iter().try_for_each(|result| result)?;
        }
        for index in 0..SYNC_ROUNDS {
            let (write_us, _) =
                self.write_one(self.extents[index % self.extents.len()], &buffer[0])?;
            let mut result = Ok(());
            syncs.push(write_us + seconds(|| result = self.store.sync()) * 1e6);
            result?;
        }
        Ok(Singles { read_us: median(reads), write_us: median(writes), sync_us: median(syncs) })
    }

    fn write_one(&self, extent: Extent, data: &[u8]) -> Result<(f64, Stored), StoreError> {
        let start = Instant::now();
        let written = self.store.write_batch(&[Write { extent, data }]);
        let elapsed_us = start.elapsed().as_secs_f64() * 1e6;
        let mut stored = None;
        for result in written {
            stored = Some(result?);
        }
        let checksum = stored.map_or(0, |stored| stored.checksum);
        Ok((elapsed_us, Stored { extent, checksum }))
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        self.extents.iter().for_each(|extent| self.store.free(*extent));
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use terrace_store::MemoryBlocks;

    #[test]
    fn a_store_is_measured_and_left_as_it_was() {
        let dir = tempfile::tempdir().expect("writable");
        let measured = Store::temporary(dir.path(), None).expect("writable");
        let held = measured.allocate(4096).expect("room");
        let figures = store(&measured, &Effort::brief()).expect("room");
        assert!(figures.read_latency_us > 0.0 && figures.reads_per_s > 0.0);
        assert!(figures.write_latency_us.is_some_and(|us| us > 0.0));
        assert!(figures.sync_latency_us.is_some_and(|us| us > 0.0));
        assert!(figures.read_gib_per_s > 0.0 && figures.write_gib_per_s > Some(0.0));
        assert_eq!(measured.stats().used_bytes, held.len_bytes);
    }

    #[test]
    fn scattered_reads_never_follow_one_another() {
        for count in [1, 2, 7, 64] {
            let stored = |index: u64| Stored {
                extent: Extent { offset_bytes: index * 4096, len_bytes: 4096 },
                checksum: 0,
            };
            let all: Vec<Stored> = (0..count).map(stored).collect();
            let mixed = scattered(&all);
            assert!(all.iter().all(|stored| mixed.contains(stored)) && mixed.len() == all.len());
            let follows =
                |pair: &[Stored]| pair[0].extent.end_bytes() == pair[1].extent.offset_bytes;
            assert!(count == 2 || !mixed.windows(2).any(follows), "{count}");
        }
    }

    #[test]
    fn a_store_without_room_says_so() {
        let small = Store::open(Arc::new(MemoryBlocks::new(1 << 20)), "small", 1 << 20);
        let small = small.expect("a capacity of pages");
        assert!(matches!(store(&small, &Effort::brief()), Err(StoreError::Full { .. })));
        assert_eq!(small.stats().used_bytes, 0);
    }
}
