//! The catalog's file: a redb database, read whole at the start and changed by one transaction per
//! statement.

use std::io;
use std::path::{Path, PathBuf};

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::bytes::Missing;
use super::comment_records::{self, LoadedComments};
use super::label::DatabaseId;
use super::load_failure::{LoadFailure, damaged};
use super::object_records::{
    ACCESS, OBJECT, ROLES, SCHEMA, TENANTS, TEXTS, TenantRecord, load_access, load_roles,
    load_tenants, load_texts,
};
use super::record::{ChunkRecord, TableRecord, access_to_bytes, view_from_bytes, view_to_bytes};
use super::role::Role;
use super::role_record::role_to_bytes;
use super::schema_text::{self, SchemaText, TextKind};
use super::sequence_records::{self, LoadedSequence};
use super::tenant_record::tenant_to_bytes;
use crate::access::Access;
use crate::data_dir::unfinished;
use crate::error::SqlError;
use crate::files::Files;
use crate::sketch::{Sketch, SketchChange};
use terrace_governor::limits::TenantLimits;

/// Memory of redb's page cache, which is outside the budget. The catalog is read once, at the
/// start, and a commit touches few pages.
const CACHE_BYTES: usize = 4 << 20;

/// Version of the catalog's tables; records carry their own.
const VERSION: u64 = 2;

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const SCHEMAS: TableDefinition<'_, &str, u8> = TableDefinition::new("schemas");
const TABLES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("tables");
/// Key: table and chunk.
const CHUNKS: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("chunks");
/// Key: table and column.
const SKETCHES: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("sketches");
/// Key: schema and view.
const VIEWS: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("views");

const META_VERSION: &str = "version";
const META_NEXT_TABLE: &str = "next table";
/// Lower and upper half of the database's id.
const META_ID: [&str; 2] = ["id, low", "id, high"];

/// A table with its chunks, as found in the file.
pub(super) struct LoadedTable {
    pub id: u64,
    pub record: TableRecord,
    /// By chunk id, ascending.
    pub chunks: Vec<(u64, ChunkRecord)>,
}

/// All contents of the file.
pub(super) struct Loaded {
    pub id: DatabaseId,
    pub next_table: u64,
    pub schemas: Vec<String>,
    pub tables: Vec<LoadedTable>,
    /// Schema, name and text.
    pub views: Vec<(String, String, String)>,
    /// Name, SLA and limits.
    pub tenants: Vec<(String, TenantRecord)>,
    pub roles: Vec<(String, Role)>,
    /// Schema, and table, view or sequence; `None` for the schema itself.
    pub access: Vec<(String, Option<String>, Access)>,
    /// Schema, kind, name and object.
    pub texts: Vec<(String, TextKind, String, SchemaText)>,
    pub sequences: Vec<LoadedSequence>,
    pub comments: Vec<LoadedComments>,
}

impl Loaded {
    /// Returns the end of the last byte of the store that the file names; zero if it names none.
    pub(super) fn end_bytes(&self) -> u64 {
        let chunks = self.tables.iter().flat_map(|table| &table.chunks);
        let segments = chunks.flat_map(|(_, chunk)| &chunk.columns);
        segments.map(|segment| segment.body.end_bytes()).max().unwrap_or(0)
    }
}

/// Failure of a transaction of the catalog's file, and its effect.
pub(super) enum CommitFailure {
    /// No change was made.
    RolledBack(SqlError),
    /// The changes may or may not be present when the catalog is opened again.
    InDoubt(SqlError),
}

/// An open catalog file.
pub(super) struct CatalogFile {
    path: PathBuf,
    database: Database,
}

impl CatalogFile {
    /// Opens the file, and creates it with these schemas if it does not exist.
    pub(super) fn open(
        files: &dyn Files,
        path: &Path,
        first_schemas: &[&str],
    ) -> Result<Self, SqlError> {
        let exists = files.exists(path);
        if !exists.map_err(|source| directory_error(path, "look for it", source))? {
            Self::make(files, path, first_schemas)?;
        }
        let file = Self::open_whole(files, path)?;
        match file.version()? {
            Some(VERSION) => Ok(file),
            Some(version) => Err(file.damaged(format!(
                "it is of version {version} and this program reads version {VERSION}"
            ))),
            None => Err(file.damaged("it has no version")),
        }
    }

