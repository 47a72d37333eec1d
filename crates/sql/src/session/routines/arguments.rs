//! Arguments of a call, in the order of the parameters.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::logical_expr::Volatility;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, VisitorMut,
};
use terrace_table::error::SqlError;

use super::body::expression;
use super::routine::Routine;
use crate::session::refusal::refused;
use crate::session::walk::Walk;

/// An argument, as it stands in the place of a parameter.
pub(super) struct Argument {
    pub(super) expr: Expr,
    /// Number of expressions in it.
    pub(super) size: usize,
    /// The columns in it: names, with the name before the first period of each.
    pub(super) columns: Vec<(Option<String>, String)>,
    /// True if an evaluation may return another value than the one before.
    pub(super) is_volatile: bool,
}

/// The arguments of a call of a function.
///
/// # Errors
/// [`SqlError::Refused`] for clauses that belong to aggregates and window functions.
pub(super) fn of_call(call: &Function) -> Result<&[FunctionArg], SqlError> {
    let is_plain = call.filter.is_none()
        && call.over.is_none()
        && call.null_treatment.is_none()
        && call.within_group.is_empty()
        && call.parameters == FunctionArguments::None;
    let none: &[FunctionArg] = &[];
    let arguments = match &call.args {
        FunctionArguments::None => Some(none),
        FunctionArguments::List(list)
            if list.duplicate_treatment.is_none() && list.clauses.is_empty() =>
        {
            Some(list.args.as_slice())
        }
        _ => None,
    };
    arguments.filter(|_| is_plain).ok_or_else(|| {
        let instead = "DISTINCT, FILTER, ORDER BY and OVER belong to aggregates; a macro may have \
                       them in its body";
        refused(&call.to_string(), instead)
    })
}

/// True if a routine can be called with the arguments: their number and names fit.
pub(super) fn fit(routine: &Routine, arguments: &[FunctionArg]) -> bool {
    placed(routine, arguments).is_some()
}

/// The arguments by parameter; `None` for one that is left out, and if they do not fit.
fn placed<'a>(
    routine: &Routine,
    arguments: &'a [FunctionArg],
) -> Option<Vec<Option<&'a FunctionArgExpr>>> {
    let mut placed = vec![None; routine.parameters.len()];
    let mut is_named = false;
    for (place, argument) in arguments.iter().enumerate() {
        let (place, value) = match argument {
            FunctionArg::Unnamed(value) if !is_named => (place, value),
            FunctionArg::Named { name, arg, .. } => {
                is_named = true;
                let name = IdentNormalizer::default().normalize(name.clone());
                let is_it = |of: &Option<String>| of.as_ref() == Some(&name);
                (routine.parameters.iter().position(|it| is_it(&it.name))?, arg)
            }
            _ => return None,
        };
        match placed.get_mut(place)? {
            Some(_) => return None,
            free => *free = Some(value),
        }
    }
    let mut both = placed.iter().zip(&routine.parameters);
    let is_complete = both.all(|(value, of)| value.is_some() || of.default.is_some());
    is_complete.then_some(placed)
}

/// The arguments of a call, with defaults for those that are left out, each cast to the type of its
/// parameter.
///
/// # Errors
/// [`SqlError::Refused`] for `*`; errors of a default.
pub(super) fn bound(
    state: &SessionState,
    routine: &Routine,
    arguments: &[FunctionArg],
) -> Result<Vec<Argument>, SqlError> {
    let placed = placed(routine, arguments).unwrap_or_default();
    let bound = placed.into_iter().zip(&routine.parameters).map(|(value, parameter)| {
        let expr = match (value, &parameter.default) {
            (Some(FunctionArgExpr::Expr(expr)), _) => expr.clone(),
            (None, Some(default)) => expression(default, routine)?,
            _ => {
                let what = format!("* as an argument of {}", routine.signature());
                return Err(refused(&what, "name the columns"));
            }
        };
        let expr = match parameter.data_type.as_deref().filter(|of| !is_any(of)) {
            Some(data_type) => cast(expr, data_type)?,
            None => grouped(expr),
        };
        Ok(argument(state, expr))
    });
    bound.collect()
}

/// True for a pseudo-type of PostgreSQL that stands for any type, such as `anyelement`.
fn is_any(data_type: &str) -> bool {
    let data_type = data_type.to_lowercase();
    data_type.starts_with("any")
}

/// Casts an expression to a type.
///
/// # Errors
/// Errors of the parser.
pub(super) fn cast(expr: Expr, data_type: &str) -> Result<Expr, SqlError> {
    let mut cast = crate::session::dialect::parsed_expr(&format!("CAST(NULL AS {data_type})"))?;
    if let Expr::Cast { expr: inner, .. } = &mut cast {
        **inner = expr;
    }
    Ok(cast)
}

/// Puts an expression into parentheses, unless it is one word or has them.
pub(super) fn grouped(expr: Expr) -> Expr {
    match expr {
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Value(_)
        | Expr::Nested(_)
        | Expr::Function(_)
        | Expr::Subquery(_)
        | Expr::Lambda(_)
        | Expr::Cast { .. } => expr,
        other => Expr::Nested(Box::new(other)),
    }
}

/// Describes an expression that stands in the place of a parameter.
pub(super) fn argument(state: &SessionState, mut expr: Expr) -> Argument {
    let mut search = Search { state, size: 0, columns: vec![], is_volatile: false };
    let _ = expr.walk(&mut search);
    let Search { size, columns, is_volatile, .. } = search;
    Argument { expr, size, columns, is_volatile }
}

struct Search<'a> {
    state: &'a SessionState,
    size: usize,
    columns: Vec<(Option<String>, String)>,
    is_volatile: bool,
}

impl VisitorMut for Search<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let normalized = |name: &Ident| IdentNormalizer::default().normalize(name.clone());
        self.size += 1;
        match expr {
            Expr::Identifier(name) => self.columns.push((None, normalized(name))),
            Expr::CompoundIdentifier(names) => {
                if let [relation, column, ..] = names.as_slice() {
                    self.columns.push((Some(normalized(relation)), normalized(column)));
                }
            }
            Expr::Function(function) => {
                let name = function.name.to_string().to_lowercase();
                let function = self.state.scalar_functions().get(&name);
                self.is_volatile |=
                    function.is_some_and(|it| it.signature().volatility == Volatility::Volatile);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
