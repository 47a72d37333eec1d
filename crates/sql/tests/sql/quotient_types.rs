//! Quotients of decimals under expressions whose types depend on theirs. The answers are those of
//! PostgreSQL 15.

use crate::common::{MIB, check, engine, show};

const CASES: &[(&str, &str)] = &[
    ("SELECT count(*) FROM q WHERE CASE WHEN b > 0 THEN a / b END > 0.1", "2"),
    (
        "SELECT a FROM q WHERE CASE WHEN b > 0 THEN a / b ELSE NULL END >= 2.0 / 3.0 ORDER BY a",
        "4.00",
    ),
    (
        "SELECT a FROM (SELECT a, b, avg(a) OVER () AS v FROM q) s \
         WHERE CASE WHEN v <> 0 THEN abs(a - v) / v END > 0.1 ORDER BY a",
        "1.00\n4.00",
    ),
    (
        "SELECT round(CASE WHEN b > 0 THEN a / b ELSE 0.5 END, 4) FROM q ORDER BY a",
        "0.3333\n0.5000\n1.3333\n",
    ),
    (
        "SELECT round(x, 6) FROM (SELECT a / b AS x FROM q WHERE b > 0 UNION ALL SELECT 0.25) s \
         ORDER BY x",
        "0.250000\n0.333333\n1.333333\n",
    ),
    (
        "SELECT round(coalesce(a / nullif(b, 0), 9), 5) FROM q ORDER BY 1",
        "0.33333\n1.33333\n9.00000\n9.00000",
    ),
    ("SELECT a FROM q WHERE a / nullif(b, 0) BETWEEN 0.3 AND 1.34 ORDER BY a", "1.00\n4.00"),
    ("SELECT a FROM q WHERE a / nullif(b, 0) IN (0.3, 1.0 / 3) ORDER BY a", "1.00"),
    ("SELECT x.a, y.a FROM q x JOIN q y ON x.a / 4 = y.a ORDER BY 1", "4.00 1.00"),
    (
        "SELECT round(avg(a / nullif(b, 0)), 6), round(sum(a / 3), 6), round(max(n / 3.0), 6) \
         FROM q",
        "0.833333 2.500000 2.333333",
    ),
    ("SELECT a FROM q WHERE a / 3 > (SELECT avg(a) / 3 FROM q) ORDER BY a", "4.00"),
    (
        "SELECT round(x / y, 8) FROM (SELECT CAST(count(*) AS decimal(15,4)) AS x FROM q) c, \
         (SELECT CAST(count(a) AS decimal(15,4)) AS y FROM q) d",
        "1.33333333",
    ),
    ("SELECT round(greatest(a / 3, 0.5), 4) FROM q ORDER BY 1", "0.5000\n0.5000\n0.8333\n1.3333"),
    ("SELECT a / 2 = 0.5, a / 3 < b / 9 FROM q WHERE n = 7", "true false"),
    (
        "WITH r AS (SELECT a / 3 AS x FROM q) SELECT count(*) FROM r WHERE x > 0.5 OR x = 1.0 / 3",
        "3",
    ),
];

#[tokio::test]
async fn quotients_have_their_types_before_others_depend_on_them() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE q (a DECIMAL(7,2), b DECIMAL(7,2), n BIGINT)").await;
    show(&session, "INSERT INTO q VALUES (1, 3, 7), (2.5, 0, 2), (4, 3, 4), (NULL, 5, 1)").await;
    check(&session, CASES).await;
    // The types of parameters are not known while the text is planned.
    show(
        &session,
        "PREPARE p AS SELECT count(*) FROM q WHERE CASE WHEN n > 0 THEN a / $1 END > 0.5",
    )
    .await;
    assert_eq!(show(&session, "EXECUTE p(3)").await, "2");
    let text = "SELECT round(CASE WHEN n > 1 THEN a / $1 ELSE 0.5 END, 3) FROM q ORDER BY 1";
    show(&session, &format!("PREPARE r AS {text}")).await;
    assert_eq!(show(&session, "EXECUTE r(3.0)").await, "0.333\n0.500\n0.833\n1.333");
}
