//! The SQL text of a statement as its client has sent it, which other sessions see.

use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::dialect::TerraceDialect;
use super::statement::SessionStatement;

/// Maximum number of bytes of a text that other sessions see.
const SHOWN_BYTES_MAX: usize = 16 << 10;

/// The text of a statement that other sessions see, at most [`SHOWN_BYTES_MAX`] bytes: `said`, as
/// the client has sent it, or if that is unknown, `written`, as formatted from the syntax tree. For
/// a statement that may have a password or a key it is `written`, which omits these.
pub(super) fn shown(statement: &SessionStatement, said: Option<&str>, written: &str) -> String {
    let is_secret = matches!(statement, SessionStatement::Role(_) | SessionStatement::Secret(_));
    bounded(said.filter(|_| !is_secret).unwrap_or(written))
}

/// The first [`SHOWN_BYTES_MAX`] bytes of a text, cut at a character boundary.
pub(super) fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(SHOWN_BYTES_MAX)].to_owned()
}

/// The text of a prepared statement.
#[derive(Debug, Default)]
pub(super) struct StatementText {
    written: String,
    /// The text that other sessions see; `None` if it is `written`.
    shown: Option<String>,
}

impl StatementText {
    /// Takes the text of a statement as formatted from its syntax tree.
    pub(super) fn new(written: String) -> Self {
        Self { written, shown: None }
    }

    /// Sets the text that other sessions see.
    pub(super) fn show(&mut self, shown: String) {
        self.shown = Some(shown);
    }

    /// The text of the statement as formatted from its syntax tree.
    pub(super) fn written(&self) -> &str {
        &self.written
    }

    /// The text that [`Self::show`] has set; `None` before.
    pub(super) fn said(&self) -> Option<&str> {
        self.shown.as_deref()
    }

    /// The text that other sessions see.
    pub(super) fn shown(&self) -> &str {
        self.shown.as_deref().unwrap_or(&self.written)
    }
}

/// Splits a text of `statements` statements at the semicolons between them; `None` for each if the
/// semicolons do not separate that many.
#[must_use]
pub fn statement_texts(text: &str, statements: usize) -> Vec<Option<&str>> {
    let parts = match statements {
        0 | 1 => vec![text],
        _ => parts(text),
    };
    let parts = parts.into_iter().map(|part| part.trim().trim_end_matches(';').trim_end());
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).map(Some).collect();
    if parts.len() == statements { parts } else { vec![None; statements] }
}

/// The parts of a text between semicolons, without those in literals, quoted names and comments.
fn parts(text: &str) -> Vec<&str> {
    let tokens = Tokenizer::new(&TerraceDialect, text).tokenize_with_location();
    let tokens = tokens.unwrap_or_default().into_iter();
    let mut ends = tokens.filter(|it| it.token == Token::SemiColon).map(|it| it.span.start);
    let mut end = ends.next();
    let (mut parts, mut begin) = (Vec::new(), 0);
    let (mut line, mut column) = (1, 1);
    for (place, letter) in text.char_indices() {
        if end.is_some_and(|end| (end.line, end.column) == (line, column)) {
            parts.push(&text[begin..place]);
            begin = place + letter.len_utf8();
            end = ends.next();
        }
        (line, column) = if letter == '\n' { (line + 1, 1) } else { (line, column + 1) };
    }
    parts.push(&text[begin..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_into_those_of_its_statements() {
        let cases: [(&str, usize, &[&str]); 4] = [
            (" SELECT 1 ; ", 1, &["SELECT 1"]),
            ("", 0, &[]),
            (
                "SELECT ';' AS \"a;\";\nselect  2 -- ; \n + 1;;/* ; */ SELECT E'\\';\u{e9}'",
                3,
                &["SELECT ';' AS \"a;\"", "select  2 -- ; \n + 1", "/* ; */ SELECT E'\\';\u{e9}'"],
            ),
            ("BEGIN ATOMIC SELECT 1; SELECT 2; END", 1, &["BEGIN ATOMIC SELECT 1; SELECT 2; END"]),
        ];
        for (text, statements, expected) in cases {
            let expected: Vec<_> = expected.iter().copied().map(Some).collect();
            assert_eq!(statement_texts(text, statements), expected, "{text}");
        }
        assert_eq!(statement_texts("a; b; c", 2), [None, None]);
    }

    #[test]
    fn a_shown_text_is_bounded_and_has_no_password() {
        let parsed = |text: &str| super::super::parse(text).expect("parsed").pop().expect("one");
        let query = parsed("SELECT 1");
        assert_eq!(shown(&query, Some("select  1"), "SELECT 1"), "select  1");
        assert_eq!(shown(&query, None, "SELECT 1"), "SELECT 1");
        let long = "\u{e9}".repeat(SHOWN_BYTES_MAX);
        assert_eq!(shown(&query, Some(&long), "SELECT 1").len(), SHOWN_BYTES_MAX);
        let role = parsed("CREATE ROLE r PASSWORD 'hush'");
        assert_eq!(shown(&role, Some("CREATE ROLE r PASSWORD 'hush'"), "CREATE"), "CREATE");
    }
}
