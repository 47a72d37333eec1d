//! Search for the functions and macros that a statement calls.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, ObjectName, TableFactor, VisitorMut};

use super::arguments::of_call;
use super::lookup::{Found, Lookup};
use crate::session::walk::Walk;

/// Returns the routines that `node` calls. A call that no routine fits is skipped; the planner
/// reports it.
pub(in crate::session) fn called(lookup: &Lookup<'_>, node: &mut dyn Walk) -> Vec<Found> {
    let mut calls = Calls { lookup, found: Vec::new() };
    let _ = node.walk(&mut calls);
    calls.found
}

struct Calls<'a> {
    lookup: &'a Lookup<'a>,
    found: Vec<Found>,
}

impl Calls<'_> {
    fn note(
        &mut self,
        name: &ObjectName,
        arguments: &[FunctionArg],
        is_in_from: bool,
    ) -> ControlFlow<()> {
        let found = self.lookup.find(name, arguments, is_in_from);
        self.found.extend(found.ok().flatten());
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Calls<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: Some(args), .. } => self.note(name, &args.args, true),
            TableFactor::Function { name, args, .. } => self.note(name, args, true),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        match of_call(call) {
            Ok(arguments) => self.note(&call.name, arguments, false),
            Err(_) => ControlFlow::Continue(()),
        }
    }
}
