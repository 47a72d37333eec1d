//! Layering: a crate may use only crates on lower floors.

use toml::{Table, Value};

use super::{
    finding::Finding,
    tree::{File, Tree},
};

/// Floor of every crate. Crates on one floor must not depend on each other.
const FLOORS: &[(&str, u32)] = &[
    ("terrace-sys", 1),
    ("terrace-latch", 1),
    ("terrace-ledger", 1),
    ("terrace-market", 2),
    ("terrace-store", 2),
    ("terrace-tier", 3),
    ("terrace-region", 3),
    ("terrace-pool", 4),
    ("terrace-heap", 4),
    ("terrace-objects", 4),
    ("terrace-cloud", 5),
    ("terrace-exec", 5),
    ("terrace-functions", 5),
    ("terrace-index", 5),
    ("terrace-compact", 5),
    ("terrace-capi", 5),
    ("terrace-governor", 6),
    ("terrace-workload", 6),
    ("terrace-table", 7),
    ("terrace-sql", 8),
    ("terrace-bench", 9),
    ("terrace-server", 9),
    ("terrace-examples", 9),
    ("terrace-sqltest", 10),
    ("terrace", 10),
];

/// Floor of the test support crate, which uses the store and is a dependency of tests only.
const TESTKIT: (&str, u32) = ("terrace-testkit", 3);

/// Packages that only crates of floor [`HEAVY_FLOOR`] and above may use.
const HEAVY: &[&str] = &["arrow", "datafusion", "object_store", "parquet"];
const HEAVY_FLOOR: u32 = 5;
const KERNEL: &[&str] = &["io-uring", "libc"];

/// Checks every crate's manifest.
pub fn check(tree: &Tree) -> Vec<Finding> {
    // The programs of clients and the targets of cargo-fuzz are outside of the workspace.
    let is_outside = |path: &str| path.contains("/clients/") || path.starts_with("fuzz/");
    let manifest = |file: &&File| file.path.ends_with("/Cargo.toml") && !is_outside(&file.path);
    tree.files.iter().filter(manifest).flat_map(manifest_faults).collect()
}

fn manifest_faults(file: &File) -> Vec<Finding> {
    let messages = match file.text.parse::<Table>() {
        Ok(manifest) => faults(&manifest),
        Err(error) => vec![format!("not a manifest: {error}")],
    };
    messages.into_iter().map(|message| Finding::new(&file.path, 1, message)).collect()
}

fn faults(manifest: &Table) -> Vec<String> {
    let mut faults = Vec::new();
    let name = manifest
        .get("package")
        .and_then(|package| package.get("name"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    if name != "xtask" && floor(name).is_none() {
        faults.push(format!("`{name}` has no floor in the list of layers"));
    }
    let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace"));
    if inherits != Some(&Value::Boolean(true)) {
        faults.push("`[lints] workspace = true` is missing".to_owned());
    }
    for (kind, dependency, value) in dependencies(manifest) {
        // A dev-dependency on the crate itself has only a path, and no version, so that cargo omits
        // it when it packages the crate.
        if dependency != name && value.get("workspace") != Some(&Value::Boolean(true)) {
            faults.push(format!("`{dependency}` takes no version from the workspace"));
        }
        faults.extend(layer_fault(name, kind, dependency));
    }
    faults
}

/// Returns every dependency with the kind of its table, including the tables of targets.
pub fn dependencies(manifest: &Table) -> Vec<(&str, &str, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let tables = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let mut found = Vec::new();
    for table in tables.chain([manifest]) {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let entries = table.get(kind).and_then(Value::as_table);
            for (name, value) in entries.into_iter().flatten() {
                found.push((kind, name.as_str(), value));
            }
        }
    }
    found
}

fn layer_fault(name: &str, kind: &str, dependency: &str) -> Option<String> {
    let own = floor(name).unwrap_or(0);
    if KERNEL.contains(&dependency) && name != "terrace-sys" {
        return Some(format!("`{dependency}` is for terrace-sys alone; wrap the call there"));
    }
    if HEAVY.contains(&dependency) && own < HEAVY_FLOOR {
        return Some(format!("`{dependency}` would pull DataFusion into a crate below SQL"));
    }
    if dependency == TESTKIT.0 {
        let tests_only = kind == "dev-dependencies";
        return (!tests_only).then(|| format!("`{dependency}` is for tests alone"));
    }
    // A crate's tests may depend on the crate itself, with all features.
    if dependency == name && kind == "dev-dependencies" {
        return None;
    }
    let other = floor(dependency)?;
    (other >= own).then(|| format!("`{dependency}` is on floor {other}, `{name}` on floor {own}"))
}

/// Returns the floor of a crate of the workspace.
pub fn floor(name: &str) -> Option<u32> {
    FLOORS.iter().chain([&TESTKIT]).find(|(other, _)| *other == name).map(|(_, floor)| *floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(name: &str, dependencies: &str) -> Vec<String> {
        let text =
            format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{dependencies}\n");
        let tree = Tree::of(&[("crates/x/Cargo.toml", &text)]);
        check(&tree).into_iter().map(|it| it.message).collect()
    }

    #[test]
    fn a_crate_looks_down() {
        let good = "[dependencies]\nterrace-sys.workspace = true\nthiserror.workspace = true";
        assert_eq!(messages("terrace-tier", good), [""; 0]);
        assert_eq!(messages("terrace-ledger", good).len(), 1);
        let up = "[dependencies]\nterrace-sql.workspace = true";
        assert_eq!(messages("terrace-pool", up).len(), 1);
    }

    #[test]
    fn the_heavy_and_the_kernel_stay_where_they_belong() {
        assert_eq!(
            messages("terrace-pool", "[dependencies]\ndatafusion.workspace = true").len(),
            1
        );
        assert_eq!(messages("terrace-sql", "[dependencies]\ndatafusion.workspace = true"), [""; 0]);
        assert_eq!(messages("terrace-tier", "[dependencies]\nlibc.workspace = true").len(), 1);
        let target = "[target.\"cfg(unix)\".dependencies]\nlibc.workspace = true";
        assert_eq!(messages("terrace-tier", target).len(), 1);
    }

    #[test]
    fn the_testkit_is_for_tests() {
        let own = "dependencies]\nterrace-testkit.workspace = true";
        assert_eq!(messages("terrace-pool", &format!("[dev-{own}")), [""; 0]);
        assert_eq!(messages("terrace-pool", &format!("[{own}")).len(), 1);
    }

    #[test]
    fn versions_and_lints_come_from_the_workspace() {
        assert_eq!(messages("terrace-sys", "[dependencies]\nlibc = \"0.2\"").len(), 1);
        let bare = Tree::of(&[("crates/x/Cargo.toml", "[package]\nname = \"terrace-sys\"\n")]);
        assert_eq!(check(&bare).len(), 1);
        assert_eq!(messages("terrace-new", "").len(), 1);
    }
}
