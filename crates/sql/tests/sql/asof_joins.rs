//! ASOF, POSITIONAL, SEMI and ANTI joins, with the rows of DuckDB 2.0.

use crate::common::{MIB, check, engine, error, show};

const TABLES: &str = "CREATE TABLE tr (k VARCHAR, t INT, q INT);
    INSERT INTO tr VALUES ('a', 1, 1), ('a', 5, 2), ('a', 5, 3), ('b', 2, 4), ('b', NULL, 5),
        (NULL, 3, 6), ('c', 9, 7), ('a', 10, 8);
    CREATE TABLE pr (k VARCHAR, t INT, p INT);
    INSERT INTO pr VALUES ('a', 0, 100), ('a', 5, 105), ('a', 7, 107), ('b', NULL, 200),
        ('b', 3, 203), (NULL, 1, 300), ('c', 9, 409), ('d', 2, 500)";

const INNER: &str = "a 1 1 100\na 5 2 105\na 5 3 105\nc 9 7 409\na 10 8 107";
const OUTER: &str = "a 1 1 100\na 5 2 105\na 5 3 105\nb 2 4 \nb  5 \n 3 6 \nc 9 7 409\na 10 8 107";

/// Joins of the tables, with the rows of DuckDB.
const JOINS: &[(&str, &str)] = &[
    (
        "SELECT tr.k, tr.t, q, p FROM tr ASOF JOIN pr ON tr.k = pr.k AND tr.t >= pr.t \
                 ORDER BY q",
        INNER,
    ),
    (
        "SELECT tr.k, tr.t, q, p FROM tr ASOF LEFT JOIN pr ON tr.k = pr.k AND tr.t >= \
                 pr.t ORDER BY q",
        OUTER,
    ),
    ("SELECT * FROM tr ASOF JOIN pr USING (k, t) ORDER BY q", INNER),
    ("SELECT * FROM tr ASOF LEFT JOIN pr USING (k, t) ORDER BY q", OUTER),
    (
        "SELECT q, p FROM tr ASOF JOIN pr ON tr.k = pr.k AND tr.t > pr.t ORDER BY q",
        "1 100\n2 100\n3 100\n8 107",
    ),
    (
        "SELECT q, p FROM tr ASOF LEFT JOIN pr ON tr.k = pr.k AND tr.t <= pr.t ORDER BY q",
        "1 105\n2 105\n3 105\n4 203\n5 \n6 \n7 409\n8 ",
    ),
    (
        "SELECT q, p FROM tr ASOF LEFT JOIN pr ON tr.k = pr.k AND tr.t < pr.t ORDER BY q",
        "1 105\n2 107\n3 107\n4 203\n5 \n6 \n7 \n8 ",
    ),
    (
        "SELECT q, p FROM tr ASOF LEFT JOIN pr ON pr.k = tr.k AND pr.t <= tr.t ORDER BY q",
        "1 100\n2 105\n3 105\n4 \n5 \n6 \n7 409\n8 107",
    ),
    (
        "SELECT q, p FROM tr ASOF JOIN pr ON tr.t >= pr.t ORDER BY q",
        "1 300\n2 105\n3 105\n4 500\n6 203\n7 409\n8 409",
    ),
    (
        "SELECT q, p, pr.t FROM tr ASOF JOIN pr USING (k, t) ORDER BY q",
        "1 100 0\n2 105 5\n3 105 5\n7 409 9\n8 107 7",
    ),
    (
        "SELECT k, count(*), max(p) FROM tr ASOF JOIN pr USING (k, t) GROUP BY k ORDER \
                    BY k",
        "a 4 107\nc 1 409",
    ),
    (
        "SELECT a.q, b.p, c.p FROM tr a ASOF JOIN pr b USING (k, t) ASOF LEFT JOIN pr c ON \
                 a.k = c.k AND a.t > c.t ORDER BY a.q",
        "1 100 100\n2 105 100\n3 105 100\n7 409 \n8 107 107",
    ),
    (
        "SELECT a.q, b.p, c.p FROM tr a ASOF LEFT JOIN pr b ON a.k = b.k AND a.t >= b.t \
                 JOIN pr c ON b.p = c.p ORDER BY a.q",
        "1 100 100\n2 105 105\n3 105 105\n7 409 409\n8 107 107",
    ),
    (
        "SELECT q, p FROM tr ASOF JOIN pr ON tr.k = pr.k AND tr.t::BIGINT * 2 >= pr.t + 1 \
                 ORDER BY q",
        "1 100\n2 107\n3 107\n4 203\n7 409\n8 107",
    ),
    (
        "SELECT q, p FROM (SELECT * FROM tr WHERE q < 0) e ASOF LEFT JOIN pr ON e.k = pr.k \
                 AND e.t >= pr.t",
        "",
    ),
    (
        "SELECT count(*), count(p) FROM tr ASOF LEFT JOIN (SELECT * FROM pr WHERE p < 0) e \
                 ON e.k = tr.k AND tr.t >= e.t",
        "8 0",
    ),
];

