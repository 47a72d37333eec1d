//! Statements of a session: DataFusion's, and those about running queries, cursors, tenants, roles,
//! privileges, tiers, heaps and transactions.
//!
//! ```text
//! SUSPEND QUERY 7;  RESUME QUERY 7;  CANCEL QUERY 7;
//! ```
//!
//! The number is that of `terrace.queries`. The other kinds have their own modules.

use std::collections::VecDeque;
use std::fmt;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::acting_role;
use super::alter_syntax;
use super::comment::{self, CommentStatement};
use super::copy::{self, CopySource, CopyStatement};
use super::cursor::{self, CursorAction, CursorStatement};
use super::database_copy::{self, DatabaseCopy};
use super::enums::syntax::{self as type_syntax, TypeStatement};
use super::explain::{self, ExplainStatement, Explained};
use super::file_copy::{self, CopyFrom, FileCopy};
use super::grant::{self, GrantStatement};
use super::heap::{self, HeapStatement};
use super::identity::{self, IdentityStatement};
use super::maintenance::{self, MaintenanceStatement};
use super::membership;
use super::object_change::{self, AlterView};
use super::role::{self, RoleStatement};
use super::routines::routine::RoutineStatement;
use super::routines::syntax as routine_syntax;
use super::secret::{self, SecretStatement};
use super::sequence::{self, SequenceStatement};
use super::tenant::{self, TenantStatement};
use super::tier::{self, AlterTier};
use super::transaction::{self, TransactionStatement};
use super::words::{is_word, refused};
use super::{pragma, row_locks, setting_names, summarize, unsupported};

/// A parsed statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionStatement {
    /// A statement that DataFusion plans.
    Sql(Box<Statement>),
    /// An action on a running query.
    Query {
        /// The action.
        action: QueryAction,
        /// Number of the query in `terrace.queries`.
        id: u64,
    },
    /// A statement that creates, alters or drops a tenant.
    Tenant(TenantStatement),
    /// A statement that creates, alters, drops, grants or revokes roles.
    Role(RoleStatement),
    /// COMMENT.
    Comment(CommentStatement),
    /// A statement about sequences.
    Sequence(SequenceStatement),
    /// An ALTER TABLE of the identity of a column.
    Identity(Box<IdentityStatement>),
    /// A statement that changes privileges or an owner.
    Grant(Box<GrantStatement>),
    /// A statement that changes a memory tier.
    Tier(AlterTier),
    /// A statement about a heap, or the placement of a table.
    Heap(HeapStatement),
    /// A statement that begins, ends or configures a transaction.
    Transaction(TransactionStatement),
    /// A COPY whose rows a client sends or receives.
    Copy(CopyStatement),
    /// A COPY of files into a table.
    CopyFrom(Box<CopyFrom>),
    /// EXPORT DATABASE or IMPORT DATABASE.
    DatabaseCopy(Box<DatabaseCopy>),
    /// A statement about a cursor.
    Cursor(CursorStatement),
    /// SUMMARIZE of a query, or of all columns of a table.
    Summarize(Box<Statement>),
    /// EXPLAIN, unless DataFusion writes it.
    Explain(Box<ExplainStatement>),
    /// CHECKPOINT, VACUUM or ANALYZE.
    Maintenance(MaintenanceStatement),
    /// CREATE SECRET or DROP SECRET, for remote files.
    Secret(SecretStatement),
    /// A statement that defines or drops functions or macros.
    Routine(Box<RoutineStatement>),
    /// A statement that creates, changes or drops types.
    Type(Box<TypeStatement>),
    /// ALTER VIEW.
    View(Box<AlterView>),
}

/// Action of a statement on another query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryAction {
    /// Suspends the query; its pages may be evicted.
    Suspend,
    /// Resumes the query.
    Resume,
    /// Cancels the query, which fails with an error.
    Cancel,
}

impl QueryAction {
    const ALL: [Self; 3] = [Self::Suspend, Self::Resume, Self::Cancel];

    fn keyword(self) -> &'static str {
        match self {
            Self::Suspend => "SUSPEND",
            Self::Resume => "RESUME",
            Self::Cancel => "CANCEL",
        }
    }
}

impl SessionStatement {
    /// The statement that DataFusion plans, including the query of a cursor.
    pub(super) fn planned_mut(&mut self) -> Option<&mut Statement> {
        match self {
            Self::Sql(statement) | Self::Summarize(statement) => Some(statement),
            Self::Explain(explain) => Some(explain.statement_mut()),
            Self::Cursor(cursor) => cursor.query_mut(),
            _ => None,
        }
    }

