//! Comparisons with subqueries, and EXISTS: cases that DataFusion, or an earlier version, gets
//! wrong.

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comparisons_with_subqueries_have_three_truth_values() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE i AS SELECT * FROM (VALUES (1), (2), (3), (NULL)) v(i)").await;
    let of_filter = [
        ("i > ANY (SELECT i FROM i)", 2),
        ("i = ANY (SELECT i FROM i)", 3),
        ("i >= ALL (SELECT i FROM i WHERE i IS NOT NULL)", 1),
        ("i <> ALL (SELECT i FROM i WHERE i > 1)", 1),
        ("i <> ALL (SELECT i FROM i)", 0),
        ("i <> ANY (SELECT i FROM i WHERE i = 2)", 2),
        ("i = ALL (SELECT i FROM i WHERE i = 2)", 1),
        ("i < ALL (SELECT i FROM i WHERE i > 5)", 4),
        ("i < ANY (SELECT i FROM i WHERE i > 5)", 0),
        ("i NOT IN (SELECT i FROM i)", 0),
        ("i NOT IN (SELECT i FROM i WHERE i > 1)", 1),
        ("i NOT IN (SELECT i FROM i WHERE i > 5)", 4),
        ("1 NOT IN (SELECT NULL)", 0),
        ("1 NOT IN (SELECT i FROM i WHERE i = 2)", 4),
        ("(4 IN (SELECT i FROM i)) IS NULL", 4),
        ("(i IN (SELECT i FROM i WHERE i > 1)) IS NULL", 1),
        ("NOT (i IN (SELECT i FROM i WHERE i > 1))", 1),
        ("i NOT IN (SELECT i FROM i) OR i = 3", 1),
        ("i IN (SELECT i FROM i) OR i IS NULL", 4),
        ("(i > ANY (SELECT i FROM i)) IS NULL", 2),
        ("NOT (i > ALL (SELECT i FROM i))", 3),
    ];
    for (condition, rows) in of_filter {
        let query = format!("SELECT count(*) FROM i WHERE {condition}");
        assert_eq!(show(&session, &query).await, rows.to_string(), "{condition}");
    }
    check(
        &session,
        &[
            ("SELECT i IN (SELECT i FROM i WHERE i > 1) FROM i ORDER BY i", "false\ntrue\ntrue\n"),
            ("SELECT i NOT IN (SELECT i FROM i) FROM i ORDER BY i", "false\nfalse\nfalse\n"),
            ("SELECT i > ANY (SELECT i FROM i) FROM i ORDER BY i", "\ntrue\ntrue\n"),
            (
                "SELECT 4 IN (SELECT i FROM i) AS a, 4 IN (SELECT i FROM i WHERE i > 0) AS b",
                " false",
            ),
            (
                "SELECT EXISTS (SELECT 1 FROM i WHERE i > 5) AS a, EXISTS (SELECT 1 FROM i) AS b",
                "false true",
            ),
            (
                "SELECT a.i, EXISTS (SELECT 1 FROM i b WHERE b.i = a.i + 1) FROM i a ORDER BY a.i",
                "1 true\n2 true\n3 false\n false",
            ),
        ],
    )
    .await;
}

