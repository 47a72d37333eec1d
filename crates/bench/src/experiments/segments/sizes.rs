//! Sizes of tables, and the memory they need.

use terrace_sql::EngineConfig;
use terrace_sys::size::{GIB, format_bytes};

use super::options::SegmentOptions;
use crate::error::{BenchError, Result};
use crate::setting::{Setting, ample_dram};

/// Number of doublings of the scale for figures 6 and 7b, as published.
const DOUBLINGS: u32 = 3;

/// Returns the number of engines that hold tables at the same time.
pub(super) fn engine_count(options: &SegmentOptions) -> u64 {
    1 + u64::from(options.figures.iter().any(|figure| figure.is_of_pairs()))
}

/// Returns the configuration of one of `engines` engines. Unless the user gave a budget, it is
/// enough for all tables at `scale` and their heaps, as far as the memory of the machine suffices.
pub(super) fn engine(setting: &Setting, scale: f64, engines: u64) -> EngineConfig {
    let mut config = setting.engine.clone();
    if !setting.dram_is_named {
        // The budget is for the pool, the heap in DRAM and operators. The default budget is half of
        // the machine's memory; the other half is for emulated memory, which is not charged to a
        // budget.
        config.dram_bytes = (config.dram_bytes / engines).min(2 * ample_dram(scale));
    }
    config
}

/// Returns the scales of figures 6 and 7b: doublings of the first one up to the last.
pub(super) fn scales(first: f64, last: Option<f64>) -> Vec<f64> {
    let all = (0..=DOUBLINGS).map(|doubling| first * f64::from(1_u32 << doubling));
    all.filter(|scale| *scale <= last.unwrap_or(first).max(first)).collect()
}

/// Checks that the machine has memory for the largest tables in emulated memory, in addition to
/// everything that the budget covers.
pub(super) fn has_memory(
    memories: &[String],
    data_bytes: u64,
    dram_bytes: u64,
    memory_bytes: u64,
) -> Result<()> {
    let Some(memory) = memories.iter().find(|memory| memory.starts_with("emu")) else {
        return Ok(());
    };
    if data_bytes.saturating_add(dram_bytes) <= memory_bytes.saturating_sub(GIB) {
        return Ok(());
    }
    Err(BenchError::Input(format!(
        "tables of {} in memory \"{memory}\" beside {} of DRAM are more than this machine's {}: \
         choose --memories file, or a smaller --scale, --scale-max or --dram",
        format_bytes(data_bytes),
        format_bytes(dram_bytes),
        format_bytes(memory_bytes)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_double_up_to_the_last() {
        assert_eq!(scales(1.0, None), [1.0]);
        assert_eq!(scales(1.0, Some(8.0)), [1.0, 2.0, 4.0, 8.0]);
        assert_eq!(scales(1.0, Some(100.0)).len(), 4);
        assert_eq!(scales(0.5, Some(1.9)), [0.5, 1.0]);
        assert_eq!(scales(4.0, Some(1.0)), [4.0]);
    }

    #[test]
    fn emulated_memory_is_memory_of_this_machine() {
        let memories = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let both = memories(&["file", "emu@10us"]);
        has_memory(&both, 11 * GIB, 12 * GIB, 24 * GIB).expect("just fits");
        let error = has_memory(&both, 12 * GIB, 12 * GIB, 24 * GIB).expect_err("too much");
        let text = error.to_string();
        for word in ["12GiB", "24GiB", "emu@10us", "--memories file", "--scale-max"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        has_memory(&memories(&["file"]), 12 * GIB, 12 * GIB, 24 * GIB).expect("no emulation");
    }
}
