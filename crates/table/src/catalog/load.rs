//! Loading: builds tables over the pool from the contents of the catalog's file.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_pool::{Pool, Space};
use terrace_store::Store;
use terrace_sys::size::{exact_bytes, format_bytes};

use super::comment_records::LoadedComments;
use super::file::{Loaded, LoadedTable};
use super::journal::Journal;
use super::names::{Names, Roles, SchemaNames, Schemas};
use super::record::{BodyRecord, ChunkRecord, SegmentRecord, TableRecord};
use super::sequence::Sequence;
use super::sequence_records::LoadedSequence;
use super::tenant::Tenant;
use crate::chunk::{Chunk, ChunkKey, ColumnSegment, SegmentBody, SegmentParts, StoredSegment};
use crate::error::SqlError;
use crate::table::{Table, TableParts};

/// Refuses a store that is smaller than the extents that the catalog names.
pub(super) fn check_size(store: &Store, loaded: &Loaded) -> Result<(), SqlError> {
    let end = loaded.end_bytes();
    let refused = |what| Err(SqlError::WrongStore { store: store.name().to_owned(), what });
    let (capacity, len) = (store.capacity_bytes(), store.len_bytes()?);
    if end > capacity {
        return refused(format!(
            "it may hold {}, and the tables reach up to {end} bytes; say a size of at least {}",
            format_bytes(capacity),
            exact_bytes(end)
        ));
    }
    if end > len {
        return refused(format!(
            "it has {len} bytes and the tables reach up to {end}: it was cut short; put a whole \
             copy of it in its place"
        ));
    }
    Ok(())
}

/// Builds the names of a catalog from the contents of its file. Claims the extents of every chunk
/// in the store, and creates a page of the pool for each segment.
pub(super) fn names(
    loaded: Loaded,
    journal: &Arc<Journal>,
    pool: &Pool,
) -> Result<Names, SqlError> {
    let mut schemas: Schemas =
        loaded.schemas.into_iter().map(|name| (name, SchemaNames::default())).collect();
    let missing = |what: &str, schema: &str| {
        journal.file.damaged(format!("{what} is in schema {schema}, which does not exist"))
    };
    for (schema, name, sql) in loaded.views {
        let names = schemas.get_mut(&schema).ok_or_else(|| missing(&name, &schema))?;
        names.views.insert_mut(name, sql.into());
    }
    for (schema, kind, name, object) in loaded.texts {
        let names = schemas.get_mut(&schema).ok_or_else(|| missing(&name, &schema))?;
        names.texts.insert_mut((kind, name), Arc::new(object));
    }
    for table in loaded.tables {
        let table = adopt(table, journal, pool)?;
        let names = schemas.get_mut(table.schema_name());
        let names = names.ok_or_else(|| missing(table.name(), table.schema_name()))?;
        journal.versions.put(table.id(), table.snapshot());
        names.tables.insert_mut(table.name().to_owned(), table);
    }
    for LoadedSequence { id, schema_name, name, options, position } in loaded.sequences {
        let names = schemas.get_mut(&schema_name).ok_or_else(|| missing(&name, &schema_name))?;
        let full_name = (schema_name, name.clone());
        let sequence = Sequence::new(id, full_name, options, Arc::clone(journal));
        names.sequences.insert_mut(name, Arc::new(sequence.at(position).stored()));
    }
    for LoadedComments { schema, object, comments } in loaded.comments {
        let what = object.as_deref().unwrap_or("a comment");
        let names = schemas.get_mut(&schema).ok_or_else(|| missing(what, &schema))?;
        match object {
            Some(object) => names.comments.insert_mut(object, Arc::new(comments)),
            None => names.comment = Some(Arc::new(comments)),
        }
    }
    let mut tenants = BTreeMap::new();
    for (name, (sla, limits)) in loaded.tenants {
        let tenant = Tenant::of(sla.as_deref(), limits);
        let tenant =
            tenant.map_err(|what| journal.file.damaged(format!("tenant {name}: {what}")))?;
        tenants.insert(name, tenant);
    }
    for (schema, object, access) in loaded.access {
        let what = object.as_deref().unwrap_or("access");
        let names = schemas.get_mut(&schema).ok_or_else(|| missing(what, &schema))?;
        match object {
            Some(object) => names.access.insert_mut(object, Arc::new(access)),
            None => names.own = Some(Arc::new(access)),
        }
    }
    let roles: Roles =
        loaded.roles.into_iter().map(|(name, role)| (name, Arc::new(role))).collect();
    Ok(Names { next_table: loaded.next_table, changes: 0, schemas, roles, tenants })
}

