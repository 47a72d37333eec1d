//! PostgreSQL's settings that clients read and change, in addition to those of the session.
//!
//! A setting that would have no effect accepts only the value that is in effect. A name with a
//! prefix that is not the engine's, such as `app.user`, is a setting that only its client reads.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use datafusion::arrow::array::timezone::Tz;
use terrace_sql::Engine;
use terrace_sys::duration::{format_timeout, parse_timeout};

use crate::failure::{Failure, SqlState};

/// Values that a setting accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepted {
    /// Any text.
    Text,
    /// One of these values; the first one is shown for each.
    One(&'static [&'static str]),
    /// Any integer.
    Integer,
    /// `on` or `off`.
    Switch,
    /// A duration: milliseconds, or a number with a unit. It is shown in the longest unit of which
    /// it is a multiple.
    Time,
    /// A time zone, which the session is set to as well.
    Zone,
    /// Schemas in which names are resolved.
    Schemas,
    /// The name of a role that the session may act as.
    Role,
}

struct Setting {
    name: &'static str,
    default: &'static str,
    accepted: Accepted,
    /// True if each change is reported to the client (`ParameterStatus`).
    is_reported: bool,
}

const fn setting(
    name: &'static str,
    default: &'static str,
    accepted: Accepted,
    is_reported: bool,
) -> Setting {
    Setting { name, default, accepted, is_reported }
}

/// All settings. Floats are written with all their digits at any value of `extra_float_digits`,
/// since clients set it for that. There are no functions to check, and no rows that `row_security`
/// could hide.
const SETTINGS: &[Setting] = &[
    setting("application_name", "", Accepted::Text, true),
    setting("block_size", "8192", Accepted::One(&["8192"]), false),
    setting("bytea_output", "hex", Accepted::One(&["hex"]), false),
    setting("check_function_bodies", "on", Accepted::Switch, false),
    setting("client_encoding", "UTF8", Accepted::One(&["UTF8", "UTF-8", "UNICODE"]), true),
    setting(CLIENT_MIN_MESSAGES, "notice", Accepted::Text, false),
    setting("default_transaction_isolation", ISOLATION, Accepted::One(ISOLATIONS), false),
    setting(DEFAULT_READ_ONLY, "off", Accepted::Switch, true),
    setting("DateStyle", "ISO, MDY", Accepted::One(&["ISO, MDY", "ISO", "ISO,MDY"]), true),
    setting("default_table_access_method", "heap", Accepted::One(&["heap"]), false),
    setting("default_tablespace", "", Accepted::One(&["", "pg_default"]), false),
    setting("escape_string_warning", "on", Accepted::Switch, false),
    setting("extra_float_digits", "1", Accepted::Integer, false),
    setting(IDLE_IN_TRANSACTION, "0", Accepted::Time, false),
    setting("in_hot_standby", "off", Accepted::One(&["off"]), true),
    setting("integer_datetimes", "on", Accepted::One(&["on"]), true),
    setting("IntervalStyle", "postgres", Accepted::One(&["postgres"]), true),
    setting("jit", "off", Accepted::One(&["off", "false", "0"]), false),
    setting("lc_collate", "C", Accepted::One(&["C"]), false),
    setting("lc_ctype", "C", Accepted::One(&["C"]), false),
    setting("lc_messages", "C", Accepted::One(&["C"]), false),
    setting("lc_monetary", "C", Accepted::One(&["C"]), false),
    setting("lc_numeric", "C", Accepted::One(&["C"]), false),
    setting("lc_time", "C", Accepted::One(&["C"]), false),
    setting(LOCK_TIMEOUT, "0", Accepted::Time, false),
    setting("max_identifier_length", "63", Accepted::One(&["63"]), false),
    setting("max_index_keys", "32", Accepted::One(&["32"]), false),
    setting(ROLE, NO_ROLE, Accepted::Role, false),
    setting("row_security", "on", Accepted::Switch, false),
    setting(SEARCH_PATH, "public", Accepted::Schemas, false),
    setting("server_encoding", "UTF8", Accepted::One(&["UTF8"]), true),
    setting("server_version", SERVER_VERSION, Accepted::One(&[SERVER_VERSION]), true),
    setting("server_version_num", VERSION_NUMBER, Accepted::One(&[VERSION_NUMBER]), false),
    setting("standard_conforming_strings", "on", Accepted::One(&["on", "true", "1"]), true),
    setting(STATEMENT_TIMEOUT, "0", Accepted::Time, false),
    setting("synchronous_commit", "on", Accepted::One(&["on", "true", "1"]), false),
    setting(TIME_ZONE, "UTC", Accepted::Zone, true),
    setting(TRANSACTION_ISOLATION, ISOLATION, Accepted::One(ISOLATIONS), false),
    setting(TRANSACTION_READ_ONLY, "off", Accepted::One(&["off"]), false),
    setting("transaction_timeout", "0", Accepted::One(&["0"]), false),
    setting("xmloption", "content", Accepted::One(&["content"]), false),
];

