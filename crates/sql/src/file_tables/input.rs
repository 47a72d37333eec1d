//! Bytes of files, decompressed.

use std::fs::File;
use std::io::{Cursor, Read};

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;

use terrace_cloud::CloudReader;
use terrace_sys::size::to_u64;

use super::encoding::Encoding;
use super::found::{FoundFile, RemoteFile, kind_of};

/// Maximum length of a sample in bytes, after decompression.
const SAMPLE_BYTES: u64 = 1 << 20;
/// The mark with which some programs begin files of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The compression of a name; `None` for an unknown name.
pub(super) fn compression_named(name: &str) -> Option<FileCompressionType> {
    Some(match name.to_ascii_lowercase().as_str() {
        "none" | "uncompressed" => FileCompressionType::UNCOMPRESSED,
        "gzip" | "gz" => FileCompressionType::GZIP,
        "zstd" | "zst" => FileCompressionType::ZSTD,
        "bzip2" | "bz2" => FileCompressionType::BZIP2,
        "xz" => FileCompressionType::XZ,
        _ => return None,
    })
}

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
    let opened = open_raw(file)?;
    if compression.is_compressed() {
        return compression.convert_read(opened);
    }
    let failed = |error| exec_datafusion_err!("cannot read {}: {error}", file.name());
    Ok(Box::new(behind_mark(opened).map_err(failed)?))
}

/// Opens a file of text in an encoding; its bytes are those of UTF-8.
///
/// # Errors
/// Errors of the file.
pub(super) fn open_as(
    file: &FoundFile,
    compression: FileCompressionType,
    encoding: Encoding,
) -> Result<Box<dyn Read + Send>> {
    Ok(encoding.decoded(open(file, compression)?))
}

/// Opens a file without decompressing or converting its bytes.
///
/// # Errors
/// Errors of the file.
pub(super) fn open_raw(file: &FoundFile) -> Result<Box<dyn Read + Send>> {
    if let Some(RemoteFile { files, file }) = &file.remote {
        return Ok(Box::new(CloudReader::new(files, file, 0)));
    }
    let failed = |error| exec_datafusion_err!("cannot read {}: {error}", file.name());
    Ok(Box::new(File::open(&file.path).map_err(failed)?))
}

/// The bytes behind the byte order mark, if there is one.
fn behind_mark<R: Read>(mut file: R) -> std::io::Result<impl Read + use<R>> {
    let mut start = vec![];
    file.by_ref().take(to_u64(BYTE_ORDER_MARK.len())).read_to_end(&mut start)?;
    if start == BYTE_ORDER_MARK {
        start.clear();
    }
    Ok(Cursor::new(start).chain(file))
}

/// Reads at most [`SAMPLE_BYTES`] from the beginning of a file; true if that is the whole file.
///
/// # Errors
/// Errors of the file, such as another compression.
pub(super) fn sample(
    file: &FoundFile,
    compression: FileCompressionType,
    encoding: Encoding,
) -> Result<(Vec<u8>, bool)> {
    let failed = |error| exec_datafusion_err!("cannot read {}: {error}", file.name());
    let mut bytes = vec![];
    let mut input = open_as(file, compression, encoding)?.take(SAMPLE_BYTES);
    input.read_to_end(&mut bytes).map_err(failed)?;
    let is_whole = u64::try_from(bytes.len()).is_ok_and(|length| length < SAMPLE_BYTES);
    Ok((bytes, is_whole))
}
