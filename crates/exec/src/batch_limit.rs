//! Cuts the input batches of an operator into pieces of bounded size.
//!
//! The session limits the rows of a batch, and nothing limits their bytes: 8,192 texts of a
//! megabyte are 8 GiB, which no operator can pin at once. The input of an operator is cut into
//! pieces here, without a copy; only a piece of one row may exceed the limit.

use datafusion::arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use crate::sort::piece::batch_bytes;

/// Maximum bytes of a piece of more than one row: a fraction of the smallest budgets, and more than
/// batches of rows of usual length have.
const PIECE_BYTES: usize = 4 << 20;

/// Returns the rows of `input` in batches of at most `PIECE_BYTES`, or of one row.
pub(crate) fn bounded(input: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = input.schema();
    let pieces = input.flat_map(|batch| {
        let pieces = match batch {
            Ok(batch) => cut(batch).into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(pieces)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, pieces))
}

/// Cuts a batch into pieces of at most `PIECE_BYTES`, or of one row, in the order of its rows.
pub(crate) fn cut(batch: RecordBatch) -> Vec<RecordBatch> {
    // Buffers that a batch shares with others are larger than its rows need, and cheap to add up.
    if batch.get_array_memory_size() <= PIECE_BYTES {
        return vec![batch];
    }
    let (mut pieces, mut open) = (Vec::new(), vec![batch]);
    while let Some(batch) = open.pop() {
        let rows = batch.num_rows();
        if rows <= 1 || batch_bytes(&batch) <= PIECE_BYTES {
            pieces.push(batch);
            continue;
        }
        let half = rows / 2;
        open.push(batch.slice(half, rows - half));
        open.push(batch.slice(0, half));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, StringViewArray};
    use datafusion::arrow::compute::concat_batches;

    use super::*;

    #[test]
    fn a_long_batch_comes_in_pieces_in_its_order() {
        let text = |row: usize| format!("{row} ").repeat(if row == 7 { 3 << 20 } else { 100_000 });
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..50).map(text)));
        let batch = RecordBatch::try_from_iter([("text", texts)]).expect("a column");
        let pieces = cut(batch.clone());
        assert!(pieces.len() > 3);
        let fits = |piece: &RecordBatch| batch_bytes(piece) <= PIECE_BYTES;
        assert!(pieces.iter().all(|piece| piece.num_rows() == 1 || fits(piece)));
        assert_eq!(concat_batches(&batch.schema(), &pieces).expect("as one"), batch);
        assert_eq!(cut(batch.slice(0, 2)).len(), 1, "of long buffers, but short itself");
    }
}
