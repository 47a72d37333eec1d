//! Comparison of an answer with the expected one.
//!
//! Clause 2.1.3.5 of the specification requires counts and plain values to be equal, and permits
//! sums to differ by 100, and averages and ratios by one percent after rounding to hundredths.
//! Decimals are exact here, so computed values are checked more strictly: they may differ by at
//! most one hundredth once rounded as the listing is. Two columns of the listing are themselves
//! less than exact ([`Column::Ratio`], [`Column::Cut`]). Answers of another engine on the same
//! types must be equal to the digit. If averages and quotients are doubles in the other engine, or
//! cut off as those of DataFusion, computed values must be equal to the sixth digit after the
//! point, which is the last of DataFusion's averages; sums have fewer.
//!
//! The rows are compared as a set, because ORDER BY leaves ties open; their order is checked
//! separately. If a LIMIT cuts through a tie, the rows with the last key are compared by their keys
//! alone.

use std::cmp::Ordering;

use crate::suite::answer::Answer;
use crate::suite::timing::Timed;
use crate::tpch::query::{Column, Query, SortKey};

/// Precision of the comparison of computed columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// The expected values are rounded to hundredths, as the official listing is.
    Hundredths,
    /// The expected values are from an engine with the same types: they have every digit.
    Exact,
    /// The expected values are from an engine with other types for averages and quotients.
    Digits,
}

/// Maximum distance of a rounded value from the listing's: the last digit may be rounded up or down
/// there, so one unit of it, plus the error of the subtraction.
const HUNDREDTH: f64 = 0.010_000_1;

/// Maximum absolute and relative distance of computed values of two engines: an average is a
/// decimal with six digits in one, or a double.
const SIXTH_DIGIT: f64 = 0.000_001_000_1;
const DOUBLE: f64 = 4e-15;

/// Number of digits that the listing leaves out of a cut key.
const CUT_DIGITS: usize = 2;

/// Compares an answer with the expected one.
///
/// # Errors
/// The first difference, as text.
pub fn check(
    query: &Query,
    precision: Precision,
    expected: &Answer,
    found: &Answer,
) -> Result<(), String> {
    if found.rows.len() != expected.rows.len() {
        let (found, expected) = (found.rows.len(), expected.rows.len());
        return Err(format!("{found} rows instead of {expected}"));
    }
    let columns = query.columns();
    if let Some(row) = found.rows.iter().find(|row| row.len() != columns.len()) {
        return Err(format!("{} columns instead of {}", row.len(), columns.len()));
    }
    check_order(&query.order(), found)?;
    check_rows(query, precision, expected, found)
}

/// Compares the results of two runs of the same query.
///
/// # Errors
/// The first difference, as text.
pub fn check_runs(
    query: &Query,
    precision: Precision,
    expected: &Timed,
    found: &Timed,
) -> Result<(), String> {
    let answer = |timed: &Timed| timed.answer().map_err(|error| error.to_string());
    check(query, precision, &answer(expected)?, &answer(found)?)
}

fn check_order(order: &[SortKey], found: &Answer) -> Result<(), String> {
    let wrong = found
        .rows
        .windows(2)
        .position(|pair| by_keys(order, &pair[0], &pair[1]) == Ordering::Greater);
    match wrong {
        Some(at) => Err(format!("row {} is out of order: {:?}", at + 2, found.rows[at + 1])),
        None => Ok(()),
    }
}

fn check_rows(
    query: &Query,
    precision: Precision,
    expected: &Answer,
    found: &Answer,
) -> Result<(), String> {
    let rules = Rules { columns: query.columns(), order: query.order(), precision };
    let found = rules.as_listed(found);
    let mut wanted = rules.sorted(expected);
    let mut given = rules.sorted(&found);
    let cut = query.limit.is_some_and(|limit| limit == expected.rows.len());
    if let Some(last) = expected.rows.last().filter(|_| cut) {
        // The choice among the rows that tie with the last one is not determined; their number and
        // their keys are.
        wanted.retain(|row| !rules.ties(last, row));
        given.retain(|row| !rules.ties(last, row));
        if wanted.len() != given.len() {
            return Err("the last rows have other sort keys".into());
        }
    }
    wanted.iter().zip(&given).try_for_each(|(wanted, given)| rules.check_row(wanted, given))
}

/// Rules for the equality of values and rows.
struct Rules {
    columns: Vec<Column>,
    order: Vec<SortKey>,
    precision: Precision,
}

