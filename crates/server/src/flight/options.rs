//! Session settings as Flight options (`SetSessionOptions`, `GetSessionOptions`).
//!
//! `catalog` and `schema` are defined by Flight SQL; the others have the names that `SET` and
//! `SHOW` use. An option without a value is reset to its default.

use std::collections::HashMap;

use prost::{Enumeration, Message, Oneof};
use terrace_sql::DATABASE;

use super::session::ClientSession;
use crate::failure::{Failure, SqlState};
use crate::postgres::set;
use crate::settings::Settings;

const CATALOG: &str = "catalog";
const SCHEMA: &str = "schema";
/// The setting that names the schemas in which names are resolved.
const SEARCH_PATH: &str = "search_path";

/// The value of an option.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SessionOptionValue {
    #[prost(oneof = "OptionValue", tags = "1, 2, 3, 4, 5")]
    value: Option<OptionValue>,
}

/// Possible values of an option.
#[derive(Clone, PartialEq, Oneof)]
enum OptionValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Truth(bool),
    #[prost(sfixed64, tag = "3")]
    Integer(i64),
    #[prost(double, tag = "4")]
    Float(f64),
    #[prost(message, tag = "5")]
    Texts(Texts),
}

/// A list of texts.
#[derive(Clone, PartialEq, Message)]
struct Texts {
    #[prost(string, repeated, tag = "1")]
    values: Vec<String>,
}

/// Request to set options.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SetSessionOptionsRequest {
    #[prost(map = "string, message", tag = "1")]
    options: HashMap<String, SessionOptionValue>,
}

/// Result of setting options: those that were not set.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SetSessionOptionsResult {
    #[prost(map = "string, message", tag = "1")]
    errors: HashMap<String, OptionError>,
}

/// The error of an option that was not set.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct OptionError {
    #[prost(enumeration = "OptionErrorKind", tag = "1")]
    value: i32,
}

/// Kinds of errors of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Enumeration)]
#[repr(i32)]
enum OptionErrorKind {
    Unspecified = 0,
    InvalidName = 1,
    InvalidValue = 2,
    Error = 3,
}

/// Result of reading the options of a session.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GetSessionOptionsResult {
    #[prost(map = "string, message", tag = "1")]
    options: HashMap<String, SessionOptionValue>,
}

/// Result of closing a session: `CLOSED`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct CloseSessionResult {
    #[prost(int32, tag = "1")]
    status: i32,
}

impl CloseSessionResult {
    pub(super) fn closed() -> Self {
        Self { status: 1 }
    }
}

impl SessionOptionValue {
    fn of(text: impl Into<String>) -> Self {
        Self { value: Some(OptionValue::Text(text.into())) }
    }

    /// Returns the value in the form that `SET` takes; `None` for the default.
    fn text(&self) -> Option<String> {
        Some(match self.value.as_ref()? {
            OptionValue::Text(text) => text.clone(),
            OptionValue::Truth(value) => value.to_string(),
            OptionValue::Integer(value) => value.to_string(),
            OptionValue::Float(value) => value.to_string(),
            OptionValue::Texts(texts) => texts.values.join(", "),
        })
    }
}

impl ClientSession {
    /// Sets options. Returns those that were not set.
    pub(super) async fn set_options(
        &self,
        request: SetSessionOptionsRequest,
    ) -> SetSessionOptionsResult {
        let _turn = self.turn.lock().await;
        let mut errors = HashMap::new();
        for (name, value) in request.options {
            if let Err(failure) = self.set_option(&name, value.text()).await {
                let kind = match failure.state() {
                    SqlState::NO_OBJECT => OptionErrorKind::InvalidName,
                    SqlState::IO | SqlState::INTERNAL => OptionErrorKind::Error,
                    _ => OptionErrorKind::InvalidValue,
                };
                tracing::debug!(name, error = failure.text(), "an option was not set");
                errors.insert(name, OptionError { value: kind.into() });
            }
        }
        SetSessionOptionsResult { errors }
    }

    async fn set_option(&self, name: &str, value: Option<String>) -> Result<(), Failure> {
        let invalid = |text: String| Err(Failure::new(SqlState::INVALID_PARAMETER, text));
        let settings = &self.place.settings;
        match name {
            CATALOG => match value {
                Some(other) if other != DATABASE => {
                    invalid(format!("there is no catalog {other:?}; there is {DATABASE}"))
                }
                _ => Ok(()),
            },
            SCHEMA => {
                let value = value.unwrap_or_else(|| "default".to_owned());
                let is_known =
                    value == "default" || self.session.names().schemas().contains(&value);
                if !is_known {
                    return invalid(format!("there is no schema {value:?}"));
                }
                let _told = set(&self.session, settings, SEARCH_PATH, &value, false).await?;
                Ok(())
            }
            name => match Settings::name_of(name) {
                Some(name) => {
                    let value = value.as_deref().unwrap_or("default");
                    let _told = set(&self.session, settings, &name, value, false).await?;
                    Ok(())
                }
                None => self.set_of_engine(name, value).await,
            },
        }
    }

    /// Sets a setting of the engine, such as `terrace.tenant`; `None` resets it.
    async fn set_of_engine(&self, name: &str, value: Option<String>) -> Result<(), Failure> {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._".contains(letter);
        if !name.contains('.') || !name.chars().all(is_name) {
            let text = format!("there is no setting {name}");
            return Err(Failure::new(SqlState::NO_OBJECT, text));
        }
        let statement = match value {
            Some(value) => format!("SET {name} = '{}'", value.replace('\'', "''")),
            None => format!("RESET {name}"),
        };
        self.session.sql(&statement).await?;
        Ok(())
    }

    /// Returns the options of the session.
    pub(super) fn options(&self) -> GetSessionOptionsResult {
        let rows = self.place.settings.rows().into_iter();
        let mut options: HashMap<_, _> =
            rows.map(|(name, value, _)| (name.to_owned(), SessionOptionValue::of(value))).collect();
        options.insert(CATALOG.to_owned(), SessionOptionValue::of(DATABASE));
        let schema = self.session.current_schema().unwrap_or_default();
        options.insert(SCHEMA.to_owned(), SessionOptionValue::of(schema));
        GetSessionOptionsResult { options }
    }
}
