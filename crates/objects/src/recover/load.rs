//! Loading of a dump into an empty store.

use std::io::{self, BufReader, Read};
use std::path::Path;

use terrace_sys::size::to_u64;

use super::redo::Redo;
use crate::durable::blocks::{BlockError, BlockReader, Head, VERSION};
use crate::durable::change::Change;
use crate::durable::dump::{Dumped, MAGIC};
use crate::durable::encoding::Source;
use crate::durable::files::{Files, Stream};
use crate::durable::identity::Identity;
use crate::durable::record::{self, GroupRecord, Next, PIECE_BYTES};
use crate::error::ObjectError;
use crate::groups::content::Content;
use crate::groups::group::bits;
use crate::objects::{By, Objects};

/// An empty store that a dump is loaded into.
#[derive(Clone, Copy)]
pub(crate) struct Load<'a> {
    objects: &'a Objects,
    identity: Identity,
}

impl<'a> Load<'a> {
    pub(crate) fn new(objects: &'a Objects, identity: Identity) -> Self {
        Self { objects, identity }
    }

    /// Reads a dump from a file, and returns its head.
    pub(crate) fn read_file(self, files: &dyn Files, path: &Path) -> Result<Head, ObjectError> {
        let failed = |source| ObjectError::file("read", path, source);
        let file = Stream::new(files.open(path).map_err(failed)?);
        let file = BufReader::with_capacity(PIECE_BYTES, file);
        self.read_stream(file, &path.display().to_string(), &failed)
    }

    /// Reads a dump from a stream, and returns its head.
    pub(crate) fn read_stream(
        self,
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
        self.identity.check(head, name)?;
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
        self,
        record: &GroupRecord,
        from: &mut S,
    ) -> Result<(), LoadError> {
        let (groups, redo) = (self.objects.groups(), Redo::new(self.objects));
        let (table, number) = (groups.table(), record.number);
        let group = groups.for_load(number)?;
        for (index, generation) in (0..).zip(record.generations.iter().flatten()) {
            table.set_generation(number, index, *generation);
        }
        let mut bytes = Vec::new();
        for (index, len) in &record.objects {
            let first = (*len).min(PIECE_BYTES);
            bytes.resize(first, 0);
            from.fill(&mut bytes)?;
            let (id, slot) = (table.id_at(number, *index), table.current(number, group, *index));
            if group.view().is_present(*index) {
                return Err(BlockError::Damaged(format!("{id} is there twice")).into());
            }
            if first == *len {
                redo.set(slot, Content::Bytes(&bytes))?;
                continue;
            }
            redo.set(slot, Content::Zeros(*len))?;
            for offset in (0..*len).step_by(PIECE_BYTES) {
                if offset > 0 {
                    bytes.resize(PIECE_BYTES.min(len - offset), 0);
                    from.fill(&mut bytes)?;
                }
                self.objects.write_at(By::Anybody, id, offset, &bytes)?;
            }
        }
        for index in bits(record.reserved) {
            redo.redo(Change::Reserve { id: table.id_at(number, index), count: 1 })?;
        }
        for index in bits(record.read_only) {
            self.objects.set_read_only(By::Anybody, table.id_at(number, index), true)?;
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
