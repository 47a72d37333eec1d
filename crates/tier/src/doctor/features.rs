//! Features of the kernel and the machine, and the cost of doing without each.

use serde::Serialize;
use terrace_sys::probe::{Probe, Support};

use super::TierReport;

/// A feature that this machine has or lacks.
#[derive(Clone, Debug, Serialize)]
pub struct Feature {
    /// Name of the feature.
    pub name: String,
    /// True if the feature is available.
    pub works: bool,
    /// Details of the feature, or the reason why it is missing.
    pub detail: String,
    /// Cost of doing without the feature; empty if it is available.
    pub cost: String,
}

pub(super) fn list(probe: &Probe, tiers: &[TierReport]) -> Vec<Feature> {
    vec![
        supported(
            "io_uring",
            &probe.io_uring,
            "batched transfers",
            "transfers go one a thread by pread and pwrite, at most four at a time: a sixth of \
             the throughput of small reads",
        ),
        direct_io(tiers),
        supported(
            "process_madvise",
            &probe.process_madvise,
            "memory of many frames is given back in one call",
            "each run of frames is given back by a call of its own, at about twice the cost",
        ),
        huge_pages(probe),
        remote_memory(probe),
        supported(
            "move_pages",
            &probe.move_pages,
            "the kernel tells and changes the node of a page",
            "the node of a page cannot be verified",
        ),
        supported(
            "move_pages2",
            &probe.move_pages2,
            "a patch of the kernel: a result for each page, and cheap calls of few pages",
            "little: batches of 512 cost the same by move_pages, only calls of few pages cost more",
        ),
        supported(
            "userfaultfd",
            &probe.userfaultfd,
            &notable(&probe.userfaultfd_features),
            "address ranges cannot be paged by this process",
        ),
        supported(
            "userfaultfd in system calls",
            &probe.userfaultfd_system_calls,
            "system calls may be given any address of a region",
            "ranges passed to system calls must be pinned, or the call fails with EFAULT",
        ),
    ]
}

/// Lists the userfaultfd features that make paging cheaper or safer, out of some twenty.
fn notable(features: &[&str]) -> String {
    let notable = ["wp-async", "poison", "move"].into_iter().filter(|name| features.contains(name));
    let names: Vec<&str> = ["missing"].into_iter().chain(notable).collect();
    names.join(", ")
}

fn supported(name: &str, support: &Support, works: &str, cost: &str) -> Feature {
    match support {
        Support::Works => feature(name, works.to_string(), None),
        Support::Missing(reason) => feature(name, reason.clone(), Some(cost)),
    }
}

fn feature(name: &str, detail: String, cost: Option<&str>) -> Feature {
    Feature {
        name: name.into(),
        works: cost.is_none(),
        detail,
        cost: cost.unwrap_or_default().into(),
    }
}

/// Reports whether every store of the report bypasses the page cache.
fn direct_io(tiers: &[TierReport]) -> Feature {
    let stores = || tiers.iter().filter_map(|tier| Some((&tier.name, tier.store.as_ref()?)));
    let buffered: Vec<&str> = stores()
        .filter(|(_, figures)| figures.engine.contains("page cache"))
        .map(|(name, _)| name.as_str())
        .collect();
    if buffered.is_empty() {
        return feature("direct I/O", "transfers bypass the page cache".into(), None);
    }
    let detail = format!("the file system refuses it for {}", buffered.join(", "));
    let cost =
        "pages are held twice, in the pool and in the kernel's cache, which no budget counts";
    feature("direct I/O", detail, Some(cost))
}

fn huge_pages(probe: &Probe) -> Feature {
    let cost = "nothing for the pool, whose frames decline them; their gain cannot be measured";
    let missing = matches!(probe.huge_pages.as_str(), "never" | "absent");
    feature("huge pages", probe.huge_pages.clone(), missing.then_some(cost))
}

fn remote_memory(probe: &Probe) -> Feature {
    let count = probe.nodes.len();
    let cost = "there is no second memory to place pages in; emu:SIZE@250ns acts like one";
    let detail = if count == 1 { "one node".to_string() } else { format!("{count} nodes") };
    feature("memory nodes", detail, (count < 2).then_some(cost))
}
