//! MERGE: a query for the actions on rows and their new values.
//!
//! The table, with the numbers of its rows, is joined with the source. Of the WHEN clauses for a
//! pair of rows, or for a row without a partner, the first applies whose condition is true. The
//! query returns the rows that this changes, in the order of the table, and new rows at the end;
//! the table's chunks are rewritten from it.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::dml::{
    MergeIntoAction, MergeIntoClause, MergeIntoClauseKind, MergeIntoOp,
};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{
    DmlStatement, Expr, ExprSchemable as _, JoinType, LogicalPlan, LogicalPlanBuilder,
    TableScanBuilder,
};
use datafusion::prelude::lit;
use terrace_table::error::SqlError;
use terrace_table::write::{MergedColumns, RowAction};

use super::refusal::refused;
use super::target::{ROW_NUMBER, TargetTable};
use crate::provider::StoredTable;

/// Name of the column that is true in rows of the source.
const SOURCE_ROW: &str = "terrace source row";
/// Name of the column with the index of the clause that applies to a row.
const CLAUSE: &str = "terrace clause";
/// Name under which RETURNING refers to the name of the action.
pub(super) const MERGE_ACTION: &str = "terrace merge action";

/// A query for the rows that a MERGE changes.
pub(super) struct MergeQuery {
    /// Returns the number of each row, its action, its new values, and the columns for RETURNING.
    pub(super) plan: LogicalPlan,
    /// The columns of the new values.
    pub(super) columns: MergedColumns,
}

/// The kinds of rows that clauses apply to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Matched,
    OfSource,
    OfTarget,
}

impl Kind {
    fn of(clause: &MergeIntoClause) -> Self {
        match clause.kind {
            MergeIntoClauseKind::Matched => Self::Matched,
            MergeIntoClauseKind::NotMatched | MergeIntoClauseKind::NotMatchedByTarget => {
                Self::OfSource
            }
            MergeIntoClauseKind::NotMatchedBySource => Self::OfTarget,
        }
    }
}

/// Plans the query of a MERGE; `others` are the columns that RETURNING needs in addition to those
/// of the table.
///
/// # Errors
/// [`SqlError::Refused`] for a clause that refers to a row that it does not have; errors of
/// planning.
pub(super) fn merge_query(
    statement: &DmlStatement,
    op: &MergeIntoOp,
    target: &StoredTable,
    others: &[Column],
) -> Result<MergeQuery, SqlError> {
    refuse_absent_rows(statement, op)?;
    let table = TargetTable::new(target.at(Some(target.version())));
    let source = provider_as_source(Arc::new(table));
    let scan = TableScanBuilder::new(statement.table_name.clone(), source).build()?;
    let columns = statement.input.schema().columns().into_iter().map(Expr::Column);
    let columns = columns.chain([lit(true).alias(SOURCE_ROW)]);
    let source = LogicalPlanBuilder::from(statement.input.as_ref().clone()).project(columns)?;
    let joined = LogicalPlanBuilder::from(LogicalPlan::TableScan(scan))
        .join_on(source.build()?, join_type(op), [op.on.clone()])?
        .build()?;
    let schema = Arc::clone(joined.schema());
    let number = Column::new(Some(statement.table_name.clone()), ROW_NUMBER);
    let columns = joined.schema().columns().into_iter().map(Expr::Column);
    let columns = columns.chain([clause_of_row(op, &number).alias(CLAUSE)]);
    let chosen = LogicalPlanBuilder::from(joined)
        .project(columns)?
        .filter(Expr::Column(Column::new_unqualified(CLAUSE)).is_not_null())?;
    let Values { columns, values } = new_values(statement, op, target, &schema)?;
    let action =
        by_clause(op, |action| action_of(action).map(|it| lit(it.code())), DataType::UInt8)?;
    let number = Expr::Column(number);
    let values = values.into_iter().enumerate();
    let values = values.map(|(place, value)| value.alias(format!("value {place}")));
    let others = others.iter().enumerate().map(|(place, column)| {
        let value = match column.name == MERGE_ACTION && column.relation.is_none() {
            true => by_clause(
                op,
                |action| action_of(action).map(|it| lit(name_of(it))),
                DataType::Utf8,
            )?,
            false => Expr::Column(column.clone()),
        };
        Ok(value.alias(format!("other {place}")))
    });
    let others = others.collect::<Result<Vec<_>>>()?;
    let order = number.clone().sort(true, false);
    let row = [number, action.alias("action")].into_iter().chain(values).chain(others);
    let plan = chosen.project(row)?.sort([order])?.build()?;
    Ok(MergeQuery { plan, columns })
}

