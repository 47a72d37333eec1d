//! The machine that an experiment ran on, as its report names it.

use std::fs;

use serde::Serialize;
use terrace_sys::probe::Probe;

/// Hardware and kernel, as far as needed to judge a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Number of processors that this process may use.
    pub cpus: usize,
    /// Model name of the processor, or `unknown`.
    pub model: String,
    /// Bytes of physical memory.
    pub memory_bytes: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// Memory nodes.
    pub nodes: Vec<MachineNode>,
}

/// A memory node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MachineNode {
    /// Number of the node in the kernel.
    pub id: u32,
    /// Bytes of memory of the node.
    pub memory_bytes: u64,
    /// Number of processors of the node.
    pub cpus: usize,
}

impl Machine {
    /// Describes this machine.
    pub fn detect() -> Machine {
        let probe = Probe::detect();
        let nodes = probe.nodes.iter().map(|node| MachineNode {
            id: node.id,
            memory_bytes: node.total_bytes,
            cpus: node.cpus.len(),
        });
        Machine {
            cpus: probe.cpus,
            model: model(),
            memory_bytes: probe.memory_bytes,
            kernel: probe.kernel_release.clone(),
            nodes: nodes.collect(),
        }
    }
}

/// Returns the first model name of `/proc/cpuinfo`; some architectures give none.
fn model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| "unknown".to_string(), |(_, name)| name.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory_and_a_kernel() {
        let machine = Machine::detect();
        assert!(machine.cpus > 0);
        assert!(machine.memory_bytes > 0);
        assert!(machine.kernel.starts_with(|first: char| first.is_ascii_digit()));
        assert!(!machine.nodes.is_empty());
    }
}
