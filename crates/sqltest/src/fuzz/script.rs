//! Writes a failing case as a script that reproduces it.

use std::fmt::Write;
use std::path::Path;

use super::dialect::Dialect;
use super::generate::Case;
use super::load;
use super::pair::{Rows, Verdict};
use super::schema::Table;
use super::setup::Setup;

/// Maximum number of rows of an answer that are printed.
const ROWS_SHOWN: usize = 12;

/// Returns the script of a case, followed by the answers.
#[must_use]
pub fn script(
    setup: &Setup,
    tables: &[Table],
    case: &Case,
    verdict: &Verdict,
    peer: Dialect,
) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "-- terrace sql --dram {}MiB", setup.dram_bytes >> 20);
    for statement in setup.statements() {
        let _ = writeln!(out, "{statement};");
    }
    let statements = |dialect| case.statements.iter().map(move |it| it.render(dialect));
    let text: String = statements(Dialect::Terrace).collect::<Vec<_>>().join(" ");
    for table in tables.iter().filter(|table| names(&text, &table.name)) {
        if load::from_file(table) {
            let rows = table.rows.len();
            let _ = writeln!(out, "-- {} has {rows} rows, which --case makes again", table.name);
        }
        let file = Path::new("FILE.parquet");
        for statement in load::statements(table, Dialect::Terrace, file).iter().skip(1) {
            let _ = writeln!(out, "{statement};");
        }
    }
    for statement in statements(Dialect::Terrace) {
        let _ = writeln!(out, "{statement};");
    }
    for (ours, theirs) in statements(Dialect::Terrace).zip(statements(peer)) {
        if ours != theirs {
            let _ = writeln!(out, "-- in the peer: {theirs};");
        }
    }
    match verdict {
        Verdict::Wrong(ours, theirs) => {
            answer(&mut out, "Terrace", ours);
            answer(&mut out, "the peer", theirs);
        }
        other => {
            let _ = writeln!(out, "-- {other:?}");
        }
    }
    out
}

/// True if a table's name occurs in a text as a word.
fn names(text: &str, table: &str) -> bool {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|word| word == table)
}

fn answer(out: &mut String, who: &str, rows: &Rows) {
    let mut lines: Vec<_> = rows
        .iter()
        .map(|row| row.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        .collect();
    lines.sort_unstable();
    let _ = writeln!(out, "-- {who}: {} rows", rows.len());
    for line in lines.iter().take(ROWS_SHOWN) {
        let _ = writeln!(out, "--   {line}");
    }
}
