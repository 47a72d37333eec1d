//! Physical plans of statements that read or change rows.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::logical_plan::Statement as PlanStatement;
use terrace_governor::pins::Reader;
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use super::state::{Planned, Session};
use super::{copy_text, optimize, parts, returning, snapshot};
use crate::access::check_plan;
use crate::file_tables;

impl Session {
    /// The physical plan of a statement that is not a definition, over tables as of `snapshot`.
    pub(super) async fn physical_plan(
        &self,
        state: SessionState,
        plan: LogicalPlan,
        snapshot: &Snapshot,
        scope: &Scope,
        reader: Arc<Reader>,
    ) -> Result<Planned, SqlError> {
        let (state, plan) = self.settled(state, plan, reader).await?;
        let plan = self.with_limits(&state, snapshot, plan).await?;
        let has_parts = parts::of(&plan).is_some();
        // A prepared statement shows only here that it is a change of rows.
        if has_parts || matches!(plan, LogicalPlan::Dml(_)) || returning::of(&plan).is_some() {
            self.refuse_change(scope, "a change of rows")?;
        }
        match has_parts {
            true => Box::pin(self.plan_together(state, plan, snapshot, scope, None)).await,
            false => self.pinned_plan(state, plan, snapshot).await,
        }
    }

    /// Runs a SET or another statement of DataFusion's session, and replaces an EXECUTE by the plan
    /// of its prepared statement; leaves any other plan unchanged.
    pub(super) async fn settled(
        &self,
        state: SessionState,
        plan: LogicalPlan,
        reader: Arc<Reader>,
    ) -> Result<(SessionState, LogicalPlan), SqlError> {
        // DataFusion's context executes settings and prepared statements; it only wraps any other
        // plan, without running it.
        self.settle(&plan)?;
        let plan = match plan {
            LogicalPlan::Statement(PlanStatement::Execute(execute)) => {
                self.executed(&state, execute).await?
            }
            plan => plan,
        };
        let (mut state, plan) = match plan {
            LogicalPlan::Statement(_) | LogicalPlan::Ddl(_) => {
                self.context.execute_logical_plan(plan).await?.into_parts()
            }
            // Without the context, which would copy all functions.
            plan => (state, plan),
        };
        state.config_mut().set_extension(reader);
        Ok((state, plan))
    }

    /// The physical plan of a statement whose rights and locks have been checked, over tables as of
    /// `snapshot`.
    pub(super) async fn pinned_plan(
        &self,
        state: SessionState,
        plan: LogicalPlan,
        snapshot: &Snapshot,
    ) -> Result<Planned, SqlError> {
        let plan = snapshot::pin(plan, snapshot)?;
        let rights = self.rights(snapshot);
        check_plan(&plan, &rights)?;
        let plan = file_tables::staged(plan, self.engine.cloud())?;
        if let Some(planned) = self.modify(&state, &plan).await? {
            return Ok(planned);
        }
        let plan = copy_text::with_texts(plan, state.config_options())?;
        let plan = optimize::optimized(&state, plan)?;
        let plan = state.query_planner().create_physical_plan(&plan, &state).await?;
        self.copy.keep(state, &self.context);
        Ok(Planned { plan, watched: None })
    }
}
