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

mod home;
mod reader;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_sys::size::to_u64;

use crate::blocks::{HEAD_BYTES, Head, Place, VERSION};
use crate::config::{LogConfig, ObjectConfig};
use crate::dump::Dumped;
use crate::error::ObjectError;
use crate::files::{Files, SystemFiles};
use crate::log::{self, BATCH_HEAD_BYTES, BatchHead, Link, Log, LogFile};
use crate::record::Change;
use crate::store::ObjectStore;
pub(crate) use home::Home;
use reader::LogReader;

/// Result of recovery.
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

impl ObjectStore {
    /// Opens a store whose changes go to a log, with the contents of the log's directory; an empty
    /// directory is an empty store.
    ///
    /// A change returns when it is as durable as [`LogConfig::durability`] says. Other threads may
    /// have seen it before.
    ///
    /// A child process (fork) may read its copy of the store; changes are [`ObjectError::Forked`]
    /// there, and dropping the copy writes nothing.
    ///
    /// # Errors
    /// As [`ObjectStore::new`]; [`ObjectError::File`], also when another process has the directory;
    /// [`ObjectError::Corrupt`] when a dump or a log is damaged, other than by an incomplete last
    /// batch: nothing is changed then, and [`LogConfig::accepts_damage`] opens the undamaged part;
    /// [`ObjectError::Version`] for files of another version; [`ObjectError::OutOfMemory`] and
    /// [`ObjectError::OutOfIds`] when the store has less memory than the objects take: one that was
    /// completely full may lack some, as objects are placed differently than before. Nothing is
    /// changed then, and with more memory it opens.
    pub fn open(config: ObjectConfig, log: LogConfig) -> Result<(Self, Recovered), ObjectError> {
        Self::open_in(Arc::new(SystemFiles), config, log)
    }

    pub(crate) fn open_in(
        files: Arc<dyn Files>,
        config: ObjectConfig,
        log: LogConfig,
    ) -> Result<(Self, Recovered), ObjectError> {
        let boot = files.boot();
        let home = Home::lock(files, &log.dir)?;
        let mut store = Self::new(config)?;
        let mut reading = Reading {
            store: &store,
            home: &home,
            accepts_damage: log.accepts_damage,
            boot,
            found: Recovered::default(),
            aside: Vec::new(),
            link: Some(Link::default()),
        };
        let last = reading.read()?;
        let Reading { found, aside, link, .. } = reading;
        home.tidy()?;
        store.list_all();
        // Damaged parts are excluded for good by the dump that replaces the rest.
        let file = store.begin_log(&home, last + 1, link.filter(|_| aside.is_empty()))?;
        store.log = Some(Log::new(file.follow(link.unwrap_or_default()), log.durability));
        store.home = Some(home);
        store.set_aside(&aside)?;
        Ok((store, found))
    }

    /// Begins a log. `after` is the batch before it, if that is the last one for good.
    fn begin_log(
        &self,
        home: &Home,
        number: u64,
        after: Option<Link>,
    ) -> Result<LogFile, ObjectError> {
        let head = Head { boot: home.files.boot(), after, ..self.head(log::MAGIC, number) };
        LogFile::create(&*home.files, home.path("log", number), head)
    }

    /// Keeps files under other names, and writes everything that was read to a dump, so that
    /// recovery does not read the files again.
    fn set_aside(&self, aside: &[PathBuf]) -> Result<(), ObjectError> {
        let Some(home) = self.home.as_ref().filter(|_| !aside.is_empty()) else { return Ok(()) };
        aside.iter().try_for_each(|path| home.keep(path))?;
        home.sync()?;
        self.checkpoint().map(|_| ())
    }

