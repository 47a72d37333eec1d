//! Forms in which elements of JSON become rows.

use datafusion::arrow::datatypes::Field;
use datafusion::common::{Result, plan_err};
use terrace_functions::columns::TextType;

use super::super::guess::Guess;

/// Name of the only column of elements that are no objects, as in DuckDB.
pub(super) const COLUMN: &str = "json";

/// The form in which an element becomes a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The fields of an object are columns.
    Record,
    /// The element is the value of the only column.
    Value,
    /// The text of the element, without the blanks between its parts, is the value of the only
    /// column; the element `null` is a NULL.
    Json,
    /// The unchanged text of the element is the value of the only column.
    Raw,
}

/// The types of the elements read so far.
#[derive(Debug, Default)]
pub(super) struct Types {
    /// The fields of all objects.
    pub(super) fields: Vec<(String, Guess)>,
    /// The type of all other elements.
    other: Guess,
    /// True if there are objects without fields.
    pub(super) has_empty: bool,
    /// True if there are other elements than objects and nulls.
    pub(super) has_other: bool,
    /// True if they have no common type.
    is_mixed: bool,
}

impl Types {
    /// Adds the type of an element that is no object.
    pub(super) fn add(&mut self, guess: Guess) {
        self.has_other |= guess != Guess::Null;
        self.is_mixed |= class(&self.other)
            .is_some_and(|known| class(&guess).is_some_and(|class| class != known));
        self.other = std::mem::take(&mut self.other).or(guess);
    }

    /// The only column of elements that are not all objects, and their form.
    pub(super) fn column(&self) -> (Field, Form) {
        let other = match self.fields.is_empty() {
            true => self.other.clone(),
            false => Guess::Struct(self.fields.clone()).or(self.other.clone()),
        };
        let is_json = self.is_mixed || (self.has_empty && self.fields.is_empty());
        match other.data_type().filter(|_| !is_json) {
            Some(data_type) => (Field::new(COLUMN, data_type, true), Form::Value),
            None => (TextType::Json.field(COLUMN), Form::Json),
        }
    }

    /// The columns of the fields of objects.
    ///
    /// # Errors
    /// Fields without a common type.
    pub(super) fn columns(&self, names: &str) -> Result<Vec<Field>> {
        let mut columns = vec![];
        for (name, guess) in &self.fields {
            let Some(data_type) = guess.data_type() else {
                return plan_err!(
                    "the field {name} of {names} is an object or an array in some rows only, and \
                     has no type; name the other columns by columns = {{'name': 'type'}}"
                );
            };
            columns.push(Field::new(name, data_type, true));
        }
        Ok(columns)
    }
}

/// The class of a type; values of different classes have no common type. `None` for nulls.
fn class(guess: &Guess) -> Option<u8> {
    match guess {
        Guess::Null => None,
        Guess::Boolean => Some(0),
        Guess::Integer | Guess::Huge | Guess::Double => Some(1),
        Guess::Date | Guess::Time | Guess::Timestamp | Guess::Instant | Guess::Text => Some(2),
        Guess::List(_) => Some(3),
        Guess::Struct(_) => Some(4),
        Guess::Mixed => Some(5),
    }
}

/// An element without the blanks between its parts.
pub(super) fn compact(element: &str) -> String {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let is_kept = |letter: &char| {
        if is_quoted {
            (is_quoted, is_escaped) =
                (*letter != '"' || is_escaped, *letter == '\\' && !is_escaped);
            return true;
        }
        is_quoted = *letter == '"';
        !letter.is_ascii_whitespace()
    };
    element.chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The types that DuckDB 2.0 infers.
    #[test]
    fn elements_have_one_type_or_are_json() {
        let of = |guesses: &[Guess]| {
            let mut types = Types::default();
            guesses.iter().for_each(|guess| types.add(guess.clone()));
            let (field, form) = types.column();
            (field.data_type().to_string(), form)
        };
        let list = |guess| Guess::List(Box::new(guess));
        for (guesses, data_type, form) in [
            (vec![Guess::Integer, Guess::Null], "Int64", Form::Value),
            (vec![Guess::Integer, Guess::Double], "Float64", Form::Value),
            (vec![Guess::Date, Guess::Text], "Utf8View", Form::Value),
            (vec![Guess::Integer, Guess::Text], "Utf8View", Form::Json),
            (vec![Guess::Integer, list(Guess::Integer)], "Utf8View", Form::Json),
            (vec![Guess::Null], "Utf8View", Form::Value),
        ] {
            assert_eq!(of(&guesses), (data_type.to_owned(), form), "{guesses:?}");
        }
    }

    #[test]
    fn blanks_in_texts_are_kept() {
        let element = " { \"a b\" : [ 1 , \" \\\" x\\\\\" ] , \"c\": null } ";
        assert_eq!(compact(element), "{\"a b\":[1,\" \\\" x\\\\\"],\"c\":null}");
    }
}
