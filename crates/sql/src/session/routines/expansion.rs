//! Inlining of functions and macros into a statement before it is planned.
//!
//! A call becomes the body with the arguments in place of the parameters, in its innermost calls
//! first. The tables of the body are then read with the rights of the caller.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function as Call, FunctionArg, Ident, ObjectName, Select, SelectItem, SetExpr,
    TableAlias, TableFactor, VisitorMut,
};
use terrace_table::access::Privilege;
use terrace_table::error::SqlError;

use super::arguments::{Argument, argument, bound, cast, grouped, of_call};
use super::body::{Body, has_aggregate, parsed, put_derived};
use super::lookup::{Found, Lookup};
use super::routine::{Form, Function, Routine};
use super::scope::Finder;
use super::shape;
use super::substitution::{Measure, Substitution, too_large};
use crate::access::Rights;
use crate::session::dialect::{call as built, parsed_query};
use crate::session::refusal::refused;
use crate::session::sql_type::identifier;
use crate::session::walk::Walk;

/// Maximum nesting of functions and macros that call each other.
const CALLS_MAX: usize = 64;

/// Maximum number of calls that are inlined into a statement: functions that call others twice
/// double their number with each level.
const ALL_CALLS_MAX: usize = 10_000;

/// Maximum nesting of expressions and queries of a body with its arguments.
const DEPTH_MAX: usize = 300;

/// Inlines the calls of functions and macros in a statement.
///
/// # Errors
/// Errors of the calls: [`SqlError::Refused`] for a routine that calls itself, and for a call in a
/// place that does not fit the routine, such as one that returns rows in WHERE.
pub(in crate::session) fn write_out(
    lookup: &Lookup<'_>,
    rights: &Rights<'_>,
    statement: &mut Statement,
) -> Result<(), SqlError> {
    let mut expansion = Expansion { lookup, rights, open: vec![], calls: 0, error: None };
    let _ = statement.walk(&mut expansion);
    expansion.error.map_or(Ok(()), Err)
}

struct Expansion<'a> {
    lookup: &'a Lookup<'a>,
    rights: &'a Rights<'a>,
    /// The routines whose bodies are being written out, outermost first.
    open: Vec<(String, String)>,
    /// Number of calls so far.
    calls: usize,
    error: Option<SqlError>,
}

