//! SQL over the buffer pool: sessions, and the engine that they share. `terrace-table` stores the
//! tables; `terrace-governor` manages the memory of queries.
//!
//! A table is a list of immutable [chunks](chunk), a chunk is one segment per column, and a segment
//! is one page of the pool and one extent of the store. The [catalog] names every extent in use;
//! all others are free, so that no space can leak.
//!
//! ```
//! use terrace_sql::{Engine, EngineConfig};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), terrace_sql::SqlError> {
//! // One budget for cached tables, the memory of queries and everything else. Without a data
//! // directory the tables are gone when the engine closes.
//! let engine = Engine::open(&EngineConfig::new(64 << 20))?;
//! let session = engine.session()?;
//! session.sql("CREATE TABLE t AS SELECT value AS k FROM generate_series(1, 1000000)").await?;
//! let outputs = session.sql("SELECT k % 10 AS g, sum(k) FROM t GROUP BY g ORDER BY g").await?;
//! assert_eq!(outputs[0].rows(), 10);
//! drop(session);
//! engine.close()
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod access;
pub mod bytea;
pub mod engine;
mod execution;
mod file_tables;
mod functions;
pub mod interrupt;
mod names;
mod provider;
mod scalar;
mod series;
pub mod session;
pub mod sessions;
pub mod stock;
pub mod system;
mod view;

pub use terrace_governor::{market, memory, pins, query, spill};
pub use terrace_table::{
    catalog, chunk, data_dir, error, files, scan, sketch, statistics, table, write,
};

pub use engine::{Engine, EngineConfig};
pub use execution::{Output, QueryHandle};
pub use names::{
    AddedSchema, CATALOG as DATABASE, Names, Relation, RelationKind, SearchPath, SequenceReport,
};
pub use session::{Prepared, Session};
pub use terrace_exec::StoredBatches;
pub use terrace_governor::memory::ProcessMemory;
pub use terrace_table::error::SqlError;
pub use terrace_table::transaction::{LockTimeout, TransactionStatus};
pub use terrace_table::{Encoding, SegmentError};