    /// Creates the file. It is renamed to its name once it is complete: redb cannot open what a
    /// power loss leaves of its first writes. The name is durable when this returns, so that
    /// nothing on the device refers to a catalog that may be lost.
    fn make(files: &dyn Files, path: &Path, first_schemas: &[&str]) -> Result<(), SqlError> {
        let unfinished = unfinished(path);
        match files.remove(&unfinished) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(directory_error(&unfinished, "remove it", source));
            }
            _ => {}
        }
        let file = Self::open_whole(files, &unfinished)?;
        file.initialise(first_schemas)?;
        drop(file);
        let named = files.rename(&unfinished, path);
        let named = named.and_then(|()| path.parent().map_or(Ok(()), |p| files.sync_directory(p)));
        named.map_err(|source| directory_error(path, "name it", source))
    }

    fn open_whole(files: &dyn Files, path: &Path) -> Result<Self, SqlError> {
        let database = files.open_catalog(path, Database::builder().set_cache_size(CACHE_BYTES));
        let database = database.map_err(|source| error(path, "open it", source))?;
        Ok(Self { path: path.to_owned(), database })
    }

    fn version(&self) -> Result<Option<u64>, SqlError> {
        let read = || -> Result<Option<u64>, redb::Error> {
            match self.database.begin_read()?.open_table(META) {
                Ok(meta) => Ok(meta.get(META_VERSION)?.map(|version| version.value())),
                Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        };
        read().map_err(|source| error(&self.path, "read it", source))
    }

    fn initialise(&self, first_schemas: &[&str]) -> Result<(), SqlError> {
        let id = DatabaseId::random()?;
        let committed = self.commit(|transaction| {
            transaction.make_tables()?;
            transaction.put_id(id)?;
            transaction.put_next_table(1)?;
            first_schemas.iter().try_for_each(|schema| transaction.put_schema(schema))
        });
        committed.map_err(|failure| match failure {
            CommitFailure::RolledBack(error) | CommitFailure::InDoubt(error) => error,
        })
    }

    /// Reads all contents.
    pub(super) fn load(&self) -> Result<Loaded, SqlError> {
        load(&self.database).map_err(|failure| self.failure(failure))
    }

    /// Returns the estimated number of distinct values of each of a table's columns.
    pub(super) fn distinct(&self, table: u64, columns: usize) -> Result<Vec<u64>, SqlError> {
        let mut distinct = vec![0; columns];
        let mut read = || -> Result<(), LoadFailure> {
            let sketches = self.database.begin_read()?.open_table(SKETCHES)?;
            for entry in sketches.range((table, 0)..=(table, u64::MAX))? {
                let (key, sketch) = entry?;
                let (_, column) = key.value();
                let place = usize::try_from(column).ok().and_then(|at| distinct.get_mut(at));
                let found = Sketch::from_bytes(sketch.value());
                let (Some(place), Some(found)) = (place, found) else {
                    return Err(LoadFailure::Damaged(unreadable(table, column)));
                };
                *place = found.estimate();
            }
            Ok(())
        };
        read().map_err(|failure| self.failure(failure))?;
        Ok(distinct)
    }

    /// Returns the sketch of each of a table's columns.
    pub(super) fn sketches(&self, table: u64, columns: usize) -> Result<Vec<Sketch>, SqlError> {
        let read = || -> Result<Vec<Sketch>, LoadFailure> {
            let mut sketches = vec![Sketch::default(); columns];
            let stored = self.database.begin_read()?.open_table(SKETCHES)?;
            for entry in stored.range((table, 0)..=(table, u64::MAX))? {
                let (key, sketch) = entry?;
                let (_, column) = key.value();
                let place = usize::try_from(column).ok().and_then(|at| sketches.get_mut(at));
                let found = Sketch::from_bytes(sketch.value());
                let (Some(place), Some(found)) = (place, found) else {
                    return Err(LoadFailure::Damaged(unreadable(table, column)));
                };
                *place = found;
            }
            Ok(sketches)
        };
        read().map_err(|failure| self.failure(failure))
    }

    fn failure(&self, failure: LoadFailure) -> SqlError {
        match failure {
            LoadFailure::Read(source) => error(&self.path, "read it", source),
            LoadFailure::Damaged(what) => self.damaged(what),
        }
    }

    /// Commits the changes of one statement atomically; they are durable when this returns.
    pub(super) fn commit(
        &self,
        change: impl FnOnce(&FileTransaction<'_>) -> Result<(), SqlError>,
    ) -> Result<(), CommitFailure> {
        let begin = || -> Result<redb::WriteTransaction, redb::Error> {
            let mut write = self.database.begin_write()?;
            write.set_durability(Durability::Immediate)?;
            Ok(write)
        };
        let write = begin().map_err(|source| error(&self.path, "begin a change of it", source));
        let write = write.map_err(CommitFailure::RolledBack)?;
        change(&FileTransaction { file: self, write: &write })
            .map_err(CommitFailure::RolledBack)?;
        let committed = write.commit();
        committed
            .map_err(|source| CommitFailure::InDoubt(error(&self.path, "commit to it", source)))
    }

    pub(super) fn damaged(&self, what: impl Into<String>) -> SqlError {
        SqlError::CatalogDamaged { path: self.path.clone(), what: what.into() }
    }
}

fn directory_error(path: &Path, action: &'static str, source: io::Error) -> SqlError {
    SqlError::DataDirIo { path: path.to_owned(), action, source }
}

fn error(path: &Path, action: &'static str, source: impl Into<redb::Error>) -> SqlError {
    SqlError::Catalog { path: path.to_owned(), action, source: Box::new(source.into()) }
}

/// An open transaction with the changes of one statement. If dropped without a commit, it has no
/// effect.
pub(crate) struct FileTransaction<'a> {
    file: &'a CatalogFile,
    write: &'a redb::WriteTransaction,
}

