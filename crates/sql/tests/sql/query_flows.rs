//! Typical statements of users, end to end.

use crate::common::{MIB, engine, engine_in, error, eventually, quoted, show, try_show};
use futures::StreamExt as _;
use terrace_sql::catalog::LABEL_BYTES;

const DRAM: u64 = 64 * MIB;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_made_filled_changed_and_dropped() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let empty = engine.pool().store().expect("store").stats().used_bytes;
    show(&session, "CREATE TABLE t (id BIGINT NOT NULL, name VARCHAR)").await;
    assert_eq!(
        show(&session, "INSERT INTO t VALUES (1, 'one'), (2, NULL), (3, 'three')").await,
        "3"
    );
    assert_eq!(show(&session, "SELECT * FROM t ORDER BY id").await, "1 one\n2 \n3 three");
    assert_eq!(show(&session, "DELETE FROM t WHERE name IS NULL").await, "1");
    assert_eq!(show(&session, "UPDATE t SET name = upper(name) WHERE id > 1").await, "1");
    assert_eq!(show(&session, "SELECT id, name FROM t ORDER BY id").await, "1 one\n3 THREE");
    assert_eq!(show(&session, "SELECT count(*), count(name), max(id) FROM t").await, "2 2 3");
    show(&session, "TRUNCATE TABLE t").await;
    assert_eq!(show(&session, "SELECT count(*) FROM t").await, "0");
    show(&session, "DROP TABLE t").await;
    assert!(error(&session, "SELECT * FROM t").await.contains("table 'main.public.t' not found"));
    let store = engine.pool().store().expect("store");
    eventually("the store is empty again", || store.stats().used_bytes == empty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_come_in_and_go_out_and_the_table_is_there_after_a_restart() {
    let directory = tempfile::tempdir().expect("tempdir");
    let (parquet, parquet_text) = quoted(directory.path(), "numbers.parquet");
    let (_, csv_text) = quoted(directory.path(), "numbers.csv");
    let (_, gz_text) = quoted(directory.path(), "numbers.csv.gz");
    let data = directory.path().join("data");
    let sums = "SELECT count(*), sum(n), min(word), max(half) FROM";
    let expected = {
        let engine = engine_in(&data, DRAM);
        let session = engine.session().expect("session");
        let rows = "SELECT value AS n, 'word ' || value AS word, CAST(value AS DOUBLE) / 2 AS half \
                    FROM generate_series(1, 200000)";
        show(&session, &format!("COPY ({rows}) TO {parquet_text}")).await;
        assert!(parquet.is_file());
        show(&session, &format!("CREATE TABLE t AS SELECT * FROM {parquet_text}")).await;
        let expected = show(&session, &format!("{sums} t")).await;
        assert_eq!(expected, show(&session, &format!("{sums} {parquet_text}")).await);
        show(&session, &format!("COPY t TO {csv_text}")).await;
        show(
            &session,
            &format!("COPY t TO {gz_text} STORED AS CSV OPTIONS (format.compression gzip)"),
        )
        .await;
        show(&session, &format!("CREATE TABLE c AS SELECT * FROM {csv_text}")).await;
        assert_eq!(expected, show(&session, &format!("{sums} c")).await);
        let external = format!(
            "CREATE EXTERNAL TABLE g STORED AS CSV LOCATION {gz_text} \
             OPTIONS (format.has_header true, format.compression gzip)"
        );
        show(&session, &external).await;
        assert_eq!(expected, show(&session, &format!("{sums} g")).await);
        show(&session, &format!("INSERT INTO c SELECT * FROM {parquet_text}")).await;
        assert_eq!(show(&session, "SELECT count(*) FROM c").await, "400000");
        show(&session, "CREATE VIEW evens AS SELECT n FROM t WHERE n % 2 = 0").await;
        expected
    };
    let engine = engine_in(&data, DRAM);
    let session = engine.session().expect("session");
    assert_eq!(expected, show(&session, &format!("{sums} t")).await);
    assert_eq!(show(&session, "SELECT count(*) FROM c").await, "400000");
    assert_eq!(show(&session, "SELECT count(*), max(n) FROM evens").await, "100000 200000");
    drop(session);
    engine.close().expect("closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn create_table_keeps_replaces_or_fails() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT 1 AS a").await;
    let taken = error(&session, "CREATE TABLE t AS SELECT 2 AS a").await;
    assert!(taken.contains("public.t already exists"), "{taken}");
    show(&session, "CREATE TABLE IF NOT EXISTS t AS SELECT 3 AS a").await;
    assert_eq!(show(&session, "SELECT a FROM t").await, "1");
    show(&session, "CREATE OR REPLACE TABLE t AS SELECT 4 AS b").await;
    assert_eq!(show(&session, "SELECT b FROM t").await, "4");
    show(&session, "CREATE OR REPLACE TABLE t AS SELECT b + 1 AS b FROM t").await;
    assert_eq!(show(&session, "SELECT b FROM t").await, "5");
    show(&session, "DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS t").await;
    let missing = error(&session, "DROP TABLE t").await;
    assert!(missing.contains("public.t does not exist"), "{missing}");
    let double = error(&session, "CREATE TABLE d AS SELECT 1 AS a, 2 AS a").await;
    assert!(double.contains('a'), "{double}");
    let null =
        error(&session, "CREATE TABLE n (a INT NOT NULL, b INT); INSERT INTO n VALUES (NULL, 1)")
            .await;
    assert!(null.contains("NOT NULL") || null.contains("non-nullable"), "{null}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_stand_on_some_number_of_views() {
    let session = engine(DRAM).session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT 7 AS a").await;
    for number in 0..65 {
        let below = if number == 0 { "t".to_owned() } else { format!("on{}", number - 1) };
        show(&session, &format!("CREATE VIEW on{number} AS SELECT * FROM {below}")).await;
    }
    let above = error(&session, "CREATE VIEW above AS SELECT * FROM on64").await;
    assert!(above.contains("more than 64 views"), "{above}");
    assert_eq!(show(&session, "SELECT a FROM on64").await, "7");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemas_and_views() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 7 AS a").await;
    show(&session, "CREATE VIEW s.v AS SELECT a * 2 AS b FROM s.t").await;
    assert_eq!(show(&session, "SELECT b FROM s.v").await, "14");
    show(&session, "SET datafusion.catalog.default_schema = 's'").await;
    show(&session, "CREATE VIEW w (c) AS SELECT b + 1 FROM v").await;
    assert_eq!(show(&session, "SELECT c FROM w").await, "15");
    let other = engine.session().expect("another session");
    assert_eq!(show(&other, "SELECT c FROM s.w").await, "15");
    let cycle = error(&session, "CREATE OR REPLACE VIEW v AS SELECT c AS b FROM w").await;
    assert!(cycle.contains("made of itself"), "{cycle}");
    assert!(error(&session, "DROP TABLE v").await.contains("DROP VIEW"));
    assert!(error(&session, "DROP VIEW t").await.contains("DROP TABLE"));
    assert!(error(&session, "DROP SCHEMA s").await.contains("CASCADE"));
    let names = "SELECT table_name, table_type FROM information_schema.tables \
                 WHERE table_schema = 's' ORDER BY 1";
    assert_eq!(show(&session, names).await, "t BASE TABLE\nv VIEW\nw VIEW");
    show(&session, "DROP SCHEMA s CASCADE").await;
    assert!(error(&other, "SELECT c FROM s.w").await.contains("s"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_say_what_would_be_right() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT 1 AS amount").await;
    let cases = [
        ("SELECT amout FROM t", "amount"),
        ("SELECT * FROM tt", "'main.public.tt' not found"),
        ("SELEC 1", "SELEC"),
        ("SET datafusion.runtime.memory_limit = '1G'", "--dram"),
        ("SET datafusion.runtime.temp_directory = '/tmp'", "--tier file:"),
        ("RESET datafusion.runtime.memory_limit", "--dram"),
        ("SET \"datafusion.runtime.memory_limit\" = '1G'", "--dram"),
        ("SET `datafusion.runtime.memory_limit` = '1G'", "--dram"),
        ("SET datafusion.`runtime`.memory_limit = '1G'", "--dram"),
        ("RESET `datafusion.runtime.memory_limit`", "--dram"),
        ("CREATE TABLE terrace.x AS SELECT 1 AS a", "schema terrace"),
        ("CREATE TABLE nowhere.x AS SELECT 1 AS a", "CREATE SCHEMA nowhere"),
        ("CREATE TABLE k (a INT PRIMARY KEY)", "PRIMARY KEY"),
        ("DROP TABLE terrace.tiers", "schema terrace"),
        ("SELECT * FROM 'no/such/file.parquet'", "file no/such/file.parquet does not exist"),
        ("COPY t FROM x.csv", "in quotes"),
        ("SELECT 1 / 0 FROM t", "division by zero"),
    ];
    for (statement, part) in cases {
        let text = error(&session, statement).await;
        assert!(text.contains(part), "{statement}\n{text}");
    }
    assert_eq!(show(&session, "SELECT amount FROM t").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_prepared_statements_and_explain() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 10)").await;
    show(&session, "SET datafusion.execution.batch_size = 4").await;
    assert!(show(&session, "SHOW datafusion.execution.batch_size").await.ends_with('4'));
    show(&session, "PREPARE p(BIGINT) AS SELECT count(*) FROM t WHERE a > $1").await;
    assert_eq!(show(&session, "EXECUTE p(7)").await, "3");
    let plan = show(&session, "EXPLAIN (FORMAT INDENT) SELECT a FROM t WHERE a > 3").await;
    assert!(plan.contains("file_type=segments") && plan.contains("prunes_by=a@0 > 3"), "{plan}");
    assert_eq!(show(&session, "SHOW TABLES").await, "main public t BASE TABLE");
    let tables = show(&session, "SHOW TABLES FROM terrace").await;
    for name in ["terrace tiers VIEW", "terrace queries VIEW"] {
        assert!(tables.contains(name), "{tables}");
    }
    assert_eq!(show(&session, "SELECT 1; SELECT 2;").await, "2");
    assert_eq!(try_show(&session, " ; ").await.expect("no statement"), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn system_tables_show_the_engine() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 100000)").await;
    let segments = "SELECT table_name, column_name, sum(rows), min(min), count(DISTINCT chunk), \
                    bool_and(tier IN ('dram', 'store')) FROM terrace.segments GROUP BY 1, 2";
    assert_eq!(show(&session, segments).await, "t a 100000 1 2 true");
    let tiers = show(&session, "SELECT tier, kind, capacity_bytes FROM terrace.tiers").await;
    assert!(tiers.contains(&format!("dram memory {DRAM}")), "{tiers}");
    let consumers = show(&session, "SELECT consumer FROM terrace.consumers").await;
    assert!(consumers.contains("pool") && consumers.contains("query "), "{consumers}");
    let queries = show(&session, "SELECT statement FROM terrace.queries").await;
    assert_eq!(queries, "SELECT statement FROM terrace.queries");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_that_has_become_invalid_says_so_and_harms_no_other() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT 1 AS a; CREATE TABLE u AS SELECT 2 AS b").await;
    show(&session, "CREATE VIEW v AS SELECT a FROM t; CREATE VIEW w AS SELECT a FROM v").await;
    show(&session, "CREATE OR REPLACE TABLE t AS SELECT 1 AS z").await;
    let columns = "SELECT table_name, column_name FROM information_schema.columns \
                   WHERE table_schema = 'public' ORDER BY 1";
    assert_eq!(show(&session, columns).await, "t z\nu b");
    let tables = "SELECT table_name FROM information_schema.tables \
                  WHERE table_schema = 'public' ORDER BY 1";
    assert_eq!(show(&session, tables).await, "t\nu\nv\nw");
    for query in ["SELECT a FROM v", "SELECT * FROM v", "SELECT count(*) FROM v", "SELECT a FROM w"]
    {
        let text = error(&session, query).await;
        assert!(text.contains("view public.v cannot be used any more"), "{query}\n{text}");
    }
    show(&session, "CREATE OR REPLACE TABLE t AS SELECT 3 AS a").await;
    assert_eq!(show(&session, "SELECT a FROM w").await, "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_one_dialect() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    assert!(error(&session, "SELECT \"abc\"").await.contains("abc"), "a column");
    let refused = error(&session, "SET datafusion.sql_parser.dialect = 'mysql'").await;
    assert!(refused.contains("one dialect"), "{refused}");
    error(&session, "SET datafusion.execution.target_partitions = 0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_waits_for_what_a_cancelled_statement_still_writes() {
    let directory = tempfile::tempdir().expect("tempdir");
    let data = directory.path().join("data");
    for round in 0..6_u64 {
        let engine = engine_in(&data, DRAM);
        let session = engine.session().expect("session");
        let text = format!(
            "CREATE TABLE c{round} AS SELECT value AS a, 'row ' || value AS b \
             FROM generate_series(1, 3000000)"
        );
        let statement = session.parse(&text).expect("parses").remove(0);
        let mut handle = session.execute(statement).await.expect("starts");
        let patience = std::time::Duration::from_millis(10 + 15 * round);
        drop(tokio::time::timeout(patience, handle.stream.next()).await);
        drop((handle, session));
        engine.close().expect("closes");
    }
    let engine = engine_in(&data, DRAM);
    let catalog = engine.catalog();
    let named: u64 = catalog.tables("public").iter().map(|t| t.snapshot().extent_bytes()).sum();
    assert_eq!(engine.pool().store().expect("store").stats().used_bytes, named + LABEL_BYTES);
}
