//! Schemas of primary and foreign keys. There are none: tables have no keys.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};

fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

fn name(name: &str) -> Field {
    Field::new(name, DataType::Utf8, false)
}

/// Returns the schema of primary keys.
pub(super) fn primary() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("catalog_name"),
        text("db_schema_name"),
        name("table_name"),
        name("column_name"),
        text("key_name"),
        Field::new("key_sequence", DataType::Int32, false),
    ]))
}

/// Returns the schema of foreign keys: exported, imported, and those between two tables.
pub(super) fn foreign() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("pk_catalog_name"),
        text("pk_db_schema_name"),
        name("pk_table_name"),
        name("pk_column_name"),
        text("fk_catalog_name"),
        text("fk_db_schema_name"),
        name("fk_table_name"),
        name("fk_column_name"),
        Field::new("key_sequence", DataType::Int32, false),
        text("fk_key_name"),
        text("pk_key_name"),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ]))
}
