//! SELECTs with several columns of one name.

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_one_name_are_returned() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT * FROM (VALUES (1, 10), (2, 20)) v(k, w)").await;
    show(&session, "CREATE TABLE u AS SELECT * FROM (VALUES (1, 5), (3, 6)) v(k, x)").await;
    let names_and_rows = [
        ("SELECT 1, 1", "1 1", "1 1"),
        ("SELECT k, k FROM t ORDER BY k DESC", "k k", "2 2\n1 1"),
        ("SELECT k, w AS k FROM t ORDER BY w", "k k", "1 10\n2 20"),
        ("SELECT w AS a, k AS a, k + w FROM t ORDER BY k", "a a t.k + t.w", "10 1 11\n20 2 22"),
        ("SELECT *, k FROM t ORDER BY w", "k w k", "1 10 1\n2 20 2"),
        ("SELECT count(*), count(*), max(k) FROM t", "count(*) count(*) max(t.k)", "2 2 2"),
        ("SELECT k, k, count(*) AS n FROM t GROUP BY k ORDER BY k", "k k n", "1 1 1\n2 2 1"),
        ("SELECT * FROM (SELECT 1 AS a, 2 AS a) s", "a a", "1 2"),
        ("SELECT s.* FROM (SELECT *, k FROM u) s ORDER BY x", "k x k", "1 5 1\n3 6 3"),
        ("SELECT k AS \"Id\", k + 1 AS \"Id\" FROM t ORDER BY w", "Id Id", "1 2\n2 3"),
        ("SELECT 1 AS a, 2 AS a UNION ALL SELECT 3, 3", "a a", "1 2\n3 3"),
        ("WITH c AS (SELECT k, k FROM t) SELECT count(*) AS n FROM c", "n", "2"),
        ("SELECT max(k), max(k::REAL) AS r, max(k::TEXT) AS t FROM t", "max(k) r t", "2 2.0 2"),
        ("SELECT DISTINCT k % 1, k % 1 FROM t", "k % 1 k % 1", "0 0"),
    ];
    for (query, names, rows) in names_and_rows {
        let outputs = match session.sql(query).await {
            Ok(outputs) => outputs,
            Err(error) => panic!("{query}: {error}"),
        };
        let fields = outputs[0].schema.fields().iter();
        let found: Vec<_> = fields.map(|field| field.name().clone()).collect();
        assert_eq!(found.join(" "), names, "{query}");
        let mut found: Vec<_> = outputs[0].batches.iter().flat_map(crate::common::lines).collect();
        if !query.contains("ORDER BY") {
            found.sort();
        }
        assert_eq!(found.join("\n"), rows, "{query}");
    }
    // A reference to a name of different values is ambiguous. Without it, another column must not
    // be found in its place.
    for query in [
        "SELECT k, w AS k FROM t ORDER BY k",
        "SELECT k FROM (SELECT *, -k AS k FROM t) s",
        "SELECT x FROM (SELECT 1 AS x, 2 AS x) s, u",
        "SELECT x FROM (SELECT *, w AS x FROM t) s JOIN u ON s.k = u.k",
        "SELECT x FROM u WHERE EXISTS (SELECT 1 FROM (SELECT *, w AS x, k FROM t) s WHERE x = 5)",
        "SELECT k, w AS k FROM t UNION BY NAME SELECT k, x AS k FROM u",
        "SELECT k, k INTO n FROM t",
        "SELECT a FROM (SELECT 1 AS a, 2 AS a) s",
        "SELECT k AS a, w AS a FROM t ORDER BY a",
        "CREATE TABLE n AS SELECT k, k FROM t",
        "CREATE VIEW n AS SELECT 1 AS a, 2 AS a",
    ] {
        let refused = error(&session, query).await;
        assert!(!refused.contains(" #"), "{query}: {refused}");
    }
    check(&session, &[("SELECT k FROM (SELECT k, k FROM t) s ORDER BY 1", "1\n2")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_with_equal_values_are_inserted_and_prepared() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t (a BIGINT, b BIGINT)").await;
    check(
        &session,
        &[
            ("INSERT INTO t SELECT 0, 0", "1"),
            ("INSERT INTO t SELECT a, a FROM (SELECT 7 AS a) s", "1"),
            ("SELECT * FROM t ORDER BY a", "0 0\n7 7"),
        ],
    )
    .await;
    show(&session, "PREPARE p AS SELECT a, a FROM t WHERE a > $1").await;
    check(&session, &[("EXECUTE p(5)", "7 7")]).await;
}

/// A table made from a file may have names with capitals, which unquoted names are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unquoted_names_mean_columns_with_capitals() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE f (\"CustomerID\" INT, \"Name\" TEXT, lower INT)").await;
    show(&session, "INSERT INTO f VALUES (1, 'ann', 5), (2, 'bob', 6)").await;
    show(&session, "CREATE TABLE t (customerid INT, name TEXT)").await;
    show(&session, "INSERT INTO t VALUES (1, 'x'), (3, 'y')").await;
    for (query, answer) in [
        ("SELECT customerid, NAME FROM f WHERE CustomerId = 1", "1 ann"),
        ("SELECT f.customerid, f.lower FROM f ORDER BY f.name DESC LIMIT 1", "2 6"),
        ("SELECT name, count(*) FROM f GROUP BY name HAVING max(customerid) > 1", "bob 1"),
        ("SELECT a.name, b.name FROM f a JOIN t b ON a.customerid = b.customerid", "ann x"),
        ("SELECT name FROM f WHERE customerid IN (SELECT customerid FROM t)", "ann"),
        // The column of the outer query has the name as it is.
        ("SELECT name FROM t WHERE customerid IN (SELECT customerid FROM f)", "x\ny"),
        ("SELECT name FROM t WHERE customerid IN (SELECT f.customerid FROM f)", "x"),
        ("SELECT customerid FROM f UNION ALL SELECT 7 ORDER BY customerid DESC LIMIT 1", "7"),
        ("SELECT name AS n FROM f UNION ALL SELECT name FROM t ORDER BY n", "ann\nbob\nx\ny"),
        ("SELECT n FROM (SELECT name AS n, customerid FROM f) WHERE customerid = 2", "bob"),
        (
            "WITH q AS (SELECT * FROM f) SELECT customerid AS id FROM q ORDER BY id DESC LIMIT 1",
            "2",
        ),
        ("SELECT name AS name FROM f ORDER BY name LIMIT 1", "ann"),
        ("SELECT lower FROM f ORDER BY f.name DESC, lower(f.name) LIMIT 1", "6"),
        (
            "SELECT name FROM f WHERE EXISTS (SELECT 1 FROM t WHERE t.customerid = f.customerid)",
            "ann",
        ),
    ] {
        assert_eq!(show(&session, query).await, answer, "{query}");
    }
    let output = session.sql("SELECT customerid FROM f").await.expect("run");
    assert_eq!(output[0].schema.field(0).name(), "CustomerID");
    show(&session, "CREATE VIEW v AS SELECT customerid FROM f WHERE name = 'bob'").await;
    assert_eq!(show(&session, "SELECT customerid FROM v").await, "2");
    show(&session, "CREATE TABLE copy AS SELECT customerid FROM f").await;
    assert_eq!(show(&session, "SELECT \"CustomerID\" FROM copy ORDER BY 1").await, "1\n2");
    show(&session, "UPDATE f SET lower = customerid WHERE name = 'ann'").await;
    assert_eq!(show(&session, "SELECT lower FROM f ORDER BY lower").await, "1\n6");
    show(&session, "UPDATE f SET name = 'eve' WHERE customerid = 2").await;
    show(&session, "INSERT INTO f (name, customerid) VALUES ('dan', 3)").await;
    let names = "SELECT string_agg(name, ' ' ORDER BY customerid) FROM f";
    assert_eq!(show(&session, names).await, "ann eve dan");
    show(&session, "DELETE FROM f WHERE customerid = 1").await;
    assert_eq!(show(&session, "SELECT count(*) FROM f").await, "2");

    show(&session, "CREATE TABLE two (\"Id\" INT, \"ID\" INT)").await;
    for (query, words) in [
        ("SELECT id FROM two", "id"),
        ("SELECT \"customerid\" FROM f", "customerid"),
        ("SELECT lower + 1 AS name FROM f ORDER BY f.name, missing", "missing"),
        ("SELECT customerid + 1 AS customerid FROM f", "customerid"),
    ] {
        let text = error(&session, query).await;
        assert!(text.contains(words), "{query}: {text}");
    }
}
