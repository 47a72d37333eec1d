//! The page of all functions is that of the registry.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::common::{MIB, engine};

const HEAD: &str = "\
# Functions

The functions of every session, each followed by its other names in parentheses. Most are those of
DataFusion, whose [reference](https://datafusion.apache.org/user-guide/sql/index.html) describes
them; the others have the arguments and results of the function of this name of PostgreSQL or, where
PostgreSQL has none, of DuckDB. [What SQL means](../design/sql-semantics.md) lists the differences.
`SHOW FUNCTIONS LIKE '%name%'` shows types of arguments.

The list is written by `TERRACE_WRITE_PAGES=1 cargo test --release --workspace --test sql
functions_page`; a test compares it with the registry.
";

/// Functions by name, with their other names.
type Names = BTreeMap<String, BTreeSet<String>>;

/// `key` is the name a function is registered under, the tuple its own name and aliases.
///
/// # Panics
///
/// If two functions have one name: a call by an alias would mean a function that was replaced.
fn names<'a>(all: impl Iterator<Item = (&'a String, (&'a str, &'a [String]))>) -> Names {
    let mut names = Names::new();
    for (key, (name, aliases)) in all {
        let others = aliases.iter().filter(|alias| *alias != name).cloned().collect();
        let known = names.entry(name.to_owned()).or_insert_with(|| BTreeSet::clone(&others));
        assert_eq!(*known, others, "{key} and {name} are different functions named {name}");
    }
    names
}

fn section(page: &mut String, title: &str, functions: &Names) {
    let _ = write!(page, "\n## {title}\n\n");
    let mut line = String::new();
    let count = functions.len();
    for (at, (name, aliases)) in functions.iter().enumerate() {
        let mut item = format!("`{name}`");
        if !aliases.is_empty() {
            let aliases: Vec<_> = aliases.iter().map(|alias| format!("`{alias}`")).collect();
            let _ = write!(item, " ({})", aliases.join(", "));
        }
        item.push_str(if at + 1 < count { "," } else { "" });
        for word in item.split(' ') {
            if !line.is_empty() && line.len() + 1 + word.len() > 100 {
                page.push_str(&line);
                page.push('\n');
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    page.push_str(&line);
    page.push('\n');
}

#[test]
fn functions_page_is_that_of_the_registry() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    let state = session.context().state();
    let mut page = HEAD.to_owned();
    // Names with a space are no functions of users.
    let scalar = state.scalar_functions().iter().filter(|(_, it)| !it.name().contains(' '));
    let scalar = names(scalar.map(|(key, it)| (key, (it.name(), it.aliases()))));
    section(&mut page, "Scalar functions", &scalar);
    let higher = state.higher_order_functions().iter();
    let higher = names(higher.map(|(key, it)| (key, (it.name(), it.aliases()))));
    section(&mut page, "Functions that take lambdas", &higher);
    let aggregates = state.aggregate_functions().iter();
    let aggregates = names(aggregates.map(|(key, it)| (key, (it.name(), it.aliases()))));
    section(&mut page, "Aggregate functions", &aggregates);
    let windows = state.window_functions().iter();
    let windows = names(windows.map(|(key, it)| (key, (it.name(), it.aliases()))));
    section(&mut page, "Window functions", &windows);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql/functions.md");
    if std::env::var("TERRACE_WRITE_PAGES").is_ok() {
        std::fs::write(&path, &page).expect("written");
    }
    let written = std::fs::read_to_string(&path).expect("the page");
    assert_eq!(written, page, "write the page again: TERRACE_WRITE_PAGES=1");
}
