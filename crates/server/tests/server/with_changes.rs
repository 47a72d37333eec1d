//! Changes of rows that are queries of WITH, for clients of PostgreSQL.

use terrace_server::Limits;
use tokio_postgres::types::Type;

use crate::common::{connect, with_server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_of_several_changes_is_described_and_counted_by_its_last_part() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let tables = "CREATE TABLE t (id INT, v TEXT); CREATE TABLE u (id INT, v TEXT)";
        client.batch_execute(tables).await.expect("made");
        let add = "WITH m AS (INSERT INTO t VALUES ($1, $2) RETURNING id, v) \
                   SELECT id AS n, v FROM m";
        let add = client.prepare(add).await.expect("prepared");
        assert_eq!(add.params(), [Type::INT4, Type::TEXT]);
        let columns: Vec<_> = add.columns().iter().map(|it| (it.name(), it.type_())).collect();
        assert_eq!(columns, [("n", &Type::INT4), ("v", &Type::TEXT)]);
        for id in 1..4 {
            let row = client.query_one(&add, &[&id, &"x"]).await.expect("a row");
            assert_eq!((row.get::<_, i32>(0), row.get::<_, &str>(1)), (id, "x"));
        }
        let moved = "WITH m AS (DELETE FROM t WHERE id > $1 RETURNING *) \
                     INSERT INTO u SELECT * FROM m";
        let moved = client.prepare(moved).await.expect("prepared");
        assert!(moved.columns().is_empty());
        assert_eq!(client.execute(&moved, &[&1]).await.expect("moved"), 2);
        assert_eq!(client.execute(&moved, &[&1]).await.expect("nothing is left"), 0);
        // Statements that are sent together are one transaction.
        let both = "WITH m AS (DELETE FROM u RETURNING *) SELECT count(*) FROM m; SELECT 1 / 0";
        let error = client.batch_execute(both).await.expect_err("a division by zero");
        assert_eq!(error.code().map(|code| code.code()), Some("22012"));
        let left = "SELECT (SELECT count(*) FROM t) * 10 + (SELECT count(*) FROM u)";
        let left = client.query_one(left, &[]).await.expect("a row");
        assert_eq!(left.get::<_, i64>(0), 12);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_have_the_classes_of_postgresql() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        client.batch_execute("CREATE TABLE t (id INT)").await.expect("made");
        for (text, class) in [
            ("WITH m AS (DELETE FROM t) SELECT * FROM m", "0A000"),
            ("SELECT * FROM (WITH m AS (DELETE FROM t RETURNING *) SELECT * FROM m) q", "0A000"),
            ("CREATE VIEW w AS WITH m AS (DELETE FROM t RETURNING *) SELECT * FROM m", "0A000"),
            ("BEGIN READ ONLY; WITH m AS (DELETE FROM t) SELECT 1", "25006"),
            ("WITH RECURSIVE m AS (INSERT INTO t SELECT * FROM m) SELECT 1", "42P19"),
            ("WITH m AS (DELETE FROM t), m AS (SELECT 1) SELECT 1", "42712"),
            ("WITH m(a, b) AS (DELETE FROM t RETURNING *) SELECT a FROM m", "42P10"),
        ] {
            let error = client.batch_execute(text).await.expect_err(text);
            assert_eq!(error.code().map(|code| code.code()), Some(class), "{text}: {error:?}");
            client.batch_execute("ROLLBACK").await.expect("no transaction is left");
        }
    })
    .await;
}
