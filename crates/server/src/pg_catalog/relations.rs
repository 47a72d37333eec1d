//! Tables, views and their columns: `pg_class`, `pg_attribute` and the views over them.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, FieldRef};
use terrace_sql::SqlError;
use terrace_sql::catalog::named_type;

use super::objects::{Kind, Object, Objects, is_temporary};
use super::source::Source;
use super::value::{Row, Value};
use super::{column_facts, defined, roles, types};
use crate::column_types::{field_modifier, field_type};

/// Size of PostgreSQL's pages in bytes, the unit of `relpages`.
const PAGE_BYTES: u64 = 8192;

/// A column of a relation.
#[derive(Clone, Debug)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) type_oid: i64,
    pub(super) modifier: i64,
    pub(super) is_nullable: bool,
    /// Schema and name of the column's type, if it is an enum.
    pub(super) of_enum: Option<(String, String)>,
}

/// Returns the columns of a relation.
///
/// # Errors
/// Errors of planning a view.
pub(super) async fn columns(object: &Object, source: &Source) -> Result<Vec<Attribute>, SqlError> {
    if let Kind::Catalog(definition) = object.kind {
        let own = definition.columns.iter().map(|column| Attribute {
            name: column.name.to_owned(),
            type_oid: column.pg_type.oid,
            modifier: -1,
            is_nullable: true,
            of_enum: None,
        });
        return Ok(own.collect());
    }
    let schema = source.names.columns(&object.schema, &object.name).await?;
    let fields = schema.iter().flat_map(|schema| schema.fields().iter());
    // As in PostgreSQL, only columns of tables are NOT NULL.
    let is_view = object.relkind() == "v";
    Ok(fields.map(|field| attribute(field, is_view)).collect())
}

fn attribute(field: &FieldRef, is_of_view: bool) -> Attribute {
    let field: &Field = field;
    // The array of an enum has no row in `pg_type`: clients see an array of texts.
    let of_enum = named_type(field).filter(|_| field.data_type().is_string());
    let (type_oid, modifier) = match of_enum {
        Some((schema, name)) => (defined::enum_oid(schema, name), -1),
        None => (field_type(field).oid().into(), field_modifier(field).into()),
    };
    Attribute {
        name: field.name().clone(),
        type_oid,
        modifier,
        is_nullable: is_of_view || field.is_nullable(),
        of_enum: of_enum.map(|(schema, name)| (schema.to_owned(), name.to_owned())),
    }
}

/// Returns a count as a signed integer.
fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// `pg_class.relpersistence`: temporary objects end with their session.
fn persistence(object: &Object) -> &'static str {
    if is_temporary(&object.schema) { "t" } else { "p" }
}

/// `pg_class.relchecks`
fn checks(object: &Object, source: &Source) -> i64 {
    let checks = column_facts::properties(object, source).checks.len();
    i64::try_from(checks).unwrap_or(0).min(i16::MAX.into())
}

/// Returns the rows of `pg_class`.
///
/// # Errors
/// Errors of planning views.
pub(super) async fn classes(source: &Source) -> Result<Vec<Row>, SqlError> {
    let mut rows = Vec::new();
    for object in &Objects::of(&source.names).relations {
        let columns = columns(object, source).await?.len();
        let (tuples, bytes) = object.size().unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "an estimate for planners")]
        let tuples = if object.size().is_some() { tuples as f64 } else { -1.0 };
        rows.push(vec![
            ("oid", object.oid.into()),
            ("relname", object.name.as_str().into()),
            ("relnamespace", object.schema_oid.into()),
            ("relowner", roles::owner_oid(source, &object.schema, Some(&object.name)).into()),
            ("relpages", count(bytes.div_ceil(PAGE_BYTES)).min(i32::MAX.into()).into()),
            ("reltuples", tuples.into()),
            ("relpersistence", persistence(object).into()),
            ("relkind", object.relkind().into()),
            ("relchecks", checks(object, source).into()),
            ("relnatts", i64::try_from(columns).unwrap_or(0).min(i16::MAX.into()).into()),
            ("relispopulated", true.into()),
            ("relreplident", if object.relkind() == "r" { "d" } else { "n" }.into()),
        ]);
    }
    Ok(rows)
}

