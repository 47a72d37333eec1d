//! Commands of `terrace sql`, which are not SQL: lines that begin with a backslash or a dot.

use clap::ValueEnum as _;

use crate::args::Format;

/// A command of the prompt that is not SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meta {
    /// List tables and views.
    List(Listed),
    /// List the columns of a table.
    Describe(String),
    /// List the functions, or those whose name begins with the text.
    Functions(Option<String>),
    /// List the schemas.
    Schemas,
    /// List the databases.
    Databases,
    /// Print the statements that create all tables and views, or one.
    Definitions(Option<String>),
    /// Quit the program.
    Quit,
    /// Turn the timing of statements on or off; `None` toggles it.
    Timing(Option<bool>),
    /// Toggle expanded output, which prints each value of a row on a line of its own.
    Expanded,
    /// Change the format of results; `None` prints it.
    Mode(Option<Format>),
    /// Run the statements and commands of a file.
    Include(String),
    /// Copy rows between a table and a file.
    Copy(String),
    /// List the commands.
    Help,
    /// A command that is not possible, with the alternative.
    Refused(&'static str),
    /// An unknown command.
    Unknown(String),
}

/// Relations to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Tables and views.
    All,
    /// Tables.
    Tables,
    /// Views.
    Views,
}

/// Text that `help` prints.
pub const HELP: &str = "\
statements end with a semicolon and may take several lines

\\d  .tables   tables and views of every schema; \\dt tables, \\dv views
\\d NAME       columns of a table
\\dn           schemas
\\df [BEGIN]   functions, or those whose names begin so
\\l            databases
.schema [NAME]        statements that create the tables, or one
\\i FILE  .read FILE  run the statements and commands of a file
\\copy TABLE from 'FILE' (FORMAT csv, HEADER)    rows of a file into a table
\\copy TABLE | (QUERY) to 'FILE' (FORMAT csv)     rows into a file
.mode [FORMAT]        format of results: table, csv, json, ndjson or lines
\\x            each value on a line of its own, or tables again
\\timing  .timer [on|off]   time statements, or stop timing them
\\?  .help  help      this list
\\q  .quit  quit      leave; so does Ctrl-D

Ctrl-C        cancel the running statement, or clear the line
Tab           complete a keyword, a table or a column

BEGIN; ...; COMMIT               several statements as one
SUMMARIZE table                  statistics of each column
SELECT * FROM terrace.tiers      where bytes are
EXPLAIN ANALYZE statement        what a statement did
SET name = value                 settings of the session; SHOW ALL lists them
";

/// The answer to commands about indexes.
const NO_INDEXES: &str = "there are no indexes: scans skip chunks by the minimum and maximum of \
                          their columns, which terrace.segments lists";

/// Parses a line as a command; `None` if it is not one.
pub fn parse(line: &str) -> Option<Meta> {
    let text = line.trim().trim_end_matches(';').trim_end();
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "help" => return Some(Meta::Help),
        "quit" | "exit" => return Some(Meta::Quit),
        _ => {}
    }
    let mark = text.chars().next().filter(|mark| matches!(mark, '\\' | '.'))?;
    let rest = &text[1..];
    let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let argument = argument.trim();
    let given = (!argument.is_empty()).then(|| argument.to_owned());
    let command = match mark {
        '.' => dotted(name, given),
        _ => slashed(name, given),
    };
    Some(command.unwrap_or_else(|| Meta::Unknown(text.to_owned())))
}

