//! The memory nodes of this machine.

use std::fs;
use std::io;
use std::path::Path;

use crate::pages::Pages;
use crate::size::PAGE_BYTES;

const NODES: &str = "/sys/devices/system/node";

/// A NUMA node with memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The kernel's number.
    pub id: u32,
    /// Bytes of memory it has.
    pub total_bytes: u64,
    /// Bytes that are free now.
    pub free_bytes: u64,
    /// Its processors; none for a CXL memory expander.
    pub cpus: Vec<u32>,
}

/// The nodes that have memory, in order. A kernel without NUMA has node 0 alone.
///
/// A single node is given all memory of the machine: guests whose memory is plugged in as they need
/// it count less of it in the node than in the whole.
#[must_use]
pub fn nodes() -> Vec<Node> {
    let nodes = read_nodes(Path::new(NODES));
    match nodes.as_slice() {
        [] => vec![whole_machine()],
        [only] => vec![Node { id: only.id, ..whole_machine() }],
        _ => nodes,
    }
}

/// The nodes that pages lie on, by their offsets; below zero an error number of the kernel, as for
/// a page that was never touched.
///
/// # Errors
/// When the kernel does not tell.
pub fn nodes_of(pages: &Pages, offsets: &[usize]) -> io::Result<Vec<i32>> {
    move_pages(pages, offsets, None)
}

/// Moves pages to a node, in one call; where each one is afterwards, as [`nodes_of`] has it. The
/// kernel's word is the truth: a page that it could not move stays where it was.
///
/// # Errors
/// When there is no such node or the kernel moves nothing.
pub fn migrate(pages: &mut Pages, offsets: &[usize], node: u32) -> io::Result<Vec<i32>> {
    let node = i32::try_from(node).map_err(|_| io::ErrorKind::InvalidInput)?;
    let status = move_pages(pages, offsets, Some(node))?;
    // A positive result is the number of pages that did not move, with their status unset.
    if status.contains(&UNSET) { nodes_of(pages, offsets) } else { Ok(status) }
}

/// `MPOL_MF_MOVE` of `linux/mempolicy.h`: pages of this process alone.
const MPOL_MF_MOVE: libc::c_int = 2;

/// What the status of a page is before the kernel sets it.
const UNSET: i32 = i32::MIN;

fn move_pages(pages: &Pages, offsets: &[usize], node: Option<i32>) -> io::Result<Vec<i32>> {
    let len = pages.bytes().len();
    if let Some(offset) = offsets.iter().find(|offset| **offset >= len) {
        let text = format!("there is no page at {offset}, the pages have {len} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let start = pages.mapping().as_ptr();
    let addresses: Vec<*mut u8> =
        offsets.iter().map(|offset| start.wrapping_add(offset / PAGE_BYTES * PAGE_BYTES)).collect();
    let nodes = node.map(|node| vec![node; offsets.len()]);
    let mut status = vec![UNSET; offsets.len()];
    // SAFETY: the arrays have the length given and live beyond the call; the addresses are those
    // of pages of a mapping that the caller holds. Moving a page changes no byte of it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            addresses.len(),
            addresses.as_ptr(),
            nodes.as_ref().map_or(std::ptr::null(), |nodes| nodes.as_ptr()),
            status.as_mut_ptr(),
            MPOL_MF_MOVE,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(status) }
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

/// The bytes of a line such as `Node 0 MemTotal: 123 kB` or `MemTotal: 123 kB`.
pub(crate) fn kib_field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.split_once(name).map(|(_, rest)| rest))?;
    rest.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The numbers of the kernel's list form: `0-3,8,10-11`.
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
    fn pages_tell_their_node_and_stay_where_they_are_told() {
        let mut pages = Pages::reserve(4 * PAGE_BYTES, None, false).expect("memory");
        pages.bytes_mut()[..2 * PAGE_BYTES].fill(1);
        let found = nodes_of(&pages, &[0, PAGE_BYTES, 2 * PAGE_BYTES]).expect("told");
        assert!(found[0] >= 0 && found[1] >= 0, "{found:?}");
        assert!(found[2] < 0, "a page that was never touched is on node {}", found[2]);
        let target = nodes()[nodes().len() - 1].id;
        let moved = migrate(&mut pages, &[0, PAGE_BYTES], target).expect("moved");
        assert_eq!(moved, vec![i32::try_from(target).expect("small"); 2]);
        assert!(pages.bytes()[..2 * PAGE_BYTES].iter().all(|byte| *byte == 1));
        assert!(migrate(&mut pages, &[0], 4711).is_err());
        assert!(nodes_of(&pages, &[4 * PAGE_BYTES]).is_err());
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