fn adopt(loaded: LoadedTable, journal: &Arc<Journal>, pool: &Pool) -> Result<Arc<Table>, SqlError> {
    let LoadedTable { id, record, chunks } = loaded;
    let space = table_space(pool, &record)?;
    let chunks = chunks.into_iter().map(|(number, chunk)| {
        let columns = chunk.columns.iter().map(|s| adopt_segment(s, &record, journal, &space));
        let ChunkRecord { rows, place, is_full, columns: _ } = chunk;
        let key = ChunkKey { id: number, place: place.unwrap_or(number), rows, is_full };
        let columns = columns.collect::<Result<_, _>>()?;
        Ok(Arc::new(Chunk::committed(key, columns, space.clone())))
    });
    let mut chunks = chunks.collect::<Result<Vec<_>, SqlError>>()?;
    chunks.sort_by_key(|chunk| (chunk.place, chunk.id));
    Ok(table(id, record, space, chunks, journal))
}

fn adopt_segment(
    segment: &SegmentRecord,
    table: &TableRecord,
    journal: &Journal,
    space: &Space,
) -> Result<Arc<ColumnSegment>, SqlError> {
    let SegmentRecord { body, statistics } = segment.clone();
    let (stored, encoding, len_bytes) = match body {
        BodyRecord::Stored { stored, encoding, len_bytes } => (stored, encoding, len_bytes),
        BodyRecord::Constant(constant) => {
            let parts = SegmentParts { body: SegmentBody::Constant(constant), statistics };
            return Ok(ColumnSegment::committed(parts, space.clone()));
        }
    };
    journal.store().claim(stored.extent).map_err(|error| {
        let TableRecord { schema_name, name, .. } = table;
        journal.file.damaged(format!("table {schema_name}.{name} cannot have its bytes: {error}"))
    })?;
    let page = space.adopt(stored)?;
    let body = SegmentBody::Stored(StoredSegment { page, stored, encoding, len_bytes });
    let parts = SegmentParts { body, statistics };
    Ok(ColumnSegment::committed(parts, space.clone()))
}

/// Builds a table from its parts.
pub(super) fn table(
    id: u64,
    record: TableRecord,
    space: Space,
    chunks: Vec<Arc<Chunk>>,
    journal: &Arc<Journal>,
) -> Arc<Table> {
    Arc::new(Table::new(parts(id, record, space, journal), chunks))
}

/// Builds a table without rows, for chunks that share segments with those of `before`.
pub(super) fn successor(id: u64, record: TableRecord, space: Space, before: &Table) -> Arc<Table> {
    Arc::new(Table::successor(parts(id, record, space, before.journal()), before))
}

fn parts(id: u64, record: TableRecord, space: Space, journal: &Arc<Journal>) -> TableParts {
    let TableRecord { schema_name, name, encoding, columns, properties } = record;
    let journal = journal.clone();
    TableParts { id, schema_name, name, columns, encoding, properties, space, journal }
}

/// Creates the space of the pool that holds a table's pages.
pub(super) fn table_space(pool: &Pool, record: &TableRecord) -> Result<Space, SqlError> {
    Ok(pool.create_space(format!("{}.{}", record.schema_name, record.name), None)?)
}
