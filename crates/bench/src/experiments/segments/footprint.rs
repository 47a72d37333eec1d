//! Figure 6: bytes of small objects, large objects and metadata in the allocator after the move of
//! the tables.

use serde::Serialize;
use terrace_heap::Metadata;
use terrace_sys::size::format_bytes;

use super::figure::Figure;
use super::heap_case::{HeapCase, Passes, Visit};
use super::row::{Footprint, Group, Line};
use crate::report::{Bars, Series};

/// Bytes of metadata relative to the data by benchmark, as published at scale 8.
const PUBLISHED_SHARE: [(&str, f64); 2] = [("tpch", 0.0035), ("tpcds", 0.001)];

/// Bytes that one migration took.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Share {
    pub(super) benchmark: &'static str,
    pub(super) scale: f64,
    pub(super) memory: String,
    #[serde(flatten)]
    footprint: Footprint,
    metadata_share: f64,
    published_share: Option<f64>,
}

pub(super) fn visits(memory: &str, data_bytes: u64) -> Vec<Visit> {
    let place = HeapCase::published(memory, data_bytes, Metadata::Separate);
    vec![Visit { figure: Figure::Footprint, place, passes: Passes::None, round: 0 }]
}

pub(super) fn shares(group: &Group<'_>) -> Vec<Share> {
    let published = PUBLISHED_SHARE.iter().find(|(benchmark, _)| *benchmark == group.benchmark);
    let share = |memory: &str| {
        let row = group.rows.iter().find(|row| group.has(row) && row.memory == memory)?;
        let data_bytes = row.footprint.small_bytes + row.footprint.large_bytes;
        Some(Share {
            benchmark: group.benchmark,
            scale: group.scale,
            memory: memory.to_owned(),
            footprint: row.footprint,
            metadata_share: row.footprint.metadata_bytes as f64 / data_bytes as f64,
            published_share: published.map(|(_, share)| *share),
        })
    };
    group.memories().into_iter().filter_map(share).collect()
}

fn percent(share: f64) -> String {
    format!("{:.3} %", share * 100.0)
}

impl Share {
    pub(super) fn lines(&self) -> Vec<Line> {
        let Footprint { small_bytes, large_bytes, metadata_bytes, .. } = self.footprint;
        let line =
            |case: &str, found: String| Line { case: case.to_owned(), found, ..Line::default() };
        let published = self.published_share.map_or_else(String::new, percent);
        let base = format!("{}, {}", format_bytes(metadata_bytes), percent(self.metadata_share));
        vec![
            line("small", format_bytes(small_bytes)),
            line("large", format_bytes(large_bytes)),
            Line { published, ..line("base", base) },
        ]
    }
}

/// Draws the shares of metadata; `None` if there are no results.
pub(super) fn picture(shares: &[Share]) -> Option<Bars> {
    let series = |name: &str, of: fn(&Share) -> Option<f64>| Series {
        name: name.to_owned(),
        values: shares.iter().map(|share| of(share).map(|part| part * 100.0)).collect(),
    };
    let category = |share: &Share| format!("{} {}, {}", share.benchmark, share.scale, share.memory);
    (!shares.is_empty()).then(|| Bars {
        title: "Figure 6: metadata of tables in a heap".into(),
        unit: "% of the data".into(),
        categories: shares.iter().map(category).collect(),
        series: vec![
            series("here", |share| Some(share.metadata_share)),
            series("published, at scale 8", |share| share.published_share),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::made_up;
    use super::super::{Row, summarise};
    use super::*;

    #[test]
    fn metadata_are_a_share_of_small_and_large() {
        let rows: Vec<Row> = ["file", "emu"]
            .iter()
            .flat_map(|memory| visits(memory, 1000))
            .map(|visit| made_up(&visit, 1.0, 0.0))
            .collect();
        let shares = summarise(&rows).footprint;
        assert_eq!(shares.len(), 2);
        assert!((shares[1].metadata_share - 0.005).abs() < 1e-12, "{shares:?}");
        let lines = shares[0].lines();
        assert_eq!((lines[0].found.as_str(), lines[1].found.as_str()), ("100B", "900B"));
        assert_eq!(lines[2].found, "5B, 0.500 %");
        assert_eq!(lines[2].published, "0.350 %");
        let bars = picture(&shares).expect("two bars");
        let published = bars.series[1].values[1].expect("TPC-H has one");
        assert!((published - 0.35).abs() < 1e-12, "{published}");
        assert!(picture(&[]).is_none());
    }
}
