//! SUMMARIZE, SHOW, PRAGMA and statements of maintenance. Values of SUMMARIZE and columns of PRAGMA
//! are those of DuckDB 2.0.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, error, show, try_show};

const EMP: &str = "CREATE TABLE emp (id INTEGER NOT NULL, name VARCHAR, sal DECIMAL(8,2), d DATE,
        b BOOLEAN, ts TIMESTAMP, f DOUBLE);
    INSERT INTO emp VALUES
        (1, 'a', 10.5, '2020-01-01', true, '2020-01-01 10:00:00', 1.5),
        (2, 'b', 20.25, '2021-01-01', false, '2021-01-01 10:00:00', 'NaN'),
        (3, NULL, NULL, NULL, NULL, NULL, NULL),
        (4, 'b', 7, '2022-06-01', true, '2022-01-01 10:00:00', 2.5)";

async fn emp() -> Session {
    let session = engine(64 * MIB).session().expect("session");
    show(&session, EMP).await;
    session
}

#[tokio::test]
async fn summarize_has_a_row_for_each_column() {
    let session = emp().await;
    let rows = show(&session, "SUMMARIZE emp").await;
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!(rows.len(), 7, "{rows:?}");
    let parts = |row: usize| rows[row];
    assert_eq!(parts(0), "id INTEGER 1 4 4 2.5 1.2909944487358056 2 3 4 4 0.00", "{rows:?}");
    assert_eq!(parts(1), "name VARCHAR a b 2      4 25.00", "{rows:?}");
    assert!(parts(2).starts_with("sal DECIMAL(8,2) 7.00 20.25 3 12.58333333333333"), "{rows:?}");
    assert!(
        parts(3).starts_with("d DATE 2020-01-01 2022-06-01 3 2021-02-20 00:00:00 "),
        "{rows:?}"
    );
    assert_eq!(parts(4), "b BOOLEAN false true 2      4 25.00", "{rows:?}");
    assert!(
        parts(5).starts_with(
            "ts TIMESTAMP 2020-01-01 10:00:00 2022-01-01 10:00:00 3 2021-01-01 02:00:00 "
        ),
        "{rows:?}"
    );
    assert!(parts(6).starts_with("f DOUBLE PRECISION 1.5 NaN 3 NaN NaN "), "{rows:?}");
}

#[tokio::test]
async fn summarize_of_queries_and_of_nothing() {
    let session = emp().await;
    let query = "SUMMARIZE SELECT id * 2 AS x FROM emp WHERE id > 1";
    let row = "x BIGINT 4 8 3 6.0 2.0 ";
    assert!(show(&session, query).await.starts_with(row), "{}", show(&session, query).await);
    let nothing = "SUMMARIZE SELECT id, name FROM emp WHERE false";
    assert_eq!(show(&session, nothing).await, "id INTEGER   0      0 \nname VARCHAR   0      0 ");
    let odd = "SUMMARIZE SELECT [1, 2] AS l, CAST('ab' AS BYTEA) AS bytes, NULL AS n,
        INTERVAL '1 day' AS i, 'Infinity'::DOUBLE AS f, {'a': 1} AS s";
    assert_eq!(show(&session, odd).await.lines().count(), 6);
    assert_eq!(show(&session, "SUMMARIZE (SELECT 1 AS a, 2 AS b)").await.lines().count(), 2);
    assert_eq!(show(&session, "SUMMARIZE VALUES (1), (2)").await.lines().count(), 1);
    for wrong in ["SUMMARIZE", "SUMMARIZE nope", "SUMMARIZE SELECT", "SUMMARIZE DELETE FROM emp"] {
        error(&session, wrong).await;
    }
    let statement = session.parse("SUMMARIZE emp").expect("parsed").remove(0);
    let prepared = session.prepare(statement, &[]).await.expect("prepared");
    assert_eq!(prepared.schema().map(|schema| schema.fields().len()), Some(12));
}

#[tokio::test]
async fn summarize_stays_within_the_budget() {
    let session = engine(64 * MIB).session().expect("session");
    let text =
        "CREATE TABLE big AS SELECT v, 'text ' || v AS t FROM generate_series(1, 500000) s(v)";
    show(&session, text).await;
    let rows = show(&session, "SUMMARIZE big").await;
    assert!(rows.starts_with("v BIGINT 1 500000 "), "{rows}");
    assert!(rows.contains(" 500000 0.00\nt VARCHAR "), "{rows}");
}

