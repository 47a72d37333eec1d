//! Functions that return facts about the connection, the server and the sizes of tables, and
//! functions that end statements and connections.

use datafusion::common::{Result, ScalarValue, exec_err};

use super::super::value::Value;
use super::super::{activity, relations, roles};
use super::argument::{integer, is_true, text};
use super::call::{Call, missing};
use super::function::{Definition, Returns, acting, lenient, strict};
use crate::failure::{Failure, SqlState};

/// The encoding of all texts, by PostgreSQL's number.
pub(in crate::pg_catalog) const UTF8: i64 = 6;

/// Defines a function without arguments whose value the server does not know: it returns null.
const fn none(name: &'static str, returns: Returns) -> Definition {
    lenient(name, (0, 0), returns, |_, _| Ok(Value::Null))
}

/// Defines a function for a statistic that is not counted: it returns 0.
const fn zero(name: &'static str) -> Definition {
    strict(name, (1, 1), Returns::Int8, |_, _| Ok(0.into()))
}

pub(super) const FUNCTIONS: &[Definition] = &[
    strict("current_setting", (1, 2), Returns::Text, current_setting),
    acting("set_config", (3, 3), Returns::Text, set_config),
    strict("pg_encoding_to_char", (1, 1), Returns::Text, |_, arguments| {
        let is_utf8 = arguments.first().and_then(integer) == Some(UTF8);
        Ok(if is_utf8 { "UTF8" } else { "" }.into())
    }),
    strict("pg_char_to_encoding", (1, 1), Returns::Int4, |_, arguments| {
        let name = arguments.first().and_then(text).unwrap_or_default();
        let is_utf8 = ["utf8", "utf-8", "unicode"].contains(&name.to_lowercase().as_str());
        Ok(if is_utf8 { UTF8 } else { -1 }.into())
    }),
    strict("pg_client_encoding", (0, 0), Returns::Text, |_, _| Ok("UTF8".into())),
    strict("getdatabaseencoding", (0, 0), Returns::Text, |_, _| Ok("UTF8".into())),
    strict("pg_is_in_recovery", (0, 0), Returns::Bool, |_, _| Ok(false.into())),
    strict("pg_is_wal_replay_paused", (0, 0), Returns::Bool, |_, _| Ok(false.into())),
    strict("pg_jit_available", (0, 0), Returns::Bool, |_, _| Ok(false.into())),
    strict("pg_my_temp_schema", (0, 0), Returns::Oid, |_, _| Ok(0.into())),
    strict("pg_postmaster_start_time", (0, 0), Returns::Time, began),
    strict("pg_conf_load_time", (0, 0), Returns::Time, began),
    none("inet_server_addr", Returns::Text),
    none("inet_server_port", Returns::Int4),
    none("inet_client_addr", Returns::Text),
    none("inet_client_port", Returns::Int4),
    strict("pg_relation_size", (1, 2), Returns::Int8, relation_bytes),
    strict("pg_table_size", (1, 1), Returns::Int8, relation_bytes),
    strict("pg_total_relation_size", (1, 1), Returns::Int8, relation_bytes),
    zero("pg_indexes_size"),
    zero("pg_stat_get_numscans"),
    zero("pg_stat_get_tuples_inserted"),
    zero("pg_stat_get_tuples_updated"),
    zero("pg_stat_get_tuples_deleted"),
    strict("pg_database_size", (1, 1), Returns::Int8, |call, _| {
        Ok(relations::total_bytes(call.objects()).into())
    }),
    strict("pg_tablespace_size", (1, 1), Returns::Int8, |call, _| {
        Ok(relations::total_bytes(call.objects()).into())
    }),
    strict("pg_size_pretty", (1, 1), Returns::Text, |_, arguments| {
        Ok(arguments.first().and_then(integer).map(pretty).into())
    }),
    acting("pg_cancel_backend", (1, 1), Returns::Bool, |call, arguments| {
        let number = backend(arguments)?;
        refuse_others(call, number)?;
        Ok(call.source.facts.registry.cancel_backend(number).into())
    }),
    acting("pg_terminate_backend", (1, 2), Returns::Bool, |call, arguments| {
        let number = backend(arguments)?;
        refuse_others(call, number)?;
        Ok(call.source.facts.registry.terminate_backend(number).into())
    }),
    strict("row_security_active", (1, 1), Returns::Bool, |_, _| Ok(false.into())),
];

fn current_setting(call: &Call<'_>, arguments: &[ScalarValue]) -> Result<Value> {
    let name = arguments.first().and_then(text).unwrap_or_default();
    match call.source.facts.settings.get(&name) {
        Some(value) => Ok(value.into()),
        None if is_true(arguments.get(1)) => Ok(Value::Null),
        None => Err(missing("setting", &name)),
    }
}

fn set_config(call: &Call<'_>, arguments: &[ScalarValue]) -> Result<Value> {
    let [name, value, is_local] = arguments else { return Ok(Value::Null) };
    let is_local = is_true(Some(is_local));
    let (name, value) = (text(name).unwrap_or_default(), text(value).unwrap_or_default());
    let changed = call.source.facts.settings.set_in_statement(&name, &value, is_local);
    Ok(changed?.into())
}

fn began(call: &Call<'_>, _: &[ScalarValue]) -> Result<Value> {
    Ok(activity::micros(Some(call.source.facts.registry.began())))
}

fn relation_bytes(call: &Call<'_>, arguments: &[ScalarValue]) -> Result<Value> {
    let Some(argument) = arguments.first() else { return Ok(Value::Null) };
    let oid = call.relation(argument)?.map(|object| object.oid);
    Ok(oid.and_then(|oid| relations::bytes(call.objects(), oid)).into())
}

/// Refuses to end a statement or connection of another role, unless the user is a superuser.
fn refuse_others(call: &Call<'_>, number: i32) -> Result<()> {
    let activity = call.source.facts.registry.activity();
    let user = activity.into_iter().find(|(it, _)| *it == number).map(|(_, it)| it.user);
    match user {
        Some(user) if !roles::may_control(call.source, &user) => {
            let text = format!("permission denied: connection {number} is of role {user}");
            Err(Failure::new(SqlState::DENIED, text).into())
        }
        _ => Ok(()),
    }
}

fn backend(arguments: &[ScalarValue]) -> Result<i32> {
    let number = arguments.first().and_then(integer);
    match number.and_then(|number| i32::try_from(number).ok()) {
        Some(number) => Ok(number),
        None => exec_err!("the number of a connection is an integer; pg_stat_activity lists them"),
    }
}

/// Returns a size with its unit, as `pg_size_pretty` does: the next larger unit begins at 10 240.
fn pretty(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let (mut number, mut unit) = (bytes, 0);
    while number.unsigned_abs() >= 10 * 1024 && unit + 1 < UNITS.len() {
        number = (number + number.signum() * 512) / 1024;
        unit += 1;
    }
    format!("{number} {}", UNITS.get(unit).unwrap_or(&"bytes"))
}

#[cfg(test)]
mod tests {
    use super::pretty;

    #[test]
    fn sizes_are_shown_as_in_postgresql() {
        for (bytes, shown) in [
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (1 << 20, "1024 kB"),
            (123_456_789, "118 MB"),
            (-20_480, "-20 kB"),
        ] {
            assert_eq!(pretty(bytes), shown);
        }
    }
}
