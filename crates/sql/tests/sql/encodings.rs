//! Compact tables, compared with plain ones.

use crate::common::{MIB, engine, engine_in, error, show};
use terrace_sql::{Engine, Session};
use terrace_testkit::Rng;

/// Rows with columns of every encoded kind, and some that are not encoded.
const ROWS: &str = "SELECT value AS id, value % 7 AS few, CAST(value * 13 % 5000 AS INTEGER) AS n, \
     CASE WHEN value % 5 = 0 THEN NULL ELSE value / 100 END AS gap, \
     CAST(value % 900 AS DECIMAL(15, 2)) / 10 AS price, \
     CAST(CAST(8000 + value % 2000 AS INTEGER) AS DATE) AS day, \
     CAST(value AS DOUBLE) / 4 AS real, value % 3 = 0 AS flag, \
     'kind ' || (value % 11) AS kind, \
     CASE WHEN value % 9 = 0 THEN NULL ELSE 'the text of row ' || value END AS word, \
     [value, value % 4] AS list \
     FROM generate_series(1, 150000)";

async fn pair(engine: &Engine) -> Session {
    let session = engine.session().expect("session");
    show(&session, &format!("CREATE TABLE c WITH (encoding = 'compact') AS {ROWS}")).await;
    show(&session, &format!("CREATE TABLE p WITH (encoding = 'plain') AS {ROWS}")).await;
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_has_the_encoding_it_was_made_with() {
    let engine = engine(128 * MIB);
    let session = engine.session().expect("session");
    let series = "SELECT value % 10 AS a FROM generate_series(1, 10000)";
    show(&session, "CREATE TABLE d (a BIGINT)").await;
    show(&session, "CREATE TABLE c (a BIGINT) WITH (encoding = 'compact')").await;
    show(&session, "CREATE TABLE p (a BIGINT) WITH (ENCODING = plain)").await;
    show(&session, &format!("CREATE TABLE q WITH (encoding = 'plain') AS {series}")).await;
    for table in ["d", "c", "p", "q"] {
        show(&session, &format!("INSERT INTO {table} {series}")).await;
    }
    let encodings = "SELECT table_name, encoding, count(*) FROM terrace.segments \
                     GROUP BY 1, 2 ORDER BY 1, 2";
    assert_eq!(show(&session, encodings).await, "c compact 1\nd compact 1\np plain 1\nq plain 2");
    // Incompressible data is plain in a compact table, too.
    let random = "SELECT random() AS a FROM generate_series(1, 10000)";
    show(&session, &format!("CREATE TABLE r WITH (encoding = 'compact') AS {random}")).await;
    let of_r = "SELECT DISTINCT encoding FROM terrace.segments WHERE table_name = 'r'";
    assert_eq!(show(&session, of_r).await, "plain");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_options_are_refused_with_what_there_is() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    for (options, expected) in [
        ("encoding = 'zip'", "name one of 'plain', 'compact'"),
        ("encoding = 3", "name one of 'plain', 'compact'"),
        ("fill = 90", "the only one is encoding, one of 'plain', 'compact'"),
    ] {
        let text = error(&session, &format!("CREATE TABLE t (a INT) WITH ({options})")).await;
        assert!(text.contains(expected), "{options}: {text}");
    }
    assert!(engine.catalog().table("public", "t").is_none());
}

/// A random condition.
fn condition(rng: &mut Rng) -> String {
    let number = rng.below(150_000);
    match rng.index(14) {
        0 => format!("id < {number}"),
        1 => format!("id BETWEEN {number} AND {}", number + rng.below(2000)),
        2 => format!("few IN ({}, {})", rng.below(8), rng.below(8)),
        3 => format!("n >= {}", rng.below(5500)),
        4 => format!("gap = {}", rng.below(1500)),
        5 => "gap IS NULL".to_owned(),
        6 => format!("price > {}.5", rng.below(95)),
        7 => format!("day < DATE '1991-12-{:02}'", 1 + rng.below(28)),
        8 => format!("real < {number}"),
        9 => "flag".to_owned(),
        10 => format!("kind = 'kind {}'", rng.below(12)),
        11 => format!("kind LIKE '%{}'", rng.below(10)),
        12 => format!("word LIKE '%{}%'", rng.below(1000)),
        _ => format!("coalesce(gap, id) % 3 = {} OR word IS NULL", rng.below(3)),
    }
}

fn query(rng: &mut Rng, table: &str) -> String {
    let columns = ["few", "n", "gap", "price", "day", "real", "flag", "kind", "word", "list"];
    let mut wanted: Vec<&str> = columns.into_iter().filter(|_| rng.index(3) == 0).collect();
    wanted.push("id");
    let conditions: Vec<String> = (0..1 + rng.index(3)).map(|_| condition(rng)).collect();
    let conditions = conditions.join(if rng.index(4) == 0 { " OR " } else { " AND " });
    let limit = 1 + rng.below(300);
    format!(
        "SELECT {} FROM {table} WHERE {conditions} ORDER BY {}id LIMIT {limit}",
        wanted.join(", "),
        if rng.index(2) == 0 { "n, " } else { "" },
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compact_tables_answer_as_plain_ones_do() {
    let engine = engine(512 * MIB);
    let session = pair(&engine).await;
    for seed in 0..120 {
        let compact = show(&session, &query(&mut Rng::new(seed), "c")).await;
        let text = query(&mut Rng::new(seed), "p");
        assert_eq!(compact, show(&session, &text).await, "seed {seed}: {text}");
        let mut rng = Rng::new(seed);
        let condition = condition(&mut rng);
        let sums = |table| {
            format!(
                "SELECT count(*), sum(id), sum(price), min(word), max(kind), count(gap), \
                 sum(list[2]) FROM {table} WHERE {condition}"
            )
        };
        let compact = show(&session, &sums("c")).await;
        assert_eq!(compact, show(&session, &sums("p")).await, "seed {seed}: {condition}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_compact_tables_are_changed_as_those_of_plain_ones() {
    let engine = engine(256 * MIB);
    let session = pair(&engine).await;
    for table in ["c", "p"] {
        show(&session, &format!("DELETE FROM {table} WHERE kind = 'kind 3' OR id < 7000")).await;
        show(&session, &format!("UPDATE {table} SET word = 'new', n = -1 WHERE n % 50 = 0")).await;
        show(&session, &format!("INSERT INTO {table} SELECT * FROM {table} WHERE few = 2")).await;
    }
    let all = "(SELECT * FROM c EXCEPT ALL SELECT * FROM p) UNION ALL \
               (SELECT * FROM p EXCEPT ALL SELECT * FROM c)";
    assert_eq!(show(&session, &format!("SELECT count(*) FROM ({all})")).await, "0");
    assert_ne!(show(&session, "SELECT count(*) FROM c").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compact_tables_are_read_in_little_memory_and_after_a_restart() {
    let directory = tempfile::tempdir().expect("directory");
    let sums = |table| {
        format!("SELECT count(*), sum(id), sum(gap), count(DISTINCT word), max(price) FROM {table}")
    };
    let engine = engine_in(directory.path(), 256 * MIB);
    let session = pair(&engine).await;
    let expected = show(&session, &sums("p")).await;
    assert_eq!(show(&session, &sums("c")).await, expected);
    drop(session);
    engine.close().expect("closes");
    let engine = engine_in(directory.path(), 32 * MIB);
    let session = engine.session().expect("session");
    assert_eq!(show(&session, &sums("c")).await, expected);
    let sorted = |table| {
        format!(
            "SELECT sum(place) FROM (SELECT id, row_number() OVER (ORDER BY word, id) AS place \
             FROM {table}) AS t WHERE id % 100 = 1"
        )
    };
    assert_eq!(show(&session, &sorted("c")).await, show(&session, &sorted("p")).await);
}

/// Joins whose build side has few keys: the scan of the probe side filters rows by them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_answer_the_same_where_scans_leave_rows_out_by_their_keys() {
    let engine = engine(512 * MIB);
    let session = pair(&engine).await;
    let stock = engine.session().expect("session");
    for switch in ["paged_hash_join", "paged_repartition"] {
        show(&stock, &format!("SET terrace.{switch} = false")).await;
    }
    show(&stock, "SET datafusion.optimizer.enable_dynamic_filter_pushdown = false").await;
    let keys = ["id", "n", "gap", "word", "price", "day", "real", "kind"];
    let kinds =
        ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "RIGHT ANTI JOIN"];
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut on: Vec<_> = (0..1 + rng.index(2)).map(|_| keys[rng.index(keys.len())]).collect();
        on.dedup();
        let kind = kinds[rng.index(kinds.len())];
        let side = if kind.starts_with("RIGHT A") { "b" } else { "a" };
        let few = [5, 300, 2000][rng.index(3)];
        let on = on.iter().map(|key| format!("a.{key} = b.{key}")).collect::<Vec<_>>();
        let text = |table: &str| {
            format!(
                "SELECT count(*), sum({side}.id), min({side}.word), sum({side}.n) \
                 FROM (SELECT * FROM {table} WHERE id % {few} = 3 AND id > 40) AS a \
                 {kind} (SELECT * FROM {table} WHERE id % 3 < 2 AND id % 11 = 1) AS b \
                 ON {} AND a.few = b.few",
                on.join(" AND ")
            )
        };
        let expected = show(&stock, &text("p")).await;
        for table in ["c", "p"] {
            let text = text(table);
            assert_eq!(show(&session, &text).await, expected, "seed {seed}: {text}");
        }
    }
}
