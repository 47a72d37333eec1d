//! Logs, checkpoints and dumps of a store.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use super::ObjectStore;
use crate::config::{LogConfig, ObjectConfig};
use crate::durable::directory::LogDirectory;
use crate::durable::dump::{Dump, Dumped};
use crate::durable::files::{Files, SystemFiles};
use crate::durable::log::Log;
use crate::error::ObjectError;
use crate::recover::load::Load;
use crate::recover::{self, Recovered};

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

    /// As [`ObjectStore::open`], over any file system.
    pub(crate) fn open_in(
        files: Arc<dyn Files>,
        config: ObjectConfig,
        log: LogConfig,
    ) -> Result<(Self, Recovered), ObjectError> {
        let directory = LogDirectory::lock(files, &log.dir)?;
        let mut store = Self::new(config)?;
        let identity = store.identity();
        let opened = recover::open(directory, &mut store.objects, identity, &log)?;
        store.checkpoints = Some(opened.checkpoints);
        // The dump has everything that was read, so that recovery does not read these files again.
        if let (false, Some(checkpoints)) = (opened.aside.is_empty(), &store.checkpoints) {
            checkpoints.keep(&opened.aside)?;
            store.checkpoint()?;
        }
        Ok((store, opened.found))
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
        let (Some(log), Some(checkpoints)) = (self.objects.journal().log(), &self.checkpoints)
        else {
            return Err(ObjectError::Config("it has no log to be shortened".to_owned()));
        };
        log.is_here()?;
        checkpoints.make(log, self.writer())
    }

    /// Waits until every change made before this call is on the device, whatever the log's
    /// durability; does nothing without a log.
    ///
    /// # Errors
    /// [`ObjectError::Log`], [`ObjectError::Forked`].
    pub fn sync(&self) -> Result<(), ObjectError> {
        self.objects.journal().log().map_or(Ok(()), Log::sync)
    }

    /// Closes the store once every change is on the device. Dropping a store does the same, but
    /// reports a failure only to `tracing`. In a child of the process that opened the store (fork)
    /// nothing is written, and that is no error.
    ///
    /// # Errors
    /// [`ObjectError::Log`]: changes that were not synced before may be lost.
    pub fn close(self) -> Result<(), ObjectError> {
        self.objects.journal().log().map_or(Ok(()), Log::close)
    }

    /// Bytes of the log since the last checkpoint; 0 without a log, and in a child of the process
    /// that opened the store.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.objects.journal().log().map_or(0, Log::len)
    }

    /// Writes all objects and reserved ids to a file as they are at one moment, which lies within
    /// the call, while other threads continue to use the store. The file appears under its name
    /// once it is whole and on the device, and then replaces another of that name.
    ///
    /// The first change of an object since the dump began copies its group first, some 10 us more;
    /// when the copies exceed 4 MiB, changes wait for the dump. So do changes of groups whose
    /// objects, 64 at most with consecutive ids, have more than 1 MiB: the dump writes such a group
    /// next, and its objects can be read meanwhile; locking or pinning one waits, and
    /// defragmentation skips the group. The dump takes 12 MiB of the budget. Locks and pins are not
    /// part of it. One dump is made at a time; a second one waits for the first.
    ///
    /// # Errors
    /// [`ObjectError::File`]; [`ObjectError::OutOfMemory`] when the budget has no room for the
    /// copies made meanwhile; [`ObjectError::Damaged`] when the location of an object is invalid.
    pub fn dump(&self, path: &Path) -> Result<Dumped, ObjectError> {
        self.writer().to_file(&SystemFiles, path, 0, None, || Ok(()))
    }

    /// As [`ObjectStore::dump`], to a writer, which must not use objects of this store.
    ///
    /// # Errors
    /// [`ObjectError::Stream`], [`ObjectError::OutOfMemory`].
    pub fn dump_to(&self, to: impl Write) -> Result<Dumped, ObjectError> {
        self.writer().to_stream(to)
    }

    fn writer(&self) -> Dump<'_> {
        let (groups, journal) = (self.objects.groups(), self.objects.journal());
        Dump { groups, journal, identity: self.identity() }
    }

    /// Makes a store from a dump.
    ///
    /// The store may have other memory than the one that was dumped, and another node: objects keep
    /// their ids.
    ///
    /// # Errors
    /// As [`ObjectStore::new`], [`ObjectError::Config`] also when the ids of the dumped store have
    /// generations and those of this one do not, or the other way round; [`ObjectError::Corrupt`]
    /// when the dump is damaged or incomplete, see [`ObjectStore::restore_part`];
    /// [`ObjectError::File`]; [`ObjectError::OutOfMemory`] and [`ObjectError::OutOfIds`] when the
    /// store has less memory than the dump takes.
    pub fn restore(config: ObjectConfig, dump: &Path) -> Result<Self, ObjectError> {
        let (store, error) = Self::restore_part(config, dump)?;
        error.map_or(Ok(store), Err)
    }

    /// Makes a store from the readable part of a dump that may be damaged: all groups of objects
    /// before the first damage. Returns the error that describes the damage, too.
    ///
    /// # Errors
    /// As [`ObjectStore::restore`], except [`ObjectError::Corrupt`].
    pub fn restore_part(
        config: ObjectConfig,
        dump: &Path,
    ) -> Result<(Self, Option<ObjectError>), ObjectError> {
        let store = Self::new(config)?;
        let read = store.reader().read_file(&SystemFiles, dump);
        store.objects.groups().list_all();
        match read {
            Ok(_) => Ok((store, None)),
            Err(error @ ObjectError::Corrupt { .. }) => Ok((store, Some(error))),
            Err(error) => Err(error),
        }
    }

    /// As [`ObjectStore::restore`], from a reader.
    ///
    /// # Errors
    /// As [`ObjectStore::restore`], and [`ObjectError::Stream`].
    pub fn restore_from(config: ObjectConfig, from: impl Read) -> Result<Self, ObjectError> {
        let store = Self::new(config)?;
        store.reader().read_stream(from, "the dump", &ObjectError::Stream)?;
        store.objects.groups().list_all();
        Ok(store)
    }

    fn reader(&self) -> Load<'_> {
        Load::new(&self.objects, self.identity())
    }
}
