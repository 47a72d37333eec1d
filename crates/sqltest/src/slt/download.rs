//! Downloads the suite from Maven Central into the user's cache directory.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use crate::cache;
use crate::error::{CheckError, Result};

/// The environment variable that names another Maven repository, such as a mirror.
const REPOSITORY: &str = "TERRACE_MAVEN_REPOSITORY";
const CENTRAL: &str = "https://repo1.maven.org/maven2";
const PATH: &str = "net/hydromatic/sql-logic-test/0.3/sql-logic-test-0.3.jar";
const COORDINATES: &str = "net.hydromatic:sql-logic-test:0.3";
const FILE: &str = "sql-logic-test-0.3.jar";
const SHA256: &str = "801efc1904e802795a20ce30559025c0b5a7a21840114722717c0466089c13f0";

/// Returns the path of the suite's archive; downloads it first unless it is in the cache.
///
/// # Errors
/// [`CheckError::Download`] with the message of each tool; [`CheckError::Content`] when the file
/// has another checksum than the version that this program was written for.
pub fn suite() -> Result<PathBuf> {
    let directory = cache::directory("sqllogictest")?;
    let file = directory.join(FILE);
    if file.exists() && verify(&file).is_ok() {
        return Ok(file);
    }
    let scratch = tempfile::tempdir_in(&directory)
        .map_err(|error| CheckError::file("create", &directory, error))?;
    let partial = scratch.path().join(FILE);
    fetch(scratch.path(), &partial)?;
    verify(&partial)?;
    std::fs::rename(&partial, &file).map_err(|error| CheckError::file("create", &file, error))?;
    Ok(file)
}

/// Downloads with curl, then with Maven, which knows the mirrors of the user's settings.
fn fetch(directory: &Path, partial: &Path) -> Result<()> {
    let base = env::var(REPOSITORY).ok().filter(|value| !value.is_empty());
    let url = format!("{}/{PATH}", base.as_deref().unwrap_or(CENTRAL).trim_end_matches('/'));
    println!("slt: downloading {COORDINATES} (112 MB) once");
    let mut curl = Command::new("curl");
    curl.args(["-fsSL", "--retry", "3", "--max-time", "900", "-o"]).arg(partial).arg(&url);
    let Err(first) = output(curl) else { return Ok(()) };
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:copy"]);
    maven.arg(format!("-Dartifact={COORDINATES}"));
    maven.arg(format!("-DoutputDirectory={}", directory.display()));
    let Err(second) = output(maven) else { return Ok(()) };
    let what = format!("curl: {first}; mvn: {second}; {REPOSITORY} names another repository");
    Err(CheckError::Download { url, what })
}

/// Runs a command to its end; the error is the last line that it printed.
fn output(mut command: Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(format!("{}: {last}", output.status))
}

fn verify(file: &Path) -> Result<()> {
    let bytes = std::fs::read(file).map_err(|error| CheckError::file("read", file, error))?;
    let found = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if found == SHA256 {
        return Ok(());
    }
    let what = format!("its SHA-256 is {found}, want {SHA256}; remove it and run again");
    Err(CheckError::Content { path: file.to_owned(), what })
}
