//! Report about a machine: its hardware and features, the features that are missing, and the cost
//! of each.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use terrace_store::{Store, StoreError};
use terrace_sys::probe::Probe;
use terrace_sys::size::{KIB, MIB};

use crate::calibrate::{self, Effort, MemoryFigures, PageCosts, StoreFigures};
use crate::memory::MemoryTier;
use crate::mover::{Choice, Mover, MoverCost};
use crate::spec::TierSpec;

mod features;

pub use features::Feature;

/// Page sizes whose costs are reported.
const PAGE_SIZES: [u64; 4] = [4 * KIB, 64 * KIB, 256 * KIB, 2 * MIB];

/// Report on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Release of the kernel.
    pub kernel: String,
    /// Number of processors that this process may use.
    pub processors: usize,
    /// Bytes of memory of the machine, or of the control group if its limit is lower.
    pub memory_bytes: u64,
    /// Bytes of that memory that are available now.
    pub memory_available_bytes: u64,
    /// NUMA nodes with memory.
    pub nodes: Vec<NodeReport>,
    /// Features of the kernel and the machine, and the cost of doing without each.
    pub features: Vec<Feature>,
    /// Local memory, the directory, and the requested tiers.
    pub tiers: Vec<TierReport>,
    /// Cost of page operations, by page size.
    pub pages: Vec<PageCosts>,
    /// Mover for pages between nodes, and the reason for choosing it.
    pub mover: MoverReport,
    /// Throughput of the store's checksum in GiB/s.
    pub checksum_gib_per_s: f64,
    /// Duration of the examination in seconds.
    pub seconds: f64,
}

/// A NUMA node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeReport {
    /// Number of the node in the kernel.
    pub id: u32,
    /// Bytes of memory.
    pub total_bytes: u64,
    /// Free bytes of memory.
    pub free_bytes: u64,
    /// Number of its processors; 0 for a memory expander.
    pub processors: usize,
}

/// The chosen mover of pages between nodes.
#[derive(Clone, Debug, Serialize)]
pub struct MoverReport {
    /// Description of the chosen mover.
    pub name: String,
    /// Reason for the choice, in words.
    pub why: String,
    /// Measured costs of the movers.
    pub costs: Vec<MoverCost>,
}

/// A tier and its measured performance.
#[derive(Clone, Debug, Serialize)]
pub struct TierReport {
    /// Name of the tier.
    pub name: String,
    /// Capacity in bytes, if known.
    pub capacity_bytes: Option<u64>,
    /// Figures of a memory tier.
    pub memory: Option<MemoryFigures>,
    /// Figures of a file or device.
    pub store: Option<StoreFigures>,
    /// Reason why the tier cannot be used.
    pub error: Option<String>,
}

impl Report {
    /// Examines this machine, local memory, the file system of `dir`, and the tiers of `specs`, in
    /// one to two seconds. Existing data is not changed: file tiers are measured in a temporary
    /// file in the same directory, devices are only read.
    #[must_use]
    pub fn gather(specs: &[TierSpec], dir: &Path) -> Report {
        Report::gather_with(specs, dir, &Effort::full())
    }

    /// [`Report::gather`] with a given effort.
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

    /// Returns the missing features, each with the cost of doing without it.
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

/// Examines local memory, of the requested size or else of all that is available.
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

    fn measure_store(&mut self, measured: Result<(u64, StoreFigures), StoreError>) {
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
