//! Exchange: the tasks that read the inputs, and the readers of the outputs.
//!
//! An input is read while some reader waits for a batch: other readers may depend on that reader's
//! rows, and any input may have them. So the rows that other readers get meanwhile are bounded only
//! by the input, and go to pages when the grant of their output is used up.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::repartition::BatchPartitioner;
use futures::StreamExt;
use terrace_pool::Space;
use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;
use tokio::sync::Notify;

use super::queue::{Item, Queue};
use crate::block::Lease;
use crate::block::batch::{fitted, load, store};
use crate::memory::Grant;
use crate::panics::caught;
use crate::sort::piece::batch_bytes;
use crate::stream::give_way;

/// Number of batches of an input between two yields of its task.
const BATCHES_AT_ONCE: usize = 8;

/// One input, and the partitioner of its rows.
pub(super) struct Input {
    pub(super) stream: SendableRecordBatchStream,
    pub(super) partitioner: BatchPartitioner,
}

/// State shared by the readers. The tasks end when the last reader is dropped.
#[derive(Debug)]
pub(super) struct Exchange {
    flow: Arc<Flow>,
    tasks: Mutex<Tasks>,
}

enum Tasks {
    Waiting(Vec<Input>),
    /// They end when this is dropped.
    Running(Vec<SpawnedTask<()>>),
}

/// State shared by the tasks and the readers.
#[derive(Debug)]
struct Flow {
    schema: SchemaRef,
    space: Space,
    outputs: Vec<Output>,
    /// Notified when a reader has become hungry (its queue is empty), or has left.
    gate: Notify,
}

#[derive(Debug)]
struct Output {
    grant: Arc<dyn Grant>,
    queue: Mutex<Queue>,
}

/// The reader of one output.
#[derive(Debug)]
pub(super) struct Reader {
    exchange: Arc<Exchange>,
    output: usize,
}

impl Exchange {
    /// Creates an exchange of `inputs` among as many outputs as there are `grants`. Batches are
    /// coalesced to `batch_size` rows if that is given.
    pub(super) fn new(
        schema: SchemaRef,
        space: Space,
        inputs: Vec<Input>,
        grants: Vec<Arc<dyn Grant>>,
        batch_size: Option<usize>,
    ) -> Arc<Self> {
        let output = |grant| {
            let queue = Mutex::new(Queue::new(&schema, inputs.len(), batch_size));
            Output { grant, queue }
        };
        let outputs = grants.into_iter().map(output).collect();
        let flow = Arc::new(Flow { schema, space, outputs, gate: Notify::new() });
        Arc::new(Self { flow, tasks: Mutex::new(Tasks::Waiting(inputs)) })
    }

    /// Creates a reader for each output.
    pub(super) fn readers(self: &Arc<Self>) -> Vec<Reader> {
        let reader = |output| Reader { exchange: Arc::clone(self), output };
        (0..self.flow.outputs.len()).map(reader).collect()
    }

    /// Starts the tasks, on the first call.
    fn start(&self) {
        let mut tasks = lock(&self.tasks);
        let Tasks::Waiting(inputs) = &mut *tasks else { return };
        let inputs = std::mem::take(inputs).into_iter();
        let running = inputs.map(|input| {
            let flow = Arc::clone(&self.flow);
            SpawnedTask::spawn(async move {
                let mut ending = Ending { flow: &flow, ended: false };
                match caught("PagedRepartitionExec", flow.pull(input)).await {
                    Ok(()) => flow.outputs.iter().for_each(|output| output.queue().end_input()),
                    Err(error) => flow.fail(error),
                }
                ending.ended = true;
            })
        });
        *tasks = Tasks::Running(running.collect());
    }
}

/// Guard that fails the readers if a task ends early, as when its runtime shuts down.
struct Ending<'a> {
    flow: &'a Flow,
    ended: bool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let text = "an input of a repartitioning ended in the middle".to_owned();
            self.flow.fail(DataFusionError::Execution(text));
        }
    }
}

impl Output {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }
}

