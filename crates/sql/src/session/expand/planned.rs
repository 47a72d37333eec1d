//! Planning of the auxiliary queries that rewriting a statement needs.

use datafusion::common::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Query, Statement as SqlStatement};
use terrace_table::error::SqlError;

use crate::access::{Rights, check_plan};
use crate::session::{list_literals, using};

/// Plans an auxiliary query, and checks that `rights` allow it.
pub(super) async fn planned(
    state: &SessionState,
    rights: &Rights<'_>,
    query: Query,
) -> Result<LogicalPlan, SqlError> {
    let statement = SqlStatement::Query(Box::new(query));
    let mut statement = Statement::Statement(Box::new(statement));
    using::write_out(state, &mut statement).await?;
    let plan: Result<_, DataFusionError> = list_literals::plan(state, statement).await;
    let plan = plan?;
    check_plan(&plan, rights)?;
    Ok(plan)
}
