use std::io::Write as _;
use std::ops::Range;

use datafusion::arrow::array::{
    ArrayData, Decimal128Array, Int64Array, RecordBatch, StringArray, StringViewArray,
};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::ipc::MetadataVersion;
use datafusion::arrow::ipc::reader::StreamDecoder;
use datafusion::arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use futures::{StreamExt, TryStreamExt};
use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig};
use terrace_store::{MemoryBlocks, Store};

use super::*;

const MIB: u64 = 1 << 20;

fn pool(dram_bytes: u64) -> Pool {
    let store = Store::open(Arc::new(MemoryBlocks::new(1 << 30)), "memory", 1 << 30);
    let store = Some(Arc::new(store.expect("store")));
    let config = PoolConfig { store, ..PoolConfig::new("test", Ledger::new(dram_bytes)) };
    Pool::new(config).expect("pool")
}

fn spill_space(pool: &Pool) -> SpillSpace {
    spill_space_with(pool, 256 * MIB)
}

fn spill_space_with(pool: &Pool, pin_limit_bytes: u64) -> SpillSpace {
    let space = pool.create_space("spill", None).expect("space");
    SpillSpace::new(space, Arc::new(PagePins::new(pin_limit_bytes)))
}

fn batch(first: i64, rows: i64) -> RecordBatch {
    let numbers = Int64Array::from_iter_values(first..first + rows);
    let amounts = Decimal128Array::from_iter_values((first..first + rows).map(i128::from));
    let words = (first..first + rows).map(|i| format!("word {i}"));
    let views = (first..first + rows).map(|i| format!("a value too long for a view, {i}"));
    RecordBatch::try_from_iter([
        ("number", Arc::new(numbers) as _),
        ("amount", Arc::new(amounts) as _),
        ("word", Arc::new(StringArray::from_iter_values(words)) as _),
        ("view", Arc::new(StringViewArray::from_iter_values(views)) as _),
    ])
    .expect("batch")
}

fn write(file: &Arc<dyn SpillFile>, batches: &[RecordBatch]) {
    let options = IpcWriteOptions::try_new(16, false, MetadataVersion::V5).expect("options");
    let writer = file.open_writer().expect("writer");
    let mut stream =
        StreamWriter::try_new_with_options(writer, &batches[0].schema(), options).expect("stream");
    batches.iter().for_each(|batch| stream.write(batch).expect("write"));
    stream.into_inner().expect("end").finish().expect("finish");
}

/// Returns the batches of a file with the address ranges of the chunks that they came in.
async fn read(file: &Arc<dyn SpillFile>) -> Vec<(RecordBatch, Range<usize>)> {
    let mut chunks = file.read_stream().expect("reader");
    let (mut decoder, mut batches) = (StreamDecoder::new(), Vec::new());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.expect("chunk");
        let start = chunk.as_ptr() as usize;
        let range = start..start + chunk.len();
        let mut buffer = Buffer::from(chunk);
        if let Some(batch) = decoder.decode(&mut buffer).expect("decode") {
            batches.push((batch, range));
        }
        assert!(buffer.is_empty(), "a chunk is one message");
    }
    decoder.finish().expect("whole");
    batches
}

fn buffers(data: &ArrayData) -> Vec<Buffer> {
    let own = data.buffers().iter().cloned();
    own.chain(data.child_data().iter().flat_map(buffers)).collect()
}

fn page_bytes(pool: &Pool) -> u64 {
    pool.stats().tiers.iter().map(|tier| tier.page_bytes).sum()
}

#[tokio::test]
async fn what_is_read_is_what_was_written_and_points_into_pages() {
    let pool = pool(256 * MIB);
    let file = spill_space(&pool).create_temp_file("test").expect("file");
    let batches: Vec<_> =
        [1, 8192, 10, 10, 200, 3000, 8192, 500].map(|rows| batch(rows, rows)).into();
    write(&file, &batches);
    let read = read(&file).await;
    assert_eq!(read.len(), batches.len());
    for ((read, chunk), written) in read.iter().zip(&batches) {
        assert_eq!(read, written);
        for column in read.columns() {
            for buffer in buffers(&column.to_data()).iter().filter(|buffer| !buffer.is_empty()) {
                let at = buffer.as_ptr() as usize;
                assert!(chunk.contains(&at), "a buffer of {} was copied", column.data_type());
                assert!(buffer.capacity() <= chunk.len(), "charged for more than its message");
            }
        }
    }
}

#[tokio::test]
async fn beyond_the_limit_of_pins_messages_are_aligned_copies() {
    let pool = pool(256 * MIB);
    let space = spill_space_with(&pool, MIB);
    let file = space.create_temp_file("test").expect("file");
    let batches: Vec<_> = (0..10).map(|i| batch(i, 8192)).collect();
    write(&file, &batches);
    let read = read(&file).await;
    assert!(space.pins.pinned_bytes() <= MIB);
    for ((read, chunk), written) in read.iter().zip(&batches) {
        assert_eq!(read, written);
        let buffers = read.columns().iter().flat_map(|column| buffers(&column.to_data()));
        for buffer in buffers.filter(|buffer| !buffer.is_empty()) {
            assert!(chunk.contains(&(buffer.as_ptr() as usize)), "copied a second time");
        }
    }
    drop((file, read));
    assert_eq!(space.pins.pinned_bytes(), 0);
}

