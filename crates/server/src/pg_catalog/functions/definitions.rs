//! Functions that return definitions of objects and comments on them, such as `pg_get_viewdef`.
//!
//! The database has definitions of views, types, defaults and CHECK constraints, and comments.
//! Functions about other objects, such as indexes and triggers, return null, as PostgreSQL's do for
//! an unknown OID.

use datafusion::common::{Result, ScalarValue};
use futures::FutureExt as _;

use super::super::value::Value;
use super::super::{column_facts, described};
use super::argument::{integer, text};
use super::call::Call;
use super::function::{Definition, Returns, lenient, strict};

/// Defines a function that returns a definition or description which the database never has.
const fn none(name: &'static str, most: usize) -> Definition {
    lenient(name, (1, most), Returns::Text, |_, _| Ok(Value::Null))
}

pub(super) const FUNCTIONS: &[Definition] = &[
    lenient("format_type", (2, 2), Returns::Text, |call, arguments| {
        let oid = arguments.first().and_then(integer);
        let modifier = arguments.get(1).and_then(integer);
        Ok(oid.map(|oid| call.format_type(oid, modifier)).into())
    }),
    strict("pg_get_viewdef", (1, 2), Returns::Text, view),
    strict("pg_get_expr", (2, 3), Returns::Text, |_, arguments| {
        Ok(arguments.first().and_then(text).into())
    }),
    none("pg_get_indexdef", 3),
    strict("pg_get_constraintdef", (1, 2), Returns::Text, |call, arguments| {
        let oid = arguments.first().and_then(integer);
        let found = oid.and_then(|oid| described::constraint(call.objects(), call.source, oid));
        Ok(found.into())
    }),
    none("pg_get_partition_constraintdef", 1),
    none("pg_get_partkeydef", 1),
    none("pg_get_ruledef", 2),
    none("pg_get_triggerdef", 2),
    none("pg_get_statisticsobjdef", 1),
    none("pg_get_statisticsobjdef_columns", 1),
    strict("pg_get_serial_sequence", (2, 2), Returns::Text, serial_sequence),
    none("pg_get_replica_identity_index", 1),
    strict("obj_description", (1, 2), Returns::Text, object_comment),
    strict("col_description", (2, 2), Returns::Text, column_comment),
    none("shobj_description", 2),
    none("pg_index_column_has_property", 3),
    none("pg_index_has_property", 2),
    none("pg_indexam_has_property", 2),
    none("pg_tablespace_location", 1),
    none("acldefault", 2),
    // Privileges are in `information_schema.table_privileges`; the privilege columns of the catalog
    // are null.
    lenient("aclexplode", (1, 1), Returns::Grants, |_, _| Ok(Value::Null)),
    strict("pg_partition_ancestors", (1, 1), Returns::Ints, |_, _| Ok(Value::Ints(vec![]))),
    strict("pg_relation_is_publishable", (1, 1), Returns::Bool, |_, _| Ok(false.into())),
    strict("pg_is_other_temp_schema", (1, 1), Returns::Bool, |_, _| Ok(false.into())),
];

/// Returns the query of a view, with a semicolon like PostgreSQL.
fn view(call: &Call<'_>, arguments: &[ScalarValue]) -> Result<Value> {
    let Some(argument) = arguments.first() else { return Ok(Value::Null) };
    let query = call.relation(argument)?.and_then(|object| object.query());
    Ok(query.map(|query| format!(" {query};")).into())
}

/// Returns the comment on a relation, a schema, a type or a function.
fn object_comment(call: &Call<'_>, arguments: &[ScalarValue]) -> Result<Value> {
    let Some(oid) = arguments.first().and_then(integer) else { return Ok(Value::Null) };
    let catalog = arguments.get(1).and_then(text).unwrap_or_else(|| "pg_class".to_owned());
    let (objects, names) = (call.objects(), &call.source.names);
    let found = match catalog.as_str() {
        "pg_namespace" => {
            let schema = objects.schemas.iter().find(|schema| schema.oid == oid);
            schema.and_then(|schema| names.comment(&schema.name, None))
        }
        "pg_type" => call.enum_with(oid).and_then(|of| of.comment.clone()),
        "pg_proc" => call.routine(oid).and_then(|routine| routine.comment.clone()),
        "pg_class" => {
            let object = objects.relation(oid).filter(|object| object.is_of_user());
            object.and_then(|object| names.comment(&object.schema, Some(&object.name)))
        }
        _ => None,
    };
    Ok(found.into())
}

/// Returns the comment on a column.
fn column_comment(call: &Call<'_>, arguments: &[ScalarValue]) -> Result<Value> {
    let (Some(oid), Some(number)) =
        (arguments.first().and_then(integer), arguments.get(1).and_then(integer))
    else {
        return Ok(Value::Null);
    };
    let object = call.objects().relation(oid).filter(|object| object.is_of_user());
    let Some(object) = object else { return Ok(Value::Null) };
    let names = &call.source.names;
    // Planning a view does not wait for anything.
    let columns = names.columns(&object.schema, &object.name).now_or_never();
    let columns = columns.and_then(Result::ok).flatten();
    let place = usize::try_from(number - 1).ok();
    let column = columns.as_ref().zip(place).and_then(|(it, place)| it.fields().get(place));
    let comment = |name: &str| names.column_comment(&object.schema, &object.name, name);
    Ok(column.and_then(|column| comment(column.name())).into())
}

/// Returns the sequence of a SERIAL or identity column.
fn serial_sequence(call: &Call<'_>, arguments: &[ScalarValue]) -> Result<Value> {
    let (Some(table), Some(column)) = (arguments.first(), arguments.get(1).and_then(text)) else {
        return Ok(Value::Null);
    };
    let Some(object) = call.relation(table)? else { return Ok(Value::Null) };
    let properties = column_facts::properties(object, call.source);
    let sequence = properties.of(&column).and_then(|column| column.sequence.clone());
    Ok(sequence.map(|sequence| format!("{}.{sequence}", object.schema)).into())
}
