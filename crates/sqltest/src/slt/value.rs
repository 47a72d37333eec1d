//! Values in the suite's text form, which depends on the type of the column, and their comparison.

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use md5::{Digest, Md5};

/// The suite's type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `I`: a whole number; a float or a text is converted as C does.
    Integer,
    /// `R`: a number with three decimals.
    Real,
    /// `T`: text; `(empty)` for an empty one, `@` for each character that is not printable ASCII.
    Text,
}

impl Kind {
    /// Returns the kind for a letter of a query's header.
    ///
    /// # Errors
    /// A message when the letter names no kind.
    pub fn of(letter: char) -> Result<Self, String> {
        match letter {
            'I' => Ok(Self::Integer),
            'R' => Ok(Self::Real),
            'T' => Ok(Self::Text),
            other => Err(format!("`{other}` is no type of a column")),
        }
    }
}

/// The order in which values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// The order of the result.
    None,
    /// Rows sorted as text.
    Rows,
    /// All values sorted as text.
    Values,
}

/// The expected values, or the digest of many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// One text for each value.
    Listed(Vec<String>),
    /// The MD5 digest of the texts, each with a line break.
    Hashed {
        /// Number of values.
        count: usize,
        /// The digest, in hexadecimal digits.
        digest: String,
    },
}

/// Returns the rows of batches as texts.
///
/// # Errors
/// A message when a batch does not have one column for each kind.
pub fn rows(batches: &[RecordBatch], kinds: &[Kind]) -> Result<Vec<Vec<String>>, String> {
    let mut rows = Vec::new();
    for batch in batches {
        if batch.num_columns() != kinds.len() {
            let (found, want) = (batch.num_columns(), kinds.len());
            return Err(format!("the result has {found} columns, not {want}"));
        }
        let columns = batch.columns().iter().zip(kinds);
        let columns = columns.map(|(array, kind)| column(array.as_ref(), *kind));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let row = |row: usize| columns.iter().map(|column| column[row].clone()).collect();
        rows.extend((0..batch.num_rows()).map(row));
    }
    Ok(rows)
}

fn column(array: &dyn Array, kind: Kind) -> Result<Vec<String>, String> {
    // Arrow prints Booleans as words, SQLite as numbers.
    let array = match (array.data_type(), kind) {
        (DataType::Boolean, Kind::Integer | Kind::Real) => cast(array, &DataType::Int64),
        _ => cast(array, array.data_type()),
    };
    let array = array.map_err(|error| error.to_string())?;
    let options = FormatOptions::default().with_null("NULL");
    let formatter = ArrayFormatter::try_new(array.as_ref(), &options).map_err(|e| e.to_string())?;
    let text = |row| match array.is_null(row) {
        true => "NULL".to_owned(),
        false => shown(&formatter.value(row).to_string(), kind),
    };
    Ok((0..array.len()).map(text).collect())
}

fn shown(text: &str, kind: Kind) -> String {
    match kind {
        Kind::Integer if text.parse::<i64>().is_ok() => text.to_owned(),
        // Adding 0.0 turns a negative zero into zero: a whole number has no negative zero.
        Kind::Integer => format!("{:.0}", number(text).trunc() + 0.0),
        Kind::Real => format!("{:.3}", number(text)),
        Kind::Text if text.is_empty() => "(empty)".to_owned(),
        Kind::Text => {
            text.chars().map(|c| if (' '..='~').contains(&c) { c } else { '@' }).collect()
        }
    }
}

/// Returns the number at the start of a text, as C does; 0 if there is none.
fn number(text: &str) -> f64 {
    let numeric = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    let end = text.find(|c| !numeric(c)).unwrap_or(text.len());
    (0..=end).rev().find_map(|end| text.get(..end)?.parse().ok()).unwrap_or(0.0)
}

/// Compares rows with the values that a script expects; the error shows both.
///
/// # Errors
/// The expected and the found values.
pub fn compare(mut rows: Vec<Vec<String>>, sort: Sort, expected: &Expected) -> Result<(), String> {
    if sort == Sort::Rows {
        rows.sort_unstable();
    }
    let mut values = rows.concat();
    if sort == Sort::Values {
        values.sort_unstable();
    }
    let same = match expected {
        Expected::Listed(listed) => *listed == values,
        Expected::Hashed { count, digest } => *count == values.len() && *digest == hash(&values),
    };
    if same {
        return Ok(());
    }
    let want = match expected {
        Expected::Listed(listed) => listed.join(" "),
        Expected::Hashed { count, digest } => format!("{count} values hashing to {digest}"),
    };
    let first = values.iter().take(40).cloned().collect::<Vec<_>>().join(" ");
    let (count, digest) = (values.len(), hash(&values));
    Err(format!("want: {want}\n      got:  {count} values hashing to {digest}: {first}"))
}

fn hash(values: &[String]) -> String {
    let mut digest = Md5::new();
    for value in values {
        digest.update(value.as_bytes());
        digest.update(b"\n");
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(values: &[&str]) -> Vec<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    #[test]
    fn values_are_written_as_in_the_suite() {
        let cases = [
            ("12", Kind::Integer, "12"),
            ("-2.75", Kind::Integer, "-2"),
            ("-0.4", Kind::Integer, "0"),
            ("12ab", Kind::Integer, "12"),
            ("word", Kind::Integer, "0"),
            ("-1.5 x", Kind::Real, "-1.500"),
            ("2", Kind::Real, "2.000"),
            ("1.0005", Kind::Real, "1.000"),
            ("", Kind::Text, "(empty)"),
            ("a\tb", Kind::Text, "a@b"),
        ];
        for (text, kind, want) in cases {
            assert_eq!(shown(text, kind), want);
        }
    }

    #[test]
    fn order_and_digest_are_those_of_the_suite() {
        let rows = || vec![texts(&["2", "b"]), texts(&["1", "c"]), texts(&["10", "a"])];
        let listed = |values: &[&str]| Expected::Listed(texts(values));
        assert!(compare(rows(), Sort::None, &listed(&["2", "b", "1", "c", "10", "a"])).is_ok());
        assert!(compare(rows(), Sort::Rows, &listed(&["1", "c", "10", "a", "2", "b"])).is_ok());
        assert!(compare(rows(), Sort::Values, &listed(&["1", "10", "2", "a", "b", "c"])).is_ok());
        assert!(compare(rows(), Sort::Rows, &listed(&["1"])).is_err());
        // printf '1\n2\n' | md5sum
        assert_eq!(hash(&texts(&["1", "2"])), "6ddb4095eb719e2a9f0a3f95677d24e0");
    }
}
