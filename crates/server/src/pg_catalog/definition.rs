//! Definitions of the relations of `pg_catalog` and `information_schema`: names, OIDs and columns.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::oids;
use super::schemas::{INFORMATION_PREFIX, INFORMATION_SCHEMA, SCHEMA};
use super::types::{self, PgType};
use crate::column_types::TYPE_KEY;

/// A relation of `pg_catalog` or `information_schema`.
#[derive(Debug)]
pub(super) struct Definition {
    /// The relation's schema.
    pub(super) schema: &'static str,
    /// The relation's name.
    pub(super) name: &'static str,
    /// `pg_class.oid`
    pub(super) oid: i64,
    /// `pg_class.relkind`: `r` for a table, `v` for a view.
    pub(super) kind: &'static str,
    /// The relation's columns.
    pub(super) columns: Vec<Column>,
    /// The relation's columns as an Arrow schema.
    pub(super) arrow: SchemaRef,
}

/// A column of a relation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    /// The column's name.
    pub(super) name: &'static str,
    /// The column's type.
    pub(super) pg_type: &'static PgType,
}

/// Returns all definitions, by schema and then by name.
pub(super) fn all() -> impl Iterator<Item = &'static Definition> {
    ALL.iter()
}

/// Returns the definition of the relation with a name in `pg_catalog`; the names of
/// `information_schema` have a prefix there.
pub(super) fn find(name: &str) -> Option<&'static Definition> {
    BY_NAME.get(name).copied()
}

/// True for the name of a column of type `regproc`, whose values are the OIDs of functions.
pub(super) fn is_of_functions(column: &str) -> bool {
    OF_FUNCTIONS.contains(column)
}

static OF_FUNCTIONS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let columns = ALL.iter().flat_map(|definition| &definition.columns);
    columns.filter(|column| column.pg_type.name == "regproc").map(|column| column.name).collect()
});

static ALL: LazyLock<Vec<Definition>> = LazyLock::new(|| {
    let mut all = parse(include_str!("relations.txt"), SCHEMA);
    all.extend(parse(include_str!("information_schema.txt"), INFORMATION_SCHEMA));
    all
});

static BY_NAME: LazyLock<HashMap<String, &'static Definition>> = LazyLock::new(|| {
    let key = |definition: &Definition| match definition.schema {
        INFORMATION_SCHEMA => format!("{INFORMATION_PREFIX}{}", definition.name),
        _ => definition.name.to_owned(),
    };
    ALL.iter().map(|definition| (key(definition), definition)).collect()
});

/// Parses definitions: a line for each relation, followed by indented lines for its columns.
fn parse(text: &'static str, schema: &'static str) -> Vec<Definition> {
    let mut parsed: Vec<Definition> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        if let Some(last) = parsed.last_mut().filter(|_| line.starts_with(' ')) {
            last.columns.extend(words.filter_map(column));
        } else if let Some(name) = words.next() {
            let oid = words.next().and_then(|oid| oid.parse().ok());
            let oid = oid.unwrap_or_else(|| oids::hashed(&[schema, name]));
            let kind = words.next().unwrap_or("v");
            let (columns, arrow) = (vec![], Arc::new(Schema::empty()));
            parsed.push(Definition { schema, name, oid, kind, columns, arrow });
        }
    }
    for definition in &mut parsed {
        let fields = definition.columns.iter().map(field);
        definition.arrow = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    }
    parsed
}

fn column(word: &'static str) -> Option<Column> {
    let (name, pg_type) = word.split_once(':')?;
    Some(Column { name, pg_type: types::by_name(pg_type)? })
}

/// Returns the column's Arrow field. PostgreSQL's type is added where clients receive the values in
/// the form of that type.
fn field(column: &Column) -> Field {
    let Column { name, pg_type } = column;
    let data_type = arrow_type(pg_type);
    let field = Field::new(*name, data_type, true);
    match pg_type.name {
        "oid" | "xid" | "name" | "char" | "varchar" | "oidvector" | "int2vector" => {
            let told = (TYPE_KEY.to_owned(), pg_type.oid.to_string());
            field.with_metadata(HashMap::from([told]))
        }
        _ => field,
    }
}

fn arrow_type(pg_type: &PgType) -> DataType {
    let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
    match pg_type.name {
        "bool" => DataType::Boolean,
        "int2" => DataType::Int16,
        "int4" => DataType::Int32,
        "oid" => DataType::UInt32,
        "int8" | "xid" | "regproc" | "regtype" => DataType::Int64,
        "float4" => DataType::Float32,
        "float8" => DataType::Float64,
        "bytea" => DataType::Binary,
        "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        "int2vector" | "_int2" => list(DataType::Int16),
        "oidvector" | "_oid" => list(DataType::UInt32),
        name if name.starts_with('_') => list(DataType::Utf8),
        _ => DataType::Utf8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_columns_have_types() {
        let text = concat!(include_str!("relations.txt"), include_str!("information_schema.txt"));
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let words = lines.flat_map(str::split_whitespace);
        let columns = words.filter(|word| word.contains(':')).count();
        assert_eq!(all().map(|definition| definition.columns.len()).sum::<usize>(), columns);
        let oids: HashSet<_> = all().map(|definition| definition.oid).collect();
        assert_eq!(oids.len(), all().count());
        assert!(find("pg_class").is_some_and(|class| class.oid == 1259));
        assert!(find("information_schema.tables").is_some());
    }
}
