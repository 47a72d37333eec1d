//! Syntax of ALTER TABLE: that of `sqlparser`, and the actions that it parses for its PostgreSQL
//! dialect only.
//!
//! ```text
//! ALTER [COLUMN] a [SET DATA] TYPE t USING expression
//! RENAME CONSTRAINT a TO b
//! ```

use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, Statement as SqlStatement,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use super::words::{is_next as begins, is_word, take_all};

/// Returns true if an ALTER TABLE follows.
pub(super) fn is_next(parser: &DFParser<'_>) -> bool {
    begins(&parser.parser, &["alter"], "table")
}

/// Parses an ALTER TABLE.
pub(super) fn parse(parser: &mut DFParser<'_>) -> Result<Statement, ParserError> {
    let parser = &mut parser.parser;
    parser.expect_keywords(&[Keyword::ALTER, Keyword::TABLE])?;
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let only = parser.parse_keyword(Keyword::ONLY);
    let name = parser.parse_object_name(false)?;
    let operations = parser.parse_comma_separated(operation)?;
    let alter = AlterTable {
        name,
        if_exists,
        only,
        operations,
        location: None,
        on_cluster: None,
        table_type: None,
        end_token: AttachedToken::empty(),
    };
    Ok(Statement::Statement(Box::new(SqlStatement::AlterTable(alter))))
}

fn operation(parser: &mut Parser<'_>) -> Result<AlterTableOperation, ParserError> {
    if take_all(parser, &["rename", "constraint"]) {
        let old_name = parser.parse_identifier()?;
        parser.expect_keyword(Keyword::TO)?;
        let new_name = parser.parse_identifier()?;
        return Ok(AlterTableOperation::RenameConstraint { old_name, new_name });
    }
    let mut operation = parser.parse_alter_table_operation()?;
    let op = match &mut operation {
        AlterTableOperation::AlterColumn { op, .. } => Some(op),
        _ => None,
    };
    if let Some(AlterColumnOperation::SetDataType { using: using @ None, .. }) = op
        && is_word(&parser.peek_token_ref().token, "using")
    {
        parser.advance_token();
        *using = Some(parser.parse_expr()?);
    }
    Ok(operation)
}
