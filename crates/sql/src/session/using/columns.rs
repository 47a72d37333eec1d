//! Columns of FROM items by name, and conditions of their joins.

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor,
    TableWithJoins, Value, WildcardAdditionalOptions,
};
use terrace_table::error::SqlError;

use crate::session::dialect::call;
use crate::session::join_constraint::{constraint, constraint_mut};
use crate::session::refusal::refused;

/// Functions in FROM with a single column, and its name.
const SERIES: (&[&str], &str) = (&["generate_series", "range"], "value");

/// A column as visible to the expressions of its SELECT.
#[derive(Clone, Debug)]
pub(super) struct Visible {
    /// Name under which expressions refer to the column.
    pub(super) name: String,
    /// Expression of its value.
    pub(super) expr: Expr,
}

/// The columns of FROM items.
#[derive(Default)]
pub(super) struct Joined {
    /// All columns, in the order of `*`.
    pub(super) columns: Vec<Visible>,
    /// Values of the columns that joins have merged, by name.
    pub(super) merged: HashMap<String, Expr>,
}

/// Columns of WITH queries by name; `None` if they are unknown.
type Scope = HashMap<String, Option<Vec<String>>>;

/// Names of the columns of tables, WITH queries and subqueries.
pub(super) struct Names {
    /// Columns of tables, by table names as the planner writes them.
    tables: HashMap<String, Vec<String>>,
    lowers: bool,
    scopes: Vec<Scope>,
    subqueries: usize,
}

/// Callback that replaces the names of merged columns in the condition of a join.
pub(super) type Replace<'a> = &'a mut dyn FnMut(&mut Names, &mut Expr, &HashMap<String, Expr>);

/// True if a join of a FROM item merges columns.
pub(super) fn merges(table: &TableWithJoins) -> bool {
    any_join(table, &|join| is_merging(&join.join_operator))
}

/// True if a join that merges columns can return rows of one side without a match.
pub(super) fn merges_rows_of_one_side(table: &TableWithJoins) -> bool {
    any_join(table, &|join| {
        is_merging(&join.join_operator)
            && !matches!(join.join_operator, JoinOperator::Join(_) | JoinOperator::Inner(_))
    })
}

fn any_join(table: &TableWithJoins, is: &dyn Fn(&Join) -> bool) -> bool {
    let nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => any_join(table_with_joins, is),
        _ => false,
    };
    nested(&table.relation) || table.joins.iter().any(|join| is(join) || nested(&join.relation))
}

