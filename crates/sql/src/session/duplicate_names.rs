//! Duplicate column names in a SELECT.
//!
//! `SELECT k, k`, `SELECT 1, 1` and `INSERT INTO t SELECT 0, 0` are everyday SQL, but DataFusion
//! refuses them: the schema of a plan has no two columns of one name. A statement that it refuses
//! so is rewritten with unique column names and planned once more, and a projection restores the
//! original names of the result:
//! ```text
//! SELECT k, v AS a, w AS a FROM t   ->   SELECT k, v AS "a #1", w AS "a #2" FROM t
//! ```
//! Of columns with the same expression the first keeps its name. All others lose theirs, and a
//! reference to a lost name could find another column. The names of the statement's result, and of
//! a subquery in an expression, are visible only to clauses of the same query, such as ORDER BY.
//! Those of a subquery in FROM or in WITH are visible to other queries: DataFusion's error is
//! returned if such a lost name occurs anywhere but in the SELECT itself.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, Result, SchemaError, internal_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::logical_plan::Statement as PlanStatement;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
    SetQuantifier, Statement as SqlStatement, TableFactor, VisitorMut,
};

use super::walk::Walk;
use super::{cast_names, list_literals};

/// The unique names given to columns, and the original name of each.
type Given = HashMap<String, String>;

/// Plans a statement whose SELECTs may have duplicate column names.
///
/// # Errors
/// Errors of planning.
pub(super) async fn plan(state: &SessionState, statement: &Statement) -> Result<LogicalPlan> {
    let attempts =
        [None, Some(Extent::SameName), Some(Extent::Unnamed), Some(Extent::BesideWildcards)];
    let mut refused = None;
    for extent in attempts {
        let mut distinct = statement.clone();
        let given = extent.map(|extent| distinguish(&mut distinct, extent));
        if given.as_ref().is_some_and(HashMap::is_empty) {
            continue;
        }
        match list_literals::plan(state, distinct).await {
            Ok(plan) => return restore(plan, &given.unwrap_or_default()),
            Err(error) if refused.is_none() && !is_cause(&error) => return Err(error),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    let mut distinct = statement.clone();
    let given = distinguish(&mut distinct, Extent::Unnamed);
    if cast_names::write_out(state, &mut distinct)
        && let Ok(plan) = list_literals::plan(state, distinct).await
    {
        return restore(plan, &given);
    }
    refused.map_or_else(|| internal_err!("a statement was not planned"), Err)
}

/// True if an error is about duplicate column names.
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

/// The columns that get a unique name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Extent {
    /// Those with a duplicate name in each SELECT.
    #[default]
    SameName,
    /// Also expressions without a name: DataFusion gives `CAST(k AS INT)` the name of `k`, and two
    /// casts of one literal the same name.
    Unnamed,
    /// Also all columns of a SELECT with a `*`, which may return columns of the same names.
    BesideWildcards,
}

/// Gives the columns of `extent` unique names, and returns these. Returns no names if a lost name
/// is needed: by a reference, for the columns of a new table or view, or to match the columns of
/// UNION BY NAME.
fn distinguish(statement: &mut Statement, extent: Extent) -> Given {
    let names_are_kept = match statement {
        Statement::CreateExternalTable(_) => true,
        Statement::Statement(statement) => {
            matches!(statement.as_ref(), SqlStatement::CreateTable(_) | SqlStatement::CreateView(_))
        }
        _ => false,
    };
    if names_are_kept {
        return Given::new();
    }
    let mut renaming = Renaming { extent, ..Renaming::default() };
    let _ = statement.walk(&mut renaming);
    let mut all = References::default();
    let _ = statement.walk(&mut all);
    let is_needed = |(name, (alias, within)): (&String, &(Option<String>, usize))| {
        let ordering = renaming.ordering.get(name).copied().unwrap_or(0);
        all.count(name, alias.as_deref()) > within + ordering
    };
    if renaming.names_are_kept || renaming.within.iter().any(is_needed) {
        return Given::new();
    }
    renaming.given
}

/// Restores the original names of the columns of a plan's result.
///
/// # Errors
/// If the plan cannot be rebuilt.
fn restore(plan: LogicalPlan, given: &Given) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Statement(PlanStatement::Prepare(mut prepare)) => {
            prepare.input = restore(prepare.input.as_ref().clone(), given)?.into();
            Ok(LogicalPlan::Statement(PlanStatement::Prepare(prepare)))
        }
        LogicalPlan::Copy(mut copy) => {
            copy.input = restore(copy.input.as_ref().clone(), given)?.into();
            Ok(LogicalPlan::Copy(copy))
        }
        plan if !plan.schema().fields().iter().any(|field| given.contains_key(field.name())) => {
            Ok(plan)
        }
        plan => {
            let columns = plan.schema().columns().into_iter().enumerate();
            let columns: Vec<_> = columns
                .map(|(number, column)| {
                    let written = given.get(&column.name).unwrap_or(&column.name).clone();
                    // Columns of one name may differ in their table.
                    let table = format!("column {number}");
                    PlanExpr::Column(column).alias_qualified(Some(table), written)
                })
                .collect();
            LogicalPlanBuilder::from(plan).project(columns)?.build()
        }
    }
}

