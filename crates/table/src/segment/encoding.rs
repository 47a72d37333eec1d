//! Encodings of segments.

use std::fmt;
use std::str::FromStr;

/// Layout of the values of a segment. Part of the format and of a table's definition.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Arrow layout, read without a copy.
    Plain,
    /// Compressed, decoded on each read. Segments whose pages would shrink by less than an eighth
    /// are stored plain.
    #[default]
    Compact,
}

impl Encoding {
    /// Returns the code of the encoding in segments and in the catalog.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Compact => 1,
        }
    }

    /// Returns the encoding with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.code() == code)
    }

    /// All encodings.
    pub const ALL: [Self; 2] = [Self::Plain, Self::Compact];
}

impl FromStr for Encoding {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let is_named = |encoding: &Self| encoding.to_string().eq_ignore_ascii_case(name);
        Self::ALL.into_iter().find(is_named).ok_or_else(|| {
            let names = Self::ALL.map(|encoding| format!("'{encoding}'"));
            format!("there is no encoding {name:?}; name one of {}", names.join(", "))
        })
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("plain"),
            Self::Compact => f.write_str("compact"),
        }
    }
}
