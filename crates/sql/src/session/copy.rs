//! COPY between a table and a client: rows that the client sends or receives, in a format of its
//! choice. `COPY ... TO 'file'` is another statement, which DataFusion plans.
//!
//! ```text
//! COPY table [(columns)] FROM STDIN [WITH] (FORMAT text | csv | binary, HEADER [MATCH], ...)
//! COPY table [(columns)] | (query) TO STDOUT [WITH] (FORMAT text | csv | binary, ...)
//! ```

use std::fmt;

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::words::{is_word, take_all};

/// A COPY between a table and a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyStatement {
    pub(super) source: CopySource,
    /// True for COPY FROM: the client sends the rows.
    pub is_in: bool,
    /// The format of the rows.
    pub format: CopyFormat,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CopySource {
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
        /// The first line.
        header: CopyHeader,
    },
    /// Comma-separated values.
    Csv {
        /// Separator of values.
        delimiter: u8,
        /// Text that stands for a null, unless it is quoted.
        null: String,
        /// The first line.
        header: CopyHeader,
        /// Encloses values with special characters.
        quote: u8,
        /// Escapes a quote in a quoted value.
        escape: u8,
    },
    /// The binary format of PostgreSQL.
    Binary,
}

/// The first line of rows in text or csv.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyHeader {
    /// It is a row.
    #[default]
    Absent,
    /// It names the columns. COPY FROM skips it.
    Names,
    /// It names the columns, and COPY FROM refuses other names, and other numbers of them.
    Match,
}

impl CopyFormat {
    /// Returns the kind of the first line.
    #[must_use]
    pub fn header(&self) -> CopyHeader {
        match self {
            Self::Text { header, .. } | Self::Csv { header, .. } => *header,
            Self::Binary => CopyHeader::Absent,
        }
    }

    /// Returns true if the first line names the columns.
    #[must_use]
    pub fn has_header(&self) -> bool {
        self.header() != CopyHeader::Absent
    }

    /// Returns the text that stands for a null; empty for the binary format, which uses none.
    #[must_use]
    pub fn null(&self) -> &str {
        match self {
            Self::Text { null, .. } | Self::Csv { null, .. } => null,
            Self::Binary => "",
        }
    }
}

/// Parsed options.
#[derive(Default)]
struct Options {
    format: Option<String>,
    delimiter: Option<u8>,
    null: Option<String>,
    header: CopyHeader,
    quote: Option<u8>,
    escape: Option<u8>,
    /// Names of the options so far.
    named: Vec<String>,
}

/// Returns true if a COPY FROM STDIN or TO STDOUT follows.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    if !is_word(&parser.peek_nth_token_ref(0).token, "copy") {
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
    let source = source(parser)?;
    let is_in = take_all(parser, &["from", "stdin"]);
    if !is_in && !take_all(parser, &["to", "stdout"]) {
        return parser.expected("FROM STDIN or TO STDOUT", parser.peek_token());
    }
    if is_in && matches!(source, CopySource::Query(_)) {
        return Err(refused("COPY of a query FROM STDIN", "name a table"));
    }
    let format = options(parser)?.format(is_in)?;
    Ok(CopyStatement { source, is_in, format })
}

