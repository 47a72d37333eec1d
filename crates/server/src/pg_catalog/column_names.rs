//! Column names of results, as PostgreSQL assigns them: `count` for `count(*)`.
//!
//! DataFusion names a column after its whole expression. Clients look columns up by PostgreSQL's
//! names. Within statements, DataFusion's names are kept.

use std::sync::Arc;

use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, DataType, Expr, Ident, ObjectNamePart, Query, Select, SelectItem, SetExpr,
    Statement as SqlStatement, TableFactor, TrimWhereField, Value, ValueWithSpan,
    WildcardAdditionalOptions,
};
use terrace_functions::lists;
use terrace_sql::session::{CopyStatement, SessionStatement};

use super::types::internal_name;
use crate::syntax::parsed;

/// The name of a column for which PostgreSQL derives none.
const UNNAMED: &str = "?column?";
/// Maximum depth to which an expression is searched for a name.
const DEPTH_MAX: usize = 50;

/// Functions to which expressions are rewritten, the names that PostgreSQL gives to columns of the
/// original expressions, and a flag: true if the column keeps that name when the expression is
/// cast.
const WRITTEN: [(&str, &str, bool); 10] = [
    (lists::ANY, UNNAMED, false),
    (lists::ALL, UNNAMED, false),
    ("json_cast", "json", false),
    ("jsonb_cast", "jsonb", false),
    ("json_of_list", "json_agg", true),
    ("jsonb_of_list", "jsonb_agg", true),
    ("json_of_list_short", "json_group_array", true),
    ("json_of_pairs", "json_object_agg", true),
    ("jsonb_of_pairs", "jsonb_object_agg", true),
    ("json_of_pairs_short", "json_group_object", true),
];
/// Functions that are called without parentheses. A column of one has its name.
const BARE_FUNCTIONS: [&str; 4] = ["current_catalog", "current_role", "current_schema", "user"];

/// Column names of a result that differ from DataFusion's.
#[derive(Debug, Default)]
pub struct ColumnNames {
    /// Names of the first columns, before any `*`.
    first: Vec<Option<String>>,
    /// Names of the last columns, after the last `*`, in reverse order.
    last: Vec<Option<String>>,
}

impl ColumnNames {
    /// Returns the column names of a statement's result.
    #[must_use]
    pub fn of(statement: &SessionStatement) -> Self {
        let Some(SqlStatement::Query(query)) = parsed(statement) else { return Self::default() };
        let Some(select) = first_select(&query.body) else { return Self::default() };
        // The number of columns that a `*` expands to is not known.
        let items = &select.projection;
        let first: Vec<_> = items.iter().map_while(name_of_item).collect();
        let last = match first.len() < items.len() {
            true => items.iter().rev().map_while(name_of_item).collect(),
            false => Vec::new(),
        };
        Self { first, last }
    }

    /// Returns the column names of the rows that a COPY returns.
    pub(crate) fn of_copy(copy: &CopyStatement) -> Self {
        copy.query().map_or_else(Self::default, |query| Self::of(&query))
    }

    /// Returns `schema`, the columns of a result, with the names that clients receive.
    #[must_use]
    pub fn give(self, schema: &SchemaRef) -> SchemaRef {
        let mut fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
        rename(self.first.into_iter().zip(&mut fields));
        rename(self.last.into_iter().zip(fields.iter_mut().rev()));
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }
}

fn rename<'a>(names: impl Iterator<Item = (Option<String>, &'a mut FieldRef)>) {
    for (name, field) in names {
        if let Some(name) = name {
            *field = Arc::new(field.as_ref().clone().with_name(name));
        }
    }
}

/// Returns the name of an item, or `Some(None)` if the column has its name already; `None` for an
/// item that may be several columns.
fn name_of_item(item: &SelectItem) -> Option<Option<String>> {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
            let text = text_of(name);
            Some(BARE_FUNCTIONS.contains(&text.as_str()).then_some(text))
        }
        // DataFusion may have given the column another name, if two columns share one.
        SelectItem::UnnamedExpr(expr) => Some(Some(name_of(expr))),
        SelectItem::ExprWithAlias { alias, .. } => Some(Some(text_of(alias))),
        _ => None,
    }
}

