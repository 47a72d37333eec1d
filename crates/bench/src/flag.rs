//! Parsers for values of options on the command line.

use crate::tpcds::QUERY_COUNT;

/// Parses a number of seconds from 0 to a day.
///
/// # Errors
/// A description of the valid input.
pub fn seconds(text: &str) -> Result<f64, String> {
    within(text, 86_400.0, "seconds, at most a day")
}

/// Parses a scale factor. Below a thousandth some tables are empty; above 100,000 keys overflow.
///
/// # Errors
/// A description of the valid input.
pub fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (0.001..=100_000.0).contains(&scale) => Ok(scale),
        _ => Err("a scale factor is a number from 0.001 to 100000".into()),
    }
}

/// Parses the number of a TPC-H query, from 1 to 22.
///
/// # Errors
/// A description of the valid input.
pub fn tpch_query(text: &str) -> Result<u32, String> {
    numbered(text, 22)
}

/// Parses the number of a TPC-DS query, from 1 to 99.
///
/// # Errors
/// A description of the valid input.
pub fn tpcds_query(text: &str) -> Result<u32, String> {
    numbered(text, QUERY_COUNT)
}

/// Parses a number from 0 to `most`; `name` describes it.
pub(crate) fn within(text: &str, most: f64, name: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=most).contains(number));
    number.ok_or_else(|| format!("\"{text}\" is not {name}"))
}

fn numbered(text: &str, last: u32) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| (1..=last).contains(number));
    number.ok_or_else(|| format!("the queries are numbered from 1 to {last}"))
}
