//! The types that are texts in storage, and their marks in the metadata of fields.

use std::borrow::Cow;
use std::collections::HashMap;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, exec_err};

use super::uuid;
use crate::json::{EXTENSION, JSON, JSONB, checked, normal};

const METADATA: &str = "ARROW:extension:metadata";

const UUID: &str = "terrace.uuid";
const VARCHAR: &str = "terrace.varchar";
const CHAR: &str = "terrace.char";

/// A type whose values are texts in storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextType {
    /// 36 characters: lower-case hexadecimal digits with hyphens.
    Uuid,
    /// A JSON text as it was written.
    Json,
    /// A JSON text in PostgreSQL's normal form.
    Jsonb,
    /// VARCHAR(n): at most n characters.
    Varchar(u32),
    /// CHAR(n): at most n characters, without trailing blanks, which have no meaning.
    Char(u32),
}

impl TextType {
    /// Returns the type of a field; `None` for a field of plain text or of another type.
    #[must_use]
    pub fn of(field: &Field) -> Option<Self> {
        if !field.data_type().is_string() {
            return None;
        }
        let length = || field.metadata().get(METADATA).and_then(|length| length.parse().ok());
        Some(match field.metadata().get(EXTENSION)?.as_str() {
            UUID => Self::Uuid,
            JSON => Self::Json,
            JSONB => Self::Jsonb,
            VARCHAR => Self::Varchar(length()?),
            CHAR => Self::Char(length()?),
            _ => return None,
        })
    }

    /// Returns a nullable field of the type.
    #[must_use]
    pub fn field(self, name: &str) -> Field {
        let (mark, length) = match self {
            Self::Uuid => (UUID, None),
            Self::Json => (JSON, None),
            Self::Jsonb => (JSONB, None),
            Self::Varchar(length) => (VARCHAR, Some(length)),
            Self::Char(length) => (CHAR, Some(length)),
        };
        let mut metadata = HashMap::from([(EXTENSION.to_owned(), mark.to_owned())]);
        metadata.extend(length.map(|length| (METADATA.to_owned(), length.to_string())));
        Field::new(name, DataType::Utf8View, true).with_metadata(metadata)
    }

    /// Returns the name in SQL.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Uuid => "UUID".to_owned(),
            Self::Json => "JSON".to_owned(),
            Self::Jsonb => "JSONB".to_owned(),
            Self::Varchar(length) => format!("VARCHAR({length})"),
            Self::Char(length) => format!("CHAR({length})"),
        }
    }

    /// Returns true if different texts may denote the same value, so that a text is converted
    /// before it is compared.
    #[must_use]
    pub fn has_forms(self) -> bool {
        matches!(self, Self::Uuid | Self::Jsonb | Self::Char(_))
    }

    /// Returns true for a type distinct from text, to which a literal compared with it is
    /// converted: not VARCHAR(n) and CHAR(n).
    #[must_use]
    pub fn is_distinct(self) -> bool {
        matches!(self, Self::Uuid | Self::Json | Self::Jsonb)
    }

    /// The value that a text denotes, shortened to the length of the type if `shortens`.
    ///
    /// # Errors
    /// For a text that denotes no value, with PostgreSQL's words.
    pub(super) fn value(self, text: &str, shortens: bool) -> Result<Cow<'_, str>> {
        match self {
            Self::Uuid => match uuid::canonical(text) {
                Some(uuid) => Ok(uuid),
                None => exec_err!("invalid input syntax for type uuid: {:?}", excerpt(text)),
            },
            Self::Json => match checked(text) {
                Ok(()) => Ok(Cow::Borrowed(text)),
                Err(error) => exec_err!("invalid input syntax for type json: {error}"),
            },
            Self::Jsonb => match normal(text) {
                Ok(normal) if normal == text => Ok(Cow::Borrowed(text)),
                Ok(normal) => Ok(Cow::Owned(normal)),
                Err(error) => exec_err!("invalid input syntax for type json: {error}"),
            },
            Self::Varchar(length) => {
                let Some(end) = end_of(text, length) else { return Ok(Cow::Borrowed(text)) };
                match shortens || is_blank(&text[end..]) {
                    true => Ok(Cow::Borrowed(&text[..end])),
                    false => exec_err!("value too long for type character varying({length})"),
                }
            }
            Self::Char(length) => {
                let text = text.trim_end_matches(' ');
                let Some(end) = end_of(text, length) else { return Ok(Cow::Borrowed(text)) };
                match shortens {
                    true => Ok(Cow::Borrowed(text[..end].trim_end_matches(' '))),
                    false => exec_err!("value too long for type character({length})"),
                }
            }
        }
    }
}

/// The place behind the first `length` characters of a text that has more of them.
fn end_of(text: &str, length: u32) -> Option<usize> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if text.len() <= length {
        return None;
    }
    text.char_indices().nth(length).map(|(end, _)| end)
}

fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| byte == b' ')
}

/// The beginning of a text, for an error.
fn excerpt(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    text.chars().take(SHOWN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_as_they_are_written() {
        use TextType::{Char, Json, Jsonb, Uuid, Varchar};
        for of in [Uuid, Json, Jsonb, Varchar(3), Char(10)] {
            assert_eq!(TextType::of(&of.field("x")), Some(of));
        }
        assert_eq!(TextType::of(&Field::new("x", DataType::Utf8View, true)), None);
        let cast = Uuid.field("x").with_data_type(DataType::Binary);
        assert_eq!(TextType::of(&cast), None);
    }

    /// The results of PostgreSQL 15, but for trailing blanks of CHAR.
    #[test]
    fn texts_become_values() {
        let value = |of: TextType, text: &str| {
            of.value(text, false).map(Cow::into_owned).map_err(|error| error.strip_backtrace())
        };
        assert_eq!(value(TextType::Varchar(2), "ab  ").expect("blanks"), "ab");
        assert_eq!(
            value(TextType::Varchar(2), "\u{e4}\u{f6}").expect("characters"),
            "\u{e4}\u{f6}"
        );
        let error = value(TextType::Varchar(2), "abc").expect_err("three");
        assert!(error.contains("value too long for type character varying(2)"), "{error}");
        assert_eq!(value(TextType::Char(4), "ab  ").expect("blanks"), "ab");
        let error = value(TextType::Char(1), "ab").expect_err("two");
        assert!(error.contains("value too long for type character(1)"), "{error}");
        assert_eq!(TextType::Char(2).value("a bc", true).expect("shortened"), "a");
        assert_eq!(
            value(TextType::Jsonb, "{\"b\":1,\"a\":2}").expect("json"),
            "{\"a\": 2, \"b\": 1}"
        );
        assert_eq!(value(TextType::Json, "{ }").expect("json"), "{ }");
        let error = value(TextType::Json, "{").expect_err("no JSON");
        assert!(error.contains("invalid input syntax for type json"), "{error}");
    }
}
