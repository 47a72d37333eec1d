//! MERGE INTO. Changes and the rows after them are those of PostgreSQL 15, those of WHEN NOT
//! MATCHED BY SOURCE of DuckDB 2.0; RETURNING follows the manual of PostgreSQL 17.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, engine_in, error, show};

const DRAM: u64 = 64 * MIB;

const STOCK: &str = "
    CREATE TABLE stock (item INT NOT NULL, qty INT DEFAULT 7, note TEXT DEFAULT 'new',
                        CHECK (qty >= 0));
    INSERT INTO stock VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, NULL);
    CREATE TABLE delivery (item INT, qty INT, note TEXT);
    INSERT INTO delivery VALUES (1, 5, 'x'), (4, 40, 'y'), (5, NULL, NULL), (3, -30, 'z')";

/// Changes of the table in order, their number, and the rows after each; no rows for a statement
/// that is refused.
const CHANGES: [(&str, &str, &str); 10] = [
    (
        "MERGE INTO stock t USING delivery d ON t.item = d.item \
     WHEN MATCHED AND t.qty + d.qty = 0 THEN DELETE \
     WHEN MATCHED THEN UPDATE SET qty = t.qty + d.qty, note = d.note \
     WHEN NOT MATCHED AND d.qty IS NULL THEN DO NOTHING \
     WHEN NOT MATCHED THEN INSERT (item, qty) VALUES (d.item, d.qty)",
        "3",
        "1 15 x;2 20 b;4 40 new",
    ),
    (
        "MERGE INTO stock USING (VALUES (1), (9)) AS s (k) ON item = k \
     WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT VALUES (k, DEFAULT)",
        "1",
        "1 15 x;2 20 b;4 40 new;9 7 new",
    ),
    (
        "MERGE INTO public.stock AS t USING delivery ON t.item = delivery.item + 1 \
     WHEN MATCHED AND note IS NULL THEN DO NOTHING \
     WHEN MATCHED THEN UPDATE SET qty = DEFAULT, note = NULL",
        "0",
        "",
    ),
    (
        "MERGE INTO stock t USING (VALUES (1, 0), (1, 5), (7, 1)) AS s (k, n) ON t.item = s.k \
     WHEN MATCHED AND n > 0 THEN UPDATE SET qty = t.qty + n",
        "1",
        "1 20 x;2 20 b;4 40 new;9 7 new",
    ),
    (
        "MERGE INTO stock t USING delivery ON t.item = delivery.item AND t.qty = 40 \
     WHEN NOT MATCHED AND item <> 3 THEN INSERT (qty, item) VALUES (qty * 2, item)",
        "2",
        "1 10 new;1 20 x;2 20 b;4 40 new;5 - new;9 7 new",
    ),
    (
        "MERGE INTO stock USING (SELECT item, count(*) AS n, max(qty) AS q FROM stock \
     GROUP BY item HAVING count(*) > 1) AS s ON stock.item = s.item AND stock.qty < q \
     WHEN MATCHED THEN DELETE",
        "1",
        "1 20 x;2 20 b;4 40 new;5 - new;9 7 new",
    ),
    (
        "MERGE INTO stock t USING delivery d ON t.item = d.item \
     WHEN MATCHED AND d.qty > (SELECT avg(qty) FROM delivery) THEN UPDATE SET note = 'big' \
     WHEN MATCHED THEN DELETE",
        "3",
        "2 20 b;4 40 big;9 7 new",
    ),
    (
        "MERGE INTO stock USING (SELECT 1) AS one ON false \
     WHEN NOT MATCHED THEN INSERT (item, note) VALUES (10, DEFAULT)",
        "1",
        "2 20 b;4 40 big;9 7 new;10 7 new",
    ),
    (
        "MERGE INTO stock USING delivery d ON false WHEN MATCHED THEN DELETE",
        "0",
        "2 20 b;4 40 big;9 7 new;10 7 new",
    ),
    (
        "MERGE INTO stock t USING stock s ON t.item = s.item WHEN MATCHED THEN UPDATE SET \
     item = s.item + 1, qty = s.item",
        "4",
        "3 2 b;5 4 big;10 9 new;11 10 new",
    ),
];

