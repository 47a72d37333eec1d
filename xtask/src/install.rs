//! Installation of the C and C++ library in a prefix.
//!
//! ```text
//! PREFIX/include/terrace.h, terrace_pmr.hpp, terrace_objects.hpp
//! PREFIX/lib/libterrace.so.COMPATIBLE, libterrace.so (a link to it), libterrace.a
//! PREFIX/lib/cmake/terrace/terraceConfig.cmake, terraceConfigVersion.cmake
//! PREFIX/lib/pkgconfig/terrace.pc
//! ```
//!
//! The prefix may be moved as a whole: no installed file contains its path. `--built DIR` installs
//! `libterrace.so` and `libterrace.a` of a directory instead of building them.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::Value;

use crate::cargo;

const PACKAGE: &str = "terrace-capi";
const INCLUDE: &str = "crates/capi/include";
const TEMPLATES: &str = "crates/capi/package";

/// Options of the command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    prefix: PathBuf,
    debug: bool,
    /// Directory of libraries that are built already.
    built: Option<PathBuf>,
}

/// Builds the library and installs it.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let options = parse(arguments)?;
    let prefix = std::path::absolute(&options.prefix)
        .map_err(|error| format!("{}: {error}", options.prefix.display()))?;
    let version = version(root)?;
    let soname = format!("libterrace.so.{}", compatible(&version));
    let built = match &options.built {
        Some(directory) => Built::in_directory(directory),
        None => build(root, options.debug)?,
    };
    let lib = prefix.join("lib");
    put_file(&built.shared, &lib.join(&soname))?;
    put_link(&soname, &lib.join("libterrace.so"))?;
    put_file(&built.archive, &lib.join("libterrace.a"))?;
    for name in ["terrace.h", "terrace_pmr.hpp", "terrace_objects.hpp"] {
        put_file(&root.join(INCLUDE).join(name), &prefix.join("include").join(name))?;
    }
    for (directory, name) in [
        ("cmake/terrace", "terraceConfig.cmake"),
        ("cmake/terrace", "terraceConfigVersion.cmake"),
        ("pkgconfig", "terrace.pc"),
    ] {
        let template = root.join(TEMPLATES).join(format!("{name}.in"));
        let text = fs::read_to_string(&template).map_err(at(&template))?;
        let target = lib.join(directory).join(name);
        put(&target, |new| fs::write(new, fill(&text, &version)))?;
    }
    println!("install: terrace {version} in {}", prefix.display());
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--prefix" => {
                let directory = rest.next().ok_or("--prefix takes a directory")?;
                options.prefix = directory.into();
            }
            "--debug" => options.debug = true,
            "--built" => {
                let directory = rest.next().ok_or("--built takes a directory")?;
                options.built = Some(directory.into());
            }
            other => return Err(format!("install: what is {other}? See the head of its file")),
        }
    }
    if options.prefix.as_os_str().is_empty() {
        return Err("install takes --prefix DIRECTORY, as --prefix /usr/local".to_owned());
    }
    Ok(options)
}

fn version(root: &Path) -> Result<String, String> {
    let path = root.join("Cargo.toml");
    let text = fs::read_to_string(&path).map_err(at(&path))?;
    let manifest: toml::Table = text.parse().map_err(|error| format!("Cargo.toml: {error}"))?;
    let version = manifest.get("workspace").and_then(|it| it.get("package"));
    let version = version.and_then(|it| it.get("version")).and_then(toml::Value::as_str);
    version.map(str::to_owned).ok_or_else(|| "Cargo.toml: the workspace has no version".to_owned())
}

/// Returns the part of a version that compatible versions share, as in the library's soname: `0.3`
/// of `0.3.1`, `1` of `1.2.0`.
fn compatible(version: &str) -> &str {
    let parts = if version.starts_with("0.") { 2 } else { 1 };
    let end = version.match_indices('.').nth(parts - 1).map_or(version.len(), |(at, _)| at);
    &version[..end]
}

