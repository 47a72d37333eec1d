//! Selectivity of filters, estimated from column statistics.
//!
//! DataFusion uses interval arithmetic if it supports all operators of a condition, and otherwise
//! assumes that one row in five passes, be it one of 25 brands or one of 40 containers. Joins build
//! from the side with fewer rows, so such estimates decide which side has to fit in memory. This
//! rule, which runs before the sides are chosen, gives each such filter its own selectivity: an
//! equality selects one of the column's distinct values, a range its part of the interval from
//! least to greatest value; conditions count as independent (Selinger et al., "Access path
//! selection in a relational database management system", SIGMOD 1979, section 4).

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::intervals::utils::check_support;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

type Expr = Arc<dyn PhysicalExpr>;

/// The rule before which this one has to run.
pub(super) const BEFORE: &str = "join_selection";

/// Selectivities without statistics; for other conditions the setting
/// `datafusion.optimizer.default_filter_selectivity` applies.
const PATTERN: f64 = 0.1;
const RANGE: f64 = 1.0 / 3.0;

/// Sets the selectivity of filters.
#[derive(Debug)]
pub(super) struct Selectivity;

impl PhysicalOptimizerRule for Selectivity {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rewritten = plan.transform_up(|node| {
            let Some(filter) = node.downcast_ref::<FilterExec>() else {
                return Ok(Transformed::no(node));
            };
            let input = filter.input();
            if check_support(filter.predicate(), &input.schema()) {
                return Ok(Transformed::no(node));
            }
            let statistics =
                StatisticsContext::new().compute(input.as_ref(), &StatisticsArgs::new())?;
            let other = f64::from(config.optimizer.default_filter_selectivity) / 100.0;
            let known = Known { statistics: &statistics, other };
            let percent = percent(share(filter.predicate(), known));
            let filter = FilterExecBuilder::from(filter).with_default_selectivity(percent);
            Ok(Transformed::yes(Arc::new(filter.build()?) as _))
        });
        rewritten.map(|rewritten| rewritten.data)
    }

    fn name(&self) -> &str {
        "Selectivity"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Column statistics, and the selectivity of conditions without any.
#[derive(Clone, Copy)]
struct Known<'a> {
    statistics: &'a Statistics,
    other: f64,
}

/// A selectivity in whole percent, at least 1: an estimate must not rule out all rows.
fn percent(share: f64) -> u8 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 100")]
    let percent = (share * 100.0).round().clamp(1.0, 100.0) as u8;
    percent
}

/// The share of rows for which a condition is true.
fn share(condition: &Expr, known: Known<'_>) -> f64 {
    let mut ranges: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    let mut all = 1.0;
    for condition in split_conjunction(condition) {
        match range(condition, known) {
            // Both ends of a range are one condition.
            Some((column, (from, to))) => {
                let range = ranges.entry(column).or_insert((0.0, 1.0));
                *range = (range.0.max(from), range.1.min(to));
            }
            None => all *= of_one(condition, known),
        }
    }
    let ranges = ranges.into_iter().map(|(column, (from, to))| {
        // A range that is not empty has at least one value.
        let distinct = known.statistics.column_statistics[column].distinct_count.get_value();
        let one = distinct.map_or(0.0, |distinct| 1.0 / (*distinct).max(1) as f64);
        (to - from).clamp(one.min(1.0), 1.0)
    });
    all * ranges.product::<f64>()
}

