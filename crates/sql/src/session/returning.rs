//! RETURNING: the clause is planned as a node above the change, since DataFusion's planner has
//! none.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{DFSchema, DFSchemaRef, Result, TableReference, internal_err};
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::logical_expr::logical_plan::Statement as PlanStatement;
use datafusion::logical_expr::{
    DmlStatement, Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore, ident,
};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, ExprWithAlias as SqlExprWithAlias, FromTable, Ident, SelectItem,
    Statement as SqlStatement, TableFactor,
};
use terrace_table::error::SqlError;
use terrace_table::table::Table;
use terrace_table::write::ReturnedColumns;

use super::column_options::normalized;
use super::expressions::{Expressions, unqualified};
use super::properties::{refuse_rows, refuse_subquery};
use super::refusal::refused;
use crate::access::{Privilege, Rights};
use crate::provider::StoredTable;

/// A RETURNING clause, as written.
pub(super) struct Clause {
    items: Vec<SelectItem>,
    /// Name that the statement gives the table.
    alias: Option<Ident>,
}

/// Removes the RETURNING clause from a statement, which DataFusion would refuse, and returns it.
pub(super) fn take(statement: &mut Statement) -> Option<Clause> {
    match statement {
        Statement::Statement(statement) => take_sql(statement),
        // The plan of the change is the same without it.
        Statement::Explain(explain) => {
            drop(take(&mut explain.statement));
            None
        }
        _ => None,
    }
}

fn take_sql(statement: &mut SqlStatement) -> Option<Clause> {
    let alias_of = |table: &TableFactor| match table {
        TableFactor::Table { alias, .. } => alias.as_ref().map(|alias| alias.name.clone()),
        _ => None,
    };
    match statement {
        SqlStatement::Prepare { statement, .. } => take_sql(statement),
        SqlStatement::Explain { statement, .. } => {
            drop(take_sql(statement));
            None
        }
        SqlStatement::Insert(insert) => {
            let alias = insert.table_alias.as_ref().map(|alias| alias.alias.clone());
            insert.returning.take().map(|items| Clause { items, alias })
        }
        SqlStatement::Update(update) => {
            let alias = alias_of(&update.table.relation);
            update.returning.take().map(|items| Clause { items, alias })
        }
        SqlStatement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            let alias = from.first().and_then(|table| alias_of(&table.relation));
            delete.returning.take().map(|items| Clause { items, alias })
        }
        _ => None,
    }
}

/// Adds a RETURNING clause to the plan of its statement.
///
/// # Errors
/// [`SqlError::Refused`] for an expression that is not possible there; errors of planning.
pub(super) fn add(
    state: &SessionState,
    plan: LogicalPlan,
    clause: Option<Clause>,
) -> Result<LogicalPlan, SqlError> {
    let Some(clause) = clause else { return Ok(plan) };
    match plan {
        LogicalPlan::Statement(PlanStatement::Prepare(mut prepare)) => {
            let input = Arc::unwrap_or_clone(prepare.input);
            prepare.input = Arc::new(add(state, input, Some(clause))?);
            Ok(LogicalPlan::Statement(PlanStatement::Prepare(prepare)))
        }
        LogicalPlan::Dml(change) => {
            let node = ReturningNode::new(state, change, &clause)?;
            Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
        }
        _ => Err(refused("RETURNING here", "leave it out")),
    }
}

/// A change of rows and the values that it returns of them.
pub(super) struct ReturningNode {
    change: LogicalPlan,
    /// Expressions over the columns of the table, without their qualifiers.
    values: Vec<Expr>,
    schema: DFSchemaRef,
}

impl ReturningNode {
    fn new(state: &SessionState, change: DmlStatement, clause: &Clause) -> Result<Self, SqlError> {
        let provider = source_as_provider(&change.target)?;
        let Some(stored) = provider.downcast_ref::<StoredTable>() else {
            let what = format!("RETURNING for {}", change.table_name);
            return Err(refused(&what, "only tables of the database return rows"));
        };
        let alias = clause.alias.clone().map(|alias| TableReference::bare(normalized(alias)));
        let name = alias.unwrap_or_else(|| change.table_name.clone());
        let columns = Columns { state, table: stored.table(), name };
        let mut returned = Vec::new();
        for item in &clause.items {
            columns.add(item, &mut returned)?;
        }
        let expressions = Expressions::new(state, stored.table().schema())?;
        let (mut values, mut fields) = (Vec::new(), Vec::new());
        for (name, value) in returned {
            let value = expressions.simplified(value)?;
            let data_type = expressions.physical(&value)?.data_type(stored.table().schema())?;
            fields.push(Arc::new(Field::new(name, data_type, true)));
            values.push(value);
        }
        let fields = fields.into_iter().map(|field| (None, field)).collect();
        let schema = DFSchema::new_with_metadata(fields, Default::default())?;
        Ok(Self { change: LogicalPlan::Dml(change), values, schema: Arc::new(schema) })
    }