impl Expansion<'_> {
    /// The expression of a call; `None` for a function that is built in.
    fn value(&mut self, call: &Call) -> Result<Option<Expr>, SqlError> {
        if !self.lookup.has(&call.name) {
            return Ok(None);
        }
        let arguments = match of_call(call) {
            Ok(arguments) => arguments,
            // An aggregate may have the name in another schema.
            Err(error) => {
                return match self.lookup.find(&call.name, &[], false) {
                    Ok(None) => Ok(None),
                    _ => Err(error),
                };
            }
        };
        let found = match self.lookup.find(&call.name, arguments, false) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(error) => return self.values(call, arguments)?.ok_or(error).map(Some),
        };
        self.check(&found)?;
        let routine = &found.routine;
        let Body::Value(mut body) = parsed(self.lookup.state, routine)? else { return Ok(None) };
        self.within(&found, &mut body)?;
        let arguments = bound(self.lookup.state, routine, arguments)?;
        let mut value = self.substituted(routine, body, &arguments)?;
        if let Form::Function(function) = &routine.form {
            value = result(function, value, &arguments)?;
        }
        check_size(routine, &mut value)?;
        Ok(Some(grouped(value)))
    }

    /// The rows of a call in a select list; `None` for a function that returns none, or rows of
    /// several columns.
    fn values(&mut self, call: &Call, arguments: &[FunctionArg]) -> Result<Option<Expr>, SqlError> {
        let Lookup { state, snapshot, .. } = self.lookup;
        let (state, snapshot) = (*state, *snapshot);
        match self.lookup.find(&call.name, arguments, true) {
            Ok(Some(found)) if shape::is_of_one_column(state, snapshot, &found.routine) => {}
            _ => return Ok(None),
        }
        let rows = self.rows(&call.name, arguments, None)?;
        let Some(TableFactor::Derived { subquery, .. }) = rows else { return Ok(None) };
        // DataFusion computes two lists whose columns have one name once.
        let text = format!(
            "SELECT array_agg(\"rows\".\"value\") AS \"list {}\" \
             FROM (SELECT 1) AS \"rows\"(\"value\")",
            self.calls
        );
        let mut list = parsed_query(&text)?;
        put_derived(&mut list, subquery);
        Ok(Some(built("unnest", [Expr::Subquery(Box::new(list))])))
    }

    /// The query of a call in FROM; `None` for a function that is built in.
    fn rows(
        &mut self,
        name: &ObjectName,
        arguments: &[FunctionArg],
        alias: Option<TableAlias>,
    ) -> Result<Option<TableFactor>, SqlError> {
        let found = match self.lookup.has(name) {
            true => self.lookup.find(name, arguments, true)?,
            false => None,
        };
        let Some(found) = found else { return Ok(None) };
        self.check(&found)?;
        let routine = &found.routine;
        let alias = alias.unwrap_or_else(|| shape::alias(&routine.name));
        let mut query = match parsed(self.lookup.state, routine)? {
            Body::Value(value) => shape::query_of(value, &alias.name)?,
            Body::Rows(query) => query,
        };
        self.within(&found, query.as_mut())?;
        let arguments = bound(self.lookup.state, routine, arguments)?;
        let finder = Finder::new(self.lookup.state, self.lookup.snapshot, query.as_mut());
        let mut substitution = Substitution::new(routine, &arguments, finder);
        substitution.apply(query.as_mut())?;
        if substitution.captured.contains(&true) {
            return Err(captured(routine, "say the table before each column of the arguments"));
        }
        if let Form::Function(function) = &routine.form {
            refuse_repeated(routine, &arguments, &substitution.uses)?;
            let Lookup { state, snapshot, .. } = self.lookup;
            query = shape::shaped(state, snapshot, (routine, function), query, &arguments)?;
        }
        let lateral = arguments.iter().any(|argument| !argument.columns.is_empty());
        let mut expr = Expr::Subquery(query);
        check_size(routine, &mut expr)?;
        let Expr::Subquery(subquery) = expr else { return Ok(None) };
        Ok(Some(TableFactor::Derived { lateral, subquery, alias: Some(alias), sample: None }))
    }

    /// Checks that a routine may be called here.
    fn check(&mut self, found: &Found) -> Result<(), SqlError> {
        let signature = found.routine.signature();
        let id = found.id();
        if self.open.iter().any(|(open, _)| *open == id) {
            let chain = self.open.iter().map(|(_, name)| name.as_str());
            let chain: Vec<_> = chain.chain([signature.as_str()]).collect();
            return Err(refused(
                &format!("the recursion {}", chain.join(" -> ")),
                "functions and macros are written out where they are called; say WITH RECURSIVE",
            ));
        }
        if self.open.len() >= CALLS_MAX {
            return Err(refused(
                &format!("calling {signature} below {CALLS_MAX} other functions and macros"),
                "write some of their bodies into others",
            ));
        }
        match &found.schema {
            Some(schema) => self.rights.require(Privilege::Usage, schema, None),
            None => Ok(()),
        }
    }

    /// Writes out the calls in the body of a routine.
    fn within(&mut self, found: &Found, body: &mut dyn Walk) -> Result<(), SqlError> {
        self.calls += 1;
        if self.calls > ALL_CALLS_MAX {
            let outermost = self
                .open
                .first()
                .map_or_else(|| found.routine.signature(), |(_, signature)| signature.clone());
            return Err(refused(
                &format!(
                    "a statement too complex: {outermost} makes it one of more than \
                     {ALL_CALLS_MAX} calls of functions and macros"
                ),
                "write out some of their bodies, so that each value is computed once",
            ));
        }
        self.open.push((found.id(), found.routine.signature()));
        let _ = body.walk(self);
        self.open.pop();
        self.error.take().map_or(Ok(()), Err)
    }

    /// The body with the arguments in place of the parameters.
    fn substituted(
        &self,
        routine: &Routine,
        body: Expr,
        arguments: &[Argument],
    ) -> Result<Expr, SqlError> {
        let Lookup { state, snapshot, .. } = self.lookup;
        let mut plain = body.clone();
        let finder = Finder::new(state, snapshot, &mut plain);
        let mut substitution = Substitution::new(routine, arguments, finder);
        substitution.apply(&mut plain)?;
        if !routine.is_macro() {
            refuse_repeated(routine, arguments, &substitution.uses)?;
        }
        let captured_arguments = substitution.captured;
        if !captured_arguments.contains(&true) {
            return Ok(plain);
        }
        let mut body = body;
        if has_aggregate(state, &mut body.clone()) {
            return Err(captured(routine, "say the table before each column of the arguments"));
        }
        self.bind(routine, &mut body, arguments, &captured_arguments)
    }

    /// Moves the arguments whose columns a relation of the body would capture into a derived table
    /// around the body, which computes them first.
    fn bind(
        &self,
        routine: &Routine,
        body: &mut Expr,
        arguments: &[Argument],
        captured: &[bool],
    ) -> Result<Expr, SqlError> {
        let Lookup { state, snapshot, .. } = self.lookup;
        let relation = format!("arguments of {} {}", routine.name, self.calls);
        let names: Vec<String> = (1..=arguments.len()).map(|n| format!("argument {n}")).collect();
        let mut items = Vec::new();
        let mut bound = Vec::new();
        for ((argument_of, name), is_captured) in arguments.iter().zip(&names).zip(captured) {
            let expr = match is_captured {
                false => argument_of.expr.clone(),
                true => {
                    let expr = argument_of.expr.clone();
                    items.push(SelectItem::ExprWithAlias { expr, alias: quoted(name) });
                    Expr::CompoundIdentifier(vec![quoted(&relation), quoted(name)])
                }
            };
            bound.push(argument(state, expr));
        }
        let finder = Finder::new(state, snapshot, body);
        Substitution::new(routine, &bound, finder).apply(body)?;
        let mut inner = parsed_query("SELECT 1")?;
        project(&mut inner, items);
        let text = format!("SELECT 1 FROM (SELECT 1) AS {}", identifier(&relation));
        let mut outer = parsed_query(&text)?;
        put_derived(&mut outer, Box::new(inner));
        project(&mut outer, vec![SelectItem::UnnamedExpr(body.clone())]);
        Ok(Expr::Subquery(Box::new(outer)))
    }

    fn done(&mut self, result: Result<(), SqlError>) -> ControlFlow<()> {
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Replaces a call in FROM.
    fn replace(&mut self, factor: &mut TableFactor) -> Result<(), SqlError> {
        let (name, arguments, alias, is_numbered) = match factor {
            TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
                (name, args.args.as_slice(), alias, *with_ordinality)
            }
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                (name, args.as_slice(), alias, *with_ordinality)
            }
            _ => return Ok(()),
        };
        let (name, arguments, alias) = (name.clone(), arguments.to_vec(), alias.clone());
        let Some(written) = self.rows(&name, &arguments, alias)? else { return Ok(()) };
        if is_numbered {
            let what = format!("{name} WITH ORDINALITY");
            return Err(refused(&what, "say row_number() OVER () in the SELECT"));
        }
        *factor = written;
        Ok(())
    }
}

