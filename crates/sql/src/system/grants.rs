//! `terrace.grants`: owners of schemas, tables and views, and the privileges on them.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::Field;
use terrace_table::access::{Access, Grantee};
use terrace_table::catalog::Snapshot;

use super::columns::{text, texts};
use crate::engine::EngineState;

/// A privilege on an object, or its ownership.
struct Row {
    schema: String,
    object: Option<String>,
    role: String,
    privilege: &'static str,
}

pub(super) fn columns() -> Vec<Field> {
    vec![text("schema"), text("object"), text("role"), text("privilege")]
}

pub(super) fn values(engine: &EngineState) -> Vec<ArrayRef> {
    let rows = rows(&engine.catalog().snapshot());
    vec![
        texts(&rows, |row| Some(row.schema.clone())),
        texts(&rows, |row| row.object.clone()),
        texts(&rows, |row| Some(row.role.clone())),
        texts(&rows, |row| Some(row.privilege.to_owned())),
    ]
}

fn rows(snapshot: &Snapshot) -> Vec<Row> {
    let mut rows = Vec::new();
    for schema in snapshot.schemas() {
        let mut objects = snapshot.table_names(&schema);
        objects.extend(snapshot.view_names(&schema));
        for object in std::iter::once(None).chain(objects.into_iter().map(Some)) {
            if let Some(access) = snapshot.access(&schema, object.as_deref()) {
                add(&mut rows, &schema, object.as_deref(), access);
            }
        }
    }
    rows
}

fn add(rows: &mut Vec<Row>, schema: &str, object: Option<&str>, access: &Access) {
    let owner = access.owner.clone().map(|owner| (owner, "OWNER"));
    let grants = access.grants.iter().flat_map(|(grantee, privileges)| {
        let role = match grantee {
            Grantee::Public => "PUBLIC".to_owned(),
            Grantee::Role(name) => name.clone(),
        };
        privileges.iter().map(move |privilege| (role.clone(), privilege.keyword()))
    });
    rows.extend(owner.into_iter().chain(grants).map(|(role, privilege)| Row {
        schema: schema.to_owned(),
        object: object.map(str::to_owned),
        role,
        privilege,
    }));
}