fn of_one(condition: &Expr, known: Known<'_>) -> f64 {
    if let Some(binary) = condition.downcast_ref::<BinaryExpr>() {
        let (left, right) = (binary.left(), binary.right());
        return match binary.op() {
            Operator::And => share(condition, known),
            Operator::Or => (share(left, known) + share(right, known)).min(1.0),
            Operator::Eq => one_value(&[left, right], known),
            Operator::NotEq => 1.0 - one_value(&[left, right], known),
            Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => RANGE,
            Operator::LikeMatch | Operator::ILikeMatch => PATTERN,
            Operator::NotLikeMatch | Operator::NotILikeMatch => 1.0 - PATTERN,
            _ => known.other,
        };
    }
    if let Some(list) = condition.downcast_ref::<InListExpr>() {
        // Lists have few values.
        let values = list.list().len() as f64;
        let within = (values * one_value(&[list.expr()], known)).min(1.0);
        return if list.negated() { 1.0 - within } else { within };
    }
    if let Some(like) = condition.downcast_ref::<LikeExpr>() {
        return if like.negated() { 1.0 - PATTERN } else { PATTERN };
    }
    if let Some(not) = condition.downcast_ref::<NotExpr>() {
        return 1.0 - share(not.arg(), known);
    }
    if let Some(null) = condition.downcast_ref::<IsNullExpr>() {
        return nulls(null.arg(), known).unwrap_or(known.other);
    }
    if let Some(null) = condition.downcast_ref::<IsNotNullExpr>() {
        return nulls(null.arg(), known).map_or(1.0, |nulls| 1.0 - nulls);
    }
    known.other
}

/// The column behind an expression that is a column or a cast of one.
fn column<'a>(expr: &Expr, known: Known<'a>) -> Option<(usize, &'a ColumnStatistics)> {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return column(cast.expr(), known);
    }
    let index = expr.downcast_ref::<Column>()?.index();
    Some((index, known.statistics.column_statistics.get(index)?))
}

/// The selectivity of one value of a column, the first column among `exprs`.
fn one_value(exprs: &[&Expr], known: Known<'_>) -> f64 {
    let mut columns = exprs.iter().filter_map(|expr| column(expr, known));
    let distinct = columns.find_map(|(_, column)| column.distinct_count.get_value().copied());
    distinct.map_or(known.other, |distinct| 1.0 / distinct.max(1) as f64)
}

fn nulls(expr: &Expr, known: Known<'_>) -> Option<f64> {
    let nulls = *column(expr, known)?.1.null_count.get_value()? as f64;
    let rows = *known.statistics.num_rows.get_value()? as f64;
    Some((nulls / rows.max(1.0)).min(1.0))
}

/// The part of a column's range, from 0 for the least value to 1 for the greatest, that a
/// comparison with a literal selects.
fn range(condition: &Expr, known: Known<'_>) -> Option<(usize, (f64, f64))> {
    let binary = condition.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (binary.left(), binary.right());
    let (expr, literal, op) = match right.downcast_ref::<Literal>() {
        Some(literal) => (left, literal, *binary.op()),
        None => (right, left.downcast_ref::<Literal>()?, binary.op().swap()?),
    };
    let (index, column) = column(expr, known)?;
    let (least, greatest) = (column.min_value.get_value()?, column.max_value.get_value()?);
    // Compared in the type of the literal: a column may be cast.
    let data_type = literal.value().data_type();
    let (least, greatest) = (least.cast_to(&data_type).ok()?, greatest.cast_to(&data_type).ok()?);
    let (least, greatest) = (number(&least)?, number(&greatest)?);
    if least >= greatest {
        return None;
    }
    let place = (number(literal.value())? - least) / (greatest - least);
    let place = place.clamp(0.0, 1.0);
    match op {
        Operator::Lt | Operator::LtEq => Some((index, (0.0, place))),
        Operator::Gt | Operator::GtEq => Some((index, (place, 1.0))),
        _ => None,
    }
}

