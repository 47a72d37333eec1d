//! Recovery: opens a store with a log, with every change that was acknowledged.
//!
//! A directory has numbered dumps and logs. Dump `n` has every change of the logs before log `n`,
//! and some of those after; so the newest dump and the logs from its number on are the store. A
//! checkpoint begins the next log first and dumps then, so that a crash at any time leaves a whole
//! store. The log is synced between the moment of the dump and its name: if the dump had a change
//! that the log lacks, redo would apply earlier changes over it, and reach a state that the store
//! never had.
//!
//! Recovery does not write to existing logs. It reads each log up to the first batch that is
//! incomplete or does not continue the chain of batches, and infers from what follows why the log
//! ends there. The first of these that holds is the reason:
//!
//! 1. A later log records in its head that it follows the batch before, or begins with a batch
//!    that does: an earlier recovery has ended the log there, and what follows it in the log is no
//!    part of the store.
//! 2. A batch that follows, in this log or a later one, records that this offset was on the device:
//!    the log is damaged.
//! 3. Batches follow, and the machine was not restarted since: the log is damaged. A process that
//!    is killed leaves its last batch incomplete and no hole; another process has written to the
//!    log, or it was altered.
//! 4. Batches follow, and the machine was restarted since: by their own record they were never
//!    synced, and some before them were not on the device when the machine crashed. All of it is
//!    left out and kept in files that begin with `damaged-`.
//! 5. No batch follows: this is a torn write at the end of the log.
//!
//! Damage is an error, unless the caller accepts it; then the files are kept in the same way. They
//! get their new names before a dump replaces what was read, and lose the old ones afterwards.
//! Heads of batches are searched for once, in one pass over the rest of the log, so that the time
//! of recovery is proportional to the bytes of the logs, whatever they are (`LogReader::heads`).

pub(crate) mod load;
mod reader;
mod redo;

use std::io;
use std::path::{Path, PathBuf};

use terrace_sys::size::to_u64;

use crate::config::LogConfig;
use crate::durable::blocks::{BlockPosition, HEAD_BYTES, Head, Link, VERSION};
use crate::durable::change::Change;
use crate::durable::checkpoint::{Checkpoints, begin_log};
use crate::durable::directory::LogDirectory;
use crate::durable::identity::Identity;
use crate::durable::log::{BATCH_HEAD_BYTES, BatchHead, Log};
use crate::error::ObjectError;
use crate::objects::Objects;
use load::Load;
use reader::LogReader;
use redo::Redo;

/// Result of the recovery of a store when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// True if there was a dump.
    pub dump: bool,
    /// Number of logs read.
    pub logs: u64,
    /// Number of changes in these logs.
    pub changes: u64,
    /// Bytes of torn writes at the end of the logs, from the first incomplete batch on: those in
    /// progress when the process stopped, or not on the device when the machine did.
    pub torn_bytes: u64,
    /// Parts that were left out: changes that were not synced when the machine stopped, and were
    /// found behind others that are lost; and damaged parts, if [`LogConfig::accepts_damage`] let
    /// the store be opened nevertheless. The files are kept under names that begin with `damaged-`.
    pub damage: Vec<String>,
}

/// Result of [`open`], besides the contents of the store.
pub(crate) struct Opened {
    pub(crate) checkpoints: Checkpoints,
    pub(crate) found: Recovered,
    /// Files that are to be kept under other names, before a checkpoint replaces what was read.
    pub(crate) aside: Vec<PathBuf>,
}

/// Fills an empty store from the dump and the logs in a directory, and begins a new log.
pub(crate) fn open(
    directory: LogDirectory,
    objects: &mut Objects,
    identity: Identity,
    log: &LogConfig,
) -> Result<Opened, ObjectError> {
    let mut reading = Reading {
        objects,
        identity,
        directory: &directory,
        accepts_damage: log.accepts_damage,
        boot: directory.files().boot(),
        found: Recovered::default(),
        aside: Vec::new(),
        log_bytes: 0,
        link: Some(Link::default()),
    };
    let last = reading.read()?;
    let Reading { found, aside, log_bytes, link, .. } = reading;
    directory.tidy()?;
    objects.groups().list_all();
    // Damaged parts are excluded for good by the dump that replaces the rest.
    let mut file = begin_log(&directory, identity, last + 1, link.filter(|_| aside.is_empty()))?;
    file.earlier = log_bytes;
    objects.begin_log(Log::new(file.follow(link.unwrap_or_default()), log.durability));
    Ok(Opened { checkpoints: Checkpoints::new(directory), found, aside })
}

/// Recovery in progress: reads the dump and the logs of a directory into a store.
struct Reading<'a> {
    objects: &'a Objects,
    identity: Identity,
    directory: &'a LogDirectory,
    accepts_damage: bool,
    boot: u128,
    found: Recovered,
    /// Files to be kept under other names, before a dump replaces what was read.
    aside: Vec<PathBuf>,
    /// Bytes of the logs.
    log_bytes: u64,
    /// The batch that was read last; `None` if the batch before is unknown.
    link: Option<Link>,
}

