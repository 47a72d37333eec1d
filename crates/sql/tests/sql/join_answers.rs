//! Answers of joins that DataFusion gets wrong.

use crate::common::{MIB, check, engine, show};

const DRAM: u64 = 64 * MIB;

/// A key of a join may take columns of several tables together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_several_tables_are_kept() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let make = "CREATE TABLE a AS SELECT * FROM (VALUES (1), (2)) v(x);
                CREATE TABLE b AS SELECT * FROM (VALUES (10), (20)) v(y);
                CREATE TABLE c AS SELECT * FROM (VALUES (11, 1), (22, 2), (33, 3)) v(z, w);
                CREATE TABLE d AS SELECT * FROM (VALUES (1, 12), (2, 24)) v(x, s)";
    show(&session, make).await;
    let both = "1 10 11\n2 20 22";
    let cases = [
        ("a CROSS JOIN b JOIN c ON a.x + b.y = c.z AND a.x = c.w", both),
        ("a JOIN b ON true JOIN c ON c.z = a.x + b.y AND c.w = a.x", both),
        ("a, b, c WHERE a.x + b.y = c.z AND a.x = c.w", both),
        ("a CROSS JOIN b JOIN c ON a.x + b.y = c.z", both),
        ("c JOIN (a CROSS JOIN b) ON a.x + b.y = c.z AND a.x = c.w", both),
        (
            "a JOIN d ON d.x = a.x JOIN b ON true JOIN c ON a.x + b.y = c.z AND d.s = c.z + c.w",
            both,
        ),
        (
            "a JOIN b ON true JOIN c ON a.x + b.y = c.z JOIN d ON a.x + c.z = d.s AND d.x = c.w",
            both,
        ),
        ("a JOIN b ON true JOIN c ON a.x + b.y IS NOT DISTINCT FROM c.z AND a.x = c.w", both),
        ("a JOIN b ON true LEFT JOIN c ON a.x + b.y = c.z AND a.x = c.w WHERE c.z > 20", "2 20 22"),
    ];
    for (from, answer) in cases {
        let query = format!("SELECT a.x, b.y, c.z FROM {from} ORDER BY 1, 2");
        check(&session, &[(query.as_str(), answer)]).await;
    }
}

/// A key of a join may turn out to be a constant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_constants_are_kept() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let make = "CREATE TABLE u (b BOOLEAN, x REAL);
                INSERT INTO u VALUES (NULL, 2.25), (true, 1), (false, 1)";
    show(&session, make).await;
    let of = |condition: &str| {
        format!("SELECT count(*) FROM u l JOIN u m ON true JOIN u r ON (l.b = ({condition}))")
    };
    let cases = [
        (of("r.x IN (CAST(NULL AS DOUBLE))"), "0"),
        (of("r.x = CAST(NULL AS DOUBLE) AND r.x IS NULL"), "9"),
        (of("r.x = CAST(NULL AS DOUBLE) AND r.x IS NOT NULL"), "0"),
        (of("r.x IS NULL OR true"), "9"),
        (of("r.x IS NULL AND false"), "9"),
        (of("r.b IS NOT DISTINCT FROM r.b"), "9"),
    ];
    for (query, answer) in &cases {
        check(&session, &[(query.as_str(), *answer)]).await;
    }
    let distinct = "SELECT count(*) FROM u l JOIN u r ON l.b IS NOT DISTINCT FROM \
                    (r.x IN (CAST(NULL AS DOUBLE)))";
    check(&session, &[(distinct, "3")]).await;
}