/// A value may be null although none of its columns is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nulls_of_expressions_are_in_no_list_but_the_empty_one() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE o (k BIGINT NOT NULL, g BIGINT NOT NULL)").await;
    show(&session, "INSERT INTO o VALUES (1, 1), (2, 1), (3, 2), (4, 3)").await;
    show(&session, "CREATE TABLE s (v BIGINT NOT NULL, g BIGINT NOT NULL)").await;
    show(&session, "INSERT INTO s VALUES (2, 1), (5, 1), (3, 2)").await;
    let of_filter = [
        // No row of `s` has g = 3: an empty list.
        ("CAST(NULL AS BIGINT) NOT IN (SELECT v FROM s WHERE s.g = o.g)", "4"),
        ("CAST(NULL AS BIGINT) NOT IN (SELECT DISTINCT 5 FROM s WHERE s.g < o.g)", "1 2"),
        ("CAST(NULL AS BIGINT) <> ALL (SELECT v FROM s WHERE s.g = o.g)", "4"),
        ("nullif(k, 1) NOT IN (SELECT v FROM s WHERE s.g = o.g)", "4"),
        ("nullif(k, 1) NOT IN (SELECT v FROM s)", "4"),
        ("nullif(k, 1) NOT IN (SELECT v FROM s WHERE v > 9)", "1 2 3 4"),
        ("CASE WHEN k > 1 THEN k END NOT IN (SELECT v FROM s WHERE s.g = o.g)", "4"),
        ("NOT (nullif(k, 1) IN (SELECT v FROM s WHERE s.g = o.g AND v = 5))", "2 3 4"),
        ("nullif(k, 9) NOT IN (SELECT v FROM s WHERE s.g = o.g)", "1 4"),
    ];
    for (condition, keys) in of_filter {
        let query = format!("SELECT k FROM o WHERE {condition} ORDER BY k");
        assert_eq!(show(&session, &query).await.replace('\n', " "), keys, "{condition}");
    }
}

/// Without their conditions on the outer row these subqueries are evaluated once; as the condition
/// of a join they would be compared for each pair of rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_on_the_outer_row_alone_are_no_join() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(
        &session,
        "CREATE TABLE o AS SELECT * FROM (VALUES (1, 1), (2, 1), (3, 0), (4, NULL), (NULL, 1), \
         (NULL, 0)) v(k, g)",
    )
    .await;
    show(&session, "CREATE TABLE s AS SELECT * FROM (VALUES (1), (3), (NULL)) v(y)").await;
    let of_filter = [
        ("k NOT IN (SELECT y FROM s WHERE o.g = 1 AND y IS NOT NULL)", "2 3 4 N"),
        ("k NOT IN (SELECT y FROM s WHERE o.g = 1)", "3 4 N"),
        ("k NOT IN (SELECT y FROM s WHERE o.g = 1 AND y > 9)", "1 2 3 4 N N"),
        ("k IN (SELECT y FROM s WHERE o.g = 1)", "1"),
        ("k IN (SELECT y FROM s WHERE o.g = 1) OR k = 4", "1 4"),
        ("(k IN (SELECT y FROM s WHERE o.g = 1)) IS NULL", "2 N"),
        ("k > ALL (SELECT y FROM s WHERE o.g = 1 AND y < 2)", "2 3 4 N"),
        ("k > ANY (SELECT y FROM s WHERE o.g = 1)", "2"),
        ("NOT EXISTS (SELECT 1 FROM s WHERE o.g = 1)", "3 4 N"),
        ("EXISTS (SELECT y FROM (SELECT y FROM s WHERE o.g = 1) t WHERE y > 2)", "1 2 N"),
        ("NOT EXISTS (SELECT 1 FROM s WHERE o.g = 1 AND y > 9)", "1 2 3 4 N N"),
        ("k NOT IN (SELECT y FROM s WHERE o.g = 1 AND o.k < 3 ORDER BY y LIMIT 1)", "2 3 4 N N"),
    ];
    for (condition, keys) in of_filter {
        let keys_of = "SELECT coalesce(CAST(k AS VARCHAR), 'N') AS k FROM o";
        let query = format!("{keys_of} WHERE {condition} ORDER BY k");
        let found = show(&session, &query).await;
        assert_eq!(found.replace('\n', " "), keys, "{condition}");
    }
    show(&session, "CREATE TABLE l AS SELECT value AS k FROM generate_series(1, 200000)").await;
    show(&session, "CREATE TABLE r AS SELECT value * 2 AS y FROM generate_series(1, 200000)").await;
    let began = std::time::Instant::now();
    let of_many = [
        ("k NOT IN (SELECT y FROM r WHERE l.k > 100)", 100_050),
        ("NOT EXISTS (SELECT y FROM r WHERE l.k > 100 AND y < 0)", 200_000),
        ("k <> ALL (SELECT y FROM r WHERE l.k > 100)", 100_050),
    ];
    for (condition, rows) in of_many {
        let query = format!("SELECT count(*) FROM l WHERE {condition}");
        assert_eq!(show(&session, &query).await, rows.to_string(), "{condition}");
    }
    // Pair by pair it would be minutes.
    let seconds = began.elapsed().as_secs();
    assert!(seconds < 30, "{seconds} s for three subqueries over 200,000 rows");
}