/// The join whose rows the clauses apply to.
fn join_type(op: &MergeIntoOp) -> JoinType {
    let has = |kind| op.clauses.iter().any(|clause| Kind::of(clause) == kind);
    match (has(Kind::OfTarget), has(Kind::OfSource)) {
        (false, false) => JoinType::Inner,
        (true, false) => JoinType::Left,
        (false, true) => JoinType::Right,
        (true, true) => JoinType::Full,
    }
}

/// An expression for the index of the clause that applies to a row; null if none changes the row.
fn clause_of_row(op: &MergeIntoOp, number: &Column) -> Expr {
    let source_row = Expr::Column(Column::new_unqualified(SOURCE_ROW));
    case(
        None,
        vec![
            (Expr::Column(number.clone()).is_null(), first_clause(op, Kind::OfSource)),
            (source_row.is_null(), first_clause(op, Kind::OfTarget)),
        ],
        first_clause(op, Kind::Matched),
    )
}

/// An expression for the index of the first clause of a kind whose condition is true.
fn first_clause(op: &MergeIntoOp, kind: Kind) -> Expr {
    let mut conditions = Vec::new();
    for (place, clause) in (0_i32..).zip(&op.clauses) {
        if Kind::of(clause) != kind {
            continue;
        }
        let place = match action_of(&clause.action) {
            Some(_) => lit(place),
            None => lit(ScalarValue::Int32(None)),
        };
        match &clause.predicate {
            Some(condition) => conditions.push((condition.clone(), place)),
            None => return case(None, conditions, place),
        }
    }
    case(None, conditions, lit(ScalarValue::Int32(None)))
}

/// The action of a clause; `None` for one without effect.
fn action_of(action: &MergeIntoAction) -> Option<RowAction> {
    match action {
        MergeIntoAction::Update(assignments) if assignments.is_empty() => None,
        MergeIntoAction::Update(_) => Some(RowAction::Update),
        MergeIntoAction::Delete => Some(RowAction::Delete),
        MergeIntoAction::Insert { .. } => Some(RowAction::Insert),
    }
}

/// The name of an action as `merge_action()` returns it.
fn name_of(action: RowAction) -> &'static str {
    match action {
        RowAction::Update => "UPDATE",
        RowAction::Delete => "DELETE",
        RowAction::Insert => "INSERT",
    }
}

/// A CASE over the clause of a row: `value` of the clause's action, null for an action without one.
fn by_clause(
    op: &MergeIntoOp,
    value: impl Fn(&MergeIntoAction) -> Option<Expr>,
    data_type: DataType,
) -> Result<Expr> {
    let values = (0_i32..).zip(&op.clauses);
    let values = values.filter_map(|(place, clause)| Some((lit(place), value(&clause.action)?)));
    let other = lit(ScalarValue::try_from(&data_type)?);
    Ok(case(Some(Expr::Column(Column::new_unqualified(CLAUSE))), values.collect(), other))
}

/// The new values of rows, and the columns that they are for.
struct Values {
    columns: MergedColumns,
    values: Vec<Expr>,
}

