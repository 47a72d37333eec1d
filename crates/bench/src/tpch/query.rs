//! The 22 queries with the specification's validation parameters.
//!
//! The texts are those of the `tpchgen` crate, whose placeholders are filled in here. Two are
//! adapted to this engine: query 1 loses the precision of its interval, which has no meaning for
//! whole days, and the view of query 15 becomes a common table expression, as in the
//! specification's approved variant.

use tpchgen::q_and_a::queries;

use crate::error::{BenchError, Result};

/// Comparison of a column of an answer with the official one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Keys, strings, dates, counts and values taken from a row: equal.
    Exact,
    /// Sums, averages and ratios: equal when rounded as the official answer is.
    Computed,
    /// A ratio whose official value comes from rounded intermediate values: within one percent.
    Ratio,
    /// A key that the official listing gives without its last two digits.
    Cut,
}

impl Column {
    /// Returns true if rows are identified by this column.
    pub fn is_key(self) -> bool {
        matches!(self, Column::Exact | Column::Cut)
    }
}

/// A sort key of a query's ORDER BY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// Position in the select list, from 0.
    pub column: usize,
    /// True if larger values come first.
    pub descending: bool,
}

/// A query: its parameters, and the properties of its answer.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Number of the query, 1 to 22.
    pub number: u32,
    /// Values of `:1`, `:2`, ... (clause "Query Validation" of each query).
    parameters: &'static [&'static str],
    /// One letter a column: `e` exact, `c` computed, `r` ratio, `k` cut key.
    columns: &'static str,
    /// ORDER BY as positions from 1; negative descends.
    order: &'static [i32],
    /// Maximum number of rows, if the specification sets one.
    pub limit: Option<usize>,
}

/// Parameter of query 11 that depends on the scale: 0.0001 divided by it.
const FRACTION: &str = "FRACTION";

const fn query(
    number: u32,
    parameters: &'static [&'static str],
    columns: &'static str,
    order: &'static [i32],
    limit: Option<usize>,
) -> Query {
    Query { number, parameters, columns, order, limit }
}

/// All queries, in order.
pub const QUERIES: [Query; 22] = [
    query(1, &["90"], "eeccccccce", &[1, 2], None),
    query(2, &["15", "BRASS", "EUROPE"], "eeeeeeee", &[-1, 3, 2, 4], Some(100)),
    query(3, &["BUILDING", "1995-03-15"], "ecee", &[-2, 3], Some(10)),
    query(4, &["1993-07-01"], "ee", &[1], None),
    query(5, &["ASIA", "1994-01-01"], "ec", &[-2], None),
    query(6, &["1994-01-01", "0.06", "24"], "c", &[], None),
    query(7, &["FRANCE", "GERMANY"], "eeec", &[1, 2, 3], None),
    query(8, &["BRAZIL", "AMERICA", "ECONOMY ANODIZED STEEL"], "ec", &[1], None),
    query(9, &["green"], "eec", &[1, -2], None),
    query(10, &["1993-10-01"], "eeceeeee", &[-3], Some(20)),
    query(11, &["GERMANY", FRACTION], "kc", &[-2], None),
    query(12, &["MAIL", "SHIP", "1994-01-01"], "eee", &[1], None),
    query(13, &["special", "requests"], "ee", &[-2, -1], None),
    query(14, &["1995-09-01"], "c", &[], None),
    query(15, &["1996-01-01"], "eeeec", &[1], None),
    query(
        16,
        &["Brand#45", "MEDIUM POLISHED", "49", "14", "23", "45", "19", "3", "36", "9"],
        "eeee",
        &[-4, 1, 2, 3],
        None,
    ),
    query(17, &["Brand#23", "MED BOX"], "r", &[], None),
    query(18, &["300"], "eeeeec", &[-5, 4], Some(100)),
    query(19, &["Brand#12", "Brand#23", "Brand#34", "1", "10", "20"], "c", &[], None),
    query(20, &["forest", "1994-01-01", "CANADA"], "ee", &[1], None),
    query(21, &["SAUDI ARABIA"], "ee", &[-2, 1], Some(100)),
    query(22, &["13", "31", "23", "29", "30", "18", "17"], "eec", &[1], None),
];

