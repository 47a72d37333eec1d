//! Runs the targets of cargo-fuzz in `fuzz`: first a canary, whose planted defect must be found,
//! then each other target for a fixed duration.

use std::{fs, path::Path, process::Stdio};

use crate::{cargo, loom::subdirectory};

const MANIFEST: &str = "fuzz/Cargo.toml";

/// Target with a planted defect.
const CANARY: &str = "canary";
/// Number of inputs, from an empty corpus, within which the defect of the canary must be found.
const CANARY_RUNS: u64 = 2_000_000;

/// Default duration of each other target in seconds.
const SECONDS: u64 = 60;

const MISSING: &str = "\
targets: cargo-fuzz or a nightly toolchain is missing on this machine. `cargo install cargo-fuzz` \
and `rustup toolchain install nightly` install them; `cargo check` in the directory fuzz checks \
the types of all targets without them";

/// Runs the canary and all other targets; fails at the first target that finds a defect, or if the
/// canary finds none.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let seconds = parse(arguments)?;
    let mut version = cargo::nightly(root);
    version.args(["fuzz", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !version.status().is_ok_and(|status| status.success()) {
        return Err(MISSING.to_owned());
    }
    let names = names(root)?;
    find_canary(root)?;
    for name in names.iter().filter(|name| *name != CANARY) {
        let mut search = cargo::nightly(root);
        search.args(["fuzz", "run", name, "--", &format!("-max_total_time={seconds}")]);
        cargo::run(search).result(&format!("targets: {name}"))?;
    }
    println!("targets: the canary was found, {} targets found nothing", names.len() - 1);
    Ok(())
}

fn parse(arguments: &[String]) -> Result<u64, String> {
    match arguments {
        [] => Ok(SECONDS),
        [name, value] if name == "--seconds" => {
            value.parse::<u64>().map_err(|error| format!("targets: --seconds {value}: {error}"))
        }
        _ => Err(format!("targets takes --seconds N alone, not `{}`", arguments.join(" "))),
    }
}

/// Returns the names of all targets.
fn names(root: &Path) -> Result<Vec<String>, String> {
    let path = root.join(MANIFEST);
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(&path).map_err(|error| failed(&error))?;
    let manifest: toml::Table = text.parse().map_err(|error| failed(&error))?;
    let targets = manifest.get("bin").and_then(toml::Value::as_array).into_iter().flatten();
    let names = targets.filter_map(|target| target.get("name")?.as_str().map(str::to_owned));
    Ok(names.collect())
}

/// Fails unless the fuzzer finds the defect of the canary from an empty corpus. The canary is built
/// first, so that a failed build does not pass for a found defect.
fn find_canary(root: &Path) -> Result<(), String> {
    let mut build = cargo::nightly(root);
    build.args(["fuzz", "build", CANARY]);
    cargo::run(build).result("targets: the canary cannot be built")?;
    let directory = subdirectory(root, "canary");
    let failed = |error| format!("{}: {error}", directory.display());
    let _ = fs::remove_dir_all(&directory);
    let (corpus, crashes) = (directory.join("corpus"), directory.join("crashes"));
    fs::create_dir_all(&corpus).map_err(failed)?;
    fs::create_dir_all(&crashes).map_err(failed)?;
    let mut search = cargo::nightly(root);
    search.args(["fuzz", "run", CANARY]).arg(&corpus).arg("--");
    search.arg(format!("-runs={CANARY_RUNS}"));
    search.arg(format!("-artifact_prefix={}/", crashes.display()));
    let passed = cargo::run(search).ok;
    let found = fs::read_dir(&crashes).map_err(failed)?.next().is_some();
    if passed || !found {
        return Err(format!(
            "targets: the defect of the canary was not found within {CANARY_RUNS} inputs, so what \
             the other targets do not find proves nothing"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_in_the_manifest_and_the_readme() {
        let root = crate::root();
        let mut names = names(&root).expect("a manifest");
        names.sort_unstable();
        let files = fs::read_dir(root.join("fuzz/fuzz_targets")).expect("the targets");
        let files = files.map(|file| file.expect("a file").path());
        let mut stems: Vec<_> = files
            .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
            .collect();
        stems.sort_unstable();
        assert_eq!(names, stems);
        let text = fs::read_to_string(root.join("fuzz/README.md")).expect("a page");
        for name in names {
            assert!(text.contains(&format!("| `{name}` |")), "fuzz/README.md lacks {name}");
        }
    }

    #[test]
    fn a_time_is_the_only_argument() {
        let parse =
            |words: &[&str]| parse(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(parse(&[]), Ok(SECONDS));
        assert_eq!(parse(&["--seconds", "5"]), Ok(5));
        assert!(parse(&["--seconds", "x"]).is_err_and(|error| error.contains("--seconds x")));
        assert!(parse(&["sla"]).is_err_and(|error| error.contains("`sla`")));
    }
}
