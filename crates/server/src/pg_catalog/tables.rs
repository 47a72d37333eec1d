//! Computes the rows of `pg_catalog`'s relations. A relation that is not listed here has no rows,
//! since the database has no such objects.

use terrace_sql::SqlError;

use super::definition::Definition;
use super::objects::{Objects, Schema};
use super::schemas::INFORMATION_SCHEMA;
use super::source::Source;
use super::value::{Row, Value};
use super::{activity, defined, described, functions, information, oids, relations, roles, types};

/// The relations that [`rows`] returns rows for.
const FILLED: &[&str] = &[
    "pg_attrdef",
    "pg_attribute",
    "pg_auth_members",
    "pg_authid",
    "pg_class",
    "pg_collation",
    "pg_constraint",
    "pg_database",
    "pg_description",
    "pg_enum",
    "pg_language",
    "pg_namespace",
    "pg_proc",
    "pg_roles",
    "pg_sequence",
    "pg_sequences",
    "pg_settings",
    "pg_shadow",
    "pg_stat_activity",
    "pg_stat_all_tables",
    "pg_stat_database",
    "pg_stat_gssapi",
    "pg_stat_ssl",
    "pg_stat_sys_tables",
    "pg_stat_user_tables",
    "pg_statio_all_tables",
    "pg_statio_sys_tables",
    "pg_statio_user_tables",
    "pg_tables",
    "pg_tablespace",
    "pg_timezone_names",
    "pg_type",
    "pg_user",
    "pg_views",
];

/// True for a relation of `pg_catalog` that never has rows.
pub(super) fn is_empty(name: &str) -> bool {
    !FILLED.contains(&name)
}

/// Returns the rows of a relation.
///
/// # Errors
/// Errors of planning views of the database, whose columns are listed.
pub(super) async fn rows(definition: &Definition, source: &Source) -> Result<Vec<Row>, SqlError> {
    if definition.schema == INFORMATION_SCHEMA {
        return information::rows(definition.name, source).await;
    }
    if is_empty(definition.name) {
        return Ok(vec![]);
    }
    let objects = || Objects::of(&source.names);
    Ok(match definition.name {
        "pg_attrdef" => described::defaults(source).await?,
        "pg_attribute" => relations::attributes(source).await?,
        "pg_constraint" => described::constraints(source),
        "pg_description" => described::comments(source).await?,
        "pg_sequence" => described::sequence_options(source),
        "pg_sequences" => described::sequence_values(source),
        "pg_class" => relations::classes(source).await?,
        "pg_namespace" => {
            objects().schemas.iter().map(|schema| namespace(schema, source)).collect()
        }
        "pg_tables" => relations::tables(&objects(), source),
        "pg_views" => relations::views(&objects(), source),
        "pg_stat_all_tables" | "pg_statio_all_tables" => {
            relations::statistics(&objects(), |_| true)
        }
        "pg_stat_user_tables" | "pg_statio_user_tables" => {
            relations::statistics(&objects(), |object| object.is_of_user())
        }
        "pg_stat_sys_tables" | "pg_statio_sys_tables" => {
            relations::statistics(&objects(), |object| !object.is_of_user())
        }
        "pg_type" => types::rows().into_iter().chain(defined::types(source)).collect(),
        "pg_enum" => defined::labels(source),
        "pg_language" => defined::languages(),
        "pg_proc" => {
            functions::rows(source).into_iter().chain(defined::functions(source)).collect()
        }
        "pg_collation" => collations(),
        "pg_database" => vec![database(source)],
        "pg_tablespace" => vec![vec![
            ("oid", oids::TABLESPACE.into()),
            ("spcname", "pg_default".into()),
            ("spcowner", oids::OWNER.into()),
        ]],
        "pg_auth_members" => roles::memberships(source).iter().map(roles::membership).collect(),
        "pg_authid" | "pg_roles" => roles::roles(source).iter().map(roles::role).collect(),
        "pg_user" | "pg_shadow" => roles::roles(source).iter().map(roles::user).collect(),
        // A session without a connection has the settings of `SHOW ALL` alone.
        "pg_settings" if source.facts.number == 0 => vec![],
        "pg_settings" => source.facts.settings.rows().into_iter().map(setting).collect(),
        "pg_stat_activity" => activity::rows(source),
        "pg_stat_database" => vec![activity::database(source)],
        "pg_stat_gssapi" | "pg_stat_ssl" => vec![activity::encryption(source)],
        "pg_timezone_names" => vec![vec![("name", "UTC".into()), ("abbrev", "UTC".into())]],
        _ => vec![],
    })
}

fn namespace(schema: &Schema, source: &Source) -> Row {
    vec![
        ("oid", schema.oid.into()),
        ("nspname", schema.name.as_str().into()),
        ("nspowner", roles::owner_oid(source, &schema.name, None).into()),
    ]
}

/// Returns the rows of `pg_collation`. Texts are compared by their bytes.
fn collations() -> Vec<Row> {
    let named = [(100, "default", "d"), (950, "C", "c"), (951, "POSIX", "c")];
    let row = |(oid, name, provider): (i64, &str, &str)| -> Row {
        vec![
            ("oid", oid.into()),
            ("collname", name.into()),
            ("collnamespace", oids::PG_CATALOG.into()),
            ("collowner", oids::OWNER.into()),
            ("collprovider", provider.into()),
            ("collisdeterministic", true.into()),
            ("collencoding", (-1).into()),
            ("collcollate", (name != "default").then_some(name).into()),
            ("collctype", (name != "default").then_some(name).into()),
        ]
    };
    named.into_iter().map(row).collect()
}

fn database(source: &Source) -> Row {
    vec![
        ("oid", oids::DATABASE.into()),
        ("datname", source.facts.database.into()),
        ("datdba", oids::OWNER.into()),
        ("encoding", functions::UTF8.into()),
        ("datlocprovider", "c".into()),
        ("datallowconn", true.into()),
        ("datconnlimit", (-1).into()),
        ("dattablespace", oids::TABLESPACE.into()),
        ("datcollate", "C".into()),
        ("datctype", "C".into()),
    ]
}

/// Returns a row of `pg_settings`, from a setting's name, value and default.
fn setting((name, value, default): (&'static str, String, String)) -> Row {
    let source = if value == default { "default" } else { "session" };
    vec![
        ("name", name.into()),
        ("setting", Value::Text(value.clone())),
        ("category", "Settings of the connection".into()),
        ("context", "user".into()),
        ("vartype", "string".into()),
        ("source", source.into()),
        ("boot_val", default.clone().into()),
        ("reset_val", default.into()),
    ]
}
