//! Tenants, roles, access and objects stored as text in the catalog's file.

use redb::{ReadableTable as _, TableDefinition};

use super::load_failure::{LoadFailure, damaged};
use super::record::access_from_bytes;
use super::role::Role;
use super::role_record::role_from_bytes;
use super::schema_text::{self, SchemaText, TextKind};
use super::tenant_record::tenant_from_bytes;
use crate::access::Access;
use terrace_governor::limits::TenantLimits;

/// Key: name. Databases older than tenants do not have this table.
pub(super) const TENANTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("tenants");

/// Key: name. Databases older than roles have neither this table nor the next.
pub(super) const ROLES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("roles");
/// Key: schema, kind and object: [`OBJECT`] and the name of a table, view or sequence, or
/// [`SCHEMA`] and no name for the schema itself.
pub(super) const ACCESS: TableDefinition<'_, (&str, u8, &str), &[u8]> =
    TableDefinition::new("access");
pub(super) const SCHEMA: u8 = 0;
pub(super) const OBJECT: u8 = 1;

/// Key: schema, kind and name. Databases older than functions and types do not have this table.
pub(super) const TEXTS: TableDefinition<'_, (&str, u8, &str), &[u8]> =
    TableDefinition::new("texts");

/// SLA and limits of a tenant.
pub(super) type TenantRecord = (Option<String>, TenantLimits);

/// Reads all tenants: name, SLA and limits.
pub(super) fn load_tenants(
    read: &redb::ReadTransaction,
) -> Result<Vec<(String, TenantRecord)>, LoadFailure> {
    let table = match read.open_table(TENANTS) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        table => table?,
    };
    let mut tenants = Vec::new();
    for entry in table.iter()? {
        let (name, record) = entry?;
        let tenant = tenant_from_bytes(record.value());
        let tenant = tenant.map_err(damaged(format_args!("tenant {}", name.value())))?;
        tenants.push((name.value().to_owned(), tenant));
    }
    Ok(tenants)
}

/// Reads all roles by name.
pub(super) fn load_roles(read: &redb::ReadTransaction) -> Result<Vec<(String, Role)>, LoadFailure> {
    let table = match read.open_table(ROLES) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        table => table?,
    };
    let mut roles = Vec::new();
    for entry in table.iter()? {
        let (name, record) = entry?;
        let role = role_from_bytes(record.value());
        let role = role.map_err(damaged(format_args!("role {}", name.value())))?;
        roles.push((name.value().to_owned(), role));
    }
    Ok(roles)
}

/// Reads all owners and grants: schema, object (`None` for the schema itself) and access.
pub(super) fn load_access(
    read: &redb::ReadTransaction,
) -> Result<Vec<(String, Option<String>, Access)>, LoadFailure> {
    let table = match read.open_table(ACCESS) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        table => table?,
    };
    let mut all = Vec::new();
    for entry in table.iter()? {
        let (key, record) = entry?;
        let (schema, kind, object) = key.value();
        let access = access_from_bytes(record.value());
        let access = access.map_err(damaged(format_args!("access to {schema}.{object}")))?;
        all.push((schema.to_owned(), (kind == OBJECT).then(|| object.to_owned()), access));
    }
    Ok(all)
}

/// Reads all objects that are stored as text: schema, kind, name and object.
pub(super) fn load_texts(
    read: &redb::ReadTransaction,
) -> Result<Vec<(String, TextKind, String, SchemaText)>, LoadFailure> {
    let table = match read.open_table(TEXTS) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        table => table?,
    };
    let mut all = Vec::new();
    for entry in table.iter()? {
        let (key, record) = entry?;
        let (schema, kind, name) = key.value();
        let kind = TextKind::from_code(kind);
        let kind = kind.ok_or_else(|| "it is of an unknown kind".to_owned());
        let object = kind.and_then(|kind| Ok((kind, schema_text::from_bytes(record.value())?)));
        let (kind, object) = object.map_err(damaged(format_args!("{schema}.{name}")))?;
        all.push((schema.to_owned(), kind, name.to_owned(), object));
    }
    Ok(all)
}
