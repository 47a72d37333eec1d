//! `pg_stat_activity`: the connections of the server.

use std::time::{SystemTime, UNIX_EPOCH};

use super::source::Source;
use super::value::{Row, Value};
use super::{oids, roles};
use crate::registry::Activity;

/// Returns the rows of `pg_stat_activity`.
pub(super) fn rows(source: &Source) -> Vec<Row> {
    let all = source.facts.registry.activity();
    all.into_iter().map(|(number, activity)| row(number, activity, source)).collect()
}

fn row(number: i32, activity: Activity, source: &Source) -> Row {
    // Statements of another role are hidden, unless the user may control them.
    let statement = match roles::may_control(source, &activity.user) {
        true => activity.statement.text().to_owned(),
        false => "<insufficient privilege>".to_owned(),
    };
    let state = if activity.is_running { "active" } else { "idle" };
    vec![
        ("datid", oids::DATABASE.into()),
        ("datname", source.facts.database.into()),
        ("pid", i64::from(number).into()),
        ("leader_pid", Value::Null),
        ("usesysid", oids::OWNER.into()),
        ("usename", activity.user.into()),
        ("client_port", Value::Null),
        ("backend_start", micros(activity.began)),
        ("query_start", micros(activity.statement_began)),
        ("state_change", micros(activity.statement_began)),
        ("state", state.into()),
        ("backend_xid", Value::Null),
        ("backend_xmin", Value::Null),
        ("query_id", Value::Null),
        ("query", statement.into()),
        ("backend_type", "client backend".into()),
    ]
}

/// Returns the row of `pg_stat_database`. Its only statistic is the number of connections.
pub(super) fn database(source: &Source) -> Row {
    let all = i64::try_from(source.facts.registry.activity().len()).unwrap_or(i64::MAX);
    vec![
        ("datid", oids::DATABASE.into()),
        ("datname", source.facts.database.into()),
        ("numbackends", all.into()),
    ]
}

/// Returns the row of `pg_stat_ssl` and of `pg_stat_gssapi` for the connection that reads it.
pub(super) fn encryption(source: &Source) -> Row {
    vec![("pid", i64::from(source.facts.number).into()), ("ssl", source.facts.is_secure.into())]
}

/// Returns a point in time in microseconds since 1970, or null.
pub(super) fn micros(time: Option<SystemTime>) -> Value {
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_micros()).ok()).into()
}
