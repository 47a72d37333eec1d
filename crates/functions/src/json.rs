//! JSON over texts: functions, operators and types of PostgreSQL and DuckDB.
//!
//! PostgreSQL's functions return parts of a text as they are written, DuckDB's without blanks.
//! Functions whose names begin with `jsonb`, and casts to JSONB, return PostgreSQL's normal form.
//! Numbers keep their digits. At most 512 levels of nesting are read.

mod build;
mod change;
mod escape;
mod extract;
mod forms;
mod function;
mod inspect;
mod jsonpath;
mod key;
mod operators;
mod pairs;
mod path;
mod registry;
mod scan;
mod text;
mod types;
mod value;
mod write;

pub(crate) use forms::{checked, normal};
pub(crate) use key::key;
pub use operators::{JsonOperators, JsonSubscripts};
pub use registry::functions;
pub(crate) use types::{EXTENSION, JSON, JSONB};
