//! Errors of the engine, the catalog and statements.

mod message;

use std::path::PathBuf;
use std::time::Duration;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, exec_datafusion_err};
use terrace_heap::HeapError;
use terrace_pool::PoolError;
use terrace_region::RegionError;
use terrace_store::StoreError;
use terrace_sys::size::format_bytes;
use terrace_tier::TierError;

use crate::segment::SegmentError;
use terrace_governor::error::GovernorError;

/// An error of the engine, the catalog or a statement.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// DataFusion refused or failed the statement.
    #[error("{}", message::of_datafusion(.0))]
    DataFusion(#[from] DataFusionError),
    /// Planning or running the statement panicked.
    #[error(transparent)]
    Panic(#[from] terrace_exec::panics::Panic),
    /// Arrow refused a computation.
    #[error("{}", message::of_arrow(.0))]
    Arrow(#[from] ArrowError),
    /// The buffer pool failed.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A tier is not available as specified.
    #[error(transparent)]
    Tier(#[from] TierError),
    /// A segment of a table cannot be written or read.
    #[error("table {table}, column {column}: {source}")]
    Segment {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The error of the segment.
        source: SegmentError,
    },
    /// A value that is too large for a page.
    #[error(
        "table {table}, column {column}: a value takes {} and a page holds {}; split the value \
         over several rows", format_bytes(*bytes), format_bytes(*limit_bytes)
    )]
    ValueTooLarge {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Bytes of the value with its segment.
        bytes: u64,
        /// Bytes of the largest page.
        limit_bytes: u64,
    },
    /// A null for a column that is NOT NULL.
    #[error("table {table}, column {column}: the column is NOT NULL and a row has no value for it")]
    NotNull {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A row that makes the condition of a CHECK constraint false.
    #[error("{}", message::of_violation(table, constraint, *is_new_row))]
    CheckViolated {
        /// The table, without its schema.
        table: String,
        /// The constraint.
        constraint: String,
        /// True for a new row; false for one that the table has when the constraint is added.
        is_new_row: bool,
    },
    /// A row that several rows of the source of a MERGE change.
    #[error(
        "MERGE command cannot affect row a second time; ensure that not more than one row of the \
         source matches any row of the table"
    )]
    AffectedTwice,
    /// A sequence that has no more numbers.
    #[error("nextval: reached {bound} value of sequence \"{sequence}\" ({value})")]
    SequenceEnd {
        /// The sequence.
        sequence: String,
        /// `maximum` or `minimum`.
        bound: &'static str,
        /// The last number.
        value: i64,
    },
    /// A position that a sequence cannot have.
    #[error("setval: value {value} is out of bounds for sequence \"{sequence}\" ({min}..{max})")]
    SequenceBounds {
        /// The sequence.
        sequence: String,
        /// The position.
        value: i64,
        /// Least number of the sequence.
        min: i64,
        /// Greatest number of the sequence.
        max: i64,
    },
    /// A number of a sequence that the session has not taken yet.
    #[error("{what} is not yet defined in this session")]
    SequenceUnused {
        /// `lastval`, or `currval of sequence "s"`.
        what: String,
    },
    /// A value for a column whose values are generated.
    #[error("{what}")]
    GeneratedAlways {
        /// The statement, in PostgreSQL's words, and the remedy.
        what: String,
    },
    /// Rows whose columns differ from the table's.
    #[error("table {table} takes {expected}, not {found}")]
    Columns {
        /// The table.
        table: String,
        /// The columns of the table.
        expected: String,
        /// The columns of the rows.
        found: String,
    },
    /// A table, view, sequence, function or type of this name exists.
    #[error("{name} already exists; drop it first or say CREATE OR REPLACE")]
    Exists {
        /// Schema and name.
        name: String,
    },
    /// No running query has this number.
    #[error("no query {id} runs; SELECT id, statement FROM terrace.queries lists those that do")]
    MissingQuery {
        /// The number.
        id: u64,
    },
    /// No tenant of this name.
    #[error("tenant {name} does not exist; CREATE TENANT {name} WITH (sla = '...') makes it")]
    MissingTenant {
        /// The tenant.
        name: String,
    },
    /// A tenant of this name exists.
    #[error("tenant {name} already exists; say ALTER TENANT {name} SET (sla = '...')")]
    TenantExists {
        /// The tenant.
        name: String,
    },
    /// A tenant that has reached its maximum number of sessions.
    #[error(
        "tenant {name} has {limit} sessions, as many as it may; close one, or say ALTER TENANT \
         {name} SET (max_connections = '...')"
    )]
    TenantFull {
        /// The tenant.
        name: String,
        /// The tenant's limit.
        limit: u64,
    },
    /// A query that has waited in its tenant's queue for the maximum time.
    #[error(
        "tenant {name} runs {running} queries, as many as it may, and this one has waited \
         {wait:?}; run it later, or say ALTER TENANT {name} SET (max_queries = '...')"
    )]
    TenantBusy {
        /// The tenant.
        name: String,
        /// Number of its running queries.
        running: u64,
        /// The time waited.
        wait: Duration,
    },
    /// A query that was stopped by a limit of its tenant.
    #[error("{what}")]
    TenantLimit {
        /// The limit, and the remedy.
        what: String,
    },
    /// A role of this name exists.
    #[error("role {name} already exists; say ALTER ROLE {name}")]
    RoleExists {
        /// The role.
        name: String,
    },
    /// No role of this name.
    #[error("role {name} does not exist; a superuser makes it by CREATE ROLE {name}")]
    MissingRole {
        /// The role.
        name: String,
    },
    /// A membership that would make a role a member of itself.
    #[error("role \"{role}\" is a member of role \"{member}\"")]
    MembershipCycle {
        /// The role that was granted.
        role: String,
        /// The role that was to become its member.
        member: String,
    },
    /// A change of the members of a role by a role without the ADMIN OPTION.
    #[error("must have admin option on role \"{role}\"")]
    NoAdminOption {
        /// The role whose members were to be changed.
        role: String,
    },
    /// A change of the members of a superuser by a role that is none.
    #[error("must be superuser to alter superusers")]
    NoSuperuser,
    /// A statement that the role of its session may not run.
    #[error("permission denied for role {role}: {what}")]
    Denied {
        /// The role.
        role: String,
        /// The missing right, and the remedy.
        what: String,
    },
    /// A heap cannot be created, or is full.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// The memory region over a heap's file cannot be created.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// A heap of this name exists.
    #[error("heap {name} already exists; drop it first, or say CREATE HEAP IF NOT EXISTS")]
    HeapExists {
        /// The heap.
        name: String,
    },
    /// No heap has this name.
    #[error("there is no heap {name}; there is {known}")]
    MissingHeap {
        /// The name.
        name: String,
        /// The valid targets of SET TIER.
        known: String,
    },
    /// A text that is not a valid SLA.
    #[error(transparent)]
    Sla(#[from] terrace_market::SlaError),
    /// No table, view, sequence, function, type or column of this name.
    #[error("{name} does not exist")]
    Missing {
        /// Schema and name.
        name: String,
    },
    /// No column of this name.
    #[error("column \"{column}\" of relation \"{table}\" does not exist")]
    MissingColumn {
        /// The table, without its schema.
        table: String,
        /// The column.
        column: String,
    },
    /// A column of this name exists.
    #[error("column \"{column}\" of relation \"{table}\" already exists")]
    ColumnExists {
        /// The table, without its schema.
        table: String,
        /// The column.
        column: String,
    },
    /// No constraint of this name.
    #[error("constraint \"{constraint}\" of relation \"{table}\" does not exist")]
    MissingConstraint {
        /// The table, without its schema.
        table: String,
        /// The constraint.
        constraint: String,
    },
    /// A constraint of this name exists.
    #[error("constraint \"{constraint}\" for relation \"{table}\" already exists")]
    ConstraintExists {
        /// The table, without its schema.
        table: String,
        /// The constraint.
        constraint: String,
    },
    /// An object that others depend on.
    #[error("cannot {what}: {}; drop them first, or say CASCADE", details.join(", "))]
    Dependents {
        /// The change and its obstacle, in PostgreSQL's words.
        what: String,
        /// One sentence for each object that depends on it.
        details: Vec<String>,
    },
    /// An object that another uses.
    #[error("cannot {what} because {view} depends on it; drop {view} first")]
    InUse {
        /// The change.
        what: String,
        /// The other object, as in `view v`.
        view: String,
    },
    /// A type that cannot be dropped or changed because a column uses it.
    #[error("cannot {what} because {column} depends on it; drop the column first")]
    TypeInUse {
        /// The change.
        what: String,
        /// The column and its table.
        column: String,
    },
    /// A name that several functions have.
    #[error("{what} is not unique; say the types of its parameters; there is {known}")]
    Ambiguous {
        /// The noun and the name.
        what: String,
        /// The functions of the name.
        known: String,
    },
    /// No schema of this name.
    #[error("schema {name} does not exist; CREATE SCHEMA {name} makes it")]
    MissingSchema {
        /// The schema.
        name: String,
    },
    /// A schema of this name exists.
    #[error("schema {name} already exists")]
    SchemaExists {
        /// The schema.
        name: String,
    },
    /// A schema that still holds objects: tables, views, sequences, functions or types.
    #[error("schema {name} still holds {held}; drop it with CASCADE or drop them first")]
    SchemaNotEmpty {
        /// The schema.
        name: String,
        /// One of its objects, with its kind.
        held: String,
    },
    /// The table was dropped or replaced before a statement could read it or finish writing.
    #[error("table {name} was dropped or replaced meanwhile; nothing was written")]
    Dropped {
        /// Schema and name.
        name: String,
    },
    /// Another transaction has changed the same object or rows.
    #[error("{what} by another transaction since this one began; roll back and run it again")]
    Conflict {
        /// The change, as the beginning of a sentence.
        what: String,
    },
    /// Two transactions wait for each other.
    #[error(
        "table {table} is being changed by a transaction that waits for this one (deadlock); roll \
         back and run it again"
    )]
    Deadlock {
        /// Schema and name of the table.
        table: String,
    },
    /// A statement that has waited for a lock of a table for the maximum time.
    #[error(
        "canceling statement due to lock timeout: table {table} is being changed by another \
         transaction for longer than {limit:?}"
    )]
    LockTimeout {
        /// Schema and name of the table.
        table: String,
        /// The time waited.
        limit: Duration,
    },
    /// A lock that a statement with NOWAIT found held.
    #[error("could not obtain lock on relation \"{table}\": another transaction holds it")]
    LockHeld {
        /// Schema and name of the table.
        table: String,
    },
    /// A statement in a failed transaction.
    #[error("a statement of this transaction has failed; say ROLLBACK, or ROLLBACK TO a savepoint")]
    TransactionFailed,
    /// A COMMIT, ROLLBACK or savepoint without a transaction.
    #[error("there is no transaction in progress; BEGIN begins one")]
    NoTransaction,
    /// A BEGIN within a transaction.
    #[error("there is already a transaction in progress; COMMIT or ROLLBACK ends it")]
    TransactionBegun,
    /// A statement that cannot be part of a transaction.
    #[error("{what} is not possible in a transaction; COMMIT or ROLLBACK first")]
    InTransaction {
        /// The statement.
        what: String,
    },
    /// A change in a read-only transaction.
    #[error("{what} is not possible in a READ ONLY transaction; begin one without READ ONLY")]
    ReadOnly {
        /// The statement.
        what: String,
    },
    /// No savepoint of this name.
    #[error("there is no savepoint {name} in this transaction")]
    MissingSavepoint {
        /// The name.
        name: String,
    },
    /// The device failed in the middle of a commit.
    #[error(
        "{source}; whether the statement took effect is not known: open the database again to see"
    )]
    InDoubt {
        /// The error.
        source: Box<SqlError>,
    },
    /// The catalog's file cannot be opened, read or written.
    #[error("catalog {path}: cannot {action}: {source}")]
    Catalog {
        /// The file.
        path: PathBuf,
        /// The failed operation.
        action: &'static str,
        /// The cause.
        source: Box<redb::Error>,
    },
    /// The catalog has content that this program did not write.
    #[error("catalog {path} is damaged: {what}")]
    CatalogDamaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        what: String,
    },
    /// An unsupported or invalid request, with the alternative.
    #[error("{what} is not possible; {instead}")]
    Refused {
        /// The request.
        what: String,
        /// The alternative.
        instead: String,
    },
    /// A recursive query of a form that SQL does not allow.
    #[error("{what}")]
    Recursion {
        /// The form, in PostgreSQL's words.
        what: String,
    },
    /// A store of another database, or one with foreign data that must not be overwritten.
    #[error("store {store} is refused: {what}")]
    WrongStore {
        /// The store.
        store: String,
        /// Its contents, and the remedy.
        what: String,
    },
    /// The data directory cannot be used.
    #[error("data directory {path}: {what}")]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// The problem, and the remedy.
        what: String,
    },
    /// A file of the data directory cannot be read or written.
    #[error("data directory {path}: cannot {action}: {source}")]
    DataDirIo {
        /// The file or directory.
        path: PathBuf,
        /// The failed operation.
        action: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// A background task ended without a result.
    #[error("a background task failed: {0}")]
    Task(String),
}

impl From<SqlError> for DataFusionError {
    fn from(error: SqlError) -> Self {
        match error {
            SqlError::DataFusion(error) => error,
            SqlError::Arrow(error) => error.into(),
            error => Self::External(Box::new(error)),
        }
    }
}

impl From<GovernorError> for SqlError {
    fn from(error: GovernorError) -> Self {
        match error {
            GovernorError::DataFusion(error) => Self::DataFusion(error),
            GovernorError::Pool(error) => Self::Pool(error),
            GovernorError::Refused { what, instead } => Self::Refused { what, instead },
            GovernorError::TenantFull { name, limit } => Self::TenantFull { name, limit },
            GovernorError::TenantBusy { name, running, wait } => {
                Self::TenantBusy { name, running, wait }
            }
            GovernorError::TenantLimit(what) => Self::TenantLimit { what },
            GovernorError::OutOfMemory(what) => {
                Self::DataFusion(DataFusionError::ResourcesExhausted(what))
            }
            error @ GovernorError::Cancelled { .. } => {
                Self::DataFusion(exec_datafusion_err!("{error}"))
            }
        }
    }
}

impl From<tokio::task::JoinError> for SqlError {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Task(error.to_string())
    }
}
