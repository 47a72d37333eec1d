//! Descriptions of scans and other sources of rows in EXPLAIN.

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use terrace_table::scan::SegmentSource;

use super::super::operator::Words;
use super::expressions::{conditions, named};

/// The description of a source of rows; `None` for any other operator.
pub(super) fn words(node: &dyn ExecutionPlan) -> Option<Words> {
    if let Some(scan) = node.downcast_ref::<DataSourceExec>() {
        return Some(match scan.downcast_to_file_source::<SegmentSource>() {
            Some((config, source)) => table(config, source),
            None => other(scan),
        });
    }
    if node.is::<EmptyExec>() {
        return Some(Words::new("EMPTY", ""));
    }
    if node.is::<PlaceholderRowExec>() {
        return Some(Words::new("ONE ROW", ""));
    }
    let is_generated = node.is::<StreamingTableExec>() || node.name() == "LazyMemoryExec";
    is_generated.then(|| {
        let schema = node.schema();
        let columns: Vec<_> = schema.fields().iter().map(|it| it.name().as_str()).collect();
        Words::new("SCAN", "of generated rows").with("Columns", columns.join(", "))
    })
}

fn table(config: &FileScanConfig, source: &SegmentSource) -> Words {
    use datafusion::datasource::physical_plan::FileSource as _;
    let projected = source.projection().into_iter().flat_map(|it| it.iter());
    let columns: Vec<_> = projected.map(|it| named(&it.expr, &it.alias)).collect();
    let (fixed, dynamic) = source.filter().map(|it| conditions(&it)).unwrap_or_default();
    let limit = config.limit.map(|limit| limit.to_string());
    Words::new("SCAN", source.table_name())
        .with("Columns", columns.join(", "))
        .with("Pushed filter", fixed)
        .with("Pushed filter of a join or sort", dynamic)
        .with("Limit", limit.unwrap_or_default())
}

/// The description of a scan of files or of values, from its text in DataFusion's plans.
fn other(scan: &DataSourceExec) -> Words {
    let lines = Lines(scan).to_string();
    let properties = lines.lines().filter_map(|line| line.split_once('='));
    let schema = scan.schema();
    let columns: Vec<_> = schema.fields().iter().map(|it| it.name().as_str()).collect();
    let mut words = Words::new("SCAN", "").with("Columns", columns.join(", "));
    for (name, value) in properties {
        match name {
            "format" if value == "memory" => "of values".clone_into(&mut words.subject),
            "format" => words.subject = format!("of {value} files"),
            "bytes" => {}
            name => words = words.with(&capital(name), value.trim()),
        }
    }
    words
}

fn capital(name: &str) -> String {
    let mut characters = name.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + &characters.as_str().replace('_', " ")
}

/// Formats a node as DataFusion's tree does: lines of `name=value`.
struct Lines<'a>(&'a DataSourceExec);

impl std::fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use datafusion::physical_plan::DisplayAs as _;
        self.0.fmt_as(DisplayFormatType::TreeRender, f)
    }
}