/// Values of [`Accepted::Time`].
const TIMES: &str = "milliseconds, or a number with us, ms, s, min, h or d, at most 24 days";

/// The isolation level of all transactions, and the weaker levels that are accepted for it.
const ISOLATION: &str = "repeatable read";
const ISOLATIONS: &[&str] = &[ISOLATION, "read committed", "read uncommitted"];

/// Prefixes of the engine's settings.
const PREFIXES_OF_ENGINE: [&str; 2] = ["terrace", "datafusion"];

/// The version of PostgreSQL that the server emulates, followed by its own.
pub(crate) const SERVER_VERSION: &str = concat!("16.6 (Terrace ", env!("CARGO_PKG_VERSION"), ")");
/// The emulated version as a number.
const VERSION_NUMBER: &str = "160006";
/// Maximum length of a value in bytes: values are reported to clients in messages of limited size.
const VALUE_BYTES_MAX: usize = 1024;
/// Maximum bytes of the names and values of a client's own settings together.
const OWN_BYTES_MAX: usize = 64 << 10;
/// The lowest severity of the notices that the client receives.
pub(crate) const CLIENT_MIN_MESSAGES: &str = "client_min_messages";
const STATEMENT_TIMEOUT: &str = "statement_timeout";
const IDLE_IN_TRANSACTION: &str = "idle_in_transaction_session_timeout";
const LOCK_TIMEOUT: &str = "lock_timeout";
/// The name by which a session has [`LOCK_TIMEOUT`].
const LOCK_TIMEOUT_OF_SESSION: &str = "terrace.lock_timeout";
/// The value that resets a setting to that with which the connection began.
pub(crate) const DEFAULT: &str = "default";
pub(crate) const TRANSACTION_ISOLATION: &str = "transaction_isolation";
/// The access mode of the current transaction, which SHOW returns.
pub(crate) const TRANSACTION_READ_ONLY: &str = "transaction_read_only";
/// The access mode that transactions begin with.
pub(crate) const DEFAULT_READ_ONLY: &str = "default_transaction_read_only";
/// The role that statements run as, if it is not that of the login.
pub(crate) const ROLE: &str = "role";
/// The value of [`ROLE`] for the role of the login.
pub(crate) const NO_ROLE: &str = "none";
const SEARCH_PATH: &str = "search_path";
pub(crate) const TIME_ZONE: &str = "TimeZone";

/// The settings of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// Values of the engine's configuration in place of the defaults.
    initial: BTreeMap<&'static str, String>,
    changed: BTreeMap<&'static str, String>,
    /// The client's own settings, by names with a prefix.
    own: BTreeMap<String, String>,
}

/// The canonical name of a setting.
pub(crate) type SettingName = Cow<'static, str>;

impl Settings {
    /// Returns the settings that a connection begins with.
    pub(crate) fn of_engine(engine: &Engine) -> Self {
        let mut settings = Self::default();
        let values = engine.settings().iter().filter(|(name, _)| name == LOCK_TIMEOUT_OF_SESSION);
        // The engine has validated the values.
        let values = values.filter_map(|(_, value)| parse_timeout(value));
        settings.initial.extend(values.map(|time| (LOCK_TIMEOUT, format_timeout(time))));
        settings
    }

    /// Returns the value of a client's own setting; `None` if it has not been set.
    pub(crate) fn own(&self, name: &str) -> Option<&str> {
        self.own.get(name).map(String::as_str)
    }

    /// Returns the value of a setting.
    pub(crate) fn get(&self, name: &str) -> &str {
        if let Some(value) = self.own.get(name) {
            return value;
        }
        let default = find(name).map_or("", |setting| self.default_of(setting));
        self.changed.get(name).map_or(default, String::as_str)
    }

    fn default_of(&self, setting: &Setting) -> &str {
        self.initial.get(setting.name).map_or(setting.default, String::as_str)
    }

