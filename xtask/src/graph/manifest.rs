//! Arrows between crates, from their manifests.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::report::{listed, wrapped};
use crate::tidy::{
    layers::{dependencies, floor},
    tree::{File, Tree},
};

/// Returns the crates that each crate of the workspace, or the one in a directory, uses, with their
/// floors.
///
/// Those that only its tests and examples use have a line of their own.
pub fn arrows(tree: &Tree, directory: Option<&str>) -> String {
    let manifests = tree.files.iter().filter(|file| file.path.ends_with("Cargo.toml"));
    let is_wanted = |file: &&File| directory.is_none_or(|name| file.crate_name() == name);
    manifests.filter(is_wanted).map(of_manifest).collect()
}

/// Returns the arrows of a manifest. A malformed manifest, which the layer rules report, has none;
/// neither have packages outside of the workspace, whose manifests have a `workspace` table.
fn of_manifest(file: &File) -> String {
    let manifest: Table = file.text.parse().unwrap_or_default();
    if manifest.contains_key("workspace") {
        return String::new();
    }
    let name = manifest.get("package").and_then(|package| package.get("name"));
    let name = name.and_then(Value::as_str).unwrap_or_default();
    let (by_tests, by_code): (Vec<_>, Vec<_>) =
        dependencies(&manifest).into_iter().partition(|(kind, ..)| *kind == "dev-dependencies");
    let crates = |all: Vec<(_, &str, _)>| -> BTreeSet<(u32, String)> {
        all.into_iter().filter_map(|(_, name, _)| Some((floor(name)?, name.to_owned()))).collect()
    };
    let by_code = crates(by_code);
    let by_tests = &crates(by_tests) - &by_code;
    line(name, "->", by_code) + &line(name, "in tests ->", by_tests)
}

/// Returns a line with the crates that `name` uses, those of the highest floor first.
fn line(name: &str, arrow: &str, used: BTreeSet<(u32, String)>) -> String {
    if used.is_empty() {
        return String::new();
    }
    let own = floor(name).map_or_else(|| name.to_owned(), |floor| format!("{name} ({floor})"));
    let used = used.into_iter().rev().map(|(floor, name)| format!("{name} ({floor})"));
    wrapped(&format!("{own} {arrow}"), 4, listed(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_stand_with_their_floors() {
        let manifest = "[package]\nname = \"terrace-pool\"\n[dependencies]\nlibc = \"1\"\n\
                        terrace-sys.workspace = true\nterrace-tier.workspace = true\n\
                        [dev-dependencies]\nterrace-testkit.workspace = true\n";
        let client = "[workspace]\n[dependencies]\nterrace-sys = \"1\"\n";
        let tree = Tree::of(&[
            ("Cargo.toml", client),
            ("crates/pool/Cargo.toml", manifest),
            ("crates/pool/clients/rust/Cargo.toml", client),
        ]);
        let text = "terrace-pool (4) -> terrace-tier (3), terrace-sys (1)\n\
                    terrace-pool (4) in tests -> terrace-testkit (3)\n";
        assert_eq!(arrows(&tree, None), text);
        assert_eq!(arrows(&tree, Some("pool")), text);
        assert_eq!(arrows(&tree, Some("heap")), "");
    }
}