/// Visitor that renames the columns of `extent`.
#[derive(Default)]
struct Renaming {
    extent: Extent,
    given: Given,
    /// The lost names that other queries see. For each, the alias of its subquery, if it has one,
    /// and the number of references to columns of the name within its own SELECT: they are to
    /// columns of FROM, because the expressions of a SELECT do not see the names of its result.
    within: HashMap<String, (Option<String>, usize)>,
    /// Number of references with a table in ORDER BY, which are to columns of FROM, by name.
    ordering: HashMap<String, usize>,
    /// True if no column may be renamed: the names are those of a new table, or match columns.
    names_are_kept: bool,
    /// The queries around the visited node, the innermost last.
    queries: Vec<Names>,
    /// Uses of the names of queries that are not yet visited, and are in FROM, in WITH or in the
    /// body of another query, by the address of the query.
    known: HashMap<usize, Names>,
}

/// The uses of the names of a query's result.
#[derive(Clone, Debug, Default)]
struct Names {
    /// `None` if no other query sees the names. Else the alias under which other queries see them;
    /// a WITH query has none here, as it may be seen under any.
    seen: Option<Option<String>>,
    /// The names by which rows are ordered.
    order: BTreeSet<String>,
}

impl VisitorMut for Renaming {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.names_are_kept |= is_by_name(&query.body);
        let mut names = self.known.remove(&address(query)).unwrap_or_default();
        if let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &query.order_by {
            for key in keys {
                match &key.expr {
                    // A name with its table in ORDER BY is one of FROM.
                    Expr::CompoundIdentifier(parts) => {
                        if let Some(name) = parts.last() {
                            *self.ordering.entry(normal(name)).or_default() += 1;
                        }
                    }
                    key => names.order.extend(bare(key)),
                }
            }
        }
        for with in query.with.iter().flat_map(|with| &with.cte_tables) {
            let seen = Names { seen: Some(None), ..Names::default() };
            self.known.insert(address(&with.query), seen);
        }
        self.add_operands(&query.body, &names);
        self.queries.push(names);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, alias, .. } = table {
            let alias = alias.as_ref().map(|alias| normal(&alias.name));
            let seen = Names { seen: Some(alias), ..Names::default() };
            self.known.insert(address(subquery), seen);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.names_are_kept |= select.into.is_some();
        let is_wildcard = |item: &SelectItem| {
            matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
        };
        let renames_all =
            self.extent == Extent::BesideWildcards && select.projection.iter().any(is_wildcard);
        let renames_unnamed = self.extent != Extent::SameName && select.projection.len() > 1;
        let mut same: HashMap<String, Vec<String>> = HashMap::new();
        for item in &select.projection {
            if let Some((name, expr)) = named(item) {
                same.entry(key(&name, item)).or_default().push(expr.to_string());
            }
        }
        let mut seen: HashMap<String, usize> = HashMap::new();
        let (mut lost, mut renamed) = (BTreeSet::new(), Vec::new());
        for (place, item) in select.projection.iter().enumerate() {
            let Some((name, _)) = named(item) else { continue };
            let key = key(&name, item);
            let values = &same[&key];
            let number = *seen.entry(key).and_modify(|seen| *seen += 1).or_insert(1);
            let are_equal = values.iter().all(|it| *it == values[0]);
            let keeps_name = values.len() == 1 || (number == 1 && are_equal && is_name(item));
            let is_renamed = renames_all || (renames_unnamed && !is_name(item));
            if is_renamed || !keeps_name {
                if renames_all || !are_equal {
                    lost.insert(name.clone());
                }
                renamed.push((place, name, number));
            }
        }
        if self.may_lose(select, lost) {
            for (place, name, number) in renamed {
                self.given.insert(rename(&mut select.projection[place], &name, number), name);
            }
        }
        ControlFlow::Continue(())
    }
}

impl Renaming {
    /// Records `names`, those of a whole query, for the operands of its set operation and for a
    /// query in parentheses.
    fn add_operands(&mut self, body: &SetExpr, names: &Names) {
        match body {
            SetExpr::Query(query) => {
                self.known.insert(address(query), names.clone());
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.add_operands(left, names);
                self.add_operands(right, names);
            }
            _ => {}
        }
    }

