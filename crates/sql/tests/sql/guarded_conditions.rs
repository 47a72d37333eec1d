//! Conditions that keep others from failing, with the answers of PostgreSQL 15.

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

const TABLE: &str = "
    CREATE TABLE t (id INT, x BIGINT, y BIGINT, r DOUBLE PRECISION, s TEXT);
    INSERT INTO t VALUES (1, 1, 0, 0, 'a'), (2, 4, 2, 2, '4'), (3, 6, 3, 3, '5'),
        (4, 8, 1, 1, '12'), (5, 9, NULL, NULL, NULL)";

const CASES: &[(&str, &str)] = &[
    ("SELECT id FROM t WHERE y <> 0 AND x / y > 1 ORDER BY id", "2\n3\n4"),
    ("SELECT id FROM t WHERE r <> 0 AND x / r > 2 ORDER BY id", "4"),
    ("SELECT id FROM t WHERE y <> 0 AND x % y = 0 AND 12 / y > 4 ORDER BY id", "2\n4"),
    ("SELECT id FROM t WHERE y <> 0 AND (x > 100 OR x / y > 1) ORDER BY id", "2\n3\n4"),
    ("SELECT id FROM t WHERE y = 0 OR x / y > 2 ORDER BY id", "1\n4"),
    ("SELECT id FROM t WHERE NOT (y = 0 OR x / y > 2) ORDER BY id", "2\n3"),
    ("SELECT id FROM t WHERE s ~ '^[0-9]+$' AND s::int > 4 ORDER BY id", "3\n4"),
    ("SELECT id FROM t WHERE x > 1 AND y > 0 AND ln(y) > 1 ORDER BY id", "3"),
    ("SELECT id FROM (SELECT * FROM t WHERE y <> 0) q WHERE x / y > 1 ORDER BY id", "2\n3\n4"),
    (
        "SELECT id FROM t WHERE CASE WHEN y <> 0 THEN x / y > 1 ELSE false END ORDER BY id",
        "2\n3\n4",
    ),
    ("SELECT id, y <> 0 AND x / y > 2 FROM t ORDER BY id", "1 false\n2 false\n3 false\n4 true\n5 "),
    ("SELECT id, y = 0 OR x / y > 2 FROM t ORDER BY id", "1 true\n2 false\n3 false\n4 true\n5 "),
    (
        "SELECT id, CASE WHEN y <> 0 THEN x / y > 2 END FROM t ORDER BY id",
        "1 \n2 false\n3 false\n4 true\n5 ",
    ),
    (
        "SELECT id, CASE WHEN y = 0 OR x / y > 2 THEN 1 ELSE 0 END FROM t ORDER BY id",
        "1 1\n2 0\n3 0\n4 1\n5 0",
    ),
    ("SELECT count(*) FILTER (WHERE y <> 0 AND x / y > 1) FROM t", "3"),
    ("SELECT sum(CASE WHEN y <> 0 AND x / y > 1 THEN x ELSE 0 END) FROM t", "18"),
    ("SELECT count(*) FROM t a JOIN t b ON a.x > b.x AND b.y <> 0 AND a.x / b.y > 2", "5"),
    (
        "SELECT a.id, b.id FROM t a LEFT JOIN t b ON b.id = a.id + 1 AND a.y + b.y > 2 AND \
         6 / (a.y + b.y - 2) > 1 ORDER BY 1",
        "1 \n2 3\n3 4\n4 \n5 ",
    ),
    // A key of a join is not a condition: its unknown equals nothing.
    (
        "SELECT id FROM t JOIN (VALUES (true), (false)) b(f) ON (y <> 0 AND x / y > 2) = f \
         ORDER BY id",
        "1\n2\n3\n4",
    ),
    (
        "SELECT id FROM t WHERE (x > 8 OR y = 0 OR x / y > 2) AND (y = 1 OR y = 0) ORDER BY id",
        "1\n4",
    ),
    (
        "SELECT id FROM t WHERE y = 0 OR 6 / y > 5 OR 6 / (y - 1) > 5 OR id = 5 ORDER BY id",
        "1\n2\n4\n5",
    ),
    (
        "SELECT id, y <> 0 AND y <> 1 AND 6 / y > 2 AND 6 / (y - 1) > 5 FROM t ORDER BY id",
        "1 false\n2 true\n3 false\n4 false\n5 ",
    ),
    (
        "SELECT id, 6 / nullif(y, 0) > 5 OR 6 / (id + 1) > 2 OR x IS NULL FROM t ORDER BY id",
        "1 true\n2 false\n3 false\n4 true\n5 ",
    ),
    ("SELECT y, count(*) FROM t GROUP BY y HAVING y <> 0 AND 6 / y > 2 ORDER BY y", "1 1\n2 1"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn later_conditions_are_computed_for_the_rows_that_reach_them() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, TABLE).await;
    check(&session, CASES).await;
    // A condition that is computed twice would return other rows.
    let shares = "SELECT count(*) BETWEEN 300 AND 700 FROM generate_series(1, 1000) t(i)
        WHERE random() < 0.5 AND 10 / i >= 0";
    assert_eq!(show(&session, shares).await, "true");
    for query in ["SELECT id FROM t WHERE x / y > 1", "SELECT x / y > 1 AND y <> 0 FROM t"] {
        let text = error(&session, query).await;
        assert!(text.contains("division by zero"), "{query}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_of_changes_and_constraints_keep_others_from_failing() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, TABLE).await;
    show(&session, "UPDATE t SET x = 80 WHERE y <> 0 AND x / y > 6").await;
    assert_eq!(show(&session, "SELECT x FROM t WHERE id = 4").await, "80");
    show(&session, "DELETE FROM t WHERE y <> 0 AND x / y > 6").await;
    assert_eq!(show(&session, "SELECT id FROM t ORDER BY id").await, "1\n2\n3\n5");
    show(&session, "CREATE TABLE c (x INT, y INT, CHECK (y = 0 OR x / y > 1))").await;
    show(&session, "INSERT INTO c SELECT 4, i % 2 FROM generate_series(1, 100) g(i)").await;
    assert_eq!(show(&session, "SELECT count(*) FROM c").await, "100");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operands_that_cannot_fail_are_pushed_into_scans() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, TABLE).await;
    for condition in ["x < (SELECT max(x) FROM t)", "random() < 0.5", "s::int > 0", "x / id > 0"] {
        let explain = format!("EXPLAIN SELECT * FROM t WHERE {condition} AND x / y > 1 AND id = 4");
        let tree = show(&session, &explain).await;
        let pushed = tree.split_once("Pushed filter: ").map_or("", |(_, pushed)| pushed);
        let pushed = pushed.lines().next().unwrap_or_default();
        assert!(pushed.split(" AND ").any(|part| part.trim() == "id = 4"), "{tree}");
        assert!(tree.contains("CASE WHEN"), "{tree}");
    }
    let sums = "EXPLAIN SELECT * FROM t WHERE id + x > 3 AND x * 2 < y - 1 AND x / 2 > 1";
    let tree = show(&session, sums).await;
    assert!(!tree.contains("CASE"), "{tree}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_and_deep_chains_of_divisions_run() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, TABLE).await;
    let terms = |len: usize, op: &str, with: &str| {
        let term = |n| format!("x % (id + {n}) {op} {}", n + 2000);
        (1..=len).map(term).collect::<Vec<_>>().join(with)
    };
    let any = format!("SELECT count(*) FROM t WHERE {}", terms(1200, "=", " OR "));
    assert_eq!(show(&session, &any).await, "0");
    let all = format!("SELECT count(*) FROM t WHERE {}", terms(600, "<>", " AND "));
    assert_eq!(show(&session, &all).await, "5");
    let nested = (0..40).fold("x / id > 0".to_owned(), |inner, n| {
        format!("({inner}) {} x / (id + {n}) > 100", ["AND", "OR"][n % 2])
    });
    assert_eq!(show(&session, &format!("SELECT {nested} FROM t WHERE id = 1")).await, "false");
}

/// Of two bounds with one value, the one that excludes it decides, on whichever side it is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bounds_of_one_value_exclude_it() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let table = "CREATE TABLE one (n DOUBLE, i INT, d DECIMAL(5, 1), s TEXT, t TIMESTAMP);
        INSERT INTO one VALUES (4.0, 4, 4.0, 'x', '2024-01-01')";
    show(&session, table).await;
    for (column, value) in [
        ("n", "4.0"),
        ("i", "4"),
        ("d", "4.0"),
        ("s", "'x'"),
        ("t", "'2024-01-01'"),
        ("n", "4"),
        ("n", "(3 + 1.0)"),
        ("s", "lower('X')"),
        ("t", "(DATE '2023-12-31' + INTERVAL '1 day')"),
    ] {
        for (first, second) in [(">=", "<"), ("<=", ">")] {
            for condition in [
                format!("{column} {first} {value} AND {value} {second} {column}"),
                format!("{value} {second} {column} AND {column} {first} {value}"),
                format!("NOT ({value} {first} {column} OR {column} {second} {value})"),
            ] {
                let query = format!("SELECT count(*) FROM one WHERE {condition}");
                check(&session, &[(&query, "0")]).await;
            }
        }
    }
}
