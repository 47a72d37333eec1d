//! Templates of PostgreSQL's `format`, such as `%s`, `%I` and `%L`.

use datafusion::common::{Result, exec_err};

use super::layout::{Align, Field, Layout, Piece, number, pieces};
use super::percent::position;

/// True if a template has one of the fields `%s`, `%I` and `%L`.
pub(in crate::text) fn has_fields(template: &str) -> bool {
    template.split('%').skip(1).any(|rest| {
        let rest = rest.trim_start_matches(|it: char| it.is_ascii_digit() || "$-*".contains(it));
        rest.starts_with(['s', 'I', 'L'])
    })
}

/// Reads a template.
///
/// # Errors
/// If it has another field.
pub(in crate::text) fn parsed(template: &str) -> Result<Vec<Piece>> {
    pieces(template, field)
}

fn field<'a>(text: &'a str, next: &mut usize) -> Result<(Field, &'a str)> {
    let (argument, mut rest) = position(text)?;
    let mut layout = Layout { align: Some(Align::Right), ..Layout::default() };
    while let Some(after) = rest.strip_prefix('-') {
        (layout.align, rest) = (Some(Align::Left), after);
    }
    let mut width_argument = None;
    if let Some(after) = rest.strip_prefix('*') {
        let (position, after) = position(after)?;
        width_argument = Some(position.unwrap_or(*next));
        *next = width_argument.map_or(*next, |width| width + 1);
        rest = after;
    } else {
        let (width, after) = number(rest)?;
        (layout.width, rest) = (width.unwrap_or(0), after);
    }
    let mut letters = rest.chars();
    match letters.next() {
        Some(conversion @ ('s' | 'I' | 'L')) => {
            let argument = argument.unwrap_or(*next);
            *next = argument + 1;
            let conversion = Some(conversion);
            Ok((Field { argument, width_argument, layout, conversion }, letters.as_str()))
        }
        Some(other) => exec_err!("%{other} is no field of format; %s, %I, %L and %% are"),
        None => exec_err!("a template of format ends in a percent sign; write %%"),
    }
}
