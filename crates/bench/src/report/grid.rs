//! Tables of results as text; the command line aligns and prints them.

/// Rows of text under column titles.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    titles: Vec<String>,
    rows: Vec<Vec<String>>,
    wide: bool,
}

impl Grid {
    /// Creates a grid with these column titles and no rows.
    pub fn new<T: Into<String>>(titles: impl IntoIterator<Item = T>) -> Grid {
        Grid { titles: titles.into_iter().map(Into::into).collect(), rows: Vec::new(), wide: false }
    }

    /// Returns the same grid with values of any width to be printed in full.
    #[must_use]
    pub fn wide(mut self) -> Grid {
        self.wide = true;
        self
    }

    /// Adds a row. Values without a column title are not printed; missing values are blank.
    pub fn push<T: Into<String>>(&mut self, row: impl IntoIterator<Item = T>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    /// Returns the column titles.
    pub fn titles(&self) -> &[String] {
        &self.titles
    }

    /// Returns the rows.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Returns true if values of any width are to be printed in full.
    pub fn is_wide(&self) -> bool {
        self.wide
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// Text for assertions: a line for the titles and one for each row.
#[cfg(test)]
impl std::fmt::Display for Grid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = [&self.titles].into_iter().chain(&self.rows);
        let mut lines = lines.map(|line| line.join("  "));
        lines.try_for_each(|line| writeln!(f, "{line}"))
    }
}
