//! PIVOT and UNPIVOT, with the columns and rows of DuckDB 2.0.

use crate::common::{MIB, check, engine, error, show};
use crate::query_forms::{names, tables};

#[tokio::test]
async fn values_become_columns() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    tables(&session).await;
    let rows = "ann 10 60\nbob 20 \ncat  30\ndan  40\neve  ";
    check(
        &session,
        &[
            ("PIVOT emp ON dept USING sum(sal) GROUP BY name ORDER BY name", rows),
            ("PIVOT emp ON dept IN ('x', 'y') USING sum(sal) GROUP BY name ORDER BY name", rows),
            (
                "SELECT * FROM emp PIVOT (sum(sal) FOR dept IN ('x', 'y') GROUP BY name) ORDER \
                    BY 1",
                rows,
            ),
            ("FROM (PIVOT emp ON dept USING sum(sal) GROUP BY name) ORDER BY name", rows),
            (
                "WITH p AS (PIVOT emp ON dept USING sum(sal) GROUP BY name) SELECT * FROM p \
                 WHERE x IS NOT NULL ORDER BY 1",
                "ann 10 60\nbob 20 ",
            ),
            (
                "PIVOT emp ON dept ORDER BY id",
                "1 ann 10 1 0\n2 bob 20 1 0\n3 cat 30 0 1\n4 dan 40 0 1\n5 eve 50 0 0\n6 ann 60 \
                    0 1",
            ),
            (
                "PIVOT emp ON dept IN (NULL, 'x') USING count(*) GROUP BY name ORDER BY name",
                "ann 0 1\nbob 0 1\ncat 0 0\ndan 0 0\neve 1 0",
            ),
            (
                "PIVOT emp ON id > 3 USING max(sal) + 1, min(sal) GROUP BY dept ORDER BY dept",
                "x 21 10  \ny 31 30 61 40\n   51 50",
            ),
            ("PIVOT emp USING sum(sal) GROUP BY dept ORDER BY dept", "x 30\ny 130\n 50"),
            ("PIVOT (SELECT -id AS i, sal FROM emp WHERE id < 3) ON i USING sum(sal)", "20 10"),
            (
                "PIVOT (SELECT *, DATE '2024-01-01' + id AS d FROM emp WHERE id < 3) ON d USING \
                 sum(sal) GROUP BY name ORDER BY name",
                "ann 10 \nbob  20",
            ),
            ("PIVOT (SELECT * FROM emp WHERE id > 10) ON dept USING sum(sal) GROUP BY name", ""),
            (
                "SELECT p.id, name, x FROM emp e PIVOT (sum(sal) FOR dept IN ('x')) p JOIN (SELECT \
                 id AS j FROM emp) f ON j = p.id ORDER BY 1 LIMIT 1",
                "1 ann 10",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn columns_of_pivots_are_named_by_values_and_aliases() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    tables(&session).await;
    for (text, expected) in [
        ("PIVOT emp ON dept USING sum(sal)", "id,name,x,y"),
        ("PIVOT emp ON dept USING sum(sal) AS s GROUP BY name", "name,x_s,y_s"),
        (
            "PIVOT emp ON dept USING sum(sal), count(*) GROUP BY name",
            "name,x_sum(sal),x_count_star(),y_sum(sal),y_count_star()",
        ),
        ("PIVOT emp ON dept, id IN (1, 2) USING sum(sal) GROUP BY name", "name,x_1,x_2,y_1,y_2"),
        (
            "PIVOT emp ON dept || '_' || name USING sum(sal) GROUP BY id",
            "id,x_ann,x_bob,y_ann,y_cat,y_dan",
        ),
        (
            "SELECT * FROM emp PIVOT (sum(sal) AS s, count(*) AS n FOR dept IN ('x' AS xx, 'y') \
             GROUP BY name) AS p",
            "name,xx_s,xx_n,y_s,y_n",
        ),
        (
            "SELECT * FROM (SELECT name, dept, id, sal FROM emp) PIVOT (sum(sal) FOR dept IN \
             ('x', 'y') id IN (1, 2))",
            "name,x_1,x_2,y_1,y_2",
        ),
        (
            "PIVOT emp ON id > 3 USING max(sal) + 1, min(sal) GROUP BY dept",
            "dept,false_(max(sal) + 1),false_min(sal),true_(max(sal) + 1),true_min(sal)",
        ),
        ("PIVOT (SELECT * FROM emp WHERE id > 10) ON dept USING sum(sal)", "id,name"),
        (
            "SELECT * FROM (SELECT name, dept, sal FROM emp) PIVOT (sum(sal) FOR dept IN \
             ('x', 'y')) p(a, b, c)",
            "a,b,c",
        ),
    ] {
        assert_eq!(names(&session, text).await, expected, "{text}");
    }
}

#[tokio::test]
async fn pivots_fill_tables_and_views() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    tables(&session).await;
    show(
        &session,
        "CREATE TABLE p AS PIVOT emp ON dept USING sum(sal) GROUP BY name;
         INSERT INTO p PIVOT emp ON dept USING sum(sal) GROUP BY name;
         CREATE VIEW v AS PIVOT emp ON dept IN ('x') USING sum(sal) GROUP BY name;
         CREATE VIEW u AS UNPIVOT emp ON id, sal INTO NAME n VALUE value",
    )
    .await;
    check(
        &session,
        &[
            ("SELECT name, x FROM p WHERE x > 0 ORDER BY name", "ann 10\nann 10\nbob 20\nbob 20"),
            ("SELECT name FROM v WHERE x > 0 ORDER BY name", "ann\nbob"),
            ("SELECT count(*), sum(value) FROM u", "12 231"),
        ],
    )
    .await;
    show(&session, "BEGIN; INSERT INTO emp VALUES (7, 'fay', 'z', 70)").await;
    let text = "PIVOT emp ON dept USING sum(sal) GROUP BY name";
    assert_eq!(names(&session, text).await, "name,x,y,z", "the transaction's own rows count");
    show(&session, "ROLLBACK").await;
    assert_eq!(names(&session, text).await, "name,x,y");
}

#[tokio::test]
async fn impossible_pivots_are_refused() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    tables(&session).await;
    for (text, said) in [
        ("PIVOT emp", "PIVOT needs ON"),
        ("PIVOT emp ON dept USING sal", "is not an aggregate"),
        ("PIVOT emp ON dept IN ('x', 'x') USING sum(sal)", "two columns x"),
        ("PIVOT emp ON dept IN () USING sum(sal)", "an expression"),
        ("PIVOT emp ON dept IN (name) USING sum(sal)", "No field named name"),
        ("PIVOT emp ON nosuch USING sum(sal)", "No field named nosuch"),
        ("CREATE VIEW v AS PIVOT emp ON dept USING sum(sal)", "name the values"),
        (
            "PIVOT (SELECT generate_series AS n FROM generate_series(1, 10001)) ON n",
            "more than 10000 values",
        ),
        (
            "WITH t AS (SELECT generate_series AS n FROM generate_series(1, 200)) SELECT * FROM \
             (PIVOT (SELECT n, n AS m FROM t) ON n, m)",
            "at most 10000",
        ),
        ("UNPIVOT emp", "UNPIVOT needs ON"),
        ("UNPIVOT emp ON id, sal", "two columns name"),
        ("UNPIVOT emp ON COLUMNS('zz')", "none match"),
        ("UNPIVOT emp ON id, name", "cast one"),
        ("UNPIVOT emp ON id, sal INTO NAME n VALUE v, w", "1 columns, and 2 names"),
    ] {
        let error = error(&session, text).await;
        assert!(error.contains(said), "{text}\n{error}");
    }
}