/// Parses COPY and the table or query behind it.
pub(super) fn source(parser: &mut Parser<'_>) -> Result<CopySource, ParserError> {
    parser.expect_keyword(Keyword::COPY)?;
    if parser.consume_token(&Token::LParen) {
        let query = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        return Ok(CopySource::Query(query));
    }
    let name = parser.parse_object_name(false)?;
    let mut columns = vec![];
    if parser.consume_token(&Token::LParen) {
        columns = parser.parse_comma_separated(Parser::parse_identifier)?;
        parser.expect_token(&Token::RParen)?;
    }
    Ok(CopySource::Table(name, columns))
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
            "header" => options.header = CopyHeader::Names,
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
        if self.named.iter().any(|known| known == name) {
            return Err(refused(&format!("the option {name} twice"), "say it once"));
        }
        self.named.push(name.to_owned());
        match name {
            "format" => self.format = Some(parser.parse_identifier()?.value.to_ascii_lowercase()),
            "delimiter" => self.delimiter = Some(byte(parser, name)?),
            "null" => self.null = Some(parser.parse_literal_string()?),
            "quote" => self.quote = Some(byte(parser, name)?),
            "escape" => self.escape = Some(byte(parser, name)?),
            "header" => {
                let next = parser.peek_token().token;
                let is_bare = matches!(next, Token::Comma | Token::RParen);
                self.header = if is_bare { CopyHeader::Names } else { header(parser)? };
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

    fn format(self, is_in: bool) -> Result<CopyFormat, ParserError> {
        let Self { format, delimiter, null, header, quote, escape, .. } = self;
        if header == CopyHeader::Match && !is_in {
            let text = "cannot use \"match\" with HEADER in COPY TO".to_owned();
            return Err(ParserError::ParserError(text));
        }
        let format = format.unwrap_or_else(|| "text".to_owned());
        if format != "csv" && (quote.is_some() || escape.is_some()) {
            return Err(refused("QUOTE or ESCAPE without FORMAT csv", "say FORMAT csv"));
        }
        match format.as_str() {
            "text" => {
                let delimiter = delimiter.unwrap_or(b'\t');
                let null = null.unwrap_or_else(|| "\\N".to_owned());
                check_marks((delimiter, &null), None)?;
                Ok(CopyFormat::Text { delimiter, null, header })
            }
            "csv" => {
                let quote = quote.unwrap_or(b'"');
                let (delimiter, null) = (delimiter.unwrap_or(b','), null.unwrap_or_default());
                check_marks((delimiter, &null), Some(quote))?;
                let escape = escape.unwrap_or(quote);
                Ok(CopyFormat::Csv { delimiter, null, header, quote, escape })
            }
            "binary" if delimiter.is_some() || null.is_some() || header != CopyHeader::Absent => {
                Err(refused("DELIMITER, NULL or HEADER with FORMAT binary", "leave them out"))
            }
            "binary" => Ok(CopyFormat::Binary),
            other => Err(refused(&format!("FORMAT {other}"), "there are text, csv and binary")),
        }
    }
}

/// Refuses delimiters and nulls whose rows could not be read back, in PostgreSQL's words. Only CSV
/// has a quote.
fn check_marks((delimiter, null): (u8, &str), quote: Option<u8>) -> Result<(), ParserError> {
    /// Characters of the escapes of the text format.
    const OF_ESCAPES: &[u8] = b"\\.abcdefghijklmnopqrstuvwxyz0123456789";
    let fault = if quote.is_none() && OF_ESCAPES.contains(&delimiter) {
        format!("COPY delimiter cannot be \"{}\"", char::from(delimiter))
    } else if quote == Some(delimiter) {
        "COPY delimiter and quote must be different".to_owned()
    } else if null.bytes().any(|byte| byte == delimiter) {
        "COPY delimiter character must not appear in the NULL specification".to_owned()
    } else if null.bytes().any(|byte| Some(byte) == quote) {
        "CSV quote character must not appear in the NULL specification".to_owned()
    } else if null.contains(['\n', '\r']) {
        "COPY null representation cannot use newline or carriage return".to_owned()
    } else {
        return Ok(());
    };
    Err(ParserError::ParserError(fault))
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

fn header(parser: &mut Parser<'_>) -> Result<CopyHeader, ParserError> {
    let token = parser.next_token();
    match token.to_string().to_ascii_lowercase().trim_matches('\'') {
        "true" | "on" | "1" => Ok(CopyHeader::Names),
        "false" | "off" | "0" => Ok(CopyHeader::Absent),
        "match" => Ok(CopyHeader::Match),
        _ => parser.expected("a Boolean value or \"match\" for HEADER", token),
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
            CopyFormat::Text { .. } if !self.format.has_header() => return Ok(()),
            CopyFormat::Text { .. } => "text",
            CopyFormat::Csv { .. } => "csv",
            CopyFormat::Binary => "binary",
        };
        let header = match self.format.header() {
            CopyHeader::Absent => "",
            CopyHeader::Names => ", HEADER",
            CopyHeader::Match => ", HEADER MATCH",
        };
        write!(f, " (FORMAT {name}{header})")
    }
}

pub(super) fn list(columns: &[Ident]) -> String {
    columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
