//! Locks of FOR UPDATE and FOR SHARE.
//!
//! Locks are held on tables, not on rows: the clause locks each table whose rows it names, as LOCK
//! TABLE does. The transaction holds the locks to its end, and no other transaction can update or
//! delete rows of the tables meanwhile. The locks are taken before the snapshot of the
//! transaction's first statement, which therefore sees the changes that it has waited for.
//!
//! SKIP LOCKED skips no rows of a table that the same statement updates or deletes from: it waits
//! for the lock of that table in any case. Statements that skipped the rows and then waited for
//! the same lock would pass it around, and none of them would ever find a row.
//!
//! A query outside of a transaction block would release its locks before its client receives a
//! row, so it only waits for the locks that other transactions hold, releases its own, and reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{ObjectName, Statement as SqlStatement};
use terrace_governor::pins::Reader;
use terrace_table::access::Privilege;
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;
use terrace_table::table::Table;
use terrace_table::transaction::{Scope, Transaction};

use crate::interrupt;
use crate::session::dialect::parsed_query;
use crate::session::exclusive::stored_table;
use crate::session::object_name::Name;
use crate::session::refusal::refused;
use crate::session::row_locks::{self, RowLock, RowLocks, Wait};
use crate::session::state::Session;
use crate::session::statement::SessionStatement;

/// A table to lock for a query.
struct ToLock {
    table: Arc<Table>,
    wait: Wait,
    /// Number of the query in its statement, as in [`RowLock`].
    query: usize,
}

impl Session {
    /// Locks the tables that the FOR UPDATE and FOR SHARE clauses of a statement name, and removes
    /// the clauses from it. Returns true if SKIP LOCKED skips rows: the queries that skip are then
    /// rewritten to return none. The wait for locks ends early if the query of `reader` is
    /// cancelled.
    ///
    /// # Errors
    /// [`SqlError::Refused`] for rows that cannot be locked; [`SqlError::Denied`],
    /// [`SqlError::ReadOnly`]; [`SqlError::LockHeld`], [`SqlError::LockTimeout`],
    /// [`SqlError::Deadlock`], [`SqlError::Conflict`], [`SqlError::Dropped`].
    pub(in crate::session) async fn lock_rows(
        &self,
        statement: &mut Statement,
        scope: &Scope,
        reader: &Reader,
    ) -> Result<bool, SqlError> {
        if !row_locks::may_be_in(statement) {
            return Ok(false);
        }
        let found = {
            let state = self.context.state_ref();
            let state = state.read();
            row_locks::find(state.aggregate_functions(), statement)?
        };
        let Some(locks) = found else { return Ok(false) };
        self.refuse_change(scope, "a lock of rows")?;
        let skipped = match scope {
            Scope::Within(..) => {
                interrupt::wait(reader, Box::pin(self.lock_relations(locks, scope))).await?
            }
            Scope::Alone(_) if !row_locks::is_query(statement) => {
                return Err(refused(
                    "a lock of rows in a change of rows outside of a transaction",
                    "say BEGIN before it",
                ));
            }
            Scope::Alone(limit) => {
                let transaction = Arc::new(Transaction::begin(self.engine.catalog(), false));
                transaction.statement()?;
                let within = Scope::Within(Arc::clone(&transaction), limit.clone());
                let locked = Box::pin(self.lock_relations(locks, &within));
                let skipped = interrupt::wait(reader, locked).await?;
                transaction.roll_back();
                skipped
            }
        };
        row_locks::clear(statement, &skipped);
        Ok(!skipped.is_empty())
    }

    /// Locks the tables of a prepared statement. If SKIP LOCKED skips rows, returns the rewritten
    /// statement to run in its place, else `None`.
    pub(in crate::session) async fn lock_prepared_rows(
        &self,
        prepared: &SessionStatement,
        scope: &Scope,
        reader: &Reader,
    ) -> Result<Option<Statement>, SqlError> {
        let SessionStatement::Sql(statement) = prepared else { return Ok(None) };
        let mut statement = statement.as_ref().clone();
        let is_other = self.lock_rows(&mut statement, scope, reader).await?;
        Ok(is_other.then_some(statement))
    }

    /// Locks the tables of `locks`. Returns the numbers of the queries whose rows are skipped.
    async fn lock_relations(
        &self,
        locks: RowLocks,
        scope: &Scope,
    ) -> Result<BTreeSet<usize>, SqlError> {
        let mut tables = self.tables_to_lock(locks, scope).await?;
        // All transactions lock in the order of table ids, which makes deadlocks rarer.
        tables.sort_by_key(|it| (it.table.id(), it.wait));
        let mut skipped = BTreeSet::new();
        for ToLock { table, wait, query } in &tables {
            if *wait == Wait::ForLock {
                // The transaction holds the lock.
                drop(scope.rewrite(table).await?);
            } else if !scope.try_lock(table).await? {
                if *wait == Wait::Never {
                    return Err(SqlError::LockHeld { table: table.full_name() });
                }
                skipped.insert(*query);
            }
        }
        Ok(skipped)
    }

    /// The tables to lock for the relations of `locks`; for a view, the tables that it reads.
    async fn tables_to_lock(
        &self,
        RowLocks { locks, changed }: RowLocks,
        scope: &Scope,
    ) -> Result<Vec<ToLock>, SqlError> {
        let (state, snapshot) = self.state_in(scope)?;
        let changed = changed.into_iter().filter_map(|table| {
            self.table_of(&state, &snapshot, table).ok().flatten().map(|table| table.id())
        });
        let changed: BTreeSet<u64> = changed.collect();
        let mut to_lock = Vec::new();
        for RowLock { query, relation, wait } in locks {
            let tables = self.relation_tables(&state, &snapshot, &relation).await?;
            to_lock.extend(tables.into_iter().map(|table| {
                let waits = wait == Wait::Skip && changed.contains(&table.id());
                ToLock { table, wait: if waits { Wait::ForLock } else { wait }, query }
            }));
        }
        let rights = self.rights(&snapshot);
        for ToLock { table, .. } in &to_lock {
            rights.require(Privilege::Update, table.schema_name(), Some(table.name()))?;
        }
        self.copy.keep(state, &self.context);
        Ok(to_lock)
    }

    /// The table of this name; `None` if it is not the name of a table of the database.
    fn table_of(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        name: ObjectName,
    ) -> Result<Option<Arc<Table>>, SqlError> {
        let reference = object_name_to_table_reference(name, true)?;
        let Ok(Name { schema, name }) = self.own_name(state, reference) else { return Ok(None) };
        Ok(snapshot.table(&schema, &name).map(|(table, _)| table))
    }

    /// The table of this name, or the tables that the view of this name reads.
    async fn relation_tables(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        relation: &ObjectName,
    ) -> Result<Vec<Arc<Table>>, SqlError> {
        if let Some(table) = self.table_of(state, snapshot, relation.clone())? {
            return Ok(vec![table]);
        }
        let query = parsed_query(&format!("SELECT * FROM {relation}"))?;
        let query = Statement::Statement(Box::new(SqlStatement::Query(Box::new(query))));
        let plan = Box::pin(self.logical_plan(state, snapshot, query)).await?;
        let mut tables = Vec::new();
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Ok(stored) = stored_table(&scan.source)
            {
                tables.push(Arc::clone(stored.table()));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        match tables.is_empty() {
            true => Err(refused(
                &format!("a lock of rows of {relation}, which reads no table of the database"),
                "name the tables to lock by OF",
            )),
            false => Ok(tables),
        }
    }
}