impl Flow {
    /// Distributes a whole input.
    async fn pull(&self, input: Input) -> Result<()> {
        let Input { mut stream, mut partitioner } = input;
        let mut batches = 0;
        while let Some(batch) = stream.next().await {
            let parts = partitioner.partition_iter(batch?)?.collect::<Result<Vec<_>>>()?;
            for (output, part) in parts {
                let ready = self.outputs[output].queue().gather(part)?;
                self.put(output, ready).await?;
            }
            batches += 1;
            if batches % BATCHES_AT_ONCE == 0 {
                give_way().await;
            }
        }
        drop(stream);
        for output in 0..self.outputs.len() {
            let rest = self.outputs[output].queue().remainder()?;
            self.put(output, rest).await?;
        }
        Ok(())
    }

    /// Puts batches into the queue of an output, and waits until some reader has nothing to read.
    async fn put(&self, output: usize, batches: Vec<RecordBatch>) -> Result<()> {
        for batch in batches {
            let batch = fitted(batch)?;
            let grant = &self.outputs[output].grant;
            let bytes = to_u64(batch_bytes(&batch));
            let item = match Lease::ask_heap(grant, bytes) {
                Some(lease) => Item::Held(lease, batch),
                None if batch.num_columns() == 0 => Item::Held(Lease::take(grant, 0), batch),
                None => Item::Stored(store(&self.space, grant, &batch)?),
            };
            self.outputs[output].queue().put(item);
            self.store_while(output, |grant| grant.excess_bytes() > 0)?;
            self.some_reader_is_hungry().await;
        }
        Ok(())
    }

    /// Stores queued batches of an output, the last first, for as long as `wanted` returns true.
    fn store_while(&self, output: usize, wanted: impl Fn(&dyn Grant) -> bool) -> Result<()> {
        let output = &self.outputs[output];
        while wanted(output.grant.as_ref()) {
            let held = output.queue().take_last_held();
            let Some((number, lease, batch)) = held else { break };
            let block = store(&self.space, &output.grant, &batch)?;
            drop((lease, batch));
            output.queue().put_back(number, block);
        }
        Ok(())
    }

    /// Spills all batches queued for an output.
    fn let_go(&self, output: usize) -> Result<()> {
        let gathered = self.outputs[output].queue().flush()?;
        for batch in gathered.into_iter().filter(|batch| batch.num_columns() > 0) {
            let block = store(&self.space, &self.outputs[output].grant, &batch)?;
            self.outputs[output].queue().put(Item::Stored(block));
        }
        self.store_while(output, |_| true)
    }

    async fn some_reader_is_hungry(&self) {
        loop {
            let mut notified = std::pin::pin!(self.gate.notified());
            notified.as_mut().enable();
            let hungry = self.outputs.iter().any(|output| output.queue().is_hungry());
            if hungry || !self.outputs.iter().any(|output| output.queue().is_read()) {
                return;
            }
            notified.await;
        }
    }

    fn fail(&self, error: DataFusionError) {
        let error = Arc::new(error);
        self.outputs.iter().for_each(|output| output.queue().fail(Arc::clone(&error)));
    }
}

impl Reader {
    /// Returns the next batch of the output, or none at the end.
    ///
    /// # Errors
    /// The error of an input, and if a batch cannot be read back.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.exchange.start();
        let flow = &self.exchange.flow;
        let output = &flow.outputs[self.output];
        if let Some(resumed) = output.grant.suspended() {
            flow.let_go(self.output)?;
            resumed.await;
        }
        let item = poll_fn(|cx| {
            let mut queue = output.queue();
            let polled = queue.poll_next(cx);
            let is_hungry = queue.is_hungry();
            drop(queue);
            if is_hungry {
                flow.gate.notify_waiters();
            }
            polled
        });
        let Some(item) = item.await? else { return Ok(None) };
        Ok(match item {
            Item::Held(_lease, batch) => Some(batch),
            Item::Stored(block) => Some(load(&flow.schema, &output.grant, &block).await?),
            Item::Moving => None,
        })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let flow = &self.exchange.flow;
        let items = flow.outputs[self.output].queue().leave();
        flow.gate.notify_waiters();
        drop(items);
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting(inputs) => write!(f, "{} waiting", inputs.len()),
            Self::Running(tasks) => write!(f, "{} running", tasks.len()),
        }
    }
}
