//! Functions that convert between names and OIDs, to which casts to `regclass` and the like are
//! rewritten.
//!
//! `regclass(x)` returns the OID of the relation that `x` names, `regclass_out(x)` its name, and
//! `to_regclass(x)` returns null where `regclass(x)` fails. An OID as the argument stands for
//! itself.

use datafusion::arrow::array::{Array as _, ArrayRef};
use datafusion::common::{Result, ScalarValue};

use super::super::value::Value;
use super::super::{defined, oids, roles, types};
use super::argument::{integer, items, text};
use super::call::{Call, missing};
use super::function::{Definition, Returns, strict};
use super::identifier::{identifiers, quote};

pub(super) const FUNCTIONS: &[Definition] = &[
    strict("regclass", (1, 1), Returns::Oid, |call, args| oid(call, args, &CLASS)),
    strict("regtype", (1, 1), Returns::Oid, |call, args| oid(call, args, &TYPE)),
    strict("regproc", (1, 1), Returns::Oid, |call, args| oid(call, args, &FUNCTION)),
    strict("regnamespace", (1, 1), Returns::Oid, |call, args| oid(call, args, &SCHEMA)),
    strict("regrole", (1, 1), Returns::Oid, |call, args| oid(call, args, &ROLE)),
    strict("regoper", (1, 1), Returns::Oid, |call, args| oid(call, args, &OPERATOR)),
    strict("to_regclass", (1, 1), Returns::Oid, |call, args| known(call, args, &CLASS)),
    strict("to_regtype", (1, 1), Returns::Oid, |call, args| known(call, args, &TYPE)),
    strict("to_regproc", (1, 1), Returns::Oid, |call, args| known(call, args, &FUNCTION)),
    strict("to_regnamespace", (1, 1), Returns::Oid, |call, args| known(call, args, &SCHEMA)),
    strict("to_regrole", (1, 1), Returns::Oid, |call, args| known(call, args, &ROLE)),
    strict("regclass_out", (1, 1), Returns::Text, |call, args| name(call, args, &CLASS)),
    strict("regtype_out", (1, 1), Returns::Text, |call, args| name(call, args, &TYPE)),
    strict("regproc_out", (1, 1), Returns::Text, |call, args| name(call, args, &FUNCTION)),
    strict("regnamespace_out", (1, 1), Returns::Text, |call, args| name(call, args, &SCHEMA)),
    strict("regrole_out", (1, 1), Returns::Text, |call, args| name(call, args, &ROLE)),
    strict("regoper_out", (1, 1), Returns::Text, |call, args| name(call, args, &OPERATOR)),
    strict("regtypes_out", (1, 1), Returns::Texts, |call, args| {
        let items = args.first().and_then(items);
        let item = |items: &ArrayRef, index| {
            let oid = integer(&ScalarValue::try_from_array(items, index).ok()?)?;
            (TYPE.name)(call, oid)
        };
        let names = items.iter().flat_map(|items| (0..items.len()).filter_map(|i| item(items, i)));
        Ok(Value::Texts(names.collect()))
    }),
    strict("pg_table_is_visible", (1, 1), Returns::Bool, table_is_visible),
    strict("pg_type_is_visible", (1, 1), Returns::Bool, |call, args| {
        let Some(oid) = args.first().and_then(integer) else { return Ok(Value::Null) };
        let own = || call.enum_with(oid).map(|of| call.is_visible(&of.schema));
        Ok(types::by_oid(oid).map(|_| true).or_else(own).into())
    }),
    strict("pg_function_is_visible", (1, 1), Returns::Bool, |call, args| {
        let Some(oid) = args.first().and_then(integer) else { return Ok(Value::Null) };
        let own = call.routine(oid).map(|routine| call.is_visible(&routine.schema));
        Ok(own.or_else(|| built_in(call, oid).map(|_| true)).into())
    }),
    strict("pg_collation_is_visible", (1, 1), Returns::Bool, |_, _| Ok(true.into())),
    none_visible("pg_conversion_is_visible"),
    none_visible("pg_opclass_is_visible"),
    none_visible("pg_operator_is_visible"),
    none_visible("pg_opfamily_is_visible"),
    none_visible("pg_statistics_obj_is_visible"),
    none_visible("pg_ts_config_is_visible"),
    none_visible("pg_ts_dict_is_visible"),
    none_visible("pg_ts_parser_is_visible"),
    none_visible("pg_ts_template_is_visible"),
    strict("pg_get_userbyid", (1, 1), Returns::Text, |call, args| {
        let oid = args.first().and_then(integer).unwrap_or(0);
        let unknown = || format!("unknown (OID={oid})");
        Ok((ROLE.name)(call, oid).unwrap_or_else(unknown).into())
    }),
];

/// Defines the visibility of a kind of object that the database never has.
const fn none_visible(name: &'static str) -> Definition {
    strict(name, (1, 1), Returns::Bool, |_, _| Ok(Value::Null))
}