/// Rows of the table, with a semicolon between them.
async fn stock(session: &Session) -> String {
    let rows = "SELECT item, qty, coalesce(note, '-') FROM stock ORDER BY item, qty";
    show(session, rows).await.replace('\n', ";")
}

async fn sorted(session: &Session, text: &str) -> String {
    let shown = show(session, text).await;
    let mut lines: Vec<_> = shown.lines().collect();
    lines.sort_unstable();
    lines.join(";")
}

#[tokio::test]
async fn clauses_apply_in_their_order() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, STOCK).await;
    for (merge, count, rows) in CHANGES {
        if rows.is_empty() {
            assert!(error(&session, merge).await.contains("mbiguous"), "{merge}");
            continue;
        }
        assert_eq!(show(&session, merge).await, count, "{merge}");
        assert_eq!(stock(&session).await.replace("5  new", "5 - new"), rows, "{merge}");
    }
}

#[tokio::test]
async fn rows_without_a_source_change_too() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, STOCK).await;
    for (merge, count, rows) in [
        (
            "MERGE INTO stock t USING delivery d ON t.item = d.item \
             WHEN NOT MATCHED BY SOURCE AND qty = 20 THEN UPDATE SET note = note || '!' \
             WHEN NOT MATCHED BY TARGET THEN INSERT VALUES (d.item, 1, 'in') \
             WHEN MATCHED AND t.item = 3 THEN DELETE",
            "4",
            "1 10 a;2 20 b!;4 1 in;5 1 in",
        ),
        (
            "MERGE INTO stock t USING delivery d ON t.item = d.item \
             WHEN NOT MATCHED BY SOURCE THEN DELETE",
            "1",
            "1 10 a;4 1 in;5 1 in",
        ),
        (
            "MERGE INTO stock t USING (SELECT * FROM delivery WHERE false) d ON t.item = d.item \
             WHEN NOT MATCHED BY SOURCE AND item > 4 THEN DO NOTHING \
             WHEN NOT MATCHED BY SOURCE THEN DELETE",
            "2",
            "5 1 in",
        ),
    ] {
        assert_eq!(show(&session, merge).await, count, "{merge}");
        assert_eq!(stock(&session).await, rows, "{merge}");
    }
}

#[tokio::test]
async fn faulty_statements_change_nothing() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, STOCK).await;
    show(&session, "CREATE VIEW v AS SELECT item FROM stock").await;
    let on = "MERGE INTO stock t USING delivery d ON t.item = d.item";
    for (clauses, cause) in [
        ("WHEN MATCHED THEN UPDATE SET qty = -1", "violates check constraint"),
        ("WHEN NOT MATCHED THEN INSERT (qty) VALUES (1)", "NOT NULL"),
        ("WHEN NOT MATCHED THEN INSERT DEFAULT VALUES", "NOT NULL"),
        ("WHEN MATCHED THEN DELETE WHEN MATCHED THEN DO NOTHING", "unreachable WHEN clause"),
        ("WHEN NOT MATCHED THEN INSERT (item) VALUES (t.item)", "stock.item in WHEN NOT MATCHED"),
        ("WHEN NOT MATCHED BY SOURCE THEN UPDATE SET qty = d.qty", "d.qty"),
        ("WHEN MATCHED THEN UPDATE SET nothing = 1", "nothing"),
        ("WHEN MATCHED THEN UPDATE SET qty = 1, qty = 2", "qty"),
        ("WHEN NOT MATCHED THEN INSERT (item) VALUES (1, 2)", "1 column(s) but 2 value(s)"),
        ("WHEN MATCHED THEN UPDATE SET qty = 'many'", "many"),
        ("", "at least one WHEN clause"),
    ] {
        let text = error(&session, &format!("{on} {clauses}")).await;
        assert!(text.contains(cause), "{clauses}: {text}");
    }
    let twice = "MERGE INTO stock t USING (VALUES (1), (1)) AS s (k) ON t.item = s.k WHEN MATCHED ";
    for action in ["THEN DELETE", "THEN UPDATE SET qty = 0"] {
        let text = error(&session, &format!("{twice}{action}")).await;
        assert!(text.contains("cannot affect row a second time"), "{text}");
    }
    let view = error(
        &session,
        "MERGE INTO v USING delivery d ON v.item = d.item WHEN MATCHED THEN DELETE",
    );
    assert!(view.await.contains('v'));
    assert_eq!(stock(&session).await, "1 10 a;2 20 b;3 30 -");
}

