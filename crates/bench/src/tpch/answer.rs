//! Answers of queries as text, from record batches and from the official listing.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use serde::{Deserialize, Serialize};
use tpchgen::q_and_a::answers_sf1;

use crate::error::Result;

/// The rows of an answer, every value as the text it prints as.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Rows in the order they came.
    pub rows: Vec<Vec<String>>,
}

/// How NULL reads in an answer. No text that the generator writes contains it.
const NULL: &str = "NULL";

impl Answer {
    /// The official answer at scale 1, of a query from 1 to 22.
    ///
    /// Values are padded to columns in the listing; the padding is no part of them.
    pub fn official(number: u32) -> Option<Answer> {
        let text = answers_sf1::answer(i32::try_from(number).ok()?)?;
        let rows = text.lines().filter(|line| !line.trim().is_empty()).skip(1);
        Some(Answer { rows: rows.map(|line| line.split('|').map(trimmed).collect()).collect() })
    }

    /// Adds the rows of a batch.
    ///
    /// # Errors
    /// When a value cannot be printed.
    pub fn extend(&mut self, batch: &RecordBatch) -> Result<()> {
        let options = FormatOptions::default().with_null(NULL);
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let values = columns.iter().map(|column| trimmed(&column.value(row).to_string()));
            self.rows.push(values.collect());
        }
        Ok(())
    }

    /// The answer that batches hold.
    ///
    /// # Errors
    /// As [`Answer::extend`].
    pub fn of(batches: &[RecordBatch]) -> Result<Answer> {
        let mut answer = Answer::default();
        for batch in batches {
            answer.extend(batch)?;
        }
        Ok(answer)
    }
}

/// Without the blanks that pad a value of fixed length.
fn trimmed(value: &str) -> String {
    value.trim().to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Date32Array, Decimal128Array, StringViewArray};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};

    use super::*;
    use crate::tpch::query::QUERIES;

    #[test]
    fn official_answers_have_the_columns_of_their_queries() {
        for query in QUERIES {
            let answer = Answer::official(query.number).expect("answer");
            assert!(!answer.rows.is_empty(), "query {}", query.number);
            for row in &answer.rows {
                assert_eq!(row.len(), query.columns().len(), "query {}: {row:?}", query.number);
            }
            if let Some(limit) = query.limit {
                assert!(answer.rows.len() <= limit, "query {}", query.number);
            }
        }
        assert_eq!(Answer::official(16).expect("answer").rows.len(), 18_314);
        assert_eq!(Answer::official(23), None);
    }

    #[test]
    fn values_print_as_the_listing_has_them() {
        let schema = Arc::new(Schema::new(vec![
            Field::new("text", DataType::Utf8View, false),
            Field::new("sum", DataType::Decimal128(15, 2), true),
            Field::new("day", DataType::Date32, false),
        ]));
        let sums = Decimal128Array::from(vec![Some(-5), None])
            .with_precision_and_scale(15, 2)
            .expect("scale");
        let batch = RecordBatch::try_new(
            schema,
            vec![
                Arc::new(StringViewArray::from(vec!["padded  ", "x"])),
                Arc::new(sums),
                Arc::new(Date32Array::from(vec![9_204, 0])),
            ],
        )
        .expect("batch");
        let answer = Answer::of(&[batch]).expect("answer");
        assert_eq!(answer.rows[0], ["padded", "-0.05", "1995-03-15"]);
        assert_eq!(answer.rows[1], ["x", "NULL", "1970-01-01"]);
    }
}
