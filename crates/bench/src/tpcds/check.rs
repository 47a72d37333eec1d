//! Comparison of an answer with that of another engine over the same data.
//!
//! Engines compute averages and quotients of decimals with different types, and so with different
//! last digits: columns with fractions are compared with a small tolerance, all others exactly. A
//! column that is `round(value, digits)` may differ by one unit of its last digit: for a value in
//! the middle, such as 23.00 / 40, a decimal is rounded up, and its nearest double may be below.
//! Rows are compared as a multiset, because ORDER BY leaves ties open; their order is checked
//! separately, by the keys that are columns of the answer.
//!
//! If a LIMIT cuts through a tie, engines may return different rows. The expected answer therefore
//! has more rows than the LIMIT: rows before the tie must be present, and the others must be among
//! those that tie.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::suite::answer::{Answer, NULL};
use crate::suite::reference::Reference;
use crate::tpcds::shape::{Key, Shape};

/// Number of rows beyond its LIMIT that an expected answer has, to detect ties.
pub const MORE_ROWS: usize = 10_000;

/// Maximum relative error of a fraction.
const RELATIVE: f64 = 1e-6;

/// Maximum absolute error of a fraction: decimals of averages and of quotients have four to six
/// digits in one engine and more in another.
const ABSOLUTE: f64 = 1e-4;

/// Compares an answer with the expected one, which is widened by [`MORE_ROWS`].
///
/// # Errors
/// The first difference, as text.
pub fn check(shape: &Shape, expected: &Reference, found: &Answer) -> Result<(), String> {
    let all = &expected.answer.rows;
    let count = shape.limit.map_or(all.len(), |limit| all.len().min(limit));
    if found.rows.len() != count {
        return Err(format!("{} rows instead of {count}", found.rows.len()));
    }
    let width = expected.columns.len();
    if let Some(row) = found.rows.iter().find(|row| row.len() != width) {
        return Err(format!("{} columns instead of {width}", row.len()));
    }
    let keys = shape.keys(&expected.columns);
    check_order(&keys, found)?;
    let rules = Rules::of(shape.rounded(width), all, &found.rows);
    let last = all[..count].last().filter(|_| all.len() > count);
    let tied = |row: &[String]| last.is_some_and(|last| rules.ties(&keys, last, row));
    let mut given = rules.pile(found.rows.iter());
    for row in all[..count].iter().filter(|row| !tied(row)) {
        if !given.take(&rules, row) {
            return Err(given.missing(&rules, row));
        }
    }
    let mut open = rules.pile(all.iter().filter(|row| tied(row)));
    match given.rows().find(|row| !open.take(&rules, row)) {
        Some(row) => Err(format!("the row {row:?} is not among the expected")),
        None => Ok(()),
    }
}

fn check_order(keys: &[Key], found: &Answer) -> Result<(), String> {
    let wrong = found
        .rows
        .windows(2)
        .position(|pair| by_keys(keys, &pair[0], &pair[1]) == Ordering::Greater);
    match wrong {
        Some(at) => Err(format!("row {} is out of order: {:?}", at + 2, found.rows[at + 1])),
        None => Ok(()),
    }
}

