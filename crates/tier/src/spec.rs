//! A tier as people type it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use terrace_sys::size::{exact_bytes, parse_bytes, to_u64};

use crate::error::TierError;

mod resolve;
#[cfg(all(test, not(miri)))]
mod tests;

/// One example of each form.
pub(crate) const EXAMPLES: &str = "dram:2GiB, node1:8GiB, cxl:16GiB, emu:8GiB@250ns, \
                                   file:/data/terrace:100GiB or dev:/dev/nvme1n1:1TiB";

/// The delay of an emulated tier that names none: what a load from a CXL expander takes longer
/// than one from local memory, on first-generation devices.
pub const EMULATED_LATENCY_NS: u64 = 250;
/// The longest delay of an emulated tier: above it, it would be slower than a solid-state drive.
pub const EMULATED_LATENCY_NS_MAX: u64 = 1_000_000;
/// The least capacity of any tier, a page.
pub const CAPACITY_BYTES_MIN: u64 = 4096;

/// A place for pages. [`FromStr`] and [`fmt::Display`] are inverse to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TierSpec {
    /// `dram:2GiB`: local memory.
    Dram {
        /// Bytes it may hold.
        capacity_bytes: u64,
    },
    /// `node1:8GiB`, `cxl:16GiB`: memory of one NUMA node.
    Node {
        /// Whether the node was named as one, or as a CXL memory expander.
        kind: NodeKind,
        /// Its number; `None` stands for the node without processors.
        node: Option<u32>,
        /// Bytes it may hold.
        capacity_bytes: u64,
    },
    /// `emu:8GiB@250ns`: local memory that is accounted and delayed like a remote tier.
    Emulated {
        /// Bytes it may hold.
        capacity_bytes: u64,
        /// Nanoseconds that a fix in it waits beyond the memory's own latency.
        latency_ns: u64,
    },
    /// `file:/data/terrace:100GiB`: a store in a file.
    File {
        /// The file, created when missing.
        path: PathBuf,
        /// Bytes it may hold; `None` stands for what the file system has free.
        capacity_bytes: Option<u64>,
    },
    /// `dev:/dev/nvme1n1:1TiB`: a store on a block device.
    Device {
        /// The device; what extents are allocated on is overwritten.
        path: PathBuf,
        /// Bytes it may hold; `None` stands for its size.
        capacity_bytes: Option<u64>,
    },
}

/// How a node is named.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// By number: `node1`.
    Node,
    /// As a memory expander: `cxl`, or `cxl2` where there are several.
    Cxl,
}

impl TierSpec {
    /// The tier without its size, for statistics and errors: `dram`, `node1`, `cxl`, `emu`,
    /// `file:/data/terrace`, `dev:/dev/nvme1n1`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            TierSpec::Dram { .. } => "dram".into(),
            TierSpec::Node { kind, node, .. } => {
                let number = node.map(|node| node.to_string()).unwrap_or_default();
                format!("{}{number}", kind.word())
            }
            TierSpec::Emulated { .. } => "emu".into(),
            TierSpec::File { path, .. } => format!("file:{}", path.display()),
            TierSpec::Device { path, .. } => format!("dev:{}", path.display()),
        }
    }

    /// Bytes it may hold, where its text says so.
    #[must_use]
    pub fn capacity_bytes(&self) -> Option<u64> {
        match self {
            TierSpec::Dram { capacity_bytes }
            | TierSpec::Node { capacity_bytes, .. }
            | TierSpec::Emulated { capacity_bytes, .. } => Some(*capacity_bytes),
            TierSpec::File { capacity_bytes, .. } | TierSpec::Device { capacity_bytes, .. } => {
                *capacity_bytes
            }
        }
    }

    /// Whether pages in it are read where they are, without a transfer.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        !matches!(self, TierSpec::File { .. } | TierSpec::Device { .. })
    }
}

impl NodeKind {
    fn word(self) -> &'static str {
        match self {
            NodeKind::Node => "node",
            NodeKind::Cxl => "cxl",
        }
    }
}

impl fmt::Display for TierSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            TierSpec::Dram { capacity_bytes } | TierSpec::Node { capacity_bytes, .. } => {
                write!(f, "{name}:{}", exact_bytes(*capacity_bytes))
            }
            TierSpec::Emulated { capacity_bytes, latency_ns } => {
                write!(f, "{name}:{}@{latency_ns}ns", exact_bytes(*capacity_bytes))
            }
            TierSpec::File { capacity_bytes, .. } | TierSpec::Device { capacity_bytes, .. } => {
                match capacity_bytes {
                    Some(bytes) => write!(f, "{name}:{}", exact_bytes(*bytes)),
                    // A last colon keeps a path that ends like a size from being read as one.
                    None if split_capacity(&name).is_some() => write!(f, "{name}:"),
                    None => f.write_str(&name),
                }
            }
        }
    }
}

