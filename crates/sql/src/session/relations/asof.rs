//! ASOF JOIN: pairs each row on the left with the last row on the right that is not later.
//!
//! The rows of both sides are counted in the order of the inequality, within equal keys: a row on
//! the left pairs with the row on the right whose number is the count of rows before it. This takes
//! two sorts and an equality join, which spill, and no product of the sides:
//! ```text
//! a ASOF JOIN b ON a.k = b.k AND a.t >= b.t
//! ->  (SELECT a.*, count(b) OVER (PARTITION BY k ORDER BY t, side ROWS UNBOUNDED PRECEDING) AS n
//!      FROM (a UNION ALL b)) JOIN
//!     (SELECT b.*, row_number() OVER (PARTITION BY k ORDER BY t) AS n FROM b) USING (k, n)
//! ```
//! Nulls pair with nothing. Of several rows on the right with the same keys one is taken.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, JoinType, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::sqlparser::ast::{JoinConstraint, JoinOperator};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, cast, lit,
};

use super::columns::{self, running, window};

/// Plans the join.
///
/// # Errors
/// If its condition is not of equalities and one inequality of the two sides.
pub(super) fn plan(
    left: LogicalPlan,
    right: LogicalPlan,
    operator: JoinOperator,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let (kind, constraint) = match operator {
        JoinOperator::Join(on) | JoinOperator::Inner(on) => (JoinType::Inner, on),
        JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => (JoinType::Left, on),
        _ => {
            return plan_err!(
                "an ASOF JOIN is INNER or LEFT: exchange the tables of a RIGHT join, and write \
                 SEMI and ANTI with EXISTS"
            );
        }
    };
    let JoinConstraint::On(condition) = constraint else {
        return plan_err!(
            "an ASOF JOIN needs ON, or USING with tables whose columns are known, such as \
             ON a.k = b.k AND a.t >= b.t"
        );
    };
    let schema = left.schema().join(right.schema())?;
    let condition = context.sql_to_expr(condition, &schema)?;
    let terms = Terms::of(condition, &left, &right)?;
    joined(left, right, &terms, kind, context)
}

/// The condition of a join.
struct Terms {
    /// Pairs of expressions that must be equal.
    keys: Vec<(Expr, Expr)>,
    /// The expressions of the inequality.
    order: (Expr, Expr),
    operator: Operator,
}

impl Terms {
    fn of(condition: Expr, left: &LogicalPlan, right: &LogicalPlan) -> Result<Self> {
        let (mut keys, mut found) = (Vec::new(), Vec::new());
        for term in split_conjunction_owned(condition) {
            let text = term.to_string();
            let refuse = || {
                plan_err!(
                    "an ASOF JOIN has equalities of the two tables and one of >=, >, <=, <; this \
                     is neither: {text}"
                )
            };
            let Expr::BinaryExpr(BinaryExpr { left: one, op, right: other }) = term else {
                return refuse();
            };
            let is_of = |expr: &Expr, side: &LogicalPlan| {
                let columns = expr.column_refs();
                !columns.is_empty() && columns.iter().all(|it| side.schema().has_column(it))
            };
            let (pair, op) = if is_of(&one, left) && is_of(&other, right) {
                ((*one, *other), op)
            } else if is_of(&one, right) && is_of(&other, left) {
                ((*other, *one), op.swap().unwrap_or(op))
            } else {
                return refuse();
            };
            match op {
                Operator::Eq => keys.push(pair),
                Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
                    found.push((pair, op));
                }
                _ => return refuse(),
            }
        }
        match <[_; 1]>::try_from(found) {
            Ok([(order, operator)]) => Ok(Self { keys, order, operator }),
            Err(found) => plan_err!(
                "an ASOF JOIN has one inequality, such as a.t >= b.t, and this one has {}",
                found.len()
            ),
        }
    }
}

