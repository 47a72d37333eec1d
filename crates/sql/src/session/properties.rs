//! Validation of the defaults and constraints of a table.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable as _, Volatility, lit};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, Ident, Query, VisitorMut};
use terrace_functions::columns::{Usage, as_type, is_checked};
use terrace_table::catalog::Properties;
use terrace_table::error::SqlError;

use super::checks;
use super::column_options::{Written, WrittenCheck, normalized};
use super::dialect::parsed_expr;
use super::enums::written;
use super::expressions::{Expressions, planned};
use super::sql_type;
use super::walk::Walk;

/// Validates the properties of a new table.
///
/// # Errors
/// [`SqlError::Refused`] for an expression that is not possible there;
/// [`SqlError::ConstraintExists`] for a name that is used twice; errors of planning.
pub(super) fn validated(
    state: &SessionState,
    table: &str,
    columns: &SchemaRef,
    written: &Written,
) -> Result<Properties, SqlError> {
    let mut properties = Properties::default();
    for (column, text) in &written.defaults {
        let field = columns.field_with_name(column)?;
        default_of(state, field, text)?;
        properties.change(column, |column| column.default = Some(text.clone()));
    }
    add_generated(state, columns, written, &mut properties)?;
    for check in &written.checks {
        add_check(state, table, columns, &mut properties.checks, check)?;
    }
    Ok(properties)
}

/// Adds the expressions of generated columns.
fn add_generated(
    state: &SessionState,
    columns: &SchemaRef,
    written: &Written,
    properties: &mut Properties,
) -> Result<(), SqlError> {
    let schema = DFSchema::try_from(Arc::clone(columns))?;
    let is_generated = |column: &str| written.generated.iter().any(|(name, _)| name == column);
    for (column, text) in &written.generated {
        let field = Arc::new(columns.field_with_name(column)?.clone());
        let value = generation_of(state, &schema, &field, text, is_generated)?;
        Expressions::new(state, columns)?.compiled(value)?;
        properties.change(column, |column| column.generated = Some(text.clone()));
    }
    Ok(())
}

/// Plans the default of a column, as a value of the column's type.
///
/// # Errors
/// [`SqlError::Refused`] for an expression that is no default; errors of planning.
pub(super) fn default_of(
    state: &SessionState,
    field: &Field,
    text: &str,
) -> Result<Expr, SqlError> {
    let what = format!("the default of column {}", field.name());
    refuse_subquery(text, &what)?;
    if !columns_of(text)?.is_empty() {
        return Err(SqlError::Refused {
            what: format!("a column in {what}, {text}"),
            instead: "say a value that does not depend on the row".to_owned(),
        });
    }
    let value = planned(state, text, &DFSchema::empty())?;
    refuse_rows(&value, &what)?;
    let value = match is_checked(field) {
        true => as_type(value, field, Usage::Assignment),
        false => value.cast_to(field.data_type(), &DFSchema::empty())?,
    };
    let value = written::value(state, value, field)?;
    refuse_unfit(state, field, &value, text)?;
    Ok(value)
}

/// Refuses a default that can never be a value of its column: a constant of another type.
fn refuse_unfit(
    state: &SessionState,
    field: &Field,
    value: &Expr,
    text: &str,
) -> Result<(), SqlError> {
    evaluated(state, value).map_err(|error| SqlError::Refused {
        what: format!(
            "the default {text} of column {}, whose type is {} ({error})",
            field.name(),
            sql_type::of(field)
        ),
        instead: "say a value of that type".to_owned(),
    })
}

/// Compiles an expression without columns, and evaluates it if it is a constant.
fn evaluated(state: &SessionState, value: &Expr) -> Result<(), SqlError> {
    let expressions = Expressions::new(state, &Schema::empty().into())?;
    let simplified = expressions.simplified(value.clone())?;
    let value = expressions.physical(&simplified)?;
    let is_constant = match &simplified {
        Expr::Cast(cast) => matches!(cast.expr.as_ref(), Expr::Literal(..)),
        // The planner evaluates it unless it fails.
        Expr::ScalarFunction(call) => {
            let mut arguments = call.args.iter();
            call.func.signature().volatility == Volatility::Immutable
                && arguments.all(|argument| matches!(argument, Expr::Literal(..)))
        }
        _ => false,
    };
    if is_constant {
        let row = [("row", ScalarValue::from(true).to_array()?)];
        value.evaluate(&RecordBatch::try_from_iter(row)?)?;
    }
    Ok(())
}

/// Validates the expression of a generated column over `fields`, the columns of its table, of which
/// `generated` are generated too, and returns it as a value of the column's type.
///
/// # Errors
/// [`SqlError::Refused`] for an expression that is not possible there; errors of planning.
pub(super) fn generation_of(
    state: &SessionState,
    schema: &DFSchema,
    field: &FieldRef,
    text: &str,
    is_generated: impl Fn(&str) -> bool,
) -> Result<Expr, SqlError> {
    let what = format!("the expression of generated column {}", field.name());
    refuse_subquery(text, &what)?;
    for column in columns_of(text)? {
        if is_generated(&column) {
            return Err(SqlError::Refused {
                what: format!("column {column} in {what}, which is generated too"),
                instead: "write out its expression".to_owned(),
            });
        }
    }
    let value = planned(state, text, schema)?;
    refuse_rows(&value, &what)?;
    let is_volatile = |part: &Expr| {
        Ok(match part {
            Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
            _ => false,
        })
    };
    if value.exists(is_volatile)? {
        return Err(SqlError::Refused {
            what: format!("{what}, {text}, which is not immutable"),
            instead: "use functions whose result depends on their arguments alone".to_owned(),
        });
    }
    Ok(value.cast_to(field.data_type(), schema)?)
}

