//! WITH queries that are evaluated once.
//!
//! DataFusion copies the plan of a WITH query to each place that names it. PostgreSQL evaluates a
//! query that is named more than once, or is AS MATERIALIZED, once. Copies return the same rows
//! unless something in them depends on chance or on the order of rows; copies that may differ share
//! the rows of one evaluation (`unnest/once.rs`), which are in pages of the query's memory:
//! ```text
//! WITH c AS (SELECT random() AS r) SELECT * FROM c AS a, c AS b
//!   ->  WITH c AS (SELECT * FROM (SELECT random() AS r) AS "rows of WITH") ...
//! ```
//! A query that calls a volatile function and has one reference is not merged with the query around
//! it, as in PostgreSQL: no condition is pushed into it.
//!
//! The alias marks the query. The planner of relations decides by its plan ([`Mark::apply`]).

use std::collections::HashMap;
use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{LogicalPlan, SubqueryAlias};
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Cte, CteAsMaterialized, Ident, ObjectName, Query, SetExpr, Statement as SqlStatement,
    TableFactor, VisitorMut, With,
};
use terrace_table::error::SqlError;

use super::dialect::parsed_query;
use super::side_effects::evaluated;
use super::unnest::{is_repeatable, once};
use super::walk::Walk;
use super::{spelling, volatility};

/// The alias of the rows of a query that several places name; no statement has it.
const SEVERAL: &str = "rows of WITH";

/// The alias of the rows of a query with a volatile function that one place names.
const VOLATILE: &str = "rows of WITH, volatile";

/// The alias of the rows of a query that is AS MATERIALIZED.
const MATERIALIZED: &str = "rows of WITH, materialized";

/// A mark of the rows of a WITH query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Several places name the query.
    Several,
    /// One place names the query, which calls a volatile function.
    Volatile,
    /// The query is AS MATERIALIZED.
    Materialized,
}

impl Mark {
    /// The mark of a relation of FROM.
    pub(super) fn of(relation: &TableFactor) -> Option<Self> {
        let TableFactor::Derived { alias: Some(alias), .. } = relation else { return None };
        match alias.name.value.as_str() {
            SEVERAL => Some(Self::Several),
            VOLATILE => Some(Self::Volatile),
            MATERIALIZED => Some(Self::Materialized),
            _ => None,
        }
    }

    fn alias(self) -> &'static str {
        match self {
            Self::Several => SEVERAL,
            Self::Volatile => VOLATILE,
            Self::Materialized => MATERIALIZED,
        }
    }

    /// Puts a node above the marked plan: for `Several`, if two evaluations could differ, and for
    /// `Materialized`, one that evaluates it once for all copies; for `Volatile`, one that no
    /// condition is pushed through. A plan that depends on an outer row stays unchanged.
    ///
    /// # Errors
    /// If the plan cannot be rebuilt.
    pub(super) fn apply(self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let LogicalPlan::SubqueryAlias(marked) = plan else { return Ok(plan) };
        let separate = match self {
            _ if !marked.input.all_out_ref_exprs().is_empty() => None,
            Self::Several if is_repeatable(&marked.input) => None,
            Self::Several | Self::Materialized => Some(once as fn(_) -> _),
            Self::Volatile => Some(evaluated as fn(_) -> _),
        };
        let Some(separate) = separate else { return Ok(LogicalPlan::SubqueryAlias(marked)) };
        let input = separate(Arc::unwrap_or_clone(marked.input));
        SubqueryAlias::try_new(Arc::new(input), marked.alias).map(LogicalPlan::SubqueryAlias)
    }
}

/// Replaces the columns that mark AS MATERIALIZED (`spelling/materialized.rs`) by the flag of the
/// syntax tree.
pub(super) fn read_columns(query: &mut Query) {
    let Some(with) = &mut query.with else { return };
    for query in &mut with.cte_tables {
        let columns = &mut query.alias.columns;
        if columns.first().is_some_and(|first| first.name.value == spelling::MATERIALIZED) {
            columns.remove(0);
            query.materialized = Some(CteAsMaterialized::Materialized);
        }
    }
}

/// Marks the WITH queries of a statement that several places name, that call volatile functions, or
/// that are AS MATERIALIZED. A view is stored as it is written, and its queries are marked when it
/// is read.
///
/// # Errors
/// If a text of this module cannot be parsed.
pub(super) fn write_out(state: &SessionState, statement: &mut Statement) -> Result<(), SqlError> {
    if let Statement::Statement(statement) = statement
        && let SqlStatement::CreateView(_) = statement.as_ref()
    {
        return Ok(());
    }
    mark(state, statement)
}

