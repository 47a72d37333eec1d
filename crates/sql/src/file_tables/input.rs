//! Bytes of files, decompressed.

use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom};

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;

use super::found::{FoundFile, kind_of};

/// Bytes of the longest sample.
const SAMPLE_BYTES: u64 = 1 << 20;
/// The mark with which some programs begin files of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The compression of a file: the one given, or that of its extension.
pub(super) fn compression_of(
    file: &FoundFile,
    given: Option<FileCompressionType>,
) -> FileCompressionType {
    let named = || kind_of(&file.path).map(|(_, compression)| compression);
    given.or_else(named).unwrap_or(FileCompressionType::UNCOMPRESSED)
}

/// Opens a file, behind the byte order mark.
///
/// # Errors
/// Errors of the file.
pub(super) fn open(
    file: &FoundFile,
    compression: FileCompressionType,
) -> Result<Box<dyn Read + Send>> {
    let failed = |error| exec_datafusion_err!("cannot read {}: {error}", file.name());
    let mut opened = File::open(&file.path).map_err(failed)?;
    if compression.is_compressed() {
        return compression.convert_read(opened);
    }
    let mut mark = vec![];
    let marked = opened.by_ref().take(3).read_to_end(&mut mark).map_err(failed)?;
    if marked < BYTE_ORDER_MARK.len() || mark != BYTE_ORDER_MARK {
        opened.seek(SeekFrom::Start(0)).map_err(failed)?;
    }
    Ok(Box::new(opened))
}

/// The first bytes of a file, and true if those are all.
///
/// # Errors
/// Errors of the file, such as another compression.
pub(super) fn sample(
    file: &FoundFile,
    compression: FileCompressionType,
) -> Result<(Vec<u8>, bool)> {
    let failed = |error| exec_datafusion_err!("cannot read {}: {error}", file.name());
    let mut bytes = vec![];
    open(file, compression)?.take(SAMPLE_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    let is_whole = u64::try_from(bytes.len()).is_ok_and(|length| length < SAMPLE_BYTES);
    Ok((bytes, is_whole))
}
