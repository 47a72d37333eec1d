//! COPY between a session and a file or pipe of the program that owns the session, in the formats
//! that the server offers to its clients.

use bytes::BytesMut;
use datafusion::arrow::array::timezone::Tz;
use futures::StreamExt as _;
use terrace_sql::Session;
use terrace_sql::session::{CopyIn, CopyStatement};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::failure::Failure;
use crate::pg_catalog::ColumnNames;
use crate::postgres::{RowDecoder, RowEncoder, count_of, zone};

/// Number of bytes read or written at a time.
const PIECE_BYTES: usize = 1 << 16;

/// The error of a failed COPY; no row of it is kept.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CopyError(String);

impl From<Failure> for CopyError {
    fn from(failure: Failure) -> Self {
        Self(failure.text().to_owned())
    }
}

/// Inserts the rows of `input`, in the format of `copy`. Returns their number.
///
/// # Errors
/// Rows that are malformed or do not fit the table, errors of the input and of the insertion.
/// Nothing is inserted then.
pub async fn copy_from(
    session: &Session,
    copy: &CopyStatement,
    input: &mut (impl AsyncRead + Unpin),
) -> Result<u64, CopyError> {
    Ok(insert_rows(session, copy, input).await?)
}

/// Writes the rows of `copy` in its format. Returns their number.
///
/// # Errors
/// Errors of the query and of the output.
pub async fn copy_to(
    session: &Session,
    copy: &CopyStatement,
    output: &mut (impl AsyncWrite + Unpin),
) -> Result<u64, CopyError> {
    Ok(write_rows(session, copy, output).await?)
}

async fn insert_rows(
    session: &Session,
    copy: &CopyStatement,
    input: &mut (impl AsyncRead + Unpin),
) -> Result<u64, Failure> {
    let CopyIn { schema, rows, handle } = session.copy_in(copy).await?;
    let mut decoder = RowDecoder::new(copy.format.clone(), schema);
    let read = async {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let bytes = input.read(&mut piece).await?;
            decoder.push(&piece[..bytes]);
            while let Some(batch) = decoder.next()? {
                if !rows.send(Some(batch)).await {
                    // The insertion has ended; its own result has the reason.
                    return Ok(());
                }
            }
            if bytes == 0 {
                break;
            }
        }
        if let Some(batch) = decoder.finish()? {
            let _goes_on = rows.send(Some(batch)).await;
        }
        // False if the insertion has ended; its own result has the reason.
        let _goes_on = rows.send(None).await;
        Ok::<_, Failure>(())
    };
    // A failed reader ends both: the insertion is dropped and leaves nothing.
    let inserted = async { handle.collect().await.map_err(Failure::from) };
    let ((), output) = tokio::try_join!(read, inserted)?;
    Ok(count_of(&output.batches))
}

async fn write_rows(
    session: &Session,
    copy: &CopyStatement,
    output: &mut (impl AsyncWrite + Unpin),
) -> Result<u64, Failure> {
    let zone: Tz = zone(session)?;
    let mut handle = session.copy_out(copy).await?;
    let encoder = RowEncoder::new(&copy.format);
    let (mut bytes, mut rows) = (BytesMut::new(), 0);
    encoder.begin(&ColumnNames::of_copy(copy).give(&handle.schema), &mut bytes);
    while let Some(batch) = handle.stream.next().await {
        let batch = batch?;
        let columns = encoder.columns(&batch, zone)?;
        for row in 0..batch.num_rows() {
            encoder.row(&columns, row, &mut bytes);
            rows += 1;
            if bytes.len() >= PIECE_BYTES {
                output.write_all_buf(&mut bytes).await?;
            }
        }
    }
    encoder.end(&mut bytes);
    output.write_all_buf(&mut bytes).await?;
    output.flush().await?;
    Ok(rows)
}
