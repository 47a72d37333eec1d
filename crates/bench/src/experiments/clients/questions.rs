//! The queries of the clients.

use crate::error::Result;
use crate::peer::comparison::Question;
use crate::tpch::query::Query;

/// TPC-H queries with large joins and groupings.
const HEAVY_QUERIES: [u32; 3] = [18, 21, 9];

/// Names and texts of queries that sort all of `lineitem`, join it with itself, and aggregate its
/// comments into long strings.
const STRESS: [(&str, &str); 3] = [
    (
        "the sort of lineitem",
        "SELECT max(place), count(*) FROM (SELECT row_number() OVER \
     (ORDER BY l_extendedprice, l_comment) AS place FROM lineitem) AS sorted",
    ),
    (
        "the join of lineitem with itself",
        "SELECT count(*), max(l.l_comment), max(r.l_comment) FROM lineitem AS l JOIN lineitem AS r \
     ON l.l_orderkey = r.l_orderkey AND l.l_linenumber = r.l_linenumber",
    ),
    (
        "the comments of each part",
        "SELECT count(*), max(length(words)) FROM (SELECT l_partkey, \
     string_agg(l_comment, ',') AS words FROM lineitem GROUP BY l_partkey) AS parts",
    ),
];

/// TPC-H queries of a few milliseconds.
const SHORT_QUERIES: [u32; 5] = [6, 12, 14, 2, 11];

/// Returns the heavy queries in the order of client number `client`: each client begins with a
/// different one.
pub(super) fn heavy_questions(scale: f64, client: usize) -> Result<Vec<Question>> {
    let mut questions = Vec::new();
    for (number, (name, text)) in HEAVY_QUERIES.iter().zip(STRESS) {
        questions.extend([Question::of(Query::of(*number)?, scale), Question::named(name, text)]);
    }
    let by = client % questions.len();
    questions.rotate_left(by);
    Ok(questions)
}

/// Returns the short queries.
pub(crate) fn short_questions(scale: f64) -> Result<Vec<Question>> {
    let question = |number| Ok(Question::of(Query::of(number)?, scale));
    SHORT_QUERIES.into_iter().map(question).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_begin_with_different_queries() {
        let firsts: Vec<String> = (0..4)
            .map(|client| heavy_questions(1.0, client).expect("texts")[0].text.clone())
            .collect();
        for (index, first) in firsts.iter().enumerate() {
            assert!(!firsts[..index].contains(first), "{index}");
        }
        assert_eq!(heavy_questions(1.0, 0).expect("texts").len(), 6);
    }
}
