//! Options in CREATE SEQUENCE and ALTER SEQUENCE, and the resulting options of the sequence.

use datafusion::common::plan_datafusion_err;
use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use terrace_table::catalog::{SequenceOptions, SequenceType};
use terrace_table::error::SqlError;

use super::dialect::TerraceDialect;
use super::words::{refused, take_all};

/// Options in a CREATE SEQUENCE or ALTER SEQUENCE; `None` for those that it does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceChanges {
    data_type: Option<SequenceType>,
    start: Option<i64>,
    increment: Option<i64>,
    /// `Some(None)` for NO MINVALUE.
    min: Option<Option<i64>>,
    max: Option<Option<i64>>,
    cache: Option<i64>,
    cycles: Option<bool>,
    /// `Some(None)` for RESTART without a number.
    restart: Option<Option<i64>>,
    /// The column of OWNED BY, behind the name of its table; `Some(None)` for NONE.
    owner: Option<Option<ObjectName>>,
}

impl SequenceChanges {
    /// Parses `text`, the options of a SERIAL or identity column, for a column of `data_type`.
    ///
    /// # Errors
    /// Errors of the text of the options.
    pub(super) fn of_column(text: &str, data_type: SequenceType) -> Result<Self, SqlError> {
        let dialect = TerraceDialect;
        let parsed = Parser::new(&dialect).try_with_sql(text);
        let changes = parsed.and_then(|mut parser| {
            let changes = take_changes(&mut parser, false)?;
            parser.expect_token(&Token::EOF).map(|_| changes)
        });
        Ok(Self { data_type: Some(data_type), ..changes.map_err(refused)? })
    }

