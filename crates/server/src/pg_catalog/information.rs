//! Rows of the views of `information_schema`.

use terrace_sql::SqlError;

use super::objects::{Object, Objects};
use super::relations::{self, Attribute};
use super::schemas::SCHEMA;
use super::source::Source;
use super::value::{Row, Value};
use super::{column_facts, defined, described, roles, types};

/// Privileges of a table's owner.
const PRIVILEGES: &[&str] =
    &["INSERT", "SELECT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"];

/// Returns the rows of the view `name`.
///
/// # Errors
/// Errors of planning views of the database, whose columns are listed.
pub(super) async fn rows(name: &str, source: &Source) -> Result<Vec<Row>, SqlError> {
    let objects = Objects::of(&source.names);
    let database = || Value::from(source.facts.database);
    Ok(match name {
        "columns" => columns(&objects, source).await?,
        "tables" => {
            let tables = objects.relations.iter().filter(|object| object.relkind() != "S");
            tables.map(|object| table(object, source)).collect()
        }
        "sequences" => described::sequences_of_standard(&objects, source),
        "table_constraints" => {
            let all = described::constraints_of_standard(&objects, source).await?;
            all.into_iter().map(|(of_table, _)| of_table).collect()
        }
        "check_constraints" => {
            let all = described::constraints_of_standard(&objects, source).await?;
            all.into_iter().map(|(_, check)| check).collect()
        }
        "views" => {
            let views = objects.relations.iter().filter(|object| object.relkind() == "v");
            views.map(|object| view(object, source)).collect()
        }
        "schemata" => {
            let schemata = objects.schemas.iter().map(|schema| {
                vec![
                    ("catalog_name", database()),
                    ("schema_name", schema.name.as_str().into()),
                    ("schema_owner", roles::owner(source, &schema.name, None).into()),
                ]
            });
            schemata.collect()
        }
        "table_privileges" | "role_table_grants" => {
            let of = objects.relations.iter().filter(|object| object.is_of_user());
            let of = of.filter(|object| object.relkind() != "S");
            of.flat_map(|object| privileges(object, source)).collect()
        }
        "column_privileges" | "role_column_grants" => column_privileges(&objects, source).await?,
        "enabled_roles" => {
            let enabled = roles::enabled(source).into_iter();
            enabled.map(|name| vec![("role_name", Value::from(name))]).collect()
        }
        "applicable_roles" => applicable_roles(source, |_| true),
        "administrable_role_authorizations" => {
            applicable_roles(source, |membership| membership.is_admin)
        }
        "routines" => defined::routines(source),
        "information_schema_catalog_name" => vec![vec![("catalog_name", database())]],
        "character_sets" => vec![vec![
            ("character_set_name", "UTF8".into()),
            ("character_repertoire", "UCS".into()),
            ("form_of_use", "UTF8".into()),
            ("default_collate_catalog", database()),
            ("default_collate_schema", SCHEMA.into()),
            ("default_collate_name", "default".into()),
        ]],
        _ => vec![],
    })
}

/// Returns the database, schema and name of a relation.
fn place(object: &Object, source: &Source) -> Row {
    vec![
        ("table_catalog", source.facts.database.into()),
        ("table_schema", object.schema.as_str().into()),
        ("table_name", object.name.as_str().into()),
    ]
}

fn table(object: &Object, source: &Source) -> Row {
    let table_type = match object.relkind() {
        "v" => "VIEW",
        "f" => "FOREIGN",
        _ => "BASE TABLE",
    };
    let is_insertable = object.size().is_some();
    let mut row = place(object, source);
    row.extend([
        ("table_type", table_type.into()),
        ("self_referencing_column_name", Value::Null),
        ("reference_generation", Value::Null),
        ("user_defined_type_catalog", Value::Null),
        ("user_defined_type_schema", Value::Null),
        ("user_defined_type_name", Value::Null),
        ("is_insertable_into", yes(is_insertable)),
        ("is_typed", yes(false)),
    ]);
    row
}

fn view(object: &Object, source: &Source) -> Row {
    let mut row = place(object, source);
    row.push(("view_definition", object.query().into()));
    row.push(("check_option", "NONE".into()));
    let names = [
        "is_updatable",
        "is_insertable_into",
        "is_trigger_updatable",
        "is_trigger_deletable",
        "is_trigger_insertable_into",
    ];
    row.extend(names.map(|name| (name, yes(false))));
    row
}

fn privileges(object: &Object, source: &Source) -> Vec<Row> {
    let owner = roles::owner(source, &object.schema, Some(&object.name)).unwrap_or_default();
    let of = |grantee: &str, privilege: &'static str| {
        let mut row = place(object, source);
        row.extend([
            ("grantor", owner.as_str().into()),
            ("grantee", grantee.into()),
            ("privilege_type", privilege.into()),
            ("is_grantable", yes(grantee == owner)),
            ("with_hierarchy", yes(privilege == "SELECT")),
        ]);
        row
    };
    let mut rows: Vec<Row> = PRIVILEGES.iter().map(|privilege| of(&owner, privilege)).collect();
    let access = source.names.access(&object.schema, Some(&object.name)).unwrap_or_default();
    for (grantee, held) in &access.grants {
        let grantee = grantee.to_string();
        rows.extend(held.iter().map(|privilege| of(&grantee, privilege.keyword())));
    }
    rows
}