impl FileTransaction<'_> {
    fn make_tables(&self) -> Result<(), SqlError> {
        self.change(|write| {
            write.open_table(META)?.insert(META_VERSION, VERSION)?;
            write.open_table(SCHEMAS)?;
            write.open_table(TABLES)?;
            write.open_table(CHUNKS)?;
            write.open_table(SKETCHES)?;
            write.open_table(VIEWS)?;
            write.open_table(TENANTS)?;
            write.open_table(ROLES)?;
            write.open_table(ACCESS)?;
            write.open_table(TEXTS)?;
            Ok(())
        })
    }

    fn put_id(&self, id: DatabaseId) -> Result<(), SqlError> {
        let halves = [id.0 & u128::from(u64::MAX), id.0 >> u64::BITS];
        self.change(|write| {
            let mut meta = write.open_table(META)?;
            for (key, half) in META_ID.into_iter().zip(halves) {
                meta.insert(key, u64::try_from(half).unwrap_or_default())?;
            }
            Ok(())
        })
    }

    pub(super) fn put_next_table(&self, next: u64) -> Result<(), SqlError> {
        self.change(|write| Ok(write.open_table(META)?.insert(META_NEXT_TABLE, next).map(drop)?))
    }

    pub(super) fn put_schema(&self, name: &str) -> Result<(), SqlError> {
        self.change(|write| Ok(write.open_table(SCHEMAS)?.insert(name, 0).map(drop)?))
    }

    pub(super) fn remove_schema(&self, name: &str) -> Result<(), SqlError> {
        self.change(|write| Ok(write.open_table(SCHEMAS)?.remove(name).map(drop)?))
    }

    pub(super) fn put_view(&self, schema: &str, name: &str, sql: &str) -> Result<(), SqlError> {
        let record = view_to_bytes(sql);
        self.change(|write| {
            Ok(write.open_table(VIEWS)?.insert((schema, name), record.as_slice()).map(drop)?)
        })
    }

    pub(super) fn remove_view(&self, schema: &str, name: &str) -> Result<(), SqlError> {
        self.change(|write| Ok(write.open_table(VIEWS)?.remove((schema, name)).map(drop)?))
    }

    pub(super) fn put_tenant(
        &self,
        name: &str,
        sla: Option<&str>,
        limits: &TenantLimits,
    ) -> Result<(), SqlError> {
        let record = tenant_to_bytes(sla, limits);
        self.change(|write| {
            Ok(write.open_table(TENANTS)?.insert(name, record.as_slice()).map(drop)?)
        })
    }

    pub(super) fn remove_tenant(&self, name: &str) -> Result<(), SqlError> {
        self.change(|write| Ok(write.open_table(TENANTS)?.remove(name).map(drop)?))
    }

    pub(super) fn put_role(&self, name: &str, role: &Role) -> Result<(), SqlError> {
        let record = role_to_bytes(role);
        self.change(|write| Ok(write.open_table(ROLES)?.insert(name, &*record).map(drop)?))
    }

    pub(super) fn remove_role(&self, name: &str) -> Result<(), SqlError> {
        self.change(|write| Ok(write.open_table(ROLES)?.remove(name).map(drop)?))
    }

    /// Stores the owner and grants of a table, view or sequence, or of the schema if `object` is
    /// `None`; removes them if `access` is `None`.
    pub(super) fn put_access(
        &self,
        schema: &str,
        object: Option<&str>,
        access: Option<&Access>,
    ) -> Result<(), SqlError> {
        let key = object.map_or((schema, SCHEMA, ""), |object| (schema, OBJECT, object));
        self.change(|write| {
            let mut table = write.open_table(ACCESS)?;
            match access {
                Some(access) => {
                    table.insert(key, access_to_bytes(access).as_slice()).map(drop)?;
                }
                None => table.remove(key).map(drop)?,
            }
            Ok(())
        })
    }

    /// Stores an object as text, or removes it if it is `None`.
    pub(super) fn put_text(
        &self,
        kind: TextKind,
        schema: &str,
        name: &str,
        object: Option<&SchemaText>,
    ) -> Result<(), SqlError> {
        let key = (schema, kind.code(), name);
        self.change(|write| {
            let mut table = write.open_table(TEXTS)?;
            match object {
                Some(object) => {
                    table.insert(key, schema_text::to_bytes(object).as_slice()).map(drop)?;
                }
                None => table.remove(key).map(drop)?,
            }
            Ok(())
        })
    }

    /// Moves the owner and grants of an object from one schema and name to another.
    pub(super) fn rename_access(
        &self,
        from: (&str, &str),
        to: (&str, &str),
    ) -> Result<(), SqlError> {
        self.change(|write| {
            let mut table = write.open_table(ACCESS)?;
            let record = table.remove((from.0, OBJECT, from.1))?.map(|it| it.value().to_vec());
            if let Some(record) = record {
                table.insert((to.0, OBJECT, to.1), record.as_slice())?;
            }
            Ok(())
        })
    }

    pub(super) fn put_table(&self, id: u64, record: &TableRecord) -> Result<(), SqlError> {
        let record = self.unwritable(record.to_bytes())?;
        self.change(|write| Ok(write.open_table(TABLES)?.insert(id, &*record).map(drop)?))
    }

    /// Removes a table with its chunks and sketches.
    pub(super) fn remove_table(&self, id: u64) -> Result<(), SqlError> {
        self.change(|write| {
            write.open_table(TABLES)?.remove(id)?;
            let all = (id, 0)..=(id, u64::MAX);
            write.open_table(CHUNKS)?.retain_in(all.clone(), |_, _| false)?;
            write.open_table(SKETCHES)?.retain_in(all, |_, _| false)?;
            Ok(())
        })
    }

    pub(super) fn put_chunk(
        &self,
        table: u64,
        chunk: u64,
        record: &ChunkRecord,
    ) -> Result<(), SqlError> {
        let record = self.unwritable(record.to_bytes())?;
        self.change(|write| {
            Ok(write.open_table(CHUNKS)?.insert((table, chunk), &*record).map(drop)?)
        })
    }

    pub(crate) fn remove_chunk(&self, table: u64, chunk: u64) -> Result<(), SqlError> {
        self.change(|write| Ok(write.open_table(CHUNKS)?.remove((table, chunk)).map(drop)?))
    }

    /// Updates the sketches of a table's columns; unchanged sketches are not written.
    pub(crate) fn change_sketches(
        &self,
        table: u64,
        change: &SketchChange,
    ) -> Result<(), SqlError> {
        let mut damaged = None;
        self.change(|write| {
            let mut sketches = write.open_table(SKETCHES)?;
            let (added, replaces) = match change {
                SketchChange::Merge(added) => (added, false),
                SketchChange::Replace(added) => (added, true),
            };
            if replaces {
                sketches.retain_in((table, 0)..=(table, u64::MAX), |_, _| false)?;
            }
            for (column, added) in (0..).zip(added).filter(|(_, added)| !added.is_empty()) {
                let before = sketches.get((table, column))?;
                let before = before.map(|before| Sketch::from_bytes(before.value()));
                let Some(before) = before.unwrap_or(Some(Sketch::default())) else {
                    damaged = Some(column);
                    return Ok(());
                };
                let mut merged = before.clone();
                merged.merge(added);
                if merged != before {
                    sketches.insert((table, column), &*merged.to_bytes())?;
                }
            }
            Ok(())
        })?;
        damaged.map_or(Ok(()), |column| Err(self.file.damaged(unreadable(table, column))))
    }

    pub(super) fn change(
        &self,
        change: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), SqlError> {
        change(self.write).map_err(|source| error(&self.file.path, "change it", source))
    }

    fn unwritable(&self, record: Result<Vec<u8>, Missing>) -> Result<Vec<u8>, SqlError> {
        record.map_err(|what| SqlError::Refused {
            what: format!("writing to the catalog ({what})"),
            instead: "use other column types".to_owned(),
        })
    }
}

