//! Properties of tables beside their columns' names and types: defaults, checks and comments.

use std::collections::BTreeMap;

/// Properties of a table. Expressions are kept as the text that they were written as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// Properties by column. A column without any is absent.
    pub columns: BTreeMap<String, ColumnProperties>,
    /// CHECK constraints, by name.
    pub checks: BTreeMap<String, String>,
    /// Comment on the table.
    pub comment: Option<String>,
}

/// Properties of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnProperties {
    /// Value of rows that are inserted without one.
    pub default: Option<String>,
    /// Expression that computes the value of every row from its other columns.
    pub generated: Option<String>,
    /// Comment on the column.
    pub comment: Option<String>,
}

impl Properties {
    /// Returns true if the table has no properties.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// Returns the properties of a column.
    #[must_use]
    pub fn of(&self, column: &str) -> Option<&ColumnProperties> {
        self.columns.get(column)
    }

    /// Returns the default of a column.
    #[must_use]
    pub fn default_of(&self, column: &str) -> Option<&str> {
        self.of(column)?.default.as_deref()
    }

    /// Changes the properties of a column.
    pub fn change(&mut self, column: &str, change: impl FnOnce(&mut ColumnProperties)) {
        let mut properties = self.columns.remove(column).unwrap_or_default();
        change(&mut properties);
        if properties != ColumnProperties::default() {
            self.columns.insert(column.to_owned(), properties);
        }
    }
}
