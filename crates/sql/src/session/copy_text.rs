//! Lists, structs, maps and timestamps in COPY TO a CSV file, which are written as text.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use terrace_functions::columns::moment_text;
use terrace_functions::nested;

use super::semantics::zones;

/// Writes nested columns and timestamps of a COPY to CSV as texts; leaves any other plan unchanged.
///
/// # Errors
/// Errors of planning.
pub(super) fn with_texts(plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
    let LogicalPlan::Copy(copy) = plan else { return Ok(plan) };
    let schema = Arc::clone(copy.input.schema());
    let is_csv = copy.file_type.get_ext().eq_ignore_ascii_case("csv");
    let becomes_text = |of: &DataType| of.is_nested() || matches!(of, DataType::Timestamp(..));
    if !is_csv || !schema.fields().iter().any(|field| becomes_text(field.data_type())) {
        return Ok(LogicalPlan::Copy(copy));
    }
    let (text, zone) = (nested::function(), zones::of(options));
    let columns = schema.iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        let of = field.data_type();
        if !becomes_text(of) {
            return column;
        }
        let text = match of.is_nested() {
            true => text.call(vec![column]),
            false => moment_text(zones::in_zone(&column, of, zone).unwrap_or(column)),
        };
        text.alias_qualified(qualifier.cloned(), field.name())
    });
    let columns: Vec<Expr> = columns.collect();
    let input = LogicalPlanBuilder::from(copy.input).project(columns)?.build()?;
    Ok(LogicalPlan::Copy(CopyTo { input: Arc::new(input), ..copy }))
}
