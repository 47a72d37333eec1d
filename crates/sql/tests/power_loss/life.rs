//! The life of a database over several power losses.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_sql::{Engine, EngineConfig, Session};
use terrace_testkit::{Image, Operation, RecordedDisk, Rng, Syncs, after_power_loss};
use tokio::runtime::Handle;

use crate::files::RecordedFiles;
use crate::workload::{self, Contents};

const DRAM_BYTES: u64 = 32 << 20;
const MERGE_PATIENCE: Duration = Duration::from_secs(20);

/// A database between two power losses, with the states that may be found after the next one.
pub struct Life {
    runtime: Handle,
    syncs: Syncs,
    /// The contents of the device when the machine started, and the operations since.
    base: Image,
    record: Vec<Operation>,
    /// Number of operations before the database was first open.
    opened: usize,
    /// The contents of the database after each statement, and the number of operations when the
    /// statement began.
    states: Vec<Contents>,
    begun: Vec<usize>,
    /// Number of operations, and the state that is guaranteed from there on: acknowledged
    /// statements.
    promises: Vec<(usize, usize)>,
    /// Number of the next statement.
    next: i64,
}

impl Life {
    pub fn new(runtime: Handle, syncs: Syncs) -> Self {
        Self {
            runtime,
            syncs,
            base: Image::default(),
            record: vec![],
            opened: 0,
            states: vec![Contents::default()],
            begun: vec![0],
            promises: vec![(0, 0)],
            next: 1,
        }
    }

    fn open(&self, disk: &RecordedDisk) -> Result<(Engine, Session), String> {
        let data_dir = Some(PathBuf::from("/database"));
        let config = EngineConfig { data_dir, threads: 1, ..EngineConfig::new(DRAM_BYTES) };
        let files = Arc::new(RecordedFiles(disk.clone()));
        let engine = Engine::open_in(files, &config).map_err(|e| format!("not opened: {e}"))?;
        let session = engine.session().map_err(|error| format!("no session: {error}"))?;
        Ok((engine, session))
    }

    /// Starts the machine and runs statements, occasionally closing and reopening the database.
    pub fn run(&mut self, rng: &mut Rng) -> Result<(), String> {
        let disk = RecordedDisk::new(self.base.clone());
        let mut open = self.open(&disk)?;
        self.opened = disk.record_len();
        if rng.one_in(4) {
            self.merge(&open.1, &disk, rng)?;
        }
        for _ in 0..4 + rng.index(16) {
            if rng.one_in(12) {
                drop(open);
                open = self.open(&disk)?;
            }
            self.statement(&open.1, &disk, |number, now| workload::statement(number, now, rng))?;
        }
        if rng.one_in(2) {
            drop(open);
        }
        self.record = disk.record();
        Ok(())
    }

    /// Creates a table of small chunks and waits for a background merge.
    fn merge(
        &mut self,
        session: &Session,
        disk: &RecordedDisk,
        rng: &mut Rng,
    ) -> Result<(), String> {
        for _ in 0..10 + rng.index(10) {
            self.statement(session, disk, workload::small_insertion)?;
        }
        let deadline = Instant::now() + MERGE_PATIENCE;
        while !self.runtime.block_on(workload::has_merged(session)) {
            if Instant::now() > deadline {
                return Err(format!("no chunks were merged within {MERGE_PATIENCE:?}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn statement(
        &mut self,
        session: &Session,
        disk: &RecordedDisk,
        text: impl FnOnce(i64, &mut Contents) -> String,
    ) -> Result<(), String> {
        self.begun.push(disk.record_len());
        let mut now = self.states.last().cloned().unwrap_or_default();
        let text = text(self.next, &mut now);
        self.next += 1;
        let done = self.runtime.block_on(session.sql(&text));
        done.map_err(|error| format!("{text}: {error}"))?;
        self.states.push(now);
        self.promises.push((disk.record_len(), self.states.len() - 1));
        Ok(())
    }

    /// Cuts the power after a random operation of the record and opens the result; with `goes_on`,
    /// the database continues from it.
    pub fn lose_power(&mut self, rng: &mut Rng, goes_on: bool) -> Result<(), String> {
        // A quarter of the losses happen while the database is being opened.
        let end = if rng.one_in(4) { self.opened } else { self.record.len() };
        let at = rng.index(end + 1);
        let what = |error| format!("power loss after operation {at}: {error}");
        let image = after_power_loss(&self.base, &self.record[..at], self.syncs, rng);
        let disk = RecordedDisk::new(image.clone());
        let found = self.contents(&disk).map_err(what)?;
        let state = self.state(&found, at).map_err(what)?;
        if rng.one_in(3) {
            self.lose_power_again(&image, &disk.record(), &found, rng).map_err(what)?;
        }
        if goes_on {
            self.base = image;
            self.record.clear();
            self.states = vec![self.states.swap_remove(state)];
            (self.begun, self.promises) = (vec![0], vec![(0, 0)]);
        }
        Ok(())
    }

    /// Cuts the power again, while the database is opened and read.
    fn lose_power_again(
        &self,
        image: &Image,
        record: &[Operation],
        expected: &Contents,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let at = rng.index(record.len() + 1);
        let image = after_power_loss(image, &record[..at], self.syncs, rng);
        let what = |error| format!("again after operation {at} of {}: {error}", record.len());
        let found = self.contents(&RecordedDisk::new(image)).map_err(what)?;
        if found == *expected {
            return Ok(());
        }
        Err(what(format!("lost: {expected:?}, found: {found:?}")))
    }

    /// Opens the database and reads all rows. A panic is reported like an error.
    fn contents(&self, disk: &RecordedDisk) -> Result<Contents, String> {
        let read = catch_unwind(AssertUnwindSafe(|| {
            let (engine, session) = self.open(disk)?;
            let contents = self.runtime.block_on(workload::contents(&engine, &session));
            contents.map_err(|error| format!("not read: {error}"))
        }));
        read.unwrap_or_else(|_| Err("a panic".to_owned()))
    }

    /// Returns the state that was found, if it is allowed: all acknowledged statements, and the one
    /// under way entirely or not at all.
    fn state(&self, found: &Contents, at: usize) -> Result<usize, String> {
        let kept = self.promises.iter().filter(|(from, _)| *from <= at);
        let least = kept.map(|(_, state)| *state).max().unwrap_or(0);
        let last = self.begun.iter().filter(|begun| **begun <= at).count() - 1;
        let state = (least..=last).rev().find(|state| self.states[*state] == *found);
        let earlier = || (0..least).rev().find(|state| self.states[*state] == *found);
        state.ok_or_else(|| {
            format!("lost: no state of {least} to {last}, but {:?}: {found:?}", earlier())
        })
    }
}
