//! Official answers at scale 1.

use tpchgen::q_and_a::answers_sf1;

use crate::suite::answer::Answer;

/// Scale whose answers the specification lists.
pub const OFFICIAL_SCALE: f64 = 1.0;

/// Returns the official answer at [`OFFICIAL_SCALE`] of a query from 1 to 22.
///
/// Values are padded to columns in the listing; the padding is removed.
pub fn official_answer(number: u32) -> Option<Answer> {
    let text = answers_sf1::answer(i32::try_from(number).ok()?)?;
    let rows = text.lines().filter(|line| !line.trim().is_empty()).skip(1);
    let rows = rows.map(|line| line.split('|').map(String::from).collect());
    Some(Answer { rows: rows.collect() }.trimmed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpch::query::QUERIES;

    #[test]
    fn official_answers_have_the_columns_of_their_queries() {
        for query in QUERIES {
            let answer = official_answer(query.number).expect("answer");
            assert!(!answer.rows.is_empty(), "query {}", query.number);
            for row in &answer.rows {
                assert_eq!(row.len(), query.columns().len(), "query {}: {row:?}", query.number);
            }
            if let Some(limit) = query.limit {
                assert!(answer.rows.len() <= limit, "query {}", query.number);
            }
        }
        assert_eq!(official_answer(16).expect("answer").rows.len(), 18_314);
        assert_eq!(official_answer(23), None);
    }
}
