//! Bounds of the columns of data files, by which files without a matching row are left out.
//!
//! Some bounds of the log are not used: those of floating-point columns leave NaN out, which is
//! above all numbers, and those of long decimals are rounded, or cut to 64 bits, by the writer
//! delta-rs.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray as _, BooleanArray, StructArray, UInt64Array, new_null_array,
};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion::catalog::Session;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use terrace_exec::floats::has_floats;

use super::columns::{Columns, Known};
use super::data_files::{DataFile, DataFiles};

/// Microseconds that the greatest instant of a file may be above the one in the log: the log has
/// milliseconds, rounded down.
const ROUNDED_MICROS: i64 = 999;

/// Statistics of data files, in the form that DataFusion's pruning reads.
pub(super) struct Bounds<'a> {
    columns: &'a Columns,
    data: &'a DataFiles,
}

impl<'a> Bounds<'a> {
    /// The statistics of the data files of a version.
    pub(super) fn new(columns: &'a Columns, data: &'a DataFiles) -> Self {
        Self { columns, data }
    }

    /// Returns for each file true if it may have a row that satisfies all filters.
    ///
    /// # Errors
    /// Errors of the evaluation.
    pub(super) fn kept(&self, filters: &[Expr], state: &dyn Session) -> Result<Vec<bool>> {
        let mut kept = vec![true; self.data.files.len()];
        let schema = DFSchema::try_from(Arc::clone(&self.columns.schema))?;
        for filter in filters {
            // A filter that cannot be decided by itself leaves no file out: all of them are
            // evaluated over the rows.
            let Ok(expr) = state.create_physical_expr(filter.clone(), &schema) else { continue };
            let predicate = PruningPredicateBuilder::new()
                .with_file_schema(Arc::clone(&self.columns.schema))
                .try_build(expr);
            let Ok(predicate) = predicate else { continue };
            if predicate.always_true() {
                continue;
            }
            for (kept, may_match) in kept.iter_mut().zip(predicate.prune(self)?) {
                *kept &= may_match;
            }
        }
        Ok(kept)
    }

    /// The bounds of a column, by their name in the log.
    fn bounds(&self, column: &Column, side: &str) -> Option<ArrayRef> {
        let (known, data_type) = self.columns.known(column.name())?;
        if has_floats(data_type) || data_type.is_nested() {
            return None;
        }
        match known {
            Known::Log(_) if is_rounded(data_type) => None,
            Known::Log(name) => self.of_log(side, name),
            Known::Constant(place) => {
                let values = self.constants(place)?.cloned();
                ScalarValue::iter_to_array(values).ok()
            }
        }
    }

    /// The constants of all files at a place; `None` for names of files.
    fn constants(&self, place: usize) -> Option<impl Iterator<Item = &'a ScalarValue>> {
        let files = &self.data.files;
        let has_all = !files.is_empty() && files.iter().all(|file| file.values.len() > place);
        has_all.then(|| files.iter().map(move |file| &file.values[place]))
    }

    /// Statistics of the log, with nulls for files that have none.
    fn of_log(&self, kind: &str, name: &str) -> Option<ArrayRef> {
        let of_run = |run: &'a Option<StructArray>| -> Option<&'a ArrayRef> {
            run.as_ref()?.column_by_name(kind)?.as_struct_opt()?.column_by_name(name)
        };
        let runs = self.data.statistics.iter();
        let data_type = runs.clone().find_map(|(_, run)| of_run(run))?.data_type();
        let arrays = runs.map(|(files, run)| match of_run(run) {
            Some(array) if array.data_type() == data_type => Arc::clone(array),
            _ => new_null_array(data_type, *files),
        });
        let arrays: Vec<ArrayRef> = arrays.collect();
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        concat(&arrays).ok()
    }
}

/// True for a decimal that a double does not hold.
fn is_rounded(data_type: &DataType) -> bool {
    let precision = match data_type {
        DataType::Decimal32(precision, _)
        | DataType::Decimal64(precision, _)
        | DataType::Decimal128(precision, _)
        | DataType::Decimal256(precision, _) => *precision,
        _ => return false,
    };
    u32::from(precision) > f64::DIGITS
}

/// Bounds from above of instants that were rounded down.
fn rounded_up(bounds: ArrayRef) -> ArrayRef {
    let DataType::Timestamp(TimeUnit::Microsecond, zone) = bounds.data_type() else {
        return bounds;
    };
    let micros = bounds.as_primitive::<TimestampMicrosecondType>();
    let above = micros.unary::<_, TimestampMicrosecondType>(|at| at.saturating_add(ROUNDED_MICROS));
    Arc::new(above.with_timezone_opt(zone.clone()))
}

impl PruningStatistics for Bounds<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, "minValues")
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        let bounds = self.bounds(column, "maxValues")?;
        match self.columns.known(column.name())? {
            (Known::Log(_), _) => Some(rounded_up(bounds)),
            (Known::Constant(_), _) => Some(bounds),
        }
    }

    fn num_containers(&self) -> usize {
        self.data.files.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        match self.columns.known(column.name())? {
            (Known::Log(_), data_type) if data_type.is_nested() => None,
            (Known::Log(name), _) => self.of_log("nullCount", name),
            (Known::Constant(place), _) => {
                let rows = self.data.files.iter().map(|file| file.rows);
                let counts = self
                    .constants(place)?
                    .zip(rows)
                    .map(|(value, rows)| if value.is_null() { rows } else { Some(0) });
                Some(Arc::new(counts.collect::<UInt64Array>()))
            }
        }
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows = |file: &DataFile| file.rows;
        Some(Arc::new(self.data.files.iter().map(rows).collect::<UInt64Array>()))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
