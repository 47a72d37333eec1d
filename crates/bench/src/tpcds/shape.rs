//! ORDER BY and LIMIT of a query text, which decide how its answer is compared.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, OrderByExpr, OrderByKind,
    Query, SelectItem, SetExpr, Statement,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// A sort key that is a column of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Position in the answer, from 0.
    pub column: usize,
    /// True if larger values come first.
    pub descending: bool,
    /// True if NULL comes before every value.
    pub nulls_first: bool,
}

/// A query text, split into its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The text without its LIMIT.
    head: String,
    /// Maximum number of rows.
    pub limit: Option<usize>,
}

impl Shape {
    /// Splits a text. Only a LIMIT at its very end is recognized.
    pub fn of(text: &str) -> Shape {
        let text = text.trim().trim_end_matches(';').trim_end();
        let whole = Shape { head: text.to_string(), limit: None };
        let Some((rest, rows)) = text.rsplit_once(char::is_whitespace) else { return whole };
        let Ok(rows) = rows.parse() else { return whole };
        match rest.trim_end().rsplit_once(char::is_whitespace) {
            Some((head, word)) if word.eq_ignore_ascii_case("limit") => {
                Shape { head: head.to_string(), limit: Some(rows) }
            }
            _ => whole,
        }
    }

    /// Returns the text with a LIMIT that is larger by `more` rows.
    pub fn widened(&self, more: usize) -> String {
        match self.limit {
            Some(rows) => format!("{} LIMIT {}", self.head, rows.saturating_add(more)),
            None => self.head.clone(),
        }
    }

    /// Returns the sort keys up to the first that is not a column of the answer; `columns` are the
    /// names of the columns.
    pub fn keys(&self, columns: &[String]) -> Vec<Key> {
        let Some(query) = parse(&self.head) else { return Vec::new() };
        let Some(order) = &query.order_by else { return Vec::new() };
        let OrderByKind::Expressions(order) = &order.kind else { return Vec::new() };
        let items = items(&query, columns.len());
        order.iter().map_while(|key| as_key(key, &items, columns)).collect()
    }

    /// Returns the digits that a column is rounded to, for each of `columns` whose expression is
    /// `round(value, digits)`.
    pub fn rounded(&self, columns: usize) -> Vec<Option<i32>> {
        let items = parse(&self.head).map_or_else(Vec::new, |query| items(&query, columns));
        let digits = |column| items.get(column).and_then(rounded_to);
        (0..columns).map(digits).collect()
    }
}

/// Returns the digits of an item that is `round(value, digits)`.
fn rounded_to(item: &SelectItem) -> Option<i32> {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
        return None;
    };
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else {
        return None;
    };
    match list.args.as_slice() {
        [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(digits)))]
            if name.to_string().eq_ignore_ascii_case("round") =>
        {
            digits.to_string().parse().ok()
        }
        _ => None,
    }
}

/// Returns the number of statements of a text; `None` if it cannot be parsed.
pub fn statements(text: &str) -> Option<usize> {
    Parser::parse_sql(&GenericDialect {}, text).ok().map(|statements| statements.len())
}

fn parse(text: &str) -> Option<Query> {
    match Parser::parse_sql(&GenericDialect {}, text).ok()?.pop()? {
        Statement::Query(query) => Some(*query),
        _ => None,
    }
}

/// Returns the item of the select list for each column; empty if it does not list them one by one.
fn items(query: &Query, columns: usize) -> Vec<SelectItem> {
    match query.body.as_ref() {
        SetExpr::Select(select) if select.projection.len() == columns => select.projection.clone(),
        _ => Vec::new(),
    }
}

fn as_key(key: &OrderByExpr, items: &[SelectItem], columns: &[String]) -> Option<Key> {
    let column = position(&key.expr, columns.len())
        .or_else(|| items.iter().position(|item| is_item(&key.expr, item)))
        .or_else(|| named(&key.expr, columns))?;
    let descending = key.options.asc == Some(false);
    let nulls_first = key.options.nulls_first.unwrap_or(descending);
    Some(Key { column, descending, nulls_first })
}

