//! Files as tables: `read_csv` and names of files, with the rows that DuckDB 2.0 returns.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use terrace_sql::{Engine, Session};

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

/// Files of a temporary directory, and a session.
pub struct Home {
    pub directory: tempfile::TempDir,
    pub session: Session,
    pub engine: Engine,
}

impl Home {
    /// An empty directory, and a session of an engine.
    pub fn new() -> Self {
        let engine = engine(DRAM);
        let session = engine.session().expect("a session");
        Self { directory: tempfile::tempdir().expect("a directory"), session, engine }
    }

    /// Writes files.
    pub fn with(self, files: &[(&str, &str)]) -> Self {
        for (name, text) in files {
            self.write(name, text.as_bytes());
        }
        self
    }

    /// Writes a file.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, bytes).expect("a file");
    }

    /// Path of a file.
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// The text with the directory in place of `@`.
    pub fn text(&self, text: &str) -> String {
        text.replace('@', &self.directory.path().display().to_string())
    }

    /// Checks each query against its answer, in which `@` stands for the directory.
    pub async fn check(&self, cases: &[(&str, &str)]) {
        for (query, answer) in cases {
            check(&self.session, &[(&self.text(query), &self.text(answer))]).await;
        }
    }

    /// Checks that each statement fails with an error that contains all parts.
    pub async fn refuse(&self, cases: &[(&str, &[&str])]) {
        for (text, parts) in cases {
            let error = error(&self.session, &self.text(text)).await;
            for part in *parts {
                assert!(error.contains(&self.text(part)), "{text}\n{error}\nlacks {part}");
            }
        }
    }
}

