//! Limits that DataFusion's planner lacks: `FETCH FIRST n ROWS`, `WITH TIES` and `LIMIT n%`.
//!
//! ```text
//! ORDER BY a FETCH FIRST 2 ROWS ONLY       ->  ORDER BY a LIMIT 2
//! ORDER BY a FETCH FIRST 2 ROWS WITH TIES  ->  QUALIFY rank() OVER (ORDER BY a) <= 2 ORDER BY a
//! ORDER BY a LIMIT 50%                     ->  QUALIFY row_number() OVER (ORDER BY a) <=
//!                                              trunc(count(*) OVER () * 50 / 100) ORDER BY a
//! ```
//! A query that is DISTINCT, has a QUALIFY, or combines others becomes a subquery first; its keys
//! are then columns of its result.

use std::mem;

use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Fetch, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    LimitClause, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, TableAlias,
    TableFactor, Value, ValueWithSpan, WindowType,
};
use terrace_table::error::SqlError;

use super::dialect::{parsed_expr, parsed_query};
use super::refusal::refused;
use super::spelling::PERCENT;

/// Alias of the subquery whose rows are limited.
const LIMITED: &str = "limited";

/// Rewrites the limit of a query.
///
/// # Errors
/// [`SqlError::Refused`] for a query with two limits, and for keys that are not columns of its
/// result where that is required.
pub(super) fn write_out(query: &mut Query) -> Result<(), SqlError> {
    let fetch = query.fetch.take();
    if fetch.is_some() && limit_of(query).is_some_and(|limit| limit.is_some()) {
        return Err(refused("a query with LIMIT and FETCH", "say one of them"));
    }
    let (bound, is_percent, with_ties) = match fetch {
        Some(Fetch { with_ties, percent, quantity }) => {
            let one = || Expr::Value(Value::Number("1".to_owned(), false).into());
            (quantity.unwrap_or_else(one), percent, with_ties)
        }
        None => {
            let share = limit_of(query).and_then(|limit| limit.as_ref().and_then(share));
            let Some(share) = share else { return Ok(()) };
            (share, true, false)
        }
    };
    if !is_percent && !with_ties {
        set_limit(query, bound);
        return Ok(());
    }
    if is_percent {
        check_share(&bound)?;
    }
    if let Some(limit) = limit_of(query) {
        *limit = None;
    }
    qualify(query, &bound, is_percent, with_ties)
}

/// The LIMIT of a query, `None` inside if it has only an OFFSET; `None` without either clause.
fn limit_of(query: &mut Query) -> Option<&mut Option<Expr>> {
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit, .. }) => Some(limit),
        _ => None,
    }
}

/// Sets the LIMIT of a query that has none.
fn set_limit(query: &mut Query, bound: Expr) {
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit, .. }) => *limit = Some(bound),
        clause => {
            let (limit, offset, limit_by) = (Some(bound), None, vec![]);
            *clause = Some(LimitClause::LimitOffset { limit, offset, limit_by });
        }
    }
}

/// The percentage of a `LIMIT n%`, which the spelling rewrite writes as a call; `None` for any
/// other limit.
fn share(limit: &Expr) -> Option<Expr> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = limit else {
        return None;
    };
    let is_percent = name.0.first()?.as_ident()?.value == PERCENT;
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(share))] if is_percent => Some(share.clone()),
        _ => None,
    }
}

/// Refuses a number that is not between 0 and 100.
fn check_share(share: &Expr) -> Result<(), SqlError> {
    let number = match share {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => digits.parse().ok(),
        Expr::UnaryOp { .. } => Some(-1.0),
        _ => None,
    };
    match number {
        Some(number) if !(0.0..=100.0).contains(&number) => {
            Err(refused(&format!("LIMIT {share}%"), "a limit is between 0 and 100 percent"))
        }
        _ => Ok(()),
    }
}

/// Adds a QUALIFY that keeps the first `bound` rows, or `bound` percent of the rows, in the order
/// of the query, counted from its OFFSET; `with_ties` keeps the peers of the last one too.
fn qualify(
    query: &mut Query,
    bound: &Expr,
    is_percent: bool,
    with_ties: bool,
) -> Result<(), SqlError> {
    let mut keys = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(keys)) => keys.clone(),
        Some(OrderByKind::All(_)) => {
            return Err(refused("ORDER BY ALL with this limit", "name the columns"));
        }
        None if with_ties => {
            return Err(refused("WITH TIES without ORDER BY", "say what the rows are ordered by"));
        }
        None => Vec::new(),
    };
    let is_simple = matches!(query.body.as_ref(), SetExpr::Select(select) if is_simple(select));
    keys.iter_mut().try_for_each(|key| resolve(key, &query.body, is_simple))?;
    if !is_simple {
        enclose(query)?;
    }
    let place = if with_ties { "rank()" } else { "row_number()" };
    let place = over(parsed_expr(&format!("{place} OVER ()"))?, keys);
    let offset = match &query.limit_clause {
        Some(LimitClause::LimitOffset { offset: Some(offset), .. }) => Some(offset.value.clone()),
        _ => None,
    };
    let bound = if is_percent { rows_of(bound)? } else { bound.clone() };
    let last = match offset {
        Some(offset) => binary(nested(offset), BinaryOperator::Plus, nested(bound)),
        None => bound,
    };
    let condition = binary(place, BinaryOperator::LtEq, last);
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.qualify = Some(condition);
    }
    Ok(())
}

