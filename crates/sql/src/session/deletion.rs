//! Planning of DELETE with an alias or USING.
//!
//! DataFusion plans a DELETE of one table without an alias. Any other is rewritten as an UPDATE
//! that assigns nothing, and the planned UPDATE is turned into a DELETE of the same rows.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::logical_plan::Statement as PlanStatement;
use datafusion::logical_expr::{DmlStatement, LogicalPlan, WriteOp};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Delete, FromTable, Join, JoinConstraint, JoinOperator, Statement as SqlStatement, TableFactor,
    TableWithJoins, Update,
};

/// Rewrites a DELETE with an alias or USING as an UPDATE; returns true if it has done so.
pub(super) fn as_update(statement: &mut Statement) -> bool {
    match statement {
        Statement::Statement(statement) => as_update_sql(statement),
        Statement::Explain(explain) => as_update(&mut explain.statement),
        _ => false,
    }
}

fn as_update_sql(statement: &mut SqlStatement) -> bool {
    match statement {
        SqlStatement::Prepare { statement, .. } | SqlStatement::Explain { statement, .. } => {
            as_update_sql(statement)
        }
        SqlStatement::Delete(delete) => match update_of(delete) {
            Some(update) => {
                *statement = SqlStatement::Update(update);
                true
            }
            None => false,
        },
        _ => false,
    }
}

fn update_of(delete: &mut Delete) -> Option<Update> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let [TableWithJoins { relation: relation @ TableFactor::Table { alias, .. }, joins }] =
        from.as_slice()
    else {
        return None;
    };
    let is_plain = alias.is_none() && delete.using.is_none();
    if is_plain || !joins.is_empty() || !delete.tables.is_empty() {
        return None;
    }
    let using = delete.using.take().unwrap_or_default().into_iter();
    let joins = using.map(|table| Join {
        relation: match table.joins.is_empty() {
            true => table.relation,
            false => TableFactor::NestedJoin { table_with_joins: Box::new(table), alias: None },
        },
        global: false,
        join_operator: JoinOperator::CrossJoin(JoinConstraint::None),
    });
    let joins = joins.collect();
    Some(Update {
        update_token: delete.delete_token.clone(),
        optimizer_hints: delete.optimizer_hints.clone(),
        table: TableWithJoins { relation: relation.clone(), joins },
        assignments: vec![],
        from: None,
        selection: delete.selection.take(),
        returning: None,
        output: delete.output.take(),
        or: None,
        order_by: delete.order_by.clone(),
        limit: delete.limit.clone(),
    })
}

/// Turns the plan of an UPDATE from [`as_update`] into that of the DELETE.
///
/// # Errors
/// None.
pub(super) fn of_update(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Statement(PlanStatement::Prepare(mut prepare)) => {
            prepare.input = of_update(Arc::unwrap_or_clone(prepare.input))?.into();
            LogicalPlan::Statement(PlanStatement::Prepare(prepare))
        }
        LogicalPlan::Explain(mut explain) => {
            explain.plan = of_update(Arc::unwrap_or_clone(explain.plan))?.into();
            LogicalPlan::Explain(explain)
        }
        LogicalPlan::Analyze(mut analyze) => {
            analyze.input = of_update(Arc::unwrap_or_clone(analyze.input))?.into();
            LogicalPlan::Analyze(analyze)
        }
        LogicalPlan::Dml(DmlStatement {
            table_name, target, op: WriteOp::Update, input, ..
        }) => {
            let rows = match Arc::unwrap_or_clone(input) {
                LogicalPlan::Projection(projection) => projection.input,
                other => Arc::new(other),
            };
            LogicalPlan::Dml(DmlStatement::new(table_name, target, WriteOp::Delete, rows))
        }
        other => other,
    })
}
