//! Plans of statements whose rows are computed before they run, such as SHOW.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Int64Array, ListBuilder, RecordBatch, StringArray, StringBuilder,
};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::catalog::MemTable;
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;

/// Columns of equal length with their names.
#[derive(Default)]
pub(super) struct Rows {
    names: Vec<&'static str>,
    columns: Vec<ArrayRef>,
}

impl Rows {
    fn with(mut self, name: &'static str, column: ArrayRef) -> Self {
        self.names.push(name);
        self.columns.push(column);
        self
    }

    /// Adds a column of texts.
    pub(super) fn texts<T: AsRef<str>>(
        self,
        name: &'static str,
        values: impl IntoIterator<Item = Option<T>>,
    ) -> Self {
        let values: StringArray = values.into_iter().collect();
        self.with(name, Arc::new(values))
    }

    /// Adds a column of lists of texts.
    pub(super) fn lists<T: AsRef<str>>(
        self,
        name: &'static str,
        values: impl IntoIterator<Item = Vec<T>>,
    ) -> Self {
        let mut lists = ListBuilder::new(StringBuilder::new());
        for list in values {
            list.iter().for_each(|text| lists.values().append_value(text));
            lists.append(true);
        }
        self.with(name, Arc::new(lists.finish()))
    }

    /// Adds a column of counts.
    pub(super) fn numbers(
        self,
        name: &'static str,
        values: impl IntoIterator<Item = usize>,
    ) -> Self {
        let number = |value| i64::try_from(value).unwrap_or(i64::MAX);
        let values: Int64Array = values.into_iter().map(|value| Some(number(value))).collect();
        self.with(name, Arc::new(values))
    }

    /// Adds a column of truth values.
    pub(super) fn flags(self, name: &'static str, values: impl IntoIterator<Item = bool>) -> Self {
        let values: BooleanArray = values.into_iter().map(Some).collect();
        self.with(name, Arc::new(values))
    }

    fn batch(self) -> Result<RecordBatch> {
        let fields = self.names.iter().zip(&self.columns);
        let fields =
            fields.map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(RecordBatch::try_new(schema, self.columns)?)
    }

    /// The logical plan that returns the rows.
    pub(super) fn logical(self) -> Result<LogicalPlan> {
        let batch = self.batch()?;
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
        LogicalPlanBuilder::scan("shown", provider_as_source(Arc::new(table)), None)?.build()
    }

    /// The physical plan that returns the rows.
    pub(super) fn physical(self) -> Result<Arc<dyn ExecutionPlan>> {
        let batch = self.batch()?;
        let schema = batch.schema();
        Ok(MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None)?)
    }
}
