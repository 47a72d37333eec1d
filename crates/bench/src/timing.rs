//! Running a query for its time alone.

use std::time::Instant;

use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use terrace_sql::Session;

use crate::error::{BenchError, Result};
use crate::suite::run::start;

/// A run that ended well.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    /// From the statement's text to its last row.
    pub seconds: f64,
    /// Rows of the result.
    pub rows: usize,
}

/// Runs a query in a session of ours.
///
/// # Errors
/// What the engine says.
pub async fn ours(session: &Session, text: &str) -> Result<Timed> {
    let began = Instant::now();
    let mut handle = start(session, text).await?;
    let rows = drain(&mut handle.stream).await?;
    Ok(Timed { seconds: began.elapsed().as_secs_f64(), rows })
}

/// Runs a query in a plain DataFusion session.
///
/// # Errors
/// [`BenchError::Peer`] with what DataFusion says.
pub async fn theirs(context: &SessionContext, text: &str) -> Result<Timed> {
    let began = Instant::now();
    let peer = |error| BenchError::Peer(format!("{error}"));
    let frame = context.sql(text).await.map_err(peer)?;
    let mut stream = frame.execute_stream().await.map_err(peer)?;
    let rows = drain(&mut stream).await?;
    Ok(Timed { seconds: began.elapsed().as_secs_f64(), rows })
}

/// Reads a stream to its end and drops what comes.
async fn drain(stream: &mut SendableRecordBatchStream) -> Result<usize> {
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        rows += batch?.num_rows();
    }
    Ok(rows)
}
