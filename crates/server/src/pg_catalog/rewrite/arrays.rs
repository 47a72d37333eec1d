//! Rewrites arrays in PostgreSQL's notation.

use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, OrderByKind, Query, SelectItem, SetExpr, TableFactor, Value, ValueWithSpan,
};
use terrace_functions::lists::array_items;
use terrace_sql::session::call;

use super::names::{folded, last};
use super::tree::{expression, null, take};
use super::{empty, memberships, recursion, tables};

/// Converts the literal `'{a,b}'` to an array of texts; `None` for any other expression.
pub(super) fn written(expr: &Expr) -> Option<Expr> {
    let text = match expr {
        Expr::Nested(inner) => return written(inner),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => text,
        _ => return None,
    };
    let items = array_items(text)?.into_iter().map(|item| match item {
        Some(item) => Expr::Value(Value::SingleQuotedString(item).into()),
        None => null(),
    });
    Some(Expr::Array(Array { elem: items.collect(), named: true }))
}

/// Rewrites an operand of a comparison if it is an array written as a text. The items become
/// numbers if all of them look like numbers and the other side is not a literal.
fn of_text(left: &Expr, right: &mut Expr) {
    let Some(mut array) = written(right) else { return };
    let is_text = matches!(left, Expr::Value(_));
    if let Expr::Array(Array { elem, .. }) = &mut array
        && !is_text
    {
        let number = |item: &Expr| match item {
            Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
                text.parse::<i64>().ok().map(|number| number.to_string())
            }
            _ => None,
        };
        let numbers: Option<Vec<_>> = elem.iter().map(number).collect();
        if let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) {
            let number = |text| Expr::Value(Value::Number(text, false).into());
            *elem = numbers.into_iter().map(number).collect();
        }
    }
    *right = array;
}

/// Rewrites an array written as a text in a comparison with another array.
pub(super) fn compared(left: &mut Expr, op: &BinaryOperator, right: &mut Expr) {
    if !matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq) {
        return;
    }
    of_text(left, right);
    of_text(right, left);
}

/// Rewrites arrays written as texts in `coalesce(x, '{}')`.
pub(super) fn coalesced(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument
            && let Some(array) = written(expr)
        {
            *expr = array;
        }
    }
}

/// Rewrites `ARRAY(SELECT x ...)` to `(SELECT array_agg(x) ...)`, or to an aggregation over that
/// query, with an empty array for no rows.
pub(super) fn of_subquery(expr: &mut Expr) {
    let Expr::Function(function) = &mut *expr else { return };
    let FunctionArguments::Subquery(query) = &mut function.args else { return };
    recursion::ended(query);
    if let Some(array) = memberships::of_role(query).or_else(|| of_items(query)) {
        *expr = array;
        return;
    }
    if empty::has_no_value(query) {
        *expr = Expr::Array(Array { elem: vec![], named: true });
        return;
    }
    let rows = match is_plain(query) && aggregate(query) {
        true => Some(Expr::Subquery(query.clone())),
        false => of_rows(query),
    };
    let Some(query) = rows else { return };
    let empty = Expr::Array(Array { elem: vec![], named: true });
    *expr = call("coalesce", [query, empty]);
}

/// Returns the array `a` for `SELECT x FROM unnest(a) x`, and `array_prefixed('text', a)` for
/// `SELECT 'text' || x FROM unnest(a) x`: DataFusion plans no `unnest` over columns of an outer
/// query.
fn of_items(query: &mut Query) -> Option<Expr> {
    if query.order_by.is_some() || query.limit_clause.is_some() {
        return None;
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    if select.distinct.is_some() || select.from.iter().any(|from| !from.joins.is_empty()) {
        return None;
    }
    let [from] = select.from.as_mut_slice() else { return None };
    tables::without_schema(&mut from.relation);
    let TableFactor::UNNEST { alias: Some(alias), array_exprs, .. } = &from.relation else {
        return None;
    };
    let ([array], [SelectItem::UnnamedExpr(column)], None) =
        (array_exprs.as_slice(), select.projection.as_slice(), &select.selection)
    else {
        return None;
    };
    let name = folded(alias.columns.first().map_or(&alias.name, |column| &column.name));
    let is_item = |expr: &Expr| matches!(expr, Expr::Identifier(ident) if folded(ident) == name);
    match column {
        column if is_item(column) => Some(array.clone()),
        Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } if is_item(right) => {
            Some(call("array_prefixed", [left.as_ref().clone(), array.clone()]))
        }
        _ => None,
    }
}

