//! `printf` and `format`: values in the places of a template.
//!
//! A template of `format` with `%s`, `%I` or `%L` is PostgreSQL's; one with braces, such as `{}`,
//! is DuckDB's. Values that are null make the result null in DuckDB's templates, and are the empty
//! text in PostgreSQL's.

mod braces;
mod float;
mod layout;
mod percent;
mod postgres;
mod value;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use self::layout::{Align, Field, Piece, bounded};
use self::value::{Column, Value};
use super::quote::{quoted_ident, quoted_literal};
use crate::scalar::{Call, Definition, Kind, Overload, Text};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new(
        "printf",
        &[Overload::new(&[Kind::Text], Kind::Text, printf).followed_by(Kind::Any)],
    ),
    Definition::new(
        "format",
        &[Overload::new(&[Kind::Text], Kind::Text, format).followed_by(Kind::Any)],
    ),
];

/// Bytes of the text of one row.
const BYTES_MAX: usize = 64 << 20;

/// The kind of a template.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Percent,
    Braces,
    Postgres,
}

impl Form {
    /// The form of a template of `format`: DuckDB's if it has braces and no field of PostgreSQL.
    fn of(template: &str) -> Self {
        match template.contains(['{', '}']) && !postgres::has_fields(template) {
            true => Self::Braces,
            false => Self::Postgres,
        }
    }

    fn parsed(self, template: &str) -> Result<Vec<Piece>> {
        match self {
            Self::Percent => percent::parsed(template),
            Self::Braces => braces::parsed(template),
            Self::Postgres => postgres::parsed(template),
        }
    }
}

fn printf(call: &Call) -> Result<ArrayRef> {
    formatted(call, |_| Form::Percent)
}

fn format(call: &Call) -> Result<ArrayRef> {
    formatted(call, Form::of)
}

/// Formats each row by its template, which is read once for consecutive rows.
fn formatted(call: &Call, form_of: fn(&str) -> Form) -> Result<ArrayRef> {
    let arrays = (1..call.len()).map(|argument| call.array(argument));
    let columns = arrays.map(|array| Column::new(array?)).collect::<Result<Vec<_>>>()?;
    let arguments = Arguments { call, columns };
    let mut known: Option<(&str, Form, Vec<Piece>)> = None;
    call.rows_of::<Text>(|row| {
        let Some(template) = call.value::<Text>(0, row)? else { return Ok(None) };
        let (_, form, pieces) = match &mut known {
            Some(known) if known.0 == template => known,
            known => {
                let form = form_of(template);
                known.insert((template, form, form.parsed(template)?))
            }
        };
        Ok(arguments.filled(*form, pieces, row)?.map(Into::into))
    })
}

/// The arguments behind a template.
struct Arguments<'a> {
    call: &'a Call,
    columns: Vec<Column<'a>>,
}

impl Arguments<'_> {
    /// The text of a row; `None` if a value is null and the form has no text for it.
    fn filled(&self, form: Form, pieces: &[Piece], row: usize) -> Result<Option<String>> {
        if form != Form::Postgres {
            for argument in 1..self.call.len() {
                if self.call.is_null(argument, row)? {
                    return Ok(None);
                }
            }
        }
        let mut text = String::new();
        for piece in pieces {
            match (piece, form) {
                (Piece::Literal(literal), _) => text.push_str(literal),
                (Piece::Field(field), Form::Postgres) => text.push_str(&self.quoted(field, row)?),
                (Piece::Field(field), form) => text.push_str(&self.laid_out(field, form, row)?),
            }
            if text.len() > BYTES_MAX {
                return exec_err!("a text of {} exceeds {BYTES_MAX} bytes", self.call.name());
            }
        }
        Ok(Some(text))
    }

    /// The value of an argument; `None` if it is null.
    fn value(&self, argument: usize, row: usize) -> Result<Option<Value<'static>>> {
        let Some(column) = self.columns.get(argument) else {
            return exec_err!(
                "the template of {} has a field for value {}, but {} values follow it",
                self.call.name(),
                argument + 1,
                self.columns.len()
            );
        };
        let is_null = self.call.is_null(argument + 1, row)?;
        let row = if self.call.is_constant(argument + 1)? { 0 } else { row };
        Ok((!is_null).then(|| column.value(row)))
    }

    fn laid_out(&self, field: &Field, form: Form, row: usize) -> Result<String> {
        let align = if form == Form::Braces { Align::Left } else { Align::Right };
        match self.value(field.argument, row)? {
            Some(value) => value.formatted(field, align),
            None => Ok(String::new()),
        }
    }

    /// The text of a field `%s`, `%I` or `%L` in its width; the last two are quoted.
    fn quoted(&self, field: &Field, row: usize) -> Result<String> {
        let value = self.value(field.argument, row)?.map(|value| value.plain());
        let text = match (field.conversion, value) {
            (Some('I'), Some(text)) => quoted_ident(&text).into_owned(),
            (Some('I'), None) => return exec_err!("null has no text as an identifier"),
            (Some('L'), Some(text)) => quoted_literal(&text),
            (Some('L'), None) => "NULL".to_owned(),
            (_, text) => text.unwrap_or_default(),
        };
        let mut layout = field.layout.clone();
        if let Some(argument) = field.width_argument {
            match self.value(argument, row)? {
                Some(Value::Integer(width)) => {
                    if width < 0 {
                        layout.align = Some(Align::Left);
                    }
                    layout.width = bounded(usize::try_from(width.unsigned_abs()).ok())?;
                }
                None => {}
                Some(_) => return exec_err!("the width of a field of format is an integer"),
            }
        }
        Ok(layout.text(&text, Align::Right))
    }
}
