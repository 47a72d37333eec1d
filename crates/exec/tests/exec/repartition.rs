//! The paged repartitioning against DataFusion's.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, exec_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::{Column, col};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::future::join_all;
use futures::{StreamExt, stream};
use terrace_exec::PagedRepartitionExec;
use terrace_testkit::{Rng, soak_rounds, with_seed};

use crate::common::{array, comes_to_be_empty, memory};
use crate::hash_join::{block_on, context, rows};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Returns a table of `inputs` partitions and `rows` rows, in batches of at most 60.
fn source(rng: &mut Rng, types: &[DataType], inputs: usize, rows: usize) -> Arc<dyn ExecutionPlan> {
    let fields = types.iter().enumerate();
    let fields = fields.map(|(n, it)| Field::new(format!("c{n}"), it.clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let nulls = rng.below(6);
    let mut split = vec![Vec::new(); inputs];
    for n in 0..rows.div_ceil(60) {
        let len = (rows - n * 60).min(60);
        let columns = schema.fields().iter().map(|it| array(rng, it.data_type(), len, nulls, 90));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap();
        split[n % inputs].push(batch);
    }
    MemorySourceConfig::try_new_exec(&split, schema, None).unwrap()
}

fn repartition(input: Arc<dyn ExecutionPlan>, by: Partitioning) -> Arc<RepartitionExec> {
    Arc::new(RepartitionExec::try_new(input, by).unwrap())
}

fn paged(stock: &Arc<RepartitionExec>) -> Arc<dyn ExecutionPlan> {
    Arc::new(PagedRepartitionExec::new(Arc::clone(stock)).unwrap())
}

async fn drain(mut stream: SendableRecordBatchStream) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    while let Some(batch) = stream.next().await {
        batches.push(batch.unwrap());
    }
    batches
}

/// Returns the batches of each output, read all at once or one after the other.
async fn outputs(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    at_once: bool,
) -> Vec<Vec<RecordBatch>> {
    let plan = reset_plan_states(Arc::clone(plan)).unwrap();
    let outputs = plan.properties().partitioning.partition_count();
    let open = |output| plan.execute(output, Arc::clone(context)).unwrap();
    let streams: Vec<_> = (0..outputs).map(open).collect();
    if at_once {
        return join_all(streams.into_iter().map(drain)).await;
    }
    let mut found = Vec::new();
    for stream in streams {
        found.push(drain(stream).await);
    }
    found
}

fn random(rng: &mut Rng) -> (String, Arc<RepartitionExec>) {
    let all = crate::common::types();
    let mut types: Vec<_> = (0..rng.index(4)).map(|_| all[rng.index(all.len())].clone()).collect();
    types.insert(0, DataType::Int64);
    let inputs = 1 + rng.index(3);
    let count = if rng.one_in(8) { 0 } else { rng.index(700) };
    let outputs = 1 + rng.index(4);
    let input = source(rng, &types, inputs, count);
    let by = match rng.one_in(4) {
        true => Partitioning::RoundRobinBatch(outputs),
        false => Partitioning::Hash(vec![Arc::new(Column::new("c0", 0))], outputs),
    };
    let title = format!("{count} rows of {types:?} from {inputs} by {by}");
    (title, repartition(input, by))
}

#[test]
fn every_output_gets_what_it_gets_of_datafusion() {
    with_seed(|seed| {
        let mut rng = Rng::new(seed);
        let (space, memory) = memory(4 * MIB, 0);
        block_on(async {
            for _ in 0..soak_rounds(1000) {
                memory.set_limit([0, 20 * KIB, MIB][rng.index(3)]);
                let (title, stock) = random(&mut rng);
                let context = context(&memory, [7, 100, 8192][rng.index(3)]);
                let at_once = rng.one_in(2);
                let plan: Arc<dyn ExecutionPlan> = Arc::clone(&stock) as _;
                let expected = outputs(&plan, &context, true).await;
                let found = outputs(&paged(&stock), &context, at_once).await;
                let in_order = stock.input().properties().partitioning.partition_count() == 1;
                for (found, expected) in found.iter().zip(&expected) {
                    assert_eq!(rows(found), rows(expected), "{title}");
                    if in_order {
                        assert_eq!(in_a_row(found), in_a_row(expected), "{title}");
                    }
                }
                assert_eq!(memory.held_bytes(), 0, "{title}");
            }
        });
        comes_to_be_empty(space.pool_handle());
    });
}

/// Returns the first column of all batches in their order.
fn in_a_row(batches: &[RecordBatch]) -> Vec<String> {
    let first = batches.iter().flat_map(|batch| {
        let column = Arc::clone(batch.column(0));
        (0..column.len()).map(move |row| format!("{:?}", column.slice(row, 1)))
    });
    first.collect()
}

/// Returns a repartitioning of more rows than the tests have memory for.
fn large(rng: &mut Rng, rows: usize) -> Arc<RepartitionExec> {
    let input = source(rng, &[DataType::Int64, DataType::Utf8View, DataType::Int64], 2, rows);
    let key = col("c0", &input.schema()).unwrap();
    repartition(input, Partitioning::Hash(vec![key], 2))
}

#[test]
fn what_a_reader_leaves_waiting_goes_to_pages() {
    let (space, memory) = memory(2 * MIB, 200 * KIB);
    block_on(async {
        let stock = large(&mut Rng::new(3), 100_000);
        let context = context(&memory, 8192);
        let plan: Arc<dyn ExecutionPlan> = Arc::clone(&stock) as _;
        let expected = outputs(&plan, &context, true).await;
        let found = outputs(&paged(&stock), &context, false).await;
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(rows(found), rows(expected));
        }
        assert!(memory.spilled_bytes() > 2 * MIB, "{} bytes", memory.spilled_bytes());
        // A batch being stored or read back adds to the grant.
        assert!(memory.peak_bytes() < 2 * MIB, "{} bytes", memory.peak_bytes());
        assert_eq!(memory.held_bytes(), 0);
    });
    comes_to_be_empty(space.pool_handle());
}

