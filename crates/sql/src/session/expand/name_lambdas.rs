//! `COLUMNS(c -> c LIKE 'a%')`: the columns for whose names a condition is true.
//!
//! The lambda becomes the list of these names: `COLUMNS(['a1', 'a2'])`.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{DFSchema, Result as DataFusionResult};
use datafusion::execution::SessionState;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    Array, Expr, ExprWithAlias, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    LambdaFunction, OneOrManyWithParens, Select, Value,
};
use terrace_table::error::SqlError;

use super::super::refusal::refused;
use super::super::walk::{OwnExprs, walk_values};
use super::stars::Column;

/// Replaces the lambdas in COLUMNS of a SELECT by lists of names. `columns` are those of its FROM.
///
/// # Errors
/// Errors of planning and computing a condition; [`SqlError::Refused`] for a lambda of several
/// variables.
pub(super) fn write_out(
    select: &mut Select,
    columns: &[Column],
    state: &SessionState,
) -> Result<(), SqlError> {
    let names = Names { columns, state };
    let mut error = None;
    let write = |expr: &mut Expr| {
        let Some(argument) = argument(expr) else { return ControlFlow::Continue(()) };
        let Expr::Lambda(lambda) = &*argument else { return ControlFlow::Continue(()) };
        match names.chosen(lambda) {
            Ok(elem) => {
                *argument = Expr::Array(Array { elem, named: false });
                ControlFlow::Continue(())
            }
            Err(refused) => {
                error = Some(refused);
                ControlFlow::Break(())
            }
        }
    };
    let _ = walk_values(select, &mut OwnExprs::outermost_first(write));
    error.map_or(Ok(()), Err)
}

/// The columns that lambdas choose from by name.
struct Names<'a> {
    columns: &'a [Column],
    state: &'a SessionState,
}

impl Names<'_> {
    /// The names for which the lambda is true, as literals.
    fn chosen(&self, lambda: &LambdaFunction) -> Result<Vec<Expr>, SqlError> {
        let variable = match &lambda.params {
            OneOrManyWithParens::One(one) => Some(one),
            OneOrManyWithParens::Many(many) if many.len() == 1 => many.first(),
            OneOrManyWithParens::Many(_) => None,
        };
        let Some(variable) = variable else {
            return Err(refused(
                &format!("COLUMNS({lambda})"),
                "give the lambda one variable, which is the name of a column",
            ));
        };
        let variable = IdentNormalizer::default().normalize(variable.name.clone());
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let is_chosen = conditions(self.state, &variable, &lambda.body, &names)?;
        let mut chosen: Vec<&str> = Vec::new();
        for (name, is_chosen) in names.into_iter().zip(is_chosen) {
            if is_chosen && !chosen.contains(&name) {
                chosen.push(name);
            }
        }
        if chosen.is_empty() {
            return Err(refused(&format!("COLUMNS({lambda})"), "no column matches it"));
        }
        let literal = |name: &str| Expr::Value(Value::SingleQuotedString(name.to_owned()).into());
        Ok(chosen.into_iter().map(literal).collect())
    }
}

/// The argument of a call of COLUMNS; `None` for any other expression.
fn argument(expr: &mut Expr) -> Option<&mut Expr> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else {
        return None;
    };
    let is_columns = matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(
        |name| name.quote_style.is_none() && name.value.eq_ignore_ascii_case("columns")));
    match list.args.as_mut_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))] if is_columns => Some(expr),
        _ => None,
    }
}

/// The value of `condition` for each of `names`, as the value of `variable`; a null is false.
fn conditions(
    state: &SessionState,
    variable: &str,
    condition: &Expr,
    names: &[&str],
) -> DataFusionResult<Vec<bool>> {
    let field = Field::new(variable, DataType::Utf8, false);
    let schema = Arc::new(Schema::new(vec![field]));
    let planned = DFSchema::try_from(Arc::clone(&schema))?;
    let condition = ExprWithAlias { expr: condition.clone(), alias: None };
    let condition = state.create_logical_expr_from_sql_expr(condition, &planned)?;
    let condition = state.create_physical_expr(condition, &planned)?;
    let column = Arc::new(StringArray::from(names.to_vec()));
    let batch = RecordBatch::try_new(schema, vec![column])?;
    let values = condition.evaluate(&batch)?.into_array(names.len())?;
    let values = cast(&values, &DataType::Boolean)?;
    Ok(as_boolean_array(&values)?.iter().map(|value| value == Some(true)).collect())
}
