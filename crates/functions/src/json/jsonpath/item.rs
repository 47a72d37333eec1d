//! Values that a path finds: parts of a document, and results of operators and methods.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::super::text::Kind;
use super::super::value::{Value, quote};
use super::number::order;
use super::syntax::Comparison;

/// A value that a path finds.
#[derive(Clone, Debug)]
pub(super) enum Item<'v> {
    /// A part of a document.
    Node(&'v Value<'v>),
    /// A number, a boolean or null.
    Word(Cow<'v, str>),
    Text(Cow<'v, str>),
    /// An object that `.keyvalue()` returns: name and value of a member, and the id of its object.
    Pair {
        name: &'v str,
        value: &'v Value<'v>,
        id: u64,
    },
}

impl<'v> Item<'v> {
    /// A boolean; null for `None`.
    pub(super) fn of_truth(truth: Option<bool>) -> Self {
        Self::Word(Cow::Borrowed(match truth {
            Some(true) => "true",
            Some(false) => "false",
            None => "null",
        }))
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Node(Value::Array(_)) => Kind::Array,
            Self::Node(Value::Object(_)) | Self::Pair { .. } => Kind::Object,
            Self::Node(Value::Text(_)) | Self::Text(_) => Kind::Text,
            Self::Node(Value::Word(_)) | Self::Word(_) => match self.word() {
                "null" => Kind::Null,
                "true" | "false" => Kind::Boolean,
                _ => Kind::Number,
            },
        }
    }

    /// The word of a number, a boolean or null.
    pub(super) fn word(&self) -> &str {
        match self {
            Self::Node(Value::Word(word)) => word,
            Self::Word(word) => word,
            _ => "",
        }
    }

    /// The word of a number; `None` for any other value.
    pub(super) fn number(&self) -> Option<&str> {
        (self.kind() == Kind::Number).then(|| self.word())
    }

    /// The text of a text; `None` for any other value.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Node(Value::Text(text)) | Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements of an array; `None` for any other value.
    pub(super) fn elements(&self) -> Option<&'v [Value<'v>]> {
        match self {
            Self::Node(Value::Array(elements)) => Some(elements),
            _ => None,
        }
    }

    /// The member of an object.
    pub(super) fn member(&self, wanted: &str) -> Option<Self> {
        match self {
            Self::Node(node) => node.member(wanted).map(Self::Node),
            Self::Pair { name, value, id } => match wanted {
                "id" => Some(Self::Word(id.to_string().into())),
                "key" => Some(Self::Text(Cow::Borrowed(name))),
                "value" => Some(Self::Node(value)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The number of the values within an array or object.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Node(Value::Array(elements)) => elements.len(),
            Self::Node(Value::Object(members)) => members.len(),
            Self::Pair { .. } => 3,
            _ => 0,
        }
    }

    /// The element of an array, or the value of the member of an object, at index `place`.
    pub(super) fn child(&self, place: usize) -> Option<Self> {
        match self {
            Self::Node(Value::Array(elements)) => elements.get(place).map(Self::Node),
            Self::Node(Value::Object(members)) => {
                members.get(place).map(|(_, value)| Self::Node(value))
            }
            Self::Pair { .. } => ["id", "key", "value"].get(place).and_then(|it| self.member(it)),
            _ => None,
        }
    }

    /// Appends PostgreSQL's normal form.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Node(node) => node.write_normal(out),
            Self::Word(word) => Value::Word(word).write_normal(out),
            Self::Text(text) => quote(text, out),
            Self::Pair { name, value, id } => {
                out.push_str(&format!("{{\"id\": {id}, \"key\": "));
                quote(name, out);
                out.push_str(", \"value\": ");
                value.write_normal(out);
                out.push('}');
            }
        }
    }

    /// True if `comparison` holds between this value and `other`; `None` if they cannot be
    /// compared.
    pub(super) fn compare(&self, comparison: Comparison, other: &Self) -> Option<bool> {
        let (own, given) = (self.kind(), other.kind());
        let order = match (own, given) {
            _ if own != given => {
                let has_null = own == Kind::Null || given == Kind::Null;
                return has_null.then_some(comparison == Comparison::NotEqual);
            }
            (Kind::Null, _) => Ordering::Equal,
            (Kind::Boolean, _) => (self.word() == "true").cmp(&(other.word() == "true")),
            (Kind::Number, _) => order(self.word(), other.word())?,
            (Kind::Text, _) => self.text()?.cmp(other.text()?),
            (Kind::Array | Kind::Object, _) => return None,
        };
        Some(comparison.holds(order))
    }
}
