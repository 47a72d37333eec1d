//! Statements that change rows of a stored table and that DataFusion's planner would get wrong:
//! DELETE, UPDATE, MERGE, and an INSERT OVERWRITE that reads the table it overwrites.
//!
//! DataFusion passes a table the filters that remain in the optimized plan of a DELETE or UPDATE.
//! Conditions with a subquery or a second table are not among them, nor is one that the optimizer
//! has proved false, so too many rows would be changed. A statement that selects rows by their own
//! values only is planned from its conditions before they are optimized (`dml`). Any other becomes
//! a query for the numbers of the affected rows and their new values, sorted by number, from which
//! the table's chunks are rewritten.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{
    Column, Result as DataFusionResult, TableReference, not_impl_err, plan_err,
};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    DmlStatement, Expr, LogicalPlan, LogicalPlanBuilder, TableScanBuilder, WriteOp,
};
use futures::FutureExt as _;
use terrace_table::error::SqlError;
use terrace_table::write::{
    ByNumber, CountExec, MergedColumns, Required, ReturnedColumns, Selection, Terms, insert_plan,
    write_rows,
};

use super::checks;
use super::dml::dml_plan;
use super::exclusive::{Begun, Exclusive, stored_table};
use super::merge_statement::{MergeQuery, merge_query};
use super::returning::{self, ReturningNode};
use super::state::{Planned, Session};
use super::target::{ROW_NUMBER, TargetTable};
use crate::provider::StoredTable;

impl Session {
    /// Plans a change of rows that DataFusion must not plan; `None` for any other statement.
    pub(super) async fn modify(
        &self,
        state: &SessionState,
        plan: &LogicalPlan,
    ) -> Result<Option<Planned>, SqlError> {
        let node = returning::of(plan);
        let LogicalPlan::Dml(statement) = node.map_or(plan, ReturningNode::change) else {
            return Ok(None);
        };
        let provider = source_as_provider(&statement.target)?;
        if !provider.is::<StoredTable>() {
            return Ok(None);
        }
        let target = stored_table(&statement.target)?;
        let returned = Returned {
            columns: node.map(|node| node.columns(state)).transpose()?,
            others: node.map(ReturningNode::others).unwrap_or_default(),
        };
        match &statement.op {
            WriteOp::Delete | WriteOp::Update
                if concerns_one_table(&statement.input, &statement.table_name)? =>
            {
                let plan = dml_plan(state, target.table(), statement, returned.columns)?;
                Ok(Some(Planned { plan, watched: None }))
            }
            WriteOp::Delete | WriteOp::Update | WriteOp::MergeInto(_) => {
                self.modify_by_query(state, statement, target, returned).await.map(Some)
            }
            // It reads its rows once it has locked the table.
            WriteOp::Insert(InsertOp::Overwrite) => {
                self.overwrite(state, statement, target, returned.columns).await.map(Some)
            }
            WriteOp::Insert(op) => {
                let checks = checks::compiled(state, target.table())?;
                let returned = returned.columns;
                if returned.is_none() && checks.is_empty() {
                    return Ok(None);
                }
                let input = state.create_physical_plan(&statement.input).await?;
                let watched = Some(Arc::clone(&input));
                let plan = insert_plan(target.table(), input, *op, Required { checks, returned })?;
                Ok(Some(Planned { plan, watched }))
            }
            _ => Ok(None),
        }
    }

    /// A plan that changes the rows selected by a query.
    async fn modify_by_query(
        &self,
        state: &SessionState,
        statement: &DmlStatement,
        target: StoredTable,
        returned: Returned<'_>,
    ) -> Result<Planned, SqlError> {
        let RowQuery { plan, change } = row_query(statement, &target, returned.others)?;
        let catalog = Arc::clone(self.engine.catalog());
        let exclusive = Arc::new(Exclusive::new(catalog, state.clone(), plan, &target).await?);
        let watched = Some(Arc::clone(exclusive.physical()));
        let what = format!("{}Exec: table={}", statement.op, target.table().full_name());
        let plan = CountExec::changing(what, returned.columns, move |context, returning| {
            let (exclusive, change) = (Arc::clone(&exclusive), change.clone());
            async move {
                let memory = Arc::clone(context.memory_pool());
                let Begun { rewrite, rows, checks } = exclusive.begin(context).await?;
                let terms = Terms { checks, returning };
                let rows = match change {
                    Change::Delete => ByNumber::deleted(rows),
                    Change::Update(columns) => ByNumber::updated(rows, columns),
                    Change::Merge(columns) => ByNumber::merged(rows, columns),
                };
                let table = Arc::clone(rewrite.table());
                Ok(table.rewrite_rows(rewrite, Selection::Numbers(rows), terms, &memory).await?)
            }
            .boxed()
        });
        Ok(Planned { plan, watched })
    }

    /// A plan that replaces a table's rows by those of a query over it.
    async fn overwrite(
        &self,
        state: &SessionState,
        statement: &DmlStatement,
        target: StoredTable,
        returned: Option<ReturnedColumns>,
    ) -> Result<Planned, SqlError> {
        let (catalog, input) = (Arc::clone(self.engine.catalog()), statement.input.as_ref());
        let exclusive = Exclusive::new(catalog, state.clone(), input.clone(), &target).await?;
        let exclusive = Arc::new(exclusive);
        let watched = Some(Arc::clone(exclusive.physical()));
        let what = format!("OverwriteExec: table={}", target.table().full_name());
        let plan = CountExec::changing(what, returned, move |context, returning| {
            let exclusive = Arc::clone(&exclusive);
            async move {
                let memory = Arc::clone(context.memory_pool());
                let Begun { rewrite, rows, checks } = exclusive.begin(context).await?;
                let terms = Terms { checks, returning };
                let changes = write_rows(rewrite.table(), rows, terms, &memory).await?;
                let count = changes.rows();
                rewrite.finish(changes.replacing_all()).await?;
                Ok(count)
            }
            .boxed()
        });
        Ok(Planned { plan, watched })
    }
}

