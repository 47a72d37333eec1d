//! Functions that check privileges and memberships of roles.

use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err};
use terrace_sql::SqlError;
use terrace_sql::access::Privilege;

use super::super::roles;
use super::super::value::Value;
use super::argument::{integer, text};
use super::call::Call;
use super::function::{Definition, Returns, strict};

/// The schema whose relations report the state of the engine.
const ENGINE: &str = "terrace";

/// Defines a privilege check that every role passes.
const fn right(name: &'static str, arguments: (usize, usize)) -> Definition {
    strict(name, arguments, Returns::Bool, |_, _| Ok(true.into()))
}

pub(super) const FUNCTIONS: &[Definition] = &[
    strict("has_table_privilege", (2, 3), Returns::Bool, has_table_privilege),
    strict("has_any_column_privilege", (2, 3), Returns::Bool, has_table_privilege),
    strict("has_column_privilege", (3, 4), Returns::Bool, |call, arguments| {
        // The column is the last argument but one; privileges are on whole tables.
        let mut arguments = arguments.to_vec();
        arguments.remove(arguments.len() - 2);
        has_table_privilege(call, &arguments)
    }),
    strict("has_schema_privilege", (2, 3), Returns::Bool, has_schema_privilege),
    right("has_database_privilege", (2, 3)),
    right("has_function_privilege", (2, 3)),
    right("has_sequence_privilege", (2, 3)),
    right("has_type_privilege", (2, 3)),
    right("has_language_privilege", (2, 3)),
    right("has_tablespace_privilege", (2, 3)),
    right("has_foreign_data_wrapper_privilege", (2, 3)),
    right("has_server_privilege", (2, 3)),
    strict("pg_has_role", (2, 3), Returns::Bool, pg_has_role),
    strict("role_memberships", (1, 1), Returns::Texts, |call, arguments| {
        let oid = arguments.first().and_then(integer).unwrap_or(0);
        Ok(Value::Texts(roles::membership_names(call.source, oid)))
    }),
];

/// Returns the name of the role that an argument names or whose OID it is; `None` if no role has
/// the OID.
///
/// # Errors
/// A name that no role has.
fn role_named(call: &Call<'_>, argument: &ScalarValue) -> Result<Option<String>> {
    let (oid, name) = (integer(argument), text(argument).unwrap_or_default());
    let mut all = roles::roles(call.source).into_iter();
    match all.find(|role| Some(role.oid) == oid || role.name == name) {
        None if oid.is_none() => Err(missing_role(name)),
        found => Ok(found.map(|role| role.name)),
    }
}

fn missing_role(name: String) -> DataFusionError {
    SqlError::MissingRole { name }.into()
}

/// Parses the arguments of a privilege check into the role, the object, and the privileges, one of
/// which suffices.
fn question<'a>(
    call: &Call<'_>,
    arguments: &'a [ScalarValue],
) -> Result<(Option<String>, &'a ScalarValue, Vec<Privilege>)> {
    let (role, object, privileges) = match arguments {
        [object, privileges] => (call.source.facts.acting_role(), object, privileges),
        [role, object, privileges] => {
            let found = role_named(call, role)?;
            let name = || missing_role(text(role).unwrap_or_default());
            (Some(found.ok_or_else(name)?), object, privileges)
        }
        _ => return exec_err!("a privilege is asked about with a role, an object and its name"),
    };
    let text = text(privileges).unwrap_or_default().to_uppercase();
    let names = text.split(',').map(|name| name.trim().trim_end_matches(" WITH GRANT OPTION"));
    let known = |name| Privilege::ALL.into_iter().find(|privilege| privilege.keyword() == name);
    Ok((role, object, names.filter_map(known).collect()))
}

fn has_table_privilege(call: &Call<'_>, arguments: &[ScalarValue]) -> Result<Value> {
    let (role, object, privileges) = question(call, arguments)?;
    let Some(object) = call.relation(object)? else { return Ok(Value::Null) };
    let (schema, name) = (object.schema.as_str(), object.name.as_str());
    let role = role.as_deref();
    let allows = |privilege: &Privilege| match object.is_of_user() {
        true => roles::allows(call.source, role, *privilege, schema, Some(name)),
        // Every role may read these, except for the state of the engine.
        false => *privilege == Privilege::Select && schema != ENGINE,
    };
    let is_superuser = roles::is_superuser(call.source, role);
    Ok((is_superuser || privileges.iter().any(allows)).into())
}

fn has_schema_privilege(call: &Call<'_>, arguments: &[ScalarValue]) -> Result<Value> {
    let (role, schema, privileges) = question(call, arguments)?;
    let of_oid = |oid| {
        let schemas = &call.objects().schemas;
        schemas.iter().find(|schema| schema.oid == oid).map(|schema| schema.name.clone())
    };
    let name = match integer(schema) {
        Some(oid) => of_oid(oid),
        None => text(schema),
    };
    let Some(name) = name else { return Ok(Value::Null) };
    let role = role.as_deref();
    let allows = |it: &Privilege| roles::allows(call.source, role, *it, &name, None);
    Ok(privileges.iter().any(allows).into())
}

/// True if a role is another or its member (MEMBER), has its privileges (USAGE), may act as it
/// (SET), or may change its members (WITH ADMIN OPTION). Of several listed privileges, one
/// suffices.
fn pg_has_role(call: &Call<'_>, arguments: &[ScalarValue]) -> Result<Value> {
    let (role, other, privileges) = match arguments {
        [other, privileges] => (call.source.facts.acting_role(), other, privileges),
        [role, other, privileges] => match role_named(call, role)? {
            None => return Ok(false.into()),
            role => (role, other, privileges),
        },
        _ => return exec_err!("a membership is asked about with roles and its name"),
    };
    let Some(other) = role_named(call, other)? else { return Ok(false.into()) };
    let (source, role, mut has) = (call.source, role.as_deref(), false);
    for privilege in text(privileges).unwrap_or_default().split(',') {
        has |= match privilege.trim().to_uppercase().as_str() {
            "MEMBER" => roles::is_member(source, role, &other),
            "USAGE" => roles::has_privileges_of(source, role, &other),
            "SET" => roles::is_member(source, role, &other),
            "MEMBER WITH ADMIN OPTION"
            | "MEMBER WITH GRANT OPTION"
            | "USAGE WITH ADMIN OPTION"
            | "USAGE WITH GRANT OPTION"
            | "SET WITH ADMIN OPTION"
            | "SET WITH GRANT OPTION" => roles::administers(source, role, &other),
            _ => return exec_err!("unrecognized privilege type: \"{}\"", privilege.trim()),
        };
    }
    Ok(has.into())
}