fn unreadable(table: u64, column: u64) -> String {
    format!("sketch {column} of table number {table} cannot be read")
}

fn load(database: &Database) -> Result<Loaded, LoadFailure> {
    let read = database.begin_read()?;
    let meta = read.open_table(META)?;
    let next_table = meta.get(META_NEXT_TABLE)?.map_or(1, |next| next.value());
    let mut id = 0;
    for (shift, key) in [0, u64::BITS].into_iter().zip(META_ID) {
        let half = meta.get(key)?.map(|half| half.value());
        let half = half.ok_or_else(|| LoadFailure::Damaged("it has no number".to_owned()))?;
        id |= u128::from(half) << shift;
    }
    let mut schemas = Vec::new();
    for entry in read.open_table(SCHEMAS)?.iter()? {
        schemas.push(entry?.0.value().to_owned());
    }
    let mut views = Vec::new();
    for entry in read.open_table(VIEWS)?.iter()? {
        let (key, record) = entry?;
        let (schema, name) = key.value();
        let sql = view_from_bytes(record.value());
        let sql = sql.map_err(damaged(format_args!("view {schema}.{name}")))?;
        views.push((schema.to_owned(), name.to_owned(), sql));
    }
    let mut tables = Vec::new();
    for entry in read.open_table(TABLES)?.iter()? {
        let (id, record) = entry?;
        tables.push(load_table(&read, id.value(), record.value())?);
    }
    no_orphans(&read, &tables)?;
    let tenants = load_tenants(&read)?;
    let (roles, access, texts) = (load_roles(&read)?, load_access(&read)?, load_texts(&read)?);
    Ok(Loaded {
        id: DatabaseId(id),
        next_table,
        schemas,
        tables,
        views,
        tenants,
        roles,
        access,
        texts,
        sequences: sequence_records::load(&read)?,
        comments: comment_records::load(&read)?,
    })
}

