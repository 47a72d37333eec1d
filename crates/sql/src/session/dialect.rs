//! The SQL dialect: that of DataFusion's generic parser, with PostgreSQL's operators.
//!
//! The operators that the generic dialect lacks are in `operators`. Two operators differ from the
//! generic dialect. `IS [NOT] DISTINCT FROM` takes one operand on its
//! right, not the rest of the expression: `a IS DISTINCT FROM b AND c` is a conjunction. `^` is
//! exponentiation: it binds tighter than multiplication, looser than a sign, and is
//! left-associative.

mod calls;
mod json;
mod lambda;
mod operators;
mod precedence;

use std::any::TypeId;

use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::ast::{Expr, Query, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use terrace_table::error::SqlError;

pub use calls::call;
pub(super) use calls::{arguments, cast, double, expression, is_call_of, with_name};
use precedence::{CONCATENATION, POWER};

pub(super) use operators::regular_expression;

/// The SQL dialect in which all statements are parsed.
#[derive(Debug)]
pub(crate) struct TerraceDialect;

const GENERIC: GenericDialect = GenericDialect {};

/// Delegates to the generic dialect.
macro_rules! as_generic {
    ($($name:ident),* $(,)?) => { $(fn $name(&self) -> bool { GENERIC.$name() })* };
}

impl Dialect for TerraceDialect {
    /// The parser treats this dialect as the generic one.
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        GENERIC.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        GENERIC.is_identifier_start(ch)
    }

    /// `@` and `#` begin operators.
    fn is_identifier_part(&self, ch: char) -> bool {
        GENERIC.is_identifier_part(ch) && !matches!(ch, '@' | '#')
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        match precedence {
            Precedence::Caret => POWER,
            other => GENERIC.prec_value(other),
        }
    }

    /// `||`, `#` and `^@` bind like PostgreSQL's other operators: between comparisons and sums.
    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        match parser.peek_token_ref().token {
            Token::StringConcat | Token::CaretAt | Token::Sharp => Some(Ok(CONCATENATION)),
            _ if json::is_next(parser) => Some(Ok(CONCATENATION)),
            _ => operators::precedence(parser).map(Ok),
        }
    }

    fn supports_order_by_all(&self) -> bool {
        true
    }

    /// `1_000_000`.
    fn supports_numeric_literal_underscores(&self) -> bool {
        true
    }

    /// `a NOTNULL`, as `a IS NOT NULL`.
    fn supports_notnull_operator(&self) -> bool {
        true
    }

    /// `(s).*` is all fields of a struct.
    fn supports_select_expr_star(&self) -> bool {
        true
    }

    /// `INSERT INTO t AS a`: RETURNING may name the columns of the table by the alias.
    fn supports_insert_table_alias(&self) -> bool {
        true
    }

    /// Clients send `UNLISTEN` when they return a connection to a pool.
    fn supports_listen_notify(&self) -> bool {
        true
    }

    /// A sign binds tighter than `^`.
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        let op = match parser.peek_token_ref().token {
            Token::Minus => UnaryOperator::Minus,
            Token::Plus => UnaryOperator::Plus,
            Token::Tilde => {
                parser.advance_token();
                return Some(parser.parse_subexpr(CONCATENATION).map(operators::complement));
            }
            Token::LBracket => return Some(lambda::parse_list(parser)),
            _ => return lambda::parse(parser),
        };
        parser.advance_token();
        Some(parser.parse_subexpr(POWER).map(|operand| operators::signed(op, operand)))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        left: &Expr,
        _precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if let Some(operator) = json::take(parser) {
            let right = parser.parse_subexpr(CONCATENATION);
            return Some(right.map(|right| json::operation(left.clone(), operator, right)));
        }
        if let Some(parsed) = operators::parse(parser, left) {
            return Some(parsed);
        }
        const DISTINCT: [Keyword; 3] = [Keyword::IS, Keyword::DISTINCT, Keyword::FROM];
        const SAME: [Keyword; 4] = [Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM];
        let make = if parser.parse_keywords(&DISTINCT) {
            Expr::IsDistinctFrom
        } else if parser.parse_keywords(&SAME) {
            Expr::IsNotDistinctFrom
        } else {
            return None;
        };
        let right = parser.parse_subexpr(GENERIC.prec_value(Precedence::Is));
        Some(right.map(|right| make(Box::new(left.clone()), Box::new(right))))
    }

    /// `CREATE TABLE t (LIKE u)`, as in PostgreSQL.
    fn supports_create_table_like_parenthesized(&self) -> bool {
        true
    }

    as_generic! {
        supports_unicode_string_literal,
        supports_partition_by_after_order_by,
        supports_array_join_syntax,
        supports_group_by_expr,
        supports_group_by_with_modifier,
        supports_left_associative_joins_without_parens,
        supports_connect_by,
        supports_match_recognize,
        supports_pipe_operator,
        supports_start_transaction_modifier,
        supports_window_function_null_treatment_arg,
        supports_dictionary_syntax,
        supports_window_clause_named_window_reference,
        supports_parenthesized_set_variables,
        supports_select_wildcard_except,
        support_map_literal_syntax,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_extract_comma_syntax,
        supports_create_view_comment_syntax,
        supports_parens_around_table_factor,
        supports_values_as_table_factor,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_limit_comma,
        supports_update_order_by,
        supports_from_first_select,
        supports_projection_trailing_commas,
        supports_asc_desc_in_column_definition,
        supports_try_convert,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_assignment_operator,
        supports_struct_literal,
        supports_empty_projections,
        supports_nested_comments,
        supports_multiline_comment_hints,
        supports_user_host_grantee,
        supports_string_escape_constant,
        supports_array_typedef_with_brackets,
        supports_match_against,
        supports_set_names,
        supports_comma_separated_set_assignments,
        supports_filter_during_aggregation,
        supports_select_wildcard_exclude,
        supports_data_type_signed_suffix,
        supports_interval_options,
        supports_quote_delimited_string,
        supports_select_wildcard_replace,
        supports_select_wildcard_ilike,
        supports_select_wildcard_rename,
        supports_optimize_table,
        supports_install,
        supports_detach,
        supports_prewhere,
        supports_with_fill,
        supports_limit_by,
        supports_interpolate,
        supports_settings,
        supports_select_format,
        supports_comment_optimizer_hint,
        supports_constraint_keyword_without_name,
        supports_key_column_option,
        supports_comma_separated_trim,
        supports_cte_without_as,
        supports_select_item_multi_column_alias,
        supports_xml_expressions,
    }
}

