//! What `terrace doctor` prints: what was found here, what is missing, and what that costs.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use terrace_sys::probe::Probe;
use terrace_sys::size::{KIB, MIB};

use crate::calibrate::{self, Effort, MemoryFigures, PageCosts, StoreFigures};
use crate::memory::MemoryTier;
use crate::mover::{Choice, Mover, MoverCost};
use crate::spec::TierSpec;
use crate::store::Store;

mod features;
mod table;

pub use features::Feature;

/// The page sizes whose costs are told.
const PAGE_SIZES: [u64; 4] = [4 * KIB, 64 * KIB, 256 * KIB, 2 * MIB];

/// The findings. Prints as a table and serialises as a plain structure.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The kernel's release.
    pub kernel: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Bytes of memory, of the machine or of the control group where that allows less.
    pub memory_bytes: u64,
    /// Bytes of it that could be taken now.
    pub memory_available_bytes: u64,
    /// Nodes with memory.
    pub nodes: Vec<NodeReport>,
    /// What the kernel offers, and what it costs to do without.
    pub features: Vec<Feature>,
    /// Local memory, the directory, and the tiers asked for.
    pub tiers: Vec<TierReport>,
    /// The cost of handling pages, by size.
    pub pages: Vec<PageCosts>,
    /// How pages get to another node, and why so.
    pub mover: MoverReport,
    /// GiB a second of the store's checksum.
    pub checksum_gib_per_s: f64,
    /// Seconds that the examination took.
    pub seconds: f64,
}

/// A NUMA node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeReport {
    /// The kernel's number.
    pub id: u32,
    /// Bytes of memory.
    pub total_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Its processors; none for a memory expander.
    pub processors: usize,
}

/// A way to move pages between nodes.
#[derive(Clone, Debug, Serialize)]
pub struct MoverReport {
    /// The one chosen.
    pub name: String,
    /// A sentence.
    pub why: String,
    /// What was measured.
    pub costs: Vec<MoverCost>,
}

/// A tier and what it does.
#[derive(Clone, Debug, Serialize)]
pub struct TierReport {
    /// As it was typed, or its name.
    pub name: String,
    /// Bytes it may hold, where known.
    pub capacity_bytes: Option<u64>,
    /// For memory.
    pub memory: Option<MemoryFigures>,
    /// For a file or device.
    pub store: Option<StoreFigures>,
    /// Why it cannot be used.
    pub error: Option<String>,
}

impl Report {
    /// Examines this machine, local memory, the file system of `dir`, and the tiers of `specs`, in
    /// one to two seconds. Nothing that exists is changed: files are measured in a file of the
    /// doctor's own beside them, devices are only read.
    #[must_use]
    pub fn gather(specs: &[TierSpec], dir: &Path) -> Report {
        Report::gather_with(specs, dir, &Effort::full())
    }

    /// [`Report::gather`] with less or more effort.
    #[must_use]
    pub fn gather_with(specs: &[TierSpec], dir: &Path, effort: &Effort) -> Report {
        let start = Instant::now();
        let probe = Probe::detect();
        let mut tiers = vec![local_memory(specs, &probe, effort), directory(dir, effort)];
        let asked = specs.iter().filter(|spec| !matches!(spec, TierSpec::Dram { .. }));
        tiers.extend(asked.map(|spec| examine(spec, &probe, effort)));
        let memory_bytes =
            probe.memory_limit_bytes.map_or(probe.memory_bytes, |l| l.min(probe.memory_bytes));
        Report {
            processors: probe.cpus,
            memory_bytes,
            memory_available_bytes: probe.memory_available_bytes.min(memory_bytes),
            nodes: nodes(&probe),
            features: features::list(&probe, &tiers),
            tiers,
            mover: mover(&probe),
            pages: calibrate::page_costs(&PAGE_SIZES, effort).unwrap_or_default(),
            checksum_gib_per_s: calibrate::checksum_gib_per_s(),
            kernel: probe.kernel_release,
            seconds: start.elapsed().as_secs_f64(),
        }
    }

    /// The features that are missing, each with what that costs.
    pub fn missing(&self) -> impl Iterator<Item = &Feature> {
        self.features.iter().filter(|feature| !feature.works)
    }
}

fn mover(probe: &Probe) -> MoverReport {
    let Choice { mover, why, costs } = Mover::choose(probe);
    MoverReport { name: mover.to_string(), why, costs }
}

fn nodes(probe: &Probe) -> Vec<NodeReport> {
    let report = |node: &terrace_sys::numa::Node| NodeReport {
        id: node.id,
        total_bytes: node.total_bytes,
        free_bytes: node.free_bytes,
        processors: node.cpus.len(),
    };
    probe.nodes.iter().map(report).collect()
}

/// Local memory, of the size asked for or as large as there is.
fn local_memory(specs: &[TierSpec], probe: &Probe, effort: &Effort) -> TierReport {
    let asked = specs.iter().find(|spec| matches!(spec, TierSpec::Dram { .. }));
    let whole = TierSpec::Dram { capacity_bytes: probe.memory_available_bytes };
    examine(asked.unwrap_or(&whole), probe, effort)
}

fn directory(dir: &Path, effort: &Effort) -> TierReport {
    let mut report = TierReport::named(format!("temporary file in {}", dir.display()));
    report.measure_store(Store::temporary(dir, None).and_then(|store| {
        let capacity_bytes = store.capacity_bytes();
        Ok((capacity_bytes, calibrate::store(&store, effort)?))
    }));
    report
}

fn examine(spec: &TierSpec, probe: &Probe, effort: &Effort) -> TierReport {
    let mut report = TierReport::named(spec.name());
    report.capacity_bytes = spec.capacity_bytes();
    if let Err(error) = spec.validate(probe) {
        report.error = Some(error.to_string());
        return report;
    }
    match spec {
        TierSpec::File { path, .. } => {
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
            let store = Store::temporary(dir.unwrap_or(Path::new(".")), None);
            report.measure_store(store.and_then(|store| {
                let capacity_bytes = spec.capacity_bytes().unwrap_or(store.capacity_bytes());
                Ok((capacity_bytes, calibrate::store(&store, effort)?))
            }));
        }
        TierSpec::Device { path, capacity_bytes, .. } => {
            let figures = calibrate::device(path, effort);
            report.measure_store(figures.map(|figures| (capacity_bytes.unwrap_or(0), figures)));
            report.capacity_bytes = report.capacity_bytes.filter(|bytes| *bytes > 0);
        }
        memory => match memory.memory_tier(probe) {
            Ok(Some(tier)) => report.measure_memory(&tier, effort),
            Ok(None) => {}
            Err(error) => report.error = Some(error.to_string()),
        },
    }
    report
}

impl TierReport {
    fn named(name: String) -> TierReport {
        TierReport { name, capacity_bytes: None, memory: None, store: None, error: None }
    }

    fn measure_memory(&mut self, tier: &MemoryTier, effort: &Effort) {
        match calibrate::memory(tier, effort) {
            Ok(figures) => self.memory = Some(figures),
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    fn measure_store(&mut self, measured: Result<(u64, StoreFigures), crate::StoreError>) {
        match measured {
            Ok((capacity_bytes, figures)) => {
                self.capacity_bytes = Some(capacity_bytes);
                self.store = Some(figures);
            }
            Err(error) => self.error = Some(error.to_string()),
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
