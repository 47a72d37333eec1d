//! Files of S3 and HTTP servers as tables.

#[path = "../../../cloud/tests/cloud/server.rs"]
#[allow(dead_code, reason = "the tests of the client use the rest")]
pub mod server;

use std::fs;

use server::Server;

use crate::common::{check, error, show};
use crate::file_functions::Home;

/// A session with a secret for the server.
async fn home(server: &Server) -> Home {
    let home = Home::new();
    let endpoint = server.endpoint();
    let secret = format!("CREATE SECRET s (TYPE s3, ENDPOINT '{endpoint}', USE_SSL false)");
    show(&home.session, &secret).await;
    home
}

/// Writes the result of a query as a file of the server.
async fn upload(home: &Home, server: &Server, name: &str, query: &str) {
    let local = home.path(name.rsplit('/').next().expect("a name"));
    show(&home.session, &format!("COPY ({query}) TO '{}'", local.display())).await;
    server.put(name, fs::read(local).expect("a file"));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_s3_are_tables() {
    let server = Server::start();
    let home = home(&server).await;
    let rows = "SELECT value AS k, value % 7 AS d FROM generate_series(1, 200000)";
    upload(&home, &server, "lake/t/year=2023/a.parquet", rows).await;
    upload(&home, &server, "lake/t/year=2024/b.parquet", "SELECT 7 AS k, 8 AS d").await;
    upload(&home, &server, "lake/c/x.csv.gz", "SELECT 1 AS id, 'ann' AS name").await;
    upload(&home, &server, "lake/c/y.csv.gz", "SELECT 2 AS id, NULL AS name").await;
    server.put("lake/o.ndjson", "{\"id\": 2, \"o\": {\"k\": 5}}\n{\"id\": 3}\n");
    server.put("lake/mark.csv", "\u{feff}a,b\n1,2\n");
    check(
        &home.session,
        &[
            (
                "SELECT count(*), sum(k), max(d) FROM 's3://lake/t/year=2023/a.parquet'",
                "200000 20000100000 6",
            ),
            (
                "SELECT year, count(*) FROM read_parquet('s3://lake/t/**/*.parquet') \
                 GROUP BY year ORDER BY year",
                "2023 200000\n2024 1",
            ),
            (
                "SELECT count(*) FROM read_parquet('s3://lake/t/**/*.parquet') \
                 WHERE k = 7 AND year = 2024",
                "1",
            ),
            ("SELECT * FROM 's3://lake/c/*.csv.gz' ORDER BY id", "1 ann\n2 "),
            (
                "SELECT c.name, j.o.k FROM 's3://lake/o.ndjson' j \
                 LEFT JOIN 's3://lake/c/' c USING (id) ORDER BY j.id",
                " 5\n ",
            ),
            ("SELECT a + b FROM 's3://lake/mark.csv'", "3"),
            (
                "SELECT file FROM glob('s3://lake/c/*') ORDER BY 1",
                "s3://lake/c/x.csv.gz\ns3://lake/c/y.csv.gz",
            ),
            (
                "SELECT filename FROM read_csv('s3://lake/c/x.csv.gz', filename = true)",
                "s3://lake/c/x.csv.gz",
            ),
            (
                "SELECT count(*) > 0 FROM parquet_metadata('s3://lake/t/year=2024/b.parquet')",
                "true",
            ),
        ],
    )
    .await;
    let copied = "CREATE TABLE c (id BIGINT, name VARCHAR); \
                  COPY c FROM 's3://lake/c/*.gz' (FORMAT csv, HEADER)";
    show(&home.session, copied).await;
    check(&home.session, &[("SELECT count(*), sum(id) FROM c", "2 3")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_read_is_from_the_cache_and_changes_are_noticed() {
    let server = Server::start();
    let home = home(&server).await;
    let rows = "SELECT value AS k, md5(value::varchar) AS m FROM generate_series(1, 100000)";
    upload(&home, &server, "lake/t.parquet", rows).await;
    let query = "SELECT count(*), count(DISTINCT m) FROM 's3://lake/t.parquet'";
    check(&home.session, &[(query, "100000 100000")]).await;
    let counts = "SELECT requests, misses FROM terrace.remote_files";
    let before = show(&home.session, counts).await;
    check(&home.session, &[(query, "100000 100000")]).await;
    assert_eq!(show(&home.session, counts).await, before, "no bytes are fetched twice");
    let hits = "SELECT hits > 0 AND blocks > 0 FROM terrace.remote_files";
    let consumer =
        "SELECT count(*), min(class) FROM terrace.market WHERE consumer = 'remote files'";
    check(&home.session, &[(consumer, "1 cache"), (hits, "true")]).await;
    upload(&home, &server, "lake/t.parquet", "SELECT 1 AS k, 'x' AS m").await;
    check(&home.session, &[(query, "1 1")]).await;
}

/// Each file takes one request of a statement, whose requests are sent together, also for the files
/// of views within views.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_asks_for_its_files_at_the_same_time() {
    let server = Server::start();
    let home = home(&server).await;
    for name in ["a", "b", "c"] {
        upload(&home, &server, &format!("lake/{name}.parquet"), "SELECT 1 AS k").await;
    }
    let views = "CREATE SCHEMA s; SET search_path = s; \
        CREATE VIEW a AS SELECT * FROM read_parquet('s3://lake/a.parquet'); \
        CREATE VIEW b AS SELECT x.k FROM a x JOIN read_parquet(['s3://lake/b.parquet']) USING (k); \
        SET search_path = public";
    show(&home.session, views).await;
    let query = "SELECT count(*) FROM s.b x, s.b y, 's3://lake/c.parquet' \
                 WHERE x.k IN (SELECT k FROM s.a)";
    check(&home.session, &[(query, "1")]).await;
    let before = server.requests();
    server.gather(3);
    check(&home.session, &[(query, "1")]).await;
    assert_eq!(server.requests() - before, 3);
    upload(&home, &server, "lake/a.parquet", "SELECT 2 AS k").await;
    check(&home.session, &[(query, "0")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_writes_files_of_s3() {
    let server = Server::start();
    let home = home(&server).await;
    let made = "CREATE TABLE t AS SELECT value AS k, value % 3 AS part, md5(value::varchar) AS m \
                FROM generate_series(1, 300000) AS g(value)";
    show(&home.session, made).await;
    for (target, options) in [
        ("lake/t.parquet", "FORMAT parquet"),
        ("lake/t.csv", "HEADER"),
        ("lake/t.csv.gz", "HEADER, COMPRESSION gzip"),
        ("lake/d/t.ndjson", "FORMAT json"),
    ] {
        let copied = show(&home.session, &format!("COPY t TO 's3://{target}' ({options})")).await;
        assert_eq!(copied.trim(), "300000");
        let sums = format!("SELECT count(*), sum(k), count(DISTINCT m) FROM 's3://{target}'");
        check(&home.session, &[(&sums, "300000 45000150000 300000")]).await;
    }
    let parts = "COPY t TO 's3://lake/parts' (FORMAT parquet, PARTITION_BY (part))";
    show(&home.session, parts).await;
    check(
        &home.session,
        &[(
            "SELECT part, count(*), count(DISTINCT filename) FROM \
             read_parquet('s3://lake/parts/**/*.parquet', filename = true) \
             GROUP BY part ORDER BY part",
            "0 100000 1\n1 100000 1\n2 100000 1",
        )],
    )
    .await;
    show(&home.session, "COPY (SELECT 1 AS a WHERE false) TO 's3://lake/e.csv' (HEADER false)")
        .await;
    assert_eq!(server.bytes("lake/e.csv").expect("an empty file").len(), 0);
    show(&home.session, "COPY (SELECT 7 AS k) TO 's3://lake/t.csv' (HEADER)").await;
    check(&home.session, &[("SELECT k FROM 's3://lake/t.csv'", "7")]).await;
    assert_eq!(server.uploads(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_fails_leaves_no_file_of_s3() {
    let server = Server::start();
    let home = home(&server).await;
    server.put("lake/t.csv", "k\n1\n");
    let rows = "SELECT value AS k, value % 2 AS p, md5(value::varchar) AS m, \
                1 / (value - 900000) AS q FROM generate_series(1, 1000000) AS g(value)";
    for target in [
        "'s3://lake/t.csv'",
        "'s3://lake/t.parquet'",
        "'s3://lake/d' (FORMAT csv, PARTITION_BY (p))",
    ] {
        let failed = error(&home.session, &format!("COPY ({rows}) TO {target}")).await;
        assert!(failed.to_lowercase().contains("divi"), "{failed}");
    }
    server.refuse_parts(true);
    let failed = error(&home.session, "COPY (SELECT 1 AS k) TO 's3://lake/x.csv'").await;
    assert!(failed.contains("lake/x.csv"), "{failed}");
    for _ in 0..500 {
        if server.uploads() == 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!((server.uploads(), server.names()), (0, vec!["lake/t.csv".to_owned()]));
    assert_eq!(server.bytes("lake/t.csv").expect("the file before"), "k\n1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_http_are_tables() {
    let server = Server::start();
    let home = Home::new();
    server.put("d/x.csv", "a,b\n1,x\n2,y\n");
    let at = |name: &str| format!("'http://{}/{name}'", server.endpoint());
    let query = format!("SELECT sum(a), max(b) FROM {}", at("d/x.csv"));
    check(&home.session, &[(&query, "3 y")]).await;
    let signed = format!("SELECT count(*) FROM read_csv({})", at("d/x.csv?sig=a%2Fb"));
    check(&home.session, &[(&signed, "2")]).await;
    let missing = format!("SELECT * FROM {}", at("d/z.csv"));
    assert!(error(&home.session, &missing).await.contains("d/z.csv does not exist"));
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_named_listed_and_dropped() {
    let server = Server::start();
    server.put("lake/x.csv", "a\n1\n");
    server.require_key("mary");
    let home = home(&server).await;
    let query = "SELECT a FROM 's3://lake/x.csv'";
    let refused = error(&home.session, query).await;
    assert!(refused.contains("CREATE SECRET"), "{refused}");
    let again = format!(
        "CREATE OR REPLACE SECRET s (TYPE s3, KEY_ID 'mary', SECRET 'hush', ENDPOINT '{}', \
         USE_SSL false, SCOPE 's3://lake')",
        server.endpoint()
    );
    let taken = again.replace("OR REPLACE ", "");
    assert!(error(&home.session, &taken).await.contains("OR REPLACE SECRET"));
    show(&home.session, &again).await;
    check(
        &home.session,
        &[
            (query, "1"),
            ("SELECT name, scope, has_keys FROM terrace.secrets", "s s3://lake true"),
            ("SELECT count(*) FROM terrace.queries WHERE statement LIKE '%hu' || 'sh%'", "0"),
        ],
    )
    .await;
    show(&home.session, "DROP SECRET s; DROP SECRET IF EXISTS s").await;
    assert!(error(&home.session, "DROP SECRET s").await.contains("terrace.secrets"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_or_written_is_named() {
    let server = Server::start();
    let home = home(&server).await;
    server.put("lake/x.txt", "a\n1\n");
    home.refuse(&[
        ("SELECT * FROM 's3://lake/nosuch.csv'", &["s3://lake/nosuch.csv does not exist"]),
        ("SELECT * FROM 's3://lake/*.parquet'", &["s3://lake/*.parquet does not exist"]),
        ("SELECT * FROM 's3://lake/x.txt'", &["call read_csv"]),
        ("SELECT * FROM 'ftp://h/x.csv'", &["ftp:// is not supported", "s3://bucket/key"]),
        ("SELECT * FROM 'http://127.0.0.1:9/x.csv'", &["cannot read http://127.0.0.1:9/x.csv"]),
        (
            "COPY (SELECT 1) TO 'http://h/y.csv'",
            &["'http://h/y.csv'", "HTTP servers take no files"],
        ),
        ("COPY (SELECT 1) TO 's3://lake/*.csv'", &["'s3://lake/*.csv'", "a pattern of files"]),
        ("COPY (SELECT 1) TO 's3://nosuch/y.csv'", &["there is no bucket nosuch"]),
    ])
    .await;
    let role = "CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'b'; CREATE ROLE ada LOGIN";
    show(&home.session, role).await;
    let ada = home.engine.session_of("ada").expect("a session");
    for text in ["SELECT * FROM 's3://lake/x.csv'", "DROP SECRET s", "CREATE SECRET t (TYPE s3)"] {
        let refused = error(&ada, text).await;
        assert!(refused.contains("superuser"), "{text}: {refused}");
    }
}
