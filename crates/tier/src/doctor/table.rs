//! The report as human-readable tables.

use std::fmt;

use terrace_sys::size::format_bytes;

use super::{Report, TierReport};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Linux {}, {} processors, {} of memory, {} available; examined in {:.1} s",
            self.kernel,
            self.processors,
            format_bytes(self.memory_bytes),
            format_bytes(self.memory_available_bytes),
            self.seconds
        )?;
        section(f, "nodes", &["node", "memory", "free", "processors"], &self.node_rows())?;
        section(f, "features", &["feature", "", "detail"], &self.feature_rows())?;
        let columns = ["tier", "capacity", "latency", "read", "write", "how"];
        section(f, "tiers", &columns, &self.tiers.iter().map(tier_row).collect::<Vec<_>>())?;
        let columns = [
            "page",
            "copy",
            "UFFDIO_COPY",
            "UFFDIO_MOVE",
            "move_pages",
            "first touch",
            "give back",
            "in batches",
        ];
        section(f, "pages", &columns, &self.page_rows())?;
        self.fmt_mover(f)?;
        writeln!(f, "\nchecksums: {:.1}GiB/s", self.checksum_gib_per_s)?;
        self.fmt_errors(f)
    }
}

impl Report {
    fn node_rows(&self) -> Vec<Vec<String>> {
        let row = |node: &super::NodeReport| {
            vec![
                node.id.to_string(),
                format_bytes(node.total_bytes),
                format_bytes(node.free_bytes),
                node.processors.to_string(),
            ]
        };
        self.nodes.iter().map(row).collect()
    }

    fn feature_rows(&self) -> Vec<Vec<String>> {
        let row = |feature: &super::Feature| {
            let works = if feature.works { "yes" } else { "no" };
            vec![feature.name.clone(), works.into(), feature.detail.clone()]
        };
        self.features.iter().map(row).collect()
    }

    fn page_rows(&self) -> Vec<Vec<String>> {
        let known = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), time_us);
        let row = |costs: &crate::calibrate::PageCosts| {
            vec![
                format_bytes(costs.page_bytes),
                time_us(costs.copy_us),
                known(costs.fault_copy_us),
                known(costs.fault_move_us),
                known(costs.migrate_us),
                time_us(costs.touch_us),
                time_us(costs.decommit_us),
                time_us(costs.decommit_batch_us),
            ]
        };
        self.pages.iter().map(row).collect()
    }

    fn fmt_mover(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |cost: &crate::mover::MoverCost| {
            vec![cost.mover.clone(), time_us(cost.page_us), time_us(cost.few_us)]
        };
        let rows: Vec<_> = self.mover.costs.iter().map(row).collect();
        if !rows.is_empty() {
            section(f, "moving between nodes", &["how", "page of many", "of eight"], &rows)?;
        }
        writeln!(f, "\nmover: {}: {}", self.mover.name, self.mover.why)
    }

    fn fmt_errors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for feature in self.missing() {
            writeln!(f, "missing: {}: {}", feature.name, feature.cost)?;
        }
        for error in self.tiers.iter().filter_map(|tier| tier.error.as_ref()) {
            writeln!(f, "error: {error}")?;
        }
        Ok(())
    }
}

fn tier_row(tier: &TierReport) -> Vec<String> {
    let capacity = tier.capacity_bytes.map(format_bytes).unwrap_or_default();
    let mut row = vec![tier.name.clone(), capacity];
    if let Some(memory) = &tier.memory {
        row.push(time_us(memory.latency_ns / 1e3));
        row.push(format!("{:.1}GiB/s", memory.read_all_gib_per_s));
        row.push(format!("{:.1}GiB/s", memory.copy_gib_per_s));
        row.push("memory".into());
    } else if let Some(store) = &tier.store {
        let write = store.write_gib_per_s.map(|rate| format!("{rate:.1}GiB/s"));
        row.push(time_us(store.read_latency_us));
        row.push(format!("{:.1}GiB/s", store.read_gib_per_s));
        row.push(write.unwrap_or_else(|| "not tried".into()));
        row.push(format!("{}, {:.0} 4KiB reads/s", store.engine, store.reads_per_s));
    } else {
        row.push("not usable, see below".into());
    }
    row
}

/// Formats a time in a suitable unit.
fn time_us(us: f64) -> String {
    match us {
        us if us < 1.0 => format!("{:.0}ns", us * 1e3),
        us if us < 1e3 => format!("{us:.1}us"),
        us => format!("{:.1}ms", us / 1e3),
    }
}

/// Writes a title and rows under column names, each column as wide as its widest cell.
fn section(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    columns: &[&str],
    rows: &[Vec<String>],
) -> fmt::Result {
    let width = |index: usize| {
        let cells = rows.iter().filter_map(|row| row.get(index)).map(String::len);
        cells.chain(columns.get(index).map(|name| name.len())).max().unwrap_or(0)
    };
    let names: Vec<String> = columns.iter().map(|name| (*name).to_string()).collect();
    writeln!(f, "\n{title}")?;
    for row in std::iter::once(&names).chain(rows) {
        let cells = row.iter().enumerate();
        let line: Vec<String> =
            cells.map(|(index, cell)| format!("{cell:width$}", width = width(index))).collect();
        writeln!(f, "  {}", line.join("  ").trim_end())?;
    }
    Ok(())
}