#[tokio::test]
async fn messages_above_the_largest_page_are_joined() {
    let pool = pool(256 * MIB);
    let file = spill_space(&pool).create_temp_file("test").expect("file");
    let large = batch(0, 600_000);
    assert!(large.get_array_memory_size() > 40 << 20);
    let batches = [batch(7, 20), large, batch(9, 20)];
    write(&file, &batches);
    let read = read(&file).await;
    assert!(read.iter().map(|(batch, _)| batch).eq(&batches));
}

#[tokio::test]
async fn a_file_larger_than_memory_goes_to_the_store_and_comes_back() {
    let pool = pool(16 * MIB);
    let space = spill_space(&pool);
    let file = space.create_temp_file("test").expect("file");
    let batches: Vec<_> = (0..60).map(|i| batch(i * 10_000, 10_000)).collect();
    write(&file, &batches);
    assert!(space.counters().bytes() > 40 * MIB);
    let store = pool.store().expect("store");
    assert!(store.stats().written_bytes > 20 * MIB);
    // Batches are dropped as they come, as a streaming operator does.
    let mut chunks = file.read_stream().expect("reader");
    let (mut decoder, mut read) = (StreamDecoder::new(), 0);
    while let Some(chunk) = chunks.next().await {
        let mut buffer = Buffer::from(chunk.expect("chunk"));
        if let Some(batch) = decoder.decode(&mut buffer).expect("decode") {
            assert_eq!(batch, batches[read]);
            read += 1;
        }
    }
    assert_eq!(read, batches.len());
}

#[tokio::test]
async fn a_file_that_goes_unread_costs_no_write_and_no_space() {
    let pool = pool(256 * MIB);
    let space = spill_space(&pool);
    let file = space.create_temp_file("test").expect("file");
    write(&file, &[batch(0, 8192), batch(1, 8192)]);
    assert!(page_bytes(&pool) > 0);
    drop(file);
    assert_eq!(page_bytes(&pool), 0);
    let store = pool.store().expect("store").stats();
    assert_eq!((store.used_bytes, store.written_bytes), (0, 0));
}

#[tokio::test]
async fn pages_go_as_their_only_reader_consumes_them() {
    let pool = pool(256 * MIB);
    let file = spill_space(&pool).create_temp_file("test").expect("file");
    let batches: Vec<_> = (0..20).map(|i| batch(i, 8192)).collect();
    write(&file, &batches);
    let whole = page_bytes(&pool);
    // While another reference to the file exists, it can be read again.
    let other = Arc::clone(&file);
    assert_eq!(read(&file).await.len(), 20);
    assert_eq!(page_bytes(&pool), whole);
    drop(other);
    let mut chunks = file.read_stream().expect("reader");
    for _ in 0..12 {
        chunks.try_next().await.expect("chunk").expect("more");
    }
    assert!(page_bytes(&pool) < whole / 2, "{} of {whole}", page_bytes(&pool));
    drop(chunks);
    let again = file.read_stream().expect("reader").try_next().await;
    assert!(again.expect_err("consumed").to_string().contains("consumed"));
    drop(file);
    assert_eq!(page_bytes(&pool), 0);
}

#[tokio::test]
async fn a_pinned_message_outlives_its_file() {
    let pool = pool(64 * MIB);
    let file = spill_space(&pool).create_temp_file("test").expect("file");
    let written = batch(5, 8192);
    write(&file, std::slice::from_ref(&written));
    let (kept, _) = read(&file).await.remove(0);
    drop(file);
    assert!(page_bytes(&pool) > 0);
    assert_eq!(kept, written);
    drop(kept);
    assert_eq!(page_bytes(&pool), 0);
}

#[tokio::test]
async fn a_reader_waits_for_the_writer() {
    let pool = pool(64 * MIB);
    let file = spill_space(&pool).create_temp_file("test").expect("file");
    let reader = tokio::spawn({
        let file = Arc::clone(&file);
        async move { read(&file).await.len() }
    });
    let mut writer = {
        let options = IpcWriteOptions::try_new(16, false, MetadataVersion::V5).expect("options");
        let writer = file.open_writer().expect("writer");
        let schema = batch(0, 1).schema();
        StreamWriter::try_new_with_options(writer, &schema, options).expect("stream")
    };
    for i in 0..50 {
        writer.write(&batch(i, 100)).expect("write");
        tokio::task::yield_now().await;
    }
    drop(writer.into_inner().expect("end"));
    assert_eq!(reader.await.expect("reader"), 50);
}

#[test]
fn a_file_cut_in_a_message_does_not_finish() {
    let pool = pool(64 * MIB);
    let file = spill_space(&pool).create_temp_file("test").expect("file");
    let mut whole = Vec::new();
    let one = batch(0, 100);
    let mut stream = StreamWriter::try_new(&mut whole, &one.schema()).expect("stream");
    stream.write(&one).expect("write");
    stream.finish().expect("end");
    let mut writer = file.open_writer().expect("writer");
    writer.write_all(&whole[..whole.len() - 100]).expect("write");
    assert!(writer.finish().is_err());
    let mut writer = file.open_writer().expect("writer");
    assert!(writer.write_all(b"this is no IPC stream").is_err());
}
