//! Which side of a join is put into its table, where both are too large to be copied to every
//! partition.
//!
//! DataFusion takes the side of fewer bytes of columns, and reckons of several keys with the one
//! that has the most values alone. But a row in the table costs more than its columns: its hash,
//! its place in the directory, and the time to put it there. So many narrow rows are taken for less
//! than few wide ones. And two keys, each of which has few values, may name one row together, as
//! the two of a part at a supplier do. Nor does it know what a join above leaves of the rows below:
//! its table tells the scans of its other side which keys there are. This rule, which runs after
//! the sides are chosen, reckons with all of that, and puts the other side into the table where
//! that is clearly better. It changes no order of joins.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{JoinType, Result, Statistics};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
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

type Node = Arc<dyn ExecutionPlan>;

/// The shares of a node's rows that joins above it leave, the least by each column that they look
/// at.
type Shares = BTreeMap<usize, f64>;

impl PhysicalOptimizerRule for BuildSide {
    fn optimize(&self, plan: Node, config: &ConfigOptions) -> Result<Node> {
        if !config.optimizer.join_reordering {
            return Ok(plan);
        }
        // What is known is kept by node, so the plan has to stay while this is used.
        let estimates = Estimates(StatisticsContext::new());
        estimates.rewrite(&plan, &Shares::new())
    }

