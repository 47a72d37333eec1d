//! Creation of heaps, and placement of tables in them.

use std::sync::Arc;

use datafusion::common::TableReference;
use terrace_table::error::SqlError;
use terrace_table::placement::{
    HeapDefinition, PlacementRequest, Scope, Target, forget_reads, move_table,
};
use terrace_table::table::Table;

use crate::names::resolve;
use crate::session::heap::HeapStatement;
use crate::session::notice::Notice;
use crate::session::state::{Planned, Session};

impl Session {
    /// Runs a statement about a heap.
    pub(in crate::session) async fn act_on_heap(
        &self,
        statement: HeapStatement,
    ) -> Result<Planned, SqlError> {
        match statement {
            HeapStatement::Create { name, keep, options } => {
                let definition = HeapDefinition::of(&options)?;
                self.engine.create_heap(&name, &definition, keep)?;
            }
            HeapStatement::Drop { name, if_exists } => {
                let is_dropped = self.engine.drop_heap(&name);
                if !is_dropped && !if_exists {
                    return Err(self.missing_heap(name));
                }
                if !is_dropped {
                    self.notice(Notice::missing(format_args!("heap \"{name}\"")));
                }
            }
            HeapStatement::SetTier { schema, table, column, chunk, tier } => {
                let table = self.own_table(schema, table)?;
                self.set_tier(&table, column.as_deref(), chunk, &tier).await?;
            }
        }
        Ok(Planned::nothing())
    }

    fn missing_heap(&self, name: String) -> SqlError {
        let heaps = self.engine.heaps().all();
        let names = heaps.iter().map(|heap| heap.name().to_owned());
        let known: Vec<String> =
            ["pool".to_owned(), "auto".to_owned()].into_iter().chain(names).collect();
        SqlError::MissingHeap { name, known: known.join(", ") }
    }

    fn own_table(&self, schema: Option<String>, name: String) -> Result<Arc<Table>, SqlError> {
        let reference = match schema {
            Some(schema) => TableReference::partial(schema, name),
            None => TableReference::bare(name),
        };
        let state = self.context().state();
        let full = resolve(state.config_options(), &self.names.current(), reference);
        let (schema, name) = (full.schema, full.table);
        self.engine.catalog().table(&schema, &name).ok_or_else(|| SqlError::Refused {
            what: format!("a home for {schema}.{name}"),
            instead: "name a table of the database; SHOW TABLES lists them".to_owned(),
        })
    }

    async fn set_tier(
        &self,
        table: &Arc<Table>,
        column: Option<&str>,
        chunk: Option<u64>,
        tier: &str,
    ) -> Result<(), SqlError> {
        let columns = table.schema().fields().len();
        let place = |name: &str| {
            table.schema().index_of(name).map_err(|_| SqlError::Refused {
                what: format!("the column {name} of {}", table.full_name()),
                instead: "name one of its columns".to_owned(),
            })
        };
        let column = column.map(place).transpose()?;
        let request = match tier {
            "auto" => PlacementRequest::Auto,
            "pool" => PlacementRequest::Fixed(Target::Pool),
            name => {
                let heap = self.engine.heaps().get(name);
                let heap = heap.ok_or_else(|| self.missing_heap(name.to_owned()))?;
                PlacementRequest::Fixed(Target::Heap(heap))
            }
        };
        if let Some(id) = chunk {
            let there = table.current()?.chunks.iter().any(|chunk| chunk.id == id);
            if !there || matches!(request, PlacementRequest::Auto) {
                return Err(SqlError::Refused {
                    what: format!("chunk {id} of {} on {tier}", table.full_name()),
                    instead: "terrace.segments lists chunks; auto is for tables and columns".into(),
                });
            }
        }
        let scope = Scope { column, chunk };
        let _moving = table.placement_requests().lock().await;
        if let PlacementRequest::Fixed(target) = &request {
            let (budget, pins) = (&self.engine.resources().budget, self.engine.pins());
            move_table(table, &scope, target, (budget, pins)).await?;
        }
        if matches!(request, PlacementRequest::Auto) {
            forget_reads(table.current()?.as_ref(), &scope);
        }
        table.placement_requests().set(columns, &scope, &request);
        Ok(())
    }
}
