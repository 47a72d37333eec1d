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
//! The alias marks the query. The planner of relations decides by its plan ([`Mark::apply`]).

use std::collections::HashMap;
use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::Result;
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
use super::spelling;
use super::unnest::{is_repeatable, once};
use super::walk::Walk;

/// The alias of the rows of a query that several places name; no statement has it.
const SEVERAL: &str = "rows of WITH";

/// The alias of the rows of a query that is AS MATERIALIZED.
const MATERIALIZED: &str = "rows of WITH, materialized";

/// A mark of the rows of a WITH query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Several places name the query.
    Several,
    /// The query is AS MATERIALIZED.
    Materialized,
}

impl Mark {
    /// The mark of a relation of FROM.
    pub(super) fn of(relation: &TableFactor) -> Option<Self> {
        let TableFactor::Derived { alias: Some(alias), .. } = relation else { return None };
        match alias.name.value.as_str() {
            SEVERAL => Some(Self::Several),
            MATERIALIZED => Some(Self::Materialized),
            _ => None,
        }
    }

    fn alias(self) -> &'static str {
        match self {
            Self::Several => SEVERAL,
            Self::Materialized => MATERIALIZED,
        }
    }

    /// Makes the copies of the marked rows those of one evaluation, if they have to be. Rows that
    /// depend on an outer row stay as they are.
    ///
    /// # Errors
    /// If the plan cannot be rebuilt.
    pub(super) fn apply(self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let LogicalPlan::SubqueryAlias(marked) = plan else { return Ok(plan) };
        let is_shared = match self {
            _ if !marked.input.all_out_ref_exprs().is_empty() => false,
            Self::Materialized => true,
            Self::Several => !is_repeatable(&marked.input),
        };
        if !is_shared {
            return Ok(LogicalPlan::SubqueryAlias(marked));
        }
        let input = once(Arc::unwrap_or_clone(marked.input));
        SubqueryAlias::try_new(Arc::new(input), marked.alias).map(LogicalPlan::SubqueryAlias)
    }
}

/// Makes AS MATERIALIZED of the columns that stand for it.
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

/// Marks the WITH queries of a statement that several places name, or that are AS MATERIALIZED. A
/// view is stored as it is written, and its queries are marked when it is read.
///
/// # Errors
/// If a text of this module cannot be parsed.
pub(super) fn write_out(statement: &mut Statement) -> Result<(), SqlError> {
    if let Statement::Statement(statement) = statement
        && let SqlStatement::CreateView(_) = statement.as_ref()
    {
        return Ok(());
    }
    mark(statement)
}

/// Marks the WITH queries of a statement, also if it makes a view.
///
/// # Errors
/// As [`write_out`].
pub(crate) fn mark(statement: &mut Statement) -> Result<(), SqlError> {
    let mut names = Names::default();
    let _ = statement.walk(&mut names);
    if !names.has_queries {
        return Ok(());
    }
    let mut marker = Marker { uses: &names.uses, error: None };
    let _ = statement.walk(&mut marker);
    marker.error.map_or(Ok(()), Err)
}

/// The number of relations of each name without a schema.
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
    uses: &'a HashMap<String, usize>,
    error: Option<SqlError>,
}

impl VisitorMut for Marker<'_> {
    type Break = ();

    /// The queries of a WITH are marked after those inside of them.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(with) = &mut query.with else { return ControlFlow::Continue(()) };
        let recursive = with.recursive;
        for query in &mut with.cte_tables {
            let is_materialized = query.materialized == Some(CteAsMaterialized::Materialized);
            let uses = self.uses.get(&normalized(&query.alias.name)).copied().unwrap_or(0);
            let mark = match is_materialized {
                true => Mark::Materialized,
                false if uses > 1 => Mark::Several,
                false => continue,
            };
            if let Err(error) = enclose(query, mark, recursive) {
                self.error = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

/// Makes a query a marked relation of another, which has its columns. A query that names itself
/// stays the query of a WITH RECURSIVE, inside of the relation.
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