/// Parses a text that is known to be a query.
pub(super) fn parsed_query(text: &str) -> Result<Query, SqlError> {
    let parser = Parser::new(&TerraceDialect).try_with_sql(text);
    let query = parser.and_then(|mut parser| parser.parse_query());
    query.map(|query| *query).map_err(|error| DataFusionError::SQL(Box::new(error), None).into())
}

/// Parses a text that is known to be an expression.
pub(super) fn parsed_expr(text: &str) -> Result<Expr, SqlError> {
    let parser = Parser::new(&TerraceDialect).try_with_sql(text);
    let expr = parser.and_then(|mut parser| parser.parse_expr());
    expr.map_err(|error| DataFusionError::SQL(Box::new(error), None).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses an expression and prints it with parentheses around every operation.
    fn parsed(text: &str) -> String {
        let expr = Parser::new(&TerraceDialect).try_with_sql(text).expect("tokens").parse_expr();
        grouped(&expr.expect("an expression"))
    }

    fn grouped(expr: &Expr) -> String {
        match expr {
            Expr::BinaryOp { left, op, right } => {
                format!("({} {op} {})", grouped(left), grouped(right))
            }
            Expr::UnaryOp { op, expr } => format!("({op} {})", grouped(expr)),
            Expr::IsDistinctFrom(left, right) => {
                format!("({} <> {})", grouped(left), grouped(right))
            }
            Expr::IsNotDistinctFrom(left, right) => {
                format!("({} == {})", grouped(left), grouped(right))
            }
            other => other.to_string(),
        }
    }

    #[test]
    fn a_comparison_with_nulls_takes_one_operand() {
        assert_eq!(parsed("a IS DISTINCT FROM b AND c"), "((a <> b) AND c)");
        assert_eq!(parsed("a IS NOT DISTINCT FROM b OR c AND d"), "((a == b) OR (c AND d))");
        assert_eq!(parsed("p AND a IS DISTINCT FROM b OR c"), "((p AND (a <> b)) OR c)");
        assert_eq!(parsed("NOT a IS DISTINCT FROM b AND c"), "((NOT (a <> b)) AND c)");
        assert_eq!(parsed("a = b IS DISTINCT FROM c + 1 = d"), "((a = b) <> ((c + 1) = d))");
    }

    #[test]
    fn exponents_bind_as_in_postgresql() {
        let double = |text: &str| format!("CAST({text} AS DOUBLE)");
        let power = |l: &str, r: &str| format!("power({}, {})", double(l), double(r));
        assert_eq!(parsed("2 ^ 3"), power("2", "3"));
        assert_eq!(parsed("-2 ^ 2"), power("-2", "2"));
        assert_eq!(parsed("2 * 3 ^ 2"), format!("(2 * {})", power("3", "2")));
        assert_eq!(parsed("2 ^ 3 ^ 2"), power(&power("2", "3"), "2"));
        assert_eq!(parsed("2 ^ -1"), power("2", "-1"));
        assert_eq!(parsed("- a + b"), "((- a) + b)");
        assert_eq!(parsed("a - -b"), "(a - (- b))");
    }
}
