//! Replies of databases to a statement.

use serde_json::Value as Json;

use crate::value::{Value, same};

/// A reply.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Rows.
    Rows(Table),
    /// Success without rows, and the number of changed rows.
    Done(u64),
    /// An error.
    Refused {
        /// Its SQLSTATE; empty if the database has none.
        state: String,
        /// Its message.
        message: String,
    },
    /// No reply: the database does not answer, or has closed the connection.
    Lost(String),
}

/// The rows of a reply.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Families of the columns' types; none if they are not known.
    pub types: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
}

impl Reply {
    /// Reads a reply of DuckDB's process.
    #[must_use]
    pub fn of_duck(json: &Json) -> Self {
        if let Some(error) = json["error"].as_str() {
            return Self::Refused { state: String::new(), message: error.to_owned() };
        }
        let rows = json["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
        let row = |row: &Json| {
            let cells = row.as_array().map(Vec::as_slice).unwrap_or_default();
            cells.iter().map(Value::of_duck).collect()
        };
        Self::Rows(Table { types: Vec::new(), rows: rows.iter().map(row).collect() })
    }

    /// True if the statement succeeded.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Rows(_) | Self::Done(_))
    }
}

impl Table {
    /// True if two databases return the same rows, in the same order if the order counts.
    #[must_use]
    pub fn same_rows(&self, other: &Self, ordered: bool) -> bool {
        if self.rows.len() != other.rows.len() {
            return false;
        }
        if ordered {
            return self.rows.iter().zip(&other.rows).all(|(one, other)| same_row(one, other));
        }
        let mut rest: Vec<_> = other.rows.iter().collect();
        self.rows.iter().all(|row| {
            let place = rest.iter().position(|other| same_row(row, other));
            place.map(|place| rest.swap_remove(place)).is_some()
        })
    }

    /// Returns the rows as lines, at most a few.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        const LINES_MAX: usize = 10;
        let row = |row: &Vec<Value>| {
            let cells: Vec<_> = row.iter().map(ToString::to_string).collect();
            cells.join(" | ")
        };
        let mut lines: Vec<_> = self.rows.iter().take(LINES_MAX).map(row).collect();
        if self.rows.len() > LINES_MAX {
            lines.push(format!("... {} rows", self.rows.len()));
        }
        lines
    }
}

fn same_row(left: &[Value], right: &[Value]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&[&str]]) -> Table {
        let value = |text: &&str| Value::Text((*text).to_owned());
        let rows = rows.iter().map(|row| row.iter().map(value).collect()).collect();
        Table { types: Vec::new(), rows }
    }

    #[test]
    fn the_order_counts_where_it_is_said() {
        let (one, other) = (table(&[&["a", "b"], &["c", "d"]]), table(&[&["c", "d"], &["a", "b"]]));
        assert!(one.same_rows(&other, false));
        assert!(!one.same_rows(&other, true));
        assert!(!one.same_rows(&table(&[&["a", "b"], &["a", "b"]]), false));
        assert!(!one.same_rows(&table(&[&["a", "b"]]), false));
    }

    #[test]
    fn replies_of_duckdb_are_read() {
        let json = serde_json::json!({"rows": [["n1", null]]});
        let Reply::Rows(table) = Reply::of_duck(&json) else { panic!("no rows") };
        assert_eq!(table.rows, [[Value::Number("1".to_owned()), Value::Null]]);
        assert!(!Reply::of_duck(&serde_json::json!({"error": "Parser Error"})).is_success());
    }
}
