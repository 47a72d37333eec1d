//! Reader of a zip file whose entries are stored or deflated, such as a jar.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flate2::read::DeflateDecoder;

use crate::error::{CheckError, Result};

const END_SIGNATURE: u32 = 0x0605_4b50;
const END_BYTES: usize = 22;
/// Maximum length in bytes of the comment that may follow the end record.
const COMMENT_BYTES_MAX: u64 = 65_535;
const CENTRAL_SIGNATURE: u32 = 0x0201_4b50;
const CENTRAL_BYTES: usize = 46;
const LOCAL_BYTES: u64 = 30;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// The scripts of the suite, by name.
pub struct Archive {
    file: File,
    path: PathBuf,
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    method: u16,
    stored_bytes: u32,
    bytes: u32,
    offset: u32,
}

impl Archive {
    /// Reads the directory of a zip file and keeps its scripts (`*.test`).
    ///
    /// # Errors
    /// [`CheckError::File`], or [`CheckError::Content`] when this is not a zip file.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| CheckError::file("open", path, error))?;
        let mut archive = Self { file, path: path.to_owned(), entries: BTreeMap::new() };
        archive.entries = archive.directory()?;
        Ok(archive)
    }

    /// Returns the names of the scripts.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Returns the names of the scripts and their lengths in bytes.
    pub fn entries(&self) -> impl Iterator<Item = (&str, u32)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry.bytes))
    }

    /// Returns the text of a script.
    ///
    /// # Errors
    /// [`CheckError::Content`] when no script has this name, or when it cannot be unpacked.
    pub fn read(&self, name: &str) -> Result<String> {
        let entry = self.entries.get(name);
        let entry = *entry.ok_or_else(|| self.damage(&format!("no entry {name}")))?;
        let offset = u64::from(entry.offset);
        let header = self.bytes(offset, usize::try_from(LOCAL_BYTES).unwrap_or(0))?;
        let skipped = u64::from(short(&header, 26)) + u64::from(short(&header, 28));
        let length = usize::try_from(entry.stored_bytes).unwrap_or(0);
        let stored = self.bytes(offset + LOCAL_BYTES + skipped, length)?;
        let mut text = String::new();
        let read = match entry.method {
            STORED => stored.as_slice().read_to_string(&mut text),
            DEFLATED => DeflateDecoder::new(stored.as_slice()).read_to_string(&mut text),
            other => return Err(self.damage(&format!("{name} is packed by method {other}"))),
        };
        read.map_err(|error| self.damage(&format!("{name}: {error}")))?;
        Ok(text)
    }

    fn directory(&self) -> Result<BTreeMap<String, Entry>> {
        let length = self.file.metadata();
        let length = length.map_err(|error| CheckError::file("read", &self.path, error))?.len();
        let end_bytes = u64::try_from(END_BYTES).unwrap_or(0);
        let tail = length.min(COMMENT_BYTES_MAX + end_bytes);
        let tail = self.bytes(length - tail, usize::try_from(tail).unwrap_or(0))?;
        let end = (0..=tail.len().saturating_sub(END_BYTES)).rev();
        let mut end = end.filter(|at| long(&tail, *at) == END_SIGNATURE);
        let end = end.next().ok_or_else(|| self.damage("not a zip file"))?;
        let (bytes, offset) = (long(&tail, end + 12), long(&tail, end + 16));
        let directory = self.bytes(u64::from(offset), usize::try_from(bytes).unwrap_or(0))?;
        let (mut entries, mut at) = (BTreeMap::new(), 0);
        while at + CENTRAL_BYTES <= directory.len() {
            if long(&directory, at) != CENTRAL_SIGNATURE {
                return Err(self.damage("its directory is damaged"));
            }
            let lengths = [28, 30, 32].map(|field| usize::from(short(&directory, at + field)));
            let name = directory.get(at + CENTRAL_BYTES..at + CENTRAL_BYTES + lengths[0]);
            let name = String::from_utf8_lossy(name.unwrap_or_default()).into_owned();
            if name.ends_with(".test") {
                entries.insert(name, Entry::at(&directory, at));
            }
            at += CENTRAL_BYTES + lengths.iter().sum::<usize>();
        }
        Ok(entries)
    }

    fn bytes(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map_err(|error| CheckError::file("read", &self.path, error))?;
        Ok(bytes)
    }

    fn damage(&self, what: &str) -> CheckError {
        let what = format!("{what}; remove it and run again");
        CheckError::Content { path: self.path.clone(), what }
    }
}

impl Entry {
    fn at(directory: &[u8], at: usize) -> Self {
        Self {
            method: short(directory, at + 10),
            stored_bytes: long(directory, at + 20),
            bytes: long(directory, at + 24),
            offset: long(directory, at + 42),
        }
    }
}

/// Reads a two-byte number; 0 beyond the end.
fn short(bytes: &[u8], at: usize) -> u16 {
    let found = bytes.get(at..at + 2).and_then(|found| found.try_into().ok());
    found.map_or(0, u16::from_le_bytes)
}

/// Reads a four-byte number; 0 beyond the end.
fn long(bytes: &[u8], at: usize) -> u32 {
    let found = bytes.get(at..at + 4).and_then(|found| found.try_into().ok());
    found.map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a zip file of one stored entry, as `zip -0` writes it, without the fields that this
    /// reader ignores.
    fn packed(name: &str, text: &str) -> Vec<u8> {
        let length = |text: &str| u32::try_from(text.len()).expect("short").to_le_bytes();
        let mut local = vec![0; 30];
        local[26..28].copy_from_slice(&length(name)[..2]);
        local.extend(name.bytes().chain(text.bytes()));
        let mut central = vec![0; 46];
        central[..4].copy_from_slice(&CENTRAL_SIGNATURE.to_le_bytes());
        central[20..24].copy_from_slice(&length(text));
        central[24..28].copy_from_slice(&length(text));
        central[28..30].copy_from_slice(&length(name)[..2]);
        central.extend(name.bytes());
        let mut end = vec![0; END_BYTES];
        end[..4].copy_from_slice(&END_SIGNATURE.to_le_bytes());
        end[12..16].copy_from_slice(&u32::try_from(central.len()).expect("short").to_le_bytes());
        end[16..20].copy_from_slice(&u32::try_from(local.len()).expect("short").to_le_bytes());
        [local, central, end].concat()
    }

    #[test]
    fn entries_are_found_and_read() {
        let file = tempfile::NamedTempFile::new().expect("made");
        std::fs::write(file.path(), packed("test/a.test", "statement ok\n")).expect("written");
        let archive = Archive::open(file.path()).expect("opened");
        assert_eq!(archive.names().collect::<Vec<_>>(), ["test/a.test"]);
        assert_eq!(archive.read("test/a.test").expect("read"), "statement ok\n");
        assert!(archive.read("test/b.test").is_err());
        std::fs::write(file.path(), "no zip file, but long enough for an end").expect("written");
        assert!(Archive::open(file.path()).is_err());
    }
}
