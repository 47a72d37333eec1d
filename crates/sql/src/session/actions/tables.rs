//! TRUNCATE of several tables, LOCK TABLE, and DISCARD TEMP.
//!
//! ```text
//! TRUNCATE a, b;  TRUNCATE a RESTART IDENTITY CASCADE;
//! LOCK TABLE a IN EXCLUSIVE MODE;  LOCK a, b NOWAIT;  DISCARD TEMP;
//! ```
//!
//! LOCK TABLE takes the write lock of a table, which UPDATE and DELETE hold. The lock has one mode:
//! every mode of the statement takes it, except ACCESS SHARE, which takes none, because the
//! transaction's snapshot already protects its reads. Statements that only insert rows do not wait
//! for the lock.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    DiscardObject, Lock, LockTableMode, ObjectName, Statement as SqlStatement, Truncate,
    TruncateIdentityOption, TruncateTableTarget,
};
use futures::FutureExt as _;
use terrace_sys::size::to_u64;
use terrace_table::catalog::{Catalog, Draft, Sequence, Snapshot};
use terrace_table::error::SqlError;
use terrace_table::table::Table;
use terrace_table::transaction::{Scope, Transaction};
use terrace_table::write::{Changes, CountExec};

use crate::access::{Privilege, check_plan};
use crate::session::dependencies::{Object, drop_all};
use crate::session::exclusive::stored_table;
use crate::session::notice::Notice;
use crate::session::object_name::Name;
use crate::session::refusal::refused;
use crate::session::state::{Planned, Session};

/// TRUNCATE, LOCK TABLE or DISCARD TEMP.
pub(in crate::session) enum TableStatement {
    /// TRUNCATE; with `restarts`, the sequences of the tables restart at their START values.
    Truncate { names: Vec<ObjectName>, restarts: bool },
    /// LOCK TABLE.
    Lock(Lock),
    /// DISCARD TEMP.
    DiscardTemporary,
}

/// Returns the TRUNCATE, LOCK TABLE or DISCARD TEMP that `statement` is; `None` for any other, and
/// for a TRUNCATE of one table without options, which DataFusion plans.
pub(in crate::session) fn of(statement: &Statement) -> Option<TableStatement> {
    let Statement::Statement(statement) = statement else { return None };
    match statement.as_ref() {
        SqlStatement::Truncate(truncate) => truncation(truncate),
        SqlStatement::Lock(lock) => Some(TableStatement::Lock(lock.clone())),
        SqlStatement::Discard { object_type: DiscardObject::TEMP } => {
            Some(TableStatement::DiscardTemporary)
        }
        _ => None,
    }
}

fn truncation(truncate: &Truncate) -> Option<TableStatement> {
    let Truncate { table_names, partitions, if_exists, identity, cascade, on_cluster, .. } =
        truncate;
    let is_ours = partitions.is_none() && !if_exists && on_cluster.is_none();
    let is_plain = identity.is_none()
        && cascade.is_none()
        && matches!(table_names.as_slice(), [one] if !one.only && !one.has_asterisk);
    if !is_ours || is_plain {
        return None;
    }
    // No table inherits from another, and none has a foreign key: ONLY and CASCADE add nothing.
    let names = table_names.iter().map(|table| table.name.clone()).collect();
    let restarts = *identity == Some(TruncateIdentityOption::Restart);
    Some(TableStatement::Truncate { names, restarts })
}

impl Session {
    /// Plans a TRUNCATE, or runs LOCK TABLE or DISCARD TEMP.
    ///
    /// # Errors
    /// [`SqlError::Missing`], [`SqlError::Denied`]; [`SqlError::NoTransaction`] for LOCK TABLE
    /// outside of a transaction; [`SqlError::LockHeld`], [`SqlError::LockTimeout`],
    /// [`SqlError::Deadlock`], [`SqlError::Conflict`]; errors of the catalog.
    pub(in crate::session) async fn act_on_tables(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        statement: TableStatement,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        match statement {
            TableStatement::Truncate { names, restarts } => {
                self.refuse_change(scope, "a change of rows")?;
                self.truncation(state, snapshot, &names, restarts).await
            }
            TableStatement::Lock(lock) => {
                self.lock_tables(state, snapshot, lock, scope).await?;
                Ok(Planned::nothing())
            }
            TableStatement::DiscardTemporary => {
                let schema = self.names.temporary();
                let discard = |draft: &mut Draft| {
                    let all = Object::all_of(draft.snapshot(), schema);
                    drop_all(state, draft, &all, true)
                };
                if snapshot.has_schema(schema) {
                    scope.define(self.engine.catalog(), discard).await?;
                }
                Ok(Planned::nothing())
            }
        }
    }

    /// A plan that removes all rows of the tables in one transaction; with `restarts`, also
    /// restarts their sequences.
    async fn truncation(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        names: &[ObjectName],
        restarts: bool,
    ) -> Result<Planned, SqlError> {
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for name in names {
            let plan = self.logical_plan(state, snapshot, of_one(name)).await?;
            let rights = self.rights(snapshot);
            check_plan(&plan, &rights)?;
            let LogicalPlan::Dml(change) = &plan else {
                return Err(SqlError::Task(format!("TRUNCATE of {name} has no table")));
            };
            let no_table = |_| {
                let what = format!("TRUNCATE of {name}, which is no table of the database");
                refused(&what, "name its tables")
            };
            let table = Arc::clone(stored_table(&change.target).map_err(no_table)?.table());
            if restarts {
                let (schema, name) = (table.schema_name(), Some(table.name()));
                rights.require_owner("restarting its sequences", schema, name)?;
            }
            if tables.iter().all(|known| known.id() != table.id()) {
                tables.push(table);
            }
        }
        let full: Vec<String> = tables.iter().map(|table| table.full_name()).collect();
        let what = format!("TruncateExec: tables={}", full.join(", "));
        let (catalog, tables) = (Arc::clone(self.engine.catalog()), Arc::new(tables));
        let plan = CountExec::plan(what, move |context| {
            let (catalog, tables) = (Arc::clone(&catalog), Arc::clone(&tables));
            async move { Ok(truncate(&catalog, &tables, restarts, &Scope::of(&context)).await?) }
                .boxed()
        });
        Ok(Planned { plan, watched: None })
    }

