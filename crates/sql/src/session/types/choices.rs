//! Types of literals in CASE, `coalesce` and similar expressions that return one of several values.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::{Case, Expr};
use terrace_functions::columns::{TextType, Usage, as_type, conform};

use super::kinds::mark_of;

/// Gives the literals in such an expression the type UUID, JSON or JSONB if all other values that
/// it returns have this type: `coalesce(id, 'A0EE...')` is a UUID.
///
/// # Errors
/// For a literal that denotes no value of the type.
pub(super) fn of_choice(mut expr: Expr, schema: &dyn ExprSchema) -> Result<Transformed<Expr>> {
    let choices = choices(&mut expr);
    let marks = choices.iter().map(|choice| mark_of(choice, schema));
    let marks: Vec<Option<TextType>> = marks.collect();
    let of = marks.iter().flatten().copied().find(|of| of.is_distinct());
    let fits = |(choice, mark): (&&mut Expr, &Option<TextType>)| *mark == of || is_untyped(choice);
    let Some(of) = of.filter(|_| choices.iter().zip(&marks).all(fits)) else {
        return Ok(Transformed::no(expr));
    };
    for (choice, _) in choices.into_iter().zip(&marks).filter(|(_, mark)| mark.is_none()) {
        *choice = of_untyped(std::mem::take(choice), of)?;
    }
    Ok(Transformed::yes(as_type(expr, &of.field(""), Usage::Known)))
}

/// The values of which an expression returns one.
pub(super) fn choices(expr: &mut Expr) -> Vec<&mut Expr> {
    match expr {
        Expr::ScalarFunction(call) => match call.name() {
            "coalesce" | "greatest" | "least" | "nullif" => call.args.iter_mut().collect(),
            "if" => call.args.iter_mut().skip(1).collect(),
            _ => Vec::new(),
        },
        Expr::Case(Case { when_then_expr, else_expr, .. }) => {
            let thens = when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
            thens.chain(else_expr.as_deref_mut()).collect()
        }
        _ => Vec::new(),
    }
}

/// True for a text in quotes, and for NULL.
pub(super) fn is_untyped(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null() || value.data_type().is_string(),
        _ => false,
    }
}

/// The value of a type that a literal denotes.
///
/// # Errors
/// If it denotes none, also where it would not be evaluated.
pub(super) fn of_untyped(literal: Expr, of: TextType) -> Result<Expr> {
    let field = of.field("");
    match &literal {
        Expr::Literal(value, _) if !value.is_null() => {
            conform(&value.to_array()?, &field, Usage::Cast)?;
        }
        _ => {}
    }
    Ok(as_type(literal, &field, Usage::Cast))
}