#[tokio::test]
async fn lists_of_objects() {
    let session = emp().await;
    show(
        &session,
        "CREATE VIEW v AS SELECT id FROM emp; CREATE SCHEMA s1; CREATE TABLE s1.t (a INT)",
    )
    .await;
    check(
        &session,
        &[
            ("SHOW DATABASES", "main"),
            ("SHOW SCHEMAS", "main public true\nmain s1 false\nmain terrace false"),
            ("SHOW SCHEMAS LIKE 's%'", "main s1 false"),
            ("SHOW VIEWS LIKE 'v'", "main public v VIEW"),
            ("SHOW TABLES FROM s1", "main s1 t BASE TABLE"),
            ("SHOW TABLES LIKE 'e%'", "main public emp BASE TABLE"),
            (
                "SHOW FUNCTIONS LIKE 'sum'",
                "sum aggregate sum(expression) Returns the sum of all values in the specified \
                 column.",
            ),
            ("PRAGMA show_tables", "emp\nv"),
            ("SHOW threads", "threads 2"),
            ("PRAGMA threads", "threads 2"),
            ("SHOW memory_limit", "memory_limit 64MiB"),
            ("PRAGMA table_info('s1.t')", "0 a INTEGER false  false"),
            ("SELECT table_name FROM information_schema.views", "v"),
        ],
    )
    .await;
    let all = show(&session, "SHOW ALL TABLES").await;
    assert!(
        all.ends_with("main public v [id] [INTEGER] false\nmain s1 t [a] [INTEGER] false"),
        "{all}"
    );
    assert_eq!(show(&session, "PRAGMA show_tables_expanded").await, all);
    assert!(show(&session, "SHOW FUNCTIONS").await.lines().count() > 200);
    assert!(
        show(&session, "PRAGMA table_info('emp')")
            .await
            .starts_with("0 id INTEGER true  false\n1 name VARCHAR false")
    );
    assert!(show(&session, "PRAGMA version").await.starts_with('v'));
    assert!(show(&session, "PRAGMA database_list").await.starts_with("0 main "));
    assert_eq!(show(&session, "DESCRIBE SELECT 1 AS a").await.lines().count(), 1);
    assert_eq!(show(&session, "DESC v").await.lines().count(), 1);
    for (wrong, part) in [
        ("SHOW TABLES FROM nope", "nope"),
        ("SHOW SCHEMAS WHERE true", "LIKE"),
        ("PRAGMA nope", "table_info"),
        ("PRAGMA table_info('empp')", "did you mean emp?"),
        ("PRAGMA nope = 1", "nope"),
        ("SELECT * FROM empp", "did you mean emp?"),
        ("SELECT * FROM generate_serie(1, 2)", "did you mean generate_series?"),
    ] {
        let text = error(&session, wrong).await;
        assert!(text.contains(part), "{wrong}: {text}");
    }
}

#[tokio::test]
async fn show_create_table_creates_the_same_table() {
    let session = engine(64 * MIB).session().expect("session");
    let tables = [
        "CREATE TABLE public.x (a BOOLEAN, b TINYINT, c SMALLINT NOT NULL, d INTEGER,
            e BIGINT, f REAL,
            g DOUBLE PRECISION, h DECIMAL(10,3), i VARCHAR NOT NULL, j DATE, k TIMESTAMP,
            l TIMESTAMP WITH TIME ZONE, m TIME, n BYTEA)",
        "CREATE TABLE public.x (\"Odd name\" INTEGER, \"select\" INTEGER[],
            \"it\"\"s\" TIMESTAMP(3),
            u INTEGER UNSIGNED, v BIGINT UNSIGNED)",
        "CREATE TABLE public.x (a STRUCT<b INTEGER, c VARCHAR>, l VARCHAR[][])
            WITH (encoding = 'compact')",
        "CREATE TABLE public.x (a INTEGER, b VARCHAR) WITH (encoding = 'plain')",
    ];
    let definition = "SHOW CREATE TABLE x";
    for table in tables {
        let made = try_show(&session, table).await;
        assert!(made.is_ok(), "{table}: {made:?}");
        let columns = show(&session, "DESCRIBE x").await;
        let shown = show(&session, definition).await;
        let text = shown.strip_prefix("main public x ").expect("a definition").to_owned();
        show(&session, "DROP TABLE x").await;
        show(&session, &text).await;
        assert_eq!(show(&session, "DESCRIBE x").await, columns, "{text}");
        assert_eq!(show(&session, definition).await, shown);
        show(&session, "DROP TABLE x").await;
    }
    show(&session, "CREATE VIEW w AS SELECT 1 AS a").await;
    let text = show(&session, "SHOW CREATE TABLE w").await;
    assert_eq!(text, "main public w CREATE VIEW w AS SELECT 1 AS a");
    for (wrong, part) in [
        ("SHOW CREATE TABLE ww", "did you mean w?"),
        ("SHOW CREATE TABLE terrace.tiers", "state of the engine"),
        ("SHOW CREATE FUNCTION f", "SHOW CREATE TABLE"),
    ] {
        let text = error(&session, wrong).await;
        assert!(text.contains(part), "{wrong}: {text}");
    }
}

