//! Rewrites PostgreSQL syntax that DataFusion cannot plan into syntax that it can plan.
//!
//! In all statements: the schema `pg_catalog` before functions, operators and types, which is
//! removed; casts to types of the catalog, such as `'t'::regclass` ([`casts`]); arrays written as
//! texts, and `ARRAY(SELECT ...)` ([`arrays`]); `current_schema` and the like without parentheses;
//! `COLLATE "C"` and `COLLATE pg_catalog.default`, which are removed since texts are compared by
//! their bytes anyway; `LIKE x ESCAPE c`, `substring(x FROM 'pattern')` and `(x).field`.
//!
//! In statements that refer to the catalog: correlated subqueries that return one value
//! ([`subqueries`]) and subqueries in places where DataFusion plans none ([`placement`]), functions
//! as tables ([`tables`]), system columns ([`system`]), rows as values ([`rows`]), recursion that
//! ends at once ([`recursion`]), recursion over the members of roles ([`memberships`]), and the
//! names of columns ([`columns`]).

mod arrays;
mod casts;
mod columns;
mod empty;
mod memberships;
mod names;
mod placement;
mod recursion;
mod rows;
mod subqueries;
mod system;
mod tables;
mod tree;

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArguments, Ident, ObjectName, ObjectNamePart, Query,
    Select, Statement as SqlStatement, TableFactor, Value, ValueWithSpan, VisitorMut,
};
use terrace_sql::session::{Walk, call};

use super::definition;
use super::schemas::SCHEMA;
use names::{FUNCTIONS, SETS, WORDS, is_of_catalog, last, strip};
use tree::{expression, found, null, take};

/// Rewrites a statement.
pub(super) fn rewrite(statement: &mut Statement) {
    match statement {
        Statement::Statement(statement) => {
            let names_catalog = walk(statement.as_mut());
            if let SqlStatement::Query(query) = statement.as_mut()
                && names_catalog
            {
                casts::functions_shown(&mut query.body);
            }
        }
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => drop(walk(query.as_mut())),
            CopyToSource::Relation(_) => {}
        },
        Statement::Explain(explain) => rewrite(&mut explain.statement),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => {}
    }
}

/// Rewrites a statement or a query. Returns true if it refers to the catalog.
fn walk(node: &mut impl Walk) -> bool {
    let names_catalog = node.walk(&mut Finder).is_break();
    let _ = node.walk(&mut Rewriter { names_catalog });
    names_catalog
}

/// A visitor that breaks at the first reference to the catalog.
struct Finder;

impl VisitorMut for Finder {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        let name = last(relation);
        found(is_of_catalog(relation) || definition::find(&name).is_some())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        found(match expr {
            Expr::Function(function) => {
                let name = last(&function.name);
                is_of_catalog(&function.name)
                    || name.starts_with("pg_")
                    || FUNCTIONS.contains(&name.as_str())
            }
            Expr::Cast { data_type, .. } => casts::is_of_catalog(data_type),
            _ => false,
        })
    }
}