/// Returns the column of a key that is a number.
fn position(key: &Expr, columns: usize) -> Option<usize> {
    let Expr::Value(value) = key else { return None };
    let position: usize = value.to_string().parse().ok()?;
    position.checked_sub(1).filter(|index| *index < columns)
}

fn is_item(key: &Expr, item: &SelectItem) -> bool {
    match item {
        SelectItem::UnnamedExpr(expr) => expr == key,
        SelectItem::ExprWithAlias { expr, alias } => {
            let aliased = matches!(key, Expr::Identifier(name)
                if name.value.eq_ignore_ascii_case(&alias.value));
            aliased || expr == key
        }
        _ => false,
    }
}

/// Returns the only column with the key's name.
fn named(key: &Expr, columns: &[String]) -> Option<usize> {
    let name = match key {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(names) => names.last()?,
        _ => return None,
    };
    let same = |column: &String| column.eq_ignore_ascii_case(&name.value);
    let first = columns.iter().position(same)?;
    columns[first + 1..].iter().all(|column| !same(column)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str, columns: &[&str]) -> Vec<(usize, bool, bool)> {
        let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
        let keys = Shape::of(text).keys(&columns);
        keys.iter().map(|key| (key.column, key.descending, key.nulls_first)).collect()
    }

    #[test]
    fn a_limit_at_the_end_is_taken_off_and_widened() {
        let shape = Shape::of("SELECT a FROM t ORDER BY a\nLIMIT 100 ;\n");
        assert_eq!(shape.limit, Some(100));
        assert_eq!(shape.widened(10), "SELECT a FROM t ORDER BY a LIMIT 110");
        let inner = Shape::of("SELECT a FROM (SELECT a FROM t limit 5) s WHERE a > 7");
        assert_eq!((inner.limit, inner.widened(10)), (None, inner.head.clone()));
        assert_eq!(Shape::of("").limit, None);
    }

    #[test]
    fn keys_are_columns_by_position_alias_expression_and_name() {
        let text = "SELECT x.a, sum(b) AS s, c + 1 FROM x GROUP BY x.a, c \
                    ORDER BY 3 NULLS FIRST, S DESC, x.a, c + 1, sum(b) DESC NULLS LAST";
        let expected = [
            (2, false, true),
            (1, true, true),
            (0, false, false),
            (2, false, false),
            (1, true, false),
        ];
        assert_eq!(keys(text, &["a", "s", "c + 1"]), expected);
        let star = "SELECT * FROM t ORDER BY t.b, a LIMIT 5";
        assert_eq!(keys(star, &["a", "b"]), [(1, false, false), (0, false, false)]);
    }

    #[test]
    fn keys_end_where_one_is_no_column() {
        let text = "SELECT a, b FROM t ORDER BY a, CASE WHEN a = 0 THEN b END, b";
        assert_eq!(keys(text, &["a", "b"]), [(0, false, false)]);
        // Two columns with the same name: the key is ambiguous.
        assert_eq!(keys("SELECT * FROM t ORDER BY a", &["a", "a"]), []);
        let two = "SELECT x.a, y.a FROM x, y ORDER BY y.a";
        assert_eq!(keys(two, &["a", "a"]), [(1, false, false)]);
        assert_eq!(keys("SELECT a FROM t", &["a"]), []);
        assert_eq!(keys("this is no query ORDER BY 1", &["a"]), []);
    }

    #[test]
    fn rounded_columns_say_their_digits() {
        let text = "SELECT a, round(b / c, 2) ratio, ROUND(d, 1), round(e), b FROM t LIMIT 5";
        assert_eq!(Shape::of(text).rounded(5), [None, Some(2), Some(1), None, None]);
        assert_eq!(Shape::of("SELECT * FROM t").rounded(2), [None, None]);
    }

    #[test]
    fn statements_are_counted() {
        assert_eq!(statements("SELECT 1; SELECT 2;"), Some(2));
        assert_eq!(statements("SELECT 1"), Some(1));
        assert_eq!(statements("SELEKT"), None);
    }
}