    async fn lock_tables(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        lock: Lock,
        scope: &Scope,
    ) -> Result<(), SqlError> {
        if let Scope::Alone(_) = scope {
            return Err(SqlError::NoTransaction);
        }
        let mode = lock.lock_mode.unwrap_or(LockTableMode::AccessExclusive);
        let mut tables = Vec::new();
        for target in &lock.tables {
            let reference = object_name_to_table_reference(target.name.clone(), true)?;
            let Name { schema, name } = self.own_name(state, reference)?;
            let Some((table, _)) = snapshot.table(&schema, &name) else {
                return Err(match snapshot.has_object(&schema, &name) {
                    true => refused(
                        &format!("LOCK TABLE of {schema}.{name}, which is no table"),
                        "name the tables that it reads",
                    ),
                    false => self.missing(state, &target.name.to_string()),
                });
            };
            self.require_lock(snapshot, &mode, &table)?;
            tables.push(table);
        }
        if mode == LockTableMode::AccessShare {
            return Ok(());
        }
        for table in &tables {
            if !lock.nowait {
                // The transaction holds the lock.
                drop(scope.rewrite(table).await?);
            } else if !scope.try_lock(table).await? {
                return Err(SqlError::LockHeld { table: table.full_name() });
            }
        }
        if keeps_out_additions(&mode) {
            self.notice(Notice::additions_go_on());
        }
        Ok(())
    }

    /// Requires one of the privileges that allow a lock of this mode.
    fn require_lock(
        &self,
        snapshot: &Snapshot,
        mode: &LockTableMode,
        table: &Table,
    ) -> Result<(), SqlError> {
        use Privilege::{Delete, Insert, Select, Update};
        let allow: &[Privilege] = match mode {
            LockTableMode::AccessShare => &[Select, Update, Delete],
            LockTableMode::RowExclusive => &[Insert, Update, Delete],
            _ => &[Update, Delete],
        };
        let rights = self.rights(snapshot);
        let mut required = Ok(());
        for privilege in allow {
            let found = rights.require(*privilege, table.schema_name(), Some(table.name()));
            if found.is_ok() {
                return found;
            }
            required = required.and(found);
        }
        required
    }
}

/// True for a mode that in PostgreSQL blocks INSERT by other sessions.
fn keeps_out_additions(mode: &LockTableMode) -> bool {
    use LockTableMode::{AccessExclusive, Exclusive, Share, ShareRowExclusive};
    matches!(mode, Share | ShareRowExclusive | Exclusive | AccessExclusive)
}

/// The TRUNCATE of one table.
fn of_one(name: &ObjectName) -> Statement {
    let target = TruncateTableTarget { name: name.clone(), only: false, has_asterisk: false };
    let truncate = Truncate {
        table_names: vec![target],
        partitions: None,
        table: true,
        if_exists: false,
        identity: None,
        cascade: None,
        on_cluster: None,
    };
    Statement::Statement(Box::new(SqlStatement::Truncate(truncate)))
}

/// Removes all rows of tables in one transaction, and returns their number.
async fn truncate(
    catalog: &Arc<Catalog>,
    tables: &[Arc<Table>],
    restarts: bool,
    scope: &Scope,
) -> Result<u64, SqlError> {
    let Scope::Alone(limit) = scope else {
        return truncate_within(catalog, tables, restarts, scope).await;
    };
    let transaction = Arc::new(Transaction::begin(catalog, false));
    let within = Scope::Within(Arc::clone(&transaction), limit.clone());
    let count = truncate_within(catalog, tables, restarts, &within).await?;
    transaction.commit(limit).await?;
    Ok(count)
}

async fn truncate_within(
    catalog: &Arc<Catalog>,
    tables: &[Arc<Table>],
    restarts: bool,
    scope: &Scope,
) -> Result<u64, SqlError> {
    // The transaction holds the locks of all before it changes one.
    for table in tables {
        drop(scope.rewrite(table).await?);
    }
    let mut count = 0;
    for table in tables {
        let rewrite = scope.rewrite(table).await?;
        count += to_u64(rewrite.version().rows());
        rewrite.finish(Changes::empty(table.schema()).replacing_all()).await?;
    }
    if restarts {
        let restarted = restarted(catalog, tables, &scope.snapshot(catalog)?);
        let restart = |draft: &mut Draft| {
            restarted.iter().try_for_each(|(before, after)| draft.alter_sequence(before, after))
        };
        scope.define(catalog, restart).await?;
    }
    Ok(count)
}

/// The sequences of the columns of tables, each as it is and as restarted at its START value.
fn restarted(
    catalog: &Catalog,
    tables: &[Arc<Table>],
    snapshot: &Snapshot,
) -> Vec<(Arc<Sequence>, Arc<Sequence>)> {
    let mut restarted = Vec::new();
    for table in tables {
        for column in table.properties().columns.values() {
            let name = column.sequence.as_deref();
            let found = name.and_then(|name| snapshot.sequence(table.schema_name(), name));
            let Some(before) = found else { continue };
            let options = *before.options();
            let after = catalog.restarted_sequence(&before, options, options.start);
            restarted.push((before, after));
        }
    }
    restarted
}