impl FromStr for TierSpec {
    type Err = TierError;

    fn from_str(text: &str) -> Result<TierSpec, TierError> {
        parse(text.trim()).map_err(|reason| TierError::Syntax { text: text.to_string(), reason })
    }
}

fn parse(text: &str) -> Result<TierSpec, String> {
    let Some((kind, rest)) = text.split_once(':') else {
        return Err("a colon and a size are missing".into());
    };
    match kind {
        "dram" => Ok(TierSpec::Dram { capacity_bytes: parse_capacity(rest)? }),
        "emu" => parse_emulated(rest),
        "file" => {
            let (path, capacity_bytes) = parse_path(rest)?;
            Ok(TierSpec::File { path, capacity_bytes })
        }
        "dev" => {
            let (path, capacity_bytes) = parse_path(rest)?;
            Ok(TierSpec::Device { path, capacity_bytes })
        }
        _ => parse_node(kind, rest),
    }
}

fn parse_node(kind: &str, rest: &str) -> Result<TierSpec, String> {
    let digits = kind.trim_start_matches(|c: char| !c.is_ascii_digit());
    let word = &kind[..kind.len() - digits.len()];
    let node = digits.parse::<u32>().ok();
    let kind = match (word, node) {
        ("node", Some(_)) => NodeKind::Node,
        ("node", None) => return Err("the number of the node is missing".into()),
        ("cxl", _) if digits.is_empty() || node.is_some() => NodeKind::Cxl,
        _ => return Err(format!("there is no kind of tier \"{kind}\"")),
    };
    Ok(TierSpec::Node { kind, node, capacity_bytes: parse_capacity(rest)? })
}

fn parse_emulated(rest: &str) -> Result<TierSpec, String> {
    let (size, latency_ns) = match rest.split_once('@') {
        Some((size, latency)) => (size, parse_latency(latency)?),
        None => (rest, EMULATED_LATENCY_NS),
    };
    Ok(TierSpec::Emulated { capacity_bytes: parse_capacity(size)?, latency_ns })
}

/// Nanoseconds of a delay such as `250ns` or `2us`, at most 1 ms.
pub(crate) fn parse_latency(text: &str) -> Result<u64, String> {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000)];
    let parsed = units.iter().find_map(|(unit, factor)| {
        text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(*factor)
    });
    match parsed {
        Some(latency_ns) if latency_ns <= EMULATED_LATENCY_NS_MAX => Ok(latency_ns),
        Some(_) => Err(format!("a delay of {text} is above the most, 1ms")),
        None => Err(format!("\"{text}\" is not a delay such as 250ns or 2us")),
    }
}

fn parse_path(rest: &str) -> Result<(PathBuf, Option<u64>), String> {
    let (path, size) = match rest.strip_suffix(':') {
        Some(path) => (path, None),
        None => split_capacity(rest).map_or((rest, None), |(path, size)| (path, Some(size))),
    };
    if path.is_empty() {
        return Err("the path is missing".into());
    }
    let capacity_bytes = size.map(parse_capacity).transpose()?;
    Ok((PathBuf::from(path), capacity_bytes))
}

/// Path and size of a text that ends in a colon and what is meant as a size.
fn split_capacity(text: &str) -> Option<(&str, &str)> {
    let (path, size) = text.rsplit_once(':')?;
    (size.is_empty() || size.starts_with(|c: char| c.is_ascii_digit())).then_some((path, size))
}

fn parse_capacity(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    if bytes < CAPACITY_BYTES_MIN {
        return Err(format!("{bytes} bytes are less than the least capacity, 4KiB"));
    }
    Ok(bytes)
}

/// Bytes of all the memory tiers.
pub(crate) fn memory_bytes(specs: &[TierSpec]) -> u64 {
    let memory = specs.iter().filter(|spec| spec.is_memory());
    memory.filter_map(TierSpec::capacity_bytes).fold(0, u64::saturating_add)
}

/// How many tiers have this name.
pub(crate) fn count_named(specs: &[TierSpec], name: &str) -> u64 {
    to_u64(specs.iter().filter(|spec| spec.name() == name).count())
}