fn new_values(
    statement: &DmlStatement,
    op: &MergeIntoOp,
    target: &StoredTable,
    schema: &DFSchema,
) -> Result<Values> {
    let inserts =
        op.clauses.iter().any(|clause| matches!(clause.action, MergeIntoAction::Insert { .. }));
    let (mut columns, mut is_updated, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let fields = target.table().schema().fields();
    for (index, field) in fields.iter().enumerate() {
        let name = field.name().as_str();
        let updates = op.clauses.iter().any(|clause| {
            matches!(&clause.action, MergeIntoAction::Update(assignments)
                if assignments.iter().any(|(column, _)| column == name))
        });
        if !inserts && !updates {
            continue;
        }
        let mut of_clauses = Vec::new();
        for (place, clause) in (0_i32..).zip(&op.clauses) {
            let value = match &clause.action {
                MergeIntoAction::Update(assignments) => {
                    let assigned = assignments.iter().find(|(column, _)| column == name);
                    assigned.map(|(_, value)| value.clone())
                }
                MergeIntoAction::Insert { columns, values } => {
                    let place = match columns.is_empty() {
                        true => Some(index),
                        false => columns.iter().position(|column| column == name),
                    };
                    place.and_then(|place| values.get(place).cloned())
                }
                MergeIntoAction::Delete => None,
            };
            if let Some(value) = value {
                of_clauses.push((lit(place), value.cast_to(field.data_type(), schema)?));
            }
        }
        // A clause that does not assign the column keeps its value.
        let own = match updates {
            true => Expr::Column(Column::new(Some(statement.table_name.clone()), name)),
            false => lit(ScalarValue::try_from(field.data_type())?),
        };
        let clause = Expr::Column(Column::new_unqualified(CLAUSE));
        values.push(case(Some(clause), of_clauses, own));
        columns.push(index);
        is_updated.push(updates);
    }
    let columns = MergedColumns { columns: columns.into(), is_updated: is_updated.into() };
    Ok(Values { columns, values })
}

/// A CASE expression with `other` as its ELSE; `other` alone if `values` has no branches.
fn case(of: Option<Expr>, values: Vec<(Expr, Expr)>, other: Expr) -> Expr {
    if values.is_empty() {
        return other;
    }
    let values = values.into_iter().map(|(when, then)| (Box::new(when), Box::new(then)));
    Expr::Case(Case::new(of.map(Box::new), values.collect(), Some(Box::new(other))))
}

/// Refuses clauses for rows of one side that refer to the other side.
fn refuse_absent_rows(statement: &DmlStatement, op: &MergeIntoOp) -> Result<(), SqlError> {
    let is_of_table = |column: &Column| column.relation.as_ref() == Some(&statement.table_name);
    for clause in &op.clauses {
        let (table_is_absent, name) = match Kind::of(clause) {
            Kind::Matched => continue,
            Kind::OfSource => (true, "WHEN NOT MATCHED"),
            Kind::OfTarget => (false, "WHEN NOT MATCHED BY SOURCE"),
        };
        let values: Vec<&Expr> = match &clause.action {
            MergeIntoAction::Update(assignments) => {
                assignments.iter().map(|(_, value)| value).collect()
            }
            MergeIntoAction::Insert { values, .. } => values.iter().collect(),
            MergeIntoAction::Delete => vec![],
        };
        for expr in clause.predicate.iter().chain(values) {
            let is_absent = |column: &Column| is_of_table(column) == table_is_absent;
            if let Some(column) = find_column(expr, &is_absent)? {
                return Err(refused(
                    &format!("column {column} in {name}"),
                    "only the row that has no match is there: name its columns",
                ));
            }
        }
    }
    Ok(())
}

/// The first column of an expression, or of the rows around its subqueries, that satisfies `is`.
fn find_column(expr: &Expr, is: &dyn Fn(&Column) -> bool) -> Result<Option<Column>> {
    let mut found = None;
    expr.apply(|expr| {
        let outer: &[Expr] = match expr {
            Expr::Column(column) if is(column) => {
                found = Some(column.clone());
                &[]
            }
            Expr::ScalarSubquery(subquery) => &subquery.outer_ref_columns,
            Expr::Exists(exists) => &exists.subquery.outer_ref_columns,
            Expr::InSubquery(within) => &within.subquery.outer_ref_columns,
            Expr::SetComparison(comparison) => &comparison.subquery.outer_ref_columns,
            _ => &[],
        };
        for expr in outer {
            if let Expr::OuterReferenceColumn(_, column) = expr
                && is(column)
            {
                found = Some(column.clone());
            }
        }
        Ok(match found {
            Some(_) => TreeNodeRecursion::Stop,
            None => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}
