//! Dumps: snapshots of a store in a file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::blocks::{BlockWriter, Head, Link};
use super::files::{Files, Stream, directory_of};
use super::identity::Identity;
use super::journal::Journal;
use super::record;
use super::snapshot::dump_bytes;
use crate::error::ObjectError;
use crate::groups::Groups;

pub(crate) const MAGIC: [u8; 8] = *b"TRCobjdu";

/// Statistics of a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dumped {
    /// Number of objects.
    pub objects: u64,
    /// Bytes of all objects.
    pub object_bytes: u64,
    /// Bytes of the dump.
    pub dump_bytes: u64,
    /// Groups of 64 ids that were copied by the threads that changed them, before the dump reached
    /// them.
    pub kept_groups: u64,
}

/// Writer of dumps of a store, to files or to streams.
#[derive(Clone, Copy)]
pub(crate) struct Dump<'a> {
    pub(crate) groups: &'a Groups,
    pub(crate) journal: &'a Journal,
    pub(crate) identity: Identity,
}

impl Dump<'_> {
    /// Writes a dump to a file, which gets its name once it is whole and on the device. `sequence`
    /// is its position in the order of logs, `after` the last batch before the log that follows.
    /// `ready` has to succeed before the file gets its name.
    pub(crate) fn to_file(
        self,
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
            let head = Head { after, ..self.identity.head(MAGIC, sequence) };
            let (to, dumped) = self.write(Stream::new(file), head, &failed)?;
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

    /// Writes a dump to a stream, which must not use objects of the store.
    pub(crate) fn to_stream(self, to: impl Write) -> Result<Dumped, ObjectError> {
        Ok(self.write(to, self.identity.head(MAGIC, 0), &ObjectError::Stream)?.1)
    }

    fn write<W: Write>(
        self,
        to: W,
        head: Head,
        failed: &dyn Fn(io::Error) -> ObjectError,
    ) -> Result<(W, Dumped), ObjectError> {
        let _budget = self.groups.borrow(dump_bytes())?;
        let mut to = BlockWriter::new(to, head).map_err(failed)?;
        let mut cut = self.journal.cut(self.groups);
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
}

/// Returns the name of a file until it is whole.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".unfinished");
    PathBuf::from(name)
}
