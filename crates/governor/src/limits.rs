//! Limits of a tenant.

use std::fmt;
use std::time::Duration;

use terrace_sys::duration::parse_duration;
use terrace_sys::size::{format_bytes, parse_bytes};

use super::error::GovernorError;

/// Maximum time that a query waits in the admission queue by default.
pub(crate) const QUEUE_TIME: Duration = Duration::from_secs(30);

/// Limits of a tenant: on all of its sessions together, and on each of its queries. `None` is no
/// limit, except for `queue_time`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// Maximum number of concurrent sessions.
    pub connections: Option<u64>,
    /// Maximum number of concurrent queries; further queries wait in the admission queue.
    pub queries: Option<u64>,
    /// Maximum time that a query waits in the admission queue; 30 seconds if `None`.
    pub queue_time: Option<Duration>,
    /// Maximum time that a query takes after its admission.
    pub query_time: Option<Duration>,
    /// Maximum bytes of DRAM for the working memory of its queries, shared equally.
    pub dram_bytes: Option<u64>,
    /// Maximum bytes that its running queries have spilled.
    pub spill_bytes: Option<u64>,
}

/// Typed value of a limit.
enum Value<'a> {
    Count(&'a mut Option<u64>),
    Bytes(&'a mut Option<u64>),
    Time(&'a mut Option<Duration>),
}

impl TenantLimits {
    /// Names of the options of a tenant, in the order of the fields.
    pub const NAMES: [&str; 6] = [
        "max_connections",
        "max_queries",
        "queue_timeout",
        "query_timeout",
        "max_dram",
        "max_spill",
    ];

    /// Sets a limit by the name of its option; an empty value removes it. Returns false if there is
    /// no such option.
    ///
    /// # Errors
    /// [`GovernorError::Refused`] for an invalid value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, GovernorError> {
        let limit = match name {
            "max_connections" => Value::Count(&mut self.connections),
            "max_queries" => Value::Count(&mut self.queries),
            "queue_timeout" => Value::Time(&mut self.queue_time),
            "query_timeout" => Value::Time(&mut self.query_time),
            "max_dram" => Value::Bytes(&mut self.dram_bytes),
            "max_spill" => Value::Bytes(&mut self.spill_bytes),
            _ => return Ok(false),
        };
        let refused = |instead: String| GovernorError::Refused {
            what: format!("the option {name} = '{value}' of a tenant"),
            instead,
        };
        match limit {
            Value::Count(limit) | Value::Bytes(limit) if value.is_empty() => *limit = None,
            Value::Time(limit) if value.is_empty() => *limit = None,
            Value::Count(limit) => {
                let count = value.parse().ok().filter(|count| *count > 0);
                *limit = Some(count.ok_or_else(|| refused("say a number from 1 on".to_owned()))?);
            }
            Value::Bytes(limit) => *limit = Some(parse_bytes(value).map_err(refused)?),
            Value::Time(limit) => {
                let time = parse_time(value);
                let example = || refused("say a time such as 500ms, 30s, 5min or 2h".to_owned());
                *limit = Some(time.ok_or_else(example)?);
            }
        }
        Ok(true)
    }

    /// Returns the maximum time that a query waits in the admission queue.
    pub fn wait(&self) -> Duration {
        self.queue_time.unwrap_or(QUEUE_TIME)
    }
}

impl fmt::Display for TenantLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |limit: Option<u64>| limit.map(|count| count.to_string());
        let time = |limit: Option<Duration>| limit.map(|time| format!("{time:?}"));
        let bytes = |limit: Option<u64>| limit.map(format_bytes);
        let values = [
            count(self.connections),
            count(self.queries),
            time(self.queue_time),
            time(self.query_time),
            bytes(self.dram_bytes),
            bytes(self.spill_bytes),
        ];
        let known = Self::NAMES.into_iter().zip(values);
        let known = known.filter_map(|(name, value)| Some(format!("{name} {}", value?)));
        f.write_str(&known.collect::<Vec<_>>().join(", "))
    }
}

/// Parses a time of whole milliseconds, above zero.
fn parse_time(text: &str) -> Option<Duration> {
    let time = parse_duration(text.trim())?;
    (!time.is_zero() && time.subsec_nanos().is_multiple_of(1_000_000)).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_set_and_taken_away() -> Result<(), GovernorError> {
        let mut limits = TenantLimits::default();
        let values = ["3", "4", "500ms", "5min", "64MiB", "1GiB"];
        for (name, value) in TenantLimits::NAMES.into_iter().zip(values) {
            assert!(limits.set(name, value)?);
        }
        let text = "max_connections 3, max_queries 4, queue_timeout 500ms, query_timeout 300s, \
                    max_dram 64MiB, max_spill 1GiB";
        assert_eq!(limits.to_string(), text);
        for name in TenantLimits::NAMES {
            assert!(limits.set(name, "")?);
            assert!(limits.set(name, "much").is_err(), "{name}");
        }
        assert_eq!(limits, TenantLimits::default());
        assert!(limits.set("max_queries", "0").is_err() && !limits.set("other", "1")?);
        Ok(())
    }
}
