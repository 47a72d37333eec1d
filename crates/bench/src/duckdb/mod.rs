//! DuckDB as the engine to compare with: a Python package that runs in processes of its own.

pub mod answers;
pub mod oracle;
pub mod package;
