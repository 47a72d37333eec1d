//! Planning and compilation of expressions outside of queries: the conditions and values of DELETE
//! and UPDATE, and the defaults and constraints of tables.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, ExprWithAlias as SqlExprWithAlias, SelectItem, SetExpr,
    Statement as SqlStatement,
};
use terrace_table::error::SqlError;

use super::parse::parse;
use super::statement::SessionStatement;
use super::{canonical, enums, floats, lists, semantics, short_circuit, types};
use crate::names::Added;

/// Compiler of expressions over rows of one schema.
pub(super) struct Expressions<'a> {
    state: &'a SessionState,
    schema: DFSchemaRef,
    simplifier: ExprSimplifier,
}

impl<'a> Expressions<'a> {
    /// Creates a compiler of expressions over rows of `schema`.
    ///
    /// # Errors
    /// If the schema has two columns of one name.
    pub(super) fn new(state: &'a SessionState, schema: &SchemaRef) -> Result<Self> {
        let schema = Arc::new(DFSchema::try_from(Arc::clone(schema))?);
        let started = state.execution_props().query_execution_start_time;
        let context = SimplifyContext::builder()
            .with_schema(schema.clone())
            .with_config_options(state.config().options().clone())
            .with_query_execution_start_time(started)
            .build();
        Ok(Self { state, schema, simplifier: ExprSimplifier::new(context) })
    }

    /// Returns the schema of the rows.
    pub(super) fn schema(&self) -> &DFSchema {
        &self.schema
    }

    /// Coerces the types of an expression and evaluates its constants.
    ///
    /// # Errors
    /// If the expression does not fit the schema.
    pub(super) fn simplified(&self, expression: Expr) -> Result<Expr> {
        let expression = unqualified(expression)?;
        let mut expression = enums::plan::rewrite_expr(self.state, expression, &self.schema)?;
        let options = self.state.config().options();
        // Before types are coerced, as in the analysis of a plan.
        for rewrite in self.state.analyzer().function_rewrites() {
            let rewritten =
                expression.transform_up(|e| rewrite.rewrite(e, &self.schema, options))?;
            expression = rewritten.data;
        }
        let expression = types::rewrite(expression, self.schema.as_ref())?.data;
        let expression = floats::in_double_precision(expression, self.schema.as_ref())?.data;
        let expression = self.simplifier.coerce(expression, &self.schema)?;
        let zone = semantics::zones::of(options);
        let expression = semantics::rewrite(expression, self.schema.as_ref(), zone)?.data;
        let expression = canonical::rewrite(expression, self.schema.as_ref())?.data;
        lists::simplify(&self.simplifier, expression)
    }

    /// Compiles a simplified expression.
    ///
    /// # Errors
    /// If the expression does not fit the schema.
    pub(super) fn physical(&self, expression: &Expr) -> Result<Arc<dyn PhysicalExpr>> {
        let expression = short_circuit::guarded(expression.clone(), &self.schema)?;
        self.state.create_physical_expr(expression, &self.schema)
    }

    /// Simplifies and compiles an expression.
    ///
    /// # Errors
    /// If the expression does not fit the schema.
    pub(super) fn compiled(&self, expression: Expr) -> Result<Arc<dyn PhysicalExpr>> {
        self.physical(&self.simplified(expression)?)
    }

    /// Plans the text of an expression.
    ///
    /// # Errors
    /// Errors of the text; [`SqlError::Refused`] for a subquery; errors of planning.
    pub(super) fn planned(&self, text: &str) -> Result<Expr, SqlError> {
        planned(self.state, text, &self.schema)
    }
}

/// Plans the text of an expression over rows of `schema`.
///
/// # Errors
/// Errors of the text; [`SqlError::Refused`] for a subquery; errors of planning.
pub(super) fn planned(
    state: &SessionState,
    text: &str,
    schema: &DFSchema,
) -> Result<Expr, SqlError> {
    let mut statements = parse(&format!("SELECT {text}"))?;
    let statement = statements.pop().and_then(SessionStatement::into_sql);
    let mut statement = statement.filter(|_| statements.is_empty()).ok_or_else(|| damaged(text))?;
    Added::rewrite(state, &mut statement);
    enums::names::write_out(state, &mut statement)?;
    let expr = selected(statement).ok_or_else(|| damaged(text))?;
    let expr = SqlExprWithAlias { expr, alias: None };
    let expr = state.create_logical_expr_from_sql_expr(expr, schema)?;
    Ok(enums::plan::rewrite_expr(state, expr, schema)?)
}

/// Returns the expression of `SELECT expression`.
fn selected(statement: Statement) -> Option<SqlExpr> {
    let Statement::Statement(statement) = statement else { return None };
    let SqlStatement::Query(query) = *statement else { return None };
    let SetExpr::Select(select) = *query.body else { return None };
    match select.projection.into_iter().next() {
        Some(SelectItem::UnnamedExpr(expr)) if select.from.is_empty() => Some(expr),
        _ => None,
    }
}

fn damaged(text: &str) -> SqlError {
    let what = format!("the expression {text}");
    SqlError::Refused { what, instead: "say one expression".to_owned() }
}

/// Removes the table qualifiers from the columns of an expression.
///
/// # Errors
/// None.
pub(super) fn unqualified(expression: Expr) -> Result<Expr> {
    let renamed = expression.transform(|expression| match expression {
        Expr::Column(Column { relation: Some(_), name, .. }) => {
            Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name))))
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(renamed?.data)
}
