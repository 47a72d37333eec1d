//! Stores with a log: opened again, with everything that was acknowledged.
//!
//! A directory has dumps and logs with numbers. Dump `n` has every change of the logs before log
//! `n`, and some of those after; so the newest dump and the logs from its number on are the store.
//! A checkpoint begins the next log first and dumps then: whenever it ends, what is there is whole.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use terrace_sys::file::{make_directory, sync_directory};
use terrace_sys::lock::LockedFile;
use terrace_sys::size::{to_u64, to_usize};

use crate::blocks::{BlockError, HEAD_BYTES, Head, Place};
use crate::config::{LogConfig, ObjectConfig};
use crate::dump::Dumped;
use crate::error::ObjectError;
use crate::log::{self, BATCH_HEAD_BYTES, BATCH_MAGIC, BatchHead, Log, LogFile};
use crate::record::Change;
use crate::store::ObjectStore;

/// What a store was made of when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Whether there was a dump.
    pub dump: bool,
    /// Logs that were read.
    pub logs: u64,
    /// Changes that they had.
    pub changes: u64,
    /// Bytes at the end of the last log that were being written when the process stopped, or were
    /// not on the device when the machine did, from the first batch on that is not whole.
    pub torn_bytes: u64,
    /// What was damaged, if [`LogConfig::accepts_damage`] let the store be opened nevertheless; the
    /// files are kept beside under names that begin with `damaged-`.
    pub damage: Vec<String>,
}

/// The files of a store.
pub(crate) struct Home {
    dir: PathBuf,
    _lock: LockedFile,
}

impl Home {
    fn lock(dir: &Path) -> Result<Self, ObjectError> {
        make_directory(dir, sync_directory)
            .map_err(|source| ObjectError::file("make", dir, source))?;
        let path = dir.join("lock");
        let lock = LockedFile::open(&path);
        let lock = lock.map_err(|source| ObjectError::file("lock", &path, source))?;
        Ok(Self { dir: dir.to_owned(), _lock: lock })
    }

    fn path(&self, kind: &str, number: u64) -> PathBuf {
        self.dir.join(format!("{kind}-{number:016x}"))
    }

    /// The numbers of the files of a kind, in order.
    fn numbers(&self, kind: &str) -> Result<Vec<u64>, ObjectError> {
        let failed = |source| ObjectError::file("read", &self.dir, source);
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(kind)?.strip_prefix('-'));
            let number = number.filter(|digits| digits.len() == 16);
            numbers.extend(number.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Removes what a newer dump has made useless. What cannot be removed now is removed later.
    fn remove_before(&self, number: u64) -> Result<(), ObjectError> {
        for kind in ["dump", "log"] {
            for old in self.numbers(kind)?.into_iter().filter(|old| *old < number) {
                let path = self.path(kind, old);
                if let Err(error) = fs::remove_file(&path) {
                    tracing::warn!(path = %path.display(), %error, "an old file stays");
                }
            }
        }
        Ok(())
    }

    /// Removes what a process left that stopped while it made a dump.
    fn tidy(&self) -> Result<(), ObjectError> {
        if let Some(last) = self.numbers("dump")?.last() {
            self.remove_before(*last)?;
        }
        let failed = |source| ObjectError::file("read", &self.dir, source);
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == "unfinished") {
                fs::remove_file(&path).map_err(|it| ObjectError::file("remove", &path, it))?;
            }
        }
        Ok(())
    }

    fn set_aside(&self, path: &Path) -> Result<(), ObjectError> {
        if !path.exists() {
            return Ok(());
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let aside = self.dir.join(format!("damaged-{name}"));
        fs::rename(path, &aside).map_err(|source| ObjectError::file("rename", path, source))
    }
}

impl ObjectStore {
    /// A store whose changes go to a log, with everything that the log's directory has; an empty
    /// directory is an empty store.
    ///
    /// An operation that changes something returns when the change is as durable as
    /// [`LogConfig::durability`] says. Others may have seen it before.
    ///
    /// # Errors
    /// As [`ObjectStore::new`]; [`ObjectError::File`], also when another process has the directory;
    /// [`ObjectError::Corrupt`] when a dump or a log is damaged, other than by a last batch that is
    /// not whole: nothing is changed then, and [`LogConfig::accepts_damage`] opens what is whole;
    /// [`ObjectError::OutOfMemory`] and [`ObjectError::OutOfIds`] when the store has less memory
    /// than the objects take: one that was full to the last may lack some, as objects do not come
    /// to lie where they lay. Nothing is changed then, and with more memory it opens.
    pub fn open(config: ObjectConfig, log: LogConfig) -> Result<(Self, Recovered), ObjectError> {
        let home = Home::lock(&log.dir)?;
        let mut store = Self::new(config)?;
        let mut reading = Reading {
            store: &store,
            home: &home,
            accepts_damage: log.accepts_damage,
            found: Recovered::default(),
            aside: Vec::new(),
        };
        let last = reading.read()?;
        let Reading { found, aside, .. } = reading;
        home.tidy()?;
        store.list_all();
        let file = LogFile::create(home.path("log", last + 1), store.head(log::MAGIC, last + 1))?;
        store.log = Some(Log::new(file, log.durability));
        store.home = Some(home);
        if !found.damage.is_empty() {
            store.checkpoint_and(|home| aside.iter().try_for_each(|path| home.set_aside(path)))?;
        }
        Ok((store, found))
    }

