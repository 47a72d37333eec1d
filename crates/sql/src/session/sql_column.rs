//! Planning of column definitions by DataFusion, outside of CREATE TABLE.

use datafusion::arrow::datatypes::Field;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::sqlparser::ast::ColumnDef;
use terrace_table::error::SqlError;

use super::enums::names;
use super::parse::parse;
use super::refusal::refused;
use super::statement::SessionStatement;
use crate::names::Added;

/// Returns a nullable column of the name and type of a definition, without its options.
///
/// # Errors
/// Errors of planning, for a type that is not supported.
pub(super) async fn planned_column(
    state: &SessionState,
    column: &ColumnDef,
) -> Result<Field, SqlError> {
    let unknown = || refused(&format!("the column {column}"), "say a name and a type");
    let text = format!("CREATE TABLE t ({} {})", column.name, column.data_type);
    let statement = parse(&text)?.pop().and_then(SessionStatement::into_sql);
    let mut statement = statement.ok_or_else(unknown)?;
    Added::rewrite(state, &mut statement);
    names::write_out(state, &mut statement)?;
    let plan = state.statement_to_plan(statement).await?;
    let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) = plan else {
        return Err(unknown());
    };
    let fields = create.input.schema().fields();
    let field = fields.first().ok_or_else(unknown)?;
    Ok(field.as_ref().clone().with_nullable(true))
}