/// True if window functions of a SELECT see the same rows that its LIMIT counts.
fn is_simple(select: &Select) -> bool {
    let unnests = |item: &SelectItem| {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            return false;
        };
        let text = expr.to_string().to_lowercase();
        text.contains("unnest(") || text.contains("generate_series(")
    };
    select.distinct.is_none() && select.qualify.is_none() && !select.projection.iter().any(unnests)
}

/// Replaces a position or an alias in a key of ORDER BY: by the expression of its column if
/// `is_simple`, else by the name of the column.
fn resolve(key: &mut OrderByExpr, body: &SetExpr, is_simple: bool) -> Result<(), SqlError> {
    let select = first_select(body);
    let items = select.map(|select| select.projection.as_slice()).unwrap_or_default();
    let name_of = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names.last().cloned(),
        _ => None,
    };
    let item = match &key.expr {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            let place = digits.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
            let is_star = |item: &SelectItem| {
                matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
            };
            let item = place.filter(|_| !items.iter().any(is_star));
            let item = item.and_then(|place| items.get(place));
            let unknown = || refused(&format!("ORDER BY {digits} with this limit"), INSTEAD);
            Some(item.ok_or_else(unknown)?)
        }
        Expr::Identifier(name) => items.iter().find(|item| {
            name_of(item).is_some_and(|of_item| normal(of_item) == normal(name.clone()))
        }),
        _ => None,
    };
    match (item, is_simple) {
        (Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }), true) => {
            key.expr = expr.clone();
            Ok(())
        }
        (Some(item), false) => {
            let name =
                name_of(item).ok_or_else(|| refused(&format!("ORDER BY {}", key.expr), INSTEAD))?;
            key.expr = Expr::Identifier(name);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn normal(name: Ident) -> String {
    IdentNormalizer::default().normalize(name)
}

const INSTEAD: &str = "give the column a name, and order by that";

/// The SELECT whose columns give the result its names: of a set operation the leftmost.
fn first_select(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select(left),
        SetExpr::Query(query) => first_select(&query.body),
        _ => None,
    }
}

/// Turns the body of a query into a subquery, and the keys of its ORDER BY into names of the
/// subquery's columns.
fn enclose(query: &mut Query) -> Result<(), SqlError> {
    let body = query.body.clone();
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(keys) = &mut order.kind
    {
        keys.iter_mut().try_for_each(|key| resolve(key, &body, false))?;
    }
    let mut inner = parsed_query("SELECT 1")?;
    inner.body = mem::replace(&mut query.body, parsed_query("SELECT * FROM t")?.body);
    let name = Ident::with_quote('"', LIMITED);
    let alias = TableAlias { explicit: true, name, columns: vec![], at: None };
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(from) = select.from.first_mut()
    {
        let subquery = Box::new(inner);
        from.relation =
            TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
    }
    Ok(())
}

/// The expression of `share` percent of the number of all rows, rounded down.
fn rows_of(share: &Expr) -> Result<Expr, SqlError> {
    let mut rows =
        parsed_expr("CAST(trunc(count(*) OVER () * CAST(1 AS DOUBLE) / 100) AS BIGINT)")?;
    // The literal 1 stands for the share.
    replace_one(&mut rows, share);
    Ok(rows)
}

/// Replaces the operand of the innermost cast by `by`.
fn replace_one(expr: &mut Expr, by: &Expr) {
    match expr {
        Expr::Cast { expr, .. } if matches!(expr.as_ref(), Expr::Value(_)) => **expr = by.clone(),
        Expr::Cast { expr, .. } => replace_one(expr, by),
        Expr::BinaryOp { left, right, .. } => {
            replace_one(left, by);
            replace_one(right, by);
        }
        Expr::Function(Function { args: FunctionArguments::List(list), .. }) => {
            for arg in &mut list.args {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg {
                    replace_one(expr, by);
                }
            }
        }
        _ => {}
    }
}

/// Sets the ORDER BY of a window function.
fn over(mut call: Expr, keys: Vec<OrderByExpr>) -> Expr {
    if let Expr::Function(Function { over: Some(WindowType::WindowSpec(window)), .. }) = &mut call {
        window.order_by = keys;
    }
    call
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}
