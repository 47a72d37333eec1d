//! The report about a machine as text tables.

use std::fmt;

use terrace_sys::size::format_bytes;
use terrace_tier::calibrate::PageCosts;
use terrace_tier::doctor::{Feature, NodeReport, Report, TierReport};
use terrace_tier::mover::MoverCost;

use crate::text_table::TextTable;

/// A report that displays as one table a subject.
pub struct Tables<'a>(pub &'a Report);

impl fmt::Display for Tables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tables(report) = self;
        writeln!(
            f,
            "Linux {}, {} processors, {} of memory, {} available; examined in {:.1} s",
            report.kernel,
            report.processors,
            format_bytes(report.memory_bytes),
            format_bytes(report.memory_available_bytes),
            report.seconds
        )?;
        section(f, "nodes", &["node", "memory", "free", "processors"], &report.nodes, node)?;
        section(f, "features", &["feature", "works", "detail"], &report.features, feature)?;
        let columns = ["tier", "capacity", "latency", "read", "write", "engine"];
        section(f, "tiers", &columns, &report.tiers, tier)?;
        let columns = [
            "page",
            "copy",
            "UFFDIO_COPY",
            "UFFDIO_MOVE",
            "move_pages",
            "first touch",
            "decommit",
            "in batches",
        ];
        section(f, "pages", &columns, &report.pages, page)?;
        if !report.mover.costs.is_empty() {
            let columns = ["mover", "page of many", "page of eight"];
            section(f, "moving between nodes", &columns, &report.mover.costs, mover)?;
        }
        writeln!(f, "\nmover: {}: {}", report.mover.name, report.mover.why)?;
        writeln!(f, "\nchecksums: {:.1}GiB/s", report.checksum_gib_per_s)?;
        for feature in report.missing() {
            writeln!(f, "missing: {}: {}", feature.name, feature.cost)?;
        }
        for error in report.tiers.iter().filter_map(|tier| tier.error.as_ref()) {
            writeln!(f, "error: {error}")?;
        }
        Ok(())
    }
}

/// Writes a title and a table with one row an item.
fn section<T>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    columns: &[&str],
    items: &[T],
    row: fn(&T) -> Vec<String>,
) -> fmt::Result {
    let mut table = TextTable::new(columns.iter().copied()).wide();
    items.iter().for_each(|item| table.push(row(item)));
    write!(f, "\n{title}\n{table}")
}

fn node(node: &NodeReport) -> Vec<String> {
    vec![
        node.id.to_string(),
        format_bytes(node.total_bytes),
        format_bytes(node.free_bytes),
        node.processors.to_string(),
    ]
}

fn feature(feature: &Feature) -> Vec<String> {
    let works = if feature.works { "yes" } else { "no" };
    vec![feature.name.clone(), works.into(), feature.detail.clone()]
}

fn tier(tier: &TierReport) -> Vec<String> {
    let capacity = tier.capacity_bytes.map(format_bytes).unwrap_or_default();
    let mut row = vec![tier.name.clone(), capacity];
    if let Some(memory) = &tier.memory {
        row.push(duration(memory.latency_ns / 1e3));
        row.push(format!("{:.1}GiB/s", memory.read_all_gib_per_s));
        row.push(format!("{:.1}GiB/s", memory.copy_gib_per_s));
        row.push("memory".into());
    } else if let Some(store) = &tier.store {
        let write = store.write_gib_per_s.map(|rate| format!("{rate:.1}GiB/s"));
        row.push(duration(store.read_latency_us));
        row.push(format!("{:.1}GiB/s", store.read_gib_per_s));
        row.push(write.unwrap_or_else(|| "not tried".into()));
        row.push(format!("{}, {:.0} 4KiB reads/s", store.engine, store.reads_per_s));
    } else {
        row.push("not usable, see below".into());
    }
    row
}

fn page(costs: &PageCosts) -> Vec<String> {
    let known = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), duration);
    vec![
        format_bytes(costs.page_bytes),
        duration(costs.copy_us),
        known(costs.fault_copy_us),
        known(costs.fault_move_us),
        known(costs.migrate_us),
        duration(costs.touch_us),
        duration(costs.decommit_us),
        duration(costs.decommit_batch_us),
    ]
}

fn mover(cost: &MoverCost) -> Vec<String> {
    vec![cost.mover.clone(), duration(cost.page_us), duration(cost.few_us)]
}

/// Formats a duration in microseconds in a suitable unit.
fn duration(us: f64) -> String {
    match us {
        us if us < 1.0 => format!("{:.0}ns", us * 1e3),
        us if us < 1e3 => format!("{us:.1}us"),
        us => format!("{:.1}ms", us / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use terrace_tier::calibrate::Effort;

    use super::*;

    #[test]
    fn the_tables_name_what_works_and_what_is_wrong() {
        let missing = ["file:/missing/dir/store:1GiB".parse().expect("a tier")];
        let mut report = Report::gather_with(&missing, &std::env::temp_dir(), &Effort::brief());
        report.features.push(Feature {
            name: "wings".into(),
            works: false,
            detail: "none grown".into(),
            cost: "it walks".into(),
        });
        let text = Tables(&report).to_string();
        for part in [
            "Linux ",
            "io_uring",
            "dram",
            "256KiB",
            "checksums",
            "mover: move_pages",
            "missing: wings: it walks",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.contains("error: tier \"file:/missing/dir/store:1GiB\""), "{text}");
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    }
}
