//! The columns that a RETURNING clause names: those of the changed table, of the statement's other
//! tables, and `merge_action()`.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column, DFSchema, ExprSchema as _, Result, TableReference};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DmlStatement, Expr, LogicalPlan, WriteOp};
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, ExprWithAlias as SqlExprWithAlias, Ident, SelectItem,
    SelectItemQualifiedWildcardKind, VisitorMut, WildcardAdditionalOptions,
};
use terrace_table::error::SqlError;
use terrace_table::table::Table;

use super::column_options::normalized;
use super::expressions::unqualified;
use super::merge_statement::MERGE_ACTION;
use super::properties::{refuse_rows, refuse_subquery};
use super::refusal::refused;
use super::returning_clause::Clause;
use super::walk::Walk;

/// Planned columns of a RETURNING clause.
pub(super) struct Returned {
    /// Names, and expressions over the columns of `rows`.
    pub(super) columns: Vec<(String, Expr)>,
    /// Columns of other tables that the expressions use.
    pub(super) others: Vec<Column>,
    /// The columns of the table, then those of other tables under names of their own.
    pub(super) rows: SchemaRef,
}

/// Plans the columns of a clause.
///
/// # Errors
/// [`SqlError::Refused`] for an expression that is not possible there; errors of planning.
pub(super) fn returned(
    state: &SessionState,
    change: &DmlStatement,
    table: &Table,
    clause: &Clause,
) -> Result<Returned, SqlError> {
    let alias = clause.alias.clone().map(|alias| TableReference::bare(normalized(alias)));
    let name = alias.unwrap_or_else(|| change.table_name.clone());
    let of_table = DFSchema::try_from_qualified_schema(name.clone(), table.schema().as_ref())?;
    let (is_merge, others) = (clause.is_merge, other_columns(change, &name));
    let mut visible = of_table.join(&with_qualifiers(others.clone())?)?;
    if is_merge {
        let action = Arc::new(Field::new(MERGE_ACTION, DataType::Utf8, false));
        visible.merge(&with_qualifiers(vec![(None, action)])?);
    }
    let (columns, needed) = (Vec::new(), Vec::new());
    let mut found = Columns { state, table, name, is_merge, others, visible, columns, needed };
    for item in &clause.items {
        found.add(item)?;
    }
    let needed = found.needed.iter().enumerate().map(|(place, column)| {
        let field = found.visible.field_from_column(column)?;
        Ok(Arc::new(Field::new(needed_name(place), field.data_type().clone(), true)))
    });
    let fields = table.schema().fields().iter().cloned().map(Ok).chain(needed);
    let rows = Arc::new(Schema::new(fields.collect::<Result<Vec<FieldRef>>>()?));
    Ok(Returned { columns: found.columns, others: found.needed, rows })
}

type QualifiedField = (Option<TableReference>, FieldRef);

fn with_qualifiers(fields: Vec<QualifiedField>) -> Result<DFSchema> {
    DFSchema::new_with_metadata(fields, Default::default())
}

/// The columns of the statement's other tables.
fn other_columns(change: &DmlStatement, name: &TableReference) -> Vec<QualifiedField> {
    let rows = match (&change.op, change.input.as_ref()) {
        (WriteOp::Insert(_), _) => return vec![],
        (WriteOp::Update, LogicalPlan::Projection(projection)) => projection.input.schema(),
        (_, input) => input.schema(),
    };
    let is_merge = matches!(change.op, WriteOp::MergeInto(_));
    let fields = rows.iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
    fields.filter(|(qualifier, _)| is_merge || qualifier.as_ref() != Some(name)).collect()
}

/// The name of a column of another table in the rows that values are computed from.
fn needed_name(place: usize) -> String {
    format!("terrace returned column {place}")
}

/// The columns that a clause names.
struct Columns<'a> {
    state: &'a SessionState,
    table: &'a Table,
    /// Name of the table in the statement.
    name: TableReference,
    is_merge: bool,
    others: Vec<QualifiedField>,
    /// The columns that expressions can name.
    visible: DFSchema,
    /// Names and expressions found so far.
    columns: Vec<(String, Expr)>,
    /// The columns of other tables that they use.
    needed: Vec<Column>,
}

