//! EXPLAIN as a tree: its words, its measurements and its formats.

use datafusion::arrow::array::AsArray as _;
use serde_json::Value;
use terrace_sql::Session;

use crate::common::{MIB, engine, error, show};

/// Creates two tables, one of them with several chunks.
async fn tables(session: &Session) {
    let tables = "CREATE TABLE orders AS SELECT value AS id, value % 100 AS customer, value * 1.5 \
            AS price FROM generate_series(1, 200000);
        CREATE TABLE customers AS SELECT value AS id, 'name ' || value AS name FROM \
            generate_series(0, 99)";
    show(session, tables).await;
}

const QUERY: &str = "SELECT c.name, sum(o.price) AS total FROM orders o JOIN customers c ON \
    o.customer = c.id WHERE o.id > 1000 GROUP BY c.name ORDER BY total DESC LIMIT 3";

/// The result of a statement as a single text.
async fn text(session: &Session, statement: &str) -> String {
    let outputs = session.sql(statement).await.expect(statement);
    let output = outputs.last().expect("a result");
    assert_eq!(output.schema.field(0).name(), "QUERY PLAN", "{statement}");
    let columns = output.batches.iter().map(|batch| batch.column(0).as_string::<i32>().clone());
    let lines = columns.flat_map(|column| {
        column.iter().map(|line| line.unwrap_or_default().to_owned()).collect::<Vec<_>>()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_in_plain_words() {
    let session = engine(64 * MIB).session().expect("session");
    tables(&session).await;
    let tree = text(&session, &format!("EXPLAIN {QUERY}")).await;
    for words in [
        "SORT",
        "By: total DESC",
        "Limit: 3",
        "AGGREGATE",
        "Group by: name",
        "sum(o.price)",
        "HASH JOIN inner",
        "id = customer",
        "SCAN public.orders",
        "SCAN public.customers",
        "Columns: id, name",
        "Pushed filter: id > 1000",
        "-> ",
        "(estimated 100 rows)",
    ] {
        assert!(tree.contains(words), "{words} in\n{tree}");
    }
    for not in ["@", "Exec", "actual", "Execution time"] {
        assert!(!tree.contains(not), "{not} in\n{tree}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn analyze_measures_every_operator() {
    let session = engine(64 * MIB).session().expect("session");
    tables(&session).await;
    let tree = text(&session, &format!("EXPLAIN ANALYZE {QUERY}")).await;
    for words in [
        "actual 3 rows",
        "actual 100 rows",
        " ms)",
        "Memory at the peak: ",
        "Read: ",
        "Planning time: ",
        "Execution time: ",
        "Total read: ",
        "Total memory at the peak: ",
    ] {
        assert!(tree.contains(words), "{words} in\n{tree}");
    }
    let bare = "EXPLAIN (ANALYZE, COSTS OFF, BUFFERS OFF, TIMING OFF, SUMMARY OFF) ";
    let tree = text(&session, &format!("{bare}{QUERY}")).await;
    assert!(tree.contains("(actual 3 rows)"), "{tree}");
    for not in ["estimated", " ms", "Read:", "Memory"] {
        assert!(!tree.contains(not), "{not} in\n{tree}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spilled_bytes_are_shown() {
    let session = engine(32 * MIB).session().expect("session");
    show(
        &session,
        "CREATE TABLE wide AS SELECT value AS id, 'text number ' || value AS s FROM \
         generate_series(1, 1500000)",
    )
    .await;
    let tree = text(&session, "EXPLAIN ANALYZE SELECT * FROM wide ORDER BY s").await;
    for words in ["Spilled: ", "Total spilled: ", "SORT"] {
        assert!(tree.contains(words), "{words} in\n{tree}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_has_the_keys_of_postgresql() {
    let session = engine(64 * MIB).session().expect("session");
    tables(&session).await;
    let plan = text(&session, &format!("EXPLAIN (ANALYZE, FORMAT JSON) {QUERY}")).await;
    let plan: Value = serde_json::from_str(&plan).expect("JSON");
    let root = &plan[0]["Plan"];
    assert_eq!(root["Actual Rows"], 3, "{plan}");
    assert!(root["Plan Rows"].is_u64() && root["Plans"].is_array(), "{plan}");
    assert!(plan[0]["Execution Time"].is_f64() && plan[0]["Planning Time"].is_f64(), "{plan}");
    let totals = &plan[0]["Totals"];
    let bytes = ["Bytes from DRAM", "Bytes from Slower Memory", "Bytes from Store"];
    let read: u64 = bytes.iter().filter_map(|key| totals[key].as_u64()).sum();
    assert!(read > 0, "{plan}");
    let plan = text(&session, "EXPLAIN (FORMAT JSON, COSTS OFF) SELECT 1").await;
    assert!(!plan.contains("Rows") && !plan.contains("Time"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drawing_has_a_box_for_each_operator() {
    let session = engine(64 * MIB).session().expect("session");
    tables(&session).await;
    for statement in ["EXPLAIN (FORMAT SVG)", "EXPLAIN (ANALYZE, FORMAT SVG)"] {
        let drawing = text(&session, &format!("{statement} {QUERY}")).await;
        assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>"), "{drawing}");
        for words in ["HASH JOIN inner", "SCAN public.orders", "id &gt; 1000"] {
            assert!(drawing.contains(words), "{words} in\n{drawing}");
        }
        assert_eq!(drawing.matches("<g>").count(), drawing.matches("</g>").count());
        assert_eq!(drawing.matches("<line ").count() + 1, drawing.matches("<g>").count());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plans_of_datafusion_can_be_had() {
    let session = engine(64 * MIB).session().expect("session");
    tables(&session).await;
    for statement in [
        "EXPLAIN VERBOSE",
        "EXPLAIN (FORMAT INDENT)",
        "EXPLAIN FORMAT indent",
        "EXPLAIN (ANALYZE, FORMAT INDENT)",
        "EXPLAIN ANALYZE VERBOSE",
        "EXPLAIN (ANALYZE, METRICS 'rows')",
    ] {
        let plan = show(&session, &format!("{statement} {QUERY}")).await;
        assert!(plan.contains("PagedHashJoinExec"), "{statement}\n{plan}");
    }
    let plan = text(&session, &format!("EXPLAIN (VERBOSE, FORMAT TEXT) {QUERY}")).await;
    assert!(plan.contains("Output: name, total"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_explained_and_run() {
    let session = engine(64 * MIB).session().expect("session");
    tables(&session).await;
    let count = "SELECT count(*) FROM customers";
    for (change, words) in [
        ("INSERT INTO customers VALUES (100, 'new')", "VALUES"),
        ("INSERT INTO customers SELECT id, name FROM customers WHERE id = 1", "SCAN"),
        ("DELETE FROM customers WHERE id < 10", "DELETE public.customers"),
        ("UPDATE customers SET name = 'x' WHERE id = 20 RETURNING id", "UPDATE public.customers"),
        ("DELETE FROM customers WHERE id IN (SELECT customer FROM orders)", "HASH JOIN"),
    ] {
        let tree = text(&session, &format!("EXPLAIN {change}")).await;
        assert!(tree.to_uppercase().contains(&words.to_uppercase()), "{change}\n{tree}");
        assert_eq!(show(&session, count).await, "100", "{change} has run");
    }
    text(&session, "EXPLAIN ANALYZE DELETE FROM customers WHERE id < 10").await;
    assert_eq!(show(&session, count).await, "90");
    text(&session, "EXPLAIN ANALYZE INSERT INTO customers VALUES (100, 'new')").await;
    assert_eq!(show(&session, count).await, "91");
    text(&session, "EXPLAIN ANALYZE UPDATE customers SET name = 'y' WHERE id = 50").await;
    assert_eq!(show(&session, "SELECT name FROM customers WHERE id = 50").await, "y");
    let tree = text(&session, "EXPLAIN CREATE TABLE copy AS SELECT * FROM customers").await;
    assert!(tree.contains("SCAN public.customers"), "{tree}");
    assert!(error(&session, "SELECT * FROM copy").await.contains("copy"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_plan_is_refused() {
    let session = engine(64 * MIB).session().expect("session");
    tables(&session).await;
    for (statement, words) in [
        ("EXPLAIN (WAL) SELECT 1", "EXPLAIN option WAL"),
        ("EXPLAIN (BUFFERS) SELECT 1", "BUFFERS without ANALYZE"),
        ("EXPLAIN (TIMING) SELECT 1", "TIMING without ANALYZE"),
        ("EXPLAIN (FORMAT YAML) SELECT 1", "FORMAT YAML"),
        ("EXPLAIN (ANALYZE maybe) SELECT 1", "ANALYZE maybe"),
        ("EXPLAIN (FORMAT) SELECT 1", "FORMAT without a value"),
        ("EXPLAIN EXPLAIN SELECT 1", "EXPLAIN of an EXPLAIN"),
        ("EXPLAIN CREATE TABLE n (a INT)", "without a query"),
        ("EXPLAIN ANALYZE CREATE TABLE n AS SELECT 1 AS a", "EXPLAIN ANALYZE of a definition"),
        ("EXPLAIN DROP TABLE orders", "EXPLAIN of"),
        ("EXPLAIN SET threads = 1", "EXPLAIN of"),
        ("EXPLAIN SELECT * FROM nosuch", "nosuch"),
    ] {
        let error = error(&session, statement).await;
        assert!(error.contains(words), "{statement}\n{error}");
    }
    assert_eq!(show(&session, "SELECT count(*) FROM orders").await, "200000");
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_transactions_explain_changes_without_making_them() {
    let session = engine(64 * MIB).session().expect("session");
    tables(&session).await;
    show(&session, "BEGIN READ ONLY").await;
    text(&session, "EXPLAIN DELETE FROM customers").await;
    let error = error(&session, "EXPLAIN ANALYZE DELETE FROM customers").await;
    assert!(error.contains("read-only") || error.contains("READ ONLY"), "{error}");
    show(&session, "ROLLBACK").await;
    assert_eq!(show(&session, "SELECT count(*) FROM customers").await, "100");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_operator_has_words() {
    let session = engine(64 * MIB).session().expect("session");
    tables(&session).await;
    for (query, words) in [
        ("SELECT id FROM orders UNION ALL SELECT id FROM customers LIMIT 5 OFFSET 2", "LIMIT 5"),
        ("SELECT 1", "ONE ROW"),
        ("SELECT 1 WHERE false", "EMPTY"),
        ("SELECT id FROM orders UNION ALL SELECT id FROM customers", "UNION ALL"),
        ("SELECT sum(id) OVER (ORDER BY id) FROM orders", "WINDOW"),
        ("SELECT * FROM orders o JOIN customers c ON o.id < c.id", "LOOP JOIN inner"),
        ("SELECT * FROM orders CROSS JOIN customers", "CROSS JOIN"),
        ("SELECT unnest([1, 2]) FROM customers", "UNNEST"),
        ("SELECT * FROM generate_series(1, 5)", "SCAN of generated rows"),
        (
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) \
          SELECT * FROM r",
            "RECURSI",
        ),
        (
            "SELECT customer, id, sum(price) FROM orders GROUP BY ROLLUP (customer, id)",
            "Grouping sets",
        ),
        ("SELECT * FROM orders WHERE customer NOT IN (SELECT id FROM customers)", "anti"),
        ("SELECT * FROM terrace.tiers", "SCAN"),
        ("SELECT price + 1 AS more FROM orders WHERE price > 7", "price"),
    ] {
        let tree = text(&session, &format!("EXPLAIN {query}")).await;
        assert!(tree.contains(words), "{words} in\n{tree}");
        let measured = text(&session, &format!("EXPLAIN (ANALYZE, FORMAT SVG) {query} ")).await;
        assert!(measured.contains("</svg>"), "{query}");
    }
}
