//! Dependency graph of the crates, and of the files of each: `cargo x graph`.
//!
//! A file has an arrow to every file whose items it names in code outside of tests. A circle is a
//! set of files that depend on each other in a cycle: a strongly connected component of the graph.

mod component;
mod known;
mod manifest;
mod module;
mod package;
mod report;
mod resolution;
mod token;

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use crate::tidy::tree::Tree;
use package::Package;

/// Prints the graph of all crates or of one, its sizes, or the list of the circles.
///
/// Fails if the printed graph has a circle that is not in the list of known ones.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let mut packages = package::packages(&tree);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--summary"] => print(&report::summary(&packages)),
        ["--known"] => print(&known::list(&packages)),
        [] => {
            print(&(report::graph(&packages) + &manifest::arrows(&tree, None)))?;
            check(root, &packages)
        }
        [name] => {
            let name = name.strip_prefix("terrace-").unwrap_or(name);
            select(&mut packages, name)?;
            print(&(report::graph(&packages) + &manifest::arrows(&tree, Some(name))))?;
            check(root, &packages)
        }
        _ => Err("graph takes one crate, or --summary, or --known".to_owned()),
    }
}

/// Prints a text; the reader may close the pipe before its end.
fn print(text: &str) -> Result<(), String> {
    let printed = io::stdout().lock().write_all(text.as_bytes());
    printed.map_err(|error| format!("the graph is not printed to its end: {error}"))
}

/// Removes all crates but one.
fn select(packages: &mut Vec<Package>, name: &str) -> Result<(), String> {
    let names: Vec<_> = packages.iter().map(|package| package.name.clone()).collect();
    packages.retain(|package| package.name == name);
    if packages.is_empty() {
        return Err(format!(
            "`{name}` is not a crate with sources; these are: {}",
            names.join(", ")
        ));
    }
    Ok(())
}

/// Fails if a circle is not a subset of a circle in the list.
fn check(root: &Path, packages: &[Package]) -> Result<(), String> {
    let list = fs::read_to_string(root.join(known::PATH))
        .map_err(|error| format!("{}: {error}", known::PATH))?;
    let list = known::parse(&list);
    let growth: Vec<_> = packages.iter().flat_map(|it| known::growth(it, &list)).collect();
    if growth.is_empty() { Ok(()) } else { Err(growth.join("\n") + "\n" + known::ADVICE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_circle_appears_or_grows() {
        let root = crate::root();
        let packages = package::packages(&Tree::read(&root).expect("the tree can be read"));
        assert!(packages.len() > 10, "only {} crates were found", packages.len());
        if let Err(message) = check(&root, &packages) {
            panic!("\n{message}");
        }
    }

    #[test]
    fn one_crate_is_selected_by_its_name() {
        let tree = Tree::of(&[
            ("crates/p/src/lib.rs", "fn f() {}\n"),
            ("crates/q/src/lib.rs", "fn f() {}\n"),
        ]);
        let mut packages = package::packages(&tree);
        select(&mut packages, "q").expect("there is such a crate");
        assert_eq!(packages.len(), 1);
        let error = select(&mut packages, "p").err();
        assert_eq!(error.as_deref(), Some("`p` is not a crate with sources; these are: q"));
    }
}
