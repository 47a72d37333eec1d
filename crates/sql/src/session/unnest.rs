//! An analyzer rule that unnests correlated subqueries which DataFusion cannot turn into joins.
//!
//! DataFusion decorrelates a subquery by moving its conditions on the outer row into the condition
//! of a join. That needs a subquery whose conditions can be moved: no LIMIT, UNION, window or outer
//! join in their way, and only equalities below an aggregation. `simple` finds such subqueries, and
//! leaves them to DataFusion: their plans have one join less.
//!
//! All others are unnested after Neumann and Kemper, "Unnesting Arbitrary Queries" (2015). Let `L`
//! be the outer rows and `C` their columns that the subquery `S` names:
//!
//! 1. The domain `D` is `SELECT DISTINCT C FROM L` (`domain`).
//! 2. `D` is pushed down into `S` until no outer reference is left below it, and becomes a cross
//!    join there (`push_down`). Every operator above it evaluates its rows per row of `D`: an
//!    aggregation groups by `C` as well, a window and a LIMIT partition by it, joins compare it.
//! 3. `L` joins the result by `IS NOT DISTINCT FROM` on `C` (`outer_rows`): a left join for a
//!    value, a semi or anti join for EXISTS and IN, the join itself for LATERAL (`lateral`).
//!
//! ```text
//! SELECT a, (SELECT count(*) FROM s WHERE s.x < r.a) FROM r
//!
//! SELECT r.a, v.n FROM r LEFT JOIN
//!   (SELECT d.a, coalesce(g.n, 0) AS n FROM d LEFT JOIN
//!      (SELECT d.a, count(*) AS n FROM s, d WHERE s.x < d.a GROUP BY d.a) g
//!      ON d.a IS NOT DISTINCT FROM g.a) v
//!   ON r.a IS NOT DISTINCT FROM v.a          where d is (SELECT DISTINCT a FROM r)
//! ```
//!
//! The rule works from the innermost subquery outwards. References to queries further out stay in
//! the joins that it makes, and are bound when the enclosing subquery is unnested. Subqueries in
//! ORDER BY, GROUP BY, aggregates, windows and conditions of joins first become columns of a
//! projection below their node (`positions`).
//!
//! `L` is evaluated twice, once for `D`. If the two could differ in `C` (`repeatable`), its rows
//! are stored when it is evaluated first, and read again (`once`).

mod domain;
mod fields;
mod lateral;
mod once;
mod outer_rows;
mod positions;
mod push_down;
mod references;
mod repeatable;
mod simple;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use datafusion::optimizer::AnalyzerRule;

use fields::Names;
pub(crate) use once::template;
pub(super) use once::{OncePlanner, instance, is_once, once};
use references::{has_correlated, has_subqueries};
pub(super) use repeatable::is_repeatable;

use crate::interrupt;

/// The analyzer rule. It runs after comparisons with subqueries are expanded, and before DataFusion
/// coerces types.
#[derive(Debug)]
pub(super) struct GeneralUnnesting;

impl AnalyzerRule for GeneralUnnesting {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_subqueries(&plan)? {
            return Ok(plan);
        }
        let mut names = Names::default();
        let unnest = |node| {
            interrupt::check()?;
            unnest(node, &mut names)
        };
        let plan = plan.transform_up_with_subqueries(unnest)?.data;
        match plan.all_out_ref_exprs().first() {
            Some(Expr::OuterReferenceColumn(_, column)) => plan_err!(
                "{column} is not a column of the rows for which the subquery that names it is \
                 evaluated; add it to their GROUP BY or DISTINCT"
            ),
            _ => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        "general_unnesting"
    }
}

/// Unnests the subqueries of one node; those inside of them are unnested already.
fn unnest(node: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Subquery(subquery) => Ok(with_references(subquery)),
        LogicalPlan::Join(join) if lateral::is_lateral(&join) => lateral::unnest(join, names),
        // DataFusion evaluates VALUES before it runs their subqueries.
        node @ LogicalPlan::Values(_) if has_subqueries(&node)? => positions::unnest(node, names),
        node if !has_correlated(&node)? => Ok(Transformed::no(node)),
        LogicalPlan::Filter(filter) => outer_rows::unnest_filter(filter, names),
        LogicalPlan::Projection(projection) => outer_rows::unnest_projection(projection, names),
        node => positions::unnest(node, names),
    }
}

/// Updates the list of a subquery's outer references, which lacks those of subqueries inside of it.
fn with_references(subquery: Subquery) -> Transformed<LogicalPlan> {
    let outer_ref_columns = subquery.subquery.all_out_ref_exprs();
    let is_changed = outer_ref_columns != subquery.outer_ref_columns;
    let subquery = Subquery { outer_ref_columns, ..subquery };
    Transformed::new_transformed(LogicalPlan::Subquery(subquery), is_changed)
}