fn fill(template: &str, version: &str) -> String {
    let compatible = compatible(version);
    template
        .replace("@VERSION@", version)
        .replace("@COMPATIBLE@", compatible)
        .replace("@SONAME@", &format!("libterrace.so.{compatible}"))
}

/// Paths of the two built libraries.
#[derive(Debug, PartialEq, Eq)]
struct Built {
    shared: PathBuf,
    archive: PathBuf,
}

impl Built {
    fn in_directory(directory: &Path) -> Self {
        let at = |name| directory.join(name);
        Self { shared: at("libterrace.so"), archive: at("libterrace.a") }
    }
}

fn build(root: &Path, debug: bool) -> Result<Built, String> {
    let mut command = cargo::cargo(root);
    command.args(["build", "--lib", "--package", PACKAGE]);
    command.arg("--message-format=json-render-diagnostics");
    if !debug {
        command.arg("--release");
    }
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo build: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo build of {PACKAGE} failed"));
    }
    built(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| "cargo build says nothing of the libraries".to_owned())
}

/// Returns the paths of the libraries from cargo's messages.
fn built(messages: &str) -> Option<Built> {
    let mut messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_library = |message: &Value| {
        let kinds = message["target"]["crate_types"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "staticlib"))
            && message["target"]["name"] == "terrace"
    };
    let library = messages.rfind(is_library)?;
    let files = library["filenames"].as_array()?;
    let ends_with = |end| {
        files.iter().filter_map(Value::as_str).find(|name| name.ends_with(end)).map(PathBuf::from)
    };
    Some(Built { shared: ends_with(".so")?, archive: ends_with(".a")? })
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// Creates a file next to `target` with `make`, and renames it to `target`: running programs keep
/// the old file.
fn put(target: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), String> {
    let directory = target.parent().unwrap_or(target);
    fs::create_dir_all(directory).map_err(at(directory))?;
    let mut new = target.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(new);
    make(&new).map_err(at(&new))?;
    fs::rename(&new, target).map_err(at(target))
}

fn put_file(from: &Path, target: &Path) -> Result<(), String> {
    put(target, |new| {
        fs::copy(from, new).map_err(|error| io::Error::other(format!("{from:?}: {error}")))?;
        Ok(())
    })
}

fn put_link(to: &str, target: &Path) -> Result<(), String> {
    put(target, |new| std::os::unix::fs::symlink(to, new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_asked_for() {
        let arguments = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let both = parse(&arguments(&["--debug", "--prefix", "x"]));
        assert_eq!(both, Ok(Options { prefix: "x".into(), debug: true, built: None }));
        let built = parse(&arguments(&["--prefix", "x", "--built", "y"])).expect("options");
        assert_eq!(built.built, Some("y".into()));
        assert!(parse(&arguments(&[])).is_err());
        assert!(parse(&arguments(&["--prefix"])).is_err());
        assert!(parse(&arguments(&["x"])).is_err_and(|error| error.contains("what is x?")));
    }

    #[test]
    fn versions_are_compatible_by_their_first_parts() {
        assert_eq!(compatible("0.1.7"), "0.1");
        assert_eq!(compatible("1.2.3"), "1");
        assert_eq!(fill("@SONAME@ @VERSION@ @COMPATIBLE@", "2.3.4"), "libterrace.so.2 2.3.4 2");
    }

    #[test]
    fn cargo_says_where_the_libraries_are() {
        let message = |name: &str| {
            format!(
                r#"{{"target": {{"name": "{name}", "crate_types": ["cdylib", "staticlib"]}},
                    "filenames": ["/t/lib{name}.so", "/t/lib{name}.a"]}}"#
            )
            .replace('\n', " ")
        };
        let said = format!("{}\nnoise\n{}\n", message("terrace"), message("other"));
        let both = Built { shared: "/t/libterrace.so".into(), archive: "/t/libterrace.a".into() };
        assert_eq!(built(&said), Some(both));
        assert_eq!(built("{}"), None);
    }
}