    /// Writes the whole store to a dump and begins a new log: recovery has less to read, and the
    /// device less to store. Other threads continue meanwhile: they wait for a group of objects
    /// that is copied, see [`ObjectStore::dump`], and for no sync. After an error of the log, this
    /// makes the store accept changes again.
    ///
    /// # Errors
    /// [`ObjectError::Config`] when the store has no log; [`ObjectError::File`],
    /// [`ObjectError::OutOfMemory`]: the existing files stay as they were. [`ObjectError::Log`]
    /// when the log could not be written meanwhile. [`ObjectError::Forked`].
    pub fn checkpoint(&self) -> Result<Dumped, ObjectError> {
        let (Some(log), Some(home)) = (&self.log, &self.home) else {
            return Err(ObjectError::Config("it has no log to be shortened".to_owned()));
        };
        log.is_here()?;
        let _alone = self.checkpoints.lock();
        loop {
            let was_broken = log.is_sound().is_err();
            log.turn_over(self.begin_log(home, log.place().0 + 1, None)?);
            // A log that failed before is followed by one that is empty until it is mended, so the
            // dump has every change made. If the log has failed since, the next one may have some
            // changes and lack later ones.
            if was_broken || log.is_sound().is_ok() {
                let (number, after) = log.place();
                let path = home.path("dump", number);
                // Recovery redoes the changes of the log upon the dump. That ends at a state the
                // store had only if the log has all changes that the dump has.
                let ready = || if was_broken { Ok(()) } else { log.sync() };
                let dumped = self.dump_as(&*home.files, &path, number, Some(after), ready)?;
                if was_broken {
                    log.mend();
                }
                log.forget_earlier();
                home.remove_before(number)?;
                log.is_sound()?;
                return Ok(dumped);
            }
        }
    }

    /// Waits until every change made before this call is on the device, whatever the log's
    /// durability; does nothing without a log.
    ///
    /// # Errors
    /// [`ObjectError::Log`], [`ObjectError::Forked`].
    pub fn sync(&self) -> Result<(), ObjectError> {
        self.log.as_ref().map_or(Ok(()), Log::sync)
    }

    /// Closes the store once every change is on the device. Dropping a store does the same, but
    /// reports a failure only to `tracing`. In a child of the process that opened the store (fork)
    /// nothing is written, and that is no error.
    ///
    /// # Errors
    /// [`ObjectError::Log`]: changes that were not synced before may be lost.
    pub fn close(self) -> Result<(), ObjectError> {
        self.log.as_ref().map_or(Ok(()), Log::close)
    }

    /// Bytes of the log since the last checkpoint, or since the store was opened; 0 without a log,
    /// and in a child of the process that opened it.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.log.as_ref().map_or(0, Log::len)
    }
}

/// Recovery in progress.
struct Reading<'a> {
    store: &'a ObjectStore,
    home: &'a Home,
    accepts_damage: bool,
    boot: u128,
    found: Recovered,
    /// Files to be kept under another name, once a dump has replaced all that was read.
    aside: Vec<PathBuf>,
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

