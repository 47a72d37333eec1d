//! Execution of ALTER TIER: resizes a memory tier.

use terrace_exec::run_blocking;
use terrace_governor::memory::DRAM_BYTES_MIN;
use terrace_pool::PoolError;
use terrace_sys::size::{format_bytes, parse_bytes};
use terrace_table::error::SqlError;

use crate::session::state::{Planned, Session};
use crate::session::tier::AlterTier;
use crate::session::words::listed;

impl Session {
    /// Resizes a memory tier; it has its new size when this returns.
    pub(in crate::session) fn alter_tier(
        &self,
        statement: &AlterTier,
    ) -> Result<Planned, SqlError> {
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
        match run_blocking(|| self.engine.pool().resize(tier, bytes)) {
            Ok(_) => Ok(Planned::nothing()),
            Err(PoolError::Config { reason, .. }) => Err(SqlError::Refused {
                what: format!("a size of {} for the tier {name}", format_bytes(bytes)),
                instead: reason,
            }),
            Err(error) => Err(error.into()),
        }
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
