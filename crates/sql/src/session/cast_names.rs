//! Unique names for casts that are arguments of aggregate or window functions or keys of windows.
//!
//! DataFusion names a cast after its operand: `sum(x)` and `sum(x::REAL)` are two columns of one
//! name, which it refuses. A statement refused so is rewritten, so that each cast has another name:
//! ```text
//! sum(x), sum(x::REAL)   ->   sum(x), sum(CASE 1 WHEN 1 THEN x::REAL END)
//! ```

use std::mem;
use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, NamedWindowDefinition, NamedWindowExpr,
    Select, Value, VisitorMut, WindowSpec, WindowType,
};

use super::dialect::with_name;
use super::walk::Walk;

/// Rewrites the casts of a statement so that each has a unique name; true if it has any.
pub(super) fn write_out(state: &SessionState, statement: &mut Statement) -> bool {
    let mut casts = Casts { state, count: 0 };
    let _ = statement.walk(&mut casts);
    casts.count > 0
}

struct Casts<'a> {
    state: &'a SessionState,
    count: usize,
}

impl Casts<'_> {
    /// Wraps `value` in a CASE with a number if it is a cast, which makes its name unique.
    fn name(&mut self, value: &mut Expr) {
        if matches!(value, Expr::Cast { .. }) {
            self.count += 1;
            let cast = mem::replace(value, Expr::Value(Value::Null.into()));
            *value = with_name(cast, self.count);
        }
    }

    fn keys(&mut self, window: &mut WindowSpec) {
        let sorted = window.order_by.iter_mut().map(|key| &mut key.expr);
        for key in window.partition_by.iter_mut().chain(sorted) {
            self.name(key);
        }
    }
}

impl VisitorMut for Casts<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for NamedWindowDefinition(_, window) in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(window) = window {
                self.keys(window);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        if let Some(WindowType::WindowSpec(window)) = &mut function.over {
            self.keys(window);
        }
        let name = function.name.0.last().and_then(|part| part.as_ident());
        let is_aggregate = name.is_some_and(|name| {
            self.state.aggregate_functions().contains_key(&name.value.to_ascii_lowercase())
        });
        let FunctionArguments::List(list) = &mut function.args else {
            return ControlFlow::Continue(());
        };
        for arg in list.args.iter_mut().filter(|_| is_aggregate || function.over.is_some()) {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = arg {
                self.name(value);
            }
        }
        ControlFlow::Continue(())
    }
}