    /// The result columns of a statement whose kind alone determines them; `None` for any other
    /// statement.
    pub(super) fn fixed_schema(&self) -> Option<SchemaRef> {
        match self {
            Self::Summarize(_) => Some(summarize::schema()),
            Self::Explain(_) => Some(explain::schema()),
            _ => None,
        }
    }

    /// The statement that DataFusion plans; `None` for any other.
    pub(crate) fn into_sql(self) -> Option<Statement> {
        match self {
            Self::Sql(statement) => Some(*statement),
            _ => None,
        }
    }
}

impl SessionStatement {
    /// True for SET and USE, which begin no statement of a transaction.
    pub(super) fn is_setting(&self) -> bool {
        let Self::Sql(statement) = self else { return false };
        let Statement::Statement(statement) = statement.as_ref() else { return false };
        matches!(statement.as_ref(), SqlStatement::Set(_) | SqlStatement::Use(_))
    }

    /// True for a statement that waits in the queue of its tenant. Statements that end a
    /// transaction, which releases its locks, do not wait, nor do others that may unblock queries.
    pub(super) fn waits_for_its_turn(&self) -> bool {
        let waits = matches!(
            self,
            Self::Sql(_) | Self::Summarize(_) | Self::Explain(_) | Self::CopyFrom(_)
        );
        waits && !self.is_setting()
    }

    /// True for a statement that locks rows that it reads, until the end of its transaction.
    #[must_use]
    pub fn locks_rows(&self) -> bool {
        let Self::Sql(statement) = self else { return false };
        row_locks::may_be_in(statement) && row_locks::are_in(statement)
    }

    /// True for a statement that changes the engine and cannot be part of a transaction.
    #[must_use]
    pub fn is_of_the_engine(&self) -> bool {
        matches!(
            self,
            Self::Tenant(_) | Self::Role(_) | Self::Tier(_) | Self::Heap(_) | Self::Secret(_)
        )
    }
}

impl CopyStatement {
    /// Returns the query whose rows are copied; `None` for a COPY of a table.
    #[must_use]
    pub fn query(&self) -> Option<SessionStatement> {
        let CopySource::Query(query) = &self.source else { return None };
        let query = SqlStatement::Query(query.clone());
        Some(SessionStatement::Sql(Box::new(Statement::Statement(Box::new(query)))))
    }
}

impl CursorStatement {
    /// The query of a DECLARE, as a statement.
    #[must_use]
    pub fn query(&self) -> Option<SessionStatement> {
        let CursorAction::Declare { query, .. } = &self.action else { return None };
        Some(SessionStatement::Sql(query.clone()))
    }
}

impl fmt::Display for SessionStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sql(statement) => statement.fmt(f),
            Self::Query { action, id } => write!(f, "{} QUERY {id}", action.keyword()),
            Self::Tenant(statement) => statement.fmt(f),
            Self::Role(statement) => statement.fmt(f),
            Self::Comment(statement) => statement.fmt(f),
            Self::Sequence(statement) => statement.fmt(f),
            Self::Identity(statement) => statement.fmt(f),
            Self::Grant(statement) => statement.fmt(f),
            Self::Tier(statement) => statement.fmt(f),
            Self::Heap(statement) => statement.fmt(f),
            Self::Transaction(statement) => statement.fmt(f),
            Self::Copy(statement) => statement.fmt(f),
            Self::CopyFrom(statement) => statement.fmt(f),
            Self::DatabaseCopy(statement) => statement.fmt(f),
            Self::Cursor(statement) => statement.fmt(f),
            Self::Summarize(query) => write!(f, "SUMMARIZE {query}"),
            Self::Explain(statement) => statement.fmt(f),
            Self::Maintenance(statement) => statement.fmt(f),
            Self::Secret(statement) => statement.fmt(f),
            Self::Routine(statement) => statement.fmt(f),
            Self::Type(statement) => statement.fmt(f),
            Self::View(alter) => alter.fmt(f),
        }
    }
}

