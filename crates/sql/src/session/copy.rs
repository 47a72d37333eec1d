//! COPY between a table and a client: rows that the client sends or receives, in a format of its
//! choice. `COPY ... TO 'file'` is another statement, which DataFusion plans.
//!
//! ```text
//! COPY table [(columns)] FROM STDIN [WITH] (FORMAT text | csv | binary, ...)
//! COPY table [(columns)] | (query) TO STDOUT [WITH] (FORMAT text | csv | binary, ...)
//! ```

use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::{Column, ScalarValue, TableReference, exec_err};
use datafusion::datasource::provider_as_source;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, lit};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use futures::future::BoxFuture;
use futures::stream;
use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;
use tokio::sync::mpsc;

use super::Session;
use super::words::{is_word, take_all};
use crate::error::SqlError;
use crate::provider::StoredTable;
use crate::query::QueryHandle;
use crate::sessions::{HeldBytes, HeldFor, SessionInfo};

/// Maximum number of batches that wait for the inserting statement.
const WAITING_MAX: usize = 2;

/// A COPY between a table and a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyStatement {
    source: CopySource,
    /// True for COPY FROM: the client sends the rows.
    pub is_in: bool,
    /// The format of the rows.
    pub format: CopyFormat,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum CopySource {
    Table(ObjectName, Vec<Ident>),
    Query(Box<Query>),
}

/// A format of rows, as in PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// One line per row, with special characters escaped by a backslash.
    Text {
        /// Separator of values.
        delimiter: u8,
        /// Text that stands for a null.
        null: String,
        /// True if the first line names the columns.
        has_header: bool,
    },
    /// Comma-separated values.
    Csv {
        /// Separator of values.
        delimiter: u8,
        /// Text that stands for a null, unless it is quoted.
        null: String,
        /// True if the first line names the columns.
        has_header: bool,
        /// Encloses values with special characters.
        quote: u8,
        /// Escapes a quote in a quoted value.
        escape: u8,
    },
    /// All values in binary format.
    Binary,
}

impl CopyFormat {
    /// Returns true if the first line names the columns.
    #[must_use]
    pub fn has_header(&self) -> bool {
        match self {
            Self::Text { has_header, .. } | Self::Csv { has_header, .. } => *has_header,
            Self::Binary => false,
        }
    }
}

/// Parsed options.
#[derive(Default)]
struct Options {
    format: Option<String>,
    delimiter: Option<u8>,
    null: Option<String>,
    has_header: bool,
    quote: Option<u8>,
    escape: Option<u8>,
}

/// Returns true if a COPY from or to the client follows.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    if !is_word(&parser.peek_nth_token(0).token, "copy") {
        return false;
    }
    let mut depth = 0_usize;
    for place in 1.. {
        let token = parser.peek_nth_token(place).token;
        match token {
            Token::EOF | Token::SemiColon => return false,
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            token if depth == 0 && (is_word(&token, "from") || is_word(&token, "to")) => {
                let target = parser.peek_nth_token(place + 1).token;
                return is_word(&target, "stdin") || is_word(&target, "stdout");
            }
            _ => {}
        }
    }
    false
}

/// Parses a COPY from or to the client.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<CopyStatement, ParserError> {
    parser.expect_keyword(Keyword::COPY)?;
    let source = if parser.consume_token(&Token::LParen) {
        let query = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        CopySource::Query(query)
    } else {
        let name = parser.parse_object_name(false)?;
        let mut columns = vec![];
        if parser.consume_token(&Token::LParen) {
            columns = parser.parse_comma_separated(Parser::parse_identifier)?;
            parser.expect_token(&Token::RParen)?;
        }
        CopySource::Table(name, columns)
    };
    let is_in = take_all(parser, &["from", "stdin"]);
    if !is_in && !take_all(parser, &["to", "stdout"]) {
        return parser.expected("FROM STDIN or TO STDOUT", parser.peek_token());
    }
    if is_in && matches!(source, CopySource::Query(_)) {
        return Err(refused("COPY of a query FROM STDIN", "name a table"));
    }
    let format = options(parser)?.format()?;
    Ok(CopyStatement { source, is_in, format })
}

