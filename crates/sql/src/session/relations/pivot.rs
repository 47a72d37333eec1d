//! PIVOT: groups with an aggregate for each value of a key.
//!
//! ```text
//! PIVOT t ON k IN ('a', 'b') USING sum(v) GROUP BY g
//! ->  SELECT g, sum(v) FILTER (WHERE k = 'a') AS a, sum(v) FILTER (WHERE k = 'b') AS b
//!     FROM t GROUP BY g
//! ```
//! Without GROUP BY, the groups are those of all columns that neither the keys nor the aggregates
//! read. Several keys make a column for each combination of their values.

use std::collections::BTreeSet;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::sqlparser::ast::{
    Expr as SqlExpr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr,
    PivotValueSource, Select, SelectItem, SetExpr, TableFactor,
};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use super::super::spelling::{ON, PIVOT, VALUE};

/// Maximum number of columns that a PIVOT makes from the values of its keys.
pub(in super::super) const COLUMNS_MAX: usize = 10_000;

/// Plans a PIVOT whose keys, aggregates and groups are those of a SELECT.
///
/// # Errors
/// For a key without values, which is only possible outside of views, and for more than
/// [`COLUMNS_MAX`] columns.
pub(super) fn plan(
    table: TableFactor,
    source: PivotValueSource,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let PivotValueSource::Subquery(query) = source else {
        return plan_err!("a PIVOT has FOR column IN (values)");
    };
    let SetExpr::Select(select) = *query.body else {
        return plan_err!("a PIVOT has FOR column IN (values)");
    };
    let input = context.plan(table)?;
    let schema = input.schema().as_ref().clone();
    let aggregates = aggregates(&select, &schema, context)?;
    let keys = keys(&select, &schema, context)?;
    let groups = groups(&select, &schema, &keys, &aggregates, context)?;
    let combinations = combinations(&keys)?;
    if combinations.len() * aggregates.len() > COLUMNS_MAX {
        return plan_err!(
            "a PIVOT of {} columns: at most {COLUMNS_MAX} are possible; name the values by IN",
            combinations.len() * aggregates.len()
        );
    }
    let is_single = matches!(aggregates.as_slice(), [aggregate] if !aggregate.is_named);
    let (mut calls, mut outputs) = (Vec::new(), Vec::new());
    for (condition, values) in &combinations {
        for aggregate in &aggregates {
            let name = match is_single {
                true => values.clone(),
                false => format!("{values}_{}", aggregate.name),
            };
            outputs.push(filtered(&aggregate.expr, condition, &mut calls)?.alias(name));
        }
    }
    let mut known = BTreeSet::new();
    if let Some((_, name)) = combinations.iter().find(|(_, name)| !known.insert(name)) {
        return plan_err!("a PIVOT with two columns {name}: give one of their values an alias");
    }
    let mut items: Vec<_> = groups
        .iter()
        .map(|group| {
            let name = match group {
                Expr::Column(column) => column.name.clone(),
                Expr::Alias(alias) => alias.name.clone(),
                other => other.schema_name().to_string(),
            };
            group_column(group).alias(name)
        })
        .collect();
    items.append(&mut outputs);
    if items.is_empty() {
        return plan_err!("a PIVOT without columns: it has no values, and no groups");
    }
    LogicalPlanBuilder::from(input).aggregate(groups, calls)?.project(items)?.build()
}

/// An aggregate of a PIVOT.
struct Aggregate {
    expr: Expr,
    name: String,
    /// True if the name is an alias, which is then part of all names of columns.
    is_named: bool,
}

/// The aggregates behind the keys; the number of rows if there are none.
fn aggregates(
    select: &Select,
    schema: &DFSchema,
    context: &mut dyn RelationPlannerContext,
) -> Result<Vec<Aggregate>> {
    let mut found = Vec::new();
    for item in select.projection.iter().skip(1) {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.clone())),
            other => return plan_err!("{other} is not an aggregate of a PIVOT"),
        };
        let planned = context.sql_to_expr(expr.clone(), schema)?;
        if !planned.exists(|it| Ok(matches!(it, Expr::AggregateFunction(_))))? {
            return plan_err!(
                "{expr} is not an aggregate of a PIVOT: say sum({expr}), for example"
            );
        }
        let is_named = alias.is_some();
        let name = alias.map_or_else(|| name_of(expr), |alias| context.normalize_ident(alias));
        found.push(Aggregate { expr: planned, name, is_named });
    }
    if found.is_empty() {
        let Some(count) = context.context_provider().get_aggregate_meta("count") else {
            return plan_err!("there is no aggregate count");
        };
        let expr = count.call(vec![Expr::Literal(ScalarValue::Int64(Some(1)), None)]);
        found.push(Aggregate { expr, name: "count_star()".to_owned(), is_named: false });
    }
    Ok(found)
}

/// The name of an aggregate without alias, as DuckDB's.
fn name_of(expr: &SqlExpr) -> String {
    match expr.to_string() {
        name if name.eq_ignore_ascii_case("count(*)") || name.eq_ignore_ascii_case("count()") => {
            "count_star()".to_owned()
        }
        name => match expr {
            SqlExpr::Function(_) => name,
            _ => format!("({name})"),
        },
    }
}

/// A key of a PIVOT and its values.
struct Key {
    expr: Expr,
    values: Vec<(Expr, String)>,
}

