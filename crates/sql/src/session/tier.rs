//! The statement that changes memory tiers.
//!
//! ```text
//! ALTER TIER dram SET (size = '512MiB');
//! ```
//!
//! The name is that of `terrace.tiers`. DRAM is the budget of all memory consumers; a shrinking
//! tier gives up pages while queries run.

use std::fmt;

use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use super::words::{self, listed, set_options};

/// A statement that changes a memory tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterTier {
    /// Name of the tier.
    pub name: String,
    /// Options with their new values.
    pub options: Vec<(String, String)>,
}

impl fmt::Display for AlterTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER TIER {} SET ({})", self.name, listed(&self.options))
    }
}

/// Returns true if a statement about a tier follows.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    words::is_next(parser, &["alter"], "tier")
}

/// Parses the statement that [`is_next`] has found.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<AlterTier, ParserError> {
    parser.advance_token();
    parser.advance_token();
    let name = words::name(parser)?;
    Ok(AlterTier { name, options: set_options(parser, "SET (size = '...')")? })
}