/// A kind of object that has names and OIDs.
struct Kind {
    what: &'static str,
    oid: fn(&Call<'_>, &str) -> Option<i64>,
    name: fn(&Call<'_>, i64) -> Option<String>,
}

const CLASS: Kind = Kind {
    what: "relation",
    oid: |call, name| call.relation_named(name).map(|object| object.oid),
    name: |call, oid| {
        let object = call.objects().relation(oid)?;
        Some(call.visible_name(&object.schema, &object.name))
    },
};

const TYPE: Kind = Kind {
    what: "type",
    oid: |call, name| {
        let own = || call.enum_named(name).map(|of| defined::enum_oid(&of.schema, &of.name));
        types::by_any_name(name).map(|of| of.oid).or_else(own)
    },
    name: |call, oid| {
        let own = || call.enum_with(oid).map(|of| call.visible_name(&of.schema, &of.name));
        types::by_oid(oid).map(|of| of.sql_name.to_owned()).or_else(own)
    },
};

const FUNCTION: Kind = Kind {
    what: "function",
    oid: |call, text| {
        // Of several functions with one name, a text with types in parentheses (`regprocedure`)
        // selects the one with as many parameters.
        let (name, listed) = text.split_once('(').unwrap_or((text, ")"));
        let count = match listed.trim_end_matches([')', ' ']) {
            "" => 0,
            listed => listed.split(',').count(),
        };
        let parts = identifiers(name)?;
        let mut parts = parts.iter().rev();
        let name = parts.next()?;
        let schema = parts.next();
        let own = call.routines().iter().find(|routine| {
            let is_there = match schema {
                Some(schema) => routine.schema == *schema,
                None => call.is_visible(&routine.schema),
            };
            let is_meant = !text.contains('(') || routine.parameters.len() == count;
            is_there && is_meant && routine.name == *name
        });
        let of_type = || types::functions().find(|(_, known)| known == name).map(|(oid, _)| oid);
        let built_in = || {
            let mut functions = call.source.functions.all().iter();
            let found = functions.find(|(known, _)| known == name)?;
            Some(oids::hashed(&[&found.0]))
        };
        own.map(defined::routine_oid).or_else(of_type).or_else(built_in)
    },
    name: |call, oid| {
        let own = call.routine(oid);
        let own = own.map(|routine| call.visible_name(&routine.schema, &routine.name));
        own.or_else(|| built_in(call, oid))
    },
};

/// Returns the name of the built-in function with an OID.
fn built_in(call: &Call<'_>, oid: i64) -> Option<String> {
    let of_type = types::functions().find(|(known, _)| *known == oid);
    let own = || {
        let mut functions = call.source.functions.all().iter();
        let found = functions.find(|(name, _)| oids::hashed(&[name]) == oid)?;
        Some(found.0.clone())
    };
    of_type.map(|(_, name)| name.to_owned()).or_else(own)
}

const SCHEMA: Kind = Kind {
    what: "schema",
    oid: |call, name| {
        let parts = identifiers(name)?;
        call.objects().schema_oid(parts.first()?)
    },
    name: |call, oid| {
        let schema = call.objects().schemas.iter().find(|schema| schema.oid == oid)?;
        Some(quote(&schema.name))
    },
};

const ROLE: Kind = Kind {
    what: "role",
    oid: |call, name| {
        let parts = identifiers(name)?;
        let name = parts.first()?;
        let roles = roles::roles(call.source);
        roles.iter().find(|role| role.name == *name).map(|role| role.oid)
    },
    name: |call, oid| {
        let roles = roles::roles(call.source);
        roles.into_iter().find(|role| role.oid == oid).map(|role| role.name)
    },
};

/// Operators: none is known, since `pg_operator` has no rows.
const OPERATOR: Kind = Kind { what: "operator", oid: |_, _| None, name: |_, _| None };

fn table_is_visible(call: &Call<'_>, arguments: &[ScalarValue]) -> Result<Value> {
    let oid = arguments.first().and_then(integer);
    let Some(object) = oid.and_then(|oid| call.objects().relation(oid)) else {
        return Ok(Value::Null);
    };
    // An object of an earlier schema hides one of the same name.
    let is_found = || {
        let found = call.objects().named(None, &object.name, &call.path);
        found.is_some_and(|found| found.oid == object.oid)
    };
    Ok((call.is_visible(&object.schema) && is_found()).into())
}

fn oid(call: &Call<'_>, arguments: &[ScalarValue], kind: &Kind) -> Result<Value> {
    let Some(argument) = arguments.first() else { return Ok(Value::Null) };
    if let Some(oid) = integer(argument) {
        return Ok(oid.into());
    }
    match text(argument).unwrap_or_default().as_str() {
        "-" => Ok(0.into()),
        name => match (kind.oid)(call, name) {
            Some(oid) => Ok(oid.into()),
            None => Err(missing(kind.what, name)),
        },
    }
}

fn known(call: &Call<'_>, arguments: &[ScalarValue], kind: &Kind) -> Result<Value> {
    let Some(argument) = arguments.first() else { return Ok(Value::Null) };
    let name = text(argument).unwrap_or_default();
    Ok(integer(argument).or_else(|| (kind.oid)(call, &name)).into())
}

fn name(call: &Call<'_>, arguments: &[ScalarValue], kind: &Kind) -> Result<Value> {
    let Value::Int(oid) = oid(call, arguments, kind)? else { return Ok(Value::Null) };
    Ok(match oid {
        0 => "-".into(),
        oid => (kind.name)(call, oid).unwrap_or_else(|| oid.to_string()).into(),
    })
}