/// Continuation after a log that was read.
enum Next {
    /// The log with this number, if there is one. Logs in between are no part of the store.
    Log(u64),
    /// None: the logs that follow are no part of the store.
    End,
    /// None, and the log itself was still being created and is empty.
    Unborn,
}

/// Batches and bytes behind the offset at which reading a log stopped, in it and in later logs.
#[derive(Default)]
struct Behind {
    batches: u64,
    bytes: u64,
    /// A batch records that this offset was on the device before.
    was_synced: bool,
    /// A batch is in a log that was begun since the machine was started.
    of_this_boot: bool,
}

impl Reading<'_> {
    /// Reads the dump and the logs. Returns the number of the last log.
    fn read(&mut self) -> Result<u64, ObjectError> {
        let dump = self.directory.numbers("dump")?.last().copied();
        let first = dump.unwrap_or(1);
        if let Some(number) = dump {
            let path = self.directory.path("dump", number);
            let load = Load::new(self.objects, self.identity);
            let loaded = load.read_file(self.directory.files(), &path);
            let loaded =
                loaded.and_then(|head| is_named(&path, head.sequence, number).map(|()| head.after));
            self.found.dump = true;
            self.link = self.accept(loaded, &path)?.flatten();
        }
        // A checkpoint begins its log before its dump, so a dump always has its log.
        let least = dump.unwrap_or(first - 1);
        let last = self.directory.numbers("log")?.last().map_or(least, |last| least.max(*last));
        let mut number = first;
        while number <= last {
            let path = self.directory.path("log", number);
            let read = self.read_log(number, first, last);
            match self.accept(read, &path)? {
                Some(Next::Log(next)) => {
                    self.found.logs += 1;
                    number = next;
                }
                Some(Next::End) => {
                    self.found.logs += 1;
                    break;
                }
                Some(Next::Unborn) => {
                    let removed = self.directory.files().remove(&path);
                    removed.map_err(|source| ObjectError::file("remove", &path, source))?;
                    return Ok(number - 1);
                }
                None => {
                    // Changes that come after lost ones may depend on them.
                    self.put_aside(number + 1, last);
                    break;
                }
            }
        }
        Ok(last)
    }

    fn put_aside(&mut self, first: u64, last: u64) {
        self.aside.extend((first..=last).map(|number| self.directory.path("log", number)));
    }

    /// Returns what was read. If the file `path` is damaged and the caller accepts damage, records
    /// it and returns `None`.
    fn accept<T>(
        &mut self,
        read: Result<T, ObjectError>,
        path: &Path,
    ) -> Result<Option<T>, ObjectError> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error @ ObjectError::Corrupt { .. }) if self.accepts_damage => {
                tracing::warn!(%error, "opened without what is damaged");
                self.found.damage.push(error.to_string());
                self.aside.push(path.to_owned());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn log(&self, number: u64) -> Result<LogReader, ObjectError> {
        let path = self.directory.path("log", number);
        LogReader::open(self.directory.files(), &path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                ObjectError::damaged(&path, 0, "it is missing, and a dump or later ones are there")
            }
            _ => ObjectError::file("read", &path, error),
        })
    }

    fn read_log(&mut self, number: u64, first: u64, last: u64) -> Result<Next, ObjectError> {
        let log = self.log(number)?;
        let head = log.head(self.directory.files());
        if number == last && head.is_err() && log.len <= to_u64(HEAD_BYTES) {
            self.found.torn_bytes += log.len;
            return Ok(Next::Unborn);
        }
        let head = head?;
        is_named(&log.path, head.sequence, number)?;
        self.identity.check(head, &log.path.display().to_string())?;
        if head.version != VERSION {
            return if log.content_bytes() == 0 {
                Ok(Next::Log(number + 1))
            } else {
                Err(log.version(head.version))
            };
        }
        if let (Some(last), Some(after)) = (self.link, head.after)
            && last != after
        {
            let reason = "changes before it are missing that were on the device";
            return Err(ObjectError::damaged(&log.path, 0, reason));
        }
        // Batches of the next log record that this one is on the device.
        log.sync()?;
        self.log_bytes = self.log_bytes.saturating_add(log.len);
        let mut place = BlockPosition { salt: head.salt, offset: to_u64(HEAD_BYTES) };
        while place.offset < log.len {
            let batch = log.batch(place)?;
            let (found, changes) = match batch {
                Some((found, changes)) if self.continues(found) => (found, changes),
                other => {
                    let other = other.map(|(found, _)| found);
                    let begins = number != first && place.offset == to_u64(HEAD_BYTES);
                    if other.is_some() && !begins {
                        let reason = "its batches are not those of one writer";
                        return Err(ObjectError::damaged(&log.path, place.offset, reason));
                    }
                    return self.stop(&log, place, other, number + 1..=last);
                }
            };
            self.apply(&log, place, &changes)?;
            self.link = Some(found.link());
            place.offset += to_u64(BATCH_HEAD_BYTES + changes.len());
        }
        Ok(Next::Log(number + 1))
    }

    /// True if a batch follows the one that was read last.
    fn continues(&self, batch: BatchHead) -> bool {
        self.link.is_none_or(|last| last == batch.after)
    }

    fn apply(
        &mut self,
        log: &LogReader,
        at: BlockPosition,
        changes: &[u8],
    ) -> Result<(), ObjectError> {
        let mut rest = changes;
        while !rest.is_empty() {
            let change = Change::take(&mut rest);
            let change =
                change.map_err(|error| ObjectError::damaged(&log.path, at.offset, error.0))?;
            Redo::new(self.objects).redo(change)?;
            self.found.changes += 1;
        }
        Ok(())
    }

    /// Determines why a log ends at a position, where `strange` is a batch that does not continue
    /// the chain, if there is one.
    fn stop(
        &mut self,
        log: &LogReader,
        place: BlockPosition,
        strange: Option<BatchHead>,
        later: std::ops::RangeInclusive<u64>,
    ) -> Result<Next, ObjectError> {
        if strange.is_none()
            && let Some(next) = self.goes_on(later.clone())?
        {
            return Ok(Next::Log(next));
        }
        let behind = self.behind(log, place, strange, later.clone())?;
        if behind.was_synced {
            let reason = "changes are damaged or missing that were on the device";
            return Err(ObjectError::damaged(&log.path, place.offset, reason));
        }
        if behind.of_this_boot {
            let reason = "changes are damaged or missing, and others follow, though the machine \
                          was not started since: another process has written to the log";
            return Err(ObjectError::damaged(&log.path, place.offset, reason));
        }
        self.found.torn_bytes += behind.bytes;
        if behind.batches > 0 {
            self.found.damage.push(format!(
                "{}: from byte {} on changes were not on the device when the machine stopped; {} \
                 batches of changes behind it, which were never synced, are left out and kept",
                log.path.display(),
                place.offset,
                behind.batches
            ));
            self.aside.push(log.path.clone());
            self.put_aside(*later.start(), *later.end());
        }
        Ok(Next::End)
    }

    /// Returns the number of the first of `later` logs that has batches or names the one before it,
    /// if it follows the batch read last; `None` otherwise.
    fn goes_on(&self, later: std::ops::RangeInclusive<u64>) -> Result<Option<u64>, ObjectError> {
        for number in later {
            let log = self.log(number)?;
            let Ok(head) = log.head(self.directory.files()) else { continue };
            let place = BlockPosition { salt: head.salt, offset: to_u64(HEAD_BYTES) };
            let first = log.head_at(place)?.map(|first| first.after);
            if let Some(after) = head.after.or(first) {
                return Ok((self.link == Some(after)).then_some(number));
            }
        }
        Ok(None)
    }

    fn behind(
        &self,
        log: &LogReader,
        place: BlockPosition,
        strange: Option<BatchHead>,
        later: std::ops::RangeInclusive<u64>,
    ) -> Result<Behind, ObjectError> {
        let mut behind = Behind { bytes: log.len - place.offset, ..Behind::default() };
        let head = log.head(self.directory.files())?;
        let from = place.offset + u64::from(strange.is_none());
        self.look(log, head, from, &mut behind, |batch| {
            batch.synced > place.offset || strange.is_some() && batch.synced == place.offset
        })?;
        for number in later {
            let log = self.log(number)?;
            let Ok(head) = log.head(self.directory.files()) else { continue };
            behind.bytes += log.content_bytes();
            self.look(&log, head, to_u64(HEAD_BYTES), &mut behind, |batch| batch.synced > 0)?;
        }
        Ok(behind)
    }

    /// Counts the batches of a log from an offset on. `was_synced` returns true for a batch that
    /// records that the offset at which reading stopped was on the device.
    fn look(
        &self,
        log: &LogReader,
        head: Head,
        offset: u64,
        behind: &mut Behind,
        was_synced: impl Fn(BatchHead) -> bool,
    ) -> Result<(), ObjectError> {
        let of_this_boot = self.boot != 0 && head.boot == self.boot;
        log.heads(BlockPosition { salt: head.salt, offset }, |batch| {
            behind.batches += 1;
            behind.of_this_boot |= of_this_boot;
            behind.was_synced |= was_synced(batch);
        })
    }
}

/// Checks that the number in a file is that of its name.
fn is_named(path: &Path, sequence: u64, number: u64) -> Result<(), ObjectError> {
    let reason = format!("it is number {sequence} by what it says itself");
    if sequence == number { Ok(()) } else { Err(ObjectError::damaged(path, 0, &reason)) }
}