#[test]
fn memory_is_given_back_when_it_is_wanted_and_while_suspended() {
    let (space, memory) = memory(8 * MIB, 6 * MIB);
    block_on(async {
        let stock = large(&mut Rng::new(4), 60_000);
        let context = context(&memory, 1000);
        let plan: Arc<dyn ExecutionPlan> = Arc::clone(&stock) as _;
        let expected = outputs(&plan, &context, true).await;
        let plan = reset_plan_states(paged(&stock)).unwrap();
        let mut streams: Vec<_> =
            (0..2).map(|n| plan.execute(n, Arc::clone(&context)).unwrap()).collect();
        let mut found = [Vec::new(), Vec::new()];
        for _ in 0..5 {
            found[0].push(streams[0].next().await.unwrap().unwrap());
        }
        memory.set_limit(0);
        memory.suspend();
        {
            let resumed = memory.clone();
            let other = tokio::spawn(async move {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                let held = resumed.held_bytes();
                resumed.resume();
                held
            });
            found[0].push(streams[0].next().await.unwrap().unwrap());
            let held = other.await.unwrap();
            assert!(held < MIB, "{held} bytes held while suspended");
        }
        for (found, mut stream) in found.iter_mut().zip(streams) {
            while let Some(batch) = stream.next().await {
                found.push(batch.unwrap());
            }
        }
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(rows(found), rows(expected));
        }
        assert_eq!(memory.held_bytes(), 0);
    });
    comes_to_be_empty(space.pool_handle());
}

#[test]
fn readers_that_leave_give_everything_back() {
    let (space, memory) = memory(2 * MIB, 100 * KIB);
    block_on(async {
        for polls in 0..4 {
            let plan = paged(&large(&mut Rng::new(5), 20_000));
            let context = context(&memory, 1000);
            let mut stays = plan.execute(0, Arc::clone(&context)).unwrap();
            let mut leaves = plan.execute(1, context).unwrap();
            for _ in 0..polls {
                leaves.next().await.unwrap().unwrap();
            }
            drop(leaves);
            // A reader that is alone is not held up by one that has left.
            stays.next().await.unwrap().unwrap();
            drop(stays);
            let end = std::time::Instant::now() + std::time::Duration::from_secs(5);
            while memory.held_bytes() > 0 && std::time::Instant::now() < end {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            assert_eq!(memory.held_bytes(), 0);
        }
    });
    comes_to_be_empty(space.pool_handle());
}

/// A partition that ends in an error, or a panic, after some batches.
#[derive(Debug)]
struct Broken {
    batch: RecordBatch,
    panics: bool,
}

impl PartitionStream for Broken {
    fn schema(&self) -> &SchemaRef {
        self.batch.schema_ref()
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (batch, panics) = (self.batch.clone(), self.panics);
        let batches = (0..5).map(move |n| -> Result<RecordBatch> {
            match n {
                4 if panics => panic!("broken on purpose"),
                4 => exec_err!("broken on purpose"),
                _ => Ok(batch.clone()),
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(self.batch.schema(), stream::iter(batches)))
    }
}

#[test]
fn an_input_that_fails_fails_every_output() {
    let (space, memory) = memory(2 * MIB, 100 * KIB);
    block_on(async {
        for panics in [false, true] {
            let mut rng = Rng::new(6);
            let column = array(&mut rng, &DataType::Int64, 60, 0, 90);
            let batch = RecordBatch::try_from_iter([("c0", column)]).unwrap();
            let schema = batch.schema();
            let parts = vec![Arc::new(Broken { batch, panics }) as Arc<dyn PartitionStream>];
            let input = StreamingTableExec::try_new(schema, parts, None, [], false, None).unwrap();
            let by = Partitioning::Hash(vec![Arc::new(Column::new("c0", 0))], 3);
            let plan = paged(&repartition(Arc::new(input), by));
            let context = context(&memory, 30);
            let streams = (0..3).map(|n| plan.execute(n, Arc::clone(&context)).unwrap());
            let last = streams.map(|stream| async { stream.collect::<Vec<_>>().await.pop() });
            for last in join_all(last).await {
                let error = last.unwrap().unwrap_err().to_string();
                assert!(error.contains("broken on purpose"), "{error}");
                assert_eq!(error.contains("panic in PagedRepartitionExec"), panics, "{error}");
            }
            assert_eq!(memory.held_bytes(), 0);
        }
    });
    comes_to_be_empty(space.pool_handle());
}
