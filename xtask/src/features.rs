//! Check that running and testing share one set of compiled dependencies.
//!
//! `cargo run` resolves the features that the program needs, `cargo build --workspace` those of all
//! programs, and `cargo test --workspace` those that the tests need as well. A package whose
//! features differ is compiled more than once, and so is everything that depends on it: half an
//! hour more on a cold machine. This check compares the features.

use std::{collections::BTreeSet, path::Path, process::Command};

use crate::cargo;

/// Fails if a package of a program has different features in the test build.
pub fn run(root: &Path) -> Result<(), String> {
    let mut running = packages(root, &["--package", "terrace", "--edges", "normal,build"])?;
    running.extend(packages(root, &["--workspace", "--edges", "normal,build"])?);
    let testing = packages(root, &["--workspace", "--edges", "normal,build,dev"])?;
    let different: Vec<_> = running.difference(&testing).map(String::as_str).collect();
    if different.is_empty() {
        println!("features: {} packages are the same for running and testing", running.len());
        return Ok(());
    }
    Err(format!(
        "these packages have more features in the test build and are compiled twice; give a crate \
         of the program the same features:\n  {}",
        different.join("\n  ")
    ))
}

fn packages(root: &Path, selection: &[&str]) -> Result<BTreeSet<String>, String> {
    let mut command: Command = cargo::cargo(root);
    command.arg("tree").args(selection).args(["--prefix", "none", "--format", "{p} [{f}]"]);
    let output = command.output().map_err(|error| format!("cargo tree: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // Cargo marks a repeated package with a star.
    Ok(text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect())
}