/// Contents behind the offset at which reading a log stopped.
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
        let dump = self.home.numbers("dump")?.last().copied();
        let first = dump.unwrap_or(1);
        if let Some(number) = dump {
            let path = self.home.path("dump", number);
            let loaded = self.store.load(&*self.home.files, &path);
            let loaded =
                loaded.and_then(|head| is_named(&path, head.sequence, number).map(|()| head.after));
            self.found.dump = true;
            self.link = self.accept(loaded, &path)?.flatten();
        }
        // A checkpoint begins its log before its dump, so a dump always has its log.
        let least = dump.unwrap_or(first - 1);
        let last = self.home.numbers("log")?.last().map_or(least, |last| least.max(*last));
        let mut number = first;
        while number <= last {
            let path = self.home.path("log", number);
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
                    let removed = self.home.files.remove(&path);
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
        self.aside.extend((first..=last).map(|number| self.home.path("log", number)));
    }

    /// Skips damage if that is allowed.
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
        let path = self.home.path("log", number);
        LogReader::open(&*self.home.files, &path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                damaged(&path, 0, "it is missing, and a dump or later ones are there")
            }
            _ => ObjectError::file("read", &path, error),
        })
    }

    fn read_log(&mut self, number: u64, first: u64, last: u64) -> Result<Next, ObjectError> {
        let log = self.log(number)?;
        let head = log.head(&*self.home.files);
        if number == last && head.is_err() && log.len <= to_u64(HEAD_BYTES) {
            self.found.torn_bytes += log.len;
            return Ok(Next::Unborn);
        }
        let head = head?;
        is_named(&log.path, head.sequence, number)?;
        self.store.takes(head, &log.path.display().to_string())?;
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
            return Err(damaged(&log.path, 0, reason));
        }
        // Batches of the next log record that this one is on the device.
        log.sync()?;
        let mut place = Place { salt: head.salt, offset: to_u64(HEAD_BYTES) };
        while place.offset < log.len {
            let batch = log.batch(place)?;
            let (found, changes) = match batch {
                Some((found, changes)) if self.continues(found) => (found, changes),
                other => {
                    let other = other.map(|(found, _)| found);
                    let begins = number != first && place.offset == to_u64(HEAD_BYTES);
                    if other.is_some() && !begins {
                        let reason = "its batches are not those of one writer";
                        return Err(damaged(&log.path, place.offset, reason));
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

    fn apply(&mut self, log: &LogReader, at: Place, changes: &[u8]) -> Result<(), ObjectError> {
        let mut rest = changes;
        while !rest.is_empty() {
            let change = Change::take(&mut rest);
            let change = change.map_err(|error| damaged(&log.path, at.offset, error.0))?;
            self.store.replay(change)?;
            self.found.changes += 1;
        }
        Ok(())
    }

    /// Determines why a log ends at a position, where `strange` is a batch that does not continue
    /// the chain, if there is one.
    fn stop(
        &mut self,
        log: &LogReader,
        place: Place,
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
            return Err(damaged(&log.path, place.offset, reason));
        }
        if behind.of_this_boot {
            let reason = "changes are damaged or missing, and others follow, though the machine \
                          was not started since: another process has written to the log";
            return Err(damaged(&log.path, place.offset, reason));
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

    /// Returns the log that follows the batch read last, by its head or its first batch.
    fn goes_on(&self, later: std::ops::RangeInclusive<u64>) -> Result<Option<u64>, ObjectError> {
        for number in later {
            let log = self.log(number)?;
            let Ok(head) = log.head(&*self.home.files) else { continue };
            let place = Place { salt: head.salt, offset: to_u64(HEAD_BYTES) };
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
        place: Place,
        strange: Option<BatchHead>,
        later: std::ops::RangeInclusive<u64>,
    ) -> Result<Behind, ObjectError> {
        let mut behind = Behind { bytes: log.len - place.offset, ..Behind::default() };
        let head = log.head(&*self.home.files)?;
        let from = place.offset + u64::from(strange.is_none());
        self.look(log, head, from, &mut behind, |batch| {
            batch.synced > place.offset || strange.is_some() && batch.synced == place.offset
        })?;
        for number in later {
            let log = self.log(number)?;
            let Ok(head) = log.head(&*self.home.files) else { continue };
            behind.bytes += log.content_bytes();
            self.look(&log, head, to_u64(HEAD_BYTES), &mut behind, |batch| batch.synced > 0)?;
        }
        Ok(behind)
    }

    /// Counts the batches of a log from an offset on. `was_synced` tells if a batch records that
    /// the offset at which reading stopped was on the device.
    fn look(
        &self,
        log: &LogReader,
        head: Head,
        offset: u64,
        behind: &mut Behind,
        was_synced: impl Fn(BatchHead) -> bool,
    ) -> Result<(), ObjectError> {
        let of_this_boot = self.boot != 0 && head.boot == self.boot;
        log.heads(Place { salt: head.salt, offset }, |batch| {
            behind.batches += 1;
            behind.of_this_boot |= of_this_boot;
            behind.was_synced |= was_synced(batch);
        })
    }
}

/// Checks that the number in a file is that of its name.
fn is_named(path: &Path, sequence: u64, number: u64) -> Result<(), ObjectError> {
    let reason = format!("it is number {sequence} by what it says itself");
    if sequence == number { Ok(()) } else { Err(damaged(path, 0, &reason)) }
}

fn damaged(path: &Path, offset: u64, reason: &str) -> ObjectError {
    let file = path.display().to_string();
    ObjectError::Corrupt { file, offset, reason: reason.to_owned() }
}