fn is_merging(operator: &JoinOperator) -> bool {
    matches!(constraint(operator), Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
}

impl Names {
    pub(super) fn new(tables: HashMap<String, Vec<String>>, lowers: bool) -> Self {
        Self { tables, lowers, scopes: Vec::new(), subqueries: 0 }
    }

    /// An identifier as the planner compares it.
    pub(super) fn normal(&self, ident: &Ident) -> String {
        match ident.quote_style {
            None if self.lowers => ident.value.to_lowercase(),
            _ => ident.value.clone(),
        }
    }

    /// Enters a query with its WITH queries.
    pub(super) fn enter(&mut self, query: &Query) {
        self.scopes.push(Scope::new());
        for with in query.with.iter().flat_map(|with| &with.cte_tables) {
            let columns = self.of_query(&with.query);
            let columns = columns.map(|columns| self.renamed(columns, &with.alias));
            let name = self.normal(&with.alias.name);
            if let Some(scope) = self.scopes.last_mut() {
                scope.insert(name, columns);
            }
        }
    }

    /// Leaves the query that was entered last.
    pub(super) fn leave(&mut self) {
        self.scopes.pop();
    }

    /// True if a name may be a column of a query's FROM items or of its result.
    pub(super) fn may_have(&mut self, query: &Query, name: &str) -> bool {
        self.enter(query);
        let may_have = self.body_may_have(&query.body, name);
        self.leave();
        may_have
    }

    fn body_may_have(&mut self, body: &SetExpr, name: &str) -> bool {
        match body {
            SetExpr::Select(select) => {
                let is_result = select
                    .projection
                    .iter()
                    .any(|item| self.of_item(item).as_deref() == Some(name));
                let columns = self.of_from(&select.from);
                is_result || columns.is_none_or(|columns| columns.iter().any(|it| it.name == name))
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.body_may_have(left, name) || self.body_may_have(right, name)
            }
            SetExpr::Query(query) => self.may_have(query, name),
            SetExpr::Values(_) => false,
            _ => true,
        }
    }

    /// The columns of a query's result; `None` unless all are known.
    fn of_query(&mut self, query: &Query) -> Option<Vec<String>> {
        self.enter(query);
        let columns = self.of_body(&query.body);
        self.leave();
        columns
    }

    fn of_body(&mut self, body: &SetExpr) -> Option<Vec<String>> {
        match body {
            SetExpr::Select(select) => self.of_select(select),
            SetExpr::SetOperation { left, .. } => self.of_body(left),
            SetExpr::Query(query) => self.of_query(query),
            SetExpr::Values(values) => {
                let columns = values.rows.first().map_or(0, |row| row.content.len());
                Some((1..=columns).map(|column| format!("column{column}")).collect())
            }
            _ => None,
        }
    }

    fn of_select(&mut self, select: &Select) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::Wildcard(options) => {
                    let columns = self.of_from(&select.from)?;
                    let excluded = self.excluded(options);
                    let kept = columns.into_iter().map(|column| column.name);
                    names.extend(kept.filter(|name| !excluded.contains(name)));
                }
                SelectItem::QualifiedWildcard(kind, options) => {
                    let SelectItemQualifiedWildcardKind::ObjectName(table) = kind else {
                        return None;
                    };
                    let columns = self.of_one(&select.from, table)?;
                    let excluded = self.excluded(options);
                    names.extend(columns.into_iter().filter(|name| !excluded.contains(name)));
                }
                // A result column without a name cannot be referred to.
                item => names.push(self.of_item(item).unwrap_or_default()),
            }
        }
        Some(names)
    }

    /// The name of an item of a SELECT list, if it is a column or has an alias.
    pub(super) fn of_item(&self, item: &SelectItem) -> Option<String> {
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(self.normal(name)),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                parts.last().map(|name| self.normal(name))
            }
            SelectItem::ExprWithAlias { alias, .. } => Some(self.normal(alias)),
            _ => None,
        }
    }

    /// The columns that `*` leaves out.
    pub(super) fn excluded(&self, options: &WildcardAdditionalOptions) -> Vec<String> {
        let mut names = Vec::new();
        let last = |name: &ObjectName| name.0.last().and_then(|part| part.as_ident()).cloned();
        match &options.opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => names.extend(last(name)),
            Some(ExcludeSelectItem::Multiple(all)) => names.extend(all.iter().filter_map(last)),
            None => {}
        }
        if let Some(except) = &options.opt_except {
            names.push(except.first_element.clone());
            names.extend(except.additional_elements.iter().cloned());
        }
        names.iter().map(|name| self.normal(name)).collect()
    }

    /// The columns of FROM items, as after the rewrite of their joins.
    fn of_from(&mut self, from: &[TableWithJoins]) -> Option<Vec<Visible>> {
        let mut columns = Vec::new();
        for table in from {
            let joined = self.join(&mut table.clone(), &mut |_, _, _| {});
            columns.extend(joined.ok()??.columns);
        }
        Some(columns)
    }

    /// The columns of the source `name` of FROM items.
    fn of_one(&mut self, from: &[TableWithJoins], name: &ObjectName) -> Option<Vec<String>> {
        let wanted = name.0.last()?.as_ident().map(|ident| self.normal(ident))?;
        let mut sources = Vec::new();
        from.iter().for_each(|table| collect(table, &mut sources));
        for source in sources {
            let columns = self.of_factor(&mut source.clone())?;
            let is_wanted = columns.first().is_some_and(|column| match &column.expr {
                Expr::CompoundIdentifier(parts) => parts
                    .len()
                    .checked_sub(2)
                    .is_some_and(|place| self.normal(&parts[place]) == wanted),
                _ => false,
            });
            if is_wanted {
                return Some(columns.into_iter().map(|column| column.name).collect());
            }
        }
        None
    }

    /// Gives every join that merges columns a condition. `None` if a source is unknown; the item
    /// may then be partly rewritten.
    ///
    /// # Errors
    /// [`SqlError::Refused`] for a column that is not exactly once on each side.
    pub(super) fn join(
        &mut self,
        table: &mut TableWithJoins,
        replace: Replace<'_>,
    ) -> Result<Option<Joined>, SqlError> {
        let Some(mut left) = self.of_source(&mut table.relation, replace)? else { return Ok(None) };
        for join in &mut table.joins {
            let Some(right) = self.of_source(&mut join.relation, replace)? else {
                return Ok(None);
            };
            let Some(joined) = self.join_sides(left, right, join, replace)? else {
                return Ok(None);
            };
            left = joined;
        }
        Ok(Some(left))
    }

    fn of_source(
        &mut self,
        factor: &mut TableFactor,
        replace: Replace<'_>,
    ) -> Result<Option<Joined>, SqlError> {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
            return self.join(table_with_joins, replace);
        }
        let columns = self.of_factor(factor);
        Ok(columns.map(|columns| Joined { columns, merged: HashMap::new() }))
    }

    fn join_sides(
        &mut self,
        left: Joined,
        right: Joined,
        join: &mut Join,
        replace: Replace<'_>,
    ) -> Result<Option<Joined>, SqlError> {
        let operator = &mut join.join_operator;
        let names = match constraint(operator) {
            None => return Ok(None),
            Some(JoinConstraint::Using(names)) => {
                let idents = names.iter().filter_map(|name| name.0.last()?.as_ident());
                idents.map(|ident| self.normal(ident)).collect()
            }
            Some(JoinConstraint::Natural) => common(&left.columns, &right.columns),
            Some(JoinConstraint::On(_) | JoinConstraint::None) => Vec::new(),
        };
        let mut merged = left.merged.clone();
        merged.extend(right.merged.clone());
        if !is_merging(operator) {
            if let Some(JoinConstraint::On(condition)) = constraint_mut(operator) {
                replace(self, condition, &merged);
            }
            return Ok(Some(joined(left, right, Vec::new(), merged, operator)));
        }
        let (mut condition, mut first) = (None, Vec::new());
        let inequality = join.global.then(|| names.last().cloned()).flatten();
        for name in names {
            let [ours, theirs] = [(&left, "left"), (&right, "right")].map(|(side, of)| {
                let mut found = side.columns.iter().filter(|column| column.name == name);
                match (found.next(), found.next()) {
                    (Some(column), None) => Ok(column.expr.clone()),
                    (None, _) => Err(missing(&name, of, "has no such column")),
                    (Some(_), Some(_)) => Err(missing(&name, of, "has it more than once")),
                }
            });
            let (ours, theirs) = (ours?, theirs?);
            // The last column of an ASOF JOIN is the one that is not later.
            let op = match inequality.as_ref() == Some(&name) {
                true => BinaryOperator::GtEq,
                false => BinaryOperator::Eq,
            };
            condition = Some(and(condition, compared(ours.clone(), op, theirs.clone())));
            let value = match operator {
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => theirs,
                JoinOperator::FullOuter(_) => call("coalesce", [ours, theirs]),
                _ => ours,
            };
            merged.insert(name.clone(), value.clone());
            first.push(Visible { name, expr: value });
        }
        match condition {
            Some(condition) => set_condition(operator, condition),
            // A natural join of tables that have no common column.
            None if matches!(operator, JoinOperator::Join(_) | JoinOperator::Inner(_)) => {
                *operator = JoinOperator::CrossJoin(JoinConstraint::None);
            }
            None => set_condition(operator, Expr::Value(Value::Boolean(true).into())),
        }
        Ok(Some(joined(left, right, first, merged, operator)))
    }

    /// The columns of a table, a subquery or a function. A subquery without an alias is given one.
    fn of_factor(&mut self, factor: &mut TableFactor) -> Option<Vec<Visible>> {
        let (columns, table, alias) = match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let columns = self.of_table(name)?;
                let table = name.0.iter().map(|part| part.as_ident().cloned());
                (columns, table.collect::<Option<Vec<_>>>()?, alias.clone())
            }
            TableFactor::Table { name, alias, args: Some(_), .. }
            | TableFactor::Function { name, alias, .. } => {
                let function = name.0.last()?.as_ident().map(|ident| self.normal(ident))?;
                let (functions, column) = SERIES;
                if !functions.contains(&function.as_str()) {
                    return None;
                }
                let name = Ident::with_quote('"', function);
                let given = || TableAlias { explicit: true, name, columns: vec![], at: None };
                (vec![column.to_owned()], Vec::new(), Some(alias.get_or_insert_with(given).clone()))
            }
            TableFactor::Derived { subquery, alias, lateral: false, .. } => {
                let columns = self.of_query(subquery)?;
                if alias.is_none() {
                    self.subqueries += 1;
                    let name = Ident::with_quote('"', format!("subquery {}", self.subqueries));
                    *alias = Some(TableAlias { explicit: true, name, columns: vec![], at: None });
                }
                (columns, Vec::new(), alias.clone())
            }
            _ => return None,
        };
        let (columns, table) = match alias {
            Some(alias) => (self.renamed(columns, &alias), vec![alias.name]),
            None => (columns, table),
        };
        let visible = |name: String| {
            let column = Ident::with_quote('"', name.clone());
            let parts = table.iter().cloned().chain([column]).collect();
            Visible { name, expr: Expr::CompoundIdentifier(parts) }
        };
        Some(columns.into_iter().map(visible).collect())
    }

    fn of_table(&self, name: &ObjectName) -> Option<Vec<String>> {
        if let [part] = name.0.as_slice() {
            let name = part.as_ident().map(|ident| self.normal(ident))?;
            if let Some(columns) = self.scopes.iter().rev().find_map(|scope| scope.get(&name)) {
                return columns.clone();
            }
        }
        let parts = name.0.iter().map(|part| part.as_ident().map(|ident| self.normal(ident)));
        let parts = parts.collect::<Option<Vec<_>>>()?;
        self.tables.get(&parts.join(".")).cloned()
    }

    /// The names of `columns` after the first ones have been renamed by the list of `alias`.
    fn renamed(&self, mut columns: Vec<String>, alias: &TableAlias) -> Vec<String> {
        for (column, given) in columns.iter_mut().zip(&alias.columns) {
            *column = self.normal(&given.name);
        }
        columns
    }
}

