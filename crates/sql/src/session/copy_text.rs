//! Lists, structs and maps in COPY TO a CSV file, which holds texts alone.

use std::sync::Arc;

use datafusion::common::{Column, Result};
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use terrace_functions::nested;

/// Writes nested columns of a COPY to CSV as texts; leaves any other plan unchanged.
///
/// # Errors
/// Errors of planning.
pub(super) fn with_texts(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Copy(copy) = plan else { return Ok(plan) };
    let schema = Arc::clone(copy.input.schema());
    let is_csv = copy.file_type.get_ext().eq_ignore_ascii_case("csv");
    if !is_csv || !schema.fields().iter().any(|field| field.data_type().is_nested()) {
        return Ok(LogicalPlan::Copy(copy));
    }
    let text = nested::function();
    let columns = schema.iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        match field.data_type().is_nested() {
            true => text.call(vec![column]).alias_qualified(qualifier.cloned(), field.name()),
            false => column,
        }
    });
    let input = LogicalPlanBuilder::from(copy.input).project(columns)?.build()?;
    Ok(LogicalPlan::Copy(CopyTo { input: Arc::new(input), ..copy }))
}
