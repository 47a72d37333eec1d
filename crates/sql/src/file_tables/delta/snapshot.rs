//! Versions of a table.

use chrono::DateTime;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use delta_kernel::history_manager::{HistoryCommitType, latest_version_as_of};
use delta_kernel::{KernelError, KernelResult, Snapshot, SnapshotRef};

use super::engine::LogEngine;
use super::errors::failed;
use super::location::Location;
use crate::file_tables::arguments::{Arguments, Value};

/// The version that a statement reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// The newest one.
    Newest,
    /// The one of this number.
    Version(u64),
    /// The newest one of this time, in milliseconds since 1970.
    Time { text: String, millis: i64 },
}

impl Moment {
    /// Takes the options `version` and `timestamp`.
    ///
    /// # Errors
    /// Values of other types, and both options.
    pub(super) fn take(arguments: &mut Arguments) -> Result<Self> {
        match (arguments.integer("version")?, arguments.text("timestamp")?) {
            (None, None) => Ok(Self::Newest),
            (Some(_), Some(_)) => {
                plan_err!("delta_scan takes a version or a timestamp, not both; leave one out")
            }
            (Some(number), None) => match u64::try_from(number) {
                Ok(number) => Ok(Self::Version(number)),
                Err(_) => {
                    let value = Value::Number(number.to_string());
                    arguments.wrong("version", "a number from 0 on", &value)
                }
            },
            (None, Some(text)) => match millis(&text) {
                Some(millis) => Ok(Self::Time { text, millis }),
                None => {
                    let expected = "a time with its zone, such as '2026-01-31 12:00:00+00'";
                    arguments.wrong("timestamp", expected, &Value::Text(text))
                }
            },
        }
    }
}

/// Milliseconds since 1970 of a time with its zone.
fn millis(text: &str) -> Option<i64> {
    let text = text.trim().replacen(['T', 't'], " ", 1);
    let text = match text.strip_suffix(['Z', 'z']) {
        Some(local) => format!("{local}+00"),
        None => text,
    };
    let time = DateTime::parse_from_str(&text, "%Y-%m-%d %H:%M:%S%.f%#z").ok()?;
    Some(time.timestamp_millis())
}

/// The version of a table that a statement reads.
///
/// # Errors
/// A directory without a log, versions that do not exist, features that are not supported, and
/// errors of the files.
pub(super) fn snapshot(
    location: &Location,
    engine: &LogEngine,
    moment: &Moment,
) -> Result<SnapshotRef> {
    let name = &location.name;
    match moment {
        Moment::Newest => newest(location, engine).map_err(|error| failed(name, &error)),
        Moment::Version(number) => numbered(location, engine, *number).or_else(|error| {
            let newest = newest(location, engine).map_err(|error| failed(name, &error))?;
            match error.without_backtrace() {
                KernelError::EmptyLog
                | KernelError::MissingVersion(_)
                | KernelError::InvalidLogSegment(_) => plan_err!(
                    "Delta table {name} has no version {number}, or not any more; its newest one \
                     is {}",
                    newest.version()
                ),
                _ => Err(failed(name, &error)),
            }
        }),
        Moment::Time { text, millis } => {
            let newest = newest(location, engine).map_err(|error| failed(name, &error))?;
            let kind = HistoryCommitType::Recreatable;
            let found = latest_version_as_of(&newest, engine, *millis, kind);
            let found = found.map_err(|error| match error.without_backtrace() {
                // The message has the time in milliseconds, and little else.
                error if error.to_string().contains("out of range") => plan_datafusion_err!(
                    "Delta table {name} has no version of {text}: its first one, or the first that \
                     can still be read, is newer"
                ),
                error => failed(name, error),
            })?;
            match found.version == newest.version() {
                true => Ok(newest),
                false => {
                    numbered(location, engine, found.version).map_err(|error| failed(name, &error))
                }
            }
        }
    }
}

fn newest(location: &Location, engine: &LogEngine) -> KernelResult<SnapshotRef> {
    Snapshot::builder_for(location.root.as_str()).build(engine)
}

fn numbered(location: &Location, engine: &LogEngine, number: u64) -> KernelResult<SnapshotRef> {
    Snapshot::builder_for(location.root.as_str()).at_version(number).build(engine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_zone() {
        for text in [
            "2026-01-31 12:00:00+00",
            "2026-01-31T12:00:00Z",
            " 2026-01-31 14:00:00.000+02:00",
            "2026-01-31T08:30:00-0330",
        ] {
            assert_eq!(millis(text), Some(1_769_860_800_000), "{text}");
        }
        for text in ["2026-01-31 12:00:00", "2026-01-31", "yesterday", ""] {
            assert_eq!(millis(text), None, "{text}");
        }
    }
}
