//! DataFusion's in-memory table with the statistics of another table.
//!
//! DataFusion orders joins by statistics, and its own in-memory tables have fewer of them. With the
//! statistics of Terrace's tables DataFusion chooses join orders from the same data, so that the
//! comparison is one of scans and operators.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::MemTable;
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};

/// An in-memory table with given statistics.
#[derive(Debug)]
pub struct TwinTable {
    table: MemTable,
    statistics: Statistics,
}

impl TwinTable {
    /// Creates a table from partitions.
    ///
    /// # Errors
    /// Fails if a batch has another schema.
    pub fn new(
        schema: SchemaRef,
        partitions: Vec<Vec<RecordBatch>>,
        statistics: Statistics,
    ) -> Result<TwinTable> {
        Ok(TwinTable { table: MemTable::try_new(schema, partitions)?, statistics })
    }
}

#[async_trait]
impl TableProvider for TwinTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.statistics.clone())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.table.scan(state, projection, filters, limit).await?;
        let Some(scan) = plan.downcast_ref::<DataSourceExec>() else { return Ok(plan) };
        let statistics = Arc::new(self.statistics.clone().project(projection));
        let source = TwinSource { inner: Arc::clone(scan.data_source()), statistics };
        Ok(DataSourceExec::from_data_source(source))
    }
}

/// Scan of the in-memory table with the given statistics.
#[derive(Clone, Debug)]
struct TwinSource {
    inner: Arc<dyn DataSource>,
    statistics: Arc<Statistics>,
}

impl TwinSource {
    fn around(&self, inner: Arc<dyn DataSource>) -> Arc<dyn DataSource> {
        Arc::new(TwinSource { inner, statistics: Arc::clone(&self.statistics) })
    }
}

impl DataSource for TwinSource {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.inner.open(partition, context)
    }

    fn fmt_as(&self, style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_as(style, f)
    }

    fn repartitioned(
        &self,
        partitions: usize,
        size: usize,
        ordering: Option<LexOrdering>,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let inner = self.inner.repartitioned(partitions, size, ordering)?;
        Ok(inner.map(|inner| self.around(inner)))
    }

    fn output_partitioning(&self) -> Partitioning {
        self.inner.output_partitioning()
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.inner.eq_properties()
    }

    fn scheduling_type(&self) -> SchedulingType {
        self.inner.scheduling_type()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        if partition.is_none() {
            return Ok(Arc::clone(&self.statistics));
        }
        let own = self.inner.partition_statistics(partition)?;
        let whole = self.statistics.as_ref().clone().to_inexact();
        let (num_rows, total_byte_size) = (own.num_rows, own.total_byte_size);
        Ok(Arc::new(Statistics { num_rows, total_byte_size, ..whole }))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        self.inner.with_fetch(limit).map(|inner| self.around(inner))
    }

    fn fetch(&self) -> Option<usize> {
        self.inner.fetch()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let Some(inner) = self.inner.try_swapping_with_projection(projection)? else {
            return Ok(None);
        };
        let schema = inner.eq_properties().schema().clone();
        let statistics =
            projection.project_statistics(self.statistics.as_ref().clone(), &schema)?;
        Ok(Some(Arc::new(TwinSource { inner, statistics: Arc::new(statistics) })))
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(visit)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int64Array;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::stats::Precision;
    use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn plans_see_the_given_statistics_and_rows_are_its_own() {
        let field = |name| Field::new(name, DataType::Int64, false);
        let schema = Arc::new(Schema::new(vec![field("a"), field("b")]));
        let column = || Arc::new(Int64Array::from(vec![1, 2, 3])) as _;
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column(), column()]);
        let mut statistics = Statistics::new_unknown(&schema);
        statistics.num_rows = Precision::Exact(3);
        statistics.column_statistics[1].distinct_count = Precision::Inexact(77);
        let twin = TwinTable::new(schema, vec![vec![batch.expect("batch")]], statistics);
        let context = SessionContext::new();
        context.register_table("t", Arc::new(twin.expect("twin"))).expect("registered");
        let query = context.sql("SELECT b FROM t").await.expect("planned");
        let plan = query.clone().create_physical_plan().await.expect("plan");
        let seen = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
        let seen = seen.expect("statistics");
        assert_eq!(seen.column_statistics.len(), 1);
        assert_eq!(seen.column_statistics[0].distinct_count, Precision::Inexact(77));
        assert_eq!(query.count().await.expect("count"), 3);
    }
}
