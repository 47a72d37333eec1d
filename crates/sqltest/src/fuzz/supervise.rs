//! Supervises the child process that runs the cases.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use super::cases::{GROUP_CASES, case, setup, tables};
use super::dialect::Dialect;
use super::options::FuzzOptions;
use super::pair::Verdict;
use super::script;
use crate::error::{CheckError, Result};

/// The journal entry of a worker that runs no case.
pub const IDLE: u64 = u64::MAX;
const NOTE_BYTES: u64 = 8;
const WORKERS_MAX: u64 = 64;

/// The case that each worker is running, in a file that outlives the process.
pub struct Journal {
    file: File,
    path: std::path::PathBuf,
}

impl Journal {
    /// Opens the journal, a file that the supervising process creates.
    ///
    /// # Errors
    /// [`CheckError::File`].
    pub fn open(path: &Path) -> Result<Self> {
        let file =
            OpenOptions::new().write(true).read(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| CheckError::file("open", path, error))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Records that a worker runs a case.
    ///
    /// # Errors
    /// [`CheckError::File`].
    pub fn note(&self, worker: usize, case: u64) -> Result<()> {
        let offset = u64::try_from(worker).unwrap_or(0) * NOTE_BYTES;
        let written = self.file.write_all_at(&case.to_le_bytes(), offset);
        written.map_err(|error| CheckError::file("write", &self.path, error))
    }

    /// Returns the cases that the workers were running.
    fn cases(&self) -> Vec<u64> {
        let mut cases = Vec::new();
        for worker in 0..WORKERS_MAX {
            let mut bytes = [0; 8];
            match self.file.read_exact_at(&mut bytes, worker * NOTE_BYTES) {
                Ok(()) => cases.push(u64::from_le_bytes(bytes)),
                Err(_) => break,
            }
        }
        cases.retain(|case| *case != IDLE);
        cases
    }
}

/// Runs the cases in a child process. If a signal ends it, prints the cases that were running.
///
/// # Errors
/// [`CheckError::Found`] when a case failed.
pub fn watch(options: &FuzzOptions, seed: u64) -> Result<()> {
    println!("fuzz: seed {seed}, {} s", options.seconds);
    let note = tempfile::NamedTempFile::new();
    let note = note.map_err(|error| CheckError::file("create", Path::new("journal"), error))?;
    let program = std::env::current_exe();
    let program = program.map_err(|error| CheckError::file("find", Path::new("itself"), error))?;
    let mut command = Command::new(&program);
    command.args(std::env::args_os().skip(1));
    if options.seed.is_none() {
        command.args(["--seed", &seed.to_string()]);
    }
    command.arg("--journal").arg(note.path());
    let status = command.status().map_err(|error| CheckError::file("start", &program, error))?;
    match status.code() {
        Some(0) => return Ok(()),
        Some(1) => return Err(CheckError::Found(format!("fuzz: failed with seed {seed}"))),
        _ => {}
    }
    for number in Journal::open(note.path())?.cases() {
        let group = number / GROUP_CASES;
        let tables = tables(seed, group);
        let setup = setup(seed, number, &tables);
        let verdict = Verdict::Panicked(format!("the process ended: {status}"));
        let case = case(seed, number, &tables);
        let text = script::script(&setup, &tables, &case, &verdict, Dialect::Duck);
        println!("\n-- CRASHED: cargo x fuzz --seed {seed} --case {number}\n{text}");
    }
    Err(CheckError::Found(format!("fuzz: the process ended: {status}; seed {seed}")))
}