/// Returns the command of a line that begins with a backslash, as in psql. `name` is its first
/// word, `given` its argument.
fn slashed(name: &str, given: Option<String>) -> Option<Meta> {
    Some(match (name, given) {
        ("d", None) => Meta::List(Listed::All),
        ("dt", None) => Meta::List(Listed::Tables),
        ("dv", None) => Meta::List(Listed::Views),
        ("d" | "dt" | "dv", Some(name)) => Meta::Describe(name),
        ("df", begin) => Meta::Functions(begin),
        ("di", _) => Meta::Refused(NO_INDEXES),
        ("dn", None) => Meta::Schemas,
        ("l", None) => Meta::Databases,
        ("q", _) => Meta::Quit,
        ("timing", given) => Meta::Timing(switch(given)?),
        ("x", None) => Meta::Expanded,
        ("i", Some(file)) => Meta::Include(unquoted(&file)),
        ("copy", Some(copy)) => Meta::Copy(copy),
        ("?" | "h", _) => Meta::Help,
        _ => return None,
    })
}

/// Returns the command of a line that begins with a dot, as in DuckDB and SQLite.
fn dotted(name: &str, given: Option<String>) -> Option<Meta> {
    Some(match (name, given) {
        ("help", None) => Meta::Help,
        ("tables", None) => Meta::List(Listed::All),
        ("schema", name) => Meta::Definitions(name),
        ("databases", None) => Meta::Databases,
        ("indexes" | "indices", _) => Meta::Refused(NO_INDEXES),
        ("read", Some(file)) => Meta::Include(unquoted(&file)),
        ("mode", None) => Meta::Mode(None),
        ("mode", Some(format)) => match Format::from_str(&format, true) {
            Ok(format) => Meta::Mode(Some(format)),
            Err(_) => Meta::Refused("the formats are table, csv, json, ndjson and lines"),
        },
        ("timer", given) => Meta::Timing(switch(given)?),
        ("quit" | "exit", None) => Meta::Quit,
        _ => return None,
    })
}

/// Parses the argument `on` or `off`: `Some(None)` if there is no argument, `None` if it is another
/// word.
fn switch(given: Option<String>) -> Option<Option<bool>> {
    match given.map(|word| word.to_ascii_lowercase()).as_deref() {
        None => Some(None),
        Some("on") => Some(Some(true)),
        Some("off") => Some(Some(false)),
        Some(_) => None,
    }
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

/// The commands that are completed.
const COMMANDS: [&str; 20] = [
    "\\copy", "\\d", "\\df", "\\dn", "\\dt", "\\dv", "\\i", "\\l", "\\timing", "\\x", "\\?", "\\q",
    ".exit", ".help", ".mode", ".quit", ".read", ".schema", ".tables", ".timer",
];

/// Returns the commands that begin with `word`.
pub fn completions(word: &str) -> Vec<String> {
    COMMANDS.iter().filter(|command| command.starts_with(word)).map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_their_words() {
        assert_eq!(parse("\\d"), Some(Meta::List(Listed::All)));
        assert_eq!(parse("\\dv"), Some(Meta::List(Listed::Views)));
        assert_eq!(parse(".tables"), Some(Meta::List(Listed::All)));
        assert_eq!(parse(".schema t"), Some(Meta::Definitions(Some("t".into()))));
        assert_eq!(parse(".mode csv"), Some(Meta::Mode(Some(Format::Csv))));
        assert_eq!(parse(".timer off"), Some(Meta::Timing(Some(false))));
        assert_eq!(parse(".timer maybe"), Some(Meta::Unknown(".timer maybe".into())));
        assert_eq!(parse(".read 'a.sql'"), Some(Meta::Include("a.sql".into())));
        assert_eq!(parse(".exit"), Some(Meta::Quit));
        assert_eq!(parse("."), Some(Meta::Unknown(".".into())));
        assert!(matches!(parse("\\di"), Some(Meta::Refused(_))));
        assert_eq!(parse(" \\d orders ;"), Some(Meta::Describe("orders".into())));
        assert_eq!(parse("\\q"), Some(Meta::Quit));
        assert_eq!(parse("quit;"), Some(Meta::Quit));
        assert_eq!(parse("EXIT"), Some(Meta::Quit));
        assert_eq!(parse("\\timing"), Some(Meta::Timing(None)));
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
        assert_eq!(completions("\\").len(), 12);
        assert_eq!(completions(".t"), [".tables", ".timer"]);
    }
}
