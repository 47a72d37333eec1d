//! `format`: a template whose `%s`, `%I` and `%L` are replaced by values.

use std::iter::Peekable;
use std::str::Chars;

use datafusion::common::{Result, ScalarValue, plan_datafusion_err};

use super::super::value::Value;
use super::argument::text;
use super::call::Call;
use super::function::{Definition, Returns, lenient};
use super::identifier::quote;
use super::texts::literal;

/// Maximum number of values of `format`.
const VALUES_MAX: usize = 32;
/// Maximum width in characters to which a value is padded.
const WIDTH_MAX: usize = 1000;

pub(super) const FUNCTIONS: &[Definition] =
    &[lenient("format", (1, VALUES_MAX + 1), Returns::Text, format)];

fn format(_: &Call<'_>, arguments: &[ScalarValue]) -> Result<Value> {
    let Some((template, values)) = arguments.split_first() else { return Ok(Value::Null) };
    let Some(template) = text(template) else { return Ok(Value::Null) };
    let mut written = String::with_capacity(template.len());
    let mut characters = template.chars().peekable();
    let mut next = 0;
    while let Some(character) = characters.next() {
        if character != '%' {
            written.push(character);
        } else if characters.next_if_eq(&'%').is_some() {
            written.push('%');
        } else {
            let place = Placeholder::parse(&mut characters)?;
            let index = place.position.unwrap_or(next);
            next = index + 1;
            let missing = || plan_datafusion_err!("format has too few values");
            let value = place.show(values.get(index).ok_or_else(missing)?)?;
            let fill = place.width.saturating_sub(value.chars().count());
            let fill = " ".repeat(fill);
            match place.is_left {
                true => written.extend([value, fill]),
                false => written.extend([fill, value]),
            }
        }
    }
    Ok(written.into())
}

/// A placeholder for a value: `%[position$][-][width]type`.
struct Placeholder {
    position: Option<usize>,
    is_left: bool,
    width: usize,
    kind: char,
}

impl Placeholder {
    fn parse(characters: &mut Peekable<Chars<'_>>) -> Result<Self> {
        let mut number = digits(characters);
        let mut position = None;
        if characters.next_if_eq(&'$').is_some() {
            let of_none = || plan_datafusion_err!("format counts values from 1");
            position = Some(number.and_then(|it| it.checked_sub(1)).ok_or_else(of_none)?);
            number = None;
        }
        let is_left = characters.next_if_eq(&'-').is_some();
        let width = number.or_else(|| digits(characters)).unwrap_or(0).min(WIDTH_MAX);
        let kind = characters.next().filter(|kind| "sIL".contains(*kind));
        let kind = kind.ok_or_else(|| plan_datafusion_err!("format takes %s, %I, %L and %%"))?;
        Ok(Self { position, is_left, width, kind })
    }

    fn show(&self, value: &ScalarValue) -> Result<String> {
        let shown = text(value).unwrap_or_default();
        Ok(match self.kind {
            'I' if value.is_null() => {
                return Err(plan_datafusion_err!("null is no name: format takes none for %I"));
            }
            'I' => quote(&shown),
            'L' if value.is_null() => "NULL".to_owned(),
            'L' => literal(std::slice::from_ref(value)),
            _ => shown,
        })
    }
}

fn digits(characters: &mut Peekable<Chars<'_>>) -> Option<usize> {
    let mut number = None;
    while let Some(digit) = characters.peek().and_then(|it| it.to_digit(10)) {
        characters.next();
        let so_far: usize = number.unwrap_or(0);
        number = Some(so_far.saturating_mul(10).saturating_add(usize::try_from(digit).ok()?));
    }
    number
}
