//! The paged nested-loop join against DataFusion's nested-loop and cross joins.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{JoinSide, JoinType};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};
use datafusion::physical_plan::joins::{
    CrossJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};
use futures::StreamExt;
use terrace_exec::PagedLoopJoinExec;
use terrace_testkit::{Rng, soak_rounds, with_seed};

use crate::common::{array, comes_to_be_empty, memory};
use crate::hash_join::{JOIN_TYPES, block_on, context, rows, run, smaller};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Returns a table of `parts` partitions with the first column of [`smaller`], and others of any
/// type.
fn source(
    rng: &mut Rng,
    prefix: &str,
    rows: usize,
    parts: usize,
    types: &[DataType],
) -> Arc<dyn ExecutionPlan> {
    let mut fields = vec![Field::new(format!("{prefix}v"), DataType::Int64, true)];
    let others = types.iter().enumerate();
    fields.extend(others.map(|(n, it)| Field::new(format!("{prefix}{n}"), it.clone(), true)));
    let schema = Arc::new(Schema::new(fields));
    let nulls = rng.below(6);
    let mut split = vec![Vec::new(); parts];
    for n in 0..rows.div_ceil(40) {
        let len = (rows - n * 40).min(40);
        let columns = schema.fields().iter().map(|it| array(rng, it.data_type(), len, nulls, 50));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap();
        split[n % parts].push(batch);
    }
    MemorySourceConfig::try_new_exec(&split, schema, None).unwrap()
}

/// Returns up to two types of columns in addition to the first one.
fn types(rng: &mut Rng) -> Vec<DataType> {
    let all = crate::common::types();
    (0..rng.index(3)).map(|_| all[rng.index(all.len())].clone()).collect()
}

/// Returns a join of small tables; sometimes a cross join, sometimes with few of the columns.
fn random_join(rng: &mut Rng) -> (String, Arc<dyn ExecutionPlan>) {
    let rows = |rng: &mut Rng| if rng.one_in(8) { 0 } else { rng.index(130) };
    let (left_rows, right_rows) = (rows(rng), rows(rng));
    let (left_types, right_types) = (types(rng), types(rng));
    let parts = 1 + rng.index(3);
    let left = source(rng, "l", left_rows, 1, &left_types);
    let right = source(rng, "r", right_rows, parts, &right_types);
    let title = format!("{left_rows} {left_types:?} by {right_rows} {right_types:?}");
    if rng.one_in(6) {
        return (format!("cross join of {title}"), Arc::new(CrossJoinExec::new(left, right)));
    }
    let join_type = JOIN_TYPES[rng.index(JOIN_TYPES.len())];
    let filter = (!rng.one_in(4)).then(|| smaller(0));
    let columns = build_join_schema(&left.schema(), &right.schema(), &join_type).0.fields().len();
    let projection = rng.one_in(3).then(|| (0..columns).filter(|_| rng.one_in(2)).collect());
    let title = format!("{join_type} filter {} {projection:?} {title}", filter.is_some());
    let join = NestedLoopJoinExecBuilder::new(left, right, join_type)
        .with_filter(filter)
        .with_projection(projection);
    (title, Arc::new(join.build().unwrap()))
}

fn paged(join: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(PagedLoopJoinExec::new(Arc::clone(join)).unwrap())
}

#[test]
fn random_loop_joins_are_those_of_datafusion() {
    with_seed(|seed| {
        let mut rng = Rng::new(seed);
        let (space, memory) = memory(4 * MIB, 0);
        block_on(async {
            for _ in 0..soak_rounds(1000) {
                memory.set_limit([0, 40 * KIB, MIB][rng.index(3)]);
                let (title, join) = random_join(&mut rng);
                let context = context(&memory, [7, 100, 8192][rng.index(3)]);
                let expected = run(Arc::clone(&join), Arc::clone(&context)).await.unwrap();
                let plan = paged(&join);
                assert_eq!(run(Arc::clone(&plan), context).await.unwrap(), expected, "{title}");
                assert_eq!(memory.held_bytes(), 0, "{title}");
            }
        });
        comes_to_be_empty(space.pool_handle());
    });
}

fn large(rng: &mut Rng, join_type: JoinType) -> Arc<dyn ExecutionPlan> {
    let left = source(rng, "l", 60_000, 1, &[DataType::Utf8View, DataType::Int64]);
    let right = source(rng, "r", 60, 2, &[DataType::Int64]);
    let filter = Some(smaller(0));
    let join = NestedLoopJoinExec::try_new(left, right, filter, &join_type, None);
    Arc::new(join.unwrap())
}