/// The columns of a join: the merged ones, then the others of each side.
fn joined(
    left: Joined,
    right: Joined,
    first: Vec<Visible>,
    merged: HashMap<String, Expr>,
    operator: &JoinOperator,
) -> Joined {
    use JoinOperator::{Anti, LeftAnti, LeftSemi, RightAnti, RightSemi, Semi};
    match operator {
        Semi(_) | LeftSemi(_) | Anti(_) | LeftAnti(_) => return left,
        RightSemi(_) | RightAnti(_) => return right,
        _ => {}
    }
    let is_other = |column: &Visible| first.iter().all(|merged| merged.name != column.name);
    let others = left.columns.into_iter().chain(right.columns).filter(is_other);
    let others: Vec<_> = others.collect();
    Joined { columns: first.into_iter().chain(others).collect(), merged }
}

fn collect<'a>(table: &'a TableWithJoins, sources: &mut Vec<&'a TableFactor>) {
    let factors = table.joins.iter().map(|join| &join.relation);
    for factor in std::iter::once(&table.relation).chain(factors) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                collect(table_with_joins, sources);
            }
            factor => sources.push(factor),
        }
    }
}

/// The names common to both sides, in the order of the left one.
fn common(left: &[Visible], right: &[Visible]) -> Vec<String> {
    let mut names = Vec::new();
    for column in left {
        if right.iter().any(|other| other.name == column.name) && !names.contains(&column.name) {
            names.push(column.name.clone());
        }
    }
    names
}

fn missing(name: &str, side: &str, reason: &str) -> SqlError {
    refused(
        &format!("a join by column \"{name}\", as its {side} side {reason}"),
        "give the condition by ON",
    )
}

fn compared(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn and(before: Option<Expr>, condition: Expr) -> Expr {
    match before {
        Some(before) => Expr::BinaryOp {
            left: Box::new(before),
            op: BinaryOperator::And,
            right: Box::new(condition),
        },
        None => condition,
    }
}

fn set_condition(operator: &mut JoinOperator, condition: Expr) {
    if let Some(constraint) = constraint_mut(operator) {
        *constraint = JoinConstraint::On(condition);
    }
}
