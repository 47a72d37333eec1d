//! An enum type: a list of texts, in the order in which its values are compared.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};

use terrace_table::error::SqlError;

use crate::session::refusal::refused;
use crate::session::sql_type::identifier;

/// Maximum bytes of a label, as in PostgreSQL.
const LABEL_BYTES_MAX: usize = 63;

/// Maximum number of labels.
const LABELS_MAX: usize = 65_536;

/// An enum type.
#[derive(Clone, Debug)]
pub(in crate::session) struct EnumType {
    pub(in crate::session) schema: String,
    pub(in crate::session) name: String,
    labels: Vec<String>,
    ranks: HashMap<String, i32>,
}

impl EnumType {
    /// Creates a type of `labels`, in this order.
    ///
    /// # Errors
    /// [`SqlError::Refused`] for a label that is too long or occurs twice, and for too many.
    pub(in crate::session) fn new(
        schema: &str,
        name: &str,
        labels: Vec<String>,
    ) -> Result<Self, SqlError> {
        let mut known = HashSet::new();
        if let Some(label) = labels.iter().find(|label| !known.insert(label.as_str())) {
            let what = format!("the label '{label}' twice in the type {name}");
            return Err(refused(&what, "say each label once"));
        }
        if let Some(label) = labels.iter().find(|label| label.len() > LABEL_BYTES_MAX) {
            let what = format!("the label '{label}' of the type {name}");
            return Err(refused(&what, &format!("a label has at most {LABEL_BYTES_MAX} bytes")));
        }
        if labels.len() > LABELS_MAX {
            let what = format!("the type {name} with {} labels", labels.len());
            return Err(refused(&what, &format!("at most {LABELS_MAX} are")));
        }
        let ranks = labels.iter().cloned().zip(0..).collect();
        Ok(Self { schema: schema.to_owned(), name: name.to_owned(), labels, ranks })
    }

    /// The labels, in order.
    pub(in crate::session) fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The position of a label, from zero; `None` for a text that is no label.
    pub(in crate::session) fn rank(&self, label: &str) -> Option<i32> {
        self.ranks.get(label).copied()
    }

    /// The error message for `text`, which is no label.
    pub(in crate::session) fn invalid(&self, text: &str) -> String {
        format!("invalid input value for enum {}: \"{text}\"", self.name)
    }

    /// Adds a label at `place`. Returns false if the type already has it.
    ///
    /// # Errors
    /// [`SqlError::Refused`] for a neighbor that is no label, and as [`EnumType::new`].
    pub(in crate::session) fn add(&mut self, label: &str, place: &Place) -> Result<bool, SqlError> {
        if self.rank(label).is_some() {
            return Ok(false);
        }
        let at = match place {
            Place::Last => self.labels.len(),
            Place::Before(next) => self.place_of(next)?,
            Place::After(before) => self.place_of(before)? + 1,
        };
        let mut labels = self.labels.clone();
        labels.insert(at, label.to_owned());
        *self = Self::new(&self.schema, &self.name, labels)?;
        Ok(true)
    }

    /// Gives label `from` the text `to`, at the same position.
    ///
    /// # Errors
    /// [`SqlError::Refused`] if `from` is no label, and as [`EnumType::new`]; [`SqlError::Exists`]
    /// if `to` is a label already.
    pub(in crate::session) fn rename(&mut self, from: &str, to: &str) -> Result<(), SqlError> {
        let Some(at) = self.labels.iter().position(|known| known == from) else {
            let what = format!("renaming '{from}', which is no label of {},", self.name);
            return Err(refused(&what, "name one of its labels"));
        };
        if self.rank(to).is_some() {
            return Err(SqlError::Exists { name: format!("enum label \"{to}\"") });
        }
        let mut labels = self.labels.clone();
        labels[at] = to.to_owned();
        *self = Self::new(&self.schema, &self.name, labels)?;
        Ok(())
    }

    fn place_of(&self, label: &str) -> Result<usize, SqlError> {
        let place = self.labels.iter().position(|known| known == label);
        place.ok_or_else(|| {
            let what = format!("the place of '{label}', which is no label of {},", self.name);
            refused(&what, "say BEFORE or AFTER one of its labels")
        })
    }
}

/// The position of a new label: last, or next to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::session) enum Place {
    Last,
    Before(String),
    After(String),
}

impl PartialEq for EnumType {
    fn eq(&self, other: &Self) -> bool {
        (&self.schema, &self.name, &self.labels) == (&other.schema, &other.name, &other.labels)
    }
}

impl Eq for EnumType {}

impl Hash for EnumType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.schema, &self.name, self.labels.len()).hash(state);
    }
}

/// The statement that creates the type, as the catalog stores it.
impl fmt::Display for EnumType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (schema, name) = (identifier(&self.schema), identifier(&self.name));
        write!(f, "CREATE TYPE {schema}.{name} AS ENUM ({})", quoted(&self.labels))
    }
}

/// Labels as a list of SQL string literals.
pub(in crate::session) fn quoted(labels: &[String]) -> String {
    let quoted = labels.iter().map(|label| format!("'{}'", label.replace('\'', "''")));
    quoted.collect::<Vec<_>>().join(", ")
}
