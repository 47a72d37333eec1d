//! Timed runs of queries.

use std::time::Instant;

use datafusion::arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use terrace_sql::{Session, stock};

use crate::error::{BenchError, Result};
use crate::suite::answer::Answer;
use crate::suite::reference::Reference;
use crate::suite::run::start;

/// A successful run.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Time from the text of the statement to its last row.
    pub seconds: f64,
    batches: Vec<RecordBatch>,
}

impl Timed {
    /// Returns the number of rows of the result.
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Returns the result as text.
    ///
    /// # Errors
    /// Fails if a value cannot be printed.
    pub fn answer(&self) -> Result<Answer> {
        Answer::of(&self.batches)
    }

    /// Returns the result with the names of its columns, as a reference to compare others with.
    ///
    /// # Errors
    /// As [`Timed::answer`].
    pub fn reference(&self) -> Result<Reference> {
        let first = self.batches.first().map(RecordBatch::schema);
        let names = first.iter().flat_map(|schema| schema.fields().iter());
        let columns = names.map(|field| field.name().clone()).collect();
        Ok(Reference { columns, answer: self.answer()? })
    }
}

/// Runs a query in a session of Terrace.
///
/// # Errors
/// Errors of the engine.
pub async fn ours(session: &Session, text: &str) -> Result<Timed> {
    let began = Instant::now();
    let mut handle = start(session, text).await?;
    let batches = drain(&mut handle.stream).await?;
    Ok(Timed { seconds: began.elapsed().as_secs_f64(), batches })
}

/// Runs a query in a plain DataFusion session.
///
/// # Errors
/// [`BenchError::Peer`] with DataFusion's message.
pub async fn theirs(context: &SessionContext, text: &str) -> Result<Timed> {
    let began = Instant::now();
    let peer = |error| BenchError::Peer(format!("{error}"));
    let frame = stock::frame(context, text).await.map_err(peer)?;
    let mut stream = frame.execute_stream().await.map_err(peer)?;
    let batches = drain(&mut stream).await?;
    Ok(Timed { seconds: began.elapsed().as_secs_f64(), batches })
}

/// Reads a stream to its end.
async fn drain(stream: &mut SendableRecordBatchStream) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    while let Some(batch) = stream.next().await {
        batches.push(batch?);
    }
    Ok(batches)
}
