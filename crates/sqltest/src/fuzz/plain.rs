//! DataFusion alone as the peer: over tables in memory, in one partition, without Terrace's
//! additions.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::FutureExt as _;
use terrace_sql::stock;

use super::cell::{self, Answer};
use super::load;
use super::schema::Table;
use crate::error::{CheckError, Result};

/// Optimizations that are turned off, since they rewrite plans or move filters; plans of subqueries
/// need the other rules.
const OFF: &[&str] = &[
    "datafusion.optimizer.enable_dynamic_filter_pushdown",
    "datafusion.optimizer.repartition_joins",
    "datafusion.optimizer.repartition_aggregations",
    "datafusion.optimizer.repartition_windows",
    "datafusion.optimizer.prefer_hash_join",
    "datafusion.optimizer.enable_topk_aggregation",
];

/// A session of DataFusion alone.
pub struct Plain {
    context: SessionContext,
}

impl Plain {
    /// Opens a session without tables.
    ///
    /// # Errors
    /// [`CheckError::Peer`] when a setting no longer exists.
    pub fn new() -> Result<Self> {
        let mut config = SessionConfig::new().with_target_partitions(1);
        for name in OFF {
            let set = config.options_mut().set(name, "false");
            set.map_err(|error| CheckError::Peer(format!("{name}: {error}")))?;
        }
        Ok(Self { context: SessionContext::new_with_config(config) })
    }

    /// Runs statements; the rows in the answer are those of the last statement.
    pub async fn ask(&self, statements: &[String]) -> Answer {
        let mut rows = Vec::new();
        for statement in statements {
            // Some statements make DataFusion's operators panic, in their own tasks or in this one.
            let asked = AssertUnwindSafe(self.one(statement)).catch_unwind().await;
            let answer = asked.map_err(|_| "DataFusion panicked".to_owned())?;
            rows = answer.map_err(|error| error.to_string())?;
        }
        Ok(rows)
    }

    async fn one(&self, statement: &str) -> Result<Vec<Vec<cell::Cell>>, DataFusionError> {
        let frame = stock::frame(&self.context, statement).await?;
        let batches = frame.collect().await?;
        cell::rows(&batches).map_err(DataFusionError::Execution)
    }

    /// Creates a table with its rows.
    ///
    /// # Errors
    /// [`CheckError::Rows`].
    pub fn load(&self, table: &Table) -> Result<()> {
        let broken = |error: DataFusionError| CheckError::Rows(error.to_string());
        let batch = load::batch(table)?;
        let memory = MemTable::try_new(batch.schema(), vec![vec![batch]]).map_err(broken)?;
        self.context.deregister_table(table.name.as_str()).map_err(broken)?;
        let made = self.context.register_table(table.name.as_str(), Arc::new(memory));
        made.map(drop).map_err(broken)
    }
}
