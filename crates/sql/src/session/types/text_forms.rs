//! Text functions with keywords between their arguments, rewritten as plain calls of functions,
//! which also accept bytes.
//!
//! ```text
//! substring(x FROM 2 FOR 3)           "substring"(x, 2, 3)
//! substring(x FROM 'o(.)b')           array_element(regexp_match(x, 'o(.)b'), 1)
//! position(y IN x)                    "position"(x, y)
//! overlay(x PLACING y FROM 2 FOR 3)   overlay(x, y, 2, 3)
//! x LIKE ANY (ARRAY[p, q])            x LIKE p OR x LIKE q
//! x LIKE ALL (ARRAY[p, q])            x LIKE p AND x LIKE q
//! date(x)                             CAST(x AS DATE)
//! x IS NOT NFD NORMALIZED             NOT is_normalized(x, 'NFD')
//! normalize(x, NFC)                   normalize(x, 'NFC')
//! U&'\00e4'                           a text in quotes
//! ```

use std::mem;

use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, Select, SelectItem, UnaryOperator, Value, ValueWithSpan,
};

use super::super::dialect::call;
use super::super::row_values::joined;

fn take(operand: &mut Expr) -> Expr {
    mem::replace(operand, Expr::Value(Value::Null.into()))
}

fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.to_owned(), false).into())
}

/// Rewrites a function, LIKE ANY or LIKE ALL; leaves any other expression unchanged.
pub(super) fn write_out(expr: &mut Expr) {
    let written = match expr {
        Expr::Substring {
            expr,
            substring_from: Some(pattern),
            substring_for: None,
            shorthand: false,
            ..
        } if is_text(pattern) => {
            let found = call("regexp_match", [take(expr), take(pattern)]);
            call("array_element", [found, number("1")])
        }
        Expr::Substring { expr, substring_from, substring_for, shorthand, .. }
            if substring_from.is_some() || substring_for.is_some() =>
        {
            let name = if *shorthand { "substr" } else { "substring" };
            let from = substring_from.as_mut().map_or_else(|| number("1"), |from| take(from));
            let count = substring_for.as_mut().map(|count| take(count));
            call(name, [take(expr), from].into_iter().chain(count))
        }
        Expr::Position { expr, r#in } => call("position", [take(r#in), take(expr)]),
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            let count = overlay_for.as_mut().map(|count| take(count));
            let others = [take(expr), take(overlay_what), take(overlay_from)];
            call("overlay", others.into_iter().chain(count))
        }
        Expr::Like { .. } | Expr::ILike { .. } => match like_each(expr) {
            Some(written) => written,
            None => return,
        },
        Expr::IsNormalized { expr, form, negated } => {
            let form = form.as_ref().map_or_else(|| "NFC".to_owned(), ToString::to_string);
            let is_normal = call("is_normalized", [take(expr), text(form)]);
            match negated {
                true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(is_normal) },
                false => is_normal,
            }
        }
        Expr::Value(ValueWithSpan { value: Value::UnicodeStringLiteral(literal), .. }) => {
            text(mem::take(literal))
        }
        Expr::Function(function) => {
            write_out_form(function);
            match date(function) {
                Some(written) => written,
                None => return,
            }
        }
        _ => return,
    };
    *expr = written;
}

fn text(text: String) -> Expr {
    Expr::Value(Value::SingleQuotedString(text).into())
}

/// Replaces the keyword among the arguments of `normalize` by a text in quotes.
fn write_out_form(function: &mut Function) {
    if !is_named(function, "normalize") {
        return;
    }
    let FunctionArguments::List(list) = &mut function.args else { return };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(form))) = list.args.get_mut(1) else {
        return;
    };
    let Expr::Identifier(Ident { value, quote_style: None, .. }) = &*form else { return };
    let forms = ["NFC", "NFD", "NFKC", "NFKD"];
    if let Some(known) = forms.into_iter().find(|known| known.eq_ignore_ascii_case(value)) {
        *form = text(known.to_owned());
    }
}

/// Gives the columns of rewritten calls the names of the original functions, `substring` and
/// `date`.
pub(in super::super) fn name_columns(select: &mut Select) {
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let name = match &*expr {
            Expr::Substring {
                substring_from: Some(pattern),
                substring_for: None,
                shorthand: false,
                ..
            } if is_text(pattern) => "substring",
            Expr::Function(function) if is_named(function, "date") => "date",
            _ => continue,
        };
        let (expr, alias) = (take(expr), Ident::with_quote('"', name));
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
}

fn is_named(function: &Function, wanted: &str) -> bool {
    let [name] = function.name.0.as_slice() else { return false };
    name.as_ident().is_some_and(|name| name.value.eq_ignore_ascii_case(wanted))
}

fn is_text(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_),
            ..
        })
    )
}

/// One match for each pattern of a written list, `LIKE ANY (ARRAY[...])` or `LIKE ALL`; `None` for
/// any other list, and for one pattern.
fn like_each(expr: &Expr) -> Option<Expr> {
    let (Expr::Like { pattern, any, .. } | Expr::ILike { pattern, any, .. }) = expr else {
        return None;
    };
    let (patterns, op) = match (pattern.as_ref(), any) {
        (list, true) => (patterns(list)?, BinaryOperator::Or),
        (Expr::Function(function), false) if is_named(function, "all") => {
            let FunctionArguments::List(list) = &function.args else { return None };
            let [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] = list.args.as_slice() else {
                return None;
            };
            (patterns(list)?, BinaryOperator::And)
        }
        _ => return None,
    };
    let matches = patterns.iter().map(|one| {
        let mut written = expr.clone();
        if let Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. } = &mut written {
            *any = false;
            **pattern = one.clone();
        }
        written
    });
    Some(Expr::Nested(Box::new(joined(matches.collect(), &op))))
}

fn patterns(list: &Expr) -> Option<&[Expr]> {
    match list {
        Expr::Nested(inner) => patterns(inner),
        Expr::Array(Array { elem, .. }) if !elem.is_empty() => Some(elem),
        Expr::Tuple(elem) => Some(elem),
        _ => None,
    }
}

/// The cast that a call of `date` stands for.
fn date(function: &mut Function) -> Option<Expr> {
    if !is_named(function, "date") {
        return None;
    }
    let FunctionArguments::List(list) = &mut function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(operand))] = list.args.as_mut_slice() else {
        return None;
    };
    Some(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(take(operand)),
        data_type: DataType::Date,
        array: false,
        format: None,
    })
}
