//! Oracle: the engine whose answers over the same data are taken as correct.

use crate::duckdb::answers as duckdb;
use crate::duckdb::package::Packages;
use crate::error::{BenchError, Result};
use crate::suite::feed::Generator;
use crate::suite::reference::{self, Answers, DATAFUSION, Texts};
use crate::suite::table::Generated;

/// Choice of the oracle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Oracle {
    /// DuckDB if it is installed or can be installed, DataFusion otherwise.
    #[default]
    Auto,
    /// DuckDB, which shares no code with Terrace.
    DuckDb,
    /// DataFusion, whose parser, planner and kernels Terrace uses.
    DataFusion,
}

/// Answers, and the engine that computed them.
pub struct Given {
    /// The answers.
    pub answers: Answers,
    /// Name of the engine in reports.
    pub source: String,
}

impl Oracle {
    /// Returns the oracle's answers over the generator's tables; `packages` are those of DuckDB.
    ///
    /// # Errors
    /// Fails if the chosen engine cannot answer.
    pub async fn ask<T: Generated>(
        self,
        packages: Packages,
        generator: &Generator,
        texts: &Texts,
    ) -> Result<Given> {
        let because = match self {
            Oracle::DataFusion => None,
            Oracle::DuckDb | Oracle::Auto => {
                match duckdb::ask::<T>(packages, generator, texts).await {
                    Ok(answers) => {
                        let source = format!("DuckDB {}'s, over the same data", packages.version);
                        return Ok(Given { answers, source });
                    }
                    Err(error) if self == Oracle::DuckDb => return Err(error),
                    Err(error) => Some(error),
                }
            }
        };
        let answers = reference::ask::<T>(generator, texts).await?;
        let source = because.map_or(DATAFUSION.to_string(), |error: BenchError| {
            format!("{DATAFUSION}, for want of DuckDB ({error})")
        });
        Ok(Given { answers, source })
    }
}
