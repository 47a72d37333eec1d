//! `\copy`: transfers rows between a table and a file, in the formats of PostgreSQL.

use std::path::{Path, PathBuf};

use terrace_server::{copy_from, copy_to};
use terrace_sql::Session;
use terrace_sql::session::{CopyStatement, SessionStatement};
use tokio::fs::File;

use crate::error::{CliError, Result};
use crate::sql::meta::unquoted;

/// Runs `\copy TABLE from 'FILE' (...)` or `\copy TABLE | (QUERY) to 'FILE' (...)`; `stdin` and
/// `stdout` stand for the standard streams. Returns the number of rows.
///
/// # Errors
/// Errors of the file, of the rows and of the statement.
pub async fn run(session: &Session, text: &str) -> Result<u64> {
    let Some(Parts { source, is_in, file, options }) = parts(text) else {
        let text = "\\copy takes TABLE from 'FILE', or TABLE or (QUERY) to 'FILE', and options of \
                    COPY behind that";
        return Err(CliError::Usage(text.to_owned()));
    };
    let direction = if is_in { "FROM STDIN" } else { "TO STDOUT" };
    let mut statements = session.parse(&format!("COPY {source} {direction} {options}"))?;
    let Some(SessionStatement::Copy(copy)) = statements.pop() else {
        return Err(CliError::Usage(format!("\\copy {text}: no COPY")));
    };
    let path = PathBuf::from(&file);
    let failed = |source| CliError::File { path: path.clone(), source };
    let copied = if is_in {
        let path = if file == "stdin" { Path::new("/dev/stdin") } else { &path };
        let mut input = File::open(path).await.map_err(failed)?;
        copy_from(session, &copy, &mut input).await
    } else {
        if file == "stdout" {
            return print(session, &copy).await;
        }
        let mut output = File::create(&path).await.map_err(failed)?;
        copy_to(session, &copy, &mut output).await
    };
    copied.map_err(|error| CliError::Usage(error.to_string()))
}

/// Runs `COPY ... TO STDOUT`: appends its rows to standard output, which may be a file.
///
/// # Errors
/// Errors of the output and of the statement.
pub async fn print(session: &Session, copy: &CopyStatement) -> Result<u64> {
    let path = Path::new("/dev/stdout");
    let opened = File::options().append(true).open(path).await;
    let mut output = opened.map_err(|source| CliError::File { path: path.to_owned(), source })?;
    copy_to(session, copy, &mut output).await.map_err(|error| CliError::Usage(error.to_string()))
}

#[derive(Debug, PartialEq, Eq)]
struct Parts {
    source: String,
    is_in: bool,
    file: String,
    options: String,
}

/// Splits a command into its parts: the first `from` or `to` outside of parentheses and quotes
/// precedes the file.
fn parts(text: &str) -> Option<Parts> {
    let (mut depth, mut quote, mut word) = (0_usize, None, 0);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, letter) if letter.is_whitespace() => {
                let found = text[word..at].trim().to_ascii_lowercase();
                if depth == 0 && (found == "from" || found == "to") {
                    let source = text[..word].trim().to_owned();
                    let (file, options) = file(text[at..].trim())?;
                    let parts = Parts { source, is_in: found == "from", file, options };
                    return (!parts.source.is_empty()).then_some(parts);
                }
                word = at;
            }
            _ => {}
        }
    }
    None
}

/// Splits a text into the name of a file, without its quotes, and the options that follow it.
fn file(text: &str) -> Option<(String, String)> {
    let end = match text.strip_prefix('\'') {
        Some(quoted) => quoted.find('\'')? + 2,
        None => text.find(char::is_whitespace).unwrap_or(text.len()),
    };
    let (name, options) = text.split_at(end);
    (!name.is_empty()).then(|| (unquoted(name), options.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_a_source_a_file_and_options() {
        let of = |text: &str| {
            let parts = parts(text)?;
            Some((parts.source, parts.is_in, parts.file, parts.options))
        };
        let some = |source: &str, is_in, file: &str, options: &str| {
            Some((source.to_owned(), is_in, file.to_owned(), options.to_owned()))
        };
        assert_eq!(of("t (a, b) FROM 'a b.csv' csv"), some("t (a, b)", true, "a b.csv", "csv"));
        let query = "(select 'to', a from t) to out.txt";
        assert_eq!(of(query), some("(select 'to', a from t)", false, "out.txt", ""));
        assert_eq!(
            of("\"from\" to 'x' (FORMAT csv)"),
            some("\"from\"", false, "x", "(FORMAT csv)")
        );
        assert_eq!(of("t"), None);
        assert_eq!(of("from 'x'"), None);
    }
}
