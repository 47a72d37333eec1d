//! Dumps: snapshots of a store in a file, and stores restored from them.

use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use terrace_sys::size::to_u64;

use crate::blocks::{BlockError, BlockReader, BlockWriter, Head, VERSION, salt};
use crate::config::ObjectConfig;
use crate::error::ObjectError;
use crate::files::{Files, Stream, SystemFiles, directory_of};
use crate::group::bits;
use crate::group_edit::Content;
use crate::log::Link;
use crate::record::{self, Change, GroupRecord, Next, PIECE_BYTES, Source};
use crate::snapshot::dump_bytes;
use crate::store::ObjectStore;

const MAGIC: [u8; 8] = *b"TRCobjdu";

/// Statistics of a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dumped {
    /// Number of objects.
    pub objects: u64,
    /// Bytes of all objects.
    pub object_bytes: u64,
    /// Bytes of the dump.
    pub dump_bytes: u64,
    /// Groups of 64 ids that were copied by the threads that changed them, before the dump came to
    /// them.
    pub kept_groups: u64,
}

impl ObjectStore {
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
        self.dump_as(&SystemFiles, path, 0, None, || Ok(()))
    }

    /// As [`ObjectStore::dump`]. `sequence` is its position in the order of logs, `after` the last
    /// batch before the log that follows. `ready` has to succeed before the file gets its name.
    pub(crate) fn dump_as(
        &self,
        files: &dyn Files,
        path: &Path,
        sequence: u64,
        after: Option<Link>,
        ready: impl Fn() -> Result<(), ObjectError>,
    ) -> Result<Dumped, ObjectError> {
        let unfinished = unfinished(path);
        let failed = |source| ObjectError::file("write", &unfinished, source);
        // Left by a dump that was interrupted.
        drop(files.remove(&unfinished));
        let dumped = files.create(&unfinished).map_err(failed).and_then(|file| {
            let head = Head { after, ..self.head(MAGIC, sequence) };
            let (to, dumped) = self.dump_with(Stream::new(file), head, &failed)?;
            to.file.sync().map_err(failed)?;
            ready()?;
            Ok(dumped)
        });
        let dumped = dumped.inspect_err(|_| drop(files.remove(&unfinished)))?;
        let failed = |source| ObjectError::file("write", path, source);
        let renamed = files.rename(&unfinished, path);
        renamed.inspect_err(|_| drop(files.remove(&unfinished))).map_err(failed)?;
        files.sync_names(directory_of(path)).map_err(failed)?;
        Ok(dumped)
    }

    /// As [`ObjectStore::dump`], to a writer, which must not use objects of this store.
    ///
    /// # Errors
    /// [`ObjectError::Stream`], [`ObjectError::OutOfMemory`].
    pub fn dump_to(&self, to: impl Write) -> Result<Dumped, ObjectError> {
        Ok(self.dump_with(to, self.head(MAGIC, 0), &ObjectError::Stream)?.1)
    }

    fn dump_with<W: Write>(
        &self,
        to: W,
        head: Head,
        failed: &dyn Fn(io::Error) -> ObjectError,
    ) -> Result<(W, Dumped), ObjectError> {
        let budget = self.account.borrow(dump_bytes());
        let _budget = budget.map_err(|_| self.out_of_memory(dump_bytes()))?;
        let mut to = BlockWriter::new(to, head).map_err(failed)?;
        let mut cut = self.cut();
        cut.copy(&mut |bytes: &[u8]| to.write(bytes).map_err(failed))?;
        let copied = cut.end();
        let (mut bytes, mut dumped) = (Vec::new(), Dumped::default());
        (dumped.objects, dumped.object_bytes) = (copied.objects, copied.object_bytes);
        dumped.kept_groups = copied.kept_groups;
        record::end(dumped.objects, dumped.object_bytes, &mut bytes);
        to.write(&bytes).map_err(failed)?;
        let (to, written) = to.end().map_err(failed)?;
        dumped.dump_bytes = written;
        Ok((to, dumped))
    }

    /// Returns the head of a file of this store.
    pub(crate) fn head(&self, magic: [u8; 8], sequence: u64) -> Head {
        let (version, node, generations) = (VERSION, self.node(), self.config.generations);
        Head { magic, version, node, generations, sequence, salt: salt(), boot: 0, after: None }
    }

    /// Checks that the ids of a file have generations if the store's do, and none otherwise.
    pub(crate) fn takes(&self, head: Head, name: &str) -> Result<(), ObjectError> {
        if head.generations == self.config.generations {
            return Ok(());
        }
        let has = if head.generations { "with" } else { "without" };
        Err(ObjectError::Config(format!("{name} is of a store {has} generations of ids")))
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
        let read = store.load(&SystemFiles, dump);
        store.list_all();
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
        store.load_from(from, "the dump", &ObjectError::Stream)?;
        store.list_all();
        Ok(store)
    }

    /// Fills an empty store from a dump, and returns the dump's head.
    pub(crate) fn load(&self, files: &dyn Files, path: &Path) -> Result<Head, ObjectError> {
        let failed = |source| ObjectError::file("read", path, source);
        let file = Stream::new(files.open(path).map_err(failed)?);
        let file = BufReader::with_capacity(PIECE_BYTES, file);
        self.load_from(file, &path.display().to_string(), &failed)
    }

    fn load_from(
        &self,
        mut from: impl Read,
        name: &str,
        failed: &dyn Fn(io::Error) -> ObjectError,
    ) -> Result<Head, ObjectError> {
        let wrong = |error, offset| match error {
            BlockError::Damaged(reason) => {
                ObjectError::Corrupt { file: name.to_owned(), offset, reason }
            }
            BlockError::Version(has) => {
                ObjectError::Version { path: name.to_owned(), has, reads: VERSION }
            }
            BlockError::Io(source) => failed(source),
        };
        let head = Head::read(&mut from, MAGIC).map_err(|error| wrong(error, 0))?;
        self.takes(head, name)?;
        let mut from = BlockReader::new(from, head);
        let mut dumped = Dumped::default();
        loop {
            let next = record::next(&mut from, head.generations)
                .map_err(|error| wrong(error, from.offset()))?;
            match next {
                Next::Group(group) => {
                    let bytes = group.objects.iter().map(|(_, len)| to_u64(*len));
                    dumped.objects += to_u64(group.objects.len());
                    dumped.object_bytes += bytes.sum::<u64>();
                    self.load_group(&group, &mut from)
                        .map_err(|error| error.or(|error| wrong(error, from.offset())))?;
                }
                Next::End { objects, object_bytes }
                    if (objects, object_bytes) == (dumped.objects, dumped.object_bytes) =>
                {
                    return Ok(head);
                }
                Next::End { .. } => {
                    let missing = BlockError::Damaged("groups of objects are missing".to_owned());
                    return Err(wrong(missing, from.offset()));
                }
            }
        }
    }

    fn load_group<S: Source<Error = BlockError>>(
        &self,
        record: &GroupRecord,
        from: &mut S,
    ) -> Result<(), LoadError> {
        let group = self.group_for_load(record.number)?;
        for (slot, generation) in (0..).zip(record.generations.iter().flatten()) {
            self.table.set_generation(self.id_at(record.number, slot), *generation);
        }
        let mut bytes = Vec::new();
        for (slot, len) in &record.objects {
            let first = (*len).min(PIECE_BYTES);
            bytes.resize(first, 0);
            from.fill(&mut bytes)?;
            let id = self.id_at(record.number, *slot);
            if group.view().is_present(*slot) {
                return Err(BlockError::Damaged(format!("{id} is there twice")).into());
            }
            if first == *len {
                self.set(group, id, |_| Some(Content::Bytes(&bytes)))?;
                continue;
            }
            self.set(group, id, |_| Some(Content::Zeros(*len)))?;
            for offset in (0..*len).step_by(PIECE_BYTES) {
                if offset > 0 {
                    bytes.resize(PIECE_BYTES.min(len - offset), 0);
                    from.fill(&mut bytes)?;
                }
                self.write_at(id, offset, &bytes)?;
            }
        }
        for slot in bits(record.reserved) {
            self.replay(Change::Reserve { id: self.id_at(record.number, slot), count: 1 })?;
        }
        for slot in bits(record.read_only) {
            self.set_read_only(self.id_at(record.number, slot), true)?;
        }
        Ok(())
    }
}

/// Reason that a dump cannot be loaded.
enum LoadError {
    Block(BlockError),
    Object(ObjectError),
}

impl LoadError {
    fn or(self, wrong: impl FnOnce(BlockError) -> ObjectError) -> ObjectError {
        match self {
            Self::Block(error) => wrong(error),
            Self::Object(error) => error,
        }
    }
}

impl From<BlockError> for LoadError {
    fn from(error: BlockError) -> Self {
        Self::Block(error)
    }
}

impl From<ObjectError> for LoadError {
    fn from(error: ObjectError) -> Self {
        Self::Object(error)
    }
}

/// Returns the name of a file until it is whole.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".unfinished");
    PathBuf::from(name)
}
