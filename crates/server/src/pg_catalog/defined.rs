//! Functions and enums that users have defined: rows of `pg_proc`, `pg_type` and `pg_enum`.

use datafusion::common::TableReference;
use terrace_sql::session::{EnumReport, RoutineReport};

use super::source::Source;
use super::value::{Row, Value};
use super::{oids, roles, types};

/// `pg_language.oid` of the languages `internal`, that of built-in functions, and `sql`.
pub(super) const INTERNAL: i64 = 12;
const SQL: i64 = 14;

/// Returns the rows of `pg_language`.
pub(super) fn languages() -> Vec<Row> {
    let row = |(oid, name): (i64, &str)| -> Row {
        vec![
            ("oid", oid.into()),
            ("lanname", name.into()),
            ("lanowner", oids::OWNER.into()),
            ("lanpltrusted", (oid == SQL).into()),
        ]
    };
    [(INTERNAL, "internal"), (SQL, "sql")].into_iter().map(row).collect()
}

/// Returns the OID of a function or macro.
pub(super) fn routine_oid(routine: &RoutineReport) -> i64 {
    oids::hashed(&["function", &routine.schema, &routine.key])
}

/// Returns the OID of an enum.
pub(super) fn enum_oid(schema: &str, name: &str) -> i64 {
    oids::hashed(&["type", schema, name])
}

/// Returns the enum that a text names: in the schema if it names one, else in the first of
/// `schemas` that has it.
pub(super) fn enum_named<'a>(
    enums: &'a [EnumReport],
    schemas: &[String],
    text: &str,
) -> Option<&'a EnumReport> {
    let parts = TableReference::parse_str(text);
    let name = parts.table();
    let found = |schema: &str| enums.iter().find(|of| of.schema == schema && of.name == name);
    match parts.schema() {
        Some(schema) => found(schema),
        None => schemas.iter().find_map(|schema| found(schema)),
    }
}

/// Returns the rows of `pg_proc` for functions and macros that users have defined.
pub(super) fn functions(source: &Source) -> Vec<Row> {
    let (routines, enums) = (source.names.routines(), source.names.enums());
    routines.iter().map(|routine| function(routine, &enums, source)).collect()
}

fn function(routine: &RoutineReport, enums: &[EnumReport], source: &Source) -> Row {
    let oid = |of: Option<&str>| {
        let known = of.and_then(types::by_any_name).map(|of| of.oid);
        let schemas = [routine.schema.clone(), "public".to_owned()];
        let own = || enum_named(enums, &schemas, of?).map(|of| enum_oid(&of.schema, &of.name));
        let any = || types::by_name("any").map(|of| of.oid);
        known.or_else(own).or_else(any).unwrap_or(0)
    };
    let types = routine.parameters.iter().map(|(_, of)| oid(of.as_deref()));
    let names = routine.parameters.iter().map(|(name, _)| name.clone().unwrap_or_default());
    let volatility = match routine.volatility {
        "IMMUTABLE" => "i",
        "STABLE" => "s",
        _ => "v",
    };
    let count = i64::try_from(routine.parameters.len()).unwrap_or_default();
    let defaults = routine.defaults.iter().flatten().count();
    vec![
        ("oid", routine_oid(routine).into()),
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
        ("pronargdefaults", i64::try_from(defaults).unwrap_or_default().into()),
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
    enum_oid(&of.schema, &of.name)
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
