//! Kinds of differences between the aggregate functions here and DataFusion's.

use datafusion::logical_expr::AggregateUDF;

/// The difference of an aggregate function from DataFusion's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A sum that does not wrap around.
    Sum,
    /// An average that is exact for integers and decimals, and otherwise as [`Kind::Distinct`].
    Average,
    /// The minimum of floating-point numbers by the order of SQL.
    Min,
    /// The maximum of floating-point numbers by the order of SQL.
    Max,
    /// Equal floating-point numbers count as one distinct value.
    Distinct,
    /// Over a sliding window frame, no value is subtracted when a row leaves the frame.
    Moving,
    /// Accepts sliding window frames, which DataFusion refuses, by aggregating rows again. DISTINCT
    /// makes no difference.
    Logical,
}

/// Returns true for `array_agg` and `string_agg`, whose results hold every value of their group.
/// Compares names: DataFusion makes another function of a list whose input is ordered already.
pub(crate) fn is_list(stock: &AggregateUDF) -> bool {
    matches!(stock.name(), "array_agg" | "string_agg")
}
