//! Text tables for a terminal, with aligned columns and numbers to the right. All tables of the
//! command line are printed by it: results of SQL, reports and lists.

use std::fmt;

/// Maximum width of a column in characters; longer values are cut with an ellipsis.
const WIDTH_MAX: usize = 60;

/// Ellipsis at the end of a value that was cut.
const ELLIPSIS: &str = "...";

/// Gap between two columns.
const GAP: &str = "  ";

/// Rows of text under column titles. `Display` aligns them; a value with several lines takes
/// several lines of its row.
#[derive(Clone, Debug, Default)]
pub struct TextTable {
    titles: Vec<String>,
    rows: Vec<Vec<Cell>>,
    wide: bool,
}

/// Lines of a value, ready for printing.
type Cell = Vec<String>;

impl TextTable {
    /// Creates a table with these column titles and no rows.
    pub fn new<T: Into<String>>(titles: impl IntoIterator<Item = T>) -> TextTable {
        TextTable {
            titles: titles.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
            wide: false,
        }
    }

    /// Returns the same table without the limit of [`WIDTH_MAX`].
    #[must_use]
    pub fn wide(mut self) -> TextTable {
        self.wide = true;
        self
    }

    /// Adds a row. Values without a column title are not printed; missing values are blank.
    pub fn push<T: Into<String>>(&mut self, row: impl IntoIterator<Item = T>) {
        let width = if self.wide { usize::MAX } else { WIDTH_MAX };
        self.rows.push(row.into_iter().map(|value| cell(&value.into(), width)).collect());
    }

    fn column(&self, index: usize) -> Column {
        let cells = || self.rows.iter().filter_map(|row| row.get(index));
        let widths = cells().flatten().map(|line| line.chars().count());
        let title = self.titles[index].chars().count();
        // A column in which every value is a number is aligned to the right.
        let mut values = cells().filter(|cell| !cell.concat().is_empty()).peekable();
        let numeric = values.peek().is_some()
            && values.all(|cell| cell.len() == 1 && cell.iter().all(|line| is_number(line)));
        Column { width: widths.chain([title]).max().unwrap_or(0), numeric }
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<Column> = (0..self.titles.len()).map(|at| self.column(at)).collect();
        write_line(f, &columns, |index| self.titles[index].as_str())?;
        let rule: Vec<String> = columns.iter().map(|column| "-".repeat(column.width)).collect();
        writeln!(f, "{}", rule.join(GAP))?;
        for row in &self.rows {
            let height = row.iter().map(Vec::len).max().unwrap_or(1);
            for line in 0..height {
                let text = |index: usize| row.get(index).and_then(|cell| cell.get(line));
                write_line(f, &columns, |index| text(index).map_or("", String::as_str))?;
            }
        }
        Ok(())
    }
}

/// Width and alignment of a column.
struct Column {
    width: usize,
    numeric: bool,
}

fn write_line<'a>(
    f: &mut fmt::Formatter<'_>,
    columns: &[Column],
    text: impl Fn(usize) -> &'a str,
) -> fmt::Result {
    let set = |(index, column): (usize, &Column)| {
        let (text, width) = (text(index), column.width);
        if column.numeric { format!("{text:>width$}") } else { format!("{text:<width$}") }
    };
    let cells: Vec<String> = columns.iter().enumerate().map(set).collect();
    writeln!(f, "{}", cells.join(GAP).trim_end())
}

/// Splits a value into lines, none wider than `width`, and escapes control characters.
fn cell(value: &str, width: usize) -> Cell {
    let lines = value.trim_end_matches('\n').split('\n');
    lines.map(|line| cut(line.chars().flat_map(spelled).collect(), width)).collect()
}

fn cut(line: String, width: usize) -> String {
    match line.char_indices().nth(width) {
        Some(_) => {
            let kept = width - ELLIPSIS.len();
            line.chars().take(kept).chain(ELLIPSIS.chars()).collect()
        }
        None => line,
    }
}

/// Replaces a tab by blanks, and any other control character by its escape sequence.
fn spelled(letter: char) -> Vec<char> {
    match letter {
        '\t' => vec![' '; 4],
        letter if letter.is_control() => letter.escape_default().collect(),
        letter => vec![letter],
    }
}

fn is_number(value: &str) -> bool {
    let digits = value.trim_end_matches(['x', '%']);
    value == "-" || value == "NULL" || digits.parse::<f64>().is_ok() || is_size(value)
}

/// Returns true for a formatted size, such as `12.5MiB`.
fn is_size(value: &str) -> bool {
    let number = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = &value[number.len()..];
    matches!(unit, "B" | "KiB" | "MiB" | "GiB" | "TiB") && number.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right_and_text_left() {
        let mut table = TextTable::new(["name", "rows", "size"]);
        table.push(["orders", "1500000", "1.5MiB"]);
        table.push(["x", "-3.5", "10B"]);
        let text = table.to_string();
        assert_eq!(
            text,
            "name       rows    size\n\
             ------  -------  ------\n\
             orders  1500000  1.5MiB\n\
             x          -3.5     10B\n"
        );
    }

    #[test]
    fn long_values_are_cut_unless_wide() {
        let mut table = TextTable::new(["v"]);
        table.push(["x".repeat(100)]);
        assert!(table.to_string().contains(&format!("\n{}...\n", "x".repeat(57))));
        let mut table = TextTable::new(["v"]).wide();
        table.push(["x".repeat(100)]);
        assert!(table.to_string().contains(&"x".repeat(100)));
    }

    #[test]
    fn lines_of_a_value_stand_below_each_other() {
        let mut table = TextTable::new(["a", "plan"]);
        table.push(["1", "Sort\n  Scan\n"]);
        table.push(["2", "Scan"]);
        assert_eq!(table.to_string(), "a  plan\n-  ------\n1  Sort\n     Scan\n2  Scan\n");
    }

    #[test]
    fn control_characters_are_spelled_out() {
        let mut table = TextTable::new(["v"]);
        table.push(["a\tb\u{1b}[31m"]);
        assert!(table.to_string().contains("a    b\\u{1b}[31m"), "{table}");
    }

    #[test]
    fn a_short_row_is_blank_at_its_end() {
        let mut table = TextTable::new(["a", "b"]);
        table.push(["1"]);
        assert_eq!(table.to_string(), "a  b\n-  -\n1\n");
    }
}
