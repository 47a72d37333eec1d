//! Tables with identity columns: their options in any order, all that LIKE includes, and values
//! instead of those of the sequence.
//!
//! ```text
//! AS IDENTITY (START 5 INCREMENT 2)           ->  AS IDENTITY (INCREMENT 2 START 5)
//! (LIKE t INCLUDING ALL EXCLUDING IDENTITY)   ->  (LIKE t."like +all -identity")
//! INTO t (a) OVERRIDING SYSTEM VALUE          ->  INTO t (a, "overriding system value")
//! INTO t (a) OVERRIDING USER VALUE            ->  INTO t (a, "overriding user value")
//! ```

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{are_at, behind_bracket, is, is_at, quoted, sign};

/// Prefix of the last part of a table's name that lists the properties that LIKE includes.
pub(in crate::session) const LIKE: &str = "like ";

/// Name of the column by which the rewritten tokens mark OVERRIDING SYSTEM VALUE.
pub(in crate::session) const OVERRIDING: &str = "overriding system value";

/// Name of the column by which the rewritten tokens mark OVERRIDING USER VALUE.
pub(in crate::session) const OVERRIDING_USER: &str = "overriding user value";

/// Words that begin an option of a sequence, in the order in which the parser takes them.
const OPTIONS: [&str; 6] = ["increment", "minvalue", "maxvalue", "start", "cache", "cycle"];

/// Rewrites the definitions of all statements.
pub(super) fn write_out(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut written = Vec::with_capacity(tokens.len());
    let mut place = 0;
    while let Some(token) = tokens.get(place) {
        let clauses = [OVERRIDING, OVERRIDING_USER];
        let clause = clauses.into_iter().find(|clause| {
            let words: Vec<_> = clause.split(' ').collect();
            are_at(tokens, place, &words)
        });
        if let Some(clause) = clause {
            let columns = written.pop_if(|last: &mut TokenWithSpan| last.token == Token::RParen);
            let before = if columns.is_some() { Token::Comma } else { Token::LParen };
            written.extend([sign(before), quoted(clause), sign(Token::RParen)]);
            place += 3;
            continue;
        }
        let clause = identity(tokens, place).or_else(|| like(tokens, place));
        match clause {
            Some((length, clause)) => {
                written.extend(clause);
                place += length;
            }
            None => {
                written.push(token.clone());
                place += 1;
            }
        }
    }
    written
}

/// The number of tokens of an identity with options, and those that replace it.
fn identity(tokens: &[TokenWithSpan], place: usize) -> Option<(usize, Vec<TokenWithSpan>)> {
    let opens = tokens.get(place + 1).is_some_and(|token| token.token == Token::LParen);
    if !is_at(tokens, place, "identity") || !opens {
        return None;
    }
    let end = behind_bracket(tokens, place + 1)?;
    let mut options: Vec<Vec<TokenWithSpan>> = Vec::new();
    for token in &tokens[place + 2..end - 1] {
        let is_behind_no = options.last().is_some_and(|last| last.len() == 1 && is(&last[0], "no"));
        let begins = is(token, "no") || OPTIONS.iter().any(|word| is(token, word));
        match options.last_mut() {
            Some(last) if is_behind_no || !begins => last.push(token.clone()),
            _ => options.push(vec![token.clone()]),
        }
    }
    options.sort_by_key(|option| {
        let word = option.iter().find(|token| !is(token, "no"));
        let rank = OPTIONS.iter().position(|option| word.is_some_and(|word| is(word, option)));
        rank.unwrap_or(OPTIONS.len())
    });
    let mut written = vec![tokens[place].clone(), sign(Token::LParen)];
    written.extend(options.into_iter().flatten());
    written.push(sign(Token::RParen));
    Some((end - place, written))
}

/// The number of tokens of a LIKE with options, and those that replace it.
fn like(tokens: &[TokenWithSpan], place: usize) -> Option<(usize, Vec<TokenWithSpan>)> {
    let opens = place > 0 && tokens[place - 1].token == Token::LParen;
    if !is_at(tokens, place, "like") || !opens {
        return None;
    }
    let mut written = vec![tokens[place].clone()];
    let is_option = |token: &TokenWithSpan| is(token, "including") || is(token, "excluding");
    let rest = &tokens[place + 1..];
    let name = rest.iter().take_while(|token| {
        matches!(token.token, Token::Word(_) | Token::Period) && !is_option(token)
    });
    written.extend(name.cloned());
    let mut next = place + written.len();
    let mut options = Vec::new();
    while let (Some(verb), Some(Token::Word(word))) =
        (tokens.get(next).filter(|it| is_option(it)), tokens.get(next + 1).map(|it| &it.token))
    {
        let sign = if is(verb, "including") { '+' } else { '-' };
        options.push(format!("{sign}{}", word.value.to_ascii_lowercase()));
        next += 2;
    }
    if options.is_empty() {
        return None;
    }
    written.push(sign(Token::Period));
    written.push(quoted(&format!("{LIKE}{}", options.join(" "))));
    Some((next - place, written))
}
