//! Joins by USING and NATURAL joins: the merged column, its value, and the order of `*`.

use crate::common::{MIB, engine, error, show};
use terrace_sql::Session;

async fn session() -> (terrace_sql::Engine, Session) {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    let make = "CREATE TABLE a (x INT, k INT, j INT); INSERT INTO a VALUES (1, 2, 3), (4, 5, 6);
                CREATE TABLE b (j INT, y INT, k INT); INSERT INTO b VALUES (3, 9, 2), (7, 8, 9);
                CREATE TABLE c (k INT, z INT); INSERT INTO c VALUES (2, 20), (9, 90), (11, 110)";
    show(&session, make).await;
    (engine, session)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_merged_column_is_first_and_has_the_value_of_the_side_with_a_row() {
    let (_engine, session) = session().await;
    let cases = [
        ("SELECT * FROM a NATURAL JOIN b", "2 3 1 9"),
        ("SELECT * FROM a JOIN b USING (j, k)", "3 2 1 9"),
        ("SELECT * FROM a JOIN b USING (k)", "2 1 3 3 9"),
        ("SELECT * FROM a LEFT JOIN b USING (k) ORDER BY k", "2 1 3 3 9\n5 4 6  "),
        ("SELECT * FROM b LEFT JOIN a USING (k) ORDER BY k", "2 3 9 1 3\n9 7 8  "),
        ("SELECT * FROM a RIGHT JOIN b USING (k) ORDER BY 1", "2 1 3 3 9\n9   7 8"),
        ("SELECT k FROM a RIGHT JOIN b USING (k) WHERE k = 9", "9"),
        ("SELECT k, a.k FROM a RIGHT JOIN b USING (k) ORDER BY k", "2 2\n9 "),
        ("SELECT k FROM a FULL JOIN b USING (k) ORDER BY k", "2\n5\n9"),
        ("SELECT k + 1 FROM a NATURAL FULL JOIN b ORDER BY k", "3\n6\n10"),
        (
            "SELECT k, count(*) FROM a FULL JOIN b USING (k) GROUP BY k HAVING k > 2 ORDER BY k",
            "5 1\n9 1",
        ),
        (
            "SELECT k, x, y, z FROM a FULL JOIN b USING (k) FULL JOIN c USING (k) ORDER BY k",
            "2 1 9 20\n5 4  \n9  8 90\n11   110",
        ),
        (
            "SELECT k FROM a FULL JOIN b USING (k) JOIN c ON c.k = a.k OR c.k = b.k ORDER BY 1",
            "2\n9",
        ),
        ("SELECT * EXCLUDE (x, y) FROM a NATURAL JOIN b", "2 3"),
        ("SELECT * REPLACE (k * 10 AS k) FROM a JOIN b USING (k)", "20 1 3 3 9"),
        ("SELECT a.*, b.y FROM a JOIN b USING (k)", "1 2 3 9"),
        ("SELECT * FROM c NATURAL JOIN (SELECT 9 AS k, 'w' AS w)", "9 90 w"),
        (
            "WITH w AS (SELECT k, y FROM b), v (k) AS (SELECT j FROM b) \
          SELECT * FROM w RIGHT JOIN v USING (k) ORDER BY 1",
            "3 \n7 ",
        ),
        ("SELECT * FROM a NATURAL JOIN (VALUES (7)) v (q) ORDER BY x", "1 2 3 7\n4 5 6 7"),
        ("SELECT k FROM (SELECT * FROM a RIGHT JOIN b USING (k)) s ORDER BY k", "2\n9"),
        ("SELECT DISTINCT ON (k) k, y FROM a RIGHT JOIN b USING (k) ORDER BY k", "2 9\n9 8"),
        (
            "SELECT k, rank() OVER (ORDER BY k DESC) FROM a FULL JOIN b USING (k) ORDER BY k",
            "2 3\n5 2\n9 1",
        ),
        (
            "SELECT generate_series FROM generate_series(1, 3) RIGHT JOIN (VALUES (3), (4)) \
             v (generate_series) USING (generate_series) ORDER BY 1",
            "3\n4",
        ),
    ];
    for (query, answer) in cases {
        assert_eq!(show(&session, query).await, answer, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subqueries_see_the_merged_column_unless_they_have_their_own() {
    let (_engine, session) = session().await;
    let cases = [
        (
            "SELECT k FROM a RIGHT JOIN b USING (k) \
          WHERE EXISTS (SELECT 1 FROM c WHERE c.z = k * 10) \
          ORDER BY 1",
            "2\n9",
        ),
        (
            "SELECT k FROM a RIGHT JOIN b USING (k) WHERE y > (SELECT min(k) FROM c) ORDER BY 1",
            "2\n9",
        ),
        ("SELECT x FROM a JOIN b USING (k) WHERE x IN (SELECT 1 FROM c WHERE k = 11)", "1"),
    ];
    // In the first case, c has its own column k; under an alias without k, the join's k is visible.
    assert_eq!(show(&session, cases[0].0).await, "2\n9");
    let outer = "SELECT k FROM a RIGHT JOIN b USING (k) \
                 WHERE EXISTS (SELECT 1 FROM (SELECT z FROM c) d WHERE d.z = k * 10) ORDER BY 1";
    assert_eq!(show(&session, outer).await, "2\n9");
    for (query, answer) in &cases[1..] {
        assert_eq!(show(&session, query).await, *answer, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_and_changes_join_by_columns_too() {
    let (_engine, session) = session().await;
    show(&session, "CREATE VIEW v AS SELECT * EXCLUDE (j) FROM a RIGHT JOIN b USING (k)").await;
    assert_eq!(show(&session, "SELECT k FROM v ORDER BY k").await, "2\n9");
    show(&session, "CREATE TABLE d AS SELECT * FROM a NATURAL FULL JOIN b").await;
    let rows = show(&session, "SELECT * FROM d ORDER BY k").await;
    assert_eq!(rows, "2 3 1 9\n5 6 4 \n9 7  8");
    show(&session, "INSERT INTO c SELECT k, y FROM a FULL JOIN b USING (k) WHERE k = 9").await;
    assert_eq!(show(&session, "SELECT count(*) FROM c WHERE k = 9").await, "2");
    show(&session, "DELETE FROM c USING (a FULL JOIN b USING (k)) WHERE c.k = b.k").await;
    assert_eq!(show(&session, "SELECT k FROM c").await, "11");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_column_that_cannot_be_merged_is_refused() {
    let (_engine, session) = session().await;
    let missing = error(&session, "SELECT * FROM a JOIN c USING (x)").await;
    assert!(missing.contains("right side has no such column"), "{missing}");
    let twice = "SELECT * FROM a JOIN b ON a.k = b.k JOIN c USING (k)";
    let twice = error(&session, twice).await;
    assert!(twice.contains("left side has it more than once"), "{twice}");
}
