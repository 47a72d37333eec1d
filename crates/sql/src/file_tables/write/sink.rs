//! Sink of rows that are encoded as text.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::datasource::file_format::write::ObjectWriterBuilder;
use datafusion::datasource::file_format::write::demux::DemuxedStreamReceiver;
use datafusion::datasource::physical_plan::{FileSink, FileSinkConfig};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use object_store::ObjectStore;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use super::encoder::TextOptions;
use super::interface::Encoder;

/// Number of rows that are encoded before they are written.
const PIECE_ROWS: usize = 1024;

/// Sink of rows that are encoded as text.
pub(super) struct TextSink {
    config: FileSinkConfig,
    options: TextOptions,
}

impl TextSink {
    pub(super) fn new(config: FileSinkConfig, options: TextOptions) -> Self {
        Self { config, options }
    }

    /// The columns that are written into a file: all but those of PARTITION BY, whose values are in
    /// the names of directories.
    fn file_schema(&self) -> SchemaRef {
        let FileSinkConfig { output_schema, table_partition_cols, .. } = &self.config;
        if self.config.keep_partition_by_columns {
            return Arc::clone(output_schema);
        }
        let is_key = |name: &str| table_partition_cols.iter().any(|(key, _)| key == name);
        let fields = output_schema.fields().iter().filter(|field| !is_key(field.name()));
        Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()))
    }
}

/// Writes the rows of a file. Returns their number.
async fn write_file(
    mut encoder: Box<dyn Encoder>,
    mut writer: Box<dyn AsyncWrite + Send + Unpin>,
    schema: SchemaRef,
    mut batches: Receiver<RecordBatch>,
) -> Result<usize> {
    let (mut out, mut rows) = (vec![], 0);
    encoder.begin(&schema, &mut out);
    while let Some(batch) = batches.recv().await {
        let mut first = 0;
        while first < batch.num_rows() {
            let piece = batch.slice(first, PIECE_ROWS.min(batch.num_rows() - first));
            encoder.rows(&piece, &mut out)?;
            writer.write_all(&out).await.map_err(DataFusionError::from)?;
            out.clear();
            first += piece.num_rows();
        }
        rows += batch.num_rows();
    }
    encoder.end(&mut out);
    writer.write_all(&out).await.map_err(DataFusionError::from)?;
    writer.shutdown().await.map_err(DataFusionError::from)?;
    Ok(rows)
}

#[async_trait]
impl FileSink for TextSink {
    fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        _context: &Arc<TaskContext>,
        demux_task: SpawnedTask<Result<()>>,
        mut files: DemuxedStreamReceiver,
        object_store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        let (mut writing, schema) = (JoinSet::new(), self.file_schema());
        while let Some((location, batches)) = files.recv().await {
            let store = Arc::clone(&object_store);
            let writer = ObjectWriterBuilder::new(self.options.compression, &location, store)
                .with_compression_level(self.options.compression_level)
                .build()?;
            let encoder = self.options.encoder();
            writing.spawn(write_file(encoder, writer, Arc::clone(&schema), batches));
        }
        let failed = |error| exec_datafusion_err!("writing a file has ended: {error}");
        let mut rows = 0_u64;
        while let Some(written) = writing.join_next().await {
            rows += u64::try_from(written.map_err(failed)??).unwrap_or(u64::MAX);
        }
        demux_task.join_unwind().await.map_err(failed)??;
        Ok(rows)
    }
}

#[async_trait]
impl DataSink for TextSink {
    fn schema(&self) -> &SchemaRef {
        &self.config.output_schema
    }

    async fn write_all(
        &self,
        data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        FileSink::write_all(self, data, context).await
    }
}

impl fmt::Debug for TextSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TextSink({})", self.options)
    }
}

impl DisplayAs for TextSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TextSink(format={})", self.options)
    }
}
