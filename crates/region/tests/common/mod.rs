//! Helpers shared by the tests of regions.

#![allow(dead_code, reason = "each test binary uses some of it")]

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tempfile::NamedTempFile;
use terrace_ledger::Ledger;
use terrace_region::{Contents, Method, Region, RegionConfig, Source};
use terrace_store::{EngineChoice, FileBlocks, MemoryBlocks};
use terrace_sys::file::DirectFile;
use terrace_sys::size::to_usize;
use terrace_testkit::{FaultyBlocks, needs};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;

/// Returns every paging method that this kernel supports; prints a skip notice for a missing one.
pub fn methods() -> Vec<Method> {
    match needs::regions() {
        true if needs::moves() => vec![Method::Move, Method::Copy],
        true => vec![Method::Copy],
        false => Vec::new(),
    }
}

/// Returns the first supported method.
pub fn a_method() -> Option<Method> {
    methods().first().copied()
}

/// Byte of a test file at an offset.
pub fn stamp(at: u64) -> u8 {
    (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8 | 1
}

/// Creates a file of stamps.
pub fn file_of(len: u64) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    let bytes: Vec<u8> = (0..len).map(stamp).collect();
    file.write_all(&bytes).expect("written");
    file.as_file().sync_all().expect("synced");
    file
}

/// Configuration with a cap and an ample budget.
pub fn config(method: Method, cap_bytes: u64) -> RegionConfig {
    RegionConfig {
        method: Some(method),
        cap_bytes,
        patience: Duration::from_millis(500),
        ..RegionConfig::new("test", Ledger::new(64 * MIB))
    }
}

pub fn over_file(path: &Path, offset: u64, len: u64, config: RegionConfig) -> Region {
    over_file_at(path, offset, len, RegionConfig { block_bytes: 256 << 10, ..config })
}

/// Opens a region over a file with blocks of the given size.
pub fn over_file_by(path: &Path, block_bytes: usize, len: u64, config: RegionConfig) -> Region {
    over_file_at(path, 0, len, RegionConfig { block_bytes, ..config })
}

fn over_file_at(path: &Path, offset: u64, len: u64, config: RegionConfig) -> Region {
    let file = DirectFile::open(path).expect("opened");
    let blocks = FileBlocks::open(file, 1 << 40, EngineChoice::Auto).expect("blocks");
    let source = Source { blocks: Arc::new(blocks), offset, len, contents: Contents::Stored };
    Region::new(config, source).expect("a region")
}

/// Opens a blank region over memory.
pub fn blank(len: u64, config: RegionConfig) -> Region {
    let blocks = Arc::new(MemoryBlocks::new(len));
    let source = Source { blocks, offset: 0, len, contents: Contents::Blank };
    Region::new(config, source).expect("a region")
}

/// Opens a region over memory with injected failures and delays.
pub fn faulty(config: RegionConfig, len: u64, contents: Contents) -> (Region, Arc<FaultyBlocks>) {
    let blocks = Arc::new(FaultyBlocks::new(Arc::new(MemoryBlocks::new(len)), 1));
    let source = Source { blocks: blocks.clone(), offset: 0, len, contents };
    (Region::new(config, source).expect("a region"), blocks)
}

/// Bytes of a region, accessed by atomics from any thread.
#[derive(Clone, Copy)]
pub struct Memory {
    start: *mut u8,
    len: usize,
}

// SAFETY: the bytes are accessed by atomics alone.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn of(region: &Region) -> Self {
        Self { start: region.as_ptr(), len: region.len() }
    }

    fn at(&self, at: u64) -> *mut u8 {
        assert!(to_usize(at) < self.len);
        self.start.wrapping_add(to_usize(at))
    }

    pub fn read(&self, at: u64) -> u8 {
        // SAFETY: the byte is inside of a region that outlives the test's use of it.
        unsafe { AtomicU8::from_ptr(self.at(at)) }.load(Ordering::Relaxed)
    }

    pub fn write(&self, at: u64, value: u8) {
        // SAFETY: as above.
        unsafe { AtomicU8::from_ptr(self.at(at)) }.store(value, Ordering::Relaxed);
    }

    /// Returns the word at an offset that is a multiple of eight.
    pub fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && to_usize(at) + 8 <= self.len);
        // SAFETY: as above, and aligned.
        unsafe { AtomicU64::from_ptr(self.at(at).cast()) }
    }
}
