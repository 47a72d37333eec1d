//! Tests of DELETE and UPDATE from SQL text.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::empty::EmptyTable;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use tempfile::TempDir;
use terrace_store::MemoryBlocks;

use super::dml_plan;
use crate::table::Table;
use crate::test_support::{Database, int_schema, ints, memory, rows_of, stream_of};

struct Session {
    _directory: TempDir,
    database: Database,
    table: Arc<Table>,
    context: SessionContext,
}

async fn session() -> Session {
    let directory = tempfile::tempdir().expect("tempdir");
    let blocks = Arc::new(MemoryBlocks::new(1 << 30));
    let database = Database::open(&directory.path().join("catalog.redb"), blocks).expect("open");
    let table = database.table("t", &int_schema()).await;
    table.append(stream_of(&int_schema(), vec![ints(0..10)]), &memory()).await.expect("append");
    let context = SessionContext::new_with_config(SessionConfig::new());
    for name in ["t", "other"] {
        let provider = Arc::new(EmptyTable::new(int_schema()));
        context.register_table(name, provider).expect("register");
    }
    Session { _directory: directory, database, table, context }
}

impl Session {
    /// Runs a statement. Returns the reported number of changed rows, and the output of EXPLAIN.
    async fn run(&self, text: &str) -> Result<(u64, String)> {
        let state = self.context.state();
        let plan = state.create_logical_plan(text).await?;
        let LogicalPlan::Dml(statement) = plan else { panic!("{text} is no change of rows") };
        let plan = dml_plan(&state, &self.table, &statement)?;
        let shown = displayable(plan.as_ref()).indent(false).to_string();
        let result = collect(plan, self.context.task_ctx()).await?;
        let count = result[0].column(0).to_data().buffer::<u64>(0)[0];
        Ok((count, shown))
    }

    async fn changes(&self, text: &str) -> u64 {
        self.run(text).await.expect(text).0
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_that_nothing_satisfies_delete_nothing() {
    let session = session().await;
    for condition in ["1 = 0", "false", "NULL", "i IS NULL", "i > 5 AND 1 > 2", "i < 0"] {
        assert_eq!(session.changes(&format!("DELETE FROM t WHERE {condition}")).await, 0);
        let update = format!("UPDATE t SET i = 1 WHERE {condition}");
        assert_eq!(session.changes(&update).await, 0);
    }
    assert_eq!(rows_of(&session.table).await, (0..10).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_are_coerced_and_computed() {
    let session = session().await;
    let delete = "DELETE FROM t WHERE t.i = CAST(3 AS INT) AND now() > TIMESTAMP '2020-01-01'";
    assert_eq!(session.changes(delete).await, 1);
    assert_eq!(session.changes("DELETE FROM t WHERE i + 1 > 8 AND i + 1 < 10").await, 1);
    let between = "DELETE FROM t WHERE i BETWEEN 4 AND 5.0 OR s LIKE '%number 6%'";
    let (count, shown) = session.run(between).await.expect(between);
    assert_eq!(count, 3);
    assert!(shown.starts_with("DeleteExec: table=public.t, filter="), "{shown}");
    assert_eq!(rows_of(&session.table).await, [0, 1, 2, 7, 9]);
    assert_eq!(session.changes("DELETE FROM t WHERE true OR i > 100").await, 5);
    session.database.assert_no_leak();
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_set_what_they_name() {
    let session = session().await;
    let update = "UPDATE t SET i = i + 100, s = concat('was ', i) WHERE i % 2 = 0";
    let (count, shown) = session.run(update).await.expect(update);
    assert_eq!(count, 5);
    assert!(shown.starts_with("UpdateExec: table=public.t, set=[i="), "{shown}");
    assert_eq!(rows_of(&session.table).await, [1, 3, 5, 7, 9, 100, 102, 104, 106, 108]);
    assert_eq!(session.changes("DELETE FROM t WHERE s = 'was 4'").await, 1);
    assert_eq!(session.changes("UPDATE t SET s = 'same'").await, 9);
    assert_eq!(session.changes("DELETE FROM t WHERE s <> 'same' OR s IS NULL").await, 0);
    session.database.assert_no_leak();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_chosen_by_other_tables_are_refused() {
    let session = session().await;
    for text in [
        "DELETE FROM t WHERE i IN (SELECT i FROM other)",
        "DELETE FROM t WHERE EXISTS (SELECT 1 FROM other WHERE other.i = t.i)",
        "UPDATE t SET i = 1 WHERE i = (SELECT max(i) FROM other)",
        "UPDATE t SET s = other.s FROM other WHERE other.i = t.i",
    ] {
        assert!(session.run(text).await.is_err(), "{text}");
    }
    assert_eq!(rows_of(&session.table).await, (0..10).collect::<Vec<_>>());
}
