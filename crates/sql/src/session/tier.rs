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
use terrace_exec::run_blocking;
use terrace_sys::size::{format_bytes, parse_bytes};

use super::words::{self, listed, set_options};
use super::{Planned, Session};
use crate::engine::DRAM_BYTES_MIN;
use crate::error::SqlError;

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

impl Session {
    /// Runs a statement about a tier, which has its new size when this returns.
    pub(super) fn alter_tier(&self, statement: &AlterTier) -> Result<Planned, SqlError> {
        let AlterTier { name, options } = statement;
        let names = self.engine.memory_tier_names();
        let Some(tier) = names.iter().position(|known| known == name) else {
            return Err(SqlError::Refused {
                what: format!("the memory tier {name}"),
                instead: format!("there is {}", names.join(", ")),
            });
        };
        let bytes = size(options)?;
        if tier == 0 && bytes < DRAM_BYTES_MIN {
            return Err(SqlError::Refused {
                what: format!("a budget of {}", format_bytes(bytes)),
                instead: format!("it takes at least {}", format_bytes(DRAM_BYTES_MIN)),
            });
        }
        run_blocking(|| self.engine.pool().resize(tier, bytes))?;
        Ok(Planned::nothing())
    }
}

/// The size that the options set, in bytes.
fn size(options: &[(String, String)]) -> Result<u64, SqlError> {
    let [(key, value)] = options else {
        return Err(refused(&listed(options), "there is one option, size"));
    };
    if key != "size" {
        return Err(refused(key, "the option is size, such as size = '512MiB'"));
    }
    parse_bytes(value).map_err(|error| refused(&format!("size = '{value}'"), &error))
}

fn refused(what: &str, instead: &str) -> SqlError {
    SqlError::Refused { what: format!("{what} for a tier"), instead: instead.to_owned() }
}
