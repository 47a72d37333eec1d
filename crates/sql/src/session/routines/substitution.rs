//! Substitution of arguments for the parameters of a body.
//!
//! The name of a parameter in the body becomes the argument, unless a table of the query around it
//! has a column of that name. Columns of an argument must stay those of the call: an argument whose
//! columns would be resolved to a relation of the body is *captured*, and the caller substitutes
//! another expression for it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, LimitClause, OneOrManyWithParens, Query, Value, VisitorMut,
};
use terrace_table::error::SqlError;

use super::arguments::Argument;
use super::routine::Routine;
use super::scope::{Finder, Scope, normalized};
use crate::session::refusal::refused;
use crate::session::walk::Walk;

/// Maximum number of expressions that a statement has after its macros and functions are written
/// out.
const SIZE_MAX: usize = 100_000;

/// Substitutes arguments for the parameters of a body.
pub(super) struct Substitution<'a> {
    routine: &'a Routine,
    arguments: &'a [Argument],
    finder: Finder<'a>,
    scopes: Vec<Scope>,
    lambdas: Vec<Vec<String>>,
    /// LIMIT clauses, already substituted, of the queries around the current node.
    limits: Vec<Option<LimitClause>>,
    /// Number of expressions that arguments have added.
    size: usize,
    /// Number of uses of each parameter.
    pub(super) uses: Vec<usize>,
    /// True for each parameter whose argument was captured.
    pub(super) captured: Vec<bool>,
    error: Option<SqlError>,
}

impl<'a> Substitution<'a> {
    pub(super) fn new(routine: &'a Routine, arguments: &'a [Argument], finder: Finder<'a>) -> Self {
        Self {
            routine,
            arguments,
            finder,
            scopes: vec![],
            lambdas: vec![],
            limits: vec![],
            size: 0,
            uses: vec![0; arguments.len()],
            captured: vec![false; arguments.len()],
            error: None,
        }
    }

    /// Substitutes in a body.
    ///
    /// # Errors
    /// [`SqlError::Refused`] for a name that is ambiguous, and for a result that is too large.
    pub(super) fn apply(&mut self, body: &mut dyn Walk) -> Result<(), SqlError> {
        let _ = body.walk(self);
        self.error.take().map_or(Ok(()), Err)
    }