/// A comparison of rows is unknown if it is of a column, and no other column differs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_compared_with_subqueries() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(
        &session,
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 1, 1), (2, 1, NULL), (3, 2, 2), \
         (4, NULL, NULL), (5, 3, 3)) v(id, a, b)",
    )
    .await;
    show(&session, "CREATE TABLE s AS SELECT * FROM (VALUES (1, 1), (2, NULL)) v(x, y)").await;
    let of_filter = [
        ("(a, b) IN (SELECT x, y FROM s)", "1"),
        ("(a, b) NOT IN (SELECT x, y FROM s)", "5"),
        ("NOT (a, b) IN (SELECT x, y FROM s)", "5"),
        ("NOT ((a, b) NOT IN (SELECT x, y FROM s))", "1"),
        ("((a, b) IN (SELECT x, y FROM s)) IS NULL", "2 3 4"),
        ("(a, b) IN (SELECT x, y FROM s) OR id = 4", "1 4"),
        ("id > 1 AND (a, b) NOT IN (SELECT x, y FROM s WHERE y > 5)", "2 3 4 5"),
        ("(a + 1, b) IN (SELECT x + 1, y FROM s ORDER BY x LIMIT 1)", "1"),
        ("(id, a, b) IN (SELECT x, x, y FROM s)", "1"),
    ];
    for (condition, ids) in of_filter {
        let query = format!("SELECT id FROM t WHERE {condition} ORDER BY id");
        assert_eq!(show(&session, &query).await.replace('\n', " "), ids, "{condition}");
    }
    let wrong = error(&session, "SELECT id FROM t WHERE (a, b) IN (SELECT x FROM s)").await;
    assert!(wrong.contains("column"), "{wrong}");
    show(
        &session,
        "CREATE TABLE l AS SELECT value AS a, value % 9 AS b FROM generate_series(1, 100000)",
    )
    .await;
    let many = "SELECT count(*) FROM l WHERE (a, b) IN (SELECT a * 2, b FROM l WHERE b > 0)";
    assert_eq!(show(&session, many).await, "0");
    let many = "SELECT count(*) FROM l WHERE (a, b) IN (SELECT a, b FROM l WHERE b > 0)";
    assert_eq!(show(&session, many).await, "88889");
    assert_eq!(show(&session, "DELETE FROM t WHERE (a, b) IN (SELECT x, y FROM s)").await, "1");
    assert_eq!(
        show(&session, "UPDATE t SET a = 9 WHERE (a, b) NOT IN (SELECT x, y FROM s)").await,
        "1"
    );
}