    /// Changes a setting. Returns the change if it has to be reported to the client.
    ///
    /// # Errors
    /// A setting that does not exist, or that does not accept the value.
    pub(crate) fn set(
        &mut self,
        name: &str,
        value: &str,
    ) -> Result<Option<(&'static str, String)>, Failure> {
        let Some(setting) = find(name) else {
            if let Some(name) = own_name(name) {
                return self.set_own(name, value).map(|()| None);
            }
            let text = format!("there is no setting {name}; SHOW ALL lists those of a session");
            return Err(Failure::new(SqlState::NO_OBJECT, text));
        };
        let refused = |accepted: String| {
            let text = format!("{name} = {value} is not possible; it takes {accepted}");
            Err(Failure::new(SqlState::INVALID_PARAMETER, text))
        };
        // Some clients quote the values that they send when they connect.
        let value = value.trim();
        let unquoted = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
        let value = unquoted.unwrap_or(value);
        if value.len() > VALUE_BYTES_MAX {
            let text = format!("{name} takes at most {VALUE_BYTES_MAX} bytes");
            return Err(Failure::new(SqlState::INVALID_PARAMETER, text));
        }
        let time;
        let value = match setting.accepted {
            _ if value.eq_ignore_ascii_case(DEFAULT) => self.default_of(setting),
            Accepted::Text => value,
            Accepted::One(values) if values.iter().any(|one| one.eq_ignore_ascii_case(value)) => {
                values[0]
            }
            Accepted::One(values) => return refused(values[0].to_owned()),
            Accepted::Integer if value.parse::<i32>().is_err() => {
                return refused("an integer".to_owned());
            }
            Accepted::Switch => match switch(value) {
                Some(true) => "on",
                Some(false) => "off",
                None => return refused("on or off".to_owned()),
            },
            Accepted::Time => {
                let Some(parsed) = parse_timeout(value) else {
                    return refused(TIMES.to_owned());
                };
                time = format_timeout(parsed);
                time.as_str()
            }
            Accepted::Zone if value.parse::<Tz>().is_err() => {
                return refused(
                    "a name such as Europe/Berlin, or an offset such as +02:00".to_owned(),
                );
            }
            Accepted::Integer | Accepted::Zone | Accepted::Schemas | Accepted::Role => value,
        };
        let value = value.to_owned();
        self.changed.insert(setting.name, value.clone());
        Ok(setting.is_reported.then_some((setting.name, value)))
    }

    /// Changes a client's own setting; `default` removes it.
    fn set_own(&mut self, name: String, value: &str) -> Result<(), Failure> {
        let before = self.own.remove(&name);
        if value.eq_ignore_ascii_case(DEFAULT) {
            return Ok(());
        }
        let bytes: usize = self.own.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes + name.len() + value.len() > OWN_BYTES_MAX {
            let text = format!("{name}: own settings take at most {OWN_BYTES_MAX} bytes together");
            self.own.extend(before.map(|before| (name, before)));
            return Err(Failure::new(SqlState::INVALID_PARAMETER, text));
        }
        self.own.insert(name, value.to_owned());
        Ok(())
    }

    /// Returns the statement that sets the session to this setting, if the session has it as well.
    pub(crate) fn of_session(&self, name: &str) -> Option<String> {
        let (key, value) = match name {
            TIME_ZONE => ("datafusion.execution.time_zone", self.get(name)),
            LOCK_TIMEOUT => (LOCK_TIMEOUT_OF_SESSION, self.get(name)),
            ROLE => (ROLE, self.get(name)),
            SEARCH_PATH => (SEARCH_PATH, self.get(name)),
            DEFAULT_READ_ONLY => {
                let mode = if self.get(name) == "on" { "READ ONLY" } else { "READ WRITE" };
                return Some(format!("SET SESSION CHARACTERISTICS AS TRANSACTION {mode}"));
            }
            _ => return None,
        };
        Some(format!("SET {key} = '{}'", value.replace('\'', "''")))
    }

    /// Returns the names of the settings whose values differ from those of `others`.
    pub(crate) fn differing<'a>(
        &'a self,
        others: &'a Self,
    ) -> impl Iterator<Item = &'static str> + 'a {
        let names = SETTINGS.iter().map(|setting| setting.name);
        names.filter(|name| self.get(name) != others.get(name))
    }

    /// Returns the name and value of a setting if its changes are reported to the client.
    pub(crate) fn told(&self, name: &str) -> Option<(&'static str, String)> {
        let setting = find(name).filter(|setting| setting.is_reported)?;
        Some((setting.name, self.get(name).to_owned()))
    }

    /// Returns the names of the settings that the client has changed.
    pub(crate) fn changed(&self) -> impl Iterator<Item = &'static str> {
        self.changed.keys().copied()
    }

    /// Returns the name, value and default of every setting.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        let all = SETTINGS.iter();
        all.map(|setting| (setting.name, self.get(setting.name), self.default_of(setting)))
    }

    /// Returns the canonical name of a setting, which may be one of the client's own that has no
    /// value.
    pub(crate) fn name_of(name: &str) -> Option<SettingName> {
        match find(name) {
            Some(setting) => Some(setting.name.into()),
            None => own_name(name).map(Cow::Owned),
        }
    }

    /// Returns the settings that are reported after the login.
    pub(crate) fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let reported = SETTINGS.iter().filter(|setting| setting.is_reported);
        reported.map(|setting| (setting.name, self.get(setting.name)))
    }

    /// Returns the time limit of a statement, if there is one.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        self.time(STATEMENT_TIMEOUT)
    }

    /// Returns the maximum time that a statement waits for a lock, if there is one.
    pub(crate) fn lock_timeout(&self) -> Option<Duration> {
        self.time(LOCK_TIMEOUT)
    }

    /// Returns the maximum time that a transaction waits for its next statement, if there is one.
    pub(crate) fn idle_in_transaction(&self) -> Option<Duration> {
        self.time(IDLE_IN_TRANSACTION)
    }

    /// Returns the value of a setting that is a time; `None` for zero, the default of all of them.
    fn time(&self, name: &'static str) -> Option<Duration> {
        let value = self.changed.get(name).or_else(|| self.initial.get(name))?;
        parse_timeout(value).filter(|time| !time.is_zero())
    }
}

