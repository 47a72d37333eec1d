//! Resolution of tier specifications against this machine: validation, memory tiers and stores.

use std::io;
use std::path::{Path, PathBuf};

use terrace_store::{EXTENT_ALIGN_BYTES, Store, StoreError};
use terrace_sys::file::DirectFile;
use terrace_sys::file_system::free_bytes;
use terrace_sys::numa::Node;
use terrace_sys::probe::Probe;
use terrace_sys::size::format_bytes;

use super::{NodeKind, TierSpec, count_named, memory_bytes};
use crate::error::TierError;
use crate::memory::MemoryTier;

/// Function that opens a store by its path, with an optional capacity.
type Open = fn(&Path, Option<u64>) -> Result<Store, StoreError>;

impl TierSpec {
    /// Checks that this machine has the tier in the requested size. Creates nothing.
    ///
    /// # Errors
    /// [`TierError::Unavailable`], which names what is available instead.
    pub fn validate(&self, probe: &Probe) -> Result<(), TierError> {
        let checked = match self {
            TierSpec::Dram { capacity_bytes } | TierSpec::Emulated { capacity_bytes, .. } => {
                check_memory(*capacity_bytes, probe)
            }
            TierSpec::Node { node, capacity_bytes, .. } => find_node(*node, probe)
                .and_then(|node| check_node(node, *capacity_bytes))
                .and_then(|()| check_memory(*capacity_bytes, probe)),
            TierSpec::File { path, capacity_bytes, .. } => check_file(path, *capacity_bytes),
            TierSpec::Device { path, capacity_bytes, .. } => check_device(path, *capacity_bytes),
        };
        checked.map_err(|reason| self.unavailable(reason))
    }

    /// Checks each tier, that none is named twice, and that the memory tiers fit into memory
    /// together.
    ///
    /// # Errors
    /// As [`TierSpec::validate`], for the first invalid tier.
    pub fn validate_all(specs: &[TierSpec], probe: &Probe) -> Result<(), TierError> {
        for spec in specs {
            spec.validate(probe)?;
            if count_named(specs, &spec.name()) > 1 {
                return Err(
                    spec.unavailable("it is named twice; name it once, with its size".into())
                );
            }
        }
        match specs.iter().rfind(|spec| spec.is_memory()) {
            Some(last) => check_memory(memory_bytes(specs), probe)
                .map_err(|reason| last.unavailable(format!("with the tiers before it, {reason}"))),
            None => Ok(()),
        }
    }

    /// Returns the memory tier of this specification; `None` for a store.
    ///
    /// # Errors
    /// [`TierError::Unavailable`] when there is no such node.
    pub fn memory_tier(&self, probe: &Probe) -> Result<Option<MemoryTier>, TierError> {
        let (node, capacity_bytes, latency_ns) = match self {
            TierSpec::Dram { capacity_bytes } => (None, *capacity_bytes, 0),
            TierSpec::Emulated { capacity_bytes, latency_ns } => {
                (None, *capacity_bytes, *latency_ns)
            }
            TierSpec::Node { node, capacity_bytes, .. } => {
                let found = find_node(*node, probe);
                let node = found.map_err(|reason| self.unavailable(reason))?;
                (Some(node.id), *capacity_bytes, 0)
            }
            TierSpec::File { .. } | TierSpec::Device { .. } => return Ok(None),
        };
        Ok(Some(MemoryTier { name: self.name(), capacity_bytes, node, latency_ns }))
    }

    /// Opens the store of this specification, with its rate; `None` for a memory tier.
    ///
    /// # Errors
    /// [`TierError::Store`] when the file or device cannot be opened, or holds foreign data: see
    /// [`Store::open_file`].
    pub fn open_store(&self) -> Result<Option<Store>, TierError> {
        self.store_by(Store::open_file, Store::open_device)
    }

    /// As [`TierSpec::open_store`], regardless of the contents of the file or device: see
    /// [`Store::overwrite_file`]. For owners that check the label themselves.
    ///
    /// # Errors
    /// [`TierError::Store`] when the file or device cannot be opened.
    pub fn overwrite_store(&self) -> Result<Option<Store>, TierError> {
        self.store_by(Store::overwrite_file, Store::overwrite_device)
    }

    /// As [`TierSpec::overwrite_store`], for an existing file: nothing is created.
    ///
    /// # Errors
    /// As [`TierSpec::overwrite_store`], and when there is no such file.
    pub fn reopen_store(&self) -> Result<Option<Store>, TierError> {
        self.store_by(Store::reopen_file, Store::overwrite_device)
    }

