//! UNPIVOT: a row for each of several columns of a row.
//!
//! ```text
//! t UNPIVOT (v FOR n IN (a, b))
//! ->  SELECT <other columns>, unnest(['a', 'b']) AS n, unnest([a, b]) AS v FROM t WHERE v IS NOT
//! NULL
//! ```
//! With several columns of values, a row is left out if one of its values is null.

use std::collections::BTreeSet;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, Result, UnnestOptions, plan_err};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::sqlparser::ast::{
    Expr as SqlExpr, ExprWithAlias, Ident, NullInclusion, TableFactor,
};
use datafusion::logical_expr::{Expr, ExprSchemable as _, LogicalPlan, LogicalPlanBuilder, lit};

use super::columns::Chosen;

/// The clause of an UNPIVOT.
pub(super) struct Unpivot {
    /// The names of the columns of values.
    pub(super) value: SqlExpr,
    pub(super) null_inclusion: Option<NullInclusion>,
    /// The name of the column of names.
    pub(super) name: Ident,
    /// The columns whose values become rows.
    pub(super) columns: Vec<ExprWithAlias>,
}

/// The columns of one resulting row: their name, and an expression for each column of values.
type Entry = (String, Vec<Expr>);

impl Unpivot {
    /// Plans the relation.
    ///
    /// # Errors
    /// For columns of different kinds, and for entries of different lengths.
    pub(super) fn plan(
        self,
        table: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let input = context.plan(table)?;
        let schema = input.schema().as_ref().clone();
        let values = self.value_names(context)?;
        let entries = self.entries(&schema, context)?;
        if let Some((name, exprs)) = entries.iter().find(|(_, exprs)| exprs.len() != values.len()) {
            return plan_err!(
                "{name} of an UNPIVOT has {} columns, and {} names of values are given",
                exprs.len(),
                values.len()
            );
        }
        let read: BTreeSet<_> = entries
            .iter()
            .flat_map(|(_, exprs)| exprs)
            .flat_map(|expr| expr.column_refs())
            .map(|column| column.name.clone())
            .collect();
        let name = context.normalize_ident(self.name.clone());
        let Some(list) = context.context_provider().get_function_meta("make_array") else {
            return plan_err!("there is no function make_array");
        };
        let others = schema.columns().into_iter().filter(|column| !read.contains(&column.name));
        let mut items: Vec<_> = others
            .map(|column| {
                let name = column.name.clone();
                Expr::Column(column).alias(name)
            })
            .collect();
        let given = values.iter().chain([&name]).find(|given| {
            schema.columns().iter().any(|it| it.name == **given && !read.contains(*given))
        });
        if let Some(given) = given {
            return plan_err!(
                "an UNPIVOT with two columns {given}: say INTO NAME ... VALUE ... with other names"
            );
        }
        let names = entries.iter().map(|(name, _)| lit(name.clone())).collect();
        items.push(list.call(names).alias(&name));
        for (place, value) in values.iter().enumerate() {
            let of_value: Vec<_> = entries.iter().map(|(_, exprs)| exprs[place].clone()).collect();
            check_types(&of_value, &schema)?;
            items.push(list.call(of_value).alias(value));
        }
        let mut lists = vec![Column::from_name(&name)];
        lists.extend(values.iter().map(Column::from_name));
        let rows = LogicalPlanBuilder::from(input)
            .project(items)?
            .unnest_columns_with_options(lists, UnnestOptions::default())?;
        if self.null_inclusion == Some(NullInclusion::IncludeNulls) {
            return rows.build();
        }
        let known = values.iter().map(|value| Expr::Column(Column::from_name(value)).is_not_null());
        match known.reduce(Expr::and) {
            Some(condition) => rows.filter(condition)?.build(),
            None => rows.build(),
        }
    }

    fn value_names(&self, context: &dyn RelationPlannerContext) -> Result<Vec<String>> {
        let parts = match &self.value {
            SqlExpr::Tuple(parts) => parts.clone(),
            SqlExpr::Nested(inner) => vec![inner.as_ref().clone()],
            one => vec![one.clone()],
        };
        let name = |part| match part {
            SqlExpr::Identifier(name) => Ok(context.normalize_ident(name)),
            other => plan_err!("{other} cannot be the name of a column of an UNPIVOT"),
        };
        parts.into_iter().map(name).collect()
    }

    fn entries(
        &self,
        schema: &DFSchema,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for ExprWithAlias { expr, alias } in &self.columns {
            if let Some(chosen) = Chosen::of(expr)? {
                let columns = schema.columns().into_iter();
                let columns = columns.filter(|column| chosen.has(&column.name));
                entries.extend(columns.map(|it| (it.name.clone(), vec![Expr::Column(it)])));
                continue;
            }
            let parts = match expr {
                SqlExpr::Tuple(parts) => parts.clone(),
                one => vec![one.clone()],
            };
            let name = match alias {
                Some(alias) if alias.quote_style.is_some() => alias.value.clone(),
                Some(alias) => context.normalize_ident(alias.clone()),
                None => {
                    let names = parts.iter().map(|part| name_of(part, context));
                    names.collect::<Vec<_>>().join("_")
                }
            };
            let exprs = parts.into_iter().map(|part| context.sql_to_expr(part, schema));
            entries.push((name, exprs.collect::<Result<_>>()?));
        }
        match entries.is_empty() {
            true => plan_err!("an UNPIVOT needs columns, and none match"),
            false => Ok(entries),
        }
    }
}

/// The name of a column in the rows that it becomes.
fn name_of(expr: &SqlExpr, context: &dyn RelationPlannerContext) -> String {
    match expr {
        SqlExpr::Identifier(name) => context.normalize_ident(name.clone()),
        SqlExpr::CompoundIdentifier(names) => {
            names.last().map(|name| context.normalize_ident(name.clone())).unwrap_or_default()
        }
        other => other.to_string(),
    }
}

/// Refuses columns that have no common type without a cast.
fn check_types(exprs: &[Expr], schema: &DFSchema) -> Result<()> {
    let mut known: Option<(&Expr, DataType)> = None;
    for expr in exprs {
        let found = expr.get_type(schema)?;
        if found.is_null() {
            continue;
        }
        match &known {
            Some((first, kind)) if !is_same_kind(kind, &found) => {
                return plan_err!(
                    "UNPIVOT of {first} and {expr}, whose types are {kind} and {found}: cast one \
                     to the type of the other"
                );
            }
            Some(_) => {}
            None => known = Some((expr, found)),
        }
    }
    Ok(())
}

fn is_same_kind(one: &DataType, other: &DataType) -> bool {
    one == other
        || (one.is_numeric() && other.is_numeric())
        || (one.is_string() && other.is_string())
        || (one.is_temporal() && other.is_temporal())
}
