//! Aliases that other expressions of their SELECT use.
//!
//! ```text
//! SELECT id + 1 AS k, k * 2 FROM t WHERE k > 5  ->  SELECT id + 1 AS k, (id + 1) * 2 FROM t
//!                                                   WHERE id + 1 > 5
//! ```
//! A column of FROM of that name is meant before an alias. An expression of the SELECT list sees
//! the aliases before it, a condition sees all.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, SchemaError};
use datafusion::execution::SessionState;
use datafusion::logical_expr::Volatility;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{Expr, Function, Query, Select, SelectItem, VisitorMut};
use terrace_table::error::SqlError;

use super::super::refusal::refused;
use super::super::walk::Walk;
use super::stars::Column;

/// True for the error of a name that may be an alias.
pub(in super::super) fn is_cause(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::SchemaError(error, _)
        if matches!(error.as_ref(), SchemaError::FieldNotFound { .. }))
}

/// True for a scalar function whose result differs between calls.
pub(super) fn is_volatile(state: &SessionState, name: &str) -> bool {
    let function = state.scalar_functions().get(name);
    function.is_some_and(|function| function.signature().volatility == Volatility::Volatile)
}

/// True if a SELECT may use its own aliases.
pub(super) fn are_in(select: &mut Select) -> bool {
    let names: HashMap<String, Expr> = select.projection.iter().filter_map(named).collect();
    let mut search = Uses { names: &names, queries: 0 };
    let exprs = [&mut select.selection, &mut select.having, &mut select.qualify];
    !names.is_empty()
        && (select.projection.iter_mut().any(|item| item.walk(&mut search).is_break())
            || exprs.into_iter().any(|expr| expr.walk(&mut search).is_break()))
}

/// The alias of an item and its expression.
fn named(item: &SelectItem) -> Option<(String, Expr)> {
    match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            Some((IdentNormalizer::default().normalize(alias.clone()), expr.clone()))
        }
        _ => None,
    }
}

/// Replaces the aliases of a SELECT over rows of the columns.
///
/// # Errors
/// [`SqlError::Refused`] for an alias of a value that each use would compute anew.
pub(super) fn write_out(
    select: &mut Select,
    columns: &[Column],
    volatile: &dyn Fn(&str) -> bool,
) -> Result<(), SqlError> {
    let is_column = |name: &str| columns.iter().any(|column| column.name == name);
    let mut writer = Writer { known: HashMap::new(), volatile, queries: 0, error: None };
    for item in &mut select.projection {
        let _ = item.walk(&mut writer);
        if let Some((name, expr)) = named(item)
            && !is_column(&name)
        {
            writer.known.insert(name, expr);
        }
    }
    for expr in [&mut select.selection, &mut select.having, &mut select.qualify] {
        let _ = expr.walk(&mut writer);
    }
    writer.error.map_or(Ok(()), Err)
}

/// Looks for a use of an alias, outside of subqueries.
struct Uses<'a> {
    names: &'a HashMap<String, Expr>,
    queries: usize,
}

impl VisitorMut for Uses<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name)
                if self.queries == 0
                    && self
                        .names
                        .contains_key(&IdentNormalizer::default().normalize(name.clone())) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Replaces uses of aliases, outside of subqueries.
struct Writer<'a> {
    known: HashMap<String, Expr>,
    volatile: &'a dyn Fn(&str) -> bool,
    queries: usize,
    error: Option<SqlError>,
}

impl VisitorMut for Writer<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Identifier(name) = expr else { return ControlFlow::Continue(()) };
        let name = IdentNormalizer::default().normalize(name.clone());
        let Some(value) = self.known.get(&name).filter(|_| self.queries == 0) else {
            return ControlFlow::Continue(());
        };
        let mut value = value.clone();
        if value.walk(&mut Changes(self.volatile)).is_break() {
            self.error = Some(refused(
                &format!("alias {name} of {value}, which each use would compute anew"),
                "compute it in a subquery",
            ));
            return ControlFlow::Break(());
        }
        *expr = Expr::Nested(Box::new(value));
        ControlFlow::Continue(())
    }
}

/// Looks for functions whose results differ between calls.
struct Changes<'a>(&'a dyn Fn(&str) -> bool);

impl VisitorMut for Changes<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(Function { name, .. }) = expr else { return ControlFlow::Continue(()) };
        let name = name.0.last().and_then(|part| part.as_ident());
        match name.is_some_and(|name| (self.0)(&name.value.to_lowercase())) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
