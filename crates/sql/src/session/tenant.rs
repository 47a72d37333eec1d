//! Statements that create, alter and drop tenants.
//!
//! ```text
//! CREATE TENANT [IF NOT EXISTS] gold [WITH (sla = 'latency 50ms penalty 10')];
//! ALTER TENANT gold SET (sla = 'latency 20ms penalty 10');
//! DROP TENANT [IF EXISTS] gold;
//! ```

use std::fmt;

use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use super::words::{self, Created, is_word, listed, name, set_options};

/// A statement that creates, alters or drops a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantStatement {
    /// CREATE TENANT.
    Create {
        /// Name of the tenant.
        name: String,
        /// True for IF NOT EXISTS.
        keep: bool,
        /// Options with their values.
        options: Vec<(String, String)>,
    },
    /// ALTER TENANT.
    Alter {
        /// Name of the tenant.
        name: String,
        /// Options with their new values.
        options: Vec<(String, String)>,
    },
    /// DROP TENANT.
    Drop {
        /// Name of the tenant.
        name: String,
        /// True for IF EXISTS.
        if_exists: bool,
    },
}

impl fmt::Display for TenantStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { name, keep, options } => {
                let keep = if *keep { "IF NOT EXISTS " } else { "" };
                write!(f, "CREATE TENANT {keep}{name}")?;
                match options.as_slice() {
                    [] => Ok(()),
                    options => write!(f, " WITH ({})", listed(options)),
                }
            }
            Self::Alter { name, options } => {
                write!(f, "ALTER TENANT {name} SET ({})", listed(options))
            }
            Self::Drop { name, if_exists } => {
                write!(f, "DROP TENANT {}{name}", if *if_exists { "IF EXISTS " } else { "" })
            }
        }
    }
}

/// Returns true if a statement about a tenant follows.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    words::is_next(parser, &["create", "alter", "drop"], "tenant")
}

/// Parses the statement that [`is_next`] has found.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<TenantStatement, ParserError> {
    let verb = parser.next_token().token;
    parser.advance_token();
    if is_word(&verb, "create") {
        let Created { keep, name, options } = words::created(parser)?;
        Ok(TenantStatement::Create { name, keep, options })
    } else if is_word(&verb, "alter") {
        let name = name(parser)?;
        Ok(TenantStatement::Alter { name, options: set_options(parser, "SET (sla = '...')")? })
    } else {
        let (if_exists, name) = words::dropped(parser)?;
        Ok(TenantStatement::Drop { name, if_exists })
    }
}
