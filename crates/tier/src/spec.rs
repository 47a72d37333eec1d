//! Text form of a tier specification.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use terrace_store::parse_latency;
use terrace_sys::size::{MIB, exact_bytes, parse_bytes, to_u64};

use crate::error::TierError;

mod resolve;
#[cfg(all(test, not(miri)))]
mod tests;

/// Default delay of an emulated tier: the additional latency of a load from a CXL expander over one
/// from local memory, on first-generation devices.
pub const EMULATED_LATENCY_NS: u64 = 250;
/// Minimum capacity of any tier: one page.
pub const CAPACITY_BYTES_MIN: u64 = 4096;
/// Minimum rate of a store in bytes per second: a page of 4 MiB then takes four seconds.
pub const STORE_RATE_MIN: u64 = MIB;

/// Specification of a tier. [`FromStr`] and [`fmt::Display`] are inverse to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TierSpec {
    /// `dram:2GiB`: local memory.
    Dram {
        /// Capacity in bytes.
        capacity_bytes: u64,
    },
    /// `node1:8GiB`, `cxl:16GiB`: memory of one NUMA node.
    Node {
        /// Form in which the node is named: as a NUMA node or as a CXL memory expander.
        kind: NodeKind,
        /// Number of the node; `None` stands for the node without processors.
        node: Option<u32>,
        /// Capacity in bytes.
        capacity_bytes: u64,
    },
    /// `emu:8GiB@250ns`: local memory that is accounted for and delayed like a remote tier.
    Emulated {
        /// Capacity in bytes.
        capacity_bytes: u64,
        /// Delay of each fix in this tier in nanoseconds, on top of the memory's own latency.
        latency_ns: u64,
    },
    /// `file:/data/terrace:100GiB`, `file:/data/terrace:100GiB@250MiB/s`: a store in a file,
    /// optionally limited to the rate of a slower volume.
    File {
        /// The file, created when missing.
        path: PathBuf,
        /// Capacity in bytes; `None` stands for the free space of the file system.
        capacity_bytes: Option<u64>,
        /// Maximum rate in bytes per second, reads and writes together; `None` stands for no limit.
        bytes_per_second: Option<u64>,
    },
    /// `dev:/dev/nvme1n1:1TiB`: a store on a block device.
    Device {
        /// The device; allocated extents overwrite its contents.
        path: PathBuf,
        /// Capacity in bytes; `None` stands for the size of the device.
        capacity_bytes: Option<u64>,
        /// Maximum rate in bytes per second, reads and writes together; `None` stands for no limit.
        bytes_per_second: Option<u64>,
    },
}

/// Form in which a node is named.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// By number: `node1`.
    Node,
    /// As a memory expander: `cxl`, or `cxl2` where there are several.
    Cxl,
}

impl TierSpec {
    /// Creates the specification of a store in a file, without a rate.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>, capacity_bytes: Option<u64>) -> Self {
        TierSpec::File { path: path.into(), capacity_bytes, bytes_per_second: None }
    }

    /// Returns the name of the tier without its size, for statistics and errors: `dram`, `node1`,
    /// `cxl`, `emu`, `file:/data/terrace`, `dev:/dev/nvme1n1`.
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

    /// Returns the capacity in bytes, if the specification names one.
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

    /// True if pages of this tier are accessed in place, without a transfer.
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
            TierSpec::File { capacity_bytes, bytes_per_second, .. }
            | TierSpec::Device { capacity_bytes, bytes_per_second, .. } => {
                let size = capacity_bytes.map(exact_bytes).unwrap_or_default();
                match bytes_per_second {
                    Some(rate) => write!(f, "{name}:{size}@{}/s", exact_bytes(*rate)),
                    // A trailing colon keeps a path that ends like a size from being parsed as one,
                    // and blanks at the end of a path from being cut off.
                    None if capacity_bytes.is_none()
                        && split_capacity(&name).is_none()
                        && name.trim_end() == name =>
                    {
                        f.write_str(&name)
                    }
                    None => write!(f, "{name}:{size}"),
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
            let (path, capacity_bytes, bytes_per_second) = parse_path(rest)?;
            Ok(TierSpec::File { path, capacity_bytes, bytes_per_second })
        }
        "dev" => {
            let (path, capacity_bytes, bytes_per_second) = parse_path(rest)?;
            Ok(TierSpec::Device { path, capacity_bytes, bytes_per_second })
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

fn parse_path(rest: &str) -> Result<(PathBuf, Option<u64>, Option<u64>), String> {
    let (path, size) = split_capacity(rest).unwrap_or((rest, ""));
    if path.is_empty() {
        return Err("the path is missing".into());
    }
    let (size, rate) = size.split_once('@').map_or((size, None), |(size, rate)| (size, Some(rate)));
    let capacity_bytes = if size.is_empty() { None } else { Some(parse_capacity(size)?) };
    Ok((PathBuf::from(path), capacity_bytes, rate.map(parse_rate).transpose()?))
}

/// Splits a text at its last colon into the path and the size with its rate; `None` if the part
/// after the colon does not look like a size or rate.
fn split_capacity(text: &str) -> Option<(&str, &str)> {
    let (path, size) = text.rsplit_once(':')?;
    let is_size = size.is_empty() || size.starts_with(|c: char| c.is_ascii_digit() || c == '@');
    is_size.then_some((path, size))
}

/// Parses a rate such as `250MiB/s` into bytes per second.
fn parse_rate(text: &str) -> Result<u64, String> {
    let rate = text.strip_suffix("/s").and_then(|bytes| parse_bytes(bytes).ok());
    match rate {
        Some(rate) if rate >= STORE_RATE_MIN => Ok(rate),
        Some(_) => Err(format!("a rate of {text} is below the least, 1MiB/s")),
        None => Err(format!("\"{text}\" is not a rate such as 250MiB/s")),
    }
}

fn parse_capacity(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    if bytes < CAPACITY_BYTES_MIN {
        return Err(format!("{bytes} bytes are less than the least capacity, 4KiB"));
    }
    Ok(bytes)
}

/// Returns the total capacity of the memory tiers in bytes.
pub(crate) fn memory_bytes(specs: &[TierSpec]) -> u64 {
    let memory = specs.iter().filter(|spec| spec.is_memory());
    memory.filter_map(TierSpec::capacity_bytes).fold(0, u64::saturating_add)
}

/// Returns the number of tiers with this name.
pub(crate) fn count_named(specs: &[TierSpec], name: &str) -> u64 {
    to_u64(specs.iter().filter(|spec| spec.name() == name).count())
}