fn options(parser: &mut Parser<'_>) -> Result<Options, ParserError> {
    let mut options = Options::default();
    let _with = take_all(parser, &["with"]);
    if parser.consume_token(&Token::LParen) {
        loop {
            let name = parser.parse_identifier()?.value.to_ascii_lowercase();
            options.read(parser, &name)?;
            if !parser.consume_token(&Token::Comma) {
                parser.expect_token(&Token::RParen)?;
                return Ok(options);
            }
        }
    }
    // The syntax before PostgreSQL 9.
    while let Token::Word(word) = parser.peek_token().token {
        parser.advance_token();
        match word.value.to_ascii_lowercase().as_str() {
            name @ ("csv" | "binary") => options.format = Some(name.to_owned()),
            "header" => options.has_header = true,
            name => {
                let _as = take_all(parser, &["as"]);
                options.read(parser, name)?;
            }
        }
    }
    Ok(options)
}

impl Options {
    fn read(&mut self, parser: &mut Parser<'_>, name: &str) -> Result<(), ParserError> {
        match name {
            "format" => self.format = Some(parser.parse_identifier()?.value.to_ascii_lowercase()),
            "delimiter" => self.delimiter = Some(byte(parser, name)?),
            "null" => self.null = Some(parser.parse_literal_string()?),
            "quote" => self.quote = Some(byte(parser, name)?),
            "escape" => self.escape = Some(byte(parser, name)?),
            "header" => {
                let next = parser.peek_token().token;
                let is_bare = matches!(next, Token::Comma | Token::RParen);
                self.has_header = is_bare || truth(parser)?;
            }
            "encoding" => {
                let encoding = parser.parse_literal_string()?;
                if !["utf8", "utf-8"].contains(&encoding.to_ascii_lowercase().as_str()) {
                    return Err(refused(&format!("the encoding {encoding}"), "send UTF8"));
                }
            }
            other => {
                let known = "FORMAT, DELIMITER, NULL, HEADER, QUOTE, ESCAPE and ENCODING";
                return Err(refused(
                    &format!("the option {other} of COPY"),
                    &format!("there are {known}"),
                ));
            }
        }
        Ok(())
    }

    fn format(self) -> Result<CopyFormat, ParserError> {
        let Self { format, delimiter, null, has_header, quote, escape } = self;
        let format = format.unwrap_or_else(|| "text".to_owned());
        if format != "csv" && (quote.is_some() || escape.is_some()) {
            return Err(refused("QUOTE or ESCAPE without FORMAT csv", "say FORMAT csv"));
        }
        match format.as_str() {
            "text" => Ok(CopyFormat::Text {
                delimiter: delimiter.unwrap_or(b'\t'),
                null: null.unwrap_or_else(|| "\\N".to_owned()),
                has_header,
            }),
            "csv" => {
                let quote = quote.unwrap_or(b'"');
                Ok(CopyFormat::Csv {
                    delimiter: delimiter.unwrap_or(b','),
                    null: null.unwrap_or_default(),
                    has_header,
                    quote,
                    escape: escape.unwrap_or(quote),
                })
            }
            "binary" if delimiter.is_some() || null.is_some() || has_header => {
                Err(refused("DELIMITER, NULL or HEADER with FORMAT binary", "leave them out"))
            }
            "binary" => Ok(CopyFormat::Binary),
            other => Err(refused(&format!("FORMAT {other}"), "there are text, csv and binary")),
        }
    }
}

fn byte(parser: &mut Parser<'_>, name: &str) -> Result<u8, ParserError> {
    let text = parser.parse_literal_string()?;
    // A tab is often written as E'\t', or as its escape.
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Ok(*byte),
        _ => Err(refused(&format!("{name} '{text}'"), "it is one character of ASCII")),
    }
}