impl Query {
    /// Returns the query with a number from 1 to 22.
    ///
    /// # Errors
    /// [`BenchError::Input`] for any other number.
    pub fn of(number: u32) -> Result<Query> {
        QUERIES.into_iter().find(|query| query.number == number).ok_or_else(|| {
            BenchError::input(format!("no TPC-H query {number}; there are 1 to {}", QUERIES.len()))
        })
    }

    /// Returns the text at a scale: one statement, without the closing semicolon.
    pub fn text(&self, scale: f64) -> String {
        let template = i32::try_from(self.number).ok().and_then(queries::query).unwrap_or_default();
        let mut text = match self.number {
            1 => template.replace(" day (3)", " day"),
            15 => view_as_expression(template),
            _ => template.to_string(),
        };
        // Highest number first, as `:1` is also the beginning of `:10`.
        for (index, value) in self.parameters.iter().enumerate().rev() {
            let value = if *value == FRACTION { fraction(scale) } else { (*value).to_string() };
            text = text.replace(&format!(":{}", index + 1), &value);
        }
        let text = text.trim().trim_end_matches(';').trim_end();
        match self.limit {
            Some(rows) => format!("{text}\nlimit {rows}"),
            None => text.to_string(),
        }
    }

    /// Returns the comparison of each column of the answer.
    pub fn columns(&self) -> Vec<Column> {
        let kind = |letter| match letter {
            'c' => Column::Computed,
            'r' => Column::Ratio,
            'k' => Column::Cut,
            _ => Column::Exact,
        };
        self.columns.chars().map(kind).collect()
    }

    /// Returns the sort keys of its ORDER BY.
    pub fn order(&self) -> Vec<SortKey> {
        let key = |position: &i32| SortKey {
            column: usize::try_from(position.unsigned_abs()).unwrap_or(1) - 1,
            descending: *position < 0,
        };
        self.order.iter().map(key).collect()
    }
}

/// Returns the fraction of query 11 at a scale, with enough digits for any scale up to 100,000.
fn fraction(scale: f64) -> String {
    format!("{:.12}", 0.0001 / scale)
}

/// Rewrites `create view V (columns) as BODY; QUERY; drop view V` as `with V (columns) as (BODY)
/// QUERY`.
fn view_as_expression(template: &str) -> String {
    let mut statements = template.split(';');
    let view = statements.next().unwrap_or_default();
    let query = statements.next().unwrap_or_default();
    let (head, body) = view.split_once(" as").unwrap_or((view, ""));
    let head = head.replace("create view", "with");
    format!("{head} as ({body}\n){query}").replace("revenue:s", "revenue")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_placeholder_is_left() {
        for query in QUERIES {
            let text = query.text(1.0);
            let left = text.match_indices(':').any(|(at, _)| {
                text[at + 1..].starts_with(|next: char| next.is_ascii_digit() || next == 's')
            });
            assert!(!left, "query {}: {text}", query.number);
            assert!(!text.contains(';'), "query {}: {text}", query.number);
        }
    }

    #[test]
    fn numbers_run_from_one_to_twenty_two() {
        let numbers: Vec<u32> = QUERIES.iter().map(|query| query.number).collect();
        assert_eq!(numbers, (1..=22).collect::<Vec<_>>());
        assert!(Query::of(0).is_err());
        assert!(Query::of(23).is_err());
    }

    #[test]
    fn parameters_fill_the_right_places() {
        let text = Query::of(16).expect("query").text(1.0);
        assert!(text.contains("p_brand <> 'Brand#45'"), "{text}");
        assert!(text.contains("(49, 14, 23, 45, 19, 3, 36, 9)"), "{text}");
        let text = Query::of(18).expect("query").text(1.0);
        assert!(text.ends_with("limit 100"), "{text}");
    }

    #[test]
    fn the_view_becomes_an_expression() {
        let text = Query::of(15).expect("query").text(1.0);
        assert!(text.starts_with("with revenue (supplier_no, total_revenue) as ("), "{text}");
        assert!(!text.contains("view"), "{text}");
    }

    #[test]
    fn the_fraction_follows_the_scale() {
        assert!(Query::of(11).expect("query").text(10.0).contains("* 0.000010000000"));
        assert!(Query::of(11).expect("query").text(0.01).contains("* 0.010000000000"));
    }
}