const FILES: &[(&str, &str)] = &[
    ("a.csv", "id,name\n1,x\n2,y\n"),
    ("b.csv", "id,name\n3,z\n"),
    ("c.csv", "id,other\n4,5.5\n"),
    ("swap.csv", "name,id\nw,9\n"),
    ("semi.csv", "id;name\n1;a,b\n2;c\n"),
    ("nohead.csv", "1,ann\n2,bob\n"),
    ("t.tsv", "id\tname\n1\ta\n"),
    ("q.csv", "id,name\n1,'a,b'\n2,'c'\n"),
    ("nl.csv", "id,name\n1,\"a\nb\"\n2,\"say \"\"hi\"\"\"\n"),
    (
        "types.csv",
        "i,d,b,dt,ts,tm,s,big,e\n\
         1,1.5,true,2024-01-02,2024-01-02 03:04:05,03:04:05,x,99999999999999999999,1e3\n\
         2,,false,2024-02-03,2024-01-02 03:04:05.123456,04:05:06,\"\",1,2\n",
    ),
    ("lead.csv", "z,p\n007,+5\n010,-3\n"),
    ("comment.csv", "# hello\na,b\n1,2\n#x\n3,4\n"),
    ("null.csv", "a,b\nNULL,1\n5,NULL\n"),
    ("ragged.csv", "a,b\n1,2\n3\n4,5,6\n"),
    ("blank.csv", "v\n1\n\n2\n"),
    ("cr.csv", "a,b\r1,2\r3,4\r"),
    ("crlf.csv", "a,b\r\n1,\"x\"\r\n"),
    ("bom.csv", "\u{feff}a,b\n1,2\n"),
    ("spq.csv", "a,b\n1, \"x\"\n"),
    ("headonly.csv", "a,b\n"),
    ("empty.csv", ""),
    ("hive/year=2023/x.csv", "a,b\n1,2\n"),
    ("hive/year=2024/y.csv", "a,b\n3,4\n"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dialects_and_types_are_inferred() {
    let home = Home::new().with(FILES);
    home.check(&[
        ("SELECT * FROM '@/a.csv'", "1 x\n2 y"),
        ("SELECT * FROM read_csv('@/a.csv')", "1 x\n2 y"),
        ("SELECT r.name FROM read_csv_auto('@/a.csv') AS r WHERE id = 2", "y"),
        ("SELECT read_csv.id FROM read_csv('@/a.csv')", "1\n2"),
        ("SELECT x FROM read_csv('@/a.csv') AS t(x, y)", "1\n2"),
        ("SELECT id + 1, name FROM '@/semi.csv'", "2 a,b\n3 c"),
        ("SELECT column0 + 1, column1 FROM '@/nohead.csv'", "2 ann\n3 bob"),
        ("SELECT id, name FROM '@/t.tsv'", "1 a"),
        ("SELECT * FROM '@/q.csv'", "1 a,b\n2 c"),
        ("SELECT id, replace(name, chr(10), '/') FROM '@/nl.csv'", "1 a/b\n2 say \"hi\""),
        ("SELECT z, p FROM '@/lead.csv'", "007 +5\n010 -3"),
        ("SELECT a + b FROM '@/cr.csv'", "3\n7"),
        ("SELECT a, b FROM '@/crlf.csv'", "1 x"),
        ("SELECT a + b FROM '@/bom.csv'", "3"),
        ("SELECT a, b FROM '@/spq.csv'", "1 x"),
        ("SELECT v, v IS NULL FROM '@/blank.csv'", "1 false\n true\n2 false"),
        ("SELECT count(*), count(a) FROM '@/headonly.csv'", "0 0"),
        ("SELECT count(*) FROM '@/a.csv'", "2"),
        (
            "SELECT i, d, b, dt, s IS NULL, big, e FROM '@/types.csv'",
            "1 1.5 true 2024-01-02 false 99999999999999999999 1000.0\n\
             2  false 2024-02-03 true 1 2.0",
        ),
        (
            "SELECT arrow_typeof(i), arrow_typeof(d), arrow_typeof(b), arrow_typeof(dt), \
             arrow_typeof(ts), arrow_typeof(tm), arrow_typeof(s), arrow_typeof(big) FROM \
             '@/types.csv' LIMIT 1",
            "Int64 Float64 Boolean Date32 Timestamp(\u{b5}s) Time64(\u{b5}s) Utf8View \
                Decimal128(38, 0)",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_replace_what_is_inferred() {
    let home = Home::new().with(FILES);
    home.check(&[
        ("SELECT * FROM read_csv('@/semi.csv', delim=';', header=true)", "1 a,b\n2 c"),
        ("SELECT * FROM read_csv('@/semi.csv', sep := ';', header => true)", "1 a,b\n2 c"),
        ("SELECT * FROM read_csv('@/a.csv', header=false)", "id name\n1 x\n2 y"),
        ("SELECT id || '!' FROM read_csv('@/a.csv', all_varchar=true)", "1!\n2!"),
        (
            "SELECT x + 1, y FROM read_csv('@/a.csv', columns={'x': 'INTEGER', 'y': 'VARCHAR'})",
            "2 x\n3 y",
        ),
        ("SELECT id || '!' FROM read_csv('@/a.csv', types={'id': 'VARCHAR'})", "1!\n2!"),
        ("SELECT * FROM read_csv('@/a.csv', types=['DOUBLE', 'VARCHAR'])", "1.0 x\n2.0 y"),
        ("SELECT p, q FROM read_csv('@/a.csv', names=['p', 'q'])", "1 x\n2 y"),
        ("SELECT column0 FROM read_csv('@/comment.csv', skip=2, comment='#')", "1\n3"),
        ("SELECT a, b FROM read_csv('@/comment.csv', comment='#')", "1 2\n3 4"),
        ("SELECT a + 1, b FROM read_csv('@/null.csv', nullstr='NULL')", " 1\n6 "),
        ("SELECT a, b FROM read_csv('@/null.csv', nullstr=['NULL', '5'])", " 1\n "),
        ("SELECT a, b FROM read_csv('@/ragged.csv', ignore_errors=true)", "1 2"),
        ("SELECT * FROM read_csv(['@/a.csv', '@/b.csv'])", "1 x\n2 y\n3 z"),
        (
            "SELECT \"id,name\" FROM read_csv('@/nl.csv', delim='|', quote='')",
            "1,\"a\nb\"\n2,\"say \"\"hi\"\"\"",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_files_are_one_table() {
    let home = Home::new().with(FILES);
    home.check(&[
        ("SELECT * FROM '@/[ab].csv'", "1 x\n2 y\n3 z"),
        ("SELECT id, name FROM read_csv(['@/a.csv', '@/swap.csv'])", "1 x\n2 y\n9 w"),
        ("SELECT * FROM read_csv('@/[ac].csv', union_by_name=true)", "1 x \n2 y \n4  5.5"),
        (
            "SELECT *, filename FROM read_csv('@/[ab].csv', filename=true)",
            "1 x @/a.csv @/a.csv\n2 y @/a.csv @/a.csv\n3 z @/b.csv @/b.csv",
        ),
        ("SELECT f FROM read_csv('@/b.csv', filename='f')", "@/b.csv"),
        ("SELECT a, b, year + 1 FROM '@/hive/**/*.csv' ORDER BY a", "1 2 2024\n3 4 2025"),
        ("SELECT a, b, year FROM '@/hive/'", "1 2 2023\n3 4 2024"),
        ("SELECT a FROM '@/hive/*/*.csv' WHERE year = 2024", "3"),
        ("SELECT * FROM read_csv('@/hive/*/*.csv', hive_partitioning=false)", "1 2\n3 4"),
        (
            "SELECT * FROM read_csv('@/hive/*/*.csv', filename=true) ORDER BY year DESC",
            "3 4 @/hive/year=2024/y.csv 2024\n1 2 @/hive/year=2023/x.csv 2023",
        ),
    ])
    .await;
    home.refuse(&[
        (
            "SELECT * FROM '@/[ac].csv'",
            &[
                "@/c.csv has other columns than @/a.csv",
                "lacks name",
                "has also other",
                "union_by_name",
            ],
        ),
        ("SELECT * FROM read_csv('@/{a,c}.csv')", &["does not exist"]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_do_not_fit_are_named() {
    let home = Home::new().with(FILES);
    let mut rows = "id,v\n".to_owned();
    for row in 0..30_000 {
        rows.push_str(&format!("{row},{row}\n"));
    }
    rows.push_str("30000,oops\n");
    home.write("bad.csv", rows.as_bytes());
    home.refuse(&[
        (
            "SELECT * FROM '@/bad.csv'",
            &[
                "@/bad.csv, line 30002, column v: 'oops' is no BIGINT",
                "types = {'v': 'VARCHAR'}",
                "all_varchar",
            ],
        ),
        ("SELECT * FROM '@/ragged.csv'", &["@/ragged.csv, line 3: the row has 1 value, not 2"]),
        (
            "SELECT * FROM read_csv('@/a.csv', types={'name': 'INT'})",
            &["line 2, column name: 'x' is no INTEGER"],
        ),
    ])
    .await;
    home.check(&[
        ("SELECT count(*) FROM read_csv('@/bad.csv', ignore_errors=true)", "30001"),
        ("SELECT count(v), max(id) FROM read_csv('@/bad.csv', ignore_errors=true)", "30000 29999"),
        ("SELECT max(v) FROM read_csv('@/bad.csv', sample_size=-1)", "oops"),
        ("SELECT max(v) FROM read_csv('@/bad.csv', all_varchar=true)", "oops"),
        ("SELECT sum(id) FROM '@/bad.csv'", "450015000"),
        (
            "SELECT a, b FROM read_csv('@/ragged.csv', null_padding=true, ignore_errors=true)",
            "1 2\n3 ",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_arguments_are_named() {
    let home = Home::new().with(FILES);
    home.refuse(&[
        ("SELECT * FROM '@/nosuch.csv'", &["file @/nosuch.csv does not exist"]),
        ("SELECT * FROM '@/nosuch*.csv'", &["no file matches '@/nosuch*.csv'"]),
        ("SELECT * FROM read_csv('@/nosuch.csv')", &["file @/nosuch.csv does not exist"]),
        ("SELECT * FROM 'ftp://b/x.csv'", &["ftp://b/x.csv", "s3://bucket/key"]),
        ("SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')", &["127.0.0.1:9/x.csv"]),
        ("SELECT * FROM read_csv()", &["read_csv takes a path"]),
        ("SELECT * FROM read_csv(1)", &["not 1"]),
        ("SELECT * FROM read_csv('@/a.csv', '@/b.csv')", &["a list of paths"]),
        ("SELECT * FROM read_csv('@/a.csv', nosuch=1)", &["no option nosuch", "delim"]),
        ("SELECT * FROM read_csv('@/a.csv', delim=';;')", &["delim is one character"]),
        ("SELECT * FROM read_csv('@/a.csv', header=3)", &["header is true or false, not 3"]),
        ("SELECT * FROM read_csv('@/a.csv', header=true, header=true)", &["header twice"]),
        ("SELECT * FROM read_csv('@/a.csv', columns={'x': 'NOSUCH'})", &["NOSUCH"]),
        ("SELECT * FROM read_csv('@/a.csv', types={'z': 'INT'})", &["the column z", "id, name"]),
        ("SELECT * FROM read_csv('@/a.csv', skip=-1)", &["from 0 on"]),
        ("SELECT * FROM read_csv('@/a.csv', sample_size=0)", &["sample_size"]),
        ("SELECT * FROM read_csv('@/a.csv', dateformat='%d')", &["dateformat is not supported"]),
        ("SELECT * FROM read_csv('@/a.csv', compression='lz4')", &["compression is auto"]),
        ("SELECT * FROM read_csv('@/a.csv', compression='gzip')", &["@/a.csv"]),
        ("SELECT * FROM read_csv('@/a.csv', types=['INT', 'INT', 'INT'])", &["3 types for 2"]),
        ("SELECT * FROM read_csv('@/empty.csv')", &["@/empty.csv has no rows"]),
        ("SELECT * FROM read_csv('@/a.csv', header=now())", &["takes constants"]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compressed_files_and_line_ends_in_values_are_read_by_all_partitions() {
    let home = Home::new();
    let mut text = "id,t\n".to_owned();
    for row in 0..200_000 {
        text.push_str(&format!("{row},\"line\n{row}\"\n"));
    }
    home.write("big.csv", text.as_bytes());
    for (kind, name) in
        [("gzip", "csv.gz"), ("zstd", "csv.zst"), ("bzip2", "csv.bz2"), ("xz", "csv.xz")]
    {
        let copy = format!(
            "COPY (SELECT value AS id, 'line ' || value AS t FROM range(100000)) TO '@/z.{name}' \
             STORED AS CSV OPTIONS (format.compression {kind})"
        );
        show(&home.session, &home.text(&copy)).await;
        home.check(&[(
            &format!("SELECT count(*), sum(id), max(length(t)) FROM '@/z.{name}'"),
            "100000 4999950000 10",
        )])
        .await;
    }
    home.check(&[
        ("SELECT count(*), sum(id), sum(length(t)) FROM '@/big.csv'", "200000 19999900000 2088890"),
        ("SELECT count(*) FROM (SELECT * FROM '@/big.csv' LIMIT 3) q", "3"),
        ("SELECT count(*) FROM '@/big.csv' a JOIN '@/big.csv' b ON a.id = b.id + 1", "199999"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_rows_end_in_an_error() {
    let home = Home::new();
    let path = home.path("long.csv");
    let mut file = fs::File::create(&path).expect("a file");
    file.write_all(b"a,b\n1,2\n3,\"").expect("bytes");
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..40 {
        file.write_all(&piece).expect("bytes");
    }
    drop(file);
    home.refuse(&[
        ("SELECT a FROM '@/long.csv'", &["@/long.csv, line 3", "a quote in it may not be closed"]),
        ("SELECT a FROM read_csv('@/long.csv', max_line_size=1000)", &["more than 1000 bytes"]),
    ])
    .await;
    home.write("utf8.csv", b"a,b\n1,\xff\xfe\n");
    home.refuse(&[("SELECT b FROM '@/utf8.csv'", &["@/utf8.csv, line 2, column b", "UTF-8"])])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_files_takes_a_superuser() {
    let home = Home::new().with(FILES);
    show(
        &home.session,
        "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'p'; CREATE ROLE boss \
        SUPERUSER LOGIN PASSWORD 'p'; CREATE ROLE ada LOGIN PASSWORD 'p'",
    )
    .await;
    show(&home.session, &home.text("CREATE VIEW v AS SELECT * FROM read_csv('@/a.csv')")).await;
    show(&home.session, "GRANT SELECT ON v TO ada").await;
    let ada = home.engine.session_of("ada").expect("a session");
    for text in [
        "SELECT * FROM '@/a.csv'",
        "SELECT nosuch FROM '@/a.csv'",
        "SELECT * FROM '@/nosuch.csv'",
        "SELECT * FROM '@/*.csv'",
        "SELECT * FROM read_csv('@/a.csv')",
        "SELECT * FROM read_csv('@/nosuch.csv')",
        "SELECT 1 WHERE EXISTS (SELECT nosuch FROM read_csv_auto('@/a.csv'))",
        "EXPLAIN SELECT * FROM read_csv('@/a.csv')",
        "CREATE TABLE t AS SELECT * FROM read_csv('@/a.csv')",
        "CREATE VIEW w AS SELECT * FROM read_csv('@/a.csv')",
        "PREPARE p AS SELECT * FROM read_csv('@/a.csv')",
        "SELECT * FROM v",
    ] {
        let error = error(&ada, &home.text(text)).await;
        assert!(error.contains("superuser"), "{text}\n{error}");
        assert!(!error.contains("name"), "{text}\n{error}");
    }
    let admin = home.engine.session_of("admin").expect("a session");
    assert_eq!(show(&admin, &home.text("SELECT count(*) FROM read_csv('@/a.csv')")).await, "2");
    assert_eq!(show(&admin, "SELECT count(*) FROM v").await, "2");
    show(&admin, &home.text("PREPARE p AS SELECT count(*) FROM read_csv('@/a.csv')")).await;
    show(&home.session, "ALTER ROLE admin NOSUPERUSER").await;
    assert!(error(&admin, "EXECUTE p").await.contains("superuser"));
    assert!(Path::new(&home.path("a.csv")).is_file());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_is_read_as_lines_and_as_an_array() {
    let home = Home::new().with(&[
        (
            "a.json",
            "{\"id\":1,\"tags\":[\"a\",\"b\"],\"o\":{\"k\":1}}\n\
             {\"id\":2.5,\"tags\":null,\"o\":{\"k\":2,\"z\":true}}\n",
        ),
        ("b.ndjson", "{\"b\":1,\"a\":{\"y\":1,\"x\":2}}\n"),
        (
            "arr.json",
            "[{\"id\":1,\"d\":\"2024-01-02\"},\n {\"id\":2,\"t\":\"2024-01-01 00:00:00\"}]",
        ),
        ("pretty.jsonl", "{\n \"a\":1,\n \"b\":[1,2]\n}\n{\n \"a\":2}"),
        ("u1.json", "{\"a\":1}"),
        ("u2.json", "{\"b\":\"x\"}"),
        ("mix.json", "{\"a\":1}\n{\"a\":{\"b\":1}}\n"),
        ("text.json", "{\"a\":1}\n{\"a\":\"x\"}\n{\"a\":true}\n"),
        ("scalars.json", "1\n2\n"),
        ("bad.json", "{\"a\":1}\n{\"a\":}\n"),
        ("open.json", "{\"a\":1}\n{\"a\":[1}"),
        ("none.json", "[]"),
        ("nested.json", "{\"m\":{},\"e\":[],\"l\":[[1],[2,null]],\"n\":null}"),
    ]);
    home.check(&[
        ("SELECT id, tags[1], o['k'], o['z'] FROM '@/a.json'", "1.0 a 1 \n2.5  2 true"),
        ("SELECT b, a['y'], a['x'] FROM '@/b.ndjson'", "1 1 2"),
        ("SELECT id, d, t FROM '@/arr.json'", "1 2024-01-02 \n2  2024-01-01T00:00:00"),
        ("SELECT id FROM read_json('@/arr.json', format='array')", "1\n2"),
        ("SELECT a, b FROM '@/pretty.jsonl'", "1 [1, 2]\n2 "),
        ("SELECT a, b FROM '@/u[12].json'", "1 \n x"),
        (
            "SELECT a, b, f LIKE '%u2.json' FROM read_json('@/u[12].json', filename='f') \
             ORDER BY f",
            "1  \
            false\n x true",
        ),
        ("SELECT a FROM '@/text.json'", "1\nx\ntrue"),
        (
            "SELECT a + 1 FROM read_json('@/text.json', columns={'a': 'INTEGER'}, \
            ignore_errors=true) WHERE a = 1",
            "2",
        ),
        ("SELECT id + 1 FROM read_ndjson('@/a.json', columns={'id': 'INTEGER'})", "2\n3"),
        ("SELECT a FROM read_json('@/bad.json', ignore_errors=true)", "1"),
        ("SELECT count(*) FROM '@/a.json'", "2"),
        ("SELECT json + 1 FROM '@/scalars.json'", "2\n3"),
        ("SELECT l, n IS NULL, e FROM '@/nested.json'", "[[1], [2, ]] true []"),
        ("SELECT count(*) FROM read_json('@/none.json', columns={'a': 'INT'})", "0"),
    ])
    .await;
    home.refuse(&[
        ("SELECT * FROM '@/mix.json'", &["the field a", "@/mix.json"]),
        ("SELECT * FROM read_json('@/scalars.json', records=true)", &["no objects"]),
        ("SELECT * FROM '@/bad.json'", &["@/bad.json, line 2"]),
        ("SELECT * FROM '@/open.json'", &["@/open.json, line 2"]),
        ("SELECT * FROM '@/none.json'", &["no values"]),
        ("SELECT * FROM read_json('@/a.json', format='array')", &["no array"]),
        ("SELECT * FROM read_json('@/a.json', format='xml')", &["format is auto, array"]),
        ("SELECT * FROM read_json('@/a.json', nosuch=1)", &["no option nosuch"]),
        (
            "SELECT * FROM read_json('@/text.json', columns={'a': 'INTEGER'})",
            &["@/text.json, line 2", "columns"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_arrays_are_streamed() {
    let home = Home::new();
    let mut text = "[".to_owned();
    for row in 0..200_000 {
        let comma = if row == 0 { "" } else { "," };
        text.push_str(&format!("{comma}{{\"id\":{row},\"t\":\"text {row}\"}}"));
    }
    text.push(']');
    home.write("big.json", text.as_bytes());
    home.check(&[(
        "SELECT count(*), sum(id), max(length(t)) FROM '@/big.json'",
        "200000 19999900000 11",
    )])
    .await;
    home.write("late.json", (text + "x").as_bytes());
    home.refuse(&[("SELECT sum(id) FROM '@/late.json'", &["behind the end of the array"])]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parquet_has_functions_and_facts() {
    let home = Home::new();
    for (file, query) in [
        (
            "p.parquet",
            "SELECT 1 AS id, 'x' AS t, DATE '2024-01-02' AS d UNION ALL SELECT 2, NULL, NULL",
        ),
        ("q.parquet", "SELECT 3 AS id, true AS b"),
        ("h/y=1/a b.parquet", "SELECT 7 AS v"),
        ("h/y=2/c.parquet", "SELECT 8 AS v"),
    ] {
        fs::create_dir_all(home.path(file).parent().expect("a parent")).expect("directories");
        show(&home.session, &home.text(&format!("COPY ({query}) TO '@/{file}'"))).await;
    }
    home.check(&[
        ("SELECT id, t, d FROM read_parquet('@/p.parquet') ORDER BY id", "1 x 2024-01-02\n2  "),
        ("SELECT count(*) FROM parquet_scan('@/p.parquet')", "2"),
        ("SELECT id FROM read_parquet('@/[p].parquet') WHERE id > 1", "2"),
        (
            "SELECT id, t, b FROM read_parquet('@/[pq].parquet', union_by_name=true) ORDER BY id",
            "1 x \n2  \n3  true",
        ),
        (
            "SELECT v, y + 1, filename FROM read_parquet('@/h/*/*.parquet', filename=true) \
                ORDER BY v",
            "7 2 @/h/y=1/a b.parquet\n8 3 @/h/y=2/c.parquet",
        ),
        ("SELECT v FROM read_parquet('@/h/**/*.parquet') WHERE y = 2", "8"),
        ("SELECT file FROM glob('@/*.parquet')", "@/p.parquet\n@/q.parquet"),
        ("SELECT count(*) FROM glob('@/no*')", "0"),
        (
            "SELECT path_in_schema, type, num_values, stats_min, stats_max, stats_null_count, \
             row_group_num_rows FROM parquet_metadata('@/p.parquet') ORDER BY column_id",
            "id INT64 2 1 2 0 2\nt BYTE_ARRAY 2 x x 1 2\nd INT32 2 2024-01-02 2024-01-02 1 2",
        ),
        (
            "SELECT name, type, repetition_type, num_children, converted_type FROM \
             parquet_schema('@/p.parquet') WHERE num_children IS NULL",
            "id INT64 REQUIRED  \nt BYTE_ARRAY OPTIONAL  UTF8\nd INT32 OPTIONAL  DATE",
        ),
    ])
    .await;
    home.write("x.parquet", b"no parquet");
    home.refuse(&[
        ("SELECT * FROM read_parquet('@/x.parquet')", &["cannot read @/x.parquet"]),
        ("SELECT * FROM parquet_metadata('@/x.parquet')", &["cannot read @/x.parquet"]),
        (
            "SELECT * FROM read_parquet('@/[pq].parquet')",
            &["@/q.parquet has other columns", "lacks t"],
        ),
        ("SELECT * FROM read_parquet('@/p.parquet', nosuch=true)", &["no option nosuch"]),
        ("SELECT * FROM glob('@/x', filename=true)", &["no option filename"]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_over_files_take_a_superuser() {
    let home = Home::new();
    show(&home.session, &home.text("COPY (SELECT 1 AS id) TO '@/p.parquet'")).await;
    show(&home.session, "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'p'").await;
    show(&home.session, "CREATE ROLE ada LOGIN PASSWORD 'p'").await;
    let ada = home.engine.session_of("ada").expect("a session");
    // A superuser that acts as another role has the rights of that role alone.
    let admin = home.engine.session_of("admin").expect("a session");
    let read = home.text("SELECT id FROM read_parquet('@/p.parquet')");
    assert_eq!(show(&admin, &read).await, "1");
    show(&admin, "SET ROLE ada").await;
    let refused = error(&admin, &read).await;
    assert!(refused.contains("superuser"), "{refused}");
    show(&admin, "RESET ROLE").await;
    assert_eq!(show(&admin, &read).await, "1");
    for call in [
        "read_csv",
        "read_parquet",
        "parquet_scan",
        "parquet_metadata",
        "parquet_schema",
        "glob",
        "read_json",
        "read_ndjson",
    ] {
        let text = home.text(&format!("SELECT * FROM {call}('@/p.parquet')"));
        let error = error(&ada, &text).await;
        assert!(error.contains("superuser"), "{error}");
    }
}