/// Parses the statements of a text, separated by semicolons.
pub(super) fn parse(mut parser: DFParser<'_>) -> Result<VecDeque<SessionStatement>> {
    let mut statements = VecDeque::new();
    loop {
        let mut delimited = statements.is_empty();
        while parser.parser.consume_token(&Token::SemiColon) {
            delimited = true;
        }
        let next = parser.parser.peek_token();
        if next == Token::EOF {
            return Ok(statements);
        }
        if !delimited {
            return parser.parser.expected("end of statement", next).map_err(refused);
        }
        unsupported::refuse(&parser.parser)?;
        statements.push_back(if let Some(action) = query_action(&parser) {
            about_query(&mut parser, action).map_err(refused)?
        } else if let Some(definition) = definition(&mut parser.parser) {
            definition.map_err(refused)?
        } else if copy::is_next(&parser.parser) {
            SessionStatement::Copy(copy::parse(&mut parser.parser).map_err(refused)?)
        } else if file_copy::is_next(&parser.parser) {
            match file_copy::parse(&mut parser.parser).map_err(refused)? {
                FileCopy::In(copy) => SessionStatement::CopyFrom(copy),
                FileCopy::Out(statement) => SessionStatement::Sql(statement),
            }
        } else if database_copy::is_attach(&parser.parser) {
            return Err(refused(database_copy::refuse_attach(&mut parser.parser)));
        } else if database_copy::is_next(&parser.parser) {
            let copy = database_copy::parse(&mut parser.parser).map_err(refused)?;
            SessionStatement::DatabaseCopy(Box::new(copy))
        } else if cursor::is_next(&parser.parser) {
            SessionStatement::Cursor(cursor::parse(&mut parser)?)
        } else if explain::is_next(&parser.parser) {
            match explain::parse(&mut parser)? {
                Explained::Terrace(statement) => SessionStatement::Explain(statement),
                Explained::DataFusion(statement) => SessionStatement::Sql(statement),
            }
        } else if summarize::is_next(&parser) {
            SessionStatement::Summarize(Box::new(summarize::parse(&mut parser)?))
        } else if maintenance::is_next(&parser.parser) {
            let statement = maintenance::parse(&mut parser.parser).map_err(refused)?;
            SessionStatement::Maintenance(statement)
        } else if let Some(statement) = acting_role::parse(&mut parser.parser) {
            SessionStatement::Sql(Box::new(statement.map_err(refused)?))
        } else if let Some(statement) = transaction::abort(&mut parser.parser) {
            SessionStatement::Transaction(statement)
        } else {
            let statement = match alter_syntax::is_next(&parser) {
                true => alter_syntax::parse(&mut parser).map_err(refused)?,
                false => setting_names::of_time_zone(pragma::as_set(parser.parse_statement()?)),
            };
            if let Some(statement) = transaction::of(&statement)? {
                SessionStatement::Transaction(statement)
            } else if let Some(statement) = setting_names::of_engine(&statement)? {
                SessionStatement::Tier(statement)
            } else if let Some(statement) = grant::of(&statement)? {
                SessionStatement::Grant(Box::new(statement))
            } else {
                SessionStatement::Sql(Box::new(statement))
            }
        });
    }
}

/// Parses a definition that DataFusion does not plan, if one follows.
fn definition(parser: &mut Parser<'_>) -> Option<Result<SessionStatement, ParserError>> {
    Some(if tenant::is_next(parser) {
        tenant::parse(parser).map(SessionStatement::Tenant)
    } else if role::is_next(parser) {
        role::parse(parser).map(SessionStatement::Role)
    } else if membership::is_next(parser) {
        membership::parse(parser).map(SessionStatement::Role)
    } else if comment::is_next(parser) {
        comment::parse(parser).map(SessionStatement::Comment)
    } else if sequence::is_next(parser) {
        sequence::parse(parser).map(SessionStatement::Sequence)
    } else if identity::is_next(parser) {
        identity::parse(parser).map(|it| SessionStatement::Identity(Box::new(it)))
    } else if tier::is_next(parser) {
        tier::parse(parser).map(SessionStatement::Tier)
    } else if secret::is_next(parser) {
        secret::parse(parser).map(SessionStatement::Secret)
    } else if heap::is_next(parser) {
        heap::parse(parser).map(SessionStatement::Heap)
    } else if object_change::is_next(parser) {
        object_change::parse(parser).map(|it| SessionStatement::View(Box::new(it)))
    } else if type_syntax::is_next(parser) {
        type_syntax::parse(parser).map(|it| SessionStatement::Type(Box::new(it)))
    } else if routine_syntax::is_next(parser) {
        routine_syntax::parse(parser).map(|it| SessionStatement::Routine(Box::new(it)))
    } else {
        return None;
    })
}

fn query_action(parser: &DFParser<'_>) -> Option<QueryAction> {
    let first = &parser.parser.peek_token_ref().token;
    QueryAction::ALL.into_iter().find(|action| is_word(first, action.keyword()))
}

fn about_query(
    parser: &mut DFParser<'_>,
    action: QueryAction,
) -> Result<SessionStatement, ParserError> {
    let parser = &mut parser.parser;
    parser.advance_token();
    let next = parser.next_token();
    match &next.token {
        Token::Word(word) if word.value.eq_ignore_ascii_case("query") => {}
        _ => return parser.expected("QUERY and the number of a query", next),
    }
    let id = parser.parse_literal_uint()?;
    Ok(SessionStatement::Query { action, id })
}
