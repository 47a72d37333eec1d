//! Detects the kernel's features that this process may use, by trying them, never by version alone.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use crate::map::{Mapping, decommits_in_batches};
use crate::migrate::{MovePages2, nodes_of};
use crate::numa::{self, Node, kib_field};
use crate::size::PAGE_BYTES;
use crate::uring::Ring;
use crate::userfault::{self, FaultsOf};

/// Availability of a facility, with the kernel's error and a remedy if it is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// The facility works.
    Works,
    /// The facility does not work, for this reason.
    Missing(String),
}

impl Support {
    /// True if the facility works.
    #[must_use]
    pub fn works(&self) -> bool {
        matches!(self, Support::Works)
    }
}

/// Detected features and sizes of this machine. [`Probe::detect`] takes about a millisecond.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Release of the kernel, for display.
    pub kernel_release: String,
    /// Batches of direct transfers (io_uring).
    pub io_uring: Support,
    /// Paging in user space (userfaultfd).
    pub userfaultfd: Support,
    /// Features of userfaultfd, by the kernel's names.
    pub userfaultfd_features: Vec<&'static str>,
    /// Handling of faults of system calls too, not of user code alone.
    pub userfaultfd_system_calls: Support,
    /// Decommitting many ranges in one call (`process_madvise`).
    pub process_madvise: Support,
    /// Migrating pages between nodes.
    pub move_pages: Support,
    /// Migrating pages in batches of any size, by a patch of the kernel.
    pub move_pages2: Support,
    /// Mode of transparent huge pages: `always`, `madvise`, `never`, or `absent`.
    pub huge_pages: String,
    /// Total memory of the machine, in bytes.
    pub memory_bytes: u64,
    /// Memory that can be allocated without swapping, in bytes (`MemAvailable`).
    pub memory_available_bytes: u64,
    /// Memory limit of the control group, in bytes, if it has one.
    pub memory_limit_bytes: Option<u64>,
    /// Number of processors that this process may use.
    pub cpus: usize,
    /// NUMA nodes with memory.
    pub nodes: Vec<Node>,
    /// Maximum number of mappings of a process (`vm.max_map_count`).
    pub mappings_max: u64,
    /// True if the effective user is root.
    pub root: bool,
}