#[tokio::test]
async fn settings_by_other_names() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    check(
        &session,
        &[
            ("SET threads = 1; SHOW threads", "threads 1"),
            (
                "SELECT value FROM information_schema.df_settings \
              WHERE name = 'datafusion.execution.target_partitions'",
                "1",
            ),
            ("RESET threads; SHOW threads", "threads 2"),
            ("PRAGMA threads = 3; SHOW threads", "threads 3"),
            ("SET memory_limit = '80MiB'; SHOW memory_limit", "memory_limit 80MiB"),
            ("PRAGMA memory_limit = '64MiB'; SHOW max_memory", "max_memory 64MiB"),
        ],
    )
    .await;
    assert_eq!(engine.ledger().budget(), 64 * MIB);
    for (wrong, part) in [
        ("SET threads = 0", "at least 1"),
        ("SET memory_limit = 'much'", "much"),
        ("SET memory_limit = '1KiB'", "at least"),
        ("RESET memory_limit", "name the size"),
        ("BEGIN; SET memory_limit = '80MiB'", "transaction"),
    ] {
        let text = error(&session, wrong).await;
        assert!(text.contains(part), "{wrong}: {text}");
    }
    let roles = "ROLLBACK; CREATE ROLE chief SUPERUSER LOGIN PASSWORD 'a long password';
        CREATE ROLE ada LOGIN PASSWORD 'a long password'";
    show(&session, roles).await;
    let ada = engine.session_of("ada").expect("session");
    assert!(error(&ada, "SET memory_limit = '80MiB'").await.contains("ada"));
    assert!(error(&ada, "CHECKPOINT").await.contains("ada"));
    assert_eq!(show(&ada, "SET threads = 1; SHOW threads").await, "threads 1");
}

#[tokio::test]
async fn maintenance_does_what_it_says() {
    let session = engine(64 * MIB).session().expect("session");
    show(&session, "CREATE TABLE t (a INT, b VARCHAR); CREATE VIEW v AS SELECT a FROM t").await;
    for n in 0..6 {
        show(&session, &format!("INSERT INTO t VALUES ({n}, 'x')")).await;
    }
    let chunks = "SELECT chunks FROM terrace.merges WHERE table_name = 't'";
    assert_eq!(show(&session, chunks).await, "6");
    let report = show(&session, "VACUUM t").await;
    assert!(report.starts_with("public t 6 1 "), "{report}");
    assert_eq!(show(&session, chunks).await, "1");
    check(
        &session,
        &[
            ("SELECT count(*), sum(a) FROM t", "6 15"),
            ("VACUUM", "public t 1 1 0"),
            ("VACUUM (VERBOSE, ANALYZE) public.t", "public t 1 1 0"),
            ("ANALYZE t (a, b)", "public t 6 nothing to do: statistics are written with the rows"),
            ("ANALYZE", "public t 6 nothing to do: statistics are written with the rows"),
            ("CHECKPOINT", "the store is synced; the catalog already had every commit"),
        ],
    )
    .await;
    for (wrong, part) in [
        ("VACUUM v", "view"),
        ("VACUUM tt", "did you mean t?"),
        ("VACUUM FULL t", "say VACUUM"),
        ("ANALYZE t (nope)", "nope"),
        ("BEGIN; VACUUM t", "transaction"),
    ] {
        let text = error(&session, wrong).await;
        assert!(text.contains(part), "{wrong}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_tables_are_dropped_together_or_not_at_all() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("a session");
    show(&session, "CREATE TABLE a (x INT); CREATE TABLE b (x INT); CREATE VIEW v AS SELECT 1")
        .await;
    let missing = error(&session, "DROP TABLE a, b, nosuch").await;
    assert!(missing.contains("nosuch"), "{missing}");
    let count = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'";
    check(&session, &[(count, "3")]).await;
    show(&session, "DROP TABLE IF EXISTS a, nosuch, b; DROP VIEW v").await;
}