/// True if a plan reads only `table`, row by row.
fn concerns_one_table(plan: &LogicalPlan, table: &TableReference) -> DataFusionResult<bool> {
    let mut simple = true;
    plan.apply_with_subqueries(|node| {
        simple &= match node {
            LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
                true
            }
            LogicalPlan::EmptyRelation(_) => true,
            LogicalPlan::TableScan(scan) => scan.table_name.resolved_eq(table),
            _ => false,
        };
        Ok(if simple { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(simple)
}

/// The columns that a statement returns.
struct Returned<'a> {
    /// `None` if it returns the number of rows.
    columns: Option<ReturnedColumns>,
    /// Columns of its other tables that they are computed from.
    others: &'a [Column],
}

/// The change of the rows that a query returns.
#[derive(Clone)]
enum Change {
    Delete,
    /// The columns of these indexes get new values.
    Update(Vec<usize>),
    Merge(MergedColumns),
}

/// A query for the rows that a statement changes.
struct RowQuery {
    /// Returns the number of each row, its new values, and the columns for RETURNING, ordered by
    /// number.
    plan: LogicalPlan,
    change: Change,
}

fn row_query(
    statement: &DmlStatement,
    target: &StoredTable,
    others: &[Column],
) -> Result<RowQuery, SqlError> {
    let (input, values, change) = match (&statement.op, statement.input.as_ref()) {
        (WriteOp::MergeInto(op), _) => {
            let MergeQuery { plan, columns } = merge_query(statement, op, target, others)?;
            return Ok(RowQuery { plan, change: Change::Merge(columns) });
        }
        (WriteOp::Update, LogicalPlan::Projection(projection)) => {
            let input = numbered(&projection.input, target)?;
            let (columns, values) = new_values(&projection.expr, &input, target)?;
            (input, values, Change::Update(columns))
        }
        (WriteOp::Delete, input) => (numbered(input, target)?, vec![], Change::Delete),
        (op, input) => {
            return Ok(not_impl_err!("{op} of rows chosen by {}", input.display())?);
        }
    };
    let number = Expr::Column(number_of(&input)?);
    let values = values.into_iter().enumerate();
    let values = values.map(|(place, value)| value.alias(format!("value {place}")));
    let others = others.iter().cloned().map(Expr::Column).enumerate();
    let others = others.map(|(place, value)| value.alias(format!("other {place}")));
    let rows = [number].into_iter().chain(values).chain(others);
    let input = LogicalPlanBuilder::from(input).project(rows)?.build()?;
    let number = Expr::Column(number_of(&input)?);
    let plan = LogicalPlanBuilder::from(input).sort([number.sort(true, false)])?.build()?;
    Ok(RowQuery { plan, change })
}

/// The columns that an UPDATE assigns another value than their own, and these values.
fn new_values(
    projection: &[Expr],
    input: &LogicalPlan,
    target: &StoredTable,
) -> DataFusionResult<(Vec<usize>, Vec<Expr>)> {
    let fields = target.table().schema().fields();
    if projection.len() != fields.len() {
        let name = target.table().full_name();
        return plan_err!("an UPDATE of {name} has {} of its columns", projection.len());
    }
    let relation = number_of(input)?.relation;
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for (index, (value, field)) in projection.iter().zip(fields).enumerate() {
        let value = value.clone().unalias();
        if value != Expr::Column(Column::new(relation.clone(), field.name())) {
            columns.push(index);
            values.push(value);
        }
    }
    Ok((columns, values))
}

/// Adds the row number of `target`, the plan's first input, as a column.
fn numbered(plan: &LogicalPlan, target: &StoredTable) -> DataFusionResult<LogicalPlan> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let table = TargetTable::new(target.at(Some(target.version())));
            let mut projection = scan.projection.clone();
            projection.iter_mut().for_each(|columns| columns.push(table.number_index()));
            let (name, source) = (scan.table_name.clone(), provider_as_source(Arc::new(table)));
            let scan = TableScanBuilder::new(name, source)
                .with_projection(projection)
                .with_filters(scan.filters.clone())
                .with_fetch(scan.fetch)
                .build()?;
            Ok(LogicalPlan::TableScan(scan))
        }
        LogicalPlan::Projection(projection) => {
            let input = numbered(&projection.input, target)?;
            let number = Expr::Column(number_of(&input)?);
            let columns = projection.expr.iter().cloned().chain([number]);
            LogicalPlanBuilder::from(input).project(columns)?.build()
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_) => {
            let mut inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
            let Some(first) = inputs.first_mut() else {
                return plan_err!("{} has no input", plan.display());
            };
            *first = numbered(first, target)?;
            plan.with_new_exprs(plan.expressions(), inputs)
        }
        other => not_impl_err!(
            "changing rows of {} chosen by {}",
            target.table().full_name(),
            other.display()
        ),
    }
}

/// The column of row numbers in the output of a plan.
fn number_of(plan: &LogicalPlan) -> DataFusionResult<Column> {
    let mut fields = plan.schema().iter();
    let number = fields.find(|(_, field)| field.name() == ROW_NUMBER);
    match number {
        Some(number) => Ok(Column::from(number)),
        None => plan_err!("{} has lost the numbers of its rows", plan.display()),
    }
}
