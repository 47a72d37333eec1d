//! Unquoted names of columns that have capital letters, such as those of files:
//!
//! ```text
//! SELECT customerid FROM 'orders.csv'  ->  SELECT "CustomerID" FROM 'orders.csv'
//! ```
//! An unquoted name is folded to lower case, as in PostgreSQL. One that no column in scope has
//! then, also none of an outer query, means the column that is equal to it except for the case of
//! letters, as in DuckDB: that of the innermost FROM.

use std::ops::ControlFlow;

use datafusion::common::{Column as MissingColumn, DataFusionError, SchemaError, TableReference};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, Expr, Ident, JoinConstraint, ObjectName, ObjectNamePart, Query, Select,
    SelectItem, SetExpr, Statement as SqlStatement, TableFactor, TableWithJoins, Value, VisitorMut,
};

use super::super::join_constraint::constraint_mut;
use super::super::walk::Walk;
use super::scopes::Scopes;
use super::stars::{self, Column};
use super::struct_stars::normal;

/// Queries for the columns of the FROM of each SELECT, in the order of the statement, if `error` is
/// that of an unknown column; `None` for a FROM that has no such query.
pub(super) fn questions(error: &DataFusionError, statement: &mut Statement) -> Vec<Option<Query>> {
    let mut tables = Tables::default();
    if missing(error).is_some() {
        let _ = statement.walk(&mut tables);
    }
    tables.questions
}

/// Replaces the unquoted name that `error` does not find by the columns that it means. `tables` are
/// the columns of the FROM of each SELECT; `None` where they are not known. Returns false if the
/// error is another one, or the name means no column or several.
pub(super) fn quote(
    error: &DataFusionError,
    tables: &[Option<Vec<Column>>],
    statement: &mut Statement,
) -> bool {
    let Some((missing, valid)) = missing(error) else { return false };
    let is_query = matches!(statement, Statement::Statement(statement)
        if matches!(statement.as_ref(), SqlStatement::Query(_)));
    let mut quoter = Quoter {
        missing: &missing.name,
        table: missing.relation.as_ref().map(TableReference::table),
        valid,
        is_query,
        tables,
        selects: 0,
        queries: vec![],
        is_alias: false,
        is_changed: false,
    };
    let mut quoted = statement.clone();
    let _ = quoted.walk(&mut quoter);
    let is_done = quoter.is_changed && !quoter.is_alias;
    if is_done {
        *statement = quoted;
    }
    is_done
}

/// The column that an error does not find, and those that it names instead.
fn missing(error: &DataFusionError) -> Option<(&MissingColumn, &[MissingColumn])> {
    let DataFusionError::SchemaError(error, _) = error.find_root() else { return None };
    let SchemaError::FieldNotFound { field, valid_fields } = error.as_ref() else { return None };
    Some((field, valid_fields))
}

/// The meaning of a name among the columns of a FROM.
enum Meaning {
    /// The only column that is equal except for the case of letters.
    Column(String),
    /// A column of this name, or several that are equal except for the case of letters.
    Other,
    /// No column.
    None,
}

impl Meaning {
    /// The meaning of a folded name among the names of columns.
    fn of<'a>(folded: &str, columns: impl Iterator<Item = &'a str>) -> Self {
        let mut meaning = Self::None;
        for column in columns.filter(|column| column.to_lowercase() == folded) {
            meaning = match meaning {
                _ if column == folded => return Self::Other,
                Self::Column(other) if other != column => return Self::Other,
                _ => Self::Column(column.to_owned()),
            };
        }
        meaning
    }
}

/// A query around the visited node.
struct Around {
    /// The number of the SELECT whose FROM has the columns; `None` outside of those of a UNION,
    /// where names are those of the result.
    select: Option<usize>,
    is_union: bool,
}

/// Writes the columns that are meant in the place of the missing one.
struct Quoter<'a> {
    missing: &'a str,
    /// The table that the column is looked for in, if it is named.
    table: Option<&'a str>,
    /// The columns that the error names: those of the result, or of the table of a change.
    valid: &'a [MissingColumn],
    /// True if the statement is a query.
    is_query: bool,
    /// The columns of the FROM of each SELECT.
    tables: &'a [Option<Vec<Column>>],
    /// Number of SELECTs visited.
    selects: usize,
    /// The queries around the visited node.
    queries: Vec<Around>,
    /// True if an alias of another expression has the name: it may mean that.
    is_alias: bool,
    is_changed: bool,
}