fn joined(
    left: LogicalPlan,
    right: LogicalPlan,
    terms: &Terms,
    kind: JoinType,
    context: &dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let columns_of = |side: &LogicalPlan| side.schema().columns();
    let outputs = [columns_of(&left), columns_of(&right)].concat();
    let width = left.schema().fields().len();
    let types: Vec<_> = left.schema().fields().iter().map(|it| it.data_type().clone()).collect();
    let [ours, theirs] = [&left, &right].map(|side| columns_of(side).into_iter().map(Expr::Column));

    let mut sides = (Vec::new(), Vec::new());
    for (one, other) in terms.keys.iter().chain([&terms.order]) {
        sides.0.push(one.clone());
        sides.1.push(other.clone());
    }
    let common = columns::common_types(&sides.0, left.schema(), &sides.1, right.schema())?;
    let terms_of = |exprs: &[Expr]| -> Vec<Expr> {
        let exprs = exprs.iter().zip(&common).enumerate();
        exprs.map(|(place, (expr, to))| cast(expr.clone(), to.clone()).alias(term(place))).collect()
    };
    let mut items = terms_of(&sides.1);
    items.extend(theirs.enumerate().map(|(at, it)| it.alias(format!("right {at}"))));
    let right = without_nulls(right, &sides.1)?.project(items)?.build()?;

    let mut items = terms_of(&sides.0);
    items.extend(ours.enumerate().map(|(at, it)| it.alias(format!("left {at}"))));
    items.push(lit(ScalarValue::Int64(None)).alias(SIDE));
    let left = LogicalPlanBuilder::from(left).project(items)?.build()?;
    let marks = marks(right.clone(), common.len(), &types)?;

    let keys: Vec<_> = (0..common.len() - 1).map(|place| col_of(&term(place))).collect();
    let is_ascending = matches!(terms.operator, Operator::Gt | Operator::GtEq);
    let takes_equal = matches!(terms.operator, Operator::GtEq | Operator::LtEq);
    let time = col_of(&term(common.len() - 1));
    let by_time = Sort::new(time.clone(), is_ascending, true);
    // Rows on the left have a null here.
    let by_side = Sort::new(col_of(SIDE), true, !takes_equal);

    let count = running(
        "count",
        vec![col_of(SIDE)],
        keys.clone(),
        vec![by_time.clone(), by_side],
        context,
    )?;
    let left = LogicalPlanBuilder::from(left).union(marks)?.build()?;
    let left = columns::with_window(left, count.alias("left place"))?;
    let left = LogicalPlanBuilder::from(left).filter(col_of(SIDE).is_null())?;
    let mut items: Vec<_> = keys.clone();
    items.extend((0..width).map(|at| col_of(&format!("left {at}"))));
    let place = cast(col_of("left place"), DataType::UInt64);
    items.push(place.alias("left place"));
    let left = left.project(items)?.alias("asof left")?.build()?;

    let number = window("row_number", vec![], keys.clone(), vec![by_time], context)?;
    let right = columns::with_window(right, number.alias("right place"))?;
    let right = LogicalPlanBuilder::from(right).alias("asof right")?.build()?;

    let on = |side: &str, place: &str| {
        let mut on: Vec<_> = (0..keys.len()).map(|at| Column::new(Some(side), term(at))).collect();
        on.push(Column::new(Some(side), place));
        on
    };
    let on = (on("asof left", "left place"), on("asof right", "right place"));
    let items = renamed(outputs, width);
    LogicalPlanBuilder::from(left).join(right, kind, on, None)?.project(items)?.build()
}

/// Rows on the right that can pair: one with a null pairs with nothing, and must not be counted.
fn without_nulls(right: LogicalPlan, terms: &[Expr]) -> Result<LogicalPlanBuilder> {
    let right = LogicalPlanBuilder::from(right);
    terms.iter().try_fold(right, |right, term| right.filter(term.clone().is_not_null()))
}

/// The terms of the rows on the right, with nulls for the columns on the left.
fn marks(right: LogicalPlan, terms: usize, left: &[DataType]) -> Result<LogicalPlan> {
    let mut items: Vec<_> = (0..terms).map(|place| col_of(&term(place))).collect();
    for (at, to) in left.iter().enumerate() {
        items.push(lit(ScalarValue::try_new_null(to)?).alias(format!("left {at}")));
    }
    items.push(lit(1_i64).alias(SIDE));
    LogicalPlanBuilder::from(right).project(items)?.build()
}

/// The columns of the join by the names of the tables' columns; the first `width` are on the left.
fn renamed(outputs: Vec<Column>, width: usize) -> impl Iterator<Item = Expr> {
    outputs.into_iter().enumerate().map(move |(at, output)| {
        let name = match at.checked_sub(width) {
            None => Column::new(Some("asof left"), format!("left {at}")),
            Some(at) => Column::new(Some("asof right"), format!("right {at}")),
        };
        Expr::Column(name).alias_qualified(output.relation, output.name)
    })
}

/// Name of the column that is null in rows on the left.
const SIDE: &str = "side";

/// Name of the column for one operand of the condition on either side: those of the equalities come
/// first, that of the inequality last.
fn term(place: usize) -> String {
    format!("term {place}")
}

fn col_of(name: &str) -> Expr {
    Expr::Column(Column::from_name(name))
}