/// Returns the name that PostgreSQL gives to a column without an alias.
pub(super) fn name_of(expr: &Expr) -> String {
    Name::of(expr, 0).map_or(UNNAMED.to_owned(), |name| name.text)
}

/// Returns the SELECT that names the columns of a query.
fn first_select(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => match only_subquery(select) {
            Some(query) => first_select(&query.body),
            None => Some(select),
        },
        SetExpr::Query(query) => first_select(&query.body),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

/// Returns the subquery of `SELECT * FROM (subquery)`.
fn only_subquery(select: &Select) -> Option<&Query> {
    let ([SelectItem::Wildcard(options)], [from]) =
        (select.projection.as_slice(), select.from.as_slice())
    else {
        return None;
    };
    match &from.relation {
        TableFactor::Derived { subquery, alias, .. }
            if from.joins.is_empty()
                && *options == WildcardAdditionalOptions::default()
                && alias.as_ref().is_none_or(|alias| alias.columns.is_empty()) =>
        {
            Some(subquery)
        }
        _ => None,
    }
}

/// A column name; `is_kept` is true if the column keeps it when a cast or a CASE surrounds the
/// expression.
struct Name {
    text: String,
    is_kept: bool,
}

impl Name {
    fn kept(text: impl Into<String>) -> Option<Self> {
        Some(Self { text: text.into(), is_kept: true })
    }

    fn weak(text: impl Into<String>) -> Option<Self> {
        Some(Self { text: text.into(), is_kept: false })
    }

    /// Returns the name of an expression at `depth` levels below the column's own expression;
    /// `None` if PostgreSQL derives none.
    fn of(expr: &Expr, depth: usize) -> Option<Self> {
        let of = |expr| Self::of(expr, depth + 1);
        match expr {
            _ if depth > DEPTH_MAX => None,
            Expr::Identifier(name) => Self::kept(text_of(name)),
            Expr::CompoundIdentifier(names) => Self::kept(text_of(names.last()?)),
            Expr::Function(call) => match call.name.0.last()? {
                ObjectNamePart::Identifier(name) => {
                    let name = text_of(name);
                    if let Some((_, of, is_kept)) = WRITTEN.iter().find(|known| known.0 == name) {
                        return Some(Self { text: (*of).to_owned(), is_kept: *is_kept });
                    }
                    // Terrace's own functions for output, such as the one that renders
                    // `x::regclass`.
                    Self::kept(name.strip_suffix("_out").unwrap_or(&name))
                }
                ObjectNamePart::Function(_) => None,
            },
            Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => of(inner),
            Expr::CompoundFieldAccess { root, access_chain } => match access_chain.last() {
                Some(AccessExpr::Dot(Expr::Identifier(field))) => Self::kept(text_of(field)),
                Some(AccessExpr::Dot(Expr::Value(ValueWithSpan {
                    value: Value::SingleQuotedString(field),
                    ..
                }))) => Self::kept(field),
                _ => of(root),
            },
            // The exponent of a literal is written as a cast.
            Expr::Cast { expr, data_type: DataType::Double(_), .. } if is_scientific(expr) => None,
            Expr::Cast { expr, data_type, .. } => match of(expr) {
                Some(name) if name.is_kept => Some(name),
                _ => Self::weak(type_name(data_type)),
            },
            Expr::TypedString(typed) => Self::weak(type_name(&typed.data_type)),
            Expr::Interval(_) => Self::weak("interval"),
            Expr::Case { else_result, .. } => {
                let name = else_result.as_ref().and_then(|expr| of(expr));
                name.filter(|name| name.is_kept).or_else(|| Self::weak("case"))
            }
            Expr::Exists { negated: false, .. } => Self::kept("exists"),
            Expr::Subquery(query) => Self::kept(only_column(query, depth + 1)),
            Expr::Array(_) => Self::kept("array"),
            Expr::Tuple(_) => Self::kept("row"),
            Expr::Extract { .. } => Self::kept("extract"),
            Expr::Ceil { .. } => Self::kept("ceil"),
            Expr::Floor { .. } => Self::kept("floor"),
            Expr::Position { .. } => Self::kept("position"),
            Expr::Substring { .. } => Self::kept("substring"),
            Expr::Overlay { .. } => Self::kept("overlay"),
            Expr::AtTimeZone { .. } => Self::kept("timezone"),
            Expr::Trim { trim_where, .. } => Self::kept(match trim_where {
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
                _ => "btrim",
            }),
            _ => None,
        }
    }
}

/// Returns the name of a subquery's only column.
fn only_column(query: &Query, depth: usize) -> String {
    let item = first_select(&query.body).and_then(|select| select.projection.first());
    match item {
        Some(SelectItem::ExprWithAlias { alias, .. }) => text_of(alias),
        Some(SelectItem::UnnamedExpr(expr)) => {
            Name::of(expr, depth).map_or(UNNAMED.to_owned(), |name| name.text)
        }
        _ => UNNAMED.to_owned(),
    }
}

/// True for a number with an exponent, such as `1e3`.
fn is_scientific(expr: &Expr) -> bool {
    let Expr::Value(value) = expr else { return false };
    matches!(&value.value, Value::Number(text, _) if text.contains(['e', 'E']))
}

/// Returns PostgreSQL's name of a cast's target type; of an array, that of its elements.
fn type_name(data_type: &DataType) -> String {
    let text = data_type.to_string().to_lowercase();
    let text = text.trim_end_matches("[]").to_owned();
    internal_name(&text).map_or(text, str::to_owned)
}

/// Returns an identifier, in lower case unless it is quoted.
fn text_of(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType as ArrowType, Field};
    use datafusion::sql::parser::DFParser;

    use super::*;

    fn names(text: &str, types: &[ArrowType]) -> Vec<String> {
        let mut statements = DFParser::parse_sql(text).unwrap_or_default();
        let statement = statements.pop_front().map(|it| SessionStatement::Sql(Box::new(it)));
        let fields = types.iter().enumerate();
        let fields = fields.map(|(n, of)| Field::new(format!("c{n}"), of.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let named = statement.map(|statement| ColumnNames::of(&statement).give(&schema));
        let fields = named.iter().flat_map(|schema| schema.fields().iter());
        fields.map(|field| field.name().clone()).collect()
    }

    /// The expected names are those that PostgreSQL 15 gives.
    #[test]
    fn columns_are_named_as_in_postgresql() {
        use ArrowType::{Boolean, Int32, Int64, Utf8};
        let cases = [
            ("SELECT count(*), 1, -1, NOT true", "count ?column? ?column? ?column?"),
            ("SELECT x, t.y, x AS z, max(x)::bigint", "c0 y z max"),
            ("SELECT compare_any(y, x, '='), compare_all(y, x, '<')::text", "?column? text"),
            (
                "SELECT '1'::int, date '2024-01-01', (1)::text, CAST('x' AS varchar(3))",
                "int4 date text varchar",
            ),
            ("SELECT CASE WHEN x THEN 1 END, CASE WHEN x THEN 1 ELSE abs(1) END", "case abs"),
            (
                "SELECT (SELECT max(1)), EXISTS (SELECT 1), coalesce(1, 2), (SELECT 1)::int",
                "max exists coalesce ?column?",
            ),
            (
                "SELECT extract(year FROM x), trim(x), ceil(x), x AT TIME ZONE 'UTC'",
                "extract btrim ceil timezone",
            ),
            (
                "SELECT current_schema, 1e3, '{1}'::int[], 'a'::char(3)",
                "current_schema ?column? int4 bpchar",
            ),
            ("SELECT count(*) UNION SELECT 2", "count"),
            ("SELECT * FROM (SELECT x + 1, max(x) FROM t) AS s", "?column? max"),
            ("SELECT * FROM (SELECT x + 1 FROM t) AS s(y)", "c0"),
            ("SELECT Now(), \"Quoted\"(x)", "now Quoted"),
        ];
        let types = [Int32, Int32, Utf8, Int64];
        for (text, expected) in cases {
            let expected: Vec<_> = expected.split(' ').collect();
            assert_eq!(names(text, &types[..expected.len()]), expected, "{text}");
        }
        let types = [Int64, Boolean, Utf8, Int64];
        assert_eq!(
            names("SELECT count(*), t.*, sum(x) FROM t", &types),
            ["count", "c1", "c2", "sum"]
        );
        assert_eq!(names("SELECT t.*, 1, u.* FROM t, u", &types), ["c0", "c1", "c2", "c3"]);
    }
}
