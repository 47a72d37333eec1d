//! Checks of the definitions of functions and macros.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Query, VisitorMut};
use terrace_table::error::SqlError;

use super::body::{Body, parsed};
use super::lookup::{is_built_in, stored};
use super::routine::{Form, Function, Parameter, Routine};
use super::scope::normalized;
use super::shape;
use crate::session::parse::parse;
use crate::session::refusal::refused;
use crate::session::sql_type::identifier;
use crate::session::statement::SessionStatement;
use crate::session::walk::Walk;

/// Maximum number of parameters: that of PostgreSQL.
const PARAMETERS_MAX: usize = 100;

/// Refuses a definition that is not supported, or that contradicts itself.
///
/// # Errors
/// [`SqlError::Refused`]; errors of the parser in the body.
pub(in crate::session) fn check(state: &SessionState, routine: &Routine) -> Result<(), SqlError> {
    let signature = routine.signature();
    if is_built_in(state, &routine.name) {
        let what = format!("a {} named {}", routine.noun(), routine.name);
        return Err(refused(&what, "a function of this name is built in; say another name"));
    }
    if routine.parameters.len() > PARAMETERS_MAX {
        let what = format!("{signature} with {} parameters", routine.parameters.len());
        return Err(refused(&what, &format!("at most {PARAMETERS_MAX} are")));
    }
    let mut names = HashSet::new();
    let names_of = routine.parameters.iter().filter_map(|parameter| parameter.name.as_ref());
    if let Some(name) = names_of.into_iter().find(|name| !names.insert(*name)) {
        let what = format!("two parameters {name} in {signature}");
        return Err(refused(&what, "give one of them another name"));
    }
    let rest = routine.parameters.iter().skip_while(|parameter| parameter.default.is_none());
    if let Some(Parameter { name, .. }) = rest.into_iter().find(|it| it.default.is_none()) {
        let name = name.as_deref().unwrap_or_default();
        let what = format!("a parameter {name} without a default in {signature}");
        return Err(refused(&what, "parameters behind one with a default have one too"));
    }
    if let Form::Function(function) = &routine.form {
        check_function(routine, function)?;
    }
    match parsed(state, routine)? {
        Body::Value(mut value) if routine.is_macro() => refuse_columns(routine, &mut value),
        _ => Ok(()),
    }
}

fn check_function(routine: &Routine, function: &Function) -> Result<(), SqlError> {
    let signature = routine.signature();
    match function.language.as_deref() {
        Some("sql") => {}
        None if function.is_expression => {}
        None => {
            return Err(refused(
                &format!("the function {signature} without a language"),
                "say LANGUAGE SQL",
            ));
        }
        Some(language) => {
            return Err(refused(
                &format!("the function {signature} in LANGUAGE {language}"),
                "the language of functions is SQL",
            ));
        }
    }
    if function.has_rights_of_owner {
        return Err(refused(
            &format!("the function {signature} with SECURITY DEFINER"),
            "a function runs with the rights of its caller; a view reads with those of its owner",
        ));
    }
    shape::check(routine, function)
}

/// Refuses a name in the body of a macro that is neither a parameter nor a column of a table in the
/// body.
fn refuse_columns(routine: &Routine, value: &mut Expr) -> Result<(), SqlError> {
    let mut search = Columns { routine, unknown: None };
    let _ = value.walk(&mut search);
    match search.unknown {
        None => Ok(()),
        Some(name) => Err(refused(
            &format!("the name {name} in the macro {}", routine.signature()),
            "it is no parameter: a macro knows its parameters and the tables of its own queries",
        )),
    }
}

/// Finds a name that is no parameter in an expression without queries and lambdas.
struct Columns<'a> {
    routine: &'a Routine,
    unknown: Option<String>,
}

impl VisitorMut for Columns<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.unknown = None;
        ControlFlow::Break(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Lambda(_) => {
                self.unknown = None;
                return ControlFlow::Break(());
            }
            Expr::Identifier(name) => {
                let name = normalized(name);
                let is_it = |of: &Parameter| of.name.as_ref() == Some(&name);
                if !self.routine.parameters.iter().any(is_it) && self.unknown.is_none() {
                    self.unknown = Some(name);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// A statement that calls a routine with nulls, to be planned; `None` for a macro with parameters
/// that a function of the body may not accept as nulls.
///
/// # Errors
/// Errors of the parser.
pub(in crate::session) fn call(routine: &Routine) -> Result<Option<Statement>, SqlError> {
    let arguments: Vec<_> = routine.parameters.iter().map(|_| "NULL").collect();
    let (name, arguments) = (identifier(&routine.name), arguments.join(", "));
    let text = match routine.returns_rows() {
        true => format!("SELECT * FROM {name}({arguments})"),
        false => format!("SELECT {name}({arguments})"),
    };
    Ok(parse(&text)?.pop().and_then(SessionStatement::into_sql))
}

/// Refuses to replace a function by one that returns something else, as PostgreSQL does.
///
/// # Errors
/// [`SqlError::Refused`].
pub(in crate::session) fn check_replacement(
    before: &str,
    routine: &Routine,
) -> Result<(), SqlError> {
    let before = stored(before)?;
    let (Form::Function(old), Form::Function(new)) = (&before.form, &routine.form) else {
        return Ok(());
    };
    if old.returns.to_string().eq_ignore_ascii_case(&new.returns.to_string()) {
        return Ok(());
    }
    Err(refused(
        &format!("replacing {}, which returns {}", before.signature(), old.returns),
        &format!("by one that returns {}; say DROP FUNCTION first", new.returns),
    ))
}