/// An aggregation without groups returns a row, even for no input.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn existence_of_aggregates_and_of_rows_behind_an_offset() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE q AS SELECT * FROM (VALUES (1, 1), (2, 2), (3, NULL)) v(id, a)")
        .await;
    show(&session, "CREATE TABLE r AS SELECT * FROM (VALUES (1, 10), (1, 20)) v(a, c)").await;
    let of_filter = [
        ("EXISTS (SELECT count(*) FROM r WHERE r.a = q.a)", "1 2 3"),
        ("EXISTS (SELECT sum(c) FROM r WHERE r.a = q.a) OR id = 9", "1 2 3"),
        ("NOT EXISTS (SELECT max(c) + 1 FROM r WHERE r.a = q.a)", ""),
        ("EXISTS (SELECT 1 FROM r WHERE r.a = q.a HAVING count(*) = 0)", "2 3"),
        ("NOT EXISTS (SELECT 1 FROM r WHERE r.a = q.a HAVING count(*) > 1)", "2 3"),
        ("EXISTS (SELECT c FROM r WHERE r.a = q.a GROUP BY c)", "1"),
        ("EXISTS (SELECT DISTINCT count(*) FROM r WHERE r.a = q.a)", "1 2 3"),
        ("EXISTS (SELECT count(*) FROM r WHERE r.a = q.a LIMIT 1)", "1 2 3"),
        ("EXISTS (SELECT 1 FROM r WHERE r.a = q.a OFFSET 1)", "1"),
        ("EXISTS (SELECT 1 FROM r WHERE r.a = q.a OFFSET 2)", ""),
        ("EXISTS (SELECT 1 FROM r WHERE r.a = q.a LIMIT 0)", ""),
        ("EXISTS (SELECT 1 FROM r n RIGHT JOIN r ON false WHERE r.a = q.a LIMIT 1)", "1"),
        ("NOT EXISTS (SELECT 1 FROM r WHERE r.a = q.a ORDER BY c LIMIT 1)", "2 3"),
    ];
    for (condition, ids) in of_filter {
        let query = format!("SELECT id FROM q WHERE {condition} ORDER BY id");
        assert_eq!(show(&session, &query).await.replace('\n', " "), ids, "{condition}");
    }
    let values = "SELECT EXISTS (SELECT sum(c) FROM r WHERE r.a = q.a) FROM q";
    assert_eq!(show(&session, values).await, "true\ntrue\ntrue");
    let delete = "DELETE FROM q WHERE NOT EXISTS (SELECT sum(c) FROM r WHERE r.a = q.a)";
    assert_eq!(show(&session, delete).await, "0");
}

/// An aggregate of columns of an outer query alone belongs to that query.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_of_outer_queries_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE o AS SELECT * FROM (VALUES (1), (2), (3)) v(x)").await;
    show(&session, "CREATE TABLE u AS SELECT * FROM (VALUES (10), (20)) v(y)").await;
    for query in [
        "SELECT (SELECT sum(o.x) FROM u) FROM o",
        "SELECT (SELECT min(1) FILTER (WHERE o.x > 1) FROM u) FROM o",
        "SELECT x FROM o WHERE EXISTS (SELECT 1 FROM u HAVING max(o.x) > 1)",
        "SELECT x FROM o WHERE 3 IN (SELECT count(o.x) FROM u)",
    ] {
        let refused = error(&session, query).await;
        assert!(refused.contains("belongs to that query"), "{query}: {refused}");
    }
    let own = "SELECT (SELECT count(*) FROM u WHERE u.y = 10 * o.x) FROM o ORDER BY 1";
    assert_eq!(show(&session, own).await, "0\n1\n1");
}

/// The group of all rows exists even without rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn correlated_groups_of_all_rows_exist_without_rows() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE q AS SELECT * FROM (VALUES (1), (2), (3)) v(a)").await;
    show(&session, "CREATE TABLE r AS SELECT * FROM (VALUES (1, 10), (1, 11), (2, 20)) v(a, c)")
        .await;
    for keys in ["ROLLUP (c)", "CUBE (c)", "GROUPING SETS ((c), ())", "ROLLUP (c), CUBE (a)"] {
        for (condition, found) in [
            ("5 NOT IN (SELECT c", ""),
            ("EXISTS (SELECT c", "1 2 3"),
            ("0 IN (SELECT count(*)", "3"),
        ] {
            let query = format!(
                "SELECT a FROM q WHERE {condition} FROM r WHERE r.a = q.a GROUP BY {keys}) \
                 ORDER BY a"
            );
            assert_eq!(show(&session, &query).await.replace('\n', " "), found, "{query}");
        }
    }
    let cases = [
        ("5 NOT IN (SELECT c FROM r WHERE r.a = q.a GROUP BY GROUPING SETS ((c), (a)))", "3"),
        ("2 IN (SELECT count(*) FROM r WHERE r.a = q.a GROUP BY a, ROLLUP (c))", "1"),
        ("EXISTS (SELECT c FROM r GROUP BY ROLLUP (c))", "1 2 3"),
    ];
    for (condition, keys) in cases {
        let query = format!("SELECT a FROM q WHERE {condition} ORDER BY a");
        assert_eq!(show(&session, &query).await.replace('\n', " "), keys, "{condition}");
    }
    let outermost = "SELECT c, count(*) FROM r WHERE EXISTS (SELECT 1 FROM q WHERE q.a = r.a) \
                     GROUP BY ROLLUP (c) ORDER BY c";
    assert_eq!(show(&session, outermost).await, "10 1\n11 1\n20 1\n 3");
}

