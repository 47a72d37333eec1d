//! Execution of COPY between a client and a table: the statements that produce or insert its rows.

use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::{Column, ScalarValue, TableReference, exec_err};
use datafusion::datasource::provider_as_source;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, lit};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use futures::future::BoxFuture;
use futures::stream;
use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;
use tokio::sync::mpsc;

use crate::execution::QueryHandle;
use crate::names::resolve;
use crate::provider::StoredTable;
use crate::session::client_text::bounded;
use crate::session::copy::{CopySource, CopyStatement, list};
use crate::session::sql_type::identifier;
use crate::session::state::Session;
use crate::session::{defaults, generated};
use crate::sessions::{HeldBytes, HeldFor, SessionInfo};

/// Maximum number of batches that are queued for the inserting statement.
const WAITING_MAX: usize = 2;

/// A running COPY FROM STDIN.
pub struct CopyIn {
    /// Schema that the sent rows have.
    pub schema: SchemaRef,
    /// Accepts the rows.
    pub rows: CopyRows,
    /// The statement that inserts the rows; it makes progress only while its stream is read.
    pub handle: QueryHandle,
}

/// Sends rows to a COPY FROM. If it is dropped before the end is signalled, the statement fails.
pub struct CopyRows {
    sender: mpsc::Sender<Option<Row>>,
    session: Arc<SessionInfo>,
}

/// Rows in transit, and their accounted bytes.
type Row = (RecordBatch, HeldBytes);

impl CopyRows {
    /// Sends rows, or with `None` the end of the rows. Returns false if the statement has ended;
    /// its handle has the reason.
    pub async fn send(&self, rows: Option<RecordBatch>) -> bool {
        let held = |rows: RecordBatch| {
            let bytes = to_u64(rows.get_array_memory_size());
            (rows, self.session.hold(HeldFor::Client, bytes))
        };
        self.sender.send(rows.map(held)).await.is_ok()
    }
}

impl fmt::Debug for CopyIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyIn").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Session {
    /// Starts the statement that produces the rows of a COPY TO.
    ///
    /// # Errors
    /// As [`Session::execute`].
    pub fn copy_out<'a>(
        &'a self,
        copy: &'a CopyStatement,
    ) -> BoxFuture<'a, Result<QueryHandle, SqlError>> {
        Box::pin(async move {
            let text = match &copy.source {
                CopySource::Query(query) => query.to_string(),
                CopySource::Table(name, columns) if columns.is_empty() => {
                    format!("SELECT {} FROM {name}", self.copied_columns(name)?)
                }
                CopySource::Table(name, columns) => {
                    format!("SELECT {} FROM {name}", list(columns))
                }
            };
            let mut statements = self.parse(&text)?;
            match (statements.pop(), copy.is_in) {
                (Some(statement), false) => self.execute(statement).await,
                _ => Err(SqlError::Refused {
                    what: format!("handing out the rows of {copy}"),
                    instead: "it takes rows in".to_owned(),
                }),
            }
        })
    }

    /// Starts the statement that inserts the rows of a COPY FROM.
    ///
    /// # Errors
    /// As [`Session::execute`]; errors for a table or column that does not exist.
    pub fn copy_in<'a>(
        &'a self,
        copy: &'a CopyStatement,
    ) -> BoxFuture<'a, Result<CopyIn, SqlError>> {
        Box::pin(async move {
            let (CopySource::Table(name, columns), true) = (&copy.source, copy.is_in) else {
                let what = format!("taking rows in for {copy}");
                return Err(SqlError::Refused { what, instead: "name a table".to_owned() });
            };
            let scope = self.begin_statement()?;
            let (state, current) = self.state_in(&scope)?;
            let (target, full) = self.target_of_copy(&state, &current, name)?;
            let schema = chosen(&target, columns)?;
            let (sender, receiver) = mpsc::channel(WAITING_MAX);
            let rows = Mutex::new(Some(receiver));
            let rows = Incoming { schema: Arc::clone(&schema), rows }.plan()?;
            let plan = defaults::fill(&state, insertion(target, &full, rows)?)?;
            let plan = generated::computed(&state, plan)?;
            let run =
                |reader| async { self.physical_plan(state, plan, &current, &scope, reader).await };
            let text = copy.to_string();
            let started = self.start(&text, bounded(&text), scope.clone(), true, run).await;
            let handle = started.inspect_err(|error| self.failed(error))?;
            let rows = CopyRows { sender, session: Arc::clone(&self.info) };
            Ok(CopyIn { schema, rows, handle })
        })
    }
}