fn keys(
    select: &Select,
    schema: &DFSchema,
    context: &mut dyn RelationPlannerContext,
) -> Result<Vec<Key>> {
    let Some(SelectItem::UnnamedExpr(keys)) = select.projection.first() else {
        return plan_err!("a PIVOT needs a key");
    };
    let mut found = Vec::new();
    for key in arguments(keys, PIVOT)? {
        let parts = arguments(&key, ON)?;
        let Some((key, values)) = parts.split_first() else {
            return plan_err!("a PIVOT needs a key");
        };
        let expr = context.sql_to_expr(key.clone(), schema)?;
        if values.is_empty() {
            return plan_err!(
                "the values of a PIVOT in this place must be given: ON {key} IN (...)"
            );
        }
        let mut of_key = Vec::new();
        for value in values {
            of_key.extend(self::value(value, context)?);
        }
        found.push(Key { expr, values: of_key });
    }
    Ok(found)
}

/// A value of a key, and its name; `None` stands for a key that has no values.
fn value(
    value: &SqlExpr,
    context: &mut dyn RelationPlannerContext,
) -> Result<Option<(Expr, String)>> {
    let mut parts = arguments(value, VALUE)?.into_iter();
    let Some(value) = parts.next() else { return Ok(None) };
    let expr = context.sql_to_expr(value.clone(), &DFSchema::empty())?;
    let name = match parts.next() {
        Some(SqlExpr::Value(alias)) => alias.value.into_string(),
        _ => None,
    };
    let name = match name {
        Some(name) => name,
        None => {
            let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
            let simple = simplifier.coerce(expr.clone(), &DFSchema::empty())?;
            match simplifier.simplify(simple)? {
                Expr::Literal(value, _) => text_of(&value)?,
                _ => return plan_err!("{value} is not a constant, as values of a PIVOT are"),
            }
        }
    };
    Ok(Some((expr, name)))
}

/// The text of a value, which names its column.
pub(in super::super) fn text_of(value: &ScalarValue) -> Result<String> {
    Ok(match value.cast_to(&DataType::Utf8)? {
        ScalarValue::Utf8(Some(text)) => text,
        _ => "NULL".to_owned(),
    })
}

/// The columns of the groups.
fn groups(
    select: &Select,
    schema: &DFSchema,
    keys: &[Key],
    aggregates: &[Aggregate],
    context: &mut dyn RelationPlannerContext,
) -> Result<Vec<Expr>> {
    let GroupByExpr::Expressions(exprs, modifiers) = &select.group_by else {
        return plan_err!("GROUP BY ALL of a PIVOT: leave it out");
    };
    if !modifiers.is_empty() {
        return plan_err!("a PIVOT has plain groups");
    }
    if !exprs.is_empty() {
        return exprs.iter().map(|expr| context.sql_to_expr(expr.clone(), schema)).collect();
    }
    let exprs = keys.iter().map(|key| &key.expr);
    let exprs = exprs.chain(aggregates.iter().map(|aggregate| &aggregate.expr));
    let read: BTreeSet<_> =
        exprs.flat_map(|expr| expr.column_refs()).map(|it| it.name.clone()).collect();
    let columns = schema.columns().into_iter();
    Ok(columns.filter(|column| !read.contains(&column.name)).map(Expr::Column).collect())
}

/// The column of the aggregation that a group becomes.
fn group_column(group: &Expr) -> Expr {
    match group {
        Expr::Column(column) => Expr::Column(column.clone()),
        other => Expr::Column(Column::from_name(other.schema_name().to_string())),
    }
}

/// The conditions and names of all combinations of values.
fn combinations(keys: &[Key]) -> Result<Vec<(Expr, String)>> {
    let mut all: Vec<(Option<Expr>, String)> = vec![(None, String::new())];
    for key in keys {
        if all.len() * key.values.len() > COLUMNS_MAX {
            return plan_err!(
                "a PIVOT of {} columns: at most {COLUMNS_MAX} are possible; name the values by IN",
                all.len() * key.values.len()
            );
        }
        let mut longer = Vec::with_capacity(all.len() * key.values.len());
        for (condition, name) in &all {
            for (value, text) in &key.values {
                let is_null = matches!(value, Expr::Literal(value, _) if value.is_null());
                let own = match is_null {
                    true => key.expr.clone().is_null(),
                    false => binary_expr(key.expr.clone(), Operator::Eq, value.clone()),
                };
                let condition = match condition {
                    Some(condition) => condition.clone().and(own),
                    None => own,
                };
                let name = if name.is_empty() { text.clone() } else { format!("{name}_{text}") };
                longer.push((Some(condition), name));
            }
        }
        all = longer;
    }
    Ok(all.into_iter().filter_map(|(condition, name)| Some((condition?, name))).collect())
}

/// The aggregates of an expression over the rows of a condition. Adds their calls to `calls`, and
/// returns the expression of their results.
fn filtered(expr: &Expr, condition: &Expr, calls: &mut Vec<Expr>) -> Result<Expr> {
    let replaced = expr.clone().transform_up(|expr| match expr {
        Expr::AggregateFunction(mut call) => {
            let filter = match call.params.filter.take() {
                Some(filter) => filter.and(condition.clone()),
                None => condition.clone(),
            };
            call.params.filter = Some(Box::new(filter));
            let name = format!("aggregate {}", calls.len());
            calls.push(Expr::AggregateFunction(call).alias(&name));
            Ok(Transformed::yes(Expr::Column(Column::from_name(name))))
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(replaced?.data)
}

/// The arguments of a call of the function `name`.
pub(in super::super) fn arguments(expr: &SqlExpr, name: &str) -> Result<Vec<SqlExpr>> {
    let SqlExpr::Function(Function { name: found, args: FunctionArguments::List(list), .. }) = expr
    else {
        return plan_err!("{expr} cannot be a part of a PIVOT");
    };
    let is_named =
        found.0.first().and_then(|part| part.as_ident()).is_some_and(|it| it.value == name);
    let exprs = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if is_named => Ok(expr.clone()),
        other => plan_err!("{other} cannot be a part of a PIVOT"),
    });
    exprs.collect()
}
