//! Derivation of the enum of an expression from its columns and functions.

use std::sync::Arc;

use datafusion::common::{Column, DFSchemaRef, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, Alias, Case, ScalarFunction};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

use super::enum_type::EnumType;
use super::functions::returned;

/// The enum of a value, or of the elements of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Value(Arc<EnumType>),
    List(Arc<EnumType>),
}

/// Columns, and the enums of their values.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) schema: DFSchemaRef,
    /// The enum of each column of `schema`; `None` for columns of other types.
    pub(super) kinds: Vec<Option<Kind>>,
    /// For a change of rows, the columns of its target table that are of an enum, by name: the
    /// expressions of a MERGE reference columns of its source and of its target.
    pub(super) target: Vec<(String, Kind)>,
}

impl Rows {
    pub(super) fn kind(&self, column: &Column) -> Option<Option<Kind>> {
        match self.schema.maybe_index_of_column(column) {
            Some(place) => self.kinds.get(place).cloned(),
            None => {
                let mut target = self.target.iter();
                let found = target.find(|(name, _)| *name == column.name);
                found.map(|(_, kind)| Some(kind.clone()))
            }
        }
    }
}

/// The columns that expressions may reference: those of a node's inputs, and those of the queries
/// around it.
#[derive(Default)]
pub(super) struct Scopes {
    /// Columns of each query, the innermost last.
    pub(super) rows: Vec<Rows>,
    /// The subqueries that have been rewritten, and the enums of their first columns.
    pub(super) subqueries: Vec<(Arc<LogicalPlan>, Option<Kind>)>,
}

/// Functions whose result is one of their arguments.
const CHOICES: [&str; 7] = ["coalesce", "nvl", "ifnull", "nvl2", "nullif", "greatest", "least"];

/// Aggregate and window functions whose result is a value of the first argument.
const VALUES: [&str; 18] = [
    "min",
    "max",
    "first_value",
    "last_value",
    "nth_value",
    "any_value",
    "first",
    "last",
    "arbitrary",
    "mode",
    "lead",
    "lag",
    "arg_min",
    "arg_max",
    "min_by",
    "max_by",
    "argmin",
    "argmax",
];

/// Functions that return an element of the list that is their first argument.
const ELEMENTS: [&str; 6] =
    ["array_element", "array_extract", "list_element", "list_extract", "array_first", "list_first"];

/// Parts of the names of functions of a list that return something else than a list of the same
/// values.
const OTHERS: [&str; 22] = [
    "enum_",
    "to_string",
    "join",
    "length",
    "position",
    "has",
    "contains",
    "dims",
    "empty",
    "distance",
    "similarity",
    "product",
    "max",
    "min",
    "sum",
    "avg",
    "count",
    "unique",
    "transform",
    "reduce",
    "zip",
    "grade",
];

impl Scopes {
    /// The enum of an expression; `None` if its values are of no enum.
    pub(super) fn kind(&self, expr: &Expr) -> Option<Kind> {
        match expr {
            Expr::Column(column) => self.rows.last()?.kind(column)?,
            Expr::OuterReferenceColumn(_, column) => {
                let outer = self.rows.iter().rev().skip(1);
                outer.filter_map(|rows| rows.kind(column)).next()?
            }
            Expr::Alias(Alias { expr, .. }) => self.kind(expr),
            Expr::Case(Case { when_then_expr, else_expr, .. }) => {
                let results = when_then_expr.iter().map(|(_, then)| then.as_ref());
                self.common(results.chain(else_expr.as_deref()))
            }
            Expr::ScalarFunction(call) => self.of_call(call),
            Expr::AggregateFunction(call) => self.of_aggregate(call),
            Expr::WindowFunction(call) => {
                self.of_value(call.fun.name(), call.params.args.as_slice())
            }
            Expr::ScalarSubquery(subquery) => self.of_subquery(subquery),
            _ => None,
        }
    }

    /// The enum of the first column of a rewritten subquery; `None` if it is of none.
    pub(super) fn of_subquery(&self, subquery: &Subquery) -> Option<Kind> {
        let known = self.subqueries.iter();
        let mut known = known.filter(|(plan, _)| Arc::ptr_eq(plan, &subquery.subquery));
        known.next()?.1.clone()
    }

    fn of_call(&self, call: &ScalarFunction) -> Option<Kind> {
        if let Some((of, is_list)) = returned(&call.func) {
            let kind = if is_list { Kind::List } else { Kind::Value };
            return Some(kind(Arc::clone(of)));
        }
        let name = call.func.name();
        if CHOICES.contains(&name) {
            let skipped = usize::from(name == "nvl2");
            return self.common(call.args.iter().skip(skipped));
        }
        if ["make_array", "make_list", "list_value"].contains(&name) {
            return self.common(call.args.iter()).and_then(listed);
        }
        match self.kind(call.args.first()?)? {
            Kind::List(of) if ELEMENTS.contains(&name) => Some(Kind::Value(of)),
            Kind::List(of) if name.contains("array") || name.contains("list") => {
                (!OTHERS.iter().any(|part| name.contains(part))).then_some(Kind::List(of))
            }
            _ => None,
        }
    }

    fn of_aggregate(&self, call: &AggregateFunction) -> Option<Kind> {
        self.of_value(call.func.name(), &call.params.args)
    }

    fn of_value(&self, name: &str, args: &[Expr]) -> Option<Kind> {
        let first = self.kind(args.first()?)?;
        match name {
            "array_agg" | "list" => listed(first),
            name => VALUES.contains(&name).then_some(first),
        }
    }

    /// The enum that all expressions have in common; `None` if there is none. Nulls fit any enum,
    /// and literal texts fit one that has them as labels.
    pub(super) fn common<'a>(&self, exprs: impl Iterator<Item = &'a Expr>) -> Option<Kind> {
        let exprs: Vec<_> = exprs.filter(|expr| !is_null(expr)).collect();
        let (texts, values): (Vec<_>, Vec<_>) =
            exprs.into_iter().partition(|expr| text_of(expr).is_some());
        let kind = merged(values.into_iter().map(|expr| self.kind(expr)))?;
        let texts = texts.into_iter().filter_map(text_of);
        with_texts(kind, texts)
    }
}

/// Returns `kind` if literal `texts` can be values of it; `None` if one is no label, or `kind` is
/// a list.
pub(super) fn with_texts<'a>(kind: Kind, mut texts: impl Iterator<Item = &'a str>) -> Option<Kind> {
    let fits = match &kind {
        Kind::Value(of) => texts.all(|text| of.rank(text).is_some()),
        Kind::List(_) => texts.next().is_none(),
    };
    fits.then_some(kind)
}

/// The kind that all of `kinds` are; `None` if they differ or there are none.
pub(super) fn merged(mut kinds: impl Iterator<Item = Option<Kind>>) -> Option<Kind> {
    let first = kinds.next()??;
    kinds.all(|kind| kind.as_ref() == Some(&first)).then_some(first)
}

fn listed(kind: Kind) -> Option<Kind> {
    match kind {
        Kind::Value(of) => Some(Kind::List(of)),
        Kind::List(_) => None,
    }
}

/// True for a literal null of any type, possibly in casts.
pub(super) fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        Expr::Alias(alias) => is_null(&alias.expr),
        _ => false,
    }
}

/// The text of a string literal; `None` for any other expression, and for null.
pub(super) fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(
            ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text),
            _,
        ) => text.as_deref(),
        _ => None,
    }
}