#[tokio::test]
async fn rows_pair_with_the_last_before_them() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    show(&session, TABLES).await;
    check(&session, JOINS).await;
}

/// Each row pairs with one of several of the same time, and many rows stay within the budget.
#[tokio::test]
async fn ties_pair_once_in_large_tables() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    let tables = "CREATE TABLE l AS SELECT value % 7 AS k, value AS t FROM range(200000);
        CREATE TABLE r AS SELECT value % 7 AS k, value // 100 * 100 AS t FROM range(200000)";
    show(&session, tables).await;
    let query = "SELECT count(*), count(b.t), sum(l.t - b.t), max(l.t - b.t) FROM l ASOF LEFT JOIN \
                 r b ON l.k = b.k AND l.t >= b.t";
    assert_eq!(show(&session, query).await, "200000 200000 9900000 99");
}

#[tokio::test]
async fn other_conditions_are_refused() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    show(&session, TABLES).await;
    for (on, said) in [
        ("ASOF JOIN pr ON tr.k = pr.k", "has 0"),
        ("ASOF JOIN pr ON tr.k = pr.k AND tr.t >= pr.t AND tr.q > pr.p", "has 2"),
        ("ASOF JOIN pr ON tr.t >= pr.t AND pr.p > 100", "is neither"),
        ("ASOF JOIN pr ON tr.k <> pr.k AND tr.t >= pr.t", "is neither"),
        ("ASOF RIGHT JOIN pr ON tr.t >= pr.t", "INNER or LEFT"),
    ] {
        let error = error(&session, &format!("SELECT q, p FROM tr {on}")).await;
        assert!(error.contains(said), "{on}\n{error}");
    }
}

#[tokio::test]
async fn rows_pair_by_their_places() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE n (i INT); INSERT INTO n VALUES (1), (2), (3)").await;
    check(
        &session,
        &[
            (
                "SELECT * FROM (SELECT i FROM n ORDER BY i) a POSITIONAL JOIN (SELECT i AS j \
                    FROM n \
                 ORDER BY i DESC) b ORDER BY i",
                "1 3\n2 2\n3 1",
            ),
            (
                "SELECT a.x, b.j FROM (SELECT i FROM n ORDER BY -i) a(x) POSITIONAL JOIN (SELECT i \
                 AS j FROM n ORDER BY i LIMIT 2) b ORDER BY x",
                "1 \n2 2\n3 1",
            ),
            (
                "SELECT count(i), count(j), count(k) FROM n POSITIONAL JOIN (SELECT 1 AS j) b \
                 POSITIONAL JOIN range(5) c(k)",
                "3 1 5",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn one_side_is_returned() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    show(&session, TABLES).await;
    check(
        &session,
        &[
            ("SELECT q FROM tr SEMI JOIN pr USING (k, t) ORDER BY q", "2\n3\n7"),
            ("SELECT q FROM tr ANTI JOIN pr USING (k, t) ORDER BY q", "1\n4\n5\n6\n8"),
            ("SELECT q FROM tr SEMI JOIN pr ON tr.t = pr.t + 1 ORDER BY q", "1\n4\n6\n8"),
            ("SELECT * FROM tr ANTI JOIN pr ON tr.k = pr.k ORDER BY q", " 3 6"),
            (
                "SELECT q FROM tr SEMI JOIN pr USING (k) ANTI JOIN pr c ON tr.t = c.t ORDER BY q",
                "5\n8",
            ),
        ],
    )
    .await;
}