struct Rewriter {
    names_catalog: bool,
}

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.names_catalog {
            recursion::ended(query);
            placement::distinct(query);
            placement::sorted(query);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if self.names_catalog {
            system::columns(select);
            rows::written(select);
            placement::members(select);
            casts::shown(select);
            columns::named(select);
            empty::columns(select);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        tables::of_information_schema(table);
        tables::without_schema(table);
        if self.names_catalog {
            tables::of_function(table);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        while let Some(inner) = without_collation(expr) {
            *expr = inner;
        }
        casts::compared(expr);
        if self.names_catalog {
            casts::function_as_text(expr);
        }
        match expr {
            Expr::BinaryOp { left, op, right } => {
                operator(op);
                if self.names_catalog {
                    arrays::compared(left, op, right);
                }
            }
            Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
                escape(pattern, escape_char);
            }
            Expr::Cast { .. } => casts::plain(expr),
            Expr::Identifier(word) if word.quote_style.is_none() => {
                let name = word.value.to_lowercase();
                if WORDS.contains(&name.as_str()) {
                    *expr = call(&name, []);
                }
            }
            Expr::Function(function)
                if self.names_catalog && last(&function.name) == "coalesce" =>
            {
                arrays::coalesced(function);
            }
            Expr::Function(_) => function(expr),
            Expr::Substring { .. } => part(expr),
            Expr::Case { .. } if self.names_catalog => empty::branches(expr),
            Expr::Subquery(query) if self.names_catalog => match empty::has_no_value(query) {
                true => *expr = null(),
                false => subqueries::of_one_value(expr),
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Returns the operand of a COLLATE whose collation compares bytes, as all comparisons do; `None`
/// for any other expression.
fn without_collation(expr: &mut Expr) -> Option<Expr> {
    let Expr::Collate { expr, collation } = expr else { return None };
    let is_bytes = ["default", "C", "c", "POSIX", "posix", "ucs_basic"];
    is_bytes.contains(&last(collation).as_str()).then(|| take(expr))
}

/// Rewrites `OPERATOR(pg_catalog.~)` to `~`.
fn operator(op: &mut BinaryOperator) {
    let BinaryOperator::PGCustomBinaryOperator(parts) = &*op else { return };
    let is_own = parts.first().is_some_and(|schema| schema == SCHEMA) || parts.len() == 1;
    let known = match parts.last().map(String::as_str) {
        Some("~") => BinaryOperator::PGRegexMatch,
        Some("~*") => BinaryOperator::PGRegexIMatch,
        Some("!~") => BinaryOperator::PGRegexNotMatch,
        Some("!~*") => BinaryOperator::PGRegexNotIMatch,
        Some("~~") => BinaryOperator::PGLikeMatch,
        Some("~~*") => BinaryOperator::PGILikeMatch,
        Some("!~~") => BinaryOperator::PGNotLikeMatch,
        Some("!~~*") => BinaryOperator::PGNotILikeMatch,
        Some("=") => BinaryOperator::Eq,
        Some("<>") => BinaryOperator::NotEq,
        Some("<") => BinaryOperator::Lt,
        Some("<=") => BinaryOperator::LtEq,
        Some(">") => BinaryOperator::Gt,
        Some(">=") => BinaryOperator::GtEq,
        Some("||") => BinaryOperator::StringConcat,
        Some("+") => BinaryOperator::Plus,
        Some("-") => BinaryOperator::Minus,
        Some("*") => BinaryOperator::Multiply,
        Some("/") => BinaryOperator::Divide,
        _ => return,
    };
    if is_own {
        *op = known;
    }
}

/// Rewrites `LIKE x ESCAPE '/'` to `LIKE like_escape(x, '/')`.
fn escape(pattern: &mut Expr, escape_char: &mut Option<ValueWithSpan>) {
    let backslash = Value::SingleQuotedString("\\".to_owned());
    if let Some(char) = escape_char.take_if(|char| char.value != backslash) {
        let text = take(pattern);
        *pattern = call("like_escape", [text, Expr::Value(char)]);
    }
}

/// Rewrites `substring(x FROM 'a(b)')` to `regexp_match(x, 'a(b)')[1]`.
fn part(expr: &mut Expr) {
    let Expr::Substring { expr: text, substring_from: Some(pattern), substring_for: None, .. } =
        &*expr
    else {
        return;
    };
    let is_text = matches!(
        pattern.as_ref(),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. })
    );
    if is_text && let Some(part) = expression(&format!("regexp_match({text}, {pattern})[1]")) {
        *expr = part;
    }
}

fn function(expr: &mut Expr) {
    let Expr::Function(function) = &mut *expr else { return };
    strip(&mut function.name);
    let name = last(&function.name);
    if matches!(function.args, FunctionArguments::None) && WORDS.contains(&name.as_str()) {
        *expr = call(&name, []);
    } else if let (FunctionArguments::Subquery(_), "array") = (&function.args, name.as_str()) {
        arrays::of_subquery(expr);
    } else if let Some(ident) = set(function) {
        // The quotes mark the call as rewritten: it is visited once more, as an argument of the new
        // one.
        ident.quote_style = Some('"');
        let list = take(expr);
        *expr = call("unnest", [list]);
    }
}

/// Returns the name of a call if it is one of [`SETS`] and not quoted; a quoted name was rewritten
/// already.
fn set(function: &mut Function) -> Option<&mut Ident> {
    let Some(ObjectNamePart::Identifier(ident)) = function.name.0.last_mut() else { return None };
    (ident.quote_style.is_none() && SETS.contains(&ident.value.as_str())).then_some(ident)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    /// Returns the rewritten statement.
    fn written(text: &str) -> String {
        let mut statements = DFParser::parse_sql(text).unwrap_or_default();
        let Some(mut statement) = statements.pop_front() else { return String::new() };
        rewrite(&mut statement);
        statement.to_string()
    }

    #[test]
    fn other_statements_stay_as_they_are() {
        for text in [
            "SELECT a, a + 1, b FROM t WHERE a = 1 ORDER BY b",
            "SELECT (SELECT b FROM u WHERE u.a = t.a) FROM t",
            "SELECT value FROM generate_series(1, 3) AS s",
            "SELECT CAST(a AS BIGINT), CAST(b AS VARCHAR(3)) FROM t",
        ] {
            assert_eq!(written(text), text);
        }
    }

    #[test]
    fn syntax_of_the_catalog_is_written_out() {
        let cases = [
            (
                "SELECT 1 WHERE 'a' OPERATOR(pg_catalog.~) 'b' COLLATE pg_catalog.default",
                "SELECT 1 WHERE 'a' ~ 'b'",
            ),
            ("SELECT current_schema", "SELECT current_schema()"),
            ("SELECT 't'::regclass", "SELECT regclass_out('t') AS \"regclass\""),
            ("SELECT a FROM t WHERE a = 't'::regclass", "SELECT a FROM t WHERE a = regclass('t')"),
            (
                "SELECT upper(a::regclass::text) FROM t",
                "SELECT upper(regclass_out(a)::TEXT) AS \"upper\" FROM t",
            ),
            (
                "SELECT pg_catalog.version(), NULL, NULL",
                "SELECT version() AS \"version\", NULL AS \"?column?\", NULL AS \"?column?_2\"",
            ),
            (
                "SELECT table_name FROM information_schema.tables",
                "SELECT table_name FROM pg_catalog.\"information_schema.tables\" AS \"tables\"",
            ),
            (
                "SELECT (SELECT d.b FROM pg_type d WHERE d.a = t.a AND t.c) AS x FROM t",
                "SELECT CASE WHEN t.c THEN (SELECT max(d.b) AS \"max\" FROM pg_type d WHERE d.a = \
                 t.a) END AS x FROM t",
            ),
            (
                "SELECT (SELECT d.b FROM pg_policy d WHERE d.a <> t.a) AS x FROM t",
                "SELECT NULL AS x FROM t",
            ),
            (
                "SELECT ARRAY(SELECT 1 FROM t WHERE t.a = p.a) AS x FROM pg_policy p",
                "SELECT NULL AS x FROM pg_policy p",
            ),
            (
                "SELECT CASE WHEN t.typtype = 'd' THEN (SELECT 1) ELSE 2 END AS x FROM pg_type t",
                "SELECT CASE WHEN t.typtype = 'd' THEN NULL ELSE 2 END AS x FROM pg_type t",
            ),
            (
                "SELECT 'a' = ANY(ARRAY(WITH RECURSIVE cte AS (SELECT pg_roles.oid, \
                 pg_roles.rolname FROM pg_roles WHERE pg_roles.oid = roles.oid UNION ALL SELECT \
                 m.roleid, pgr.rolname FROM cte cte_1 JOIN pg_auth_members m ON m.member = \
                 cte_1.oid JOIN pg_roles pgr ON pgr.oid = m.roleid) SELECT rolname FROM cte)) AS x \
                 FROM pg_roles AS roles",
                "SELECT 'a' = ANY(role_memberships(roles.oid)) AS x FROM pg_roles AS roles",
            ),
            (
                "SELECT a LIKE b ESCAPE '/' AS x FROM t",
                "SELECT a LIKE like_escape(b, '/') AS x FROM t",
            ),
            (
                "SELECT (SELECT c.b FROM pg_type c WHERE c.a = t.a AND t.a <> c.d) AS x FROM t",
                "SELECT (SELECT max(c.b) AS \"max\" FROM pg_type c WHERE c.a = t.a AND c.a <> c.d) \
                 AS x FROM t",
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(written(text), wanted);
        }
    }
}
