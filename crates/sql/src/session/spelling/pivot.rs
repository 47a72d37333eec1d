//! PIVOT and UNPIVOT.
//!
//! The parser's PIVOT has one list of values; it becomes one whose list is a query that states the
//! keys with their values, the aggregates and the groups:
//! ```text
//! SELECT "pivot"("pivot on"(k, "pivot value"('a', 'alias'), ...), ...), sum(v) AS s GROUP BY g
//! ```
//! A key without a list of values has all its distinct values.

use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{
    are_at, begins_query, behind_bracket, call, find, is, is_at, listed, quoted, sign, split, words,
};

/// Name of the call that holds the keys of a PIVOT in the rewritten query.
pub(in super::super) const PIVOT: &str = "pivot";
/// Name of the call that holds a key and its values.
pub(in super::super) const ON: &str = "pivot on";
/// Name of the call that holds a value and its alias.
pub(in super::super) const VALUE: &str = "pivot value";

/// Name of the call that stands in for the aggregate that the parser requires in a PIVOT.
const PIVOTED: &str = "pivoted";

/// Rewrites the pivots of a text.
///
/// # Errors
/// For a PIVOT without a key.
pub(super) fn write_out(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>, ParserError> {
    let mut written = Vec::with_capacity(tokens.len());
    let mut place = 0;
    while let Some(token) = tokens.get(place) {
        let rewritten = if is(token, "pivot") {
            match is_statement(tokens, place) {
                true => Some(pivot(tokens, place + 1)?),
                false => pivoted(tokens, place + 1)?,
            }
        } else if is(token, "unpivot") && is_statement(tokens, place) {
            unpivot(tokens, place + 1)?
        } else {
            None
        };
        match rewritten {
            Some((clause, end)) => {
                written.extend(clause);
                place = end;
            }
            None => {
                written.push(token.clone());
                place += 1;
            }
        }
    }
    Ok(written)
}

/// True for a PIVOT or UNPIVOT that is a query of its own.
fn is_statement(tokens: &[TokenWithSpan], place: usize) -> bool {
    let Some(next) = tokens.get(place + 1) else { return false };
    // `UNPIVOT INCLUDE NULLS (...)` belongs to the table before it.
    let is_clause = is_at(tokens, place + 2, "nulls");
    let begins = begins_query(&tokens[..place]) && !is_clause;
    match next.token {
        Token::Word(_) => begins,
        Token::LParen => {
            let inner = tokens.get(place + 2);
            let end = behind_bracket(tokens, place + 1).unwrap_or(tokens.len());
            let has_for = find(tokens, place + 2, |_, token| is(token, "for")) + 1 < end;
            let is_query = inner.is_some_and(|inner| {
                (inner.token == Token::LParen && !has_for)
                    || ["select", "from", "with", "values", "table"].iter().any(|it| is(inner, it))
            });
            begins && is_query
        }
        _ => false,
    }
}

/// A clause, and the place behind what it replaces.
type Clause = (Vec<TokenWithSpan>, usize);

/// Rewrites the statement `PIVOT table ON keys USING aggregates GROUP BY groups`.
fn pivot(tokens: &[TokenWithSpan], start: usize) -> Result<Clause, ParserError> {
    let clause = |start: usize| find(tokens, start, |place, _| begins_clause(tokens, place));
    let end_of_source = clause(start);
    let (mut keys, mut aggregates, mut groups) = (None, None, None);
    let mut end = end_of_source;
    loop {
        let (part, skipped) = if is_at(tokens, end, "on") {
            (&mut keys, 1)
        } else if is_at(tokens, end, "using") {
            (&mut aggregates, 1)
        } else if are_at(tokens, end, &["group", "by"]) {
            (&mut groups, 2)
        } else {
            break;
        };
        let behind = clause(end + skipped);
        *part = Some(&tokens[end + skipped..behind]);
        end = behind;
    }
    let Some(keys) = keys else {
        if let Some(groups) = groups {
            let source = source(&tokens[start..end_of_source]);
            return Ok((grouped(source, aggregates.unwrap_or_default(), groups), end));
        }
        return error(tokens, start, "PIVOT needs ON and the columns whose values become columns");
    };
    let keys: Vec<_> = split(keys).into_iter().map(|key| self::key(key).0).collect();
    let mut written: Vec<_> = words("SELECT * FROM").collect();
    written.extend(source(&tokens[start..end_of_source]));
    written.extend(words("PIVOT"));
    written.extend(canonical(keys, aggregates.unwrap_or_default(), groups.unwrap_or_default()));
    Ok((written, end))
}

/// A PIVOT without keys, which only groups.
fn grouped(
    source: Vec<TokenWithSpan>,
    aggregates: &[TokenWithSpan],
    groups: &[TokenWithSpan],
) -> Vec<TokenWithSpan> {
    let mut written: Vec<_> = words("SELECT").collect();
    let items = [groups, aggregates].into_iter().filter(|items| !items.is_empty());
    written.extend(listed(items.map(<[_]>::to_vec)));
    written.extend(words("FROM"));
    written.extend(source);
    written.extend(words("GROUP BY"));
    written.extend_from_slice(groups);
    written
}

/// True for the word that begins a clause of a PIVOT or UNPIVOT, or one behind it.
fn begins_clause(tokens: &[TokenWithSpan], place: usize) -> bool {
    const WORDS: [&str; 9] =
        ["on", "using", "order", "limit", "offset", "fetch", "union", "except", "intersect"];
    WORDS.iter().any(|word| is_at(tokens, place, word))
        || are_at(tokens, place, &["group", "by"])
        || are_at(tokens, place, &["into", "name"])
        || are_at(tokens, place, &["include", "nulls"])
}

/// The source of a statement, in parentheses if it has several tables.
fn source(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let joins = find(tokens, 0, |_, token| token.token == Token::Comma || is(token, "join"));
    if joins == tokens.len() {
        return tokens.to_vec();
    }
    let mut source = vec![sign(Token::LParen)];
    source.extend_from_slice(tokens);
    source.push(sign(Token::RParen));
    source
}

/// Rewrites the brackets of `table PIVOT (aggregates FOR key IN (values) ... GROUP BY groups)`.
fn pivoted(tokens: &[TokenWithSpan], start: usize) -> Result<Option<Clause>, ParserError> {
    let is_bracket = tokens.get(start).is_some_and(|token| token.token == Token::LParen);
    let Some(end) = behind_bracket(tokens, start).filter(|_| is_bracket) else { return Ok(None) };
    let inner = &tokens[start + 1..end - 1];
    let is_canonical = is_at(inner, 0, PIVOTED);
    let place = find(inner, 0, |_, token| is(token, "for"));
    if is_canonical || place == inner.len() {
        return Ok(None);
    }
    let aggregates = &inner[..place];
    let grouping = find(inner, place, |place, _| are_at(inner, place, &["group", "by"]));
    let mut rest = &inner[place + 1..grouping];
    let mut keys = Vec::new();
    while !rest.is_empty() {
        let (key, taken) = key(rest);
        keys.push(key);
        rest = &rest[taken..];
    }
    if keys.is_empty() {
        return error(tokens, start, "PIVOT needs a column behind FOR");
    }
    let groups = inner.get(grouping + 2..).unwrap_or_default();
    let mut written: Vec<_> = words("PIVOT").collect();
    written.extend(canonical(keys, aggregates, groups));
    Ok(Some((written, end)))
}

/// The brackets of a PIVOT in their final form.
fn canonical(
    keys: Vec<Vec<TokenWithSpan>>,
    aggregates: &[TokenWithSpan],
    groups: &[TokenWithSpan],
) -> Vec<TokenWithSpan> {
    let mut written = vec![sign(Token::LParen)];
    written.extend(words(PIVOTED));
    written.extend([sign(Token::LParen), sign(Token::RParen)]);
    written.extend(words("FOR"));
    written.push(quoted(VALUE));
    written.extend(words("IN"));
    written.push(sign(Token::LParen));
    written.extend(words("SELECT"));
    written.extend(call(PIVOT, &listed(keys)));
    if !aggregates.is_empty() {
        written.push(sign(Token::Comma));
        written.extend_from_slice(aggregates);
    }
    if !groups.is_empty() {
        written.extend(words("GROUP BY"));
        written.extend_from_slice(groups);
    }
    written.extend([sign(Token::RParen), sign(Token::RParen)]);
    written
}

/// Rewrites `expr IN (value AS alias, ...)`, or an expression alone; returns the tokens taken.
fn key(tokens: &[TokenWithSpan]) -> (Vec<TokenWithSpan>, usize) {
    let is_list = |place: usize| {
        let open = tokens.get(place + 1).map(|token| &token.token);
        is_at(tokens, place, "in") && matches!(open, Some(Token::LParen))
    };
    let place = find(tokens, 0, |place, _| is_list(place));
    let end = behind_bracket(tokens, place + 1).filter(|_| place < tokens.len());
    let Some(end) = end else { return (call(ON, tokens), tokens.len()) };
    if end == place + 3 {
        // The parser refuses an empty list.
        return (call(ON, &tokens[..end]), end);
    }
    let mut parts = vec![tokens[..place].to_vec()];
    parts.extend(split(&tokens[place + 2..end - 1]).into_iter().map(value));
    (call(ON, &listed(parts)), end)
}

/// Rewrites `value [AS] alias`.
fn value(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    if let [value @ .., before, last] = tokens
        && let Token::Word(alias) = &last.token
        && (is(before, "as")
            || matches!(before.token, Token::Number(..) | Token::SingleQuotedString(_)))
    {
        let mut argument = value.to_vec();
        if !is(before, "as") {
            argument.push(before.clone());
        }
        let alias = sign(Token::SingleQuotedString(alias.value.clone()));
        return call(VALUE, &listed([argument, vec![alias]]));
    }
    call(VALUE, tokens)
}

/// Rewrites the statement `UNPIVOT table ON columns INTO NAME name VALUE value`.
fn unpivot(tokens: &[TokenWithSpan], start: usize) -> Result<Option<Clause>, ParserError> {
    let clause = |start: usize| find(tokens, start, |place, _| begins_clause(tokens, place));
    let end_of_source = clause(start);
    let mut end = end_of_source;
    let includes_nulls = are_at(tokens, end, &["include", "nulls"]);
    if includes_nulls {
        end += 2;
    }
    if !is_at(tokens, end, "on") {
        return error(tokens, start, "UNPIVOT needs ON and the columns whose values become rows");
    }
    let behind = clause(end + 1);
    let columns = &tokens[end + 1..behind];
    end = behind;
    let (mut name, mut value) = (vec![quoted("name")], vec![quoted("value")]);
    if are_at(tokens, end, &["into", "name"]) {
        let place = find(tokens, end, |_, token| is(token, "value") || is(token, "values"));
        name = tokens[(end + 2).min(place)..place].to_vec();
        let behind = clause((place + 1).min(tokens.len()));
        value = tokens[(place + 1).min(behind)..behind].to_vec();
        end = behind;
    }
    if split(&value).len() > 1 {
        value.insert(0, sign(Token::LParen));
        value.push(sign(Token::RParen));
    }
    let mut written: Vec<_> = words("SELECT * FROM").collect();
    written.extend(source(&tokens[start..end_of_source]));
    written.extend(words(if includes_nulls { "UNPIVOT INCLUDE NULLS" } else { "UNPIVOT" }));
    written.push(sign(Token::LParen));
    written.extend(value);
    written.extend(words("FOR"));
    written.extend(name);
    written.extend(words("IN"));
    written.push(sign(Token::LParen));
    written.extend(listed(split(columns).into_iter().map(column)));
    written.extend([sign(Token::RParen), sign(Token::RParen)]);
    Ok(Some((written, end)))
}

/// A column of an UNPIVOT; `*` becomes `COLUMNS(*)`.
fn column(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    match tokens.first().map(|first| &first.token) {
        Some(Token::Mul) => {
            let mut columns: Vec<_> = words("COLUMNS").collect();
            columns.push(sign(Token::LParen));
            columns.extend_from_slice(tokens);
            columns.push(sign(Token::RParen));
            columns
        }
        _ => tokens.to_vec(),
    }
}

fn error<T>(tokens: &[TokenWithSpan], place: usize, text: &str) -> Result<T, ParserError> {
    let location = place.checked_sub(1).and_then(|place| tokens.get(place));
    let location = location.map(|token| token.span.start.to_string()).unwrap_or_default();
    Err(ParserError::ParserError(format!("{text}{location}")))
}