fn truth(parser: &mut Parser<'_>) -> Result<bool, ParserError> {
    let token = parser.next_token();
    match token.to_string().to_ascii_lowercase().trim_matches('\'') {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        "match" => Err(refused("HEADER MATCH", "say HEADER; its names are not compared")),
        _ => parser.expected("true or false", token),
    }
}

fn refused(what: &str, instead: &str) -> ParserError {
    ParserError::ParserError(format!("{what} is not possible; {instead}"))
}

impl fmt::Display for CopyStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            CopySource::Query(query) => write!(f, "COPY ({query})")?,
            CopySource::Table(name, columns) if columns.is_empty() => write!(f, "COPY {name}")?,
            CopySource::Table(name, columns) => write!(f, "COPY {name} ({})", list(columns))?,
        }
        f.write_str(if self.is_in { " FROM STDIN" } else { " TO STDOUT" })?;
        let name = match &self.format {
            CopyFormat::Text { .. } => return Ok(()),
            CopyFormat::Csv { .. } => "csv",
            CopyFormat::Binary => "binary",
        };
        write!(f, " (FORMAT {name})")
    }
}

fn list(columns: &[Ident]) -> String {
    columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A running COPY FROM.
pub struct CopyIn {
    /// Schema of the rows.
    pub schema: SchemaRef,
    /// Accepts the rows.
    pub rows: CopyRows,
    /// The statement that inserts them, which runs while its stream is read.
    pub handle: QueryHandle,
}

/// Sends rows to a COPY FROM. If it is dropped before the end is signalled, the statement fails.
pub struct CopyRows {
    sender: mpsc::Sender<Option<Row>>,
    session: Arc<SessionInfo>,
}

/// Rows in transit, and their accounted bytes.
type Row = (RecordBatch, HeldBytes);

impl CopyRows {
    /// Sends rows, or with `None` the end of the rows. Returns false if the statement has ended;
    /// its handle has the reason.
    pub async fn send(&self, rows: Option<RecordBatch>) -> bool {
        let held = |rows: RecordBatch| {
            let bytes = to_u64(rows.get_array_memory_size());
            (rows, self.session.hold(HeldFor::Client, bytes))
        };
        self.sender.send(rows.map(held)).await.is_ok()
    }
}

impl fmt::Debug for CopyIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyIn").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Session {
    /// Starts the statement that produces the rows of a COPY TO.
    ///
    /// # Errors
    /// As [`Session::execute`].
    pub fn copy_out<'a>(
        &'a self,
        copy: &'a CopyStatement,
    ) -> BoxFuture<'a, Result<QueryHandle, SqlError>> {
        Box::pin(async move {
            let text = match &copy.source {
                CopySource::Query(query) => query.to_string(),
                CopySource::Table(name, columns) if columns.is_empty() => {
                    format!("SELECT * FROM {name}")
                }
                CopySource::Table(name, columns) => {
                    format!("SELECT {} FROM {name}", list(columns))
                }
            };
            let mut statements = self.parse(&text)?;
            match (statements.pop(), copy.is_in) {
                (Some(statement), false) => self.execute(statement).await,
                _ => Err(SqlError::Refused {
                    what: format!("handing out the rows of {copy}"),
                    instead: "it takes rows in".to_owned(),
                }),
            }
        })
    }

    /// Starts the statement that inserts the rows of a COPY FROM.
    ///
    /// # Errors
    /// As [`Session::execute`]; errors for a table or column that does not exist.
    pub fn copy_in<'a>(
        &'a self,
        copy: &'a CopyStatement,
    ) -> BoxFuture<'a, Result<CopyIn, SqlError>> {
        Box::pin(async move {
            let CopySource::Table(name, columns) = &copy.source else {
                let what = format!("taking rows in for {copy}");
                return Err(SqlError::Refused { what, instead: "name a table".to_owned() });
            };
            let scope = self.begin_statement()?;
            let (state, current) = self.state_in(&scope)?;
            let defaults = &state.config_options().catalog;
            let reference = TableReference::parse_str(&name.to_string());
            let full = reference.resolve(&defaults.default_catalog, &defaults.default_schema);
            let found = StoredTable::find(&self.engine, &current, &full.schema, &full.table);
            let missing = || SqlError::Missing { name: format!("{}.{}", full.schema, full.table) };
            let target = found.filter(|_| copy.is_in).ok_or_else(missing)?;
            let schema = chosen(&target, columns)?;
            let (sender, receiver) = mpsc::channel(WAITING_MAX);
            let rows = Arc::new(Incoming {
                schema: Arc::clone(&schema),
                rows: Mutex::new(Some(receiver)),
            });
            let plan = insertion(target, &full.into(), rows)?;
            let run =
                |reader| async { self.physical_plan(state, plan, &current, &scope, reader).await };
            let started = self.start(copy.to_string(), scope.clone(), true, run).await;
            let handle = started.inspect_err(|error| self.failed(error))?;
            let rows = CopyRows { sender, session: Arc::clone(&self.info) };
            Ok(CopyIn { schema, rows, handle })
        })
    }
}

