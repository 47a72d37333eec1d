//! Python packages in virtual environments below the user's cache directory.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{BenchError, Result};
use crate::measure::Scratch;
use crate::suite::child;

/// Packages that are installed together.
#[derive(Clone, Copy, Debug)]
pub struct Packages {
    /// Name of their directory.
    pub directory: &'static str,
    /// The version of DuckDB among them.
    pub version: &'static str,
    /// Requirements passed to pip.
    pub requirements: &'static [&'static str],
}

/// Newest DuckDB whose TPC-DS extension is available as a Python package; it contains the query
/// texts.
pub const DUCKDB_TPCDS: Packages = Packages {
    directory: "duckdb-tpcds-1.5.5",
    version: "1.5.5",
    requirements: &["duckdb==1.5.5", "duckdb-extensions==1.5.5", "duckdb-extension-tpcds==1.5.5"],
};

/// DuckDB whose run times Terrace is compared with.
pub const DUCKDB: Packages =
    Packages { directory: "duckdb-2.0.0", version: "2.0.0", requirements: &["duckdb==2.0.0"] };

/// Python interpreter with some packages installed.
#[derive(Clone, Debug)]
pub struct Python {
    interpreter: PathBuf,
}

impl Python {
    /// Returns the interpreter with these packages, which are installed now if they are missing.
    ///
    /// # Errors
    /// [`BenchError::Peer`] or [`BenchError::File`] with what failed: there is no Python 3, it has
    /// no `venv`, or the packages cannot be downloaded.
    pub async fn with(packages: Packages) -> Result<Python> {
        Python::below(&cache_directory()?, packages).await
    }

    async fn below(cache: &Path, packages: Packages) -> Result<Python> {
        let home = cache.join(packages.directory);
        let interpreter = home.join("bin").join("python");
        if interpreter.exists() {
            return Ok(Python { interpreter });
        }
        // Installed in a temporary directory and renamed as a whole, so that no interrupted
        // installation is found.
        let partial = Scratch::below(cache, "install")?;
        let environment = partial.path().join("environment");
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(&environment);
        child::output(venv, Vec::new(), "python3 -m venv").await?;
        let mut pip = Command::new(environment.join("bin").join("python"));
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"])
            .args(["--retries", "1", "--timeout", "20"])
            .args(packages.requirements);
        let what = format!("pip install {}", packages.requirements.join(" "));
        child::output(pip, Vec::new(), &what).await?;
        match std::fs::rename(&environment, &home) {
            // Another process may have installed it first.
            Err(_) if interpreter.exists() => Ok(Python { interpreter }),
            Err(source) => Err(BenchError::file("create", &home, source)),
            Ok(()) => Ok(Python { interpreter }),
        }
    }

    /// Creates a command that runs a script.
    pub fn script(&self, text: &str) -> Command {
        let mut command = Command::new(&self.interpreter);
        command.args(["-c", text]);
        command
    }
}

/// Returns the program's directory within the user's cache directory.
fn cache_directory() -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let cache = cache.ok_or_else(|| {
        BenchError::input("there is no cache directory: neither XDG_CACHE_HOME nor HOME is set")
    })?;
    Ok(cache.join("terrace").join("python"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_installed_is_found_and_runs_scripts() {
        let cache = Scratch::of(None, "cache").expect("made");
        let bin = cache.path().join("made-up").join("bin");
        std::fs::create_dir_all(&bin).expect("made");
        std::os::unix::fs::symlink("/bin/sh", bin.join("python")).expect("linked");
        let packages = Packages { directory: "made-up", version: "0", requirements: &[] };
        let python = Python::below(cache.path(), packages).await.expect("found");
        let output = child::output(python.script("echo said"), Vec::new(), "it").await;
        assert_eq!(output.expect("ran"), b"said\n");
    }
}