/// An aggregate without groups returns one row per outer row, even for no input.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memberships_in_an_aggregate_of_no_rows_see_its_row() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let make = "CREATE TABLE w AS SELECT * FROM (VALUES (0), (1), (NULL)) v(id);
                CREATE TABLE u AS SELECT * FROM (VALUES (1, 1), (1, 1)) v(name, x)";
    show(&session, make).await;
    let of = |condition: &str| format!("SELECT count(*) FROM w WHERE {condition}");
    let max = "(SELECT max(x) FROM u WHERE u.name = w.id)";
    let count = "(SELECT count(*) FROM u WHERE u.name = w.id)";
    let cases = [
        (of(&format!("id NOT IN {max}")), "0"),
        (of(&format!("id IN {max}")), "1"),
        (of(&format!("id IN {count}")), "1"),
        (of(&format!("id NOT IN {count}")), "1"),
        (of(&format!("NOT (id = ANY {count})")), "1"),
        (of(&format!("(id IN {max}) IS NULL")), "2"),
    ];
    for (query, answer) in cases {
        assert_eq!(show(&session, &query).await, answer, "{query}");
    }
}

/// Columns of several tables of a subquery may share a name, and conditions on the outer row may
/// refer to any of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn correlated_columns_of_one_name_are_told_apart() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let tables = "CREATE TABLE o AS SELECT * FROM (VALUES (1, 10), (2, 20)) v(k, id);
                  CREATE TABLE a AS SELECT * FROM (VALUES (1, 7), (2, 8)) v(id, j);
                  CREATE TABLE b AS SELECT * FROM (VALUES (10, 7), (99, 8)) v(id, j)";
    show(&session, tables).await;
    let joined = "FROM a JOIN b ON a.j = b.j WHERE b.id = o.id";
    let of_filter = [
        (format!("k IN (SELECT a.id {joined})"), "1"),
        (format!("k NOT IN (SELECT a.id {joined})"), "2"),
        (format!("k IN (SELECT DISTINCT a.id {joined})"), "1"),
        (format!("k IN (SELECT a.id {joined} GROUP BY a.id)"), "1"),
        (format!("k IN (SELECT a.id + 0 AS id {joined} AND a.id = o.k)"), "1"),
        (format!("k <> ALL (SELECT a.id {joined})"), "2"),
        (format!("EXISTS (SELECT a.id {joined})"), "1"),
        (format!("EXISTS (SELECT * {joined})"), "1"),
        (format!("NOT EXISTS (SELECT 1 {joined} AND a.id = o.k)"), "2"),
        (format!("k = (SELECT max(a.id) {joined} AND a.id = o.k)"), "1"),
        (
            "k IN (SELECT d.id FROM (SELECT id, j FROM a) d, b WHERE d.j = b.j AND b.id = o.id)"
                .to_owned(),
            "1",
        ),
        (
            "k IN (SELECT a.id FROM a, b WHERE a.j = b.j AND b.id = o.id AND a.id < b.id)"
                .to_owned(),
            "1",
        ),
        (
            format!("k IN (SELECT a.id {joined}) AND id IN (SELECT b.id {joined} AND a.id = o.k)"),
            "1",
        ),
    ];
    for (condition, found) in of_filter {
        let query = format!("SELECT k FROM o WHERE {condition} ORDER BY k");
        assert_eq!(show(&session, &query).await.replace('\n', " "), found, "{condition}");
    }
    let value = format!("SELECT k, k IN (SELECT a.id {joined}) FROM o ORDER BY k");
    assert_eq!(show(&session, &value).await, "1 true\n2 false");
    show(&session, &format!("DELETE FROM o WHERE k NOT IN (SELECT a.id {joined})")).await;
    assert_eq!(show(&session, "SELECT k FROM o").await, "1");
}