#[tokio::test]
async fn rows_and_actions_are_returned() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, STOCK).await;
    let merge = "MERGE INTO stock t USING delivery d ON t.item = d.item \
                 WHEN MATCHED AND d.qty < 0 THEN DELETE \
                 WHEN MATCHED THEN UPDATE SET qty = t.qty + d.qty \
                 WHEN NOT MATCHED AND d.qty IS NOT NULL THEN INSERT VALUES (d.item, d.qty, 'in') \
                 RETURNING merge_action(), t.*, d.note, t.qty * 2 AS twice";
    assert_eq!(
        sorted(&session, merge).await,
        "DELETE 3 30  z 60;INSERT 4 40 in y 80;UPDATE 1 15 a x 30"
    );
    let star = "MERGE INTO stock t USING (SELECT 2 AS k, 'k' AS s) q ON t.item = k \
                WHEN MATCHED THEN UPDATE SET note = s RETURNING *";
    assert_eq!(show(&session, star).await, "2 k 2 20 k");
    let none = "MERGE INTO stock t USING delivery d ON false WHEN MATCHED THEN DELETE RETURNING 1";
    assert_eq!(show(&session, none).await, "");
    let outside = error(&session, "DELETE FROM stock RETURNING merge_action()").await;
    assert!(outside.contains("merge_action"), "{outside}");
    assert_eq!(stock(&session).await, "1 15 a;2 20 k;4 40 in");
}

#[tokio::test]
async fn parameters_stand_in_the_source_and_in_clauses() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, STOCK).await;
    show(
        &session,
        "PREPARE put (INT, INT) AS MERGE INTO stock t USING (SELECT $1 AS k, $2 AS n) s \
         ON t.item = s.k WHEN MATCHED THEN UPDATE SET qty = t.qty + n \
         WHEN NOT MATCHED THEN INSERT (item, qty) VALUES (k, n) RETURNING merge_action(), t.qty",
    )
    .await;
    assert_eq!(show(&session, "EXECUTE put(1, 5)").await, "UPDATE 15");
    assert_eq!(show(&session, "EXECUTE put(8, 5)").await, "INSERT 5");
    assert_eq!(show(&session, "EXECUTE put(8, 6)").await, "UPDATE 11");
    assert_eq!(stock(&session).await, "1 15 a;2 20 b;3 30 -;8 11 new");
}

