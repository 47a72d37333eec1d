//! NUMA nodes of this machine.

use std::fs;
use std::io;
use std::path::Path;

const NODES: &str = "/sys/devices/system/node";

/// A NUMA node with memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Number of the node in the kernel.
    pub id: u32,
    /// Total memory of the node, in bytes.
    pub total_bytes: u64,
    /// Free memory of the node, in bytes.
    pub free_bytes: u64,
    /// CPUs of the node; none for a CXL memory expander.
    pub cpus: Vec<u32>,
}

/// Returns the nodes that have memory, in order. A kernel without NUMA has node 0 alone.
///
/// A single node is reported with all memory of the machine, since guests with hotplugged memory
/// count less of it in the node than in total.
#[must_use]
pub fn nodes() -> Vec<Node> {
    let nodes = read_nodes(Path::new(NODES));
    match nodes.as_slice() {
        [] => vec![whole_machine()],
        [only] => vec![Node { id: only.id, ..whole_machine() }],
        _ => nodes,
    }
}

/// Words of a mask of nodes: 1,024 nodes, the maximum that Linux can be configured for.
pub(crate) const NODE_MASK_WORDS: usize = 16;

/// Returns a mask with the bit of one node.
pub(crate) fn node_mask(node: u32) -> io::Result<[u64; NODE_MASK_WORDS]> {
    let mut mask = [0u64; NODE_MASK_WORDS];
    let word = usize::try_from(node / 64).ok().and_then(|word| mask.get_mut(word));
    let Some(word) = word else {
        let text = format!("node {node} is not a possible NUMA node");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    };
    *word = 1 << (node % 64);
    Ok(mask)
}

fn read_nodes(root: &Path) -> Vec<Node> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let mut nodes: Vec<Node> = entries
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            read_node(id, &entry.path())
        })
        .filter(|node| node.total_bytes > 0)
        .collect();
    nodes.sort_by_key(|node| node.id);
    nodes
}

fn read_node(id: u32, path: &Path) -> Option<Node> {
    let memory = fs::read_to_string(path.join("meminfo")).ok()?;
    let cpus = fs::read_to_string(path.join("cpulist")).unwrap_or_default();
    Some(Node {
        id,
        total_bytes: kib_field(&memory, "MemTotal:")?,
        free_bytes: kib_field(&memory, "MemFree:")?,
        cpus: parse_list(&cpus),
    })
}

fn whole_machine() -> Node {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    Node {
        id: 0,
        total_bytes: kib_field(&memory, "MemTotal:").unwrap_or(0),
        free_bytes: kib_field(&memory, "MemFree:").unwrap_or(0),
        cpus: (0..).take(count).collect(),
    }
}

/// Returns the bytes of memory of the machine, or `u64::MAX` if they are unknown.
#[must_use]
pub fn memory_bytes() -> u64 {
    match whole_machine().total_bytes {
        0 => u64::MAX,
        bytes => bytes,
    }
}

/// Parses the bytes of a line such as `Node 0 MemTotal: 123 kB` or `MemTotal: 123 kB`.
pub(crate) fn kib_field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.split_once(name).map(|(_, rest)| rest))?;
    rest.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Parses the kernel's list format: `0-3,8,10-11`.
fn parse_list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_the_bit_of_its_node() {
        assert_eq!(node_mask(0).expect("possible")[0], 1);
        assert_eq!(node_mask(1023).expect("possible")[15], 1 << 63);
        let mask = node_mask(65).expect("possible");
        assert!(mask[1] == 2 && mask.iter().filter(|word| **word != 0).count() == 1);
        assert!(node_mask(1024).is_err());
    }

    #[test]
    fn this_machine_has_a_node_with_memory_and_processors() {
        let nodes = nodes();
        assert!(nodes.iter().any(|node| node.total_bytes > 0 && !node.cpus.is_empty()));
        assert!(whole_machine().total_bytes > 0);
    }

    #[test]
    fn the_kernels_forms_are_read() {
        assert_eq!(parse_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert!(parse_list("\n").is_empty());
        let text = "Node 1 MemTotal:       16 kB\nNode 1 MemFree:        4 kB\n";
        assert_eq!(kib_field(text, "MemFree:"), Some(4096));
        assert_eq!(kib_field(text, "MemUsed:"), None);
        assert!(read_nodes(Path::new("/nonexistent")).is_empty());
    }
}
