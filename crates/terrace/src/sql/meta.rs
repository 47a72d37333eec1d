//! Commands of the prompt itself, which are no SQL.

/// A command of the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meta {
    /// List the tables, or the columns of one.
    Describe(Option<String>),
    /// Leave.
    Quit,
    /// Turn the timing of statements on or off.
    Timing,
    /// List the commands.
    Help,
    /// Something that begins with a backslash and is none of the above.
    Unknown(String),
}

/// What `help` prints.
pub const HELP: &str = "\
statements end with a semicolon and may take several lines

\\d            tables of every schema
\\d NAME       columns of a table
\\timing       time statements, or stop timing them
\\?  help      this list
\\q  quit      leave; so does Ctrl-D

Ctrl-C        cancel the running statement, or clear the line
Tab           complete a keyword, a table or a column

SELECT * FROM terrace.tiers      where bytes are
EXPLAIN ANALYZE statement        what a statement did
SET name = value                 settings of the session; SHOW ALL lists them
";

/// The command in a line, if it is one.
pub fn parse(line: &str) -> Option<Meta> {
    let text = line.trim().trim_end_matches(';').trim_end();
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "help" => return Some(Meta::Help),
        "quit" | "exit" => return Some(Meta::Quit),
        _ => {}
    }
    let rest = text.strip_prefix('\\')?;
    let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let argument = argument.trim();
    Some(match name {
        "d" | "dt" if argument.is_empty() => Meta::Describe(None),
        "d" => Meta::Describe(Some(argument.to_string())),
        "q" => Meta::Quit,
        "timing" => Meta::Timing,
        "?" | "h" => Meta::Help,
        _ => Meta::Unknown(text.to_string()),
    })
}

/// Whether a line is a command and so needs no semicolon.
pub fn is_command(line: &str) -> bool {
    parse(line).is_some()
}

/// Commands that begin with `word`.
pub fn completions(word: &str) -> Vec<String> {
    ["\\d", "\\timing", "\\?", "\\q"]
        .iter()
        .filter(|command| command.starts_with(word))
        .map(ToString::to_string)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_their_words() {
        assert_eq!(parse("\\d"), Some(Meta::Describe(None)));
        assert_eq!(parse(" \\d orders ;"), Some(Meta::Describe(Some("orders".into()))));
        assert_eq!(parse("\\q"), Some(Meta::Quit));
        assert_eq!(parse("quit;"), Some(Meta::Quit));
        assert_eq!(parse("EXIT"), Some(Meta::Quit));
        assert_eq!(parse("\\timing"), Some(Meta::Timing));
        assert_eq!(parse("\\?"), Some(Meta::Help));
        assert_eq!(parse("help"), Some(Meta::Help));
        assert_eq!(parse("\\x y"), Some(Meta::Unknown("\\x y".into())));
    }

    #[test]
    fn statements_are_no_commands() {
        for text in ["select 1;", "", "describe orders;", "quitting", "select '\\q'"] {
            assert!(!is_command(text), "{text}");
        }
    }

    #[test]
    fn completions_begin_with_the_word() {
        assert_eq!(completions("\\t"), ["\\timing"]);
        assert_eq!(completions("\\").len(), 4);
    }
}
