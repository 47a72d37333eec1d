//! Samples as comma-separated values.

use std::io::{self, Write};

use super::report::Report;
use super::sample::Sample;

/// Writes a header line and one line per sample.
///
/// # Errors
/// Errors of the writer.
pub fn write_csv(report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", names(report).join(","))?;
    for sample in &report.samples {
        writeln!(out, "{}", values(sample).join(","))?;
    }
    Ok(())
}

fn names(report: &Report) -> Vec<String> {
    let fixed = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let tier = |name: &String| {
        ["resident_bytes", "fixes", "promoted", "demoted", "evicted"]
            .map(|what| format!("{name}_{what}"))
    };
    let tiers = report.total.tiers.iter().flat_map(|of| tier(&of.name)).collect();
    [
        fixed(&["end_seconds", "seconds", "operations", "per_second"]),
        fixed(&["p50_ns", "p95_ns", "p99_ns", "max_ns"]),
        fixed(report.kinds),
        tiers,
        fixed(&["loads", "loaded_bytes", "write_backs", "written_bytes", "waits"]),
    ]
    .concat()
}

fn values(sample: &Sample) -> Vec<String> {
    let mut values = vec![
        format!("{:.6}", sample.end_seconds),
        format!("{:.6}", sample.seconds),
        sample.count().to_string(),
        format!("{:.1}", sample.per_second()),
    ];
    let latency = &sample.latency;
    let mut push = |counts: &[u64]| values.extend(counts.iter().map(ToString::to_string));
    push(&[latency.p50_ns, latency.p95_ns, latency.p99_ns, latency.max_ns]);
    push(&sample.operations);
    for tier in &sample.tiers {
        push(&[tier.resident_bytes, tier.fixes, tier.promoted, tier.demoted, tier.evicted]);
    }
    let Sample { loads, loaded_bytes, write_backs, written_bytes, waits, .. } = *sample;
    push(&[loads, loaded_bytes, write_backs, written_bytes, waits]);
    values
}
