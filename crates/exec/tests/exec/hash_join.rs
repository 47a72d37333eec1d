//! The paged hash join against DataFusion's.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, col};
use datafusion::physical_expr::{Partitioning, PhysicalExprRef};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use terrace_exec::{FixedMemory, PagedHashJoinExec, QueryExtension};
use terrace_testkit::{Rng, soak_rounds, with_seed};

use crate::common::{array, comes_to_be_empty, memory};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

pub(crate) const JOIN_TYPES: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::RightSemi,
    JoinType::LeftAnti,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];

/// A random join.
struct Case {
    rng: Rng,
    key_types: Vec<DataType>,
    join_type: JoinType,
    mode: PartitionMode,
    null_equality: NullEquality,
    filter: bool,
    partitions: usize,
    rows: (usize, usize),
    distinct: u64,
    batch: usize,
}

impl Case {
    fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut key_types = crate::common::types();
        key_types.retain(|it| *it != DataType::Null && !it.is_nested());
        let keys = 1 + rng.index(2);
        let key_types = (0..keys).map(|_| key_types[rng.index(key_types.len())].clone()).collect();
        let modes = [PartitionMode::Partitioned, PartitionMode::CollectLeft];
        let equalities = [NullEquality::NullEqualsNothing, NullEquality::NullEqualsNull];
        let rows = |rng: &mut Rng| if rng.one_in(8) { 0 } else { rng.index(300) };
        Self {
            key_types,
            join_type: JOIN_TYPES[rng.index(JOIN_TYPES.len())],
            mode: modes[rng.index(2)],
            null_equality: equalities[rng.index(2)],
            filter: rng.one_in(3),
            partitions: 1 + rng.index(3),
            rows: (rows(&mut rng), rows(&mut rng)),
            distinct: 1 + rng.below(200),
            batch: [16, 100, 8192][rng.index(3)],
            rng,
        }
    }

    fn schema(&self, prefix: &str) -> SchemaRef {
        let mut fields: Vec<_> = self
            .key_types
            .iter()
            .enumerate()
            .map(|(n, it)| Field::new(format!("{prefix}k{n}"), it.clone(), true))
            .collect();
        fields.push(Field::new(format!("{prefix}v"), DataType::Int64, true));
        fields.push(Field::new(format!("{prefix}s"), DataType::Utf8View, true));
        Arc::new(Schema::new(fields))
    }

    fn source(&mut self, prefix: &str, rows: usize, single: bool) -> Arc<dyn ExecutionPlan> {
        let schema = self.schema(prefix);
        let nulls = self.rng.below(6);
        let batches: Vec<RecordBatch> = (0..rows.div_ceil(50))
            .map(|n| {
                let len = (rows - n * 50).min(50);
                let columns = schema
                    .fields()
                    .iter()
                    .map(|it| array(&mut self.rng, it.data_type(), len, nulls, self.distinct));
                RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap()
            })
            .collect();
        let parts = if single { 1 } else { self.partitions };
        let mut split = vec![Vec::new(); parts];
        for (n, batch) in batches.into_iter().enumerate() {
            split[n % parts].push(batch);
        }
        MemorySourceConfig::try_new_exec(&split, schema, None).unwrap()
    }

    fn join(mut self) -> Arc<HashJoinExec> {
        let single = self.mode == PartitionMode::CollectLeft;
        let (left_rows, right_rows) = self.rows;
        let mut left = self.source("l", left_rows, single);
        let mut right = self.source("r", right_rows, false);
        let keys = |prefix: &str, plan: &Arc<dyn ExecutionPlan>| -> Vec<PhysicalExprRef> {
            (0..self.key_types.len())
                .map(|n| col(&format!("{prefix}k{n}"), &plan.schema()).unwrap())
                .collect()
        };
        let (left_keys, right_keys) = (keys("l", &left), keys("r", &right));
        if !single {
            let hash = |plan, keys: &[PhysicalExprRef]| {
                let by = Partitioning::Hash(keys.to_vec(), self.partitions);
                Arc::new(RepartitionExec::try_new(plan, by).unwrap())
            };
            left = hash(left, &left_keys);
            right = hash(right, &right_keys);
        }
        let on = left_keys.into_iter().zip(right_keys).collect();
        let filter = self.filter.then(|| smaller(self.key_types.len()));
        let join = HashJoinExec::try_new(
            left,
            right,
            on,
            filter,
            &self.join_type,
            None,
            self.mode,
            self.null_equality,
            false,
        );
        Arc::new(join.unwrap())
    }
}