/// Returns the rows of `pg_attribute`.
///
/// # Errors
/// Errors of planning views.
pub(super) async fn attributes(source: &Source) -> Result<Vec<Row>, SqlError> {
    let mut rows = Vec::new();
    for object in &Objects::of(&source.names).relations {
        let columns = columns(object, source).await?;
        let properties = column_facts::properties(object, source);
        rows.extend(columns.into_iter().zip(1_i64..).map(|(column, number)| {
            // The values of enums have the form of integers.
            let of = match column.of_enum {
                Some(_) => types::by_name("int4"),
                None => types::by_oid(column.type_oid),
            };
            let has_default = column_facts::expression(&properties, &column.name).is_some();
            vec![
                ("atthasdef", has_default.into()),
                ("attidentity", column_facts::identity(&properties, &column.name).into()),
                ("attgenerated", column_facts::generated(&properties, &column.name).into()),
                ("attrelid", object.oid.into()),
                ("attname", column.name.into()),
                ("atttypid", column.type_oid.into()),
                ("attstattarget", (-1).into()),
                ("attlen", of.map_or(-1, |of| of.len).into()),
                ("attnum", number.into()),
                ("attcacheoff", (-1).into()),
                ("atttypmod", column.modifier.into()),
                ("attbyval", of.is_some_and(|of| of.by_value).into()),
                ("attalign", of.map_or("i", |of| of.align).into()),
                ("attstorage", of.map_or("x", |of| of.storage).into()),
                ("attnotnull", (!column.is_nullable).into()),
                ("attislocal", true.into()),
                ("attcollation", of.map_or(0, |of| of.collation).into()),
            ]
        }));
    }
    Ok(rows)
}

/// Returns the rows of `pg_tables`.
pub(super) fn tables(objects: &Objects, source: &Source) -> Vec<Row> {
    let tables = objects.relations.iter().filter(|object| object.relkind() == "r");
    let row = |object: &Object| -> Row {
        vec![
            ("schemaname", object.schema.as_str().into()),
            ("tablename", object.name.as_str().into()),
            ("tableowner", roles::owner(source, &object.schema, Some(&object.name)).into()),
            ("tablespace", Value::Null),
        ]
    };
    tables.map(row).collect()
}

/// Returns the rows of `pg_views`.
pub(super) fn views(objects: &Objects, source: &Source) -> Vec<Row> {
    let views = objects.relations.iter().filter(|object| object.relkind() == "v");
    let row = |object: &Object| -> Row {
        vec![
            ("schemaname", object.schema.as_str().into()),
            ("viewname", object.name.as_str().into()),
            ("viewowner", roles::owner(source, &object.schema, Some(&object.name)).into()),
            ("definition", object.query().into()),
        ]
    };
    views.map(row).collect()
}

/// Returns the rows of `pg_stat_all_tables`, or of a view over it: the tables for which `is_in` is
/// true.
pub(super) fn statistics(objects: &Objects, is_in: impl Fn(&Object) -> bool) -> Vec<Row> {
    let tables = objects.relations.iter().filter(|object| object.relkind() == "r" && is_in(object));
    let row = |object: &Object| -> Row {
        vec![
            ("relid", object.oid.into()),
            ("schemaname", object.schema.as_str().into()),
            ("relname", object.name.as_str().into()),
            ("n_live_tup", object.size().map_or(0, |(rows, _)| count(rows)).into()),
        ]
    };
    tables.map(row).collect()
}

/// Returns the bytes of a relation; `None` if it does not exist.
pub(super) fn bytes(objects: &Objects, oid: i64) -> Option<i64> {
    Some(count(objects.relation(oid)?.size().map_or(0, |(_, bytes)| bytes)))
}

/// Returns the bytes of all tables.
pub(super) fn total_bytes(objects: &Arc<Objects>) -> i64 {
    let sizes = objects.relations.iter().filter_map(Object::size);
    count(sizes.map(|(_, bytes)| bytes).sum())
}
