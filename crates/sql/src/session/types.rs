//! Column types beyond those of DataFusion (UUID, JSON, CHAR(n), intervals and others): planning of
//! their names, and the semantics of their values in queries.

mod array_literals;
mod choices;
mod constants;
mod intervals;
mod kinds;
mod literals;
mod map;
mod nested;
mod ordering;
mod planner;
mod quantified;
mod rule;
mod struct_rows;
mod text_forms;
mod unions;
mod values;

use datafusion::sql::sqlparser::ast::Expr;

pub(super) use constants::write_out_values;
pub(super) use kinds::has_key;
pub(super) use nested::of_output;
pub(super) use planner::ColumnTypes;
pub(super) use rule::TypedValues;
pub(super) use struct_rows::name_fields;
pub(super) use text_forms::name_columns;
pub(super) use values::rewrite;

/// Rewrites literals, functions of texts, and comparisons with lists before planning, as described
/// in `literals`, `array_literals`, `text_forms` and `quantified`; leaves any other expression
/// unchanged.
pub(super) fn write_out(expr: &mut Expr) {
    array_literals::write_out(expr);
    literals::write_out(expr);
    text_forms::write_out(expr);
    quantified::write_out(expr);
}
