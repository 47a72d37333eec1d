//! Which side of a join is put into its table, where both are too large to be copied to every
//! partition.
//!
//! DataFusion takes the side of fewer bytes of columns, and reckons of several keys with the one
//! that has the most values alone. But a row in the table costs more than its columns: its hash,
//! its place in the directory, and the time to put it there. So many narrow rows are taken for less
//! than few wide ones. And two keys, each of which has few values, may name one row together, as
//! the two of a part at a supplier do. This rule, which runs after the sides are chosen, reckons
//! with all keys and with what a row costs beside its columns, and puts the other side into the
//! table where that is clearly better. It changes no order of joins.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, Result, Statistics};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

/// The rule after which this one has to run.
pub(super) const AFTER: &str = "join_selection";

/// What a row in the table of a join costs beside its columns, in bytes: about 50 for its hash, its
/// slot and the room that pages and the directory have to spare, and as much again for the time to
/// put it there.
const ROW_BYTES: f64 = 96.0;
/// Bytes of a text, about.
const TEXT_BYTES: usize = 24;
/// The other side is taken where it costs so many times less.
const CLEARLY: f64 = 1.2;

/// Puts the cheaper side of partitioned inner joins into the table.
#[derive(Debug)]
pub(super) struct BuildSide;

impl PhysicalOptimizerRule for BuildSide {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !config.optimizer.join_reordering {
            return Ok(plan);
        }
        let rewritten = plan.transform_up(|node| {
            let swapped = match node.downcast_ref::<HashJoinExec>() {
                Some(join) if wants_swap(join)? => join.swap_inputs(PartitionMode::Partitioned)?,
                _ => return Ok(Transformed::no(node)),
            };
            Ok(Transformed::yes(swapped))
        });
        rewritten.map(|rewritten| rewritten.data)
    }

    fn name(&self) -> &str {
        "BuildSide"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn wants_swap(join: &HashJoinExec) -> Result<bool> {
    if *join.partition_mode() != PartitionMode::Partitioned || *join.join_type() != JoinType::Inner
    {
        return Ok(false);
    }
    let costs = build_bytes(join.left())?.zip(build_bytes(join.right())?);
    Ok(costs.is_some_and(|(left, right)| left > right * CLEARLY))
}

/// What it costs to put the rows of `node` into a table, in bytes.
fn build_bytes(node: &Arc<dyn ExecutionPlan>) -> Result<Option<f64>> {
    let schema = node.schema();
    let widths = schema.fields().iter().map(|field| width(field.data_type()));
    let width = widths.sum::<usize>() as f64;
    Ok(rows(node)?.map(|rows| rows * (width + ROW_BYTES)))
}

fn width(data_type: &DataType) -> usize {
    data_type.primitive_width().unwrap_or(match data_type {
        DataType::Boolean | DataType::Null => 1,
        _ => TEXT_BYTES,
    })
}

/// The rows that come out of `node`, as far as that is known.
fn rows(node: &Arc<dyn ExecutionPlan>) -> Result<Option<f64>> {
    let join = node.downcast_ref::<HashJoinExec>();
    let by_keys =
        |join: &&HashJoinExec| *join.join_type() == JoinType::Inner && join.on().len() > 1;
    if let Some(join) = join.filter(by_keys) {
        return of_join(join);
    }
    // What is known of the input better is known of these better, too.
    let passes =
        node.is::<ProjectionExec>() || node.is::<FilterExec>() || node.is::<HashJoinExec>();
    let own = known_rows(known(node)?.as_ref());
    if !passes {
        return Ok(own);
    }
    let mut better = 1.0;
    for child in node.children() {
        if let (Some(rows), Some(known)) = (rows(child)?, known_rows(known(child)?.as_ref())) {
            better *= rows / known.max(1.0);
        }
    }
    Ok(own.map(|own| own * better))
}

/// The rows of an inner join by several keys: each row of the side whose keys have fewer values
/// finds its part of the other (Selinger et al., "Access path selection in a relational database
/// management system", SIGMOD 1979, section 4), and all keys together have no more values than
/// there are rows.
fn of_join(join: &HashJoinExec) -> Result<Option<f64>> {
    let (Some(left), Some(right)) = (rows(join.left())?, rows(join.right())?) else {
        return Ok(None);
    };
    let (of_left, of_right) = (known(join.left())?, known(join.right())?);
    let left_values = values(join.on().iter().map(|(left, _)| left), &of_left, left);
    let right_values = values(join.on().iter().map(|(_, right)| right), &of_right, right);
    let pairs = left_values.iter().zip(&right_values);
    let together: f64 = pairs.map(|(left, right)| left.max(*right)).product();
    Ok(Some(left * right / together.min(left.max(right)).max(1.0)))
}

/// How many values each of these keys has, in that many rows.
fn values<'a>(
    keys: impl Iterator<Item = &'a PhysicalExprRef>,
    known: &Statistics,
    rows: f64,
) -> Vec<f64> {
    let of_key = |key: &PhysicalExprRef| {
        let column = key.downcast_ref::<Column>().map(Column::index);
        let known = column.and_then(|column| known.column_statistics.get(column));
        let distinct = known.and_then(|known| known.distinct_count.get_value().copied());
        distinct.map_or(rows, |distinct| (distinct as f64).min(rows)).max(1.0)
    };
    keys.map(of_key).collect()
}

fn known(node: &Arc<dyn ExecutionPlan>) -> Result<Arc<Statistics>> {
    StatisticsContext::new().compute(node.as_ref(), &StatisticsArgs::new())
}

fn known_rows(statistics: &Statistics) -> Option<f64> {
    statistics.num_rows.get_value().map(|rows| *rows as f64)
}
