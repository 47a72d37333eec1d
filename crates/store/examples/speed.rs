//! Throughput of the store by engine, transfer length and batch size; writes in order, reads in
//! random order, first with checksums and then without, as the bare device performs at that moment:
//! `cargo run --release -p terrace-tier --example speed -- DIRECTORY`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_store::{
    Blocks, EngineChoice, Extent, FileBlocks, Io, Read, Store, StoreError, Stored, Write,
};
use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::file::DirectFile;
use terrace_sys::size::{GIB, MIB, format_bytes, to_usize};
use terrace_testkit::Rng;

/// Length of a transfer, transfers per batch, and total bytes.
const CASES: [(u64, usize, u64); 6] = [
    (4096, 1, 16 * MIB),
    (4096, 32, 128 * MIB),
    (256 << 10, 8, GIB),
    (256 << 10, 16, GIB),
    (1 << 20, 8, GIB),
    (1 << 20, 16, GIB),
];

#[expect(clippy::print_stdout, reason = "a program that prints")]
fn main() -> Result<(), StoreError> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "/var/tmp".into());
    for choice in [EngineChoice::Uring, EngineChoice::Pread] {
        let failed = |source| StoreError::Open { store: dir.clone(), source: Arc::new(source) };
        let file = DirectFile::temporary(Path::new(&dir)).map_err(failed)?;
        let blocks = Arc::new(FileBlocks::open(file, 2 * GIB, choice).map_err(failed)?);
        let store = Store::open(Arc::clone(&blocks) as Arc<dyn Blocks>, "speed", 2 * GIB)?;
        println!("{} in {dir}, MiB/s", store.kind());
        println!(
            "{:>8} {:>6} {:>12} {:>8} {:>8}",
            "length", "batch", "first write", "write", "read"
        );
        for (len, batch, total) in CASES {
            let [first, write, read, bare] = case(&store, &*blocks, len, batch, total)?;
            let length = format_bytes(len);
            println!("{length:>8} {batch:>6} {first:>12.0} {write:>8.0} {read:>8.0} {bare:>8.0}");
        }
    }
    Ok(())
}

/// Returns the MiB/s of the first write, of overwriting, of reading, and of reading bare blocks.
fn case(
    store: &Store,
    blocks: &dyn Blocks,
    len: u64,
    batch: usize,
    total: u64,
) -> Result<[f64; 4], StoreError> {
    let extents: Vec<Extent> =
        (0..total / len).map(|_| store.allocate(len)).collect::<Result<_, _>>()?;
    let mut buffers: Vec<AlignedBuffer> = (0..batch).map(|_| buffer(len)).collect();
    let (first, _) = write(store, &extents, &buffers)?;
    let (again, mut stored) = write(store, &extents, &buffers)?;
    shuffle(&mut stored);
    let reading = read(store, &stored, &mut buffers)?;
    let bare = read_bare(blocks, &stored, &mut buffers);
    extents.into_iter().for_each(|extent| store.free(extent));
    Ok([first, again, reading, bare].map(|time| mib_per_s(total, time)))
}

fn shuffle(stored: &mut [Stored]) {
    let mut rng = Rng::new(1);
    for last in (1..stored.len()).rev() {
        stored.swap(last, rng.index(last + 1));
    }
}

fn buffer(len: u64) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(to_usize(len));
    buffer.fill(0xa5);
    buffer
}

fn write(
    store: &Store,
    extents: &[Extent],
    buffers: &[AlignedBuffer],
) -> Result<(Duration, Vec<Stored>), StoreError> {
    let mut stored = Vec::with_capacity(extents.len());
    let start = Instant::now();
    for chunk in extents.chunks(buffers.len()) {
        let pairs = chunk.iter().zip(buffers);
        let writes: Vec<Write<'_>> =
            pairs.map(|(extent, data)| Write { extent: *extent, data }).collect();
        for written in store.write_batch(&writes) {
            stored.push(written?);
        }
    }
    Ok((start.elapsed(), stored))
}

fn read(
    store: &Store,
    stored: &[Stored],
    buffers: &mut [AlignedBuffer],
) -> Result<Duration, StoreError> {
    let start = Instant::now();
    for chunk in stored.chunks(buffers.len()) {
        let pairs = chunk.iter().zip(buffers.iter_mut());
        let mut reads: Vec<Read<'_>> =
            pairs.map(|(stored, data)| Read { stored: *stored, data }).collect();
        store.read_batch(&mut reads).into_iter().collect::<Result<(), _>>()?;
    }
    Ok(start.elapsed())
}

fn read_bare(blocks: &dyn Blocks, stored: &[Stored], buffers: &mut [AlignedBuffer]) -> Duration {
    let start = Instant::now();
    for chunk in stored.chunks(buffers.len()) {
        let pairs = chunk.iter().zip(buffers.iter_mut());
        let mut batch: Vec<Io<'_>> =
            pairs.map(|(stored, data)| Io::read(stored.extent.offset_bytes, data)).collect();
        blocks.run(&mut batch, &|_| ());
    }
    start.elapsed()
}

#[expect(clippy::cast_precision_loss, reason = "figures have three digits")]
fn mib_per_s(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / MIB as f64 / time.as_secs_f64()
}