/// Marks the WITH queries of a statement as [`write_out`] does, also if the statement creates a
/// view.
///
/// # Errors
/// As [`write_out`].
pub(crate) fn mark(state: &SessionState, statement: &mut Statement) -> Result<(), SqlError> {
    let mut names = Names::default();
    let _ = statement.walk(&mut names);
    if !names.has_queries {
        return Ok(());
    }
    let mut marker = Marker { state, uses: &names.uses, outside: Vec::new(), error: None };
    let _ = statement.walk(&mut marker);
    marker.error.map_or(Ok(()), Err)
}

/// Counts the relations of each name without a schema.
#[derive(Default)]
struct Names {
    has_queries: bool,
    uses: HashMap<String, usize>,
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.has_queries |= query.with.is_some();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: None, .. } = factor
            && let Some(name) = bare(name)
        {
            *self.uses.entry(name).or_default() += 1;
        }
        ControlFlow::Continue(())
    }
}

/// A name without a schema.
fn bare(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().map(normalized),
        _ => None,
    }
}

fn normalized(name: &Ident) -> String {
    IdentNormalizer::default().normalize(name.clone())
}

struct Marker<'a> {
    state: &'a SessionState,
    uses: &'a HashMap<String, usize>,
    /// For each query with WITH around the current node, the number of places outside of each query
    /// of the WITH that name it.
    outside: Vec<Vec<usize>>,
    error: Option<SqlError>,
}

impl Marker<'_> {
    fn uses_outside(&self, query: &mut Cte) -> usize {
        let name = normalized(&query.alias.name);
        let uses = self.uses.get(&name).copied().unwrap_or(0);
        if uses <= 1 {
            return uses;
        }
        let mut own = Names::default();
        let _ = query.query.walk(&mut own);
        uses.saturating_sub(own.uses.get(&name).copied().unwrap_or(0))
    }

    fn mark(&self, query: &mut Cte, uses: usize) -> Option<Mark> {
        match uses {
            _ if query.materialized == Some(CteAsMaterialized::Materialized) => {
                Some(Mark::Materialized)
            }
            0 => None,
            1 => volatility::is_in(self.state, query.query.as_mut()).then_some(Mark::Volatile),
            _ => Some(Mark::Several),
        }
    }
}

impl VisitorMut for Marker<'_> {
    type Break = ();

    /// The places that name a query are counted before marks add others.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(with) = &mut query.with {
            let outside = with.cte_tables.iter_mut().map(|query| self.uses_outside(query));
            let outside = outside.collect();
            self.outside.push(outside);
        }
        ControlFlow::Continue(())
    }

    /// The queries of a WITH are marked after those inside of them.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(with) = &mut query.with else { return ControlFlow::Continue(()) };
        let recursive = with.recursive;
        let outside = self.outside.pop().unwrap_or_default();
        for (query, uses) in with.cte_tables.iter_mut().zip(outside) {
            let Some(mark) = self.mark(query, uses) else { continue };
            if let Err(error) = enclose(query, mark, recursive) {
                self.error = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

/// Wraps a query as `SELECT * FROM (query) AS mark`. A query that names itself stays a query of a
/// WITH RECURSIVE inside of the marked relation.
fn enclose(query: &mut Cte, mark: Mark, is_recursive: bool) -> Result<(), SqlError> {
    let is_rows = matches!(
        query.query.body.as_ref(),
        SetExpr::Select(_) | SetExpr::SetOperation { .. } | SetExpr::Query(_) | SetExpr::Values(_)
    );
    if !is_rows {
        return Ok(());
    }
    let mut own = Names::default();
    let _ = query.query.walk(&mut own);
    let name = &query.alias.name;
    let names_itself = is_recursive && own.uses.contains_key(&normalized(name));
    let mut inner = parsed_query(&format!("SELECT * FROM {name}"))?;
    let mut outer = parsed_query(&format!("SELECT * FROM (SELECT 1) AS \"{}\"", mark.alias()))?;
    match names_itself {
        true => {
            // With the query's own columns, which its recursive part names.
            let (with_token, cte_tables) = (AttachedToken::empty(), vec![query.clone()]);
            inner.with = Some(With { with_token, recursive: true, cte_tables });
        }
        false => mem::swap(&mut inner, &mut query.query),
    }
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        **subquery = inner;
    }
    *query.query = outer;
    Ok(())
}