fn by_keys(keys: &[Key], left: &[String], right: &[String]) -> Ordering {
    keys.iter()
        .map(|key| by_key(key, &left[key.column], &right[key.column]))
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn by_key(key: &Key, left: &str, right: &str) -> Ordering {
    let nulls = (left == NULL, right == NULL);
    if nulls.0 || nulls.1 {
        let first = nulls.1.cmp(&nulls.0);
        return if key.nulls_first { first } else { first.reverse() };
    }
    let ordering = match (number(left), number(right)) {
        (Some(left), Some(right)) => left.total_cmp(&right),
        _ => left.cmp(right),
    };
    if key.descending { ordering.reverse() } else { ordering }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// Returns true if a value is a number with a fraction.
fn is_fraction(text: &str) -> bool {
    text.contains(['.', 'e', 'E']) && number(text).is_some_and(f64::is_finite)
}

fn close(left: &str, right: &str, unit: f64) -> bool {
    if left == right {
        return true;
    }
    let Some((left, right)) = number(left).zip(number(right)) else { return false };
    (left - right).abs() <= unit + ABSOLUTE + RELATIVE * left.abs().max(right.abs())
}

/// Comparison rules of columns: those compared exactly, and the fractions.
struct Rules {
    exact: Vec<bool>,
    /// One unit of the last digit for a rounded column, and 0 for any other column.
    units: Vec<f64>,
}

impl Rules {
    fn of(rounded: Vec<Option<i32>>, expected: &[Vec<String>], found: &[Vec<String>]) -> Rules {
        let rows = || expected.iter().chain(found);
        let exact = |column: usize| !rows().any(|row| is_fraction(&row[column]));
        let exact = (0..rounded.len()).map(exact).collect();
        let unit = |digits: Option<i32>| digits.map_or(0.0, |digits| 10_f64.powi(-digits));
        Rules { exact, units: rounded.into_iter().map(unit).collect() }
    }

    fn equal(&self, column: usize, left: &str, right: &str) -> bool {
        if self.exact[column] { left == right } else { close(left, right, self.units[column]) }
    }

    fn same(&self, left: &[String], right: &[String]) -> bool {
        (0..self.exact.len()).all(|column| self.equal(column, &left[column], &right[column]))
    }

    fn ties(&self, keys: &[Key], left: &[String], right: &[String]) -> bool {
        keys.iter().all(|key| self.equal(key.column, &left[key.column], &right[key.column]))
    }

    /// Returns the values of a row that are compared exactly.
    fn letters<'a>(&self, row: &'a [String]) -> Vec<&'a str> {
        let exact = row.iter().zip(&self.exact).filter(|(_, exact)| **exact);
        exact.map(|(value, _)| value.as_str()).collect()
    }

    fn pile<'a>(&self, rows: impl Iterator<Item = &'a Vec<String>>) -> Pile<'a> {
        let mut groups: HashMap<Vec<&str>, Vec<&Vec<String>>> = HashMap::new();
        for row in rows {
            groups.entry(self.letters(row)).or_default().push(row);
        }
        Pile { groups }
    }
}

/// Rows that are not matched yet, by their exact values.
struct Pile<'a> {
    groups: HashMap<Vec<&'a str>, Vec<&'a Vec<String>>>,
}

impl<'a> Pile<'a> {
    /// Removes a row equal to the given one. Returns false if there is none.
    fn take(&mut self, rules: &Rules, row: &'a [String]) -> bool {
        let Some(group) = self.groups.get_mut(&rules.letters(row)) else { return false };
        let found = group.iter().position(|other| rules.same(other, row));
        found.map(|index| group.swap_remove(index)).is_some()
    }

