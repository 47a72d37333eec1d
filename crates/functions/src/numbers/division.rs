//! Quotients and remainders.
//!
//! `a // b` truncates the quotient of integers, of which HUGEINT is a decimal, and is `a / b` for
//! other numbers.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, Datum, Scalar};
use datafusion::arrow::compute::kernels::numeric::rem;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, DataFusionError, Result, exec_datafusion_err};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{Expr, ExprSchemable as _, Operator, ScalarUDF};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::decimals::{at_scale, scale_of};
use crate::adapter::function;
use crate::scalar::{Call, Decimal, Definition, Double, Int, Kind, Overload, Returns};

const INTEGERS: &[Kind] = &[Kind::Integer, Kind::Integer];
const DECIMALS: &[Kind] = &[Kind::Decimal, Kind::Decimal];
const DOUBLES: &[Kind] = &[Kind::Double, Kind::Double];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new(
        "mod",
        &[
            Overload::new(INTEGERS, Kind::Integer, mod_integers),
            Overload::returning(DECIMALS, Returns::By(remainder_type), mod_decimals),
            Overload::new(DOUBLES, Kind::Double, mod_doubles),
        ],
    ),
    Definition::new(
        "div",
        &[
            Overload::new(INTEGERS, Kind::Integer, div_integers),
            Overload::new(DECIMALS, Kind::Decimal, div_decimals),
            Overload::new(DOUBLES, Kind::Double, div_doubles),
        ],
    ),
    Definition::new(
        "divide",
        &[
            Overload::new(INTEGERS, Kind::Integer, div_integers),
            Overload::new(DOUBLES, Kind::Double, divide_doubles),
        ],
    ),
    Definition::new("fdiv", &[Overload::new(DOUBLES, Kind::Double, floor_quotient)]),
    Definition::new("fmod", &[Overload::new(DOUBLES, Kind::Double, floor_remainder)]),
];

/// `div`, which truncates quotients of decimals.
static DIV: LazyLock<Option<Arc<ScalarUDF>>> =
    LazyLock::new(|| FUNCTIONS.iter().map(function).find(|it| it.name() == "div"));

/// Expression planner of `a // b`.
#[derive(Debug)]
pub struct IntegerQuotients;

impl ExprPlanner for IntegerQuotients {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = expr;
        if op != BinaryOperator::DuckIntegerDivide {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        }
        let is = |expr: &Expr, fits: fn(&DataType) -> bool| {
            expr.get_type(schema).is_ok_and(|of| fits(&of))
        };
        let are_whole = is(&left, is_whole) && is(&right, is_whole);
        match &*DIV {
            Some(div) if are_whole && (is(&left, is_huge) || is(&right, is_huge)) => {
                Ok(PlannerResult::Planned(div.call(vec![left, right])))
            }
            _ => {
                let op = BinaryOperator::Divide;
                Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
            }
        }
    }
}

/// True for HUGEINT.
fn is_huge(of: &DataType) -> bool {
    *of == DataType::Decimal128(38, 0)
}

fn is_whole(of: &DataType) -> bool {
    of.is_integer() || is_huge(of)
}

fn zero() -> DataFusionError {
    exec_datafusion_err!("division by zero")
}

fn out_of_range() -> DataFusionError {
    exec_datafusion_err!("numeric value out of range")
}

fn mod_integers(call: &Call) -> Result<ArrayRef> {
    call.map2::<Int, Int, Int>(|left, right| match right {
        0 => Err(zero()),
        _ => Ok(Some(left.wrapping_rem(right))),
    })
}

fn mod_doubles(call: &Call) -> Result<ArrayRef> {
    call.map2::<Double, Double, Double>(|left, right| match right {
        0.0 => Err(zero()),
        _ => Ok(Some(left % right)),
    })
}

fn remainder_type(types: &[DataType]) -> Result<DataType> {
    match types {
        [left, right] => BinaryTypeCoercer::new(left, &Operator::Modulo, right).get_result_type(),
        _ => Ok(DataType::Null),
    }
}

fn mod_decimals(call: &Call) -> Result<ArrayRef> {
    let side = |argument: usize| -> Result<Box<dyn Datum>> {
        let array = ArrayRef::clone(call.array(argument)?);
        Ok(match call.is_constant(argument)? && call.rows() != 1 {
            true => Box::new(Scalar::new(array)),
            false => Box::new(array),
        })
    };
    Ok(rem(&*side(0)?, &*side(1)?)?)
}

fn div_integers(call: &Call) -> Result<ArrayRef> {
    call.map2::<Int, Int, Int>(|left, right| match right {
        0 => Err(zero()),
        _ => left.checked_div(right).map(Some).ok_or_else(out_of_range),
    })
}

fn div_doubles(call: &Call) -> Result<ArrayRef> {
    call.map2::<Double, Double, Double>(|left, right| match right {
        0.0 => Err(zero()),
        _ => Ok(Some((left / right).trunc())),
    })
}

/// Quotients without their fractions.
fn div_decimals(call: &Call) -> Result<ArrayRef> {
    let (left_scale, right_scale) = (scale_of(call, 0)?, scale_of(call, 1)?);
    let scale = left_scale.max(right_scale);
    call.map2::<Decimal, Decimal, Decimal>(|left, right| {
        if right == 0 {
            return Err(zero());
        }
        let left = at_scale(left, left_scale, scale).ok_or_else(out_of_range)?;
        let right = at_scale(right, right_scale, scale).ok_or_else(out_of_range)?;
        left.checked_div(right).map(Some).ok_or_else(out_of_range)
    })
}

fn divide_doubles(call: &Call) -> Result<ArrayRef> {
    call.map2::<Double, Double, Double>(|left, right| match right {
        0.0 => Err(zero()),
        _ => Ok(Some(left / right)),
    })
}

fn floor_quotient(call: &Call) -> Result<ArrayRef> {
    call.map2::<Double, Double, Double>(|left, right| match right {
        0.0 => Err(zero()),
        _ => Ok(Some((left / right).floor())),
    })
}

fn floor_remainder(call: &Call) -> Result<ArrayRef> {
    call.map2::<Double, Double, Double>(|left, right| match right {
        0.0 => Err(zero()),
        _ => Ok(Some(left - right * (left / right).floor())),
    })
}
