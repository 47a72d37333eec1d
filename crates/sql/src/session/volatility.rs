//! Search for calls of volatile functions in parsed statements.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::logical_expr::Volatility;
use datafusion::sql::sqlparser::ast::{Expr, VisitorMut};

use super::walk::Walk;

/// True if a node calls a volatile function, whose result differs between calls.
pub(super) fn is_in(state: &SessionState, node: &mut impl Walk) -> bool {
    node.walk(&mut Calls(state)).is_break()
}

/// Breaks at a call of such a function.
struct Calls<'a>(&'a SessionState);

impl VisitorMut for Calls<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        let name = call.name.0.last().and_then(|part| part.as_ident());
        let function =
            name.and_then(|name| self.0.scalar_functions().get(&name.value.to_lowercase()));
        match function.is_some_and(|it| it.signature().volatility == Volatility::Volatile) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
