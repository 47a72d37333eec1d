//! Choice of a join's build side, if both sides are too large to be copied to every partition.
//!
//! DataFusion builds from the side with fewer bytes of columns, and estimates a join by several
//! keys from the one key with the most distinct values. This rule, which runs after the sides are
//! chosen, also considers:
//!
//! - A row in the hash table costs more than its columns: its hash, its slot in the directory, and
//!   the time of the insertion. DataFusion takes many narrow rows for cheaper than few wide ones.
//! - Two keys with few values each may identify a row together, as the part and supplier keys of a
//!   part at a supplier do.
//! - The hash table of a join above filters the rows below: it tells the scans of its probe side
//!   which keys exist.
//!
//! The rule swaps the sides if the other one is clearly better. It does not change the join order.

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

/// Name of DataFusion's rule after which this one has to run.
pub(super) const AFTER: &str = "join_selection";

/// Cost of a row in a hash table in addition to its columns, in bytes: about 50 for its hash, its
/// slot and the slack of pages and directory, and as much again for the time of the insertion.
const ROW_BYTES: f64 = 96.0;
/// Estimated bytes of a value of variable length.
const TEXT_BYTES: usize = 24;
/// The sides are swapped if the other one is cheaper by more than this factor.
const CLEARLY: f64 = 1.2;

/// Physical optimizer rule that makes the cheaper side of partitioned inner joins the build side.
#[derive(Debug)]
pub(super) struct BuildSide;

type Node = Arc<dyn ExecutionPlan>;

/// The selectivity of the joins above a node: per column that they filter by, the smallest share of
/// the node's rows that one of them leaves.
type Shares = BTreeMap<usize, f64>;

impl PhysicalOptimizerRule for BuildSide {
    fn optimize(&self, plan: Node, config: &ConfigOptions) -> Result<Node> {
        if !config.optimizer.join_reordering {
            return Ok(plan);
        }
        // Statistics are cached by node, so the plan must outlive this.
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

/// Cached statistics of the nodes of a plan.
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

    /// Adds to `shares` of the probe side the share of its rows that have keys in the hash table of
    /// `join`. `swaps` is true if the right side becomes the build side.
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

    /// Cost of building a hash table from the rows of `node`, in bytes.
    fn build_bytes(&self, node: &Node, shares: &Shares) -> Result<Option<f64>> {
        let schema = node.schema();
        let widths = schema.fields().iter().map(|field| width(field.data_type()));
        let width = widths.sum::<usize>() as f64;
        Ok(self.rows(node, shares)?.map(|rows| rows * (width + ROW_BYTES)))
    }

    /// Estimated rows of `node`, if known, after the joins above have left `shares`.
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
        // A better estimate of the input improves this one as well.
        let mut better = 1.0;
        for (child, shares) in node.children().into_iter().zip(&of_children) {
            let known = self.known(child)?.num_rows.get_value().map(|rows| *rows as f64);
            if let Some((rows, known)) = self.rows(child, shares)?.zip(known) {
                better *= rows / known.max(1.0);
            }
        }
        Ok(Some(own * better))
    }

    /// Estimated rows of an inner join by several keys: each row of the side whose keys have fewer
    /// values matches its share of the other side (Selinger et al., "Access path selection in a
    /// relational database management system", SIGMOD 1979, section 4), and all keys together have
    /// no more values than there are rows.
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

/// True if the rows of `node` are rows of its inputs, filtered or joined.
fn passes(node: &Node) -> bool {
    node.is::<ProjectionExec>() || node.is::<FilterExec>() || node.is::<HashJoinExec>()
}

/// Records that a join on `column` leaves `share` of the rows, unless a smaller share is known.
fn note(shares: &mut Shares, column: usize, share: f64) {
    let least = shares.entry(column).or_insert(share);
    *least = least.min(share);
}

/// Maps shares of a node's rows to its inputs, by their own columns.
fn shares_of_children(node: &Node, shares: &Shares) -> Vec<Shares> {
    let mut of_children = vec![Shares::new(); node.children().len()];
    for (column, share) in shares {
        if let Some((child, column)) = origin(node, *column) {
            note(&mut of_children[child], column, *share);
        }
    }
    of_children
}

/// The input that a column of `node` comes from, and its index there.
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

/// Estimated distinct values of a key among `rows` rows.
fn values(key: &PhysicalExprRef, known: &Statistics, rows: f64) -> f64 {
    let column = key.downcast_ref::<Column>().map(Column::index);
    let known = column.and_then(|column| known.column_statistics.get(column));
    let distinct = known.and_then(|known| known.distinct_count.get_value().copied());
    distinct.map_or(rows, |distinct| (distinct as f64).min(rows)).max(1.0)
}
