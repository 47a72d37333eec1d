//! Objects of a schema that the catalog stores as text: functions and types.
//!
//! The catalog keeps the text, owner and comment of each; a session parses the text.

use rpds::RedBlackTreeMapSync;
use std::sync::Arc;

use super::bytes::{FieldReader, FieldWriter, Missing};

const VERSION: u8 = 1;

/// Version of the records of objects with a comment. The others have the first version, which older
/// programs read too.
const WITH_COMMENT: u8 = 2;

/// Kind of an object that is stored as text. Objects of different kinds may have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextKind {
    /// A function or macro. Its name in the catalog is a key that includes its parameters, as
    /// functions may be overloaded.
    Function,
    /// A type.
    Type,
}

impl TextKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Function, Self::Type];

    /// Returns the noun of the kind.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Type => "type",
        }
    }

    /// Encodes the kind as a byte of a key of the catalog's file.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Function => 1,
            Self::Type => 2,
        }
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// A function or type, stored as the text of its definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaText {
    /// The text that defines the object.
    pub text: String,
    /// Role that owns the object; `None` if a session without a role created it.
    pub owner: Option<String>,
    /// Comment on the object.
    pub comment: Option<String>,
}

/// Objects of a schema by kind and name.
pub(super) type SchemaTexts = RedBlackTreeMapSync<(TextKind, String), Arc<SchemaText>>;

/// Encodes an object.
pub(super) fn to_bytes(object: &SchemaText) -> Vec<u8> {
    let comment = object.comment.as_deref();
    let mut fields = FieldWriter::new(if comment.is_some() { WITH_COMMENT } else { VERSION });
    fields.byte(u8::from(object.owner.is_some()));
    fields.bytes(object.owner.as_deref().unwrap_or_default().as_bytes());
    fields.bytes(object.text.as_bytes());
    if let Some(comment) = comment {
        fields.bytes(comment.as_bytes());
    }
    fields.finish()
}

/// Decodes an object.
pub(super) fn from_bytes(bytes: &[u8]) -> Result<SchemaText, Missing> {
    let has_comment = bytes.first() == Some(&WITH_COMMENT);
    let version = if has_comment { WITH_COMMENT } else { VERSION };
    let mut fields = FieldReader::new(bytes, version)?;
    let has_owner = fields.byte()? != 0;
    let owner = fields.text()?;
    let text = fields.text()?;
    let comment = if has_comment { Some(fields.text()?) } else { None };
    fields.end()?;
    Ok(SchemaText { text, owner: has_owner.then_some(owner), comment })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_encoded_and_decoded() {
        let known = [None, Some("ada".to_owned())];
        for (owner, comment) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let text = "CREATE MACRO f(a) AS a".to_owned();
            let (owner, comment) = (known[owner].clone(), known[comment].clone());
            let object = SchemaText { text, owner, comment };
            assert_eq!(from_bytes(&to_bytes(&object)), Ok(object));
        }
        for kind in TextKind::ALL {
            assert_eq!(TextKind::from_code(kind.code()), Some(kind));
        }
        assert!(from_bytes(&[VERSION, 0]).is_err() && TextKind::from_code(0).is_none());
    }
}
