//! Planning of EXPLAIN.

use std::sync::Arc;
use std::time::Instant;

use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use terrace_governor::pins::Reader;
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use crate::session::explain::{ExplainExec, ExplainStatement, Options, explainable};
use crate::session::parts;
use crate::session::state::{Planned, Session};

impl Session {
    /// Plans an EXPLAIN. The physical plan returns the description of the explained plan as rows.
    pub(in crate::session) async fn explain(
        &self,
        explain: ExplainStatement,
        scope: &Scope,
        reader: Arc<Reader>,
    ) -> Result<Planned, SqlError> {
        let began = Instant::now();
        self.follow_engine()?;
        let (mut state, snapshot) = self.state_in(scope)?;
        state.config_mut().set_extension(Arc::clone(&reader));
        let (options, statement) = explain.into_parts();
        let plan = self.logical_plan(&state, &snapshot, statement).await?;
        self.explain_plan(state, plan, &snapshot, scope, reader, (options, began)).await
    }

    /// Plans an EXPLAIN of a prepared statement, whose logical plan is `plan`.
    pub(in crate::session) async fn explain_prepared(
        &self,
        state: SessionState,
        plan: LogicalPlan,
        snapshot: &Snapshot,
        scope: &Scope,
        reader: Arc<Reader>,
        explain: &ExplainStatement,
    ) -> Result<Planned, SqlError> {
        let terms = (explain.options(), Instant::now());
        self.explain_plan(state, plan, snapshot, scope, reader, terms).await
    }

    async fn explain_plan(
        &self,
        state: SessionState,
        plan: LogicalPlan,
        snapshot: &Snapshot,
        scope: &Scope,
        reader: Arc<Reader>,
        (options, began): (Options, Instant),
    ) -> Result<Planned, SqlError> {
        let plan = match parts::of(&plan).filter(|node| node.is_definition()) {
            Some(node) => node.with_main(explainable(node.main().clone(), options.runs())?),
            None => explainable(plan, options.runs())?,
        };
        let (state, plan) = self.settled(state, plan, reader).await?;
        let plan = self.with_limits(&state, snapshot, plan).await?;
        let has_parts = parts::of(&plan).is_some();
        // A change that is only shown is allowed in a read-only transaction.
        if options.runs() && (has_parts || matches!(plan, LogicalPlan::Dml(_))) {
            self.refuse_change(scope, "a change of rows")?;
        }
        let planned = match (has_parts, options.runs()) {
            (true, true) => {
                Box::pin(self.plan_together(state, plan, snapshot, scope, None)).await?
            }
            (true, false) => Box::pin(self.plan_shown(state, plan, snapshot)).await?,
            (false, _) => self.pinned_plan(state, plan, snapshot).await?,
        };
        let Planned { plan, watched } = planned;
        let shown = watched.clone();
        let plan = ExplainExec::new(plan, shown, options, began.elapsed());
        let watched = watched.filter(|_| options.runs());
        Ok(Planned { plan: Arc::new(plan), watched })
    }
}
