//! Columns that ALTER TABLE adds with the same value in all rows: nothing is written but the
//! catalog, and the rows are as if they had always had the value.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, engine_in, error, show};

const DRAM: u64 = 64 * MIB;
const ROWS: &str = "200000";

/// A table of several chunks.
async fn made(session: &Session, encoding: &str) {
    let text = format!(
        "CREATE TABLE t WITH (encoding = '{encoding}') AS
         SELECT value AS a, md5(value::VARCHAR) AS b
         FROM generate_series(1, {ROWS}) AS g(value)"
    );
    show(session, &text).await;
}

/// Columns of segments that the catalog has, and bytes of all segments on the store.
async fn stored(session: &Session) -> (String, String) {
    let constants = "SELECT DISTINCT column_name FROM terrace.segments
        WHERE table_name = 't' AND encoding = 'constant' AND store_bytes = 0 AND tier = 'catalog'
        ORDER BY 1";
    let bytes = "SELECT sum(store_bytes) FROM terrace.segments WHERE table_name = 't'";
    (show(session, constants).await, show(session, bytes).await)
}

async fn check_added(session: &Session) {
    check(
        session,
        &[
            ("SELECT count(*), count(k), sum(k), count(n) FROM t", "200000 200000 1400000 0"),
            ("SELECT DISTINCT k, n, s, l FROM t", "7  it's red [1, 2]"),
            (
                "SELECT a, k, s FROM t WHERE a IN (1, 70000, 200000) ORDER BY a",
                "1 7 it's red\n70000 7 it's red\n200000 7 it's red",
            ),
            ("SELECT count(*) FROM t WHERE k = 7 AND a % 2 = 0", "100000"),
            ("SELECT count(*) FROM t WHERE k = 8", "0"),
            ("SELECT count(*) FROM t WHERE n IS NULL AND s LIKE '%red'", "200000"),
            ("SELECT count(*) FROM t WHERE n = 'x'", "0"),
            ("SELECT min(k), max(s), min(n) FROM t", "7 it's red "),
            ("SELECT count(*) FROM t JOIN (VALUES (7)) v(x) ON k = x WHERE a < 100", "99"),
        ],
    )
    .await;
}

const ADD: &str = "ALTER TABLE t ADD COLUMN k INT DEFAULT 7 NOT NULL, ADD COLUMN n TEXT,
    ADD COLUMN s TEXT DEFAULT 'it''s red', ADD COLUMN l INT[] DEFAULT [1, 2],
    ADD COLUMN at TIMESTAMP DEFAULT now()";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn added_values_are_written_nowhere() {
    for encoding in ["plain", "compact"] {
        let engine = engine(DRAM);
        let session = engine.session().expect("session");
        made(&session, encoding).await;
        let (_, before) = stored(&session).await;
        show(&session, ADD).await;
        assert_eq!(stored(&session).await, ("at\nk\nl\nn\ns".to_owned(), before), "{encoding}");
        check_added(&session).await;
        // Plans know that no chunk has the value.
        let plan = show(&session, "EXPLAIN ANALYZE SELECT count(*) FROM t WHERE k = 8").await;
        let scanned = plan.split("chunks_scanned=").nth(1);
        assert!(scanned.is_none_or(|it| it.starts_with('0')), "{plan}");
        let text = error(&session, "ALTER TABLE t ADD COLUMN x INT NOT NULL").await;
        assert!(text.contains("NOT NULL"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_with_added_values_change_like_others() {
    for encoding in ["plain", "compact"] {
        let engine = engine(DRAM);
        let session = engine.session().expect("session");
        made(&session, encoding).await;
        show(&session, ADD).await;
        show(
            &session,
            "UPDATE t SET k = 8, n = 'x' WHERE a <= 10; DELETE FROM t WHERE a > 199990;
             INSERT INTO t (a, s) VALUES (0, 'blue')",
        )
        .await;
        let sums = "SELECT count(*), sum(k), count(n), count(DISTINCT s) FROM t";
        check(&session, &[(sums, "199991 1399947 10 2")]).await;
        // Values of each row, in the blocks of the others, though no stored column is read.
        show(&session, "CREATE SEQUENCE q; ALTER TABLE t ADD COLUMN v BIGINT DEFAULT nextval('q')")
            .await;
        show(&session, "ALTER TABLE t DROP COLUMN b").await;
        let values = "SELECT count(DISTINCT v), max(v), min(a), count(k), sum(k) FROM t";
        check(&session, &[(values, "199991 199991 0 199991 1399947")]).await;
        show(&session, "ALTER TABLE t ALTER k TYPE BIGINT USING k * 2; VACUUM t").await;
        check(&session, &[("SELECT sum(k), count(s), count(l) FROM t", "2799894 199991 199991")])
            .await;
        show(&session, "ALTER TABLE t DROP COLUMN k, DROP COLUMN v, DROP COLUMN a").await;
        check(&session, &[("SELECT count(*), count(n), count(s) FROM t", "199991 10 199991")])
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_added_values_alone_has_its_rows() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    made(&session, "compact").await;
    show(&session, "ALTER TABLE t ADD COLUMN k INT DEFAULT 7; ALTER TABLE t DROP a, DROP b").await;
    check(&session, &[("SELECT count(*), sum(k) FROM t WHERE k > 0", "200000 1400000")]).await;
    show(&session, "CREATE SEQUENCE q; ALTER TABLE t ADD COLUMN v BIGINT DEFAULT nextval('q')")
        .await;
    let both = "SELECT count(DISTINCT v), sum(k) FROM t WHERE v % 2 = 0";
    check(&session, &[(both, "100000 700000")]).await;
    show(&session, "INSERT INTO t VALUES (1, 0); DELETE FROM t WHERE k = 7").await;
    check(&session, &[("SELECT * FROM t", "1 0")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn added_values_are_of_their_transaction_and_last() {
    let directory = tempfile::tempdir().expect("directory");
    {
        let engine = engine_in(directory.path(), DRAM);
        let session = engine.session().expect("session");
        made(&session, "compact").await;
        show(&session, &format!("BEGIN; {ADD}")).await;
        check_added(&session).await;
        show(&session, "ROLLBACK").await;
        let text = error(&session, "SELECT k FROM t").await;
        assert!(text.contains('k'), "{text}");
        let other = engine.session().expect("session");
        show(&session, &format!("BEGIN; {ADD}; COMMIT")).await;
        check_added(&other).await;
    }
    let engine = engine_in(directory.path(), DRAM);
    let session = engine.session().expect("session");
    check_added(&session).await;
    assert_eq!(stored(&session).await.0, "at\nk\nl\nn\ns");
    show(&session, "ALTER TABLE t DROP COLUMN s, DROP COLUMN a").await;
    drop(session);
    drop(engine);
    let engine = engine_in(directory.path(), DRAM);
    let session = engine.session().expect("session");
    check(&session, &[("SELECT count(*), sum(k), count(b) FROM t", "200000 1400000 200000")]).await;
}