    fn name(&self) -> &str {
        "BuildSide"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What is known of the nodes of a plan.
struct Estimates(StatisticsContext);

impl Estimates {
    fn rewrite(&self, node: &Node, shares: &Shares) -> Result<Node> {
        let mut of_children = shares_of_children(node, shares);
        let mut swaps = false;
        if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            swaps = self.wants_swap(join, &of_children)?;
            self.narrow(join, swaps, &mut of_children)?;
        }
        let mut children = Vec::new();
        for (child, shares) in node.children().into_iter().zip(&of_children) {
            children.push(self.rewrite(child, shares)?);
        }
        let node = replace_children_if_necessary(Arc::clone(node), children)?;
        match node.downcast_ref::<HashJoinExec>().filter(|_| swaps) {
            Some(join) => join.swap_inputs(PartitionMode::Partitioned),
            None => Ok(node),
        }
    }

    fn wants_swap(&self, join: &HashJoinExec, shares: &[Shares]) -> Result<bool> {
        let [left, right] = shares else { return Ok(false) };
        let is_partitioned = *join.partition_mode() == PartitionMode::Partitioned;
        if !is_partitioned || *join.join_type() != JoinType::Inner {
            return Ok(false);
        }
        let left = self.build_bytes(join.left(), left)?;
        let costs = left.zip(self.build_bytes(join.right(), right)?);
        Ok(costs.is_some_and(|(left, right)| left > right * CLEARLY))
    }

    /// Adds what the table of `join` leaves of its other side.
    fn narrow(&self, join: &HashJoinExec, swaps: bool, shares: &mut [Shares]) -> Result<()> {
        use JoinType::{Inner, LeftSemi, RightSemi};
        let [of_left, of_right] = shares else { return Ok(()) };
        if !matches!(join.join_type(), Inner | LeftSemi | RightSemi) {
            return Ok(());
        }
        let (left, right) = (self.known(join.left())?, self.known(join.right())?);
        let rows = self.rows(join.left(), of_left)?.zip(self.rows(join.right(), of_right)?);
        let Some((left_rows, right_rows)) = rows else { return Ok(()) };
        for (left_key, right_key) in join.on() {
            let left_values = values(left_key, &left, left_rows);
            let right_values = values(right_key, &right, right_rows);
            let (key, shares, share) = match swaps {
                true => (left_key, &mut *of_left, right_values / left_values),
                false => (right_key, &mut *of_right, left_values / right_values),
            };
            if let Some(column) = key.downcast_ref::<Column>().filter(|_| share < 1.0) {
                note(shares, column.index(), share);
            }
        }
        Ok(())
    }

    /// What it costs to put the rows of `node` into a table, in bytes.
    fn build_bytes(&self, node: &Node, shares: &Shares) -> Result<Option<f64>> {
        let schema = node.schema();
        let widths = schema.fields().iter().map(|field| width(field.data_type()));
        let width = widths.sum::<usize>() as f64;
        Ok(self.rows(node, shares)?.map(|rows| rows * (width + ROW_BYTES)))
    }

    /// The rows that come out of `node`, as far as that is known, where joins above leave `shares`.
    fn rows(&self, node: &Node, shares: &Shares) -> Result<Option<f64>> {
        let of_children = shares_of_children(node, shares);
        let join = node.downcast_ref::<HashJoinExec>();
        let by_keys =
            |join: &&HashJoinExec| *join.join_type() == JoinType::Inner && join.on().len() > 1;
        if let Some(join) = join.filter(by_keys) {
            return self.of_join(join, &of_children);
        }
        let Some(own) = self.known(node)?.num_rows.get_value().map(|rows| *rows as f64) else {
            return Ok(None);
        };
        if !passes(node) {
            return Ok(Some(own * shares.values().product::<f64>()));
        }
        // What is known of the input better is known of these better, too.
        let mut better = 1.0;
        for (child, shares) in node.children().into_iter().zip(&of_children) {
            let known = self.known(child)?.num_rows.get_value().map(|rows| *rows as f64);
            if let Some((rows, known)) = self.rows(child, shares)?.zip(known) {
                better *= rows / known.max(1.0);
            }
        }
        Ok(Some(own * better))
    }

    /// The rows of an inner join by several keys: each row of the side whose keys have fewer values
    /// finds its part of the other (Selinger et al., "Access path selection in a relational
    /// database management system", SIGMOD 1979, section 4), and all keys together have no more
    /// values than there are rows.
    fn of_join(&self, join: &HashJoinExec, shares: &[Shares]) -> Result<Option<f64>> {
        let [left, right] = shares else { return Ok(None) };
        let rows = self.rows(join.left(), left)?.zip(self.rows(join.right(), right)?);
        let Some((left, right)) = rows else { return Ok(None) };
        let (of_left, of_right) = (self.known(join.left())?, self.known(join.right())?);
        let values = join.on().iter().map(|(left_key, right_key)| {
            values(left_key, &of_left, left).max(values(right_key, &of_right, right))
        });
        let together: f64 = values.product();
        Ok(Some(left * right / together.min(left.max(right)).max(1.0)))
    }

    fn known(&self, node: &Node) -> Result<Arc<Statistics>> {
        self.0.compute(node.as_ref(), &StatisticsArgs::new())
    }
}

/// Whether the rows of `node` are those of its inputs, some of them or together.
fn passes(node: &Node) -> bool {
    node.is::<ProjectionExec>() || node.is::<FilterExec>() || node.is::<HashJoinExec>()
}

/// Notes that `share` of a column's rows is left.
fn note(shares: &mut Shares, column: usize, share: f64) {
    let least = shares.entry(column).or_insert(share);
    *least = least.min(share);
}

/// What is left of the rows of each input, by its own columns.
fn shares_of_children(node: &Node, shares: &Shares) -> Vec<Shares> {
    let mut of_children = vec![Shares::new(); node.children().len()];
    for (column, share) in shares {
        if let Some((child, column)) = origin(node, *column) {
            note(&mut of_children[child], column, *share);
        }
    }
    of_children
}

/// The input that a column of `node` is from, and its number there.
fn origin(node: &Node, column: usize) -> Option<(usize, usize)> {
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let column = projection.expr().get(column)?.expr.downcast_ref::<Column>()?;
        return Some((0, column.index()));
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let projection = filter.projection().as_ref();
        return Some((0, projection.map_or(Some(column), |it| it.get(column).copied())?));
    }
    let join = node.downcast_ref::<HashJoinExec>()?;
    let column = match &join.projection {
        Some(projection) => *projection.get(column)?,
        None => column,
    };
    let left = join.left().schema().fields().len();
    match join.join_type() {
        JoinType::Inner if column >= left => Some((1, column - left)),
        JoinType::Inner | JoinType::LeftSemi | JoinType::LeftAnti => Some((0, column)),
        JoinType::RightSemi | JoinType::RightAnti => Some((1, column)),
        _ => None,
    }
}

fn width(data_type: &DataType) -> usize {
    data_type.primitive_width().unwrap_or(match data_type {
        DataType::Boolean | DataType::Null => 1,
        _ => TEXT_BYTES,
    })
}

/// How many values a key has in so many rows.
fn values(key: &PhysicalExprRef, known: &Statistics, rows: f64) -> f64 {
    let column = key.downcast_ref::<Column>().map(Column::index);
    let known = column.and_then(|column| known.column_statistics.get(column));
    let distinct = known.and_then(|known| known.distinct_count.get_value().copied());
    distinct.map_or(rows, |distinct| (distinct as f64).min(rows)).max(1.0)
}