impl Session {
    /// The select list of a COPY TO of a table without a list of columns: all that are not
    /// generated.
    fn copied_columns(&self, name: &ObjectName) -> Result<String, SqlError> {
        let (state, current) = self.state_in(&self.scope())?;
        let Ok((target, _)) = self.target_of_copy(&state, &current, name) else {
            return Ok("*".to_owned());
        };
        let table = target.table();
        let fields = table.schema().fields().iter();
        let is_generated = |name: &str| table.properties().generated(name).is_some();
        let given: Vec<_> = fields.filter(|field| !is_generated(field.name())).collect();
        match given.len() == table.schema().fields().len() {
            true => Ok("*".to_owned()),
            false => {
                Ok(given.iter().map(|it| identifier(it.name())).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// The table that a COPY inserts into, and its full name.
    pub(super) fn target_of_copy(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        name: &ObjectName,
    ) -> Result<(StoredTable, TableReference), SqlError> {
        let reference = TableReference::parse_str(&name.to_string());
        let full = resolve(state.config_options(), snapshot, reference);
        let found = StoredTable::find(&self.engine, snapshot, &full.schema, &full.table);
        let missing = || SqlError::Missing { name: format!("{}.{}", full.schema, full.table) };
        Ok((found.ok_or_else(missing)?, full.into()))
    }
}

/// The schema of the rows of a COPY FROM: the columns that it names, or if it names none, all that
/// are not generated.
pub(super) fn chosen(target: &StoredTable, columns: &[Ident]) -> Result<SchemaRef, SqlError> {
    let table = target.table();
    let is_generated = |field: &Field| table.properties().generated(field.name()).is_some();
    if columns.is_empty() {
        let all = table.schema().fields().iter();
        let given = all.filter(|field| !is_generated(field)).cloned();
        return Ok(Arc::new(Schema::new(given.collect::<Vec<_>>())));
    }
    let mut fields: Vec<Arc<Field>> = vec![];
    for column in columns {
        let name = IdentNormalizer::default().normalize(column.clone());
        let missing =
            || SqlError::Missing { name: format!("column {name} of {}", table.full_name()) };
        let index = table.schema().index_of(&name).map_err(|_| missing())?;
        let field = Arc::clone(&table.schema().fields()[index]);
        if is_generated(&field) {
            let what = format!("column \"{name}\" is a generated column; COPY computes it");
            return Err(SqlError::GeneratedAlways { what });
        }
        if fields.iter().any(|known| known.name() == field.name()) {
            return Err(SqlError::Refused {
                what: format!("naming column {name} twice"),
                instead: "name it once".to_owned(),
            });
        }
        fields.push(field);
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// The plan that inserts `rows` into `target`, matching columns by name. Columns that `rows` lacks
/// are null; [`defaults::fill`] replaces these by their defaults.
pub(super) fn insertion(
    target: StoredTable,
    name: &TableReference,
    rows: LogicalPlan,
) -> Result<LogicalPlan, SqlError> {
    let given = Arc::clone(rows.schema());
    let columns = target.table().schema().fields().iter().map(|field| {
        let value = match given.index_of_column_by_name(None, field.name()) {
            Some(place) => Expr::Column(Column::from(given.qualified_field(place))),
            None => cast(lit(ScalarValue::Null), field.data_type().clone()),
        };
        value.alias(field.name())
    });
    let columns: Vec<Expr> = columns.collect();
    let input = LogicalPlanBuilder::from(rows).project(columns)?.build()?;
    let target = provider_as_source(Arc::new(target));
    Ok(LogicalPlanBuilder::insert_into(input, name.clone(), target, InsertOp::Append)?.build()?)
}

impl Incoming {
    /// The plan that scans the rows.
    fn plan(self) -> Result<LogicalPlan, SqlError> {
        let schema = Arc::clone(&self.schema);
        let source = StreamingTable::try_new(schema, vec![Arc::new(self)])?;
        let source = provider_as_source(Arc::new(source));
        Ok(LogicalPlanBuilder::scan("stdin", source, None)?.build()?)
    }
}

/// The rows that a client sends, as the single partition of a table that can be read once.
#[derive(Debug)]
struct Incoming {
    schema: SchemaRef,
    rows: Mutex<Option<mpsc::Receiver<Option<Row>>>>,
}

impl PartitionStream for Incoming {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let taken = lock(&self.rows).take();
        let rows = stream::unfold(taken, |receiver| async {
            let mut receiver = receiver?;
            match receiver.recv().await {
                // From here on, the insertion accounts for the memory of the rows.
                Some(Some((batch, _))) => Some((Ok(batch), Some(receiver))),
                Some(None) => None,
                None => Some((exec_err!("the rows of a COPY have ended early"), None)),
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}