impl Quoter<'_> {
    fn is_missing(&self, name: &Ident) -> bool {
        name.quote_style.is_none() && normal(name) == self.missing
    }

    /// The column that the missing name means at the visited node.
    fn meant(&self) -> Option<String> {
        let is_of = |table: Option<&TableReference>| {
            self.table.zip(table).is_none_or(|(missing, found)| missing == found.table())
        };
        for select in self.queries.iter().rev().filter_map(|around| around.select) {
            let columns = self.tables.get(select)?.as_ref()?;
            let columns = columns.iter().filter(|column| is_of(column.table.as_ref()));
            match Meaning::of(self.missing, columns.map(|column| column.name.as_str())) {
                Meaning::Column(column) => return Some(column),
                Meaning::Other => return None,
                Meaning::None => {}
            }
        }
        if self.is_query && self.queries.last().is_none_or(|around| around.select.is_some()) {
            return None;
        }
        let columns = self.valid.iter().filter(|column| is_of(column.relation.as_ref()));
        match Meaning::of(self.missing, columns.map(|column| column.name.as_str())) {
            Meaning::Column(column) => Some(column),
            Meaning::Other | Meaning::None => None,
        }
    }

    fn quote(&mut self, name: &mut Ident) {
        if let Some(column) = self.meant() {
            *name = Ident::with_quote('"', column);
            self.is_changed = true;
        }
    }

    /// Quotes the name of a column that a change names.
    fn quote_target(&mut self, target: &mut ObjectName) {
        if let [ObjectNamePart::Identifier(name)] = target.0.as_mut_slice()
            && self.table.is_none()
            && self.is_missing(name)
        {
            self.quote(name);
        }
    }
}

impl VisitorMut for Quoter<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let is_union = matches!(query.body.as_ref(), SetExpr::SetOperation { .. });
        self.queries.push(Around { select: None, is_union });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let Some(around) = self.queries.last_mut() {
            around.select = Some(self.selects);
        }
        self.selects += 1;
        for item in &mut select.projection {
            let SelectItem::ExprWithAlias { expr, alias } = item else { continue };
            let is_other = match expr {
                Expr::Identifier(name) => !self.is_missing(name),
                Expr::CompoundIdentifier(parts) => {
                    !parts.last().is_some_and(|name| self.is_missing(name))
                }
                _ => true,
            };
            self.is_alias |= is_other && normal(alias) == self.missing;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        if let Some(around) = self.queries.last_mut()
            && around.is_union
        {
            around.select = None;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match (expr, self.table) {
            (Expr::Identifier(name), None) if self.is_missing(name) => self.quote(name),
            (Expr::CompoundIdentifier(parts), Some(of)) => match parts.as_mut_slice() {
                [.., table, name] if normal(table) == of && self.is_missing(name) => {
                    self.quote(name);
                }
                _ => {}
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut SqlStatement) -> ControlFlow<()> {
        match statement {
            SqlStatement::Insert(insert) => {
                insert.columns.iter_mut().for_each(|column| self.quote_target(column));
            }
            SqlStatement::Update(update) => {
                for assignment in &mut update.assignments {
                    match &mut assignment.target {
                        AssignmentTarget::ColumnName(column) => self.quote_target(column),
                        AssignmentTarget::Tuple(columns) => {
                            columns.iter_mut().for_each(|column| self.quote_target(column));
                        }
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Collects queries for the columns of FROM.
#[derive(Default)]
struct Tables {
    /// The WITH queries in scope at the visited node.
    scopes: Scopes,
    questions: Vec<Option<Query>>,
}

impl VisitorMut for Tables {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.leave(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // A condition may have the missing name.
        let mut select = select.clone();
        select.from.iter_mut().for_each(without_conditions);
        let question = stars::question(&select).ok();
        self.questions.push(question.map(|query| self.scopes.within(query)));
        ControlFlow::Continue(())
    }
}

/// Joins the same tables on no condition.
fn without_conditions(tables: &mut TableWithJoins) {
    let joined = |table: &mut TableFactor| {
        if let TableFactor::NestedJoin { table_with_joins, .. } = table {
            without_conditions(table_with_joins);
        }
    };
    joined(&mut tables.relation);
    for join in &mut tables.joins {
        joined(&mut join.relation);
        if let Some(JoinConstraint::On(condition)) = constraint_mut(&mut join.join_operator) {
            *condition = Expr::Value(Value::Boolean(true).into());
        }
    }
}