#[tokio::test]
async fn columns_become_rows() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    tables(&session).await;
    const ABC: &str = "(SELECT 1 AS a, NULL::INT AS b, 'k' AS c)";
    const ABCD: &str = "(SELECT 1 AS a, 2 AS b, 3 AS c, 4 AS d)";
    let cases = [
        (
            "UNPIVOT emp ON id, sal INTO NAME n VALUE v ORDER BY v, name LIMIT 3".to_owned(),
            "ann x id 1\nbob x id 2\ncat y id 3",
        ),
        (format!("UNPIVOT {ABC} ON a, b"), "k a 1"),
        (format!("SELECT * FROM {ABC} UNPIVOT (v FOR n IN (a, b))"), "k a 1"),
        (
            format!("SELECT * FROM {ABC} UNPIVOT INCLUDE NULLS (v FOR n IN (a, b AS 'B1'))"),
            "k a 1\nk B1 ",
        ),
        (
            "UNPIVOT (SELECT 1 AS a, 2.5 AS b, 'k' AS c) ON COLUMNS(* EXCLUDE (c))".to_owned(),
            "k a 1.0\nk b 2.5",
        ),
        (
            "UNPIVOT (SELECT 1 AS a, 2.5 AS b, 'k' AS c) ON * EXCLUDE (c)".to_owned(),
            "k a 1.0\nk b 2.5",
        ),
        (
            format!("UNPIVOT {ABCD} ON (a, b) AS ab, (c, d) INTO NAME n VALUE v, w"),
            "ab 1 2\nc_d 3 4",
        ),
        (
            format!(
                "SELECT x, z FROM {ABCD} UNPIVOT ((v, w) FOR n IN ((a, b), (c, d))) u(x, y, z)"
            ),
            "a_b 2\nc_d 4",
        ),
        ("UNPIVOT (SELECT 1 AS a, 2 AS b) ON a AS aa, b + 1 AS bb".to_owned(), "aa 1\nbb 3"),
        (
            "SELECT count(*) FROM (UNPIVOT emp ON COLUMNS('s.*') INTO NAME n VALUE v)".to_owned(),
            "6",
        ),
    ];
    for (query, answer) in &cases {
        assert_eq!(show(&session, query).await, *answer, "{query}");
    }
}
