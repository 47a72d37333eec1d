//! The files of the repository, read once.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::rust::Rust;

/// Contents of all hand-written files, by their path from the root.
pub struct Tree {
    pub files: Vec<File>,
    /// Paths of all files and directories, including those that are not read.
    pub paths: BTreeSet<String>,
}

/// A file.
pub struct File {
    pub path: String,
    pub text: String,
    /// Parsed source, for Rust files.
    pub rust: Option<Rust>,
}

impl File {
    pub fn new(path: &str, text: &str) -> Self {
        let rust = path.ends_with(".rs").then(|| Rust::parse(text));
        Self { path: path.to_owned(), text: text.to_owned(), rust }
    }

    /// Returns true if the whole file is test code: integration tests, benchmarks, examples.
    pub fn is_test(&self) -> bool {
        ["tests/", "benches/", "examples/", "fuzz_targets/"].iter().any(|name| {
            self.path.split_once(name).is_some_and(|(before, _)| !before.contains("/src/"))
        })
    }

    /// Returns the crate of the file: `sys` for `crates/sys/src/lib.rs`, `xtask` for its own.
    pub fn crate_name(&self) -> &str {
        let path = self.path.strip_prefix("crates/").unwrap_or(&self.path);
        path.split('/').next().unwrap_or_default()
    }

    pub fn extension(&self) -> &str {
        Path::new(&self.path).extension().and_then(|it| it.to_str()).unwrap_or_default()
    }
}

/// Extensions of the files that are read.
const READ: &[&str] =
    &["rs", "toml", "md", "sh", "sql", "h", "hpp", "c", "cpp", "html", "css", "js"];
/// Names of files without an extension that are read.
const READ_NAMES: &[&str] = &["run", "LICENSE-MIT", "LICENSE-APACHE", ".gitignore"];
/// Directories that are skipped, as they are not part of the repository.
const SKIPPED: &[&str] = &[".git", "target"];

impl Tree {
    /// Reads every file below the root.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut tree = Self { files: Vec::new(), paths: BTreeSet::new() };
        tree.enter(root, root)?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        tree.mark_test_modules();
        Ok(tree)
    }

    /// Creates a tree of the given files, for the tests of the rules.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files: Vec<_> = files.iter().map(|(path, text)| File::new(path, text)).collect();
        let paths = files.iter().map(|file| file.path.clone()).collect();
        let mut tree = Self { files, paths };
        tree.mark_test_modules();
        tree
    }

    /// Returns the Rust files with their parsed sources.
    pub fn rust(&self) -> impl Iterator<Item = (&File, &Rust)> {
        self.files.iter().filter_map(|file| Some((file, file.rust.as_ref()?)))
    }

    fn enter(&mut self, root: &Path, directory: &Path) -> Result<(), String> {
        let fail = |error: std::io::Error| format!("{}: {error}", directory.display());
        for entry in fs::read_dir(directory).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
            if SKIPPED.contains(&name) {
                continue;
            }
            self.paths.insert(relative(root, &path));
            if path.is_dir() {
                self.enter(root, &path)?;
            } else if READ_NAMES.contains(&name)
                || path.extension().and_then(|it| it.to_str()).is_some_and(|it| READ.contains(&it))
            {
                let text = fs::read_to_string(&path)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                self.files.push(File::new(&relative(root, &path), &text));
            }
        }
        Ok(())
    }

    /// Marks the files of modules that are declared under `#[cfg(test)]` as test code.
    fn mark_test_modules(&mut self) {
        let mut modules = Vec::new();
        for (file, rust) in self.rust() {
            modules.extend(rust.test_modules().map(|name| module_path(&file.path, name)));
        }
        for file in &mut self.files {
            let of_module = |module: &String| {
                file.path.strip_prefix(module).is_some_and(|rest| rest.starts_with(['.', '/']))
            };
            let Some(rust) = &mut file.rust else { continue };
            if modules.iter().any(of_module) {
                rust.mark_all_test();
            }
        }
    }
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// Returns the path, without its extension, of the module `name` declared in the file `parent`.
fn module_path(parent: &str, name: &str) -> String {
    let parent = PathBuf::from(parent);
    let stem = parent.file_stem().and_then(|it| it.to_str()).unwrap_or_default();
    let above = parent.parent().unwrap_or(Path::new(""));
    let directory = match stem {
        "lib" | "main" | "mod" => above.to_path_buf(),
        _ => above.join(stem),
    };
    directory.join(name).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_under_cfg_test_are_test_code() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod tests;\nmod code;\n"),
            ("crates/a/src/tests.rs", "fn f() {}\n"),
            ("crates/a/src/tests/deep.rs", "fn f() {}\n"),
            ("crates/a/src/code.rs", "fn f() {}\n"),
        ]);
        let marked: Vec<_> = tree.rust().map(|(_, rust)| rust.lines[0].test).collect();
        assert_eq!(marked, [true, true, true, false]);
    }

    #[test]
    fn knows_where_a_file_belongs() {
        let file = File::new("crates/sys/tests/map.rs", "");
        assert!(file.is_test() && file.crate_name() == "sys");
        let file = File::new("crates/sys/src/tests/map.rs", "");
        assert!(!file.is_test());
        assert_eq!(File::new("xtask/src/main.rs", "").crate_name(), "xtask");
    }
}
