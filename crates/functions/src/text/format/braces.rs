//! Templates of DuckDB's `format`, such as `{}`, `{0}` and `{:>10.2f}`.

use datafusion::common::{Result, exec_err};

use super::layout::{Align, Field, Layout, Piece, number};

/// Reads a template.
///
/// # Errors
/// If a brace has no partner, or a field is not understood.
pub(in crate::text) fn parsed(template: &str) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = template;
    let mut next = 0;
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        let (brace, after) = rest[at..].split_at(1);
        if let Some(after) = after.strip_prefix(brace) {
            literal.push_str(brace);
            rest = after;
            continue;
        }
        let Some(end) = after.find('}').filter(|_| brace == "{") else {
            return exec_err!("a brace of {template:?} has no partner; write {{{{ for a brace");
        };
        pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        pieces.push(Piece::Field(field(&after[..end], &mut next)?));
        rest = &after[end + 1..];
    }
    literal.push_str(rest);
    pieces.push(Piece::Literal(literal));
    Ok(pieces)
}

/// Reads what stands between braces.
fn field(text: &str, next: &mut usize) -> Result<Field> {
    let (argument, rest) = number(text)?;
    let argument = argument.unwrap_or(*next);
    *next = argument + 1;
    let mut field = Field { argument, ..Field::default() };
    let Some(layout) = rest.strip_prefix(':') else {
        return match rest {
            "" => Ok(field),
            _ => exec_err!("{{{text}}} is no field of a template; write {{}}, {{0}} or {{:5d}}"),
        };
    };
    let (layout, rest) = aligned(layout);
    let (layout, rest) = sized(layout, rest)?;
    field.layout = layout;
    let mut letters = rest.chars();
    field.conversion = letters.next();
    match letters.next() {
        None => Ok(field),
        Some(_) => exec_err!("{{{text}}} is no field of a template; write {{:5d}} or {{:.2f}}"),
    }
}

/// Reads the fill and the alignment.
fn aligned(text: &str) -> (Layout, &str) {
    let align = |letter| match letter {
        '<' => Some(Align::Left),
        '^' => Some(Align::Center),
        '>' => Some(Align::Right),
        _ => None,
    };
    let mut letters = text.chars();
    let (first, second) = (letters.next(), letters.clone().next());
    if let (Some(fill), Some(align)) = (first, second.and_then(align)) {
        letters.next();
        let layout = Layout { fill: Some(fill), align: Some(align), ..Layout::default() };
        return (layout, letters.as_str());
    }
    match first.and_then(align) {
        Some(align) => (Layout { align: Some(align), ..Layout::default() }, letters.as_str()),
        None => (Layout::default(), text),
    }
}

/// Reads the sign, the prefix, zeros, the width, the separator and the precision.
fn sized(mut layout: Layout, text: &str) -> Result<(Layout, &str)> {
    let mut rest = text;
    if let Some(sign) = rest.chars().next().filter(|sign| "+- ".contains(*sign)) {
        layout.sign = Some(sign).filter(|sign| *sign != '-');
        rest = &rest[1..];
    }
    if let Some(after) = rest.strip_prefix('#') {
        (layout.has_prefix, rest) = (true, after);
    }
    if let Some(after) = rest.strip_prefix('0') {
        (layout.has_zeros, rest) = (true, after);
    }
    let (width, after) = number(rest)?;
    (layout.width, rest) = (width.unwrap_or(0), after);
    if let Some(separator) = rest.chars().next().filter(|it| ",_'".contains(*it)) {
        (layout.separator, rest) = (Some(separator), &rest[1..]);
    }
    if let Some(after) = rest.strip_prefix('.') {
        let (precision, after) = number(after)?;
        (layout.precision, rest) = (Some(precision.unwrap_or(0)), after);
    }
    Ok((layout, rest))
}