    fn store_by(&self, file: Open, device: Open) -> Result<Option<Store>, TierError> {
        let (open, path, capacity_bytes, rate) = match self {
            TierSpec::File { path, capacity_bytes, bytes_per_second } => {
                (file, path, capacity_bytes, bytes_per_second)
            }
            TierSpec::Device { path, capacity_bytes, bytes_per_second } => {
                (device, path, capacity_bytes, bytes_per_second)
            }
            _ => return Ok(None),
        };
        let store = open(path, *capacity_bytes)?;
        Ok(Some(match rate {
            Some(bytes_per_second) => store.with_rate(*bytes_per_second),
            None => store,
        }))
    }

    fn unavailable(&self, reason: String) -> TierError {
        TierError::Unavailable { spec: self.to_string(), reason }
    }
}

fn check_memory(capacity_bytes: u64, probe: &Probe) -> Result<(), String> {
    let (has, most) = match probe.memory_limit_bytes {
        Some(limit) if limit < probe.memory_bytes => ("the control group allows", limit),
        _ => ("this machine has", probe.memory_bytes),
    };
    if capacity_bytes <= most {
        return Ok(());
    }
    Err(format!(
        "{} of memory are wanted, {has} {}, of which {} are available",
        format_bytes(capacity_bytes),
        format_bytes(most),
        format_bytes(probe.memory_available_bytes.min(most))
    ))
}

/// Finds the node with a number, or the node without processors.
fn find_node(node: Option<u32>, probe: &Probe) -> Result<&Node, String> {
    let wanted = |candidate: &&Node| match node {
        Some(id) => candidate.id == id,
        None => candidate.cpus.is_empty(),
    };
    probe.nodes.iter().find(wanted).ok_or_else(|| {
        let what = match node {
            Some(id) => format!("there is no node {id}"),
            None => "there is no node without processors, as a memory expander is one".into(),
        };
        format!("{what}; this machine has {}; emu:SIZE@250ns acts like a remote one", list(probe))
    })
}

fn check_node(node: &Node, capacity_bytes: u64) -> Result<(), String> {
    if capacity_bytes <= node.total_bytes {
        return Ok(());
    }
    Err(format!(
        "node {} has {}, of which {} are free",
        node.id,
        format_bytes(node.total_bytes),
        format_bytes(node.free_bytes)
    ))
}

/// Lists the nodes: `node0 (24.0GiB, 2 processors), node1 (8GiB, no processors)`.
fn list(probe: &Probe) -> String {
    let describe = |node: &Node| {
        let processors = match node.cpus.len() {
            0 => "no processors".to_string(),
            count => format!("{count} processors"),
        };
        format!(
            "{}{} ({}, {processors})",
            NodeKind::Node.word(),
            node.id,
            format_bytes(node.total_bytes)
        )
    };
    probe.nodes.iter().map(describe).collect::<Vec<_>>().join(", ")
}

fn check_file(path: &Path, capacity_bytes: Option<u64>) -> Result<(), String> {
    let existing_bytes = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Ok(metadata) if metadata.is_dir() => {
            let example = path.join("store.terrace");
            return Err(format!("it is a directory; name a file, such as {}", example.display()));
        }
        Ok(_) => return Err("it is not a regular file; block devices are named dev:PATH".into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error.to_string()),
    };
    let dir = directory_of(path);
    let free = free_bytes(&dir)
        .map_err(|error| format!("its directory {} is not usable: {error}", dir.display()))?;
    let room = existing_bytes.saturating_add(free);
    match capacity_bytes {
        Some(wanted) if wanted > room => {
            Err(format!("the file system of {} has room for {}", dir.display(), format_bytes(room)))
        }
        _ => Ok(()),
    }
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

fn check_device(path: &Path, capacity_bytes: Option<u64>) -> Result<(), String> {
    let device = DirectFile::device(path).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => "it is busy: mounted, or used by another store".to_string(),
        _ => error.to_string(),
    })?;
    let len = device.len().map_err(|error| error.to_string())?;
    let alignment = device.alignment();
    let align_bytes = alignment.memory_bytes.max(alignment.offset_bytes);
    if align_bytes > EXTENT_ALIGN_BYTES {
        return Err(format!("its blocks have {align_bytes} bytes, the most is 4KiB"));
    }
    match capacity_bytes {
        Some(wanted) if wanted > len => Err(format!("the device has {}", format_bytes(len))),
        _ => Ok(()),
    }
}
