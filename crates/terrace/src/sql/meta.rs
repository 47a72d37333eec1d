//! Commands of `terrace sql`, which are not SQL: lines that begin with a backslash.

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meta {
    /// List the tables, or the columns of one.
    Describe(Option<String>),
    /// List the schemas.
    Schemas,
    /// List the databases.
    Databases,
    /// Quit the program.
    Quit,
    /// Turn the timing of statements on or off.
    Timing,
    /// Print each value of a row on a line of its own, or rows as a table again.
    Expanded,
    /// Run the statements and commands of a file.
    Include(String),
    /// Copy rows between a table and a file.
    Copy(String),
    /// List the commands.
    Help,
    /// An unknown command that begins with a backslash.
    Unknown(String),
}

/// Text that `help` prints.
pub const HELP: &str = "\
statements end with a semicolon and may take several lines

\\d            tables of every schema
\\d NAME       columns of a table
\\dn           schemas
\\l            databases
\\i FILE       run the statements and commands of a file
\\copy TABLE from 'FILE' (FORMAT csv, HEADER)    rows of a file into a table
\\copy TABLE | (QUERY) to 'FILE' (FORMAT csv)     rows into a file
\\x            each value on a line of its own, or tables again
\\timing       time statements, or stop timing them
\\?  help      this list
\\q  quit      leave; so does Ctrl-D

Ctrl-C        cancel the running statement, or clear the line
Tab           complete a keyword, a table or a column

BEGIN; ...; COMMIT               several statements as one
SELECT * FROM terrace.tiers      where bytes are
EXPLAIN ANALYZE statement        what a statement did
SET name = value                 settings of the session; SHOW ALL lists them
";

/// Parses a line as a command; `None` if it is not one.
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
    let given = (!argument.is_empty()).then(|| argument.to_owned());
    Some(match (name, given) {
        ("d" | "dt", None) => Meta::Describe(None),
        ("d", given) => Meta::Describe(given),
        ("dn", None) => Meta::Schemas,
        ("l", None) => Meta::Databases,
        ("q", _) => Meta::Quit,
        ("timing", _) => Meta::Timing,
        ("x", None) => Meta::Expanded,
        ("i", Some(file)) => Meta::Include(unquoted(&file)),
        ("copy", Some(copy)) => Meta::Copy(copy),
        ("?" | "h", _) => Meta::Help,
        _ => Meta::Unknown(text.to_owned()),
    })
}

/// Returns the name of a file without its quotes.
pub fn unquoted(name: &str) -> String {
    let inner = name.strip_prefix('\'').and_then(|name| name.strip_suffix('\''));
    inner.map_or_else(|| name.to_owned(), |inner| inner.replace("''", "'"))
}

/// True if a line is a command and so needs no semicolon.
pub fn is_command(line: &str) -> bool {
    parse(line).is_some()
}

/// Returns the commands that begin with `word`.
pub fn completions(word: &str) -> Vec<String> {
    ["\\copy", "\\d", "\\dn", "\\i", "\\l", "\\timing", "\\x", "\\?", "\\q"]
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
        assert_eq!(parse("\\x"), Some(Meta::Expanded));
        assert_eq!(parse("\\i 'a b.sql'"), Some(Meta::Include("a b.sql".into())));
        assert_eq!(parse("\\i"), Some(Meta::Unknown("\\i".into())));
        assert_eq!(parse("\\copy t to 'x'"), Some(Meta::Copy("t to 'x'".into())));
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
        assert_eq!(completions("\\").len(), 9);
    }
}
