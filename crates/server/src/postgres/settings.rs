//! The settings of PostgreSQL that clients read and change, beside those of a session.
//!
//! A setting that would have no effect takes only the value that is in effect.

use std::collections::BTreeMap;
use std::time::Duration;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Set, Statement as SqlStatement, Value};
use terrace_sql::session::SessionStatement;

use super::failure::{Failure, SqlState};

/// What a setting may be set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// Any text.
    Text,
    /// One of these; the first is the name that is shown.
    One(&'static [&'static str]),
    /// Any integer.
    Integer,
    /// A time: milliseconds, or a number with a unit.
    Time,
}

struct Setting {
    name: &'static str,
    default: &'static str,
    takes: Takes,
    /// Whether clients are told each change.
    is_reported: bool,
}

const fn setting(
    name: &'static str,
    default: &'static str,
    takes: Takes,
    is_reported: bool,
) -> Setting {
    Setting { name, default, takes, is_reported }
}

/// Floats are written with all their digits whatever `extra_float_digits` says, which is what
/// clients that set it ask for.
const SETTINGS: &[Setting] = &[
    setting("application_name", "", Takes::Text, true),
    setting("bytea_output", "hex", Takes::One(&["hex"]), false),
    setting("client_encoding", "UTF8", Takes::One(&["UTF8", "UTF-8", "UNICODE"]), true),
    setting("client_min_messages", "notice", Takes::Text, false),
    setting("DateStyle", "ISO, MDY", Takes::One(&["ISO, MDY", "ISO", "ISO,MDY"]), true),
    setting("extra_float_digits", "1", Takes::Integer, false),
    setting("integer_datetimes", "on", Takes::One(&["on"]), true),
    setting("IntervalStyle", "postgres", Takes::One(&["postgres"]), true),
    setting("server_encoding", "UTF8", Takes::One(&["UTF8"]), true),
    setting("server_version", SERVER_VERSION, Takes::One(&[SERVER_VERSION]), true),
    setting("standard_conforming_strings", "on", Takes::One(&["on", "true", "1"]), true),
    setting(STATEMENT_TIMEOUT, "0", Takes::Time, false),
];

/// The version of PostgreSQL whose clients the server is for, and its own.
const SERVER_VERSION: &str = concat!("16.6 (Terrace ", env!("CARGO_PKG_VERSION"), ")");
const STATEMENT_TIMEOUT: &str = "statement_timeout";

/// The settings of one connection.
#[derive(Debug, Default)]
pub(super) struct Settings {
    changed: BTreeMap<&'static str, String>,
}

/// A statement about a setting that is kept here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// `SET name = value`.
    Set(&'static str, String),
    /// `SHOW name`.
    Show(&'static str),
}

impl Settings {
    /// Whether a statement reads or changes one of these settings.
    pub(super) fn access(statement: &SessionStatement) -> Option<Access> {
        let SessionStatement::Sql(statement) = statement else { return None };
        let Statement::Statement(statement) = statement.as_ref() else { return None };
        match statement.as_ref() {
            SqlStatement::Set(Set::SingleAssignment { variable, values, .. }) => {
                let setting = find(&variable.to_string())?;
                let value = values.iter().map(text_of).collect::<Vec<_>>().join(", ");
                Some(Access::Set(setting.name, value))
            }
            SqlStatement::ShowVariable { variable } => match variable.as_slice() {
                [name] => Some(Access::Show(find(&name.value)?.name)),
                _ => None,
            },
            _ => None,
        }
    }

    /// What a setting is.
    pub(super) fn get(&self, name: &str) -> &str {
        let default = find(name).map_or("", |setting| setting.default);
        self.changed.get(name).map_or(default, String::as_str)
    }

    /// Changes a setting. Returns what the client is told of the change.
    ///
    /// # Errors
    /// A setting that there is not, or that does not take the value.
    pub(super) fn set(
        &mut self,
        name: &str,
        value: &str,
    ) -> Result<Option<(&'static str, String)>, Failure> {
        let Some(setting) = find(name) else {
            let text = format!("there is no setting {name}; SHOW ALL lists those of a session");
            return Err(Failure::new(SqlState::NO_OBJECT, text));
        };
        let refused = |takes: String| {
            let text = format!("{name} = {value} is not possible; it takes {takes}");
            Err(Failure::new(SqlState::INVALID_PARAMETER, text))
        };
        let value = value.trim();
        let value = match setting.takes {
            _ if value.eq_ignore_ascii_case("default") => setting.default,
            Takes::Text => value,
            Takes::One(values) if values.iter().any(|one| one.eq_ignore_ascii_case(value)) => {
                values[0]
            }
            Takes::One(values) => return refused(values[0].to_owned()),
            Takes::Integer if value.parse::<i32>().is_err() => {
                return refused("an integer".to_owned());
            }
            Takes::Time if time(value).is_none() => {
                return refused("milliseconds, or a number with ms, s, min or h".to_owned());
            }
            Takes::Integer | Takes::Time => value,
        };
        self.changed.insert(setting.name, value.to_owned());
        Ok(setting.is_reported.then(|| (setting.name, value.to_owned())))
    }

    /// What clients are told when they have logged in.
    pub(super) fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let reported = SETTINGS.iter().filter(|setting| setting.is_reported);
        reported.map(|setting| (setting.name, self.get(setting.name)))
    }

    /// How long a statement may take, if there is a limit.
    pub(super) fn statement_timeout(&self) -> Option<Duration> {
        time(self.get(STATEMENT_TIMEOUT)).filter(|time| !time.is_zero())
    }
}

fn find(name: &str) -> Option<&'static Setting> {
    let name = name.trim_matches('"');
    SETTINGS.iter().find(|setting| setting.name.eq_ignore_ascii_case(name))
}

fn text_of(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            value => value.to_string(),
        },
        value => value.to_string(),
    }
}

fn time(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.trim().parse().ok()?;
    let millis = match &text[digits.len()..] {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(millis)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_take_what_is_in_effect() {
        let mut settings = Settings::default();
        assert_eq!(settings.get("DateStyle"), "ISO, MDY");
        let reported = settings.set("datestyle", "iso");
        assert_eq!(reported, Ok(Some(("DateStyle", "ISO, MDY".to_owned()))));
        assert!(settings.set("datestyle", "German").is_err());
        assert!(settings.set("client_encoding", "LATIN1").is_err());
        assert!(settings.set("no_such", "1").is_err());
        assert!(settings.set("extra_float_digits", "x").is_err());
        assert_eq!(settings.set("extra_float_digits", "3"), Ok(None));
        assert_eq!(settings.statement_timeout(), None);
        for (value, millis) in [("250", 250), ("2s", 2000), ("1 min", 60_000)] {
            assert_eq!(settings.set("statement_timeout", value), Ok(None));
            assert_eq!(settings.statement_timeout(), Some(Duration::from_millis(millis)));
        }
        assert_eq!(settings.set("statement_timeout", "DEFAULT"), Ok(None));
        assert_eq!(settings.statement_timeout(), None);
    }
}