/// Adds a CHECK constraint, and returns its name.
///
/// # Errors
/// [`SqlError::Refused`] for a condition that is not possible there;
/// [`SqlError::ConstraintExists`]; errors of planning.
pub(super) fn add_check(
    state: &SessionState,
    table: &str,
    columns: &SchemaRef,
    checks: &mut BTreeMap<String, String>,
    check: &WrittenCheck,
) -> Result<String, SqlError> {
    let WrittenCheck { name, text } = check;
    refuse_subquery(text, "a CHECK constraint")?;
    let name = match name {
        Some(name) if checks.contains_key(name) => {
            let (table, constraint) = (table.to_owned(), name.clone());
            return Err(SqlError::ConstraintExists { table, constraint });
        }
        Some(name) => name.clone(),
        None => free_name(table, &columns_of(text)?, checks),
    };
    let schema = DFSchema::try_from(columns.as_ref().clone())?;
    refuse_rows(&planned(state, text, &schema)?, "a CHECK constraint")?;
    checks::compile(state, columns, &name, text)?;
    checks.insert(name.clone(), text.clone());
    Ok(name)
}

/// Returns a name for a constraint as PostgreSQL does: with the column, if it is about one.
fn free_name(table: &str, columns: &BTreeSet<String>, checks: &BTreeMap<String, String>) -> String {
    let mut columns = columns.iter();
    let name = match (columns.next(), columns.next()) {
        (Some(column), None) => format!("{table}_{column}_check"),
        _ => format!("{table}_check"),
    };
    let numbered = (1_u32..).map(|number| format!("{name}{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(|name| !checks.contains_key(name)).unwrap_or(name)
}

/// Refuses expressions that need more than one row, or values of a client.
///
/// # Errors
/// [`SqlError::Refused`].
pub(super) fn refuse_rows(expr: &Expr, what: &str) -> Result<(), SqlError> {
    let mut found = None;
    expr.apply(|expr| {
        found = match expr {
            Expr::AggregateFunction(_) => Some("an aggregate function"),
            Expr::WindowFunction(_) => Some("a window function"),
            Expr::Placeholder(_) => Some("a parameter"),
            Expr::Unnest(_) => Some("a function that returns rows"),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Ok(TreeNodeRecursion::Stop)
    })?;
    match found {
        None => Ok(()),
        Some(found) => Err(SqlError::Refused {
            what: format!("{found} in {what}"),
            instead: "use operators and functions of single values".to_owned(),
        }),
    }
}

/// Refuses the text of an expression with a subquery.
///
/// # Errors
/// [`SqlError::Refused`]; errors of the text.
pub(super) fn refuse_subquery(text: &str, what: &str) -> Result<(), SqlError> {
    struct Subqueries(bool);
    impl VisitorMut for Subqueries {
        type Break = ();

        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.0 = true;
            ControlFlow::Break(())
        }
    }
    let mut found = Subqueries(false);
    let _ = parsed_expr(text)?.walk(&mut found);
    match found.0 {
        false => Ok(()),
        true => Err(SqlError::Refused {
            what: format!("a subquery in {what}"),
            instead: "use operators and functions of single values".to_owned(),
        }),
    }
}

/// Visits the names of columns in an expression.
struct Names<F: FnMut(&mut Ident)>(F);

impl<F: FnMut(&mut Ident)> VisitorMut for Names<F> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
        match expr {
            SqlExpr::Identifier(name) => (self.0)(name),
            SqlExpr::CompoundIdentifier(names) => names.iter_mut().for_each(&mut self.0),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Returns the names of columns in the text of an expression.
///
/// # Errors
/// Errors of the text.
pub(super) fn columns_of(text: &str) -> Result<BTreeSet<String>, SqlError> {
    let mut names = BTreeSet::new();
    let add = |name: &mut Ident| {
        let _is_new = names.insert(normalized(name.clone()));
    };
    let _ = parsed_expr(text)?.walk(&mut Names(add));
    Ok(names)
}

/// Returns the text of an expression with another name for a column.
///
/// # Errors
/// Errors of the text.
pub(super) fn renamed(text: &str, from: &str, to: &str) -> Result<String, SqlError> {
    let mut expr = parsed_expr(text)?;
    let rename = |name: &mut Ident| {
        if normalized(name.clone()) == from {
            *name = Ident::with_quote('"', to);
        }
    };
    let _ = expr.walk(&mut Names(rename));
    Ok(expr.to_string())
}

/// Returns a null of a type.
///
/// # Errors
/// For a type without nulls.
pub(super) fn null_of(data_type: &DataType) -> Result<Expr, SqlError> {
    Ok(lit(ScalarValue::try_from(data_type)?))
}