    /// The parameter that an expression names.
    fn parameter(&mut self, expr: &Expr) -> Option<usize> {
        let named = |name: &str| {
            let is_it = |of: &Option<String>| of.as_deref() == Some(name);
            self.routine.parameters.iter().position(|parameter| is_it(&parameter.name))
        };
        match expr {
            Expr::Identifier(name) => {
                let name = normalized(name);
                let place = named(&name)?;
                let is_of_lambda = self.lambdas.iter().flatten().any(|of| *of == name);
                (!is_of_lambda && !self.is_column(&name)).then_some(place)
            }
            Expr::CompoundIdentifier(names) => match names.as_slice() {
                [routine, name] if normalized(routine) == self.routine.name => {
                    let has_relation =
                        self.scopes.iter().any(|it| it.relations.contains(&self.routine.name));
                    named(&normalized(name)).filter(|_| !has_relation)
                }
                _ => None,
            },
            Expr::Value(value) => match &value.value {
                Value::Placeholder(number) if !self.routine.is_macro() => {
                    let number: usize = number.strip_prefix('$')?.parse().ok()?;
                    number.checked_sub(1)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// True if a table in scope has a column of the name of a parameter. A macro with both is
    /// refused, as in DuckDB; in a function the name is that of the column, as in PostgreSQL.
    fn is_column(&mut self, name: &str) -> bool {
        let is_column = self.scopes.iter().any(|scope| scope.columns.contains(name));
        if is_column && self.routine.is_macro() {
            let what = format!("the name {name} in {}", self.routine.signature());
            let instead = "it is a parameter and a column of a table in the body: rename the \
                           parameter, or say the table before the column";
            self.error = Some(refused(&what, instead));
        }
        is_column
    }

    /// True if a column of an argument would be found in a relation of the body.
    fn captures(&self, argument: &Argument) -> bool {
        let in_scope = |(relation, column): &(Option<String>, String)| match relation {
            Some(relation) => self.scopes.iter().any(|scope| {
                scope.relations.contains(relation) || scope.columns.contains(relation)
            }),
            None => {
                self.scopes.iter().any(|scope| scope.has_more || scope.columns.contains(column))
            }
        };
        let first = |(relation, column): &(Option<String>, String)| {
            relation.as_ref().unwrap_or(column).clone()
        };
        let in_lambda = |name: String| self.lambdas.iter().flatten().any(|of| *of == name);
        argument.columns.iter().any(|name| in_scope(name) || in_lambda(first(name)))
    }

    fn substitute(&mut self, expr: &mut Expr, place: usize) -> Result<(), SqlError> {
        let Some(argument) = self.arguments.get(place) else {
            let what = format!("{expr} in {}", self.routine.signature());
            let count = self.arguments.len();
            return Err(refused(&what, &format!("it has {count} parameters")));
        };
        self.size += argument.size;
        if self.size > SIZE_MAX {
            return Err(too_large(self.routine));
        }
        if self.captures(argument) {
            self.captured[place] = true;
        }
        self.uses[place] += 1;
        *expr = argument.expr.clone();
        Ok(())
    }
}

/// The expressions of a limit.
fn exprs_of(limit: &mut LimitClause) -> Vec<&mut Expr> {
    match limit {
        LimitClause::LimitOffset { limit, offset, .. } => {
            limit.iter_mut().chain(offset.iter_mut().map(|offset| &mut offset.value)).collect()
        }
        LimitClause::OffsetCommaLimit { offset, limit } => vec![offset, limit],
    }
}

/// The error of a routine whose text with all arguments is too large.
pub(super) fn too_large(routine: &Routine) -> SqlError {
    refused(
        &format!("a call of {} of more than {SIZE_MAX} expressions", routine.signature()),
        "compute its arguments in a subquery, so that each is written once",
    )
}

/// Visitor that measures the nesting depth of a statement and its number of expressions.
#[derive(Default)]
pub(super) struct Measure {
    depth: usize,
    pub(super) depth_max: usize,
    pub(super) size: usize,
}

impl Measure {
    fn enter(&mut self) -> ControlFlow<()> {
        (self.depth, self.size) = (self.depth + 1, self.size + 1);
        self.depth_max = self.depth_max.max(self.depth);
        ControlFlow::Continue(())
    }

    /// True for an expression or query that is too large.
    pub(super) fn is_too_large(&self) -> bool {
        self.size > SIZE_MAX
    }
}

impl VisitorMut for Measure {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.enter()
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, _expr: &mut Expr) -> ControlFlow<()> {
        self.enter()
    }

    fn post_visit_expr(&mut self, _expr: &mut Expr) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Substitution<'_> {
    type Break = ();

    /// Columns are not visible in LIMIT: its parameters are substituted here, before the scope of
    /// the query is known, and `post_visit_query` restores it.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut limit = query.limit_clause.take();
        let scopes = std::mem::take(&mut self.scopes);
        let mut exprs = limit.iter_mut().flat_map(exprs_of);
        let done = exprs.try_for_each(|expr| expr.walk(self));
        drop(exprs);
        self.scopes = scopes;
        self.limits.push(limit);
        self.scopes.push(self.finder.scope(query));
        done
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.pop();
        query.limit_clause = self.limits.pop().flatten();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(lambda) = expr {
            let names = match &lambda.params {
                OneOrManyWithParens::One(one) => vec![normalized(&one.name)],
                OneOrManyWithParens::Many(many) => {
                    many.iter().map(|one| normalized(&one.name)).collect()
                }
            };
            self.lambdas.push(names);
        }
        ControlFlow::Continue(())
    }

    /// Substitutes after the visit of an expression, so that arguments are not visited.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Lambda(_)) {
            self.lambdas.pop();
        }
        let place = self.parameter(expr);
        let done = match (self.error.take(), place) {
            (Some(error), _) => Err(error),
            (None, Some(place)) => self.substitute(expr, place),
            (None, None) => Ok(()),
        };
        match done {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}
