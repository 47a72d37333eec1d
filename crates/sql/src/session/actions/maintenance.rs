//! Execution of CHECKPOINT, VACUUM and ANALYZE.

use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::sql::sqlparser::ast::ObjectName;
use terrace_exec::run_blocking;
use terrace_governor::memory::QueryMemoryPool;
use terrace_sys::size::to_usize;
use terrace_table::error::SqlError;
use terrace_table::table::Table;
use terrace_table::transaction::Scope;

use crate::names::resolve;
use crate::session::maintenance::MaintenanceStatement;
use crate::session::refusal::refused;
use crate::session::rows::Rows;
use crate::session::state::{Planned, Session};

impl Session {
    /// Runs a statement that maintains the store or tables, and returns its report.
    pub(in crate::session) async fn maintain(
        &self,
        statement: MaintenanceStatement,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        let rows = match statement {
            MaintenanceStatement::Checkpoint => self.checkpoint()?,
            statement @ MaintenanceStatement::Vacuum(_) if matches!(scope, Scope::Within(..)) => {
                return Err(SqlError::InTransaction { what: statement.to_string() });
            }
            MaintenanceStatement::Vacuum(names) => self.vacuum(&names).await?,
            MaintenanceStatement::Analyze(names) => self.analyze(&names)?,
        };
        Ok(Planned { plan: rows.physical()?, watched: None })
    }

    fn checkpoint(&self) -> Result<Rows, SqlError> {
        let snapshot = self.names.current();
        self.rights(&snapshot).require_superuser("CHECKPOINT")?;
        let report = match self.engine.pool().store() {
            Some(store) => {
                run_blocking(|| store.sync())?;
                "the store is synced; the catalog already had every commit"
            }
            None => "nothing to do: there is no store below the memory tiers",
        };
        Ok(Rows::default().texts("checkpoint", [Some(report)]))
    }

    async fn vacuum(&self, names: &[ObjectName]) -> Result<Rows, SqlError> {
        let tables = self.tables_of(names, "vacuuming it")?;
        let (mut before, mut after, mut freed) = (Vec::new(), Vec::new(), Vec::new());
        for table in &tables {
            let chunks = || table.snapshot().chunks.len();
            let bytes = || to_usize(table.snapshot().extent_bytes());
            let (chunks_before, bytes_before) = (chunks(), bytes());
            let consumer = format!("vacuum of {}", table.full_name());
            let memory = QueryMemoryPool::new(&self.engine.resources().budget, consumer);
            let memory: Arc<dyn MemoryPool> = Arc::new(memory);
            table.merge_small(&memory).await?;
            before.push(chunks_before);
            after.push(chunks());
            freed.push(bytes_before.saturating_sub(bytes()));
        }
        Ok(named(&tables)
            .numbers("chunks_before", before)
            .numbers("chunks_after", after)
            .numbers("freed_bytes", freed))
    }

    fn analyze(&self, names: &[(ObjectName, Vec<String>)]) -> Result<Rows, SqlError> {
        let only: Vec<ObjectName> = names.iter().map(|(name, _)| name.clone()).collect();
        let tables = self.tables_of(&only, "analyzing it")?;
        for (table, (_, columns)) in tables.iter().zip(names) {
            for column in columns {
                table.schema().index_of(column).map_err(|_| {
                    let what = format!("ANALYZE of the column {column} of {}", table.full_name());
                    refused(&what, "name one of its columns")
                })?;
            }
        }
        const REPORT: &str = "nothing to do: statistics are written with the rows";
        Ok(named(&tables)
            .numbers("rows", tables.iter().map(|table| table.snapshot().rows()))
            .texts("report", tables.iter().map(|_| Some(REPORT))))
    }

    /// The tables of these names, each of which the role must own; without names, all tables that
    /// it owns. `doing` names the action in errors.
    fn tables_of(&self, names: &[ObjectName], doing: &str) -> Result<Vec<Arc<Table>>, SqlError> {
        let snapshot = self.names.current();
        let rights = self.rights(&snapshot);
        let owns = |schema: &str, name: &str| rights.require_owner(doing, schema, Some(name));
        if names.is_empty() {
            let schemas = snapshot.schemas().into_iter();
            let all = schemas.flat_map(|schema| {
                let names = snapshot.table_names(&schema);
                names.into_iter().map(|name| (schema.clone(), name)).collect::<Vec<_>>()
            });
            let owned = all.filter(|(schema, name)| owns(schema, name).is_ok());
            let tables = owned.filter_map(|(schema, name)| snapshot.table(&schema, &name));
            return Ok(tables.map(|(table, _)| table).collect());
        }
        let state = self.context.state();
        let mut tables = Vec::new();
        for name in names {
            let reference = TableReference::parse_str(&name.to_string());
            let full = resolve(state.config_options(), &snapshot, reference);
            let Some((table, _)) = snapshot.table(&full.schema, &full.table) else {
                return Err(match snapshot.has_object(&full.schema, &full.table) {
                    true => refused(&format!("{doing}: {name} is a view"), "name a table"),
                    false => self.missing(&state, &name.to_string()),
                });
            };
            owns(&full.schema, &full.table)?;
            tables.push(table);
        }
        Ok(tables)
    }
}

fn named(tables: &[Arc<Table>]) -> Rows {
    Rows::default()
        .texts("schema_name", tables.iter().map(|table| Some(table.schema_name())))
        .texts("table_name", tables.iter().map(|table| Some(table.name())))
}
