//! Functions and enums that users have defined: rows of `pg_proc`, `pg_type` and `pg_enum`.

use terrace_sql::session::{EnumReport, RoutineReport};

use super::source::Source;
use super::value::{Row, Value};
use super::{oids, roles, types};

/// `pg_language.oid` of SQL.
const SQL: i64 = 14;

/// Returns the rows of `pg_proc` for functions and macros.
pub(super) fn functions(source: &Source) -> Vec<Row> {
    source.names.routines().iter().map(|routine| function(routine, source)).collect()
}

fn function(routine: &RoutineReport, source: &Source) -> Row {
    let oid = |of: Option<&str>| {
        let known = of.and_then(types::by_any_name).or_else(|| types::by_name("any"));
        known.map_or(0, |of| of.oid)
    };
    let types = routine.parameters.iter().map(|(_, of)| oid(of.as_deref()));
    let names = routine.parameters.iter().map(|(name, _)| name.clone().unwrap_or_default());
    let volatility = match routine.volatility {
        "IMMUTABLE" => "i",
        "STABLE" => "s",
        _ => "v",
    };
    let count = i64::try_from(routine.parameters.len()).unwrap_or_default();
    vec![
        ("oid", oids::hashed(&["function", &routine.schema, &routine.key]).into()),
        ("proname", routine.name.as_str().into()),
        ("pronamespace", oids::of_schema(&routine.schema).into()),
        ("proowner", owner(routine.owner.as_deref(), source).into()),
        ("prolang", SQL.into()),
        ("procost", 100.0.into()),
        ("prorows", if routine.returns_rows { 1000.0.into() } else { 0.0.into() }),
        ("prokind", "f".into()),
        ("proisstrict", routine.is_strict.into()),
        ("proretset", routine.returns_rows.into()),
        ("provolatile", volatility.into()),
        ("proparallel", "u".into()),
        ("pronargs", count.into()),
        ("pronargdefaults", i64::try_from(routine.defaults).unwrap_or_default().into()),
        ("prorettype", oid(routine.returns.as_deref()).into()),
        ("proargtypes", Value::Ints(types.collect())),
        ("proargnames", Value::Texts(names.collect())),
        ("prosrc", routine.body.as_str().into()),
    ]
}

fn owner(name: Option<&str>, source: &Source) -> i64 {
    let roles = roles::roles(source);
    let known = name.and_then(|name| roles.iter().find(|role| role.name == name));
    known.map_or(oids::OWNER, |role| role.oid)
}

fn oid_of(of: &EnumReport) -> i64 {
    oids::hashed(&["type", &of.schema, &of.name])
}

/// Returns the rows of `pg_type` for enums.
pub(super) fn types(source: &Source) -> Vec<Row> {
    let row = |of: &EnumReport| -> Row {
        vec![
            ("oid", oid_of(of).into()),
            ("typname", of.name.as_str().into()),
            ("typnamespace", oids::of_schema(&of.schema).into()),
            ("typowner", owner(of.owner.as_deref(), source).into()),
            ("typlen", 4.into()),
            ("typbyval", true.into()),
            ("typtype", "e".into()),
            ("typcategory", "E".into()),
            ("typispreferred", false.into()),
            ("typisdefined", true.into()),
            ("typdelim", ",".into()),
            ("typalign", "i".into()),
            ("typstorage", "p".into()),
            ("typtypmod", (-1).into()),
        ]
    };
    source.names.enums().iter().map(row).collect()
}

/// Returns the rows of `pg_enum`.
pub(super) fn labels(source: &Source) -> Vec<Row> {
    let enums = source.names.enums();
    let rows = enums.iter().flat_map(|of| {
        (1_u32..).zip(&of.labels).map(move |(place, label)| -> Row {
            vec![
                ("oid", oids::hashed(&["label", &of.schema, &of.name, label]).into()),
                ("enumtypid", oid_of(of).into()),
                ("enumsortorder", f64::from(place).into()),
                ("enumlabel", label.as_str().into()),
            ]
        })
    });
    rows.collect()
}

/// Returns the rows of `information_schema.routines`.
pub(super) fn routines(source: &Source) -> Vec<Row> {
    let row = |routine: &RoutineReport| -> Row {
        let database = || Value::from(source.facts.database);
        let returns = routine.returns.as_deref();
        let data_type = returns.and_then(types::by_any_name).map(|of| of.sql_name);
        vec![
            ("specific_catalog", database()),
            ("specific_schema", routine.schema.as_str().into()),
            ("specific_name", routine.key.as_str().into()),
            ("routine_catalog", database()),
            ("routine_schema", routine.schema.as_str().into()),
            ("routine_name", routine.name.as_str().into()),
            ("routine_type", "FUNCTION".into()),
            ("data_type", data_type.unwrap_or("record").into()),
            ("routine_body", "SQL".into()),
            ("routine_definition", routine.body.as_str().into()),
            ("external_language", "SQL".into()),
            ("is_deterministic", yes_or_no(routine.volatility == "IMMUTABLE")),
            ("is_null_call", yes_or_no(routine.is_strict)),
            ("security_type", "INVOKER".into()),
        ]
    };
    source.names.routines().iter().map(row).collect()
}

fn yes_or_no(is_so: bool) -> Value {
    (if is_so { "YES" } else { "NO" }).into()
}