    /// Compiles the returned columns.
    ///
    /// # Errors
    /// Errors of planning.
    pub(super) fn columns(
        &self,
        state: &SessionState,
        table: &Table,
    ) -> Result<ReturnedColumns, SqlError> {
        let expressions = Expressions::new(state, table.schema())?;
        let values = self.values.iter().map(|value| expressions.physical(value));
        let schema: SchemaRef = Arc::new(Schema::new(self.schema.fields().clone()));
        Ok(ReturnedColumns { values: values.collect::<Result<_>>()?, schema })
    }

    /// Returns the change below the clause.
    pub(super) fn change(&self) -> &LogicalPlan {
        &self.change
    }
}

/// The node of a plan, if it is a RETURNING.
pub(super) fn of(plan: &LogicalPlan) -> Option<&ReturningNode> {
    match plan {
        LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
        _ => None,
    }
}

/// Refuses a RETURNING of rows that the role may not read.
///
/// # Errors
/// [`SqlError::Denied`].
pub(super) fn check(plan: &LogicalPlan, rights: &Rights<'_>) -> Result<(), SqlError> {
    let Some(LogicalPlan::Dml(change)) = of(plan).map(ReturningNode::change) else {
        return Ok(());
    };
    let provider = source_as_provider(&change.target)?;
    match provider.downcast_ref::<StoredTable>().map(StoredTable::table) {
        Some(table) => rights.require(Privilege::Select, table.schema_name(), Some(table.name())),
        None => Ok(()),
    }
}

/// The name of a returned column without an alias, as PostgreSQL names it.
fn name_of(value: &Expr) -> String {
    match value {
        Expr::Column(column) => column.name.clone(),
        Expr::ScalarFunction(call) => call.name().to_owned(),
        Expr::Cast(cast) => name_of(&cast.expr),
        _ => "?column?".to_owned(),
    }
}

/// The columns of the table that a clause names.
struct Columns<'a> {
    state: &'a SessionState,
    table: &'a Table,
    name: TableReference,
}

impl Columns<'_> {
    /// Adds the columns of an item, with their names.
    fn add(&self, item: &SelectItem, to: &mut Vec<(String, Expr)>) -> Result<(), SqlError> {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let value = self.planned(expr)?;
                to.push((name_of(&value), unqualified(value)?));
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                to.push((normalized(alias.clone()), unqualified(self.planned(expr)?)?));
            }
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => {
                self.refuse_other(item)?;
                let names = self.table.schema().fields().iter().map(|field| field.name());
                to.extend(names.map(|name| (name.clone(), ident(name))));
            }
            other => return Err(refused(&format!("RETURNING {other}"), "name each column once")),
        }
        Ok(())
    }

    /// Refuses the columns of another table, which are not those of changed rows.
    fn refuse_other(&self, item: &SelectItem) -> Result<(), SqlError> {
        let SelectItem::QualifiedWildcard(kind, _) = item else { return Ok(()) };
        let text = kind.to_string();
        let table = text.trim_end_matches(".*").rsplit('.').next().unwrap_or_default();
        match table.trim_matches('"').eq_ignore_ascii_case(self.name.table()) {
            true => Ok(()),
            false => {
                let what = format!("RETURNING {item}");
                Err(refused(&what, &format!("only columns of {} are returned", self.name)))
            }
        }
    }

    fn planned(&self, expr: &SqlExpr) -> Result<Expr, SqlError> {
        refuse_subquery(&expr.to_string(), "RETURNING")?;
        let schema = self.table.schema().as_ref();
        let schema = DFSchema::try_from_qualified_schema(self.name.clone(), schema)?;
        let expr = SqlExprWithAlias { expr: expr.clone(), alias: None };
        let value = self.state.create_logical_expr_from_sql_expr(expr, &schema)?;
        refuse_rows(&value, "RETURNING")?;
        Ok(value)
    }
}

impl UserDefinedLogicalNodeCore for ReturningNode {
    fn name(&self) -> &str {
        "Returning"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.change]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    /// None: the expressions are over the columns of the table, and the input returns a count.
    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<_> = self.values.iter().map(ToString::to_string).collect();
        write!(f, "Returning: {}", values.join(", "))
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(change), true) => {
                let (values, schema) = (self.values.clone(), Arc::clone(&self.schema));
                Ok(Self { change, values, schema })
            }
            _ => internal_err!("RETURNING has one input"),
        }
    }
}

impl fmt::Debug for ReturningNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_for_explain(f)
    }
}

impl PartialEq for ReturningNode {
    fn eq(&self, other: &Self) -> bool {
        self.change == other.change && self.values == other.values && self.schema == other.schema
    }
}

impl Eq for ReturningNode {}

impl Hash for ReturningNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.change.hash(state);
        self.values.hash(state);
    }
}

impl PartialOrd for ReturningNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self == other {
            true => Some(Ordering::Equal),
            false => None,
        }
    }
}
