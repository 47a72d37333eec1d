//! Templates of `printf`, such as `%5d` and `%.2f`.

use datafusion::common::{Result, exec_err};

use super::layout::{Align, Field, Layout, Piece, number, pieces};

/// Reads a template.
///
/// # Errors
/// If it ends within a field, or if a width is too large.
pub(in crate::text) fn parsed(template: &str) -> Result<Vec<Piece>> {
    pieces(template, field)
}

fn field<'a>(text: &'a str, next: &mut usize) -> Result<(Field, &'a str)> {
    let (position, mut rest) = position(text)?;
    let mut layout = Layout::default();
    let mut letters = rest.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '-' => layout.align = Some(Align::Left),
            '+' | ' ' => layout.sign = Some(letter),
            '#' => layout.has_prefix = true,
            '0' => layout.has_zeros = true,
            ',' | '_' | '\'' => layout.separator = Some(letter),
            _ => break,
        }
        rest = letters.as_str();
    }
    let (width, after) = number(rest)?;
    layout.width = width.unwrap_or(0);
    rest = after;
    if let Some(after) = rest.strip_prefix('.') {
        let (precision, after) = number(after)?;
        layout.precision = Some(precision.unwrap_or(0));
        rest = after;
    }
    // Lengths of C's types.
    rest = rest.trim_start_matches(['h', 'l', 'q', 'j', 'z', 't', 'L']);
    let mut letters = rest.chars();
    let Some(conversion) = letters.next() else {
        return exec_err!("a template of printf ends in a field; write %% for a percent sign");
    };
    let argument = position.unwrap_or(*next);
    *next = argument + 1;
    let field = Field { argument, width_argument: None, layout, conversion: Some(conversion) };
    Ok((field, letters.as_str()))
}

/// The argument of a field that names it, as in `%2$s`, from 0.
///
/// # Errors
/// If it is 0 or too large.
pub(super) fn position(text: &str) -> Result<(Option<usize>, &str)> {
    let (position, rest) = number(text)?;
    match (position, rest.strip_prefix('$')) {
        (Some(0), Some(_)) => exec_err!("the arguments of a template are counted from 1"),
        (Some(position), Some(rest)) => Ok((Some(position - 1), rest)),
        _ => Ok((None, text)),
    }
}