impl Columns<'_> {
    /// Adds the columns of an item, with their names.
    fn add(&mut self, item: &SelectItem) -> Result<(), SqlError> {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let value = self.planned(expr)?;
                self.push(name_of(&value), value)
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let value = self.planned(expr)?;
                self.push(normalized(alias.clone()), value)
            }
            SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions::default() => {
                let (of_table, others) = (self.of_table(), self.of_others(None));
                match self.is_merge {
                    true => self.push_all(others.into_iter().chain(of_table)),
                    false => self.push_all(of_table.into_iter().chain(others)),
                }
            }
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) if *options == WildcardAdditionalOptions::default() => {
                let relation = object_name_to_table_reference(name.clone(), true)?;
                let columns = match is_same(&relation, &self.name) {
                    true => self.of_table(),
                    false => self.of_others(Some(&relation)),
                };
                if columns.is_empty() {
                    let what = format!("RETURNING {item}");
                    return Err(refused(&what, "name a table of the statement"));
                }
                self.push_all(columns)
            }
            other => Err(refused(&format!("RETURNING {other}"), "name each column once")),
        }
    }

    fn of_table(&self) -> Vec<Column> {
        let names = self.table.schema().fields().iter().map(|field| field.name());
        names.map(|name| Column::new(Some(self.name.clone()), name)).collect()
    }

    /// The columns of another table, or of all others.
    fn of_others(&self, relation: Option<&TableReference>) -> Vec<Column> {
        let is_of = |qualifier: &Option<TableReference>| match (relation, qualifier) {
            (None, _) => true,
            (Some(relation), Some(qualifier)) => is_same(relation, qualifier),
            (Some(_), None) => false,
        };
        let others = self.others.iter().filter(|(qualifier, _)| is_of(qualifier));
        others.map(|(qualifier, field)| Column::new(qualifier.clone(), field.name())).collect()
    }

    fn push_all(&mut self, columns: impl IntoIterator<Item = Column>) -> Result<(), SqlError> {
        for column in columns {
            self.push(column.name.clone(), Expr::Column(column))?;
        }
        Ok(())
    }

    /// Adds a column, over the table's columns and those of other tables by their place.
    fn push(&mut self, name: String, value: Expr) -> Result<(), SqlError> {
        let (needed, table) = (&mut self.needed, &self.name);
        let value = value.transform(|expr| match expr {
            Expr::Column(column) if column.relation.as_ref() != Some(table) => {
                let place = needed.iter().position(|it| *it == column).unwrap_or_else(|| {
                    needed.push(column);
                    needed.len() - 1
                });
                let column = Column::new_unqualified(needed_name(place));
                Ok(Transformed::yes(Expr::Column(column)))
            }
            other => Ok(Transformed::no(other)),
        });
        self.columns.push((name, unqualified(value?.data)?));
        Ok(())
    }

    fn planned(&self, expr: &SqlExpr) -> Result<Expr, SqlError> {
        refuse_subquery(&expr.to_string(), "RETURNING")?;
        let mut expr = expr.clone();
        if self.is_merge {
            let _ = expr.walk(&mut Action);
        }
        let expr = SqlExprWithAlias { expr, alias: None };
        let value = self.state.create_logical_expr_from_sql_expr(expr, &self.visible)?;
        refuse_rows(&value, "RETURNING")?;
        Ok(value)
    }
}

/// True if a name in a clause is that of a table: `t` of `public.t`.
fn is_same(name: &TableReference, table: &TableReference) -> bool {
    name.table() == table.table() && (name.schema().is_none() || name.schema() == table.schema())
}

/// The name of a returned column without an alias, as PostgreSQL names it.
fn name_of(value: &Expr) -> String {
    match value {
        Expr::Column(column) if column.name == MERGE_ACTION => "merge_action".to_owned(),
        Expr::Column(column) => column.name.clone(),
        Expr::ScalarFunction(call) => call.name().to_owned(),
        Expr::Cast(cast) => name_of(&cast.expr),
        _ => "?column?".to_owned(),
    }
}

/// Replaces `merge_action()` by the name of its column.
struct Action;

impl VisitorMut for Action {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
        if matches!(expr, SqlExpr::Function(_))
            && expr.to_string().eq_ignore_ascii_case("merge_action()")
        {
            *expr = SqlExpr::Identifier(Ident::with_quote('"', MERGE_ACTION));
        }
        ControlFlow::Continue(())
    }
}