/// The columns that a COPY names, or all if it names none.
fn chosen(target: &StoredTable, columns: &[Ident]) -> Result<SchemaRef, SqlError> {
    let table = target.table();
    if columns.is_empty() {
        return Ok(Arc::clone(table.schema()));
    }
    let mut fields: Vec<Arc<Field>> = vec![];
    for column in columns {
        let name = IdentNormalizer::default().normalize(column.clone());
        let missing =
            || SqlError::Missing { name: format!("column {name} of {}", table.full_name()) };
        let index = table.schema().index_of(&name).map_err(|_| missing())?;
        let field = Arc::clone(&table.schema().fields()[index]);
        if fields.iter().any(|known| known.name() == field.name()) {
            return Err(SqlError::Refused {
                what: format!("naming column {name} twice"),
                instead: "name it once".to_owned(),
            });
        }
        fields.push(field);
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// The plan that inserts the rows; columns that they do not have are null.
fn insertion(
    target: StoredTable,
    name: &TableReference,
    rows: Arc<Incoming>,
) -> Result<LogicalPlan, SqlError> {
    let given = Arc::clone(&rows.schema);
    let source = StreamingTable::try_new(Arc::clone(&given), vec![rows])?;
    let source = provider_as_source(Arc::new(source));
    let columns = target.table().schema().fields().iter().map(|field| {
        let value = match given.index_of(field.name()) {
            Ok(_) => Expr::Column(Column::new(Some("stdin"), field.name())),
            Err(_) => cast(lit(ScalarValue::Null), field.data_type().clone()),
        };
        value.alias(field.name())
    });
    let columns: Vec<Expr> = columns.collect();
    let input = LogicalPlanBuilder::scan("stdin", source, None)?.project(columns)?.build()?;
    let target = provider_as_source(Arc::new(target));
    Ok(LogicalPlanBuilder::insert_into(input, name.clone(), target, InsertOp::Append)?.build()?)
}

/// The rows that a client sends, as the single partition of a table that can be read once.
#[derive(Debug)]
struct Incoming {
    schema: SchemaRef,
    rows: Mutex<Option<mpsc::Receiver<Option<Row>>>>,
}

impl PartitionStream for Incoming {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let taken = lock(&self.rows).take();
        let rows = stream::unfold(taken, |receiver| async {
            let mut receiver = receiver?;
            match receiver.recv().await {
                // From here on, the insertion accounts for them.
                Some(Some((batch, _))) => Some((Ok(batch), Some(receiver))),
                Some(None) => None,
                None => Some((exec_err!("the rows of a COPY have ended early"), None)),
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}