/// Returns the filter `lv < rv`; both come after `keys` keys.
pub(crate) fn smaller(keys: usize) -> JoinFilter {
    let field = |name: &str| Field::new(name, DataType::Int64, true);
    let schema = Arc::new(Schema::new(vec![field("lv"), field("rv")]));
    let column = |name: &str, n| -> PhysicalExprRef { Arc::new(Column::new(name, n)) };
    let expr = BinaryExpr::new(column("lv", 0), Operator::Lt, column("rv", 1));
    let indices =
        [JoinSide::Left, JoinSide::Right].map(|side| ColumnIndex { index: keys, side }).to_vec();
    JoinFilter::new(Arc::new(expr), indices, schema)
}

pub(crate) fn context(memory: &FixedMemory, batch: usize) -> Arc<TaskContext> {
    let memory = Arc::new(QueryExtension(Arc::new(memory.clone())));
    let config = SessionConfig::new().with_batch_size(batch).with_extension(memory);
    Arc::new(TaskContext::default().with_session_config(config))
}

/// Returns the rows as text, sorted.
pub(crate) fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        let options = FormatOptions::default().with_null("null");
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        rows.extend(
            (0..batch.num_rows()).map(|row| {
                columns.iter().map(|it| format!("{}|", it.value(row))).collect::<String>()
            }),
        );
    }
    rows.sort();
    rows
}

fn paged(join: &Arc<HashJoinExec>) -> Arc<dyn ExecutionPlan> {
    Arc::new(PagedHashJoinExec::new(Arc::clone(join)).unwrap())
}

pub(crate) async fn run(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
) -> Result<Vec<String>> {
    Ok(rows(&collect(reset_plan_states(plan)?, context).await?))
}

/// Joins with little memory and compares; returns the bytes unpinned.
async fn compare(case: Case, limit: u64, space: &terrace_pool::Space) -> u64 {
    let memory = FixedMemory::new(space.clone(), limit);
    let batch = case.batch;
    let title = format!(
        "{} {:?} {:?} filter {} of {:?} keys {:?} limit {limit}",
        case.join_type, case.mode, case.null_equality, case.filter, case.rows, case.key_types
    );
    let join = case.join();
    let context = context(&memory, batch);
    let expected = run(join.clone(), Arc::clone(&context)).await.unwrap();
    let plan = paged(&join);
    let found = run(Arc::clone(&plan), context).await.unwrap();
    assert_eq!(found.len(), expected.len(), "{title}");
    assert_eq!(found, expected, "{title}");
    assert_eq!(memory.held_bytes(), 0, "{title}");
    drop(plan);
    memory.spilled_bytes()
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn random_joins_are_those_of_datafusion() {
    with_seed(|seed| {
        let mut rng = Rng::new(seed);
        let (space, _) = memory(4 * MIB, 0);
        block_on(async {
            for _ in 0..soak_rounds(10_000) {
                let limit = [0, 40 * KIB, 300 * KIB, MIB][rng.index(4)];
                compare(Case::random(rng.next_u64()), limit, &space).await;
            }
        });
        comes_to_be_empty(space.pool_handle());
    });
}

fn large(join_type: JoinType, mode: PartitionMode, distinct: u64) -> Case {
    Case {
        rng: Rng::new(7),
        key_types: vec![DataType::Int64],
        join_type,
        mode,
        null_equality: NullEquality::NullEqualsNothing,
        filter: false,
        partitions: 2,
        rows: (20_000, 4_000),
        distinct,
        batch: 1000,
    }
}

#[test]
fn larger_joins_leave_memory_and_are_right() {
    let (space, _) = memory(8 * MIB, 0);
    block_on(async {
        for mode in [PartitionMode::Partitioned, PartitionMode::CollectLeft] {
            for join_type in JOIN_TYPES {
                for limit in [100 * KIB, MIB] {
                    let spilled = compare(large(join_type, mode, 15_000), limit, &space).await;
                    assert!(spilled > 0 || limit == MIB, "{join_type} {mode:?} {limit}");
                }
            }
        }
    });
    comes_to_be_empty(space.pool_handle());
}

#[test]
fn one_giant_key_is_joined_in_blocks() {
    let (space, _) = memory(8 * MIB, 0);
    block_on(async {
        for join_type in JOIN_TYPES {
            let mut case = large(join_type, PartitionMode::Partitioned, 1);
            case.rows = (6000, 50);
            case.filter = true;
            assert!(compare(case, 60 * KIB, &space).await > 0, "{join_type}");
        }
    });
    comes_to_be_empty(space.pool_handle());
}

#[test]
fn memory_taken_back_while_probing_changes_nothing() {
    let (space, memory) = memory(32 * MIB, 16 * MIB);
    block_on(async {
        for mode in [PartitionMode::Partitioned, PartitionMode::CollectLeft] {
            for join_type in JOIN_TYPES {
                memory.set_limit(16 * MIB);
                let join = large(join_type, mode, 15_000).join();
                let context = context(&memory, 500);
                let expected = run(join.clone(), Arc::clone(&context)).await.unwrap();
                let plan = reset_plan_states(paged(&join)).unwrap();
                let mut found = Vec::new();
                let mut streams: Vec<_> =
                    (0..2).map(|n| plan.execute(n, Arc::clone(&context)).unwrap()).collect();
                let mut polls = 0;
                while !streams.is_empty() {
                    let at = polls % streams.len();
                    polls += 1;
                    if polls == 3 {
                        memory.set_limit(200 * KIB);
                        memory.suspend();
                        let memory = memory.clone();
                        tokio::spawn(async move {
                            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                            memory.resume();
                        });
                    }
                    match streams[at].next().await {
                        Some(batch) => found.push(batch.unwrap()),
                        None => drop(streams.remove(at)),
                    }
                }
                assert_eq!(rows(&found), expected, "{join_type} {mode:?}");
                assert_eq!(memory.held_bytes(), 0, "{join_type} {mode:?}");
            }
        }
    });
    comes_to_be_empty(space.pool_handle());
}

/// Other consumers may wait for long, for example for a turn on the join's own thread.
#[test]
fn a_join_ends_while_others_wait_for_memory() {
    let (ended, ends) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (space, memory) = memory(32 * MIB, 16 * MIB);
        memory.set_wanted(32 * MIB);
        for mode in [PartitionMode::Partitioned, PartitionMode::CollectLeft] {
            for join_type in JOIN_TYPES {
                let join = large(join_type, mode, 15_000).join();
                let context = context(&memory, 500);
                let expected = block_on(run(join.clone(), Arc::clone(&context))).unwrap();
                assert_eq!(block_on(run(paged(&join), context)).unwrap(), expected);
            }
        }
        drop(memory);
        comes_to_be_empty(space.pool_handle());
        ended.send(()).unwrap();
    });
    ends.recv_timeout(std::time::Duration::from_secs(120)).expect("an end");
}

