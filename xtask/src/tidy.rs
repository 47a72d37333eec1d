//! House rules that a program can check.
//!
//! Every rule is a function from the tree to findings. The rules also run as a test, so that `cargo
//! test` alone detects violations.

mod banned;
mod finding;
pub mod layers;
mod line;
mod links;
mod region;
pub mod rust;
mod shape;
mod text;
pub mod tree;
mod unsafety;
mod words;

use std::path::Path;

use finding::Finding;
use tree::Tree;

const RULES: &[fn(&Tree) -> Vec<Finding>] = &[
    text::check,
    shape::check,
    banned::check,
    unsafety::check,
    layers::check,
    links::check,
    words::check,
];

/// Checks the whole tree and prints the findings.
pub fn run(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files", tree.files.len());
        return Ok(());
    }
    Err(format!("tidy: {} findings in {} files", findings.len(), tree.files.len()))
}

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<_> = RULES.iter().flat_map(|rule| rule(tree)).collect();
    findings.sort();
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let tree = Tree::read(&crate::root()).expect("the tree can be read");
        assert!(tree.files.len() > 20, "only {} files were found", tree.files.len());
        let findings: Vec<_> = check(&tree).iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "\n{}", findings.join("\n"));
    }
}
