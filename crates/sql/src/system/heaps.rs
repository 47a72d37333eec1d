//! `terrace.heaps`: the heaps that segments may be placed in.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::Field;
use terrace_heap::{HeapStats, stats_of};
use terrace_region::RegionStats;

use super::columns::{number, numbers, text, texts};
use crate::engine::EngineState;

pub(super) fn columns() -> Vec<Field> {
    vec![
        text("heap"),
        text("memory"),
        text("metadata"),
        number("bytes"),
        number("taken_bytes"),
        number("small_bytes"),
        number("large_bytes"),
        number("metadata_bytes"),
        number("free_bytes"),
        number("resident_bytes"),
        number("read_bytes"),
        number("written_bytes"),
        number("faults"),
        number("fault_p50_ns"),
        number("fault_p99_ns"),
    ]
}

struct Row {
    heap: HeapStats,
    /// Statistics of the region, for a heap over a file.
    region: Option<RegionStats>,
}

pub(super) fn values(engine: &EngineState) -> Vec<ArrayRef> {
    let heaps = engine.heaps().all();
    let stats = stats_of(heaps.iter().map(|heap| heap.heap())).unwrap_or_else(|error| {
        tracing::error!(%error, "heaps are not told");
        Vec::new()
    });
    let regions = heaps.iter().map(|heap| heap.heap().region().map(|region| region.stats()));
    let rows: Vec<Row> =
        stats.into_iter().zip(regions).map(|(heap, region)| Row { heap, region }).collect();
    let region = |of: fn(&RegionStats) -> u64| numbers(&rows, |row| row.region.as_ref().map(of));
    vec![
        texts(&rows, |row| Some(row.heap.name.clone())),
        texts(&rows, |row| Some(row.heap.memory.to_owned())),
        texts(&rows, |row| Some(row.heap.metadata.as_str().to_owned())),
        numbers(&rows, |row| Some(row.heap.bytes)),
        numbers(&rows, |row| Some(row.heap.taken_bytes)),
        numbers(&rows, |row| Some(row.heap.small_bytes)),
        numbers(&rows, |row| Some(row.heap.large_bytes)),
        numbers(&rows, |row| Some(row.heap.metadata_bytes)),
        numbers(&rows, |row| Some(row.heap.free_bytes)),
        region(|stats| stats.resident_bytes),
        region(|stats| stats.read_bytes),
        region(|stats| stats.written_bytes),
        region(|stats| stats.faults),
        region(|stats| stats.fault.p50_ns),
        region(|stats| stats.fault.p99_ns),
    ]
}