impl Rules {
    /// Returns the answer with keys cut as the listing cuts them.
    fn as_listed(&self, found: &Answer) -> Answer {
        let mut found = found.clone();
        if self.precision != Precision::Hundredths {
            return found;
        }
        for (index, _) in self.columns.iter().enumerate().filter(|(_, c)| **c == Column::Cut) {
            for row in &mut found.rows {
                let kept = row[index].len().saturating_sub(CUT_DIGITS);
                row[index].truncate(kept);
            }
        }
        found
    }

    /// Returns the rows, sorted by their keys and then by the computed columns.
    fn sorted<'a>(&self, answer: &'a Answer) -> Vec<&'a Vec<String>> {
        let mut rows: Vec<&Vec<String>> = answer.rows.iter().collect();
        rows.sort_by(|left, right| {
            let keys = self.compare_columns(true, left, right);
            keys.then_with(|| self.compare_columns(false, left, right))
        });
        rows
    }

    fn compare_columns(&self, keys: bool, left: &[String], right: &[String]) -> Ordering {
        self.columns
            .iter()
            .enumerate()
            .filter(|(_, column)| column.is_key() == keys)
            .map(|(index, _)| compare(&left[index], &right[index]))
            .find(|ordering| ordering.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// Returns true if a row has the sort keys of the last expected one.
    fn ties(&self, last: &[String], row: &[String]) -> bool {
        let equal = |key: &SortKey| self.equal(key.column, &last[key.column], &row[key.column]);
        !self.order.is_empty() && self.order.iter().all(equal)
    }

    fn check_row(&self, wanted: &[String], given: &[String]) -> Result<(), String> {
        let columns = 0..self.columns.len();
        let wrong =
            columns.into_iter().find(|index| !self.equal(*index, &wanted[*index], &given[*index]));
        match wrong {
            Some(index) => Err(format!(
                "column {} is {:?} instead of {:?} in the row {given:?}",
                index + 1,
                given[index],
                wanted[index]
            )),
            None => Ok(()),
        }
    }

    fn equal(&self, index: usize, expected: &str, found: &str) -> bool {
        if expected == found {
            return true;
        }
        match (self.precision, self.columns[index]) {
            (Precision::Exact, _) | (_, Column::Exact | Column::Cut) => false,
            (Precision::Digits, _) => same_digits(expected, found),
            (Precision::Hundredths, Column::Computed) => close(expected, found, |_| HUNDREDTH),
            (Precision::Hundredths, Column::Ratio) => {
                close(expected, found, |expected| expected.abs() / 100.0)
            }
        }
    }
}

/// Returns true if the found number, rounded to hundredths, is within `distance` of the expected
/// one.
fn close(expected: &str, found: &str, distance: impl Fn(f64) -> f64) -> bool {
    match (expected.parse::<f64>(), found.parse::<f64>()) {
        (Ok(expected), Ok(found)) => {
            let rounded = (found * 100.0).round() / 100.0;
            (rounded - expected).abs() <= distance(expected)
        }
        _ => false,
    }
}

/// Returns true if two numbers differ by no more than the types of averages and quotients explain.
fn same_digits(expected: &str, found: &str) -> bool {
    match (expected.parse::<f64>(), found.parse::<f64>()) {
        (Ok(expected), Ok(found)) => {
            (expected - found).abs() <= SIXTH_DIGIT + DOUBLE * expected.abs()
        }
        _ => false,
    }
}

fn by_keys(order: &[SortKey], left: &[String], right: &[String]) -> Ordering {
    order
        .iter()
        .map(|key| {
            let ordering = compare(&left[key.column], &right[key.column]);
            if key.descending { ordering.reverse() } else { ordering }
        })
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Compares numbers by value, anything else by its bytes.
fn compare(left: &str, right: &str) -> Ordering {
    match (left.parse::<f64>(), right.parse::<f64>()) {
        (Ok(left), Ok(right)) => left.total_cmp(&right),
        _ => left.cmp(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpch::official::official_answer;

    fn official(number: u32) -> (Query, Answer) {
        let query = Query::of(number).expect("query");
        (query, official_answer(number).expect("answer"))
    }

    fn verdict(query: &Query, expected: &Answer, found: &Answer) -> Result<(), String> {
        check(query, Precision::Hundredths, expected, found)
    }

    /// Returns an answer as the engine would give it: with full keys that the listing cuts.
    fn whole(query: &Query, answer: &Answer) -> Answer {
        let cut = query.columns().iter().position(|column| *column == Column::Cut);
        let mut answer = answer.clone();
        if let Some(index) = cut {
            answer.rows.iter_mut().for_each(|row| row[index].push_str("47"));
        }
        answer
    }

    #[test]
    fn every_official_answer_equals_itself_and_is_in_order() {
        for number in 1..=22 {
            let (query, listed) = official(number);
            let answer = whole(&query, &listed);
            assert_eq!(verdict(&query, &listed, &answer), Ok(()), "query {number}");
        }
    }

    #[test]
    fn a_missing_or_doubled_row_is_wrong() {
        for number in 1..=22 {
            let (query, listed) = official(number);
            let answer = whole(&query, &listed);
            let mut short = answer.clone();
            short.rows.pop();
            assert!(verdict(&query, &listed, &short).is_err(), "query {number}");
            let mut long = answer.clone();
            long.rows.push(long.rows[0].clone());
            assert!(verdict(&query, &listed, &long).is_err(), "query {number}");
            if answer.rows.len() > 2 {
                let mut doubled = answer.clone();
                doubled.rows[1] = doubled.rows[0].clone();
                assert!(verdict(&query, &listed, &doubled).is_err(), "query {number}");
            }
        }
    }

    #[test]
    fn any_changed_value_is_wrong() {
        for number in 1..=22 {
            let (query, listed) = official(number);
            for (index, column) in query.columns().into_iter().enumerate() {
                let mut changed = whole(&query, &listed);
                let value = &mut changed.rows[0][index];
                *value = match (column, value.parse::<f64>()) {
                    (Column::Computed, Ok(number)) => format!("{:.2}", number + 0.03),
                    (Column::Ratio, Ok(number)) => format!("{:.2}", number * 1.02),
                    _ => format!("{value}1"),
                };
                let verdict = verdict(&query, &listed, &changed);
                assert!(verdict.is_err(), "query {number} column {}", index + 1);
            }
        }
    }

    #[test]
    fn computed_values_may_have_more_digits() {
        let (query, answer) = official(14);
        let found = |text: &str| Answer { rows: vec![vec![text.to_string()]] };
        assert_eq!(verdict(&query, &answer, &found("16.380778626395540147")), Ok(()));
        assert_eq!(verdict(&query, &answer, &found("16.3849")), Ok(()));
        assert!(verdict(&query, &answer, &found("16.41")).is_err());
        assert!(verdict(&query, &answer, &found("NULL")).is_err());
        assert!(verdict(&query, &answer, &found("")).is_err());
    }

    #[test]
    fn counts_and_keys_have_no_tolerance() {
        let (query, answer) = official(4);
        let mut found = answer.clone();
        found.rows[0][1] = "10594.00".into();
        assert!(verdict(&query, &answer, &found).is_err());
    }

    #[test]
    fn a_cut_key_is_the_whole_one_without_two_digits() {
        let (query, listed) = official(11);
        let mut found = whole(&query, &listed);
        found.rows[0][0] = "129760".into();
        assert_eq!(verdict(&query, &listed, &found), Ok(()));
        found.rows[0][0] = "129860".into();
        assert!(verdict(&query, &listed, &found).is_err());
        found.rows[0][0] = "1297".into();
        assert!(verdict(&query, &listed, &found).is_err());
    }

    #[test]
    fn rows_that_the_listing_s_cut_makes_alike_come_in_any_order() {
        let (query, listed) = official(11);
        let mut found = whole(&query, &listed);
        let nines = (0..found.rows.len()).filter(|row| listed.rows[*row][0] == "9");
        let nines: Vec<usize> = nines.collect();
        // The larger sum comes first; as keys, 952 and 966 are in the opposite order of their sums.
        for (row, key) in nines.iter().zip(["952", "966"]) {
            found.rows[*row][0] = key.into();
        }
        assert!(nines.len() >= 2);
        assert_eq!(verdict(&query, &listed, &found), Ok(()));
    }

    #[test]
    fn keys_that_are_cut_alike_are_told_apart_by_their_values() {
        let query = Query::of(11).expect("query");
        let row = |key: &str, value: &str| vec![key.to_string(), value.to_string()];
        let listed = Answer { rows: vec![row("952", "9.00"), row("952", "8.00")] };
        let found = Answer { rows: vec![row("95201", "9.00"), row("95299", "8.00")] };
        assert_eq!(verdict(&query, &listed, &found), Ok(()));
        let found = Answer { rows: vec![row("95299", "9.00"), row("95201", "8.00")] };
        assert_eq!(verdict(&query, &listed, &found), Ok(()));
        let found = Answer { rows: vec![row("95299", "9.00"), row("95201", "7.00")] };
        assert!(verdict(&query, &listed, &found).is_err());
    }

    #[test]
    fn the_last_keys_may_have_more_digits_too() {
        let (query, listed) = official(3);
        let mut found = listed.clone();
        found.rows.iter_mut().for_each(|row| row[1].push_str("04"));
        assert_eq!(verdict(&query, &listed, &found), Ok(()));
        found.rows[9][1] = "373133.40".into();
        assert!(verdict(&query, &listed, &found).is_err());
    }

    #[test]
    fn exact_precision_wants_every_digit() {
        let query = Query::of(6).expect("query");
        let answer = |text: &str| Answer { rows: vec![vec![text.to_string()]] };
        let same = check(&query, Precision::Exact, &answer("1.2345"), &answer("1.2345"));
        assert_eq!(same, Ok(()));
        let other = check(&query, Precision::Exact, &answer("1.2345"), &answer("1.2346"));
        assert!(other.is_err());
    }

    #[test]
    fn digits_of_averages_may_end_and_those_of_sums_may_not() {
        let query = Query::of(6).expect("query");
        let answer = |text: &str| Answer { rows: vec![vec![text.to_string()]] };
        let verdict = |expected: &str, found: &str| {
            check(&query, Precision::Digits, &answer(expected), &answer(found))
        };
        assert_eq!(verdict("25.522005853257337", "25.522006"), Ok(()));
        assert_eq!(verdict("2.5", "2.500000"), Ok(()));
        assert_eq!(verdict("56586554400.73", "56586554400.7300"), Ok(()));
        assert!(verdict("56586554400.73", "56586554400.74").is_err());
        assert!(verdict("25.522005", "25.522007").is_err());
        assert!(verdict("NULL", "0.000000").is_err());
    }

    #[test]
    fn the_order_is_checked() {
        let (query, answer) = official(1);
        let mut found = answer.clone();
        found.rows.swap(0, 1);
        let message = verdict(&query, &answer, &found).expect_err("out of order");
        assert!(message.contains("out of order"), "{message}");
    }

    #[test]
    fn ties_may_come_in_any_order() {
        let (query, _) = official(5);
        let row = |name: &str, sum: &str| vec![name.to_string(), sum.to_string()];
        let one = Answer { rows: vec![row("A", "2.00"), row("B", "2.00"), row("C", "1.00")] };
        let two = Answer { rows: vec![row("B", "2.00"), row("A", "2.00"), row("C", "1.00")] };
        assert_eq!(verdict(&query, &one, &two), Ok(()));
    }

    #[test]
    fn a_limit_may_cut_a_tie_anywhere() {
        let query = Query::of(21).expect("query");
        let row = |name: usize, count: usize| vec![format!("S{name:03}"), count.to_string()];
        let rows: Vec<Vec<String>> = (0..99).map(|name| row(name, 9)).collect();
        let with_last = |last: Vec<String>| {
            let mut rows = rows.clone();
            rows.push(last);
            Answer { rows }
        };
        let expected = with_last(row(100, 3));
        assert_eq!(verdict(&query, &expected, &with_last(row(100, 3))), Ok(()));
        // The name is a sort key of this query, so a row with another name does not tie.
        assert!(verdict(&query, &expected, &with_last(row(101, 3))).is_err());
        let query = Query::of(10).expect("query");
        let row = |name: usize, revenue: usize| {
            let mut row = vec![String::new(); 8];
            row[0] = name.to_string();
            row[2] = format!("{revenue}.00");
            row
        };
        let rows: Vec<Vec<String>> = (0..19).map(|name| row(name, 50 - name)).collect();
        let with_last = |last: Vec<String>| {
            let mut rows = rows.clone();
            rows.push(last);
            Answer { rows }
        };
        let expected = with_last(row(100, 3));
        assert_eq!(verdict(&query, &expected, &with_last(row(200, 3))), Ok(()));
        assert!(verdict(&query, &expected, &with_last(row(100, 4))).is_err());
    }
}
