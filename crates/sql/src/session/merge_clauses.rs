//! Rewrites of the WHEN clauses of a MERGE before planning.
//!
//! - `DO NOTHING` becomes an UPDATE without assignments.
//! - INSERT gets a value for each column of the table: those that it does not name, and DEFAULT,
//!   get the default of the column.
//! - A column's name without its table in a clause for rows of one side is one of that side.

use std::ops::ControlFlow;

use datafusion::common::{Column, TableReference};
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, Expr, Ident, Merge, MergeAction, MergeClause, MergeClauseKind,
    MergeInsertExpr, MergeInsertKind, MergeUpdateExpr, ObjectName, SetExpr,
    Statement as SqlStatement, TableFactor, TableWithJoins,
};
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;
use terrace_table::table::Table;

use super::column_options::normalized;
use super::dialect::parsed_query;
use super::refusal::refused;
use super::spelling::{DEFAULTS, NOTHING};
use super::walk::{OwnExprs, Walk};
use super::{defaults, list_literals, row_assignments};

/// Rewrites the WHEN clauses of a MERGE into a stored table, as this module's documentation lists;
/// leaves a MERGE into another relation unchanged.
///
/// # Errors
/// [`SqlError::Refused`] for a clause that never applies; errors of the texts of defaults.
pub(super) async fn write_out(
    state: &SessionState,
    snapshot: &Snapshot,
    merge: &mut Merge,
) -> Result<(), SqlError> {
    refuse_unreachable(&merge.clauses)?;
    let TableFactor::Table { name, alias, .. } = &merge.table else { return Ok(()) };
    let Some(table) = defaults::target(state, snapshot, name) else { return Ok(()) };
    let qualifier = match alias {
        Some(alias) => vec![alias.name.clone()],
        None => name.0.iter().filter_map(|part| part.as_ident().cloned()).collect(),
    };
    let fields = table.schema().fields().iter();
    let target =
        Side { columns: fields.map(|field| (field.name().clone(), qualifier.clone())).collect() };
    let source = Side::of_source(state, &merge.source).await;
    for clause in &mut merge.clauses {
        let is_of_source = match clause.clause_kind {
            MergeClauseKind::Matched => None,
            MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => Some(true),
            MergeClauseKind::NotMatchedBySource => Some(false),
        };
        write_out_action(&mut clause.action, &table)?;
        if let Some(is_of_source) = is_of_source {
            let side = if is_of_source { &source } else { &target };
            exprs(clause).for_each(|expr| side.qualify(expr));
        }
    }
    Ok(())
}

/// Refuses a clause that follows one without a condition for the same kind of rows.
fn refuse_unreachable(clauses: &[MergeClause]) -> Result<(), SqlError> {
    let kind = |clause: &MergeClause| match clause.clause_kind {
        MergeClauseKind::NotMatchedByTarget => MergeClauseKind::NotMatched,
        kind => kind,
    };
    let mut complete = Vec::new();
    for clause in clauses {
        if complete.contains(&kind(clause)) {
            return Err(refused(
                "an unreachable WHEN clause specified after an unconditional WHEN clause",
                "put the clause without a condition last",
            ));
        }
        if clause.predicate.is_none() {
            complete.push(kind(clause));
        }
    }
    Ok(())
}

fn write_out_action(action: &mut MergeAction, table: &Table) -> Result<(), SqlError> {
    match action {
        MergeAction::Update(update) => {
            row_assignments::write_out(&mut update.assignments)?;
            let is_nothing = |target: &AssignmentTarget| match target {
                AssignmentTarget::ColumnName(name) => is_marker(name, NOTHING),
                AssignmentTarget::Tuple(_) => false,
            };
            update.assignments.retain(|assignment| !is_nothing(&assignment.target));
            for assignment in &mut update.assignments {
                let AssignmentTarget::ColumnName(name) = &assignment.target else { continue };
                if let (true, Some(column)) = (defaults::is_default(&assignment.value), last(name))
                {
                    assignment.value = defaults::written(table, &column)?;
                }
            }
            Ok(())
        }
        MergeAction::Insert(insert) => match insert.columns.as_slice() {
            [name] if is_marker(name, NOTHING) => {
                let token = insert.insert_token.clone();
                *action = MergeAction::Update(MergeUpdateExpr {
                    update_token: token,
                    assignments: vec![],
                    update_predicate: None,
                    delete_predicate: None,
                });
                Ok(())
            }
            _ => write_out_insert(insert, table),
        },
        MergeAction::Delete { .. } => Ok(()),
    }
}

