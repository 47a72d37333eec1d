//! EXPLAIN (FORMAT TEXT): the tree of operators as lines of text.
//!
//! ```text
//! SORT (estimated 4 rows, actual 3 rows, 0.120 ms)
//!   By: n DESC
//!   -> SCAN t (estimated 4 rows, actual 3 rows, 0.310 ms)
//!        Columns: n
//!        Read: 4.0 KiB from DRAM
//! ```

use super::operator::{Bytes, Measured, Millis, Operator, Summary, rows};
use super::options::Options;

/// Label of the most bytes that an operator held at one time.
const PEAK: &str = "Memory at the peak";

/// Formats a tree and its summary, one string per line.
pub(super) fn written(root: &Operator, options: Options, summary: Summary) -> Vec<String> {
    let mut lines = Vec::new();
    write(&mut lines, root, options, 0);
    if options.summary {
        summarize(&mut lines, root, options, summary);
    }
    lines
}

fn write(lines: &mut Vec<String>, operator: &Operator, options: Options, depth: usize) {
    // An arrow takes three columns; the lines below it are indented behind it.
    let (mark, margin) = match depth {
        0 => (String::new(), "  ".to_owned()),
        depth => (format!("{}-> ", " ".repeat(5 * depth - 3)), " ".repeat(5 * depth + 2)),
    };
    let known = known(operator, options);
    let known = if known.is_empty() { known } else { format!(" ({known})") };
    lines.push(format!("{mark}{}{known}", operator.words.title()));
    for (label, text) in details(operator, options) {
        lines.push(format!("{margin}{label}: {text}"));
    }
    operator.inputs.iter().for_each(|input| write(lines, input, options, depth + 1));
}

/// Estimated and actual rows and the time of an operator, as far as the options show them,
/// separated by commas.
pub(super) fn known(operator: &Operator, options: Options) -> String {
    let mut known = Vec::new();
    if let Some(estimated) = operator.estimated_rows.filter(|_| options.costs) {
        known.push(format!("estimated {}", rows(estimated)));
    }
    let measured = operator.measured.filter(|_| options.analyze).unwrap_or_default();
    known.extend(measured.rows.map(|actual| format!("actual {}", rows(actual))));
    known.extend(measured.nanos.filter(|_| options.timing).map(|it| Millis(it).to_string()));
    known.join(", ")
}

/// The properties of an operator and its bytes, with their labels.
pub(super) fn details(operator: &Operator, options: Options) -> Vec<(String, String)> {
    let mut details = operator.words.details.clone();
    if options.analyze && options.buffers {
        details.extend(bytes(&operator.measured.unwrap_or_default()));
    }
    details
}

/// Bytes held, spilled and read, with their labels.
fn bytes(measured: &Measured) -> Vec<(String, String)> {
    let size = |bytes: u64| if bytes > 0 { Bytes(bytes).to_string() } else { String::new() };
    let labelled = [
        (PEAK, size(measured.peak_bytes)),
        ("Spilled", size(measured.spilled_bytes)),
        ("Read", measured.read()),
    ];
    let labelled = labelled.into_iter().filter(|(_, text)| !text.is_empty());
    labelled.map(|(label, text)| (label.to_owned(), text)).collect()
}

fn summarize(lines: &mut Vec<String>, root: &Operator, options: Options, summary: Summary) {
    lines.push(format!("Planning time: {}", Millis(summary.planning_nanos)));
    let Some(execution) = summary.execution_nanos else { return };
    lines.push(format!("Execution time: {}", Millis(execution)));
    if options.buffers {
        for (label, text) in bytes(&root.total()) {
            // The operators need not have their peaks at the same time.
            let most = if label == PEAK { "at most " } else { "" };
            lines.push(format!("Total {}: {most}{text}", lower(&label)));
        }
    }
}

/// A label with a lower-case first letter.
fn lower(label: &str) -> String {
    let mut characters = label.chars();
    let first = characters.next().map(|first| first.to_lowercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}