    /// Writes everything to a dump and begins a log anew: the next start reads less, and the device
    /// has less. Everybody goes on meanwhile, see [`ObjectStore::dump`]. After an error of the log,
    /// this makes the store take changes again.
    ///
    /// # Errors
    /// [`ObjectError::Config`] when the store has no log; [`ObjectError::File`],
    /// [`ObjectError::OutOfMemory`]: what was there before stays as it was. [`ObjectError::Log`]
    /// when the log could not be written meanwhile.
    pub fn checkpoint(&self) -> Result<Dumped, ObjectError> {
        self.checkpoint_and(|_| Ok(()))
    }

    /// Does something between the dump and the end of what it stands for.
    fn checkpoint_and(
        &self,
        then: impl FnOnce(&Home) -> Result<(), ObjectError>,
    ) -> Result<Dumped, ObjectError> {
        let (Some(log), Some(home)) = (&self.log, &self.home) else {
            return Err(ObjectError::Config("it has no log to be shortened".to_owned()));
        };
        let _alone = self.checkpoints.lock();
        let number = log.file().sequence + 1;
        log.turn_over(LogFile::create(home.path("log", number), self.head(log::MAGIC, number))?);
        // A log that has failed by now takes no changes, so the dump has all there are. One that
        // fails later lacks changes that the dump may lack as well.
        let broken = log.is_sound().is_err();
        let dumped = self.dump_as(&home.path("dump", number), number)?;
        if broken {
            log.mend();
        }
        log.forget_earlier();
        then(home)?;
        home.remove_before(number)?;
        log.is_sound()?;
        Ok(dumped)
    }

    /// Waits until every change made before this call is on the device, whatever the log's
    /// durability; without a log it does nothing.
    ///
    /// # Errors
    /// [`ObjectError::Log`].
    pub fn sync(&self) -> Result<(), ObjectError> {
        self.log.as_ref().map_or(Ok(()), Log::sync)
    }

    /// Bytes of the log since the last checkpoint that was made, or since the store was opened; 0
    /// without a log.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.log.as_ref().map_or(0, Log::len)
    }
}

/// A store that is being read.
struct Reading<'a> {
    store: &'a ObjectStore,
    home: &'a Home,
    accepts_damage: bool,
    found: Recovered,
    /// What is to be kept under another name, once a dump stands for all that was read.
    aside: Vec<PathBuf>,
}

impl Reading<'_> {
    /// Reads everything; the number of the last log.
    fn read(&mut self) -> Result<u64, ObjectError> {
        let dump = self.home.numbers("dump")?.last().copied();
        let first = dump.unwrap_or(1);
        if let Some(number) = dump {
            let path = self.home.path("dump", number);
            let loaded = self.store.load(&path).and_then(|named| is_named(&path, named, number));
            self.found.dump = true;
            self.accept(loaded, &path)?;
        }
        // A checkpoint begins its log before its dump, so that with the dump the log is there.
        let least = dump.unwrap_or(first - 1);
        let last = self.home.numbers("log")?.last().map_or(least, |last| least.max(*last));
        for number in first..=last {
            let path = self.home.path("log", number);
            let read = self.read_log(number, last);
            let Some(read) = self.accept(read, &path)? else {
                // What comes after lost changes may build on them.
                self.aside.extend((number + 1..=last).map(|later| self.home.path("log", later)));
                break;
            };
            self.found.logs += 1;
            self.found.changes += read.changes;
            self.found.torn_bytes += read.torn_bytes;
            if read.is_unborn {
                fs::remove_file(&path).map_err(|it| ObjectError::file("remove", &path, it))?;
                return Ok(number - 1);
            }
        }
        Ok(last)
    }

    /// Passes over damage where that is allowed.
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

    fn read_log(&self, number: u64, last: u64) -> Result<ReadLog, ObjectError> {
        let path = self.home.path("log", number);
        let log = match LogReader::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged(&path, 0, "it is missing, and a dump or later ones are there"));
            }
            opened => opened.map_err(|source| ObjectError::file("read", &path, source))?,
        };
        // Only what was written last may be torn.
        let mut is_last = true;
        for later in number + 1..=last {
            let later = self.home.path("log", later);
            let len = fs::metadata(&later).map_or(0, |metadata| metadata.len());
            is_last &= len <= to_u64(HEAD_BYTES);
        }
        let head = log.head();
        if number == last && head.is_err() && log.len <= to_u64(HEAD_BYTES) {
            return Ok(ReadLog { changes: 0, torn_bytes: log.len, is_unborn: true });
        }
        let head = head?;
        is_named(&path, head.sequence, number)?;
        self.store.takes(head, &path.display().to_string())?;
        log.replay(self.store, head, is_last)
    }
}

/// What was read of a log.
struct ReadLog {
    changes: u64,
    torn_bytes: u64,
    /// It was being made, and has nothing.
    is_unborn: bool,
}

