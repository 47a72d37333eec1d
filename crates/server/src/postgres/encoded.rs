//! Encoded messages that are the same at each run of a statement, kept with it.

use std::borrow::Cow;
use std::sync::OnceLock;

use bytes::{BufMut as _, BytesMut};
use pgwire::messages::PgWireBackendMessage as Out;

use super::cell::{ColumnWriter, Format};
use super::failure::{Failure, SqlState};

/// Maximum length of messages that are kept, in bytes.
const BYTES_MAX: usize = 1 << 10;

/// The messages of a statement that depend only on the formats of its columns.
#[derive(Default)]
pub(super) struct Encoded {
    /// The description of the columns.
    pub(super) description: Kept,
    /// The row and the command tag of a constant statement.
    pub(super) answer: Kept,
}

/// Messages encoded in the formats that the client requested first; clients seldom request others.
#[derive(Default)]
pub(super) struct Kept(OnceLock<(Vec<Format>, BytesMut)>);

impl Kept {
    /// Returns the messages for columns in these formats, which `encode` appends to a buffer unless
    /// they are kept.
    ///
    /// # Errors
    /// Those of `encode`.
    pub(super) fn messages(
        &self,
        formats: &[Format],
        encode: impl FnOnce(&mut BytesMut) -> Result<(), Failure>,
    ) -> Result<Cow<'_, [u8]>, Failure> {
        if let Some((known, bytes)) = self.0.get()
            && known == formats
        {
            return Ok(Cow::Borrowed(bytes));
        }
        let mut bytes = BytesMut::new();
        encode(&mut bytes)?;
        if bytes.len() <= BYTES_MAX {
            // Messages that another call has kept in the meantime stay.
            let _kept = self.0.set((formats.to_vec(), bytes.clone()));
        }
        Ok(Cow::Owned(bytes.into()))
    }
}

/// Appends a message to a buffer.
///
/// # Errors
/// A message that is too long; none of it is appended.
pub(super) fn encode(message: &Out, buffer: &mut BytesMut) -> Result<(), Failure> {
    let start = buffer.len();
    message.encode(buffer).map_err(|error| {
        buffer.truncate(start);
        Failure::new(SqlState::TOO_LARGE, error.to_string())
    })
}

/// Appends the message of a row of a batch to a buffer.
///
/// # Errors
/// A row that is too long for a message; none of it is appended.
pub(super) fn put_row(
    buffer: &mut BytesMut,
    columns: &[ColumnWriter],
    row: usize,
) -> Result<(), Failure> {
    let start = buffer.len();
    buffer.put_u8(b'D');
    buffer.put_i32(0);
    buffer.put_i16(i16::try_from(columns.len()).unwrap_or(i16::MAX));
    for column in columns {
        column.append_with_length(row, buffer);
    }
    let length = buffer.len() - start - 1;
    let Ok(length) = i32::try_from(length) else {
        buffer.truncate(start);
        let text = format!("a row of {length} bytes; messages have at most {}", i32::MAX);
        return Err(Failure::new(SqlState::TOO_LARGE, text));
    };
    buffer[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_kept_for_their_formats() {
        let kept = Kept::default();
        let of = |formats: &[Format], text: &'static [u8]| {
            let messages = kept.messages(formats, |buffer| {
                buffer.extend_from_slice(text);
                Ok(())
            });
            messages.map(Cow::into_owned).ok()
        };
        assert_eq!(of(&[Format::Text], b"one"), Some(b"one".to_vec()));
        assert_eq!(of(&[Format::Text], b"two"), Some(b"one".to_vec()));
        assert_eq!(of(&[Format::Binary], b"two"), Some(b"two".to_vec()));
        assert_eq!(of(&[], b"three"), Some(b"three".to_vec()));
    }

    #[test]
    fn long_messages_and_errors_are_not_kept() {
        let kept = Kept::default();
        let long = vec![b'x'; BYTES_MAX + 1];
        for text in [&long, &b"short".to_vec()] {
            let messages = kept.messages(&[], |buffer| {
                buffer.extend_from_slice(text);
                Ok(())
            });
            assert_eq!(messages.ok().as_deref(), Some(text.as_slice()));
        }
        let failed = Kept::default();
        let refuse = |_: &mut BytesMut| Err(Failure::new(SqlState::TOO_LARGE, "too long"));
        assert!(failed.messages(&[], refuse).is_err() && failed.0.get().is_none());
    }
}