#[test]
fn a_left_side_larger_than_memory_is_joined_whatever_is_taken_back() {
    let (space, memory) = memory(2 * MIB, MIB);
    block_on(async {
        for join_type in JOIN_TYPES {
            let join = large(&mut Rng::new(5), join_type);
            memory.set_limit(MIB);
            let context = context(&memory, 8192);
            let expected = run(Arc::clone(&join), Arc::clone(&context)).await.unwrap();
            let plan = reset_plan_states(paged(&join)).unwrap();
            let mut found = Vec::new();
            for partition in 0..plan.properties().partitioning.partition_count() {
                let mut stream = plan.execute(partition, Arc::clone(&context)).unwrap();
                while let Some(batch) = stream.next().await {
                    if found.len() == 2 {
                        memory.set_limit(0);
                        memory.suspend();
                        let memory = memory.clone();
                        tokio::spawn(async move {
                            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                            memory.resume();
                        });
                    }
                    found.push(batch.unwrap());
                }
            }
            assert_eq!(rows(&found), expected, "{join_type}");
            assert_eq!(memory.held_bytes(), 0, "{join_type}");
        }
    });
    comes_to_be_empty(space.pool_handle());
}

/// Returns a filter of up to three comparisons of columns of the two sides, which are of types
/// `kinds` on both.
fn comparisons(rng: &mut Rng, kinds: &[DataType]) -> JoinFilter {
    let (mut fields, mut indices) = (Vec::new(), Vec::new());
    for side in [JoinSide::Left, JoinSide::Right] {
        let columns = kinds.iter().enumerate();
        fields
            .extend(columns.map(|(n, kind)| Field::new(format!("{side}{n}"), kind.clone(), true)));
        indices.extend((0..kinds.len()).map(|index| ColumnIndex { index, side }));
    }
    use Operator::{Gt, GtEq, Lt, LtEq, NotEq};
    let mut one = || -> PhysicalExprRef {
        let op = [Gt, GtEq, Lt, LtEq, Gt, GtEq, Lt, LtEq, NotEq][rng.index(9)];
        let kind = rng.index(kinds.len());
        let others: Vec<_> = (0..kinds.len()).filter(|it| kinds[*it] == kinds[kind]).collect();
        let other = kinds.len() + others[rng.index(others.len())];
        let column = |n: usize| -> PhysicalExprRef { Arc::new(Column::new("c", n)) };
        let (left, right) = if rng.one_in(2) { (kind, other) } else { (other, kind) };
        Arc::new(BinaryExpr::new(column(left), op, column(right)))
    };
    let mut filter = one();
    for _ in 0..2 {
        filter = Arc::new(BinaryExpr::new(filter, Operator::And, one()));
    }
    JoinFilter::new(filter, indices, Arc::new(Schema::new(fields)))
}

#[test]
fn random_range_joins_are_those_of_datafusion() {
    use DataType::{Date32, Decimal128, Float64, Int32, Int64, UInt64, Utf8, Utf8View};
    let all = [Date32, Decimal128(12, 2), Float64, Int32, Int64, UInt64, Utf8, Utf8View];
    with_seed(|seed| {
        let mut rng = Rng::new(seed);
        let (space, memory) = memory(4 * MIB, 0);
        block_on(async {
            for _ in 0..soak_rounds(1000) {
                memory.set_limit([0, 40 * KIB, MIB][rng.index(3)]);
                let join_type = JOIN_TYPES[rng.index(JOIN_TYPES.len())];
                let own: Vec<_> = (0..rng.index(3)).map(|_| all[rng.index(8)].clone()).collect();
                let rows = [rng.index(130), rng.index(130)];
                let left = source(&mut rng, "l", rows[0], 1, &own);
                let parts = 1 + rng.index(3);
                let right = source(&mut rng, "r", rows[1], parts, &own);
                let kinds: Vec<_> = std::iter::once(Int64).chain(own).collect();
                let filter = comparisons(&mut rng, &kinds);
                let title =
                    format!("{join_type} of {rows:?} {kinds:?} by {:?}", filter.expression());
                let join = NestedLoopJoinExec::try_new(left, right, Some(filter), &join_type, None);
                let join: Arc<dyn ExecutionPlan> = Arc::new(join.unwrap());
                let context = context(&memory, [7, 100, 8192][rng.index(3)]);
                let expected = run(Arc::clone(&join), Arc::clone(&context)).await.unwrap();
                assert_eq!(run(paged(&join), context).await.unwrap(), expected, "{title}");
                assert_eq!(memory.held_bytes(), 0, "{title}");
            }
        });
        comes_to_be_empty(space.pool_handle());
    });
}

#[test]
fn a_dropped_loop_join_gives_everything_back() {
    let (space, memory) = memory(2 * MIB, MIB);
    block_on(async {
        for polls in 0..4 {
            let plan = paged(&large(&mut Rng::new(5), JoinType::Full));
            let mut stream = plan.execute(0, context(&memory, 1000)).unwrap();
            for _ in 0..polls {
                stream.next().await.unwrap().unwrap();
            }
            drop((stream, plan));
            assert_eq!(memory.held_bytes(), 0);
        }
    });
    comes_to_be_empty(space.pool_handle());
}