    /// Returns false for a SELECT whose own clauses need one of the `lost` names. Records those
    /// that other queries see in `within`.
    fn may_lose(&mut self, select: &mut Select, lost: BTreeSet<String>) -> bool {
        let is_nested = self.queries.len() > 1;
        let Some(names) = self.queries.last().cloned() else { return true };
        let Some(alias) = names.seen else {
            let of_clauses = own_uses(select, is_nested);
            return lost.is_disjoint(&names.order) && lost.is_disjoint(&of_clauses);
        };
        if lost.is_empty() {
            return true;
        }
        let mut references = References::default();
        let _ = select.from.walk(&mut references);
        // A group is a column of FROM before one of the result.
        if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
            let _ = groups.iter_mut().try_for_each(|group| group.walk(&mut references));
        }
        let _ = select.selection.walk(&mut references);
        let _ = select.projection.iter_mut().try_for_each(|item| item.walk(&mut references));
        for name in lost {
            let within = references.count(&name, alias.as_deref());
            // A name that several SELECTs lose may be used by one of the other's.
            let known = self.within.insert(name, (alias.clone(), within));
            self.names_are_kept |= known.is_some_and(|(_, known)| known + within > 0);
        }
        true
    }
}

/// The names that clauses of a SELECT may take from its result. Those of GROUP BY and HAVING are
/// columns of FROM first; only in a subquery could they be columns of an outer query otherwise.
fn own_uses(select: &mut Select, is_nested: bool) -> BTreeSet<String> {
    let mut uses = References::default();
    if let Some(Distinct::On(keys)) = &mut select.distinct {
        let _ = keys.iter_mut().try_for_each(|key| key.walk(&mut uses));
    }
    if is_nested {
        if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
            let _ = groups.iter_mut().try_for_each(|group| group.walk(&mut uses));
        }
        let _ = select.having.walk(&mut uses);
        let _ = select.qualify.walk(&mut uses);
    }
    uses.bare.into_keys().collect()
}

/// The name of a key of ORDER BY that is just a name, possibly in parentheses.
fn bare(key: &Expr) -> Option<String> {
    match key {
        Expr::Nested(inner) => bare(inner),
        Expr::Identifier(name) => Some(normal(name)),
        _ => None,
    }
}

fn normal(name: &Ident) -> String {
    IdentNormalizer::default().normalize(name.clone())
}

/// A query's place in memory, which stays the same during a walk.
fn address(query: &Query) -> usize {
    std::ptr::from_ref(query).addr()
}

/// True for a set operation BY NAME.
fn is_by_name(body: &SetExpr) -> bool {
    match body {
        SetExpr::SetOperation { left, right, set_quantifier, .. } => {
            matches!(
                set_quantifier,
                SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName
            ) || is_by_name(left)
                || is_by_name(right)
        }
        _ => false,
    }
}

/// Counts references to columns by the last part of their names.
#[derive(Default)]
struct References {
    /// Those without a table.
    bare: HashMap<String, usize>,
    /// Those with a table, by its name and theirs.
    qualified: HashMap<(String, String), usize>,
}

impl References {
    /// The number of references to columns of a name. References with a table count only if it is
    /// `table`; `None` stands for any.
    fn count(&self, name: &str, table: Option<&str>) -> usize {
        let is_it = |(of, column): &(String, String)| {
            column == name && table.is_none_or(|table| table == of)
        };
        let qualified = self.qualified.iter().filter(|(key, _)| is_it(key));
        let bare = self.bare.get(name).copied().unwrap_or(0);
        bare + qualified.map(|(_, count)| count).sum::<usize>()
    }
}

impl VisitorMut for References {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => *self.bare.entry(normal(name)).or_default() += 1,
            Expr::CompoundIdentifier(parts) => {
                if let [.., table, name] = parts.as_slice() {
                    *self.qualified.entry((normal(table), normal(name))).or_default() += 1;
                }
            }
            _ => {}
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

/// A normal form of the name of `item`, equal for names that DataFusion makes equal: those of
/// expressions ignore case, since it formats functions and keywords itself.
fn key(name: &str, item: &SelectItem) -> String {
    if is_name(item) { name.to_owned() } else { name.to_lowercase() }
}

/// Gives a column the unique name `name #number`, and returns it.
fn rename(item: &mut SelectItem, name: &str, number: usize) -> String {
    let given = format!("{name} #{number}");
    if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
        let alias = Ident::with_quote('"', given.clone());
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
    }
    given
}
