//! COPY between tables and files: bytes that DuckDB 2.0 writes, and rows that PostgreSQL 15 reads.

use std::fs;

use crate::common::{error, show};
use crate::file_functions::Home;

const EMP: &str = "CREATE TABLE emp AS SELECT * FROM (VALUES \
    (1, 'a,b', NULL, DATE '2024-01-02', TIMESTAMP '2024-01-02 03:04:05', CAST(1.5 AS DOUBLE), \
     true), \
    (2, '', 'x\"y', NULL, NULL, CAST(0.25 AS DOUBLE), false)) t(id, name, note, d, ts, v, b)";

impl Home {
    /// The text of a file.
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("a file")
    }

    /// Names of the files in the directory, hidden ones too.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).expect("a directory");
        let name = |entry: fs::DirEntry| entry.file_name().display().to_string();
        let mut names: Vec<String> = entries.map(|entry| name(entry.expect("an entry"))).collect();
        names.sort();
        names
    }

    async fn run(&self, text: &str) -> String {
        show(&self.session, &self.text(text)).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delimited_values_are_written_as_duckdb_writes_them() {
    let home = Home::new();
    home.run(EMP).await;
    let row1 = "1,\"a,b\",,2024-01-02,2024-01-02 03:04:05,1.5,true\n";
    let names = "id,name,note,d,ts,v,b\n";
    let row2 = "2,\"\",\"x\"\"y\",,,0.25,false\n";
    let plain = format!("{names}{row1}{row2}");
    let forced = "\"id\",\"name\"\n\"1\",\"a,b\"\n\"2\",\"\"\n";
    for (options, text) in [
        ("", plain.clone()),
        ("(FORMAT csv)", plain.clone()),
        ("WITH (FORMAT csv, HEADER true)", plain.clone()),
        ("CSV HEADER", plain.clone()),
        ("(HEADER false)", format!("{row1}{row2}")),
        (
            "(HEADER, DELIMITER '|')",
            "id|name|note|d|ts|v|b\n1|a,b||2024-01-02|2024-01-02 03:04:05|1.5|true\n\
             2|\"\"|\"x\"\"y\"|||0.25|false\n"
                .to_owned(),
        ),
        (
            "(FORMAT csv, HEADER, NULL 'NA')",
            format!(
                "{names}1,\"a,b\",NA,2024-01-02,2024-01-02 \
                    03:04:05,1.5,true\n2,,\"x\"\"y\",NA,NA,0.25,false\n"
            ),
        ),
        (
            "(FORMAT csv, QUOTE '''')",
            plain.replace("\"a,b\"", "'a,b'").replace("\"\",", "'',").replace("\"x\"\"y\"", "x\"y"),
        ),
        ("(FORMAT csv, ESCAPE '\\')", plain.replace("x\"\"y", "x\\\"y")),
        ("(FORMAT csv, FORCE_QUOTE (name))", plain.replace("id,name,", "id,\"name\",")),
    ] {
        assert_eq!(home.run(&format!("COPY emp TO '@/x.csv' {options}")).await, "2", "{options}");
        assert_eq!(home.read("x.csv"), text, "{options}");
    }
    home.run("COPY emp (id, name) TO '@/x.csv' (FORCE_QUOTE *)").await;
    assert_eq!(home.read("x.csv"), forced);
    home.run("COPY (SELECT 1 AS a WHERE false) TO '@/x.csv'").await;
    assert_eq!(home.read("x.csv"), "a\n");
    home.run("COPY (SELECT chr(9) AS a, NULL AS b, '\\' AS c) TO '@/x.txt' (FORMAT text)").await;
    assert_eq!(home.read("x.txt"), "\\t\t\\N\t\\\\\n");
    home.run("COPY (SELECT 1 AS a, 2 AS b) TO '@/x.tsv'").await;
    assert_eq!(home.read("x.tsv"), "a\tb\n1\t2\n");
    home.run("COPY (SELECT 7 AS a) TO '@/noextension'").await;
    assert_eq!(home.read("noextension"), "a\n7\n");
    home.run("COPY (SELECT value AS a FROM range(30000) ORDER BY value DESC) TO '@/o.csv'").await;
    let text = home.read("o.csv");
    assert!(text.starts_with("a\n29999\n29998\n") && text.ends_with("\n1\n0\n"));
    assert_eq!(home.names(), ["noextension", "o.csv", "x.csv", "x.tsv", "x.txt"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_and_parquet_are_written() {
    let home = Home::new();
    home.run(
        "CREATE TABLE j AS SELECT 1 AS id, NULL AS n, 'x\"y' AS t, [1, 2] AS l, TIMESTAMP \
        '2024-01-02 03:04:05' AS ts",
    )
    .await;
    let row = "{\"id\":1,\"n\":null,\"t\":\"x\\\"y\",\"l\":[1,2],\"ts\":\"2024-01-02 03:04:05\"}";
    home.run("COPY j TO '@/j.json'").await;
    assert_eq!(home.read("j.json"), format!("{row}\n"));
    home.run(
        "COPY (SELECT * FROM j UNION ALL SELECT * FROM j) TO '@/j.json' (FORMAT JSON, ARRAY true)",
    )
    .await;
    assert_eq!(home.read("j.json"), format!("[\n\t{row},\n\t{row}\n]\n"));
    home.run("COPY (SELECT 1 AS a WHERE false) TO '@/e.json' (ARRAY)").await;
    assert_eq!(home.read("e.json"), "[\n]\n");
    for (options, codec) in [
        ("(FORMAT PARQUET, COMPRESSION ZSTD)", "ZSTD"),
        ("(COMPRESSION 'zstd', COMPRESSION_LEVEL 9, ROW_GROUP_SIZE 1000)", "ZSTD"),
        ("(COMPRESSION snappy)", "SNAPPY"),
        ("(COMPRESSION uncompressed)", "UNCOMPRESSED"),
    ] {
        home.run(&format!("COPY (SELECT value AS v FROM range(3000)) TO '@/p.parquet' {options}"))
            .await;
        home.check(&[
            ("SELECT count(*), sum(v) FROM '@/p.parquet'", "3000 4498500"),
            ("SELECT DISTINCT compression FROM parquet_metadata('@/p.parquet')", codec),
        ])
        .await;
    }
    home.run(
        "COPY (SELECT 1 AS a, 'x' AS k UNION ALL SELECT 2, 'y') TO '@/parts' (FORMAT csv, \
        PARTITION_BY (k))",
    )
    .await;
    home.run(
        "COPY (SELECT 1 AS a, 'x' AS k UNION ALL SELECT 2, 'y') TO '@/pq' (FORMAT parquet, \
        PARTITION_BY k)",
    )
    .await;
    home.check(&[
        ("SELECT a, k FROM '@/parts/*/*.csv' ORDER BY a", "1 x\n2 y"),
        ("SELECT a, k FROM read_parquet('@/pq/**/*.parquet') ORDER BY a", "1 x\n2 y"),
    ])
    .await;
    home.run("COPY j TO '@/z.json.gz' (COMPRESSION gzip)").await;
    home.check(&[("SELECT id, l FROM '@/z.json.gz'", "1 [1, 2]")]).await;
    assert!(home.names().iter().all(|name| !name.starts_with('.')), "{:?}", home.names());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extensions_name_the_compression() {
    let home = Home::new();
    for (name, magic) in [
        ("x.csv.gz", &[0x1f, 0x8b][..]),
        ("x.json.zst", &[0x28, 0xb5, 0x2f, 0xfd]),
        ("x.csv.bz2", b"BZh"),
        ("x.tsv.xz", &[0xfd, b'7', b'z', b'X', b'Z']),
    ] {
        home.run(&format!("COPY (SELECT 1 AS a, 2 AS b) TO '@/{name}'")).await;
        let bytes = fs::read(home.path(name)).expect("a file");
        assert!(bytes.starts_with(magic), "{name}: {bytes:?}");
        home.check(&[(&format!("SELECT a, b FROM '@/{name}'"), "1 2")]).await;
    }
    home.run("COPY (SELECT 1 AS a) TO '@/plain.csv.gz' (COMPRESSION none)").await;
    assert_eq!(home.read("plain.csv.gz"), "a\n1\n");
    home.run("CREATE TABLE t (a INT)").await;
    for format in ["csv", "json"] {
        home.run(&format!("COPY (SELECT 7 AS a) TO '@/x.dat' (FORMAT {format}, COMPRESSION gzip)"))
            .await;
        home.run(&format!("COPY t FROM '@/x.dat' (FORMAT {format}, COMPRESSION gzip)")).await;
    }
    home.check(&[("SELECT count(*), min(a), max(a) FROM t", "2 7 7")]).await;
    home.refuse(&[("COPY t FROM '@/x.dat' (FORMAT csv, COMPRESSION lz)", &["none, gzip", "lz"])])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_fails_leaves_the_old_file() {
    let home = Home::new().with(&[("x.csv", "old\n"), ("x.parquet", "old"), ("x.json", "old")]);
    for file in ["x.csv", "x.parquet", "x.json", "new.csv"] {
        let text =
            format!("COPY (SELECT 1 / (value - 199999) AS a FROM range(200000)) TO '@/{file}'");
        let error = error(&home.session, &home.text(&text)).await;
        assert!(error.contains("zero"), "{error}");
    }
    assert_eq!(home.names(), ["x.csv", "x.json", "x.parquet"]);
    assert_eq!(home.read("x.csv"), "old\n");
    home.refuse(&[
        ("COPY nosuch TO '@/y.csv'", &["nosuch"]),
        (
            "COPY (SELECT 1 AS a) TO '@/y.csv' (FORCE_QUOTE (b))",
            &["FORCE_QUOTE names the column b"],
        ),
        ("COPY (SELECT 1 AS a) TO '@/y.csv' (NOSUCH 1)", &["the option NOSUCH", "FORCE_QUOTE"]),
        ("COPY (SELECT 1 AS a) TO '@/y.csv' (FORMAT xlsx)", &["FORMAT xlsx", "parquet"]),
        (
            "COPY (SELECT 1 AS a) TO '@/y.csv' (DELIMITER ';;')",
            &["DELIMITER ';;'", "one character"],
        ),
        ("COPY (SELECT 1 AS a) TO '@/y.csv' (DELIMITER '\"')", &["DELIMITER and QUOTE"]),
        ("COPY (SELECT 1 AS a) TO '@/y.csv' (HEADER, HEADER)", &["header twice"]),
        ("COPY (SELECT 1 AS a) TO '@/y.parquet' (HEADER)", &["HEADER", "parquet"]),
        ("COPY (SELECT 1 AS a) TO '@/y.parquet' (COMPRESSION lz9)", &["lz9"]),
        ("COPY (SELECT 1 AS a) TO '@/y.csv' (COMPRESSION lz9)", &["lz9"]),
        ("COPY (SELECT 1 AS a) TO '@/y' (FORMAT csv, PARTITION_BY (a))", &["all columns are keys"]),
        ("COPY (SELECT 1 AS a) TO '@/y' (FORMAT csv, PARTITION_BY (b))", &["b"]),
        ("COPY (SELECT 1 AS a) TO 'http://b/y.csv'", &["http://b/y.csv", "take no files"]),
        ("COPY (SELECT 1 AS a) TO '@/'", &["is a directory"]),
        ("COPY (SELECT 1 AS a) TO PROGRAM 'cat'", &["PROGRAM"]),
        ("COPY (SELECT 1 AS a) TO '@/x.csv/y.csv'", &["cannot write"]),
    ])
    .await;
    assert_eq!(home.names(), ["x.csv", "x.json", "x.parquet"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_copied_into_tables() {
    let home = Home::new().with(&[
        ("a.csv", "1,x\n2,\n3,\"\"\n"),
        ("named.csv", "ID,Name\n4,y\n"),
        ("semi.txt", "5;'z;z'\n"),
        ("t.txt", "6\ta\\tb\n7\t\\N\n\\.\nrest\n"),
        ("swap.csv", "name,id\nw,8\n"),
        ("rows.json", "{\"name\":\"j\",\"id\":9}\n{\"id\":10}\n"),
        ("null.csv", "NA,NA\n"),
        ("many1.csv", "20,m\n"),
        ("many2.csv", "21,m\n"),
    ]);
    home.run("CREATE TABLE t (id INT, name VARCHAR)").await;
    for (copy, count) in [
        ("COPY t FROM '@/a.csv'", "3"),
        ("COPY t FROM '@/named.csv'", "1"),
        ("COPY t FROM '@/named.csv' (HEADER)", "1"),
        ("COPY t FROM '@/semi.txt' (FORMAT csv, DELIMITER ';', QUOTE '''')", "1"),
        ("COPY t FROM '@/t.txt' (FORMAT text)", "2"),
        ("COPY t (name, id) FROM '@/swap.csv' WITH (FORMAT csv, HEADER MATCH)", "1"),
        ("COPY t FROM '@/rows.json'", "2"),
        ("COPY t FROM '@/null.csv' CSV NULL 'NA'", "1"),
        ("COPY t FROM '@/many*.csv'", "2"),
    ] {
        assert_eq!(home.run(copy).await, count, "{copy}");
    }
    let rows = "SELECT id, name, name IS NULL FROM t ORDER BY id, name";
    let found = home.run(rows).await;
    assert_eq!(
        found,
        "1 x false\n2  true\n3  false\n4 y false\n4 y false\n5 z;z false\n6 a\tb false\n7  true\n\
         8 w false\n9 j false\n10  true\n20 m false\n21 m false\n  true"
    );
    home.run("COPY t TO '@/back.csv'; CREATE TABLE u (id INT, name VARCHAR)").await;
    home.run("COPY u FROM '@/back.csv'").await;
    assert_eq!(home.run(&rows.replace("FROM t", "FROM u")).await, found);
    home.run("COPY t TO '@/back.parquet'; TRUNCATE u; COPY u FROM '@/back.parquet'").await;
    assert_eq!(home.run(&rows.replace("FROM t", "FROM u")).await, found);
    home.run(
        "COPY t TO '@/back.txt' (FORMAT text); TRUNCATE u; COPY u FROM '@/back.txt' (FORMAT text)",
    )
    .await;
    assert_eq!(home.run(&rows.replace("FROM t", "FROM u")).await, found);
    home.run("BEGIN; COPY u FROM '@/back.parquet'; ROLLBACK").await;
    assert_eq!(home.run("SELECT count(*) FROM u").await, "14");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_rows_are_copied_in_or_none() {
    let home = Home::new().with(&[
        ("bad.csv", "1,x\n2,y\nthree,z\n"),
        ("short.csv", "1,x\n2\n"),
        ("long.csv", "1,x,3\n"),
        ("a.csv", "1,x\n"),
        ("other.csv", "id,nom\n1,x\n"),
        ("bytes.csv", "\\x00ff\nzz\\9\n"),
        ("types.csv", "1.50,2024-01-02 03:04:05,t,12:00:00,\\x00ff\n"),
    ]);
    home.run("CREATE TABLE t (id INT, name VARCHAR NOT NULL); CREATE TABLE b (x BYTEA)").await;
    home.refuse(&[
        ("COPY t FROM '@/bad.csv'", &["@/bad.csv, line 3, column id: 'three' is no INTEGER"]),
        ("COPY t FROM '@/short.csv'", &["@/short.csv, line 2: the row has 1 value, not 2"]),
        ("COPY t FROM '@/long.csv'", &["@/long.csv, line 1: the row has 3 values, not 2"]),
        ("COPY t (id) FROM '@/a.csv'", &["the row has 2 values, not 1"]),
        ("COPY t FROM '@/a.csv' (HEADER MATCH)", &["column name mismatch"]),
        ("COPY t FROM '@/nosuch.csv'", &["file @/nosuch.csv does not exist"]),
        ("COPY nosuch FROM '@/a.csv'", &["nosuch"]),
        ("COPY t (nosuch) FROM '@/a.csv'", &["column nosuch"]),
        ("COPY t FROM '@/a.csv' (FORMAT binary)", &["FORMAT binary"]),
        ("COPY t FROM '@/a.csv' (FORCE_QUOTE *)", &["FORCE_QUOTE"]),
        ("COPY t FROM PROGRAM 'cat'", &["PROGRAM"]),
        ("COPY (SELECT 1) FROM '@/a.csv'", &["name a table"]),
        ("COPY b FROM '@/bytes.csv'", &["line 2, column x: 'zz\\9' is no BYTEA"]),
        ("COPY t FROM 'ftp://h/a.csv'", &["ftp:// is not supported"]),
    ])
    .await;
    assert_eq!(home.run("SELECT count(*) FROM t").await, "0");
    assert_eq!(home.run("COPY t FROM '@/bad.csv' (IGNORE_ERRORS)").await, "2");
    home.run("CREATE TABLE k (d DECIMAL(9, 2), ts TIMESTAMP, b BOOLEAN, tm TIME, x BYTEA)").await;
    assert_eq!(home.run("COPY k FROM '@/types.csv'").await, "1");
    assert_eq!(
        home.run("SELECT d, ts, b, tm, x FROM k").await,
        "1.50 2024-01-02T03:04:05 true 12:00:00 00ff"
    );
    home.run("COPY k TO '@/k.csv'").await;
    assert_eq!(home.read("k.csv"), "d,ts,b,tm,x\n1.50,2024-01-02 03:04:05,true,12:00:00,\\x00ff\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_take_a_superuser() {
    let home = Home::new().with(&[("a.csv", "1,x\n")]);
    home.run("CREATE TABLE t (id INT, name VARCHAR)").await;
    home.run("CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'p'; CREATE ROLE ada LOGIN PASSWORD 'p'")
        .await;
    home.run("GRANT ALL ON t TO ada").await;
    let ada = home.engine.session_of("ada").expect("a session");
    for text in [
        "COPY t FROM '@/a.csv'",
        "COPY t FROM '@/nosuch.csv'",
        "COPY t TO '@/b.csv'",
        "COPY t TO '@/b.csv' (HEADER)",
        "COPY (SELECT 1 AS a) TO '@/b' (FORMAT csv, PARTITION_BY (a))",
    ] {
        let error = error(&ada, &home.text(text)).await;
        assert!(error.contains("superuser"), "{text}\n{error}");
    }
    assert_eq!(home.names(), ["a.csv"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parquet_files_keep_nan_which_is_the_greatest_number() {
    let home = Home::new();
    for of_type in ["DOUBLE", "REAL"] {
        let rows = format!(
            "SELECT CAST(v AS {of_type}) AS v, k, [CAST(v AS {of_type})] AS l \
             FROM (VALUES ('1.5', 1), ('NaN', 2)) t(v, k)"
        );
        home.run(&format!("COPY ({rows}) TO '@/n.parquet'")).await;
        home.run("CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '@/n.parquet'").await;
        for source in ["'@/n.parquet'", "read_parquet('@/n.parquet')", "e"] {
            for (query, answer) in [
                ("SELECT v FROM file ORDER BY k", "1.5\nNaN"),
                ("SELECT k FROM file WHERE v > 2", "2"),
                ("SELECT k FROM file WHERE v <> 1.5", "2"),
                ("SELECT min(v), max(v), count(v) FROM file", "1.5 NaN 2"),
                ("SELECT k FROM file ORDER BY v DESC LIMIT 1", "2"),
                ("SELECT k FROM file WHERE l[1] > 2", "2"),
            ] {
                let query = query.replace("file", source);
                assert_eq!(home.run(&query).await, answer, "{of_type}: {query}");
            }
        }
        home.run("DROP TABLE e").await;
    }
    home.run("COPY (SELECT CAST(NULL AS DOUBLE) AS v, 1 AS k) TO '@/o.parquet'").await;
    assert_eq!(home.run("SELECT count(*), count(v) FROM '@/o.parquet'").await, "1 0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn negative_nan_of_parquet_files_equals_any_other() {
    const POSITIVE: [u8; 8] = 0x7ff8_0000_0000_0000_u64.to_le_bytes();
    const NEGATIVE: [u8; 8] = 0xfff8_0000_0000_0000_u64.to_le_bytes();
    let home = Home::new();
    home.run(
        "COPY (SELECT CAST(v AS DOUBLE) AS v, k FROM (VALUES ('1.5', 1), ('NaN', 2), ('1.7', 3)) \
         t(v, k)) TO '@/n.parquet' (COMPRESSION uncompressed)",
    )
    .await;
    let mut bytes = fs::read(home.path("n.parquet")).expect("a file");
    let at = bytes.windows(8).position(|window| window == POSITIVE).expect("a NaN");
    bytes[at..at + 8].copy_from_slice(&NEGATIVE);
    fs::write(home.path("n.parquet"), bytes).expect("written");
    for source in ["'@/n.parquet'", "read_parquet('@/n.parquet')"] {
        for (query, answer) in [
            ("SELECT k FROM file WHERE v > 2", "2"),
            ("SELECT k FROM file WHERE v = 'NaN'", "2"),
            ("SELECT k FROM file ORDER BY v", "1\n3\n2"),
            ("SELECT min(v), max(v) FROM file", "1.5 NaN"),
        ] {
            let query = query.replace("file", source);
            assert_eq!(home.run(&query).await, answer, "{query}");
        }
    }
}