    fn rows(&self) -> impl Iterator<Item = &'a Vec<String>> {
        self.groups.values().flatten().copied()
    }

    /// Returns the message for a missing row.
    fn missing(&self, rules: &Rules, row: &'a [String]) -> String {
        let near = self.groups.get(&rules.letters(row)).and_then(|group| group.first());
        match near {
            Some(near) => format!("the row {near:?} should be {row:?}"),
            None => format!("the row {row:?} is missing"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(rows: &[&[&str]]) -> Answer {
        let row = |row: &&[&str]| row.iter().map(ToString::to_string).collect();
        Answer { rows: rows.iter().map(row).collect() }
    }

    fn verdict(text: &str, expected: &[&[&str]], found: &[&[&str]]) -> Result<(), String> {
        let columns = vec!["k".to_string(), "v".to_string()];
        let reference = Reference { columns, answer: answer(expected) };
        check(&Shape::of(text), &reference, &answer(found))
    }

    const ALL: &str = "SELECT k, v FROM t ORDER BY k";
    const TWO: &str = "SELECT k, v FROM t ORDER BY k LIMIT 2";

    #[test]
    fn fractions_have_a_tolerance_and_nothing_else_has() {
        let same = |left: &str, right: &str| verdict(ALL, &[&["a", left]], &[&["a", right]]);
        assert_eq!(same("0.333333", "0.3333333333333333"), Ok(()));
        assert_eq!(same("123456789.12", "123456789.1200003"), Ok(()));
        assert_eq!(same("2", "2.000000"), Ok(()));
        assert!(same("0.333", "0.334").is_err());
        assert!(same("1000000", "1000001").is_err());
        assert!(same("1.5", "NULL").is_err());
        assert!(same("2001-01-01", "2001-01-02").is_err());
        let swapped = verdict(ALL, &[&["a", "1.5"], &["b", "2"]], &[&["a", "2"], &["b", "1.5"]]);
        assert!(swapped.expect_err("wrong").contains("should be"));
    }

    #[test]
    fn rounded_columns_may_differ_by_their_last_digit() {
        let text = "SELECT k, round(v, 2) FROM t ORDER BY k";
        let same = |left: &str, right: &str| verdict(text, &[&["a", left]], &[&["a", right]]);
        assert_eq!(same("0.57", "0.58"), Ok(()));
        assert!(same("0.57", "0.59").is_err());
        assert!(verdict(ALL, &[&["a", "0.57"]], &[&["a", "0.58"]]).is_err());
    }

    #[test]
    fn rows_are_counted_as_often_as_they_come() {
        let rows: &[&[&str]] = &[&["a", "1"], &["a", "1"], &["a", "2"]];
        assert_eq!(verdict(ALL, rows, &[&["a", "2"], &["a", "1"], &["a", "1"]]), Ok(()));
        assert!(verdict(ALL, rows, &[&["a", "2"], &["a", "2"], &["a", "1"]]).is_err());
        assert!(verdict(ALL, rows, &rows[..2]).is_err());
        assert!(verdict(ALL, rows, &[&["a"], &["a"], &["a"]]).is_err());
    }

    #[test]
    fn close_rows_are_matched_in_any_order() {
        let expected: &[&[&str]] = &[&["1.00000", "5"], &["1.00001", "7"]];
        let found: &[&[&str]] = &[&["1.00000", "7"], &["1.00001", "5"]];
        assert_eq!(verdict("SELECT k, v FROM t", expected, found), Ok(()));
    }

    #[test]
    fn the_order_is_checked_with_its_nulls() {
        let rows: &[&[&str]] = &[&["1", "x"], &["10", "x"], &["NULL", "x"]];
        assert_eq!(verdict(ALL, rows, rows), Ok(()));
        let reversed: Vec<&[&str]> = rows.iter().rev().copied().collect();
        assert!(verdict(ALL, rows, &reversed).expect_err("wrong").contains("out of order"));
        let down = "SELECT k, v FROM t ORDER BY k DESC";
        assert_eq!(verdict(down, rows, &reversed), Ok(()));
        let first = "SELECT k, v FROM t ORDER BY k NULLS FIRST";
        assert!(verdict(first, rows, rows).is_err());
    }

    #[test]
    fn a_limit_may_cut_a_tie_anywhere_but_only_there() {
        let expected: &[&[&str]] = &[&["a", "1"], &["b", "2"], &["b", "3"], &["c", "4"]];
        for tied in ["2", "3"] {
            assert_eq!(verdict(TWO, expected, &[&["a", "1"], &["b", tied]]), Ok(()));
        }
        assert!(verdict(TWO, expected, &[&["a", "1"], &["b", "9"]]).is_err());
        assert!(verdict(TWO, expected, &[&["a", "1"], &["c", "4"]]).is_err());
        assert!(verdict(TWO, expected, &[&["b", "2"], &["b", "3"]]).is_err());
        assert!(verdict(TWO, expected, &[&["a", "1"], &["a", "1"]]).is_err());
        assert!(verdict(TWO, expected, &[&["a", "1"]]).is_err());
        // No rows were cut off: the last row is as certain as the others.
        assert!(verdict(TWO, &expected[..2], &[&["a", "1"], &["b", "3"]]).is_err());
        assert_eq!(verdict(TWO, &expected[..1], &[&["a", "1"]]), Ok(()));
        let unordered = "SELECT k, v FROM t LIMIT 2";
        assert_eq!(verdict(unordered, expected, &[&["c", "4"], &["a", "1"]]), Ok(()));
        assert!(verdict(unordered, expected, &[&["c", "4"], &["c", "4"]]).is_err());
    }

    #[test]
    fn empty_answers_are_equal() {
        assert_eq!(verdict(TWO, &[], &[]), Ok(()));
    }
}
