//! Framing: finds the messages in an Arrow IPC stream while it is written.
//!
//! A message is a marker of four `0xFF` bytes, the length of the metadata (4 bytes, little-endian,
//! padding included), the metadata, and a body whose length is in the metadata. A metadata length
//! of zero ends the stream.

use std::io;

use datafusion::arrow::ipc::root_as_message;

const PREFIX_BYTES: usize = 8;
const MARKER: [u8; 4] = [0xFF; 4];

/// Maximum length of metadata; a schema of 100,000 columns stays below it.
const METADATA_BYTES_MAX: usize = 64 << 20;

/// Result of feeding bytes to the parser.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// The head of a message is incomplete.
    Partial,
    /// A message begins.
    Start {
        /// Marker, length and metadata.
        head: Vec<u8>,
        /// Length of the whole message.
        len_bytes: usize,
    },
    /// The end of the stream.
    End,
}

/// Parser that collects the head of the next message.
#[derive(Debug, Default)]
pub(super) struct HeadParser {
    head: Vec<u8>,
}

impl HeadParser {
    /// Feeds bytes. Returns the number of them that belong to the head, and what was recognised.
    ///
    /// # Errors
    /// `InvalidData` if the bytes are not an IPC stream.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> io::Result<(usize, Piece)> {
        let taken = bytes.len().min(self.wanted_bytes()? - self.head.len());
        self.head.extend_from_slice(&bytes[..taken]);
        if self.head.len() < self.wanted_bytes()? {
            return Ok((taken, Piece::Partial));
        }
        let head = std::mem::take(&mut self.head);
        if head.len() == PREFIX_BYTES {
            return Ok((taken, Piece::End));
        }
        let len_bytes = head.len() + body_bytes(&head[PREFIX_BYTES..])?;
        Ok((taken, Piece::Start { head, len_bytes }))
    }

    /// Returns true if no head has been begun.
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_empty()
    }

    /// Returns the length of the head as far as it is known: first that of the prefix, then all of
    /// it.
    fn wanted_bytes(&self) -> io::Result<usize> {
        let Some(prefix) = self.head.first_chunk::<PREFIX_BYTES>() else {
            return Ok(PREFIX_BYTES);
        };
        let [marker @ .., a, b, c, d] = *prefix;
        let metadata = usize::try_from(u32::from_le_bytes([a, b, c, d])).map_err(invalid)?;
        if marker != MARKER || metadata > METADATA_BYTES_MAX {
            return Err(invalid(format!("no IPC message starts with {prefix:02x?}")));
        }
        Ok(PREFIX_BYTES + metadata)
    }
}

/// Returns the length of the body that follows this metadata.
fn body_bytes(metadata: &[u8]) -> io::Result<usize> {
    let message = root_as_message(metadata).map_err(|error| invalid(error.to_string()))?;
    usize::try_from(message.bodyLength()).map_err(invalid)
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
    use datafusion::arrow::ipc::writer::StreamWriter;

    use super::*;

    fn stream() -> Vec<u8> {
        let ids = Arc::new(Int64Array::from_iter_values(0..1000));
        let names = Arc::new(StringArray::from_iter_values((0..1000).map(|i| format!("n{i}"))));
        let batch =
            RecordBatch::try_from_iter([("id", ids as _), ("name", names as _)]).expect("test");
        let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).expect("test");
        writer.write(&batch).expect("test");
        writer.write(&batch.slice(10, 20)).expect("test");
        writer.into_inner().expect("test")
    }

    /// Returns the lengths of the messages when the stream arrives in pieces of `step` bytes.
    fn lengths(stream: &[u8], step: usize) -> Vec<usize> {
        let (mut parser, mut lengths) = (HeadParser::default(), Vec::new());
        let (mut at, mut ended) = (0, false);
        while at < stream.len() {
            let end = stream.len().min(at + step);
            let (taken, piece) = parser.feed(&stream[at..end]).expect("test");
            at += taken;
            match piece {
                Piece::Partial => {}
                Piece::End => ended = true,
                Piece::Start { head, len_bytes } => {
                    at += len_bytes - head.len();
                    lengths.push(len_bytes);
                }
            }
        }
        assert!(ended && parser.is_empty());
        lengths
    }

    #[test]
    fn finds_the_same_messages_however_the_stream_is_cut() {
        let stream = stream();
        let whole = lengths(&stream, usize::MAX / 2);
        assert_eq!(whole.len(), 3);
        assert_eq!(whole.iter().sum::<usize>() + PREFIX_BYTES, stream.len());
        for step in [1, 2, 3, 7, 8, 9, 64, 1000] {
            assert_eq!(lengths(&stream, step), whole, "in steps of {step}");
        }
    }

    #[test]
    fn refuses_what_is_not_a_stream() {
        assert!(HeadParser::default().feed(b"PAR1 and more").is_err());
        let mut long = MARKER.to_vec();
        long.extend_from_slice(&u32::MAX.to_le_bytes());
        assert!(HeadParser::default().feed(&long).is_err());
        let mut garbage = MARKER.to_vec();
        garbage.extend_from_slice(&16_u32.to_le_bytes());
        garbage.extend_from_slice(&[0xEE; 16]);
        let mut parser = HeadParser::default();
        assert!(matches!(parser.feed(&garbage), Ok((PREFIX_BYTES, Piece::Partial))));
        assert!(parser.feed(&garbage[PREFIX_BYTES..]).is_err());
    }
}