fn load_table(
    read: &redb::ReadTransaction,
    id: u64,
    record: &[u8],
) -> Result<LoadedTable, LoadFailure> {
    let record = TableRecord::from_bytes(record);
    let record = record.map_err(damaged(format_args!("table number {id}")))?;
    let mut chunks = Vec::new();
    for entry in read.open_table(CHUNKS)?.range((id, 0)..=(id, u64::MAX))? {
        let (key, chunk) = entry?;
        let (_, number) = key.value();
        let chunk = ChunkRecord::from_bytes(chunk.value(), &record.columns);
        let what = format_args!("chunk {number} of table {}", record.name);
        chunks.push((number, chunk.map_err(damaged(what))?));
    }
    Ok(LoadedTable { id, record, chunks })
}

/// Returns an error if a chunk belongs to no table.
fn no_orphans(read: &redb::ReadTransaction, tables: &[LoadedTable]) -> Result<(), LoadFailure> {
    use redb::ReadableTableMetadata as _;
    let found = read.open_table(CHUNKS)?.len()?;
    let known: usize = tables.iter().map(|table| table.chunks.len()).sum();
    if usize::try_from(found) == Ok(known) {
        return Ok(());
    }
    Err(LoadFailure::Damaged(format!("{found} chunks, {known} of them in tables")))
}
