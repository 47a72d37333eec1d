//! Columns of one name in a SELECT.
//!
//! `SELECT k, k`, `SELECT 1, 1` and `INSERT INTO t SELECT 0, 0` are everyday SQL, but the schemas of
//! DataFusion's plans have no two columns of one name, and it refuses them. Where it has, the
//! columns get names of their own in the statement, which is planned once more, and the plan's
//! result gets the names that were written:
//! ```text
//! SELECT k, v AS a, w AS a FROM t   ->   SELECT k, v AS "a<1>", w AS "a<2>" FROM t
//! ```
//! A name of several columns with different values is no name any more: a reference to it, which is
//! ambiguous, is an error. Of columns with the same value the first keeps the name.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, Result, SchemaError, internal_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::logical_plan::Statement as PlanStatement;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Select, SelectItem, Statement as SqlStatement, VisitorMut,
};

use super::walk::Walk;

/// Separates a name from the number that makes it unique; no keyboard has it.
const MARK: char = '\u{1f}';

/// Plans a statement whose SELECTs may have columns of one name.
///
/// # Errors
/// Errors of planning.
pub(super) async fn plan(state: &SessionState, statement: &Statement) -> Result<LogicalPlan> {
    let attempts = [None, Some(false), Some(true)];
    let mut refused = None;
    for beside_wildcards in attempts {
        let mut distinct = statement.clone();
        if beside_wildcards.is_some_and(|beside| !distinguish(&mut distinct, beside)) {
            continue;
        }
        match state.statement_to_plan(distinct).await {
            Ok(plan) => return restore(plan),
            Err(error) if refused.is_none() && !is_cause(&error) => return Err(error),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    refused.map_or_else(|| internal_err!("a statement was not planned"), Err)
}

/// True if an error is that of columns of one name.
fn is_cause(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => matches!(
            error.as_ref(),
            SchemaError::DuplicateQualifiedField { .. }
                | SchemaError::DuplicateUnqualifiedField { .. }
                | SchemaError::AmbiguousReference { .. }
        ),
        DataFusionError::Plan(text) => text.contains("require unique expression names"),
        _ => false,
    }
}

/// Gives the columns of one name in each SELECT names of their own. With `beside_wildcards`, columns
/// that stand beside a `*`, which may return them too, get one as well. Returns false if nothing
/// has changed, or if the names are those of a new table or view.
fn distinguish(statement: &mut Statement, beside_wildcards: bool) -> bool {
    let names_are_kept = match statement {
        Statement::CreateExternalTable(_) => true,
        Statement::Statement(statement) => {
            matches!(statement.as_ref(), SqlStatement::CreateTable(_) | SqlStatement::CreateView(_))
        }
        _ => false,
    };
    if names_are_kept {
        return false;
    }
    let mut renaming = Renaming { beside_wildcards, renamed: 0 };
    let _ = statement.walk(&mut renaming);
    renaming.renamed > 0
}

/// Gives the columns of a plan's result the names that were written.
///
/// # Errors
/// If the plan cannot be rebuilt.
fn restore(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Statement(PlanStatement::Prepare(mut prepare)) => {
            prepare.input = restore(prepare.input.as_ref().clone())?.into();
            Ok(LogicalPlan::Statement(PlanStatement::Prepare(prepare)))
        }
        LogicalPlan::Copy(mut copy) => {
            copy.input = restore(copy.input.as_ref().clone())?.into();
            Ok(LogicalPlan::Copy(copy))
        }
        plan if !plan.schema().fields().iter().any(|field| field.name().contains(MARK)) => Ok(plan),
        plan => {
            let columns = plan.schema().columns().into_iter().enumerate();
            let columns: Vec<_> = columns
                .map(|(number, column)| {
                    let written = column.name.split(MARK).next().unwrap_or_default().to_owned();
                    // Columns of one name may differ in their table.
                    let table = format!("column {number}");
                    PlanExpr::Column(column).alias_qualified(Some(table), written)
                })
                .collect();
            LogicalPlanBuilder::from(plan).project(columns)?.build()
        }
    }
}

struct Renaming {
    beside_wildcards: bool,
    /// Columns that have got a name.
    renamed: usize,
}

impl VisitorMut for Renaming {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let is_wildcard = |item: &SelectItem| {
            matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
        };
        let renames_all = self.beside_wildcards && select.projection.iter().any(is_wildcard);
        let mut same: HashMap<String, Vec<String>> = HashMap::new();
        for (name, expr) in select.projection.iter().filter_map(named) {
            same.entry(key(&name, expr)).or_default().push(expr.to_string());
        }
        let mut seen: HashMap<String, usize> = HashMap::new();
        for item in &mut select.projection {
            let Some((name, expr)) = named(item) else { continue };
            let key = key(&name, expr);
            let values = &same[&key];
            let number = *seen.entry(key).and_modify(|seen| *seen += 1).or_insert(1);
            let is_alone = values.len() == 1;
            let is_first_of_equals = number == 1 && values.iter().all(|it| *it == values[0]);
            let keeps_name = is_alone || (is_first_of_equals && is_name(item));
            if renames_all || !keeps_name {
                rename(item, &name, number);
                self.renamed += 1;
            }
        }
        ControlFlow::Continue(())
    }
}

/// The name of a column of a SELECT, and its expression.
fn named(item: &SelectItem) -> Option<(String, &Expr)> {
    let normalizer = IdentNormalizer::default();
    match item {
        SelectItem::UnnamedExpr(expr) => {
            let name = match expr {
                Expr::Identifier(name) => normalizer.normalize(name.clone()),
                Expr::CompoundIdentifier(names) => normalizer.normalize(names.last()?.clone()),
                expr => expr.to_string(),
            };
            Some((name, expr))
        }
        SelectItem::ExprWithAlias { expr, alias } => {
            Some((normalizer.normalize(alias.clone()), expr))
        }
        _ => None,
    }
}

/// True if a column has a name that other parts of the statement may use.
fn is_name(item: &SelectItem) -> bool {
    matches!(
        item,
        SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_))
            | SelectItem::ExprWithAlias { .. }
    )
}

/// The form of a name that all names have in common which DataFusion takes for the same: it writes
/// functions and keywords in its own way.
fn key(name: &str, expr: &Expr) -> String {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => name.to_owned(),
        _ => name.to_lowercase(),
    }
}

fn rename(item: &mut SelectItem, name: &str, number: usize) {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
        return;
    };
    let alias = Ident::with_quote('"', format!("{name}{MARK}{number}"));
    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
}