#[tokio::test]
async fn a_merge_is_part_of_its_transaction() {
    let engine = engine(DRAM);
    let (session, other) = (engine.session().expect("one"), engine.session().expect("two"));
    show(&session, STOCK).await;
    let merge = "MERGE INTO stock t USING delivery d ON t.item = d.item WHEN MATCHED THEN DELETE \
                 WHEN NOT MATCHED AND qty > 0 THEN INSERT VALUES (d.item, d.qty, 'in')";
    show(&session, &format!("BEGIN; INSERT INTO delivery VALUES (2, 1, 'q'); {merge}")).await;
    assert_eq!(stock(&session).await, "4 40 in");
    assert_eq!(stock(&other).await, "1 10 a;2 20 b;3 30 -");
    show(&session, "ROLLBACK").await;
    assert_eq!(stock(&session).await, "1 10 a;2 20 b;3 30 -");
    show(&session, &format!("BEGIN; {merge}; COMMIT")).await;
    assert_eq!(stock(&other).await, "2 20 b;4 40 in");
    let refused = error(&session, &format!("BEGIN READ ONLY; {merge}")).await;
    assert!(refused.contains("READ ONLY"), "{refused}");
    show(&session, "ROLLBACK").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_merges_insert_a_row_once() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE counts (k INT, n BIGINT)").await;
    let runs = (0..8).map(|_| {
        let session = engine.session().expect("session");
        tokio::spawn(async move {
            for _ in 0..5 {
                show(
                    &session,
                    "MERGE INTO counts c USING generate_series(1, 3) AS s (v) ON c.k = s.v \
                     WHEN MATCHED THEN UPDATE SET n = n + 1 \
                     WHEN NOT MATCHED THEN INSERT VALUES (s.v, 1)",
                )
                .await;
            }
        })
    });
    for run in runs.collect::<Vec<_>>() {
        run.await.expect("merged");
    }
    check(&session, &[("SELECT k, n FROM counts ORDER BY k", "1 40\n2 40\n3 40")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_rows_are_merged_within_the_budget() {
    let directory = tempfile::tempdir().expect("a directory");
    {
        let engine = engine_in(directory.path(), DRAM);
        let session = engine.session().expect("session");
        show(
            &session,
            "CREATE TABLE big AS SELECT value AS k, 'text number ' || value AS t \
             FROM generate_series(1, 300000)",
        )
        .await;
        let merge = "MERGE INTO big USING (SELECT value * 2 AS k \
                     FROM generate_series(1, 200000)) s ON big.k = s.k \
                     WHEN MATCHED AND s.k % 4 = 0 THEN DELETE \
                     WHEN MATCHED THEN UPDATE SET t = 'two' \
                     WHEN NOT MATCHED THEN INSERT VALUES (s.k, 'new')";
        assert_eq!(show(&session, merge).await, "200000");
    }
    let engine = engine_in(directory.path(), DRAM);
    let session = engine.session().expect("session");
    let counts = "SELECT CASE WHEN t LIKE 'text%' THEN 'old' ELSE t END AS o, count(*), sum(k) \
                  FROM big GROUP BY 1 ORDER BY 1";
    // The counts and sums are those of DuckDB 2.0.
    check(
        &session,
        &[(counts, "new 50000 17500050000\nold 150000 22500000000\ntwo 75000 11250000000")],
    )
    .await;
}

#[tokio::test]
async fn each_action_takes_its_privilege() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, STOCK).await;
    show(&session, "CREATE ROLE chief SUPERUSER LOGIN PASSWORD 'p'; CREATE ROLE ada").await;
    show(&session, "GRANT SELECT ON delivery TO ada; GRANT SELECT, INSERT ON stock TO ada").await;
    show(&session, "SET ROLE ada").await;
    let on = "MERGE INTO stock t USING delivery d ON t.item = d.item ";
    for (clause, lacking) in
        [("WHEN MATCHED THEN DELETE", "DELETE"), ("WHEN MATCHED THEN UPDATE SET qty = 1", "UPDATE")]
    {
        let text = error(&session, &format!("{on}{clause}")).await;
        assert!(text.contains(&format!("lacks {lacking}")), "{text}");
    }
    let insert = format!("{on}WHEN NOT MATCHED AND d.item = 4 THEN INSERT VALUES (d.item)");
    assert_eq!(show(&session, &insert).await, "1");
    show(&session, "RESET ROLE; REVOKE SELECT ON stock FROM ada; SET ROLE ada").await;
    assert!(error(&session, &insert).await.contains("lacks SELECT"));
}