/// Returns the memberships for which `is_listed` is true, of the roles whose privileges the user of
/// the connection has.
fn applicable_roles(source: &Source, is_listed: impl Fn(&roles::Membership) -> bool) -> Vec<Row> {
    let enabled = roles::enabled(source);
    let all = roles::memberships(source).into_iter();
    let listed = all.filter(|membership| enabled.contains(&membership.member));
    let row = |membership: roles::Membership| -> Row {
        vec![
            ("is_grantable", yes(membership.is_admin)),
            ("grantee", membership.member.into()),
            ("role_name", membership.role.into()),
        ]
    };
    listed.filter(|membership| is_listed(membership)).map(row).collect()
}

/// Returns, for each column, those privileges on its table that PostgreSQL also has for columns,
/// such as SELECT but not DELETE.
async fn column_privileges(objects: &Objects, source: &Source) -> Result<Vec<Row>, SqlError> {
    let mut rows = Vec::new();
    for object in objects.relations.iter().filter(|object| object.is_of_user()) {
        let columns = relations::columns(object, source).await?;
        let of_columns = |row: &Row| {
            let is_of_columns = |value: &Value| {
                ["INSERT", "SELECT", "UPDATE", "REFERENCES"].iter().any(|it| *value == (*it).into())
            };
            row.iter().any(|(name, value)| *name == "privilege_type" && is_of_columns(value))
        };
        for row in privileges(object, source).into_iter().filter(of_columns) {
            rows.extend(columns.iter().map(|column| {
                let mut row = row.clone();
                row.push(("column_name", column.name.as_str().into()));
                row
            }));
        }
    }
    Ok(rows)
}

fn yes(is: bool) -> Value {
    if is { "YES" } else { "NO" }.into()
}

async fn columns(objects: &Objects, source: &Source) -> Result<Vec<Row>, SqlError> {
    let mut rows = Vec::new();
    for object in &objects.relations {
        let columns = relations::columns(object, source).await?;
        let properties = column_facts::properties(object, source);
        rows.extend(columns.iter().zip(1..).map(|(column, number)| {
            let mut row = place(object, source);
            row.extend(self::column(column, number, object, source));
            row.extend(described::values_of(object, source, &properties, &column.name));
            row
        }));
    }
    Ok(rows)
}

fn column(column: &Attribute, number: i64, object: &Object, source: &Source) -> Row {
    let of = types::by_oid(column.type_oid);
    let sql_name = of.map_or("text", |of| of.sql_name);
    let name = of.map_or("text", |of| of.name);
    let (precision, radix, scale) = precision(name, column.modifier);
    let digits_of_second = match name {
        "timestamp" | "timestamptz" | "time" | "interval" => Value::Int(6),
        "date" => Value::Int(0),
        _ => Value::Null,
    };
    let data_type = match &column.of_enum {
        Some(_) => "USER-DEFINED",
        None if sql_name.ends_with("[]") => "ARRAY",
        None => sql_name,
    };
    let (udt_schema, udt_name) = match &column.of_enum {
        Some((schema, name)) => (schema.as_str(), name.as_str()),
        None => (SCHEMA, name),
    };
    let name = if column.of_enum.is_some() { "" } else { name };
    let is_text = matches!(name, "text" | "varchar" | "bpchar");
    // The modifier of a text is its length plus 4, the size of a header in bytes.
    let length = (is_text && column.modifier > 4).then_some(column.modifier - 4);
    let octets = is_text.then(|| length.map_or(1 << 30, |length| 4 * length));
    vec![
        ("column_name", column.name.as_str().into()),
        ("ordinal_position", number.into()),
        ("is_nullable", yes(column.is_nullable)),
        ("data_type", data_type.into()),
        ("character_maximum_length", length.map(Value::Int).into()),
        ("character_octet_length", octets.map(Value::Int).into()),
        ("numeric_precision", precision.into()),
        ("numeric_precision_radix", radix.into()),
        ("numeric_scale", scale.into()),
        ("datetime_precision", digits_of_second),
        ("interval_precision", Value::Null),
        ("character_set_catalog", Value::Null),
        ("character_set_schema", Value::Null),
        ("character_set_name", Value::Null),
        ("collation_catalog", Value::Null),
        ("collation_schema", Value::Null),
        ("collation_name", Value::Null),
        ("domain_catalog", Value::Null),
        ("domain_schema", Value::Null),
        ("domain_name", Value::Null),
        ("udt_catalog", source.facts.database.into()),
        ("udt_schema", udt_schema.into()),
        ("udt_name", udt_name.into()),
        ("scope_catalog", Value::Null),
        ("scope_schema", Value::Null),
        ("scope_name", Value::Null),
        ("maximum_cardinality", Value::Null),
        ("dtd_identifier", number.to_string().into()),
        ("is_self_referencing", yes(false)),
        ("is_updatable", yes(object.size().is_some())),
    ]
}

/// Returns the precision, its radix (2 or 10) and the scale of a numeric type; `None` for other
/// types.
fn precision(name: &str, modifier: i64) -> (Option<i64>, Option<i64>, Option<i64>) {
    match name {
        "int2" => (Some(16), Some(2), Some(0)),
        "int4" => (Some(32), Some(2), Some(0)),
        "int8" => (Some(64), Some(2), Some(0)),
        "float4" => (Some(24), Some(2), None),
        "float8" => (Some(53), Some(2), None),
        "numeric" if modifier < 0 => (None, Some(10), None),
        "numeric" => (Some((modifier - 4) >> 16), Some(10), Some((modifier - 4) & 0xffff)),
        _ => (None, None, None),
    }
}
