//! Answers of queries as text.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// Rows of an answer, every value as its printed text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Rows in the order of the answer.
    pub rows: Vec<Vec<String>>,
}

/// Text of NULL in an answer. No text of the generators contains it.
pub const NULL: &str = "NULL";

impl Answer {
    /// Adds the rows of a batch.
    ///
    /// # Errors
    /// Fails if a value cannot be printed.
    pub fn extend(&mut self, batch: &RecordBatch) -> Result<()> {
        let options = FormatOptions::default().with_null(NULL);
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let values = columns.iter().map(|column| column.value(row).to_string());
            self.rows.push(values.collect());
        }
        Ok(())
    }

    /// Returns the answer without the blanks that pad values of fixed length.
    #[must_use]
    pub fn trimmed(&self) -> Answer {
        let row = |row: &Vec<String>| row.iter().map(|value| value.trim().to_string()).collect();
        Answer { rows: self.rows.iter().map(row).collect() }
    }

    /// Creates an answer from batches.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Date32Array, Decimal128Array, StringViewArray};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};

    use super::*;

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
        assert_eq!(answer.rows[0][0], "padded  ");
        assert_eq!(answer.trimmed().rows[0], ["padded", "-0.05", "1995-03-15"]);
        assert_eq!(answer.rows[1], ["x", "NULL", "1970-01-01"]);
    }
}