/// Maps a number, decimal, date or timestamp to a float, preserving the order; `None` for a value
/// of another type, such as TIME, and for null.
fn number(value: &ScalarValue) -> Option<f64> {
    use datafusion::arrow::datatypes::DataType::Float64;
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    match value {
        ScalarValue::Decimal128(value, _, scale) => {
            Some((*value)? as f64 / 10_f64.powi(i32::from(*scale)))
        }
        ScalarValue::Date32(days) => Some(f64::from((*days)?)),
        ScalarValue::Date64(value)
        | ScalarValue::TimestampSecond(value, _)
        | ScalarValue::TimestampMillisecond(value, _)
        | ScalarValue::TimestampMicrosecond(value, _)
        | ScalarValue::TimestampNanosecond(value, _) => Some((*value)? as f64),
        value if value.data_type().is_numeric() => match value.cast_to(&Float64).ok()? {
            ScalarValue::Float64(value) => value,
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
    use datafusion::common::stats::Precision;
    use datafusion::logical_expr::{cast, col, lit};
    use datafusion::prelude::SessionContext;

    use super::*;

    fn known() -> (SchemaRef, Statistics) {
        let schema = Arc::new(Schema::new(vec![
            Field::new("kind", DataType::Utf8View, true),
            Field::new("day", DataType::Date32, false),
            Field::new("price", DataType::Decimal128(15, 2), false),
        ]));
        let mut known = Statistics::new_unknown(&schema);
        known.num_rows = Precision::Exact(1000);
        let columns = &mut known.column_statistics;
        columns[0].distinct_count = Precision::Inexact(25);
        columns[0].null_count = Precision::Exact(100);
        columns[1].min_value = Precision::Exact(ScalarValue::Date32(Some(1000)));
        columns[1].max_value = Precision::Exact(ScalarValue::Date32(Some(2000)));
        columns[2].min_value = Precision::Exact(ScalarValue::Decimal128(Some(0), 15, 2));
        columns[2].max_value = Precision::Exact(ScalarValue::Decimal128(Some(10_000), 15, 2));
        (schema, known)
    }

    fn of(condition: datafusion::logical_expr::Expr) -> u8 {
        let (schema, known) = known();
        let schema = datafusion::common::DFSchema::try_from(schema.as_ref().clone());
        let schema = schema.expect("schema");
        let condition = SessionContext::new().create_physical_expr(condition, &schema);
        percent(share(&condition.expect("condition"), Known { statistics: &known, other: 0.2 }))
    }

    #[test]
    fn conditions_have_the_share_that_the_statistics_give_them() {
        let day = |day| lit(ScalarValue::Date32(Some(day)));
        let kind = || col("kind");
        assert_eq!(of(kind().eq(lit("a"))), 4);
        assert_eq!(of(kind().not_eq(lit("a"))), 96);
        assert_eq!(of(kind().eq(lit("a")).or(kind().eq(lit("b")))), 8);
        assert_eq!(of(kind().in_list((0..5).map(|n| lit(n.to_string())).collect(), false)), 20);
        assert_eq!(of(kind().is_null()), 10);
        assert_eq!(of(kind().is_not_null()), 90);
        assert_eq!(of(kind().like(lit("a%"))), 10);
        let fifty = lit(ScalarValue::Decimal128(Some(5000), 15, 2));
        assert_eq!(of(kind().eq(lit("a")).and(col("price").lt(fifty))), 2);
        assert_eq!(of(col("day").gt_eq(day(1500)).and(col("day").lt(day(1600)))), 10);
        assert_eq!(of(day(1900).lt(col("day"))), 10);
        let text = |days: i64| lit(ScalarValue::TimestampSecond(Some(days * 86_400), None));
        let stamp = cast(col("day"), DataType::Timestamp(TimeUnit::Second, None));
        assert_eq!(of(stamp.lt(text(1250))), 25);
        assert_eq!(of(col("day").between(day(1500), day(1500))), 1);
        // Outside of the range of values; a filter is never estimated to leave nothing.
        assert_eq!(of(col("day").gt(day(3000))), 1);
        assert_eq!(of(col("day").lt(day(3000))), 100);
        assert_eq!(of(kind().eq(lit("a")).and(kind().is_null())), 1);
    }
}
