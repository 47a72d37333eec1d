//! Functions that return definitions and descriptions.
//!
//! Of the definitions that these functions return, the database has only those of views and types:
//! it has no indexes, constraints, triggers, defaults or comments. So all other functions return
//! null, as PostgreSQL's do for an unknown OID.

use datafusion::common::{Result, ScalarValue};

use super::super::types;
use super::super::value::Value;
use super::argument::integer;
use super::call::Call;
use super::function::{Definition, Returns, lenient, strict};

/// Defines a function that returns a definition or description which the database never has.
const fn none(name: &'static str, most: usize) -> Definition {
    lenient(name, (1, most), Returns::Text, |_, _| Ok(Value::Null))
}

pub(super) const FUNCTIONS: &[Definition] = &[
    lenient("format_type", (2, 2), Returns::Text, |_, arguments| {
        let oid = arguments.first().and_then(integer);
        let modifier = arguments.get(1).and_then(integer);
        Ok(oid.map(|oid| types::format(oid, modifier)).into())
    }),
    strict("pg_get_viewdef", (1, 2), Returns::Text, view),
    none("pg_get_expr", 3),
    none("pg_get_indexdef", 3),
    none("pg_get_constraintdef", 2),
    none("pg_get_partition_constraintdef", 1),
    none("pg_get_partkeydef", 1),
    none("pg_get_ruledef", 2),
    none("pg_get_triggerdef", 2),
    none("pg_get_statisticsobjdef", 1),
    none("pg_get_statisticsobjdef_columns", 1),
    none("pg_get_functiondef", 1),
    none("pg_get_function_sqlbody", 1),
    none("pg_get_serial_sequence", 2),
    none("pg_get_replica_identity_index", 1),
    none("obj_description", 2),
    none("col_description", 2),
    none("shobj_description", 2),
    none("pg_index_column_has_property", 3),
    none("pg_index_has_property", 2),
    none("pg_indexam_has_property", 2),
    none("pg_tablespace_location", 1),
    none("acldefault", 2),
    // Privileges are in `information_schema.table_privileges`; the privilege columns of the catalog
    // are null.
    lenient("aclexplode", (1, 1), Returns::Grants, |_, _| Ok(Value::Null)),
    strict("pg_get_function_arguments", (1, 1), Returns::Text, |_, _| Ok("".into())),
    strict("pg_get_function_identity_arguments", (1, 1), Returns::Text, |_, _| Ok("".into())),
    strict("pg_get_function_result", (1, 1), Returns::Text, |_, _| Ok("\"any\"".into())),
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