/// True for a SELECT of one value for each row of its FROM, in the order of one key at most.
fn is_plain(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
        select.projection.as_slice()
    else {
        return false;
    };
    let has_groups =
        !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let keys = query.order_by.as_ref().map_or(0, |order| match &order.kind {
        OrderByKind::Expressions(keys) => keys.len(),
        OrderByKind::All(_) => 2,
    });
    !has_groups && select.having.is_none() && keys <= 1 && is_value(item)
}

/// True for an expression of columns and constants, and for calls of functions of the catalog.
fn is_value(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) => true,
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_value(inner),
        Expr::BinaryOp { left, right, .. } => is_value(left) && is_value(right),
        Expr::Function(function) => {
            let name = last(&function.name);
            name.starts_with("pg_") || name == "format_type"
        }
        _ => false,
    }
}

/// The rows of any query of one column as an array, in their order. Keys that are not the column
/// become columns of the query.
fn of_rows(query: &Query) -> Option<Expr> {
    let mut query = query.clone();
    let (mut order, mut names) = (Vec::new(), String::new());
    let given = query.order_by.clone().map(|order| order.kind);
    if let Some(OrderByKind::Expressions(keys)) = given {
        for key in keys {
            let column = match is_item(&query, &key.expr) {
                true => "item".to_owned(),
                false => {
                    let name = format!("key_{}", order.len() + 1);
                    add_column(&mut query, key.expr)?;
                    names.push_str(&format!(", {name}"));
                    name
                }
            };
            order.push(format!("{column}{}", key.options));
        }
    }
    let order = match order.is_empty() {
        true => String::new(),
        false => format!(" ORDER BY {}", order.join(", ")),
    };
    expression(&format!("(SELECT array_agg(item{order}) FROM ({query}) AS items(item{names}))"))
}

/// True if a key of the order is the only column of a query: its position, its alias or its text.
fn is_item(query: &Query, key: &Expr) -> bool {
    if let Expr::Value(value) = key {
        return matches!(value.value, Value::Number(..));
    }
    let SetExpr::Select(select) = query.body.as_ref() else { return true };
    match select.projection.first() {
        Some(SelectItem::ExprWithAlias { expr, alias }) => {
            expr == key || matches!(key, Expr::Identifier(name) if folded(name) == folded(alias))
        }
        Some(SelectItem::UnnamedExpr(expr)) => expr == key,
        _ => false,
    }
}

/// Adds a column to a SELECT without DISTINCT; `None` for any other query.
fn add_column(query: &mut Query, column: Expr) -> Option<()> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    select.distinct.is_none().then(|| select.projection.push(SelectItem::UnnamedExpr(column)))
}

/// Makes a query return its rows as one array, in their order. Returns false and changes nothing
/// unless the query is a plain SELECT of one column.
fn aggregate(query: &mut Query) -> bool {
    let Query { body, order_by, limit_clause, .. } = query;
    let SetExpr::Select(select) = body.as_mut() else { return false };
    if limit_clause.is_some() || select.distinct.is_some() {
        return false;
    }
    let [SelectItem::UnnamedExpr(column) | SelectItem::ExprWithAlias { expr: column, .. }] =
        select.projection.as_mut_slice()
    else {
        return false;
    };
    let column = take(column);
    let order = order_by.take().and_then(|order| match order.kind {
        OrderByKind::Expressions(mut expressions) => Some(expressions.swap_remove(0)),
        OrderByKind::All(_) => None,
    });
    let order = order.map(|order| {
        let by_number = matches!(&order.expr, Expr::Value(value)
            if matches!(value.value, Value::Number(..)));
        let key = if by_number { &column } else { &order.expr };
        format!(" ORDER BY {key}{}", order.options)
    });
    let text = format!("array_agg({column}{})", order.unwrap_or_default());
    let Some(aggregate) = expression(&text) else { return false };
    select.projection = vec![SelectItem::UnnamedExpr(aggregate)];
    true
}
