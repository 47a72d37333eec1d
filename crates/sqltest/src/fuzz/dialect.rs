//! Dialects of SQL that statements are rendered in.

/// The database that a text is rendered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Terrace; also DataFusion alone.
    Terrace,
    /// DuckDB.
    Duck,
}