    /// Parses an option if one follows. Returns false if none does.
    ///
    /// # Errors
    /// An option that is there already; errors of its value.
    pub(super) fn take_next(
        &mut self,
        parser: &mut Parser<'_>,
        is_alter: bool,
    ) -> Result<bool, ParserError> {
        if take_all(parser, &["as"]) {
            set(&mut self.data_type, data_type(parser)?)?;
        } else if take_all(parser, &["increment"]) {
            let _optional = take_all(parser, &["by"]);
            set(&mut self.increment, number(parser)?)?;
        } else if take_all(parser, &["no", "minvalue"]) {
            set(&mut self.min, None)?;
        } else if take_all(parser, &["minvalue"]) {
            set(&mut self.min, Some(number(parser)?))?;
        } else if take_all(parser, &["no", "maxvalue"]) {
            set(&mut self.max, None)?;
        } else if take_all(parser, &["maxvalue"]) {
            set(&mut self.max, Some(number(parser)?))?;
        } else if take_all(parser, &["start"]) {
            let _optional = take_all(parser, &["with"]);
            set(&mut self.start, number(parser)?)?;
        } else if take_all(parser, &["cache"]) {
            set(&mut self.cache, number(parser)?)?;
        } else if take_all(parser, &["no", "cycle"]) {
            set(&mut self.cycles, false)?;
        } else if take_all(parser, &["cycle"]) {
            set(&mut self.cycles, true)?;
        } else if take_all(parser, &["owned", "by"]) {
            let is_none = take_all(parser, &["none"]);
            let owner = if is_none { None } else { Some(parser.parse_object_name(false)?) };
            set(&mut self.owner, owner)?;
        } else if is_alter && take_all(parser, &["restart"]) {
            let has_number = take_all(parser, &["with"]) || is_number(parser);
            let value = if has_number { Some(number(parser)?) } else { None };
            set(&mut self.restart, value)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Returns the changes for the sequence of a column of `data_type`.
    pub(super) fn with_type(self, data_type: SequenceType) -> Self {
        Self { data_type: Some(data_type), ..self }
    }

    /// Returns the column of OWNED BY, behind the name of its table, and `Some(None)` for NONE;
    /// `None` without OWNED BY.
    pub(super) fn owner(&self) -> Option<Option<&ObjectName>> {
        self.owner.as_ref().map(Option::as_ref)
    }

    /// Returns the next number after RESTART: its value, or without one the START of `options`;
    /// `None` if RESTART is not among the changes.
    pub(super) fn restart(&self, options: &SequenceOptions) -> Option<i64> {
        self.restart.map(|value| value.unwrap_or(options.start))
    }

    /// Returns the options of a new sequence.
    ///
    /// # Errors
    /// Values that contradict each other.
    pub(super) fn created(&self) -> Result<SequenceOptions, SqlError> {
        let increment = self.increment.unwrap_or(1);
        let data_type = self.data_type.unwrap_or_default();
        let (least, greatest) = data_type.bounds();
        let is_up = increment > 0;
        let min = self.min.flatten().unwrap_or(if is_up { 1 } else { least });
        let max = self.max.flatten().unwrap_or(if is_up { greatest } else { -1 });
        let start = self.start.unwrap_or(if is_up { min } else { max });
        let cache = self.cache.unwrap_or(1);
        let cycles = self.cycles.unwrap_or(false);
        checked(SequenceOptions { data_type, start, increment, min, max, cache, cycles })
    }

    /// Returns the options of a sequence after ALTER SEQUENCE.
    ///
    /// # Errors
    /// Values that contradict each other.
    pub(super) fn altered(&self, before: &SequenceOptions) -> Result<SequenceOptions, SqlError> {
        let increment = self.increment.unwrap_or(before.increment);
        let data_type = self.data_type.unwrap_or(before.data_type);
        let ((old_min, old_max), (least, greatest)) =
            (before.data_type.bounds(), data_type.bounds());
        let is_up = increment > 0;
        let of_type = |value: i64, old: i64, new: i64| if value == old { new } else { value };
        let min = match self.min {
            Some(min) => min.unwrap_or(if is_up { 1 } else { least }),
            None => of_type(before.min, old_min, least),
        };
        let max = match self.max {
            Some(max) => max.unwrap_or(if is_up { greatest } else { -1 }),
            None => of_type(before.max, old_max, greatest),
        };
        let options = SequenceOptions {
            data_type,
            start: self.start.unwrap_or(before.start),
            increment,
            min,
            max,
            cache: self.cache.unwrap_or(before.cache),
            cycles: self.cycles.unwrap_or(before.cycles),
        };
        checked(options)
    }
}

/// Refuses options that contradict each other, in PostgreSQL's words.
fn checked(options: SequenceOptions) -> Result<SequenceOptions, SqlError> {
    let SequenceOptions { data_type, start, increment, min, max, cache, .. } = options;
    let (least, greatest) = data_type.bounds();
    let out_of_range = |word: &str, value: i64| {
        let name = data_type.name();
        format!("{word} ({value}) is out of range for sequence data type {name}")
    };
    let fault = if increment == 0 {
        "INCREMENT must not be zero".to_owned()
    } else if max > greatest || max < least {
        out_of_range("MAXVALUE", max)
    } else if min < least || min > greatest {
        out_of_range("MINVALUE", min)
    } else if min >= max {
        format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")
    } else if cache < 1 {
        format!("CACHE ({cache}) must be greater than zero")
    } else {
        return in_bounds("START", start, &options).map(|()| options);
    };
    Err(plan_datafusion_err!("{fault}").into())
}

/// Refuses a number that is not between the bounds of a sequence.
///
/// # Errors
/// A message in PostgreSQL's words.
pub(super) fn in_bounds(word: &str, value: i64, options: &SequenceOptions) -> Result<(), SqlError> {
    let SequenceOptions { min, max, .. } = options;
    if value < *min {
        let fault = format!("{word} value ({value}) cannot be less than MINVALUE ({min})");
        return Err(plan_datafusion_err!("{fault}").into());
    }
    if value > *max {
        let fault = format!("{word} value ({value}) cannot be greater than MAXVALUE ({max})");
        return Err(plan_datafusion_err!("{fault}").into());
    }
    Ok(())
}

/// Parses options as long as they follow. Those of ALTER SEQUENCE include RESTART.
pub(super) fn take_changes(
    parser: &mut Parser<'_>,
    is_alter: bool,
) -> Result<SequenceChanges, ParserError> {
    let mut all = SequenceChanges::default();
    while all.take_next(parser, is_alter)? {}
    Ok(all)
}

fn set<T>(option: &mut Option<T>, value: T) -> Result<(), ParserError> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(ParserError::ParserError("conflicting or redundant options".to_owned())),
    }
}