/// Whether a file is the one that its name says.
fn is_named(path: &Path, sequence: u64, number: u64) -> Result<(), ObjectError> {
    let reason = format!("it is number {sequence} by what it says itself");
    if sequence == number { Ok(()) } else { Err(damaged(path, 0, &reason)) }
}

fn damaged(path: &Path, offset: u64, reason: &str) -> ObjectError {
    let file = path.display().to_string();
    ObjectError::Corrupt { file, offset, reason: reason.to_owned() }
}

/// A log that is read.
struct LogReader {
    file: File,
    path: PathBuf,
    len: u64,
    /// A place of the file, and what was read there.
    window: RefCell<(u64, Vec<u8>)>,
}

/// Bytes that are read at a time.
const WINDOW: usize = 1 << 20;

impl LogReader {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, path: path.to_owned(), len, window: RefCell::default() })
    }

    fn head(&self) -> Result<Head, ObjectError> {
        Head::read(&mut &self.file, log::MAGIC).map_err(|error| match error {
            BlockError::Io(source) => ObjectError::file("read", &self.path, source),
            BlockError::Damaged(reason) => damaged(&self.path, 0, &reason),
        })
    }

    /// Makes its changes again; `is_last`: what is at its end may have been written last.
    fn replay(
        &self,
        store: &ObjectStore,
        Head { salt, .. }: Head,
        is_last: bool,
    ) -> Result<ReadLog, ObjectError> {
        let failed = |source| ObjectError::file("read", &self.path, source);
        let mut read = ReadLog { changes: 0, torn_bytes: 0, is_unborn: false };
        let mut at = to_u64(HEAD_BYTES);
        while at < self.len {
            let Some((_, changes)) = self.batch(salt, at).map_err(failed)? else {
                if !is_last || self.was_synced(salt, at).map_err(failed)? {
                    let reason = "changes are damaged that were on the device";
                    return Err(damaged(&self.path, at, reason));
                }
                read.torn_bytes = self.len - at;
                let cut = self.file.set_len(at).and_then(|()| self.file.sync_all());
                cut.map_err(|source| ObjectError::file("shorten", &self.path, source))?;
                break;
            };
            let mut rest = &changes[..];
            while !rest.is_empty() {
                let change = Change::take(&mut rest);
                store.replay(change.map_err(|error| damaged(&self.path, at, error.0))?)?;
                read.changes += 1;
            }
            at += to_u64(BATCH_HEAD_BYTES + changes.len());
        }
        Ok(read)
    }

    /// The batch that begins at a place, and its changes; none if there is none, or not all of it.
    fn batch(&self, salt: u64, at: u64) -> io::Result<Option<(BatchHead, Vec<u8>)>> {
        let begin = at + to_u64(BATCH_HEAD_BYTES);
        if begin > self.len {
            return Ok(None);
        }
        let mut head = [0; BATCH_HEAD_BYTES];
        self.read(&mut head, at)?;
        let head = BatchHead::from_bytes(&head).filter(|head| head.len <= self.len - begin);
        let Some(head) = head else { return Ok(None) };
        let mut changes = Vec::new();
        changes.try_reserve_exact(to_usize(head.len)).map_err(io::Error::other)?;
        changes.resize(to_usize(head.len), 0);
        self.read(&mut changes, begin)?;
        Ok(head.is_of(Place { salt, offset: at }, &changes).then_some((head, changes)))
    }

    /// Reads what is there at a place, most of the time from what was read of the file before.
    fn read(&self, to: &mut [u8], at: u64) -> io::Result<()> {
        if to.len() > WINDOW {
            return self.file.read_exact_at(to, at);
        }
        let mut window = self.window.borrow_mut();
        let (start, bytes) = &mut *window;
        let inside = at.checked_sub(*start).map(to_usize);
        let found = inside.and_then(|offset| bytes.get(offset..)?.get(..to.len()));
        if let Some(found) = found {
            to.copy_from_slice(found);
            return Ok(());
        }
        let most = usize::try_from(self.len - at).unwrap_or(usize::MAX).min(WINDOW);
        bytes.resize(most, 0);
        *start = at;
        self.file.read_exact_at(bytes, at)?;
        let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
        to.copy_from_slice(bytes.get(..to.len()).ok_or_else(short)?);
        Ok(())
    }

    /// Whether a batch behind a place says that the place was on the device before.
    fn was_synced(&self, salt: u64, at: u64) -> io::Result<bool> {
        let overlap = BATCH_MAGIC.len() - 1;
        let mut window = vec![0; WINDOW + overlap];
        for start in (at + 1..self.len).step_by(WINDOW) {
            let most = usize::try_from(self.len - start).unwrap_or(usize::MAX);
            let window = &mut window[..most.min(WINDOW + overlap)];
            self.file.read_exact_at(window, start)?;
            for (offset, bytes) in window.windows(BATCH_MAGIC.len()).enumerate() {
                if bytes != BATCH_MAGIC {
                    continue;
                }
                let later = self.batch(salt, start + to_u64(offset))?;
                if later.is_some_and(|(head, _)| head.synced > at) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}