impl Probe {
    /// Probes the kernel.
    #[must_use]
    pub fn detect() -> Probe {
        let (userfaultfd, userfaultfd_features, userfaultfd_system_calls) = userfaultfd();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Probe {
            kernel_release: read_trimmed("/proc/sys/kernel/osrelease"),
            io_uring: io_uring(),
            userfaultfd,
            userfaultfd_features,
            userfaultfd_system_calls,
            process_madvise: process_madvise(),
            move_pages: move_pages(),
            move_pages2: move_pages2(),
            huge_pages: huge_pages(),
            memory_bytes: kib_field(&memory, "MemTotal:").unwrap_or(0),
            memory_available_bytes: kib_field(&memory, "MemAvailable:").unwrap_or(0),
            memory_limit_bytes: memory_limit_bytes(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            nodes: numa::nodes(),
            mappings_max: read_trimmed("/proc/sys/vm/max_map_count").parse().unwrap_or(0),
            // SAFETY: returns an integer and cannot fail.
            root: unsafe { libc::geteuid() } == 0,
        }
    }
}

fn read_trimmed(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_string()
}

fn io_uring() -> Support {
    match Ring::new(2) {
        Ok(_) => Support::Works,
        Err(error) => Support::Missing(match error.raw_os_error() {
            Some(libc::ENOSYS) => "the kernel was built without it".into(),
            Some(libc::EPERM | libc::EACCES) => format!(
                "the kernel refuses it ({error}): set kernel.io_uring_disabled to 0, or allow it \
                 in the container's seccomp profile"
            ),
            Some(libc::ENOMEM) => format!("{error}: raise the limit of locked memory (ulimit -l)"),
            _ => error.to_string(),
        }),
    }
}

fn process_madvise() -> Support {
    if decommits_in_batches() {
        return Support::Works;
    }
    Support::Missing("the kernel does not take MADV_DONTNEED there (6.13 and later do)".into())
}

fn move_pages() -> Support {
    match Mapping::reserve(PAGE_BYTES).and_then(|mapping| {
        mapping.populate(0, PAGE_BYTES)?;
        nodes_of(&mapping, &[0])
    }) {
        Ok(_) => Support::Works,
        Err(error) => Support::Missing(error.to_string()),
    }
}

fn move_pages2() -> Support {
    MovePages2::find().map_or_else(Support::Missing, |_| Support::Works)
}

/// Names of the feature bits of userfaultfd, from bit 0.
const USERFAULTFD_FEATURES: [&str; 17] = [
    "wp",
    "event-fork",
    "event-remap",
    "event-remove",
    "missing-hugetlbfs",
    "missing-shmem",
    "event-unmap",
    "sigbus",
    "thread-id",
    "minor-hugetlbfs",
    "minor-shmem",
    "exact-address",
    "wp-hugetlbfs-shmem",
    "wp-unpopulated",
    "poison",
    "wp-async",
    "move",
];

/// Returns the support of userfaultfd, its features, and the support of faults of system calls.
fn userfaultfd() -> (Support, Vec<&'static str>, Support) {
    let told = userfault::open_any()
        .and_then(|(fd, faults)| userfaultfd_features(&fd).map(|features| (features, faults)));
    match told {
        Ok((features, FaultsOf::All)) => (Support::Works, features, Support::Works),
        Ok((features, FaultsOf::UserCode)) => {
            let reason = "faults of user code alone are granted: set \
                          vm.unprivileged_userfaultfd to 1, or grant CAP_SYS_PTRACE or access to \
                          /dev/userfaultfd";
            (Support::Works, features, Support::Missing(reason.to_owned()))
        }
        Err(error) => {
            let reason = format!("{error}; a container's seccomp profile may refuse it");
            (Support::Missing(reason.clone()), Vec::new(), Support::Missing(reason))
        }
    }
}

/// Returns the names of all features: `UFFDIO_API` without a feature reports those of the kernel.
fn userfaultfd_features(fd: &OwnedFd) -> io::Result<Vec<&'static str>> {
    let bits = userfault::enable(fd, 0)?;
    let named = USERFAULTFD_FEATURES.iter().enumerate();
    Ok(named.filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| *name).collect())
}

/// Returns the word in brackets of `always [madvise] never`.
fn huge_pages() -> String {
    let text = read_trimmed("/sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or("absent", |(word, _)| word).to_string()
}

/// Returns the lowest `memory.max` from this process's control group up to the root.
fn memory_limit_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?.to_string();
    let mut group = std::path::Path::new("/sys/fs/cgroup").join(path);
    let mut lowest = None;
    while group.starts_with("/sys/fs/cgroup") {
        let limit = fs::read_to_string(group.join("memory.max"));
        let limit = limit.ok().and_then(|text| text.trim().parse::<u64>().ok());
        lowest = lowest.into_iter().chain(limit).min();
        if !group.pop() {
            break;
        }
    }
    lowest
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn the_probe_finds_what_every_linux_has() {
        let probe = Probe::detect();
        assert!(probe.kernel_release.starts_with(|c: char| c.is_ascii_digit()));
        assert!(probe.memory_bytes > 0 && probe.memory_available_bytes <= probe.memory_bytes);
        assert!(probe.cpus > 0 && !probe.nodes.is_empty() && probe.mappings_max > 0);
        assert!(["always", "madvise", "never", "absent"].contains(&probe.huge_pages.as_str()));
        assert_eq!(probe.userfaultfd.works(), !probe.userfaultfd_features.is_empty());
    }

    #[test]
    fn what_is_missing_says_why() {
        let probe = Probe::detect();
        let faults = [probe.userfaultfd, probe.userfaultfd_system_calls];
        let paging = faults.into_iter().chain([probe.process_madvise]);
        let moving = [probe.move_pages, probe.move_pages2];
        let all = [probe.io_uring].into_iter().chain(paging).chain(moving);
        for support in all {
            assert!(!matches!(support, Support::Missing(reason) if reason.is_empty()));
        }
    }
}
