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
