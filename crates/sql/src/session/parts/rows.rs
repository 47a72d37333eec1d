//! The stored rows of a part as a table function, which later parts read.
//!
//! A later part names them as a table function without arguments, which is known while the
//! statement is planned. Its table has the number of the part. The rows are found where the plan
//! runs, so that a prepared plan has none.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err, not_impl_err};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion::sql::sqlparser::ast::Ident;
use terrace_exec::stream::{Emitter, generate};
use terrace_exec::{QueryExtension, StoredBatches};
use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;

/// The stored rows of the parts of a running statement that have ended, by number.
#[derive(Debug, Default)]
pub(super) struct PartRows(Mutex<HashMap<usize, Arc<StoredBatches>>>);

impl PartRows {
    /// Makes the rows of a part known to the parts after it.
    pub(super) fn put(&self, part: usize, rows: Arc<StoredBatches>) {
        lock(&self.0).insert(part, rows);
    }

    fn get(&self, part: usize) -> Option<Arc<StoredBatches>> {
        lock(&self.0).get(&part).map(Arc::clone)
    }
}

/// Emits stored rows, or some of their columns.
///
/// # Errors
/// If they cannot be read back.
pub(super) async fn emit(
    rows: &StoredBatches,
    projection: Option<&[usize]>,
    emitter: &Emitter,
) -> Result<()> {
    let mut next = 0;
    while let Some((first, batch)) = rows.batch_with(next).await? {
        next = first + to_u64(batch.num_rows());
        let batch = match projection {
            Some(columns) => batch.project(columns)?,
            None => batch,
        };
        emitter.emit(batch).await;
    }
    Ok(())
}

/// The name of the table function of a part.
pub(super) fn function_name(part: usize) -> String {
    format!("terrace_part_{part}")
}

/// The name of a column of the table of a part.
fn column_name(place: usize) -> String {
    format!("column {place}")
}

/// The columns of the table of a part whose rows have these columns.
pub(super) fn columns_of(fields: &[FieldRef]) -> SchemaRef {
    let fields = fields.iter().enumerate().map(|(place, field)| {
        // Two columns of a part may have one name.
        field.as_ref().clone().with_name(column_name(place)).with_nullable(true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
}

/// The text of the query for the rows of a part, whose columns get these names.
pub(super) fn query_text(part: usize, names: &[String]) -> String {
    let columns = names.iter().enumerate().map(|(place, name)| {
        let column = Ident::with_quote('"', column_name(place));
        format!("{column} AS {}", Ident::with_quote('"', name))
    });
    let columns: Vec<_> = columns.collect();
    format!("SELECT {} FROM {}()", columns.join(", "), function_name(part))
}

/// The placeholder table of a part, and the table function that returns it.
#[derive(Clone, Debug)]
pub(super) struct PartTable {
    pub(super) part: usize,
    /// The columns of [`columns_of`].
    pub(super) schema: SchemaRef,
}

impl TableFunctionImpl for PartTable {
    fn call_with_args(&self, _: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl TableProvider for PartTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (part, properties) = (self.part, Arc::new(properties));
        Ok(Arc::new(PartRowsExec { part, projection: projection.cloned(), properties }))
    }
}

/// Reads the stored rows of a part.
#[derive(Debug)]
struct PartRowsExec {
    part: usize,
    projection: Option<Vec<usize>>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for PartRowsExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind {
            DisplayFormatType::TreeRender => Ok(()),
            _ => write!(f, "PartRowsExec: part={}", self.part + 1),
        }
    }
}

impl ExecutionPlan for PartRowsExec {
    fn name(&self) -> &'static str {
        "PartRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("PartRowsExec has no inputs"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("PartRowsExec has one partition, and not {partition}");
        }
        let rows = context.session_config().get_extension::<PartRows>();
        let Some(rows) = rows.and_then(|rows| rows.get(self.part)) else {
            // Limits are computed before any part runs.
            return not_impl_err!(
                "a LIMIT or OFFSET that depends on rows of a data-modifying statement in WITH; \
                 number the rows by row_number() instead"
            );
        };
        let (memory, projection) = (QueryExtension::find(&context)?, self.projection.clone());
        Ok(generate("PartRowsExec", &memory, self.schema(), move |emitter| async move {
            emit(&rows, projection.as_deref(), &emitter).await
        }))
    }
}