impl VisitorMut for Expansion<'_> {
    type Break = ();

    /// Keeps the names that calls give to columns: that of a function, and the text of a call of a
    /// macro.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(Expr::Function(call)) = item else { continue };
            let found = match of_call(call) {
                Ok(arguments) => {
                    let rows = |_| self.lookup.find(&call.name, arguments, true);
                    self.lookup.find(&call.name, arguments, false).or_else(rows)
                }
                Err(_) => continue,
            };
            let Ok(Some(found)) = found else { continue };
            let name = match found.routine.is_macro() {
                true => call.to_string(),
                false => found.routine.name,
            };
            let (expr, alias) = (Expr::Function(call.clone()), quoted(&name));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let replaced = self.replace(factor);
        self.done(replaced)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        let value = self.value(call);
        let replaced = value.map(|value| {
            if let Some(value) = value {
                *expr = value;
            }
        });
        self.done(replaced)
    }
}

/// The result of a function: null for a null argument of a STRICT one, and of its type.
fn result(function: &Function, value: Expr, arguments: &[Argument]) -> Result<Expr, SqlError> {
    let value = match function.is_strict {
        true => shape::strict(value, arguments)?,
        false => value,
    };
    shape::typed(function, value, cast)
}

/// Refuses a volatile argument that the body of the function uses more than once.
fn refuse_repeated(
    routine: &Routine,
    arguments: &[Argument],
    uses: &[usize],
) -> Result<(), SqlError> {
    let is_repeated = |(argument, uses): (&Argument, &usize)| argument.is_volatile && *uses > 1;
    match arguments.iter().zip(uses).find(|(argument, uses)| is_repeated((argument, uses))) {
        None => Ok(()),
        Some((argument, _)) => Err(refused(
            &format!("{} as an argument that {} uses twice", argument.expr, routine.signature()),
            "compute it in a subquery, and call the function with its column",
        )),
    }
}

fn check_size(routine: &Routine, value: &mut Expr) -> Result<(), SqlError> {
    let mut measure = Measure::default();
    let _ = value.walk(&mut measure);
    if measure.is_too_large() {
        return Err(too_large(routine));
    }
    match measure.depth_max > DEPTH_MAX {
        false => Ok(()),
        true => Err(refused(
            &format!("a call of {} of {} levels", routine.signature(), measure.depth_max),
            &format!("at most {DEPTH_MAX} are possible: compute its arguments in a subquery"),
        )),
    }
}

fn captured(routine: &Routine, instead: &str) -> SqlError {
    let what = format!(
        "a call of {} with columns that its body may have under the same name",
        routine.signature()
    );
    refused(&what, instead)
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// Replaces the items of a SELECT.
fn project(query: &mut datafusion::sql::sqlparser::ast::Query, items: Vec<SelectItem>) {
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = items;
    }
}
