//! Casts of parameters that are operands to the types that the caller knows.
//!
//! DataFusion gives a parameter the type of the other operand: `now() - $1` would be a difference
//! of two timestamps, also if `$1` is an interval. The operand becomes a cast to the known type
//! before the statement is planned. In `$1 || $2` without known types, both are texts, as in
//! PostgreSQL.

use std::mem;
use std::ops::ControlFlow;

use datafusion::arrow::datatypes::DataType;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType as SqlType, Expr, Value, ValueWithSpan, VisitorMut,
};

use super::walk::Walk;

/// Casts the operands of a statement that are parameters; `types` has the known types, `$1` first.
pub(super) fn write_out(statement: &mut Statement, types: &[Option<DataType>]) {
    let _ = statement.walk(&mut Operands(types));
}

struct Operands<'a>(&'a [Option<DataType>]);

impl Operands<'_> {
    /// The known type of a parameter; the inner `None` if it has none.
    fn of(&self, expr: &Expr) -> Option<Option<&DataType>> {
        let Expr::Value(ValueWithSpan { value: Value::Placeholder(id), .. }) = expr else {
            return None;
        };
        let number: usize = id.strip_prefix('$')?.parse().ok()?;
        Some(self.0.get(number.checked_sub(1)?).and_then(Option::as_ref))
    }
}

/// The SQL type that a parameter of type `of` is cast to: intervals and integers, which may differ
/// from the type of the other operand. `None` for other types.
fn operand_type(of: &DataType) -> Option<SqlType> {
    match of {
        DataType::Interval(_) => Some(SqlType::Interval { fields: None, precision: None }),
        DataType::Int16 => Some(SqlType::SmallInt(None)),
        DataType::Int32 => Some(SqlType::Int(None)),
        DataType::Int64 => Some(SqlType::BigInt(None)),
        _ => None,
    }
}

fn cast(expr: &mut Expr, data_type: SqlType) {
    let operand = mem::replace(expr, Expr::Value(Value::Null.into()));
    *expr = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(operand),
        data_type,
        array: false,
        format: None,
    };
}

impl VisitorMut for Operands<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::BinaryOp { left, op, right } = expr else { return ControlFlow::Continue(()) };
        match op {
            BinaryOperator::Plus | BinaryOperator::Minus => {
                for operand in [left, right] {
                    if let Some(of) = self.of(operand).flatten().and_then(operand_type) {
                        cast(operand, of);
                    }
                }
            }
            BinaryOperator::StringConcat
                if self.of(left) == Some(None) && self.of(right) == Some(None) =>
            {
                cast(left, SqlType::Text);
                cast(right, SqlType::Text);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