#[test]
fn a_dropped_join_gives_everything_back() {
    let (space, memory) = memory(8 * MIB, 300 * KIB);
    block_on(async {
        for mode in [PartitionMode::Partitioned, PartitionMode::CollectLeft] {
            for polls in 0..6 {
                let join = large(JoinType::Full, mode, 15_000).join();
                let plan = paged(&join);
                let context = context(&memory, 500);
                let mut streams: Vec<_> =
                    (0..2).map(|n| plan.execute(n, Arc::clone(&context)).unwrap()).collect();
                let both = futures::future::join_all(streams.iter_mut().map(|it| it.next()));
                let _ =
                    tokio::time::timeout(std::time::Duration::from_millis(polls * 8), both).await;
                drop(streams);
                drop(plan);
                assert_eq!(memory.held_bytes(), 0);
            }
        }
    });
    comes_to_be_empty(space.pool_handle());
}

#[test]
fn a_session_without_memory_is_told_so() {
    let join = large(JoinType::Inner, PartitionMode::CollectLeft, 10).join();
    let refused = paged(&join).execute(0, Arc::new(TaskContext::default())).err().unwrap();
    assert!(refused.to_string().contains("QueryExtension"), "{refused}");
}

#[test]
fn probe_order_is_kept_in_memory() {
    let (_space, memory) = memory(32 * MIB, 16 * MIB);
    let join = large(JoinType::Right, PartitionMode::CollectLeft, 15_000).join();
    block_on(async {
        let context = context(&memory, 500);
        let mut stock = join.execute(0, Arc::clone(&context)).unwrap();
        let mut own = paged(&join).execute(0, context).unwrap();
        let column = |batches: Vec<RecordBatch>| -> Vec<Option<i64>> {
            let values = |batch: &RecordBatch| -> Vec<Option<i64>> {
                let array: ArrayRef = Arc::clone(batch.column_by_name("rv").unwrap());
                array.as_ref().as_any().downcast_ref::<Int64Array>().unwrap().iter().collect()
            };
            batches.iter().flat_map(values).collect()
        };
        let all = async |stream: &mut datafusion::execution::SendableRecordBatchStream| {
            let mut batches = Vec::new();
            while let Some(batch) = stream.next().await {
                batches.push(batch.unwrap());
            }
            batches
        };
        let (own, stock) = (column(all(&mut own).await), column(all(&mut stock).await));
        // DataFusion puts rows without a match at the end of their batch.
        assert_eq!(own.len(), stock.len());
    });
}
