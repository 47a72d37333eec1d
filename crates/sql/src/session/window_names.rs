//! Named windows: `OVER w`, `OVER (w ROWS 1 PRECEDING)`, and `WINDOW v AS (w ORDER BY a)`.
//!
//! DataFusion's planner knows `OVER w` in the results of a SELECT only, and ignores the name in a
//! window that extends a named one. That window gets the keys of the named one, as in PostgreSQL:
//! it must not have PARTITION BY itself, nor ORDER BY if the named one has it, and the named one
//! must not have a frame.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Function, Ident, NamedWindowDefinition, NamedWindowExpr, OrderBy, OrderByKind,
    Query, Select, SetExpr, WindowSpec, WindowType,
};
use terrace_table::error::SqlError;

use super::refusal::refused;
use super::walk::{OwnExprs, Walk};
use super::window_exclusion::MARK;

/// Windows by their names, in lower case unless quoted.
type Windows = HashMap<String, WindowSpec>;

/// Writes out the named windows of a query that is one SELECT, also those in its ORDER BY.
///
/// # Errors
/// [`SqlError::Refused`] for a name that is not defined, and for a clause that the named window
/// has.
pub(super) fn write_out(query: &mut Query) -> Result<(), SqlError> {
    let Query { body, order_by, .. } = query;
    match body.as_mut() {
        SetExpr::Select(select) => write_out_in(select, order_by.as_mut()),
        _ => Ok(()),
    }
}

/// Writes out the named windows of a SELECT of a set operation.
///
/// # Errors
/// As [`write_out`].
pub(super) fn write_out_select(select: &mut Select) -> Result<(), SqlError> {
    write_out_in(select, None)
}

fn write_out_in(select: &mut Select, order_by: Option<&mut OrderBy>) -> Result<(), SqlError> {
    let mut windows = Windows::new();
    for NamedWindowDefinition(name, definition) in &mut select.named_window {
        let mut spec = match definition {
            NamedWindowExpr::WindowSpec(spec) => std::mem::replace(spec, empty()),
            NamedWindowExpr::NamedWindow(other) => {
                let known = windows.get(&normal(other)).cloned();
                known.ok_or_else(|| undefined(&other.value))?
            }
        };
        extend(&mut spec, &windows)?;
        windows.insert(normal(name), spec.clone());
        *definition = NamedWindowExpr::WindowSpec(spec);
    }
    let mut error = None;
    let mut writer = OwnExprs::outermost_first(|expr| {
        let Expr::Function(Function { over: Some(over), .. }) = expr else {
            return ControlFlow::Continue(());
        };
        match write_out_over(over, &windows) {
            Ok(()) => ControlFlow::Continue(()),
            Err(refused) => {
                error = Some(refused);
                ControlFlow::Break(())
            }
        }
    });
    for item in &mut select.projection {
        let _ = item.walk(&mut writer);
    }
    if let Some(Distinct::On(keys)) = &mut select.distinct {
        for key in keys {
            let _ = key.walk(&mut writer);
        }
    }
    let _ = select.qualify.walk(&mut writer);
    if let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order_by {
        for key in keys {
            let _ = key.expr.walk(&mut writer);
        }
    }
    error.map_or(Ok(()), Err)
}

fn write_out_over(over: &mut WindowType, windows: &Windows) -> Result<(), SqlError> {
    match over {
        WindowType::WindowSpec(spec) => extend(spec, windows),
        WindowType::NamedWindow(name) => match windows.get(&normal(name)) {
            None => Err(refused(
                &format!("the window {name}, which is not defined"),
                &format!("define it: WINDOW {name} AS (...)"),
            )),
            Some(spec) => {
                *over = WindowType::WindowSpec(spec.clone());
                Ok(())
            }
        },
    }
}

fn normal(name: &Ident) -> String {
    IdentNormalizer::default().normalize(name.clone())
}

fn undefined(name: &str) -> SqlError {
    let instead = format!("define it: WINDOW {name} AS (...)");
    refused(&format!("a window that extends {name}"), &instead)
}

fn empty() -> WindowSpec {
    WindowSpec {
        window_name: None,
        partition_by: Vec::new(),
        order_by: Vec::new(),
        window_frame: None,
    }
}

/// Gives a window the keys of the one that it names.
fn extend(spec: &mut WindowSpec, windows: &Windows) -> Result<(), SqlError> {
    let Some(name) = spec.window_name.take() else { return Ok(()) };
    let named = windows.get(&normal(&name)).ok_or_else(|| undefined(&name.value))?;
    let refuse = |clause: &str| {
        let what = format!("{clause} in a window that extends {name}");
        Err(refused(&what, &format!("{name} has it already, or write the whole window")))
    };
    // A mark of EXCLUDE is no key of its own.
    if spec.partition_by.iter().any(|key| !is_mark(key)) {
        return refuse("PARTITION BY");
    }
    if !spec.order_by.is_empty() && !named.order_by.is_empty() {
        return refuse("ORDER BY");
    }
    if named.window_frame.is_some() {
        return Err(refused(
            &format!("a window that extends {name}"),
            &format!("{name} has a frame: write the whole window"),
        ));
    }
    spec.partition_by.extend(named.partition_by.iter().cloned());
    if spec.order_by.is_empty() {
        spec.order_by.clone_from(&named.order_by);
    }
    Ok(())
}

fn is_mark(key: &Expr) -> bool {
    matches!(key, Expr::Function(call) if matches!(call.name.0.as_slice(), [part]
        if part.as_ident().is_some_and(|name| name.value == MARK)))
}