/// Gives an INSERT a value for each column of the table.
fn write_out_insert(insert: &mut MergeInsertExpr, table: &Table) -> Result<(), SqlError> {
    let MergeInsertKind::Values(values) = &mut insert.kind else { return Ok(()) };
    let [row] = values.rows.as_mut_slice() else { return Ok(()) };
    let fields = table.schema().fields();
    let quoted = |name: &str| ObjectName::from(vec![Ident::with_quote('"', name)]);
    if matches!(insert.columns.as_slice(), [name] if is_marker(name, DEFAULTS)) {
        insert.columns.clear();
        row.content.clear();
    } else if insert.columns.is_empty() {
        let names = fields.iter().take(row.content.len());
        insert.columns = names.map(|field| quoted(field.name())).collect();
    }
    if insert.columns.len() != row.content.len() {
        return Ok(());
    }
    for (name, value) in insert.columns.iter().zip(&mut row.content) {
        if let (true, Some(column)) = (defaults::is_default(value), last(name)) {
            *value = defaults::written(table, &column)?;
        }
    }
    let named: Vec<_> = insert.columns.iter().filter_map(last).collect();
    for field in fields.iter().filter(|field| !named.contains(field.name())) {
        insert.columns.push(quoted(field.name()));
        row.content.push(defaults::written(table, field.name())?);
    }
    Ok(())
}

/// The last part of a column's name.
fn last(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().cloned().map(normalized)
}

/// True if the name of a column is `marker`, by which the parser marks a clause.
fn is_marker(name: &ObjectName, marker: &str) -> bool {
    let part = name.0.last().and_then(|part| part.as_ident());
    part.is_some_and(|part| part.quote_style.is_some() && part.value == marker)
}

/// The expressions of a clause.
fn exprs(clause: &mut MergeClause) -> impl Iterator<Item = &mut Expr> {
    let values: Vec<&mut Expr> = match &mut clause.action {
        MergeAction::Update(update) => {
            update.assignments.iter_mut().map(|assignment| &mut assignment.value).collect()
        }
        MergeAction::Insert(insert) => match &mut insert.kind {
            MergeInsertKind::Values(values) => {
                values.rows.iter_mut().flat_map(|row| &mut row.content).collect()
            }
            MergeInsertKind::Row => vec![],
        },
        MergeAction::Delete { .. } => vec![],
    };
    clause.predicate.iter_mut().chain(values)
}

/// The columns of the table or of the source, with the parts of their qualifier.
struct Side {
    columns: Vec<(String, Vec<Ident>)>,
}

impl Side {
    /// The columns of the source; none if it cannot be planned, which is reported later.
    async fn of_source(state: &SessionState, source: &TableFactor) -> Self {
        let columns = source_columns(state, source).await.unwrap_or_default();
        let columns = columns.into_iter().filter_map(|Column { relation, name, .. }| {
            let parts = match relation? {
                TableReference::Bare { table } => vec![table],
                TableReference::Partial { schema, table } => vec![schema, table],
                TableReference::Full { catalog, schema, table } => vec![catalog, schema, table],
            };
            let parts = parts.iter().map(|part| Ident::with_quote('"', part.as_ref()));
            Some((name, parts.collect()))
        });
        Self { columns: columns.collect() }
    }

    /// Gives the names of columns of this side their qualifier, outside of subqueries.
    fn qualify(&self, expr: &mut Expr) {
        let qualify = |expr: &mut Expr| {
            let Expr::Identifier(name) = &*expr else { return ControlFlow::Continue(()) };
            let column = normalized(name.clone());
            let found = self.columns.iter().find(|(name, _)| *name == column);
            if let Some((_, qualifier)) = found {
                let parts = qualifier.iter().chain([name]).cloned().collect();
                *expr = Expr::CompoundIdentifier(parts);
            }
            ControlFlow::Continue(())
        };
        let _ = expr.walk(&mut OwnExprs::innermost_first(qualify));
    }
}

async fn source_columns(
    state: &SessionState,
    source: &TableFactor,
) -> Result<Vec<Column>, SqlError> {
    let mut query = parsed_query("SELECT * FROM t")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.from = vec![TableWithJoins { relation: source.clone(), joins: vec![] }];
    }
    let statement = Statement::Statement(Box::new(SqlStatement::Query(Box::new(query))));
    let plan = list_literals::plan(state, statement).await?;
    Ok(plan.schema().columns())
}