fn find(name: &str) -> Option<&'static Setting> {
    let name = name.trim_matches('"');
    let is_of_session = name.eq_ignore_ascii_case(LOCK_TIMEOUT_OF_SESSION);
    let name = if is_of_session { LOCK_TIMEOUT } else { name };
    SETTINGS.iter().find(|setting| setting.name.eq_ignore_ascii_case(name))
}

/// The canonical name of a client's own setting: two or more words, the first of which is no prefix
/// of the engine's settings.
fn own_name(name: &str) -> Option<String> {
    let words: Vec<_> = name.split('.').map(|word| word.trim_matches('"')).collect();
    let is_word = |word: &&str| {
        !word.starts_with(|letter: char| letter.is_ascii_digit())
            && !word.is_empty()
            && word.chars().all(|letter| letter.is_alphanumeric() || "_$".contains(letter))
    };
    let is_own = words.len() > 1
        && words.iter().all(is_word)
        && !PREFIXES_OF_ENGINE.iter().any(|prefix| prefix.eq_ignore_ascii_case(words[0]));
    is_own.then(|| words.join(".").to_lowercase())
}

/// Parses a truth value as PostgreSQL writes it.
fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Some(true),
        "off" | "false" | "no" | "0" => Some(false),
        _ => None,
    }
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
        assert!(settings.set("client_encoding", "'utf-8'").is_ok());
        assert!(settings.set("application_name", &"x".repeat(2000)).is_err());
        assert!(settings.set("no_such", "1").is_err());
        assert!(settings.set("timezone", "Nowhere/Land").is_err());
        assert!(settings.set("TimeZone", "Europe/Berlin").is_ok());
        assert!(settings.set("search_path", "\"$user\", \"it's\"").is_ok());
        let zone = "SET datafusion.execution.time_zone = 'Europe/Berlin'";
        assert_eq!(settings.of_session("TimeZone").as_deref(), Some(zone));
        let schema = "SET search_path = '\"$user\", \"it''s\"'";
        assert_eq!(settings.of_session("search_path").as_deref(), Some(schema));
        assert_eq!(Settings::name_of("App.\"User\"").as_deref(), Some("app.user"));
        assert_eq!(settings.set("App.\"User\"", "x"), Ok(None));
        assert_eq!((settings.own("app.user"), settings.get("app.user")), (Some("x"), "x"));
        assert!(settings.set("app.user", &"x".repeat(OWN_BYTES_MAX)).is_err());
        assert_eq!(settings.own("app.user"), Some("x"));
        assert_eq!(settings.set("app.user", "default"), Ok(None));
        assert_eq!(settings.own("app.user"), None);
        for name in ["terrace.no_such", "datafusion.x", "app.", "app.1", "a b.c"] {
            assert!(settings.set(name, "1").is_err(), "{name}");
        }
        assert!(settings.set("extra_float_digits", "x").is_err());
        assert_eq!(settings.set("extra_float_digits", "3"), Ok(None));
        assert_eq!(settings.statement_timeout(), None);
        for (value, millis, shown) in
            [("250", 250, "250ms"), ("2s", 2000, "2s"), ("1 min", 60_000, "1min")]
        {
            assert_eq!(settings.set("statement_timeout", value), Ok(None));
            assert_eq!(settings.statement_timeout(), Some(Duration::from_millis(millis)));
            assert_eq!(settings.get("statement_timeout"), shown);
        }
        assert!(settings.set("statement_timeout", "1ns").is_err());
        assert_eq!(settings.set("terrace.lock_timeout", "90000"), Ok(None));
        let limit = "SET terrace.lock_timeout = '90s'";
        assert_eq!(settings.of_session("lock_timeout").as_deref(), Some(limit));
        assert_eq!(settings.set("statement_timeout", "DEFAULT"), Ok(None));
        assert_eq!(settings.statement_timeout(), None);
    }
}