fn data_type(parser: &mut Parser<'_>) -> Result<SequenceType, ParserError> {
    let name = parser.parse_identifier()?.value.to_ascii_lowercase();
    match name.as_str() {
        "smallint" | "int2" => Ok(SequenceType::SmallInt),
        "integer" | "int" | "int4" => Ok(SequenceType::Integer),
        "bigint" | "int8" => Ok(SequenceType::BigInt),
        _ => {
            let text = "sequence type must be smallint, integer, or bigint";
            Err(ParserError::ParserError(text.to_owned()))
        }
    }
}

fn is_number(parser: &Parser<'_>) -> bool {
    matches!(parser.peek_token().token, Token::Number(..) | Token::Minus | Token::Plus)
}

/// Parses an integer with an optional sign.
fn number(parser: &mut Parser<'_>) -> Result<i64, ParserError> {
    let is_negative = parser.consume_token(&Token::Minus);
    let _positive = !is_negative && parser.consume_token(&Token::Plus);
    let next = parser.next_token();
    let Token::Number(digits, _) = &next.token else {
        return parser.expected("a number", next);
    };
    let text = if is_negative { format!("-{digits}") } else { digits.clone() };
    text.parse().map_err(|_| {
        ParserError::ParserError(format!("value \"{text}\" is out of range for type bigint"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(text: &str) -> Result<SequenceOptions, SqlError> {
        SequenceChanges::of_column(text, SequenceType::BigInt)?.created()
    }

    #[test]
    fn options_have_the_defaults_of_postgres() {
        let up = created("").expect("created");
        assert_eq!((up.start, up.min, up.max, up.increment), (1, 1, i64::MAX, 1));
        let down = created("INCREMENT BY -2").expect("created");
        assert_eq!((down.start, down.min, down.max), (-1, i64::MIN, -1));
        let any = created("START 7 NO CYCLE MINVALUE -5 INCREMENT 3 NO MAXVALUE CACHE 2");
        let any = any.expect("created");
        assert_eq!((any.start, any.min, any.max, any.cache), (7, -5, i64::MAX, 2));
    }

    #[test]
    fn contradictions_are_refused() {
        for (text, fault) in [
            ("INCREMENT 0", "INCREMENT must not be zero"),
            ("MINVALUE 5 MAXVALUE 3", "MINVALUE (5) must be less than MAXVALUE (3)"),
            ("START 0", "START value (0) cannot be less than MINVALUE (1)"),
            ("START 11 MAXVALUE 10", "START value (11) cannot be greater than MAXVALUE (10)"),
            ("CACHE 0", "CACHE (0) must be greater than zero"),
            ("START 1 START 2", "conflicting or redundant options"),
            ("START 9223372036854775808", "is out of range for type bigint"),
        ] {
            let error = created(text).expect_err(text).to_string();
            assert!(error.contains(fault), "{text}: {error}");
        }
        let small = SequenceChanges::of_column("MAXVALUE 100000", SequenceType::SmallInt);
        let error = small.and_then(|it| it.created()).expect_err("too large").to_string();
        assert_eq!(error, "MAXVALUE (100000) is out of range for sequence data type smallint");
    }
}
