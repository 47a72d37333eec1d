//! Tables of Delta Lake, whose logs these tests write by hand.

use std::fs::{self, File};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema};
use datafusion::arrow::json::ReaderBuilder;
use datafusion::parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use crate::common::{check, error, show};
use crate::file_functions::Home;
use crate::remote_files::server::Server;

/// The first commits of tables are of this time, and each further one is a minute later.
const BEGIN_SECONDS: u64 = 1_769_860_800;

/// A table in a directory of a home.
pub struct Delta<'a> {
    pub home: &'a Home,
    pub name: &'a str,
}

/// A column of a schema.
pub fn column(name: &str, data_type: impl Into<Value>) -> Value {
    json!({"name": name, "type": data_type.into(), "nullable": true, "metadata": {}})
}

/// A column with a number and another name in the files.
fn mapped(name: &str, id: u32, physical: &str, data_type: impl Into<Value>) -> Value {
    let metadata =
        json!({"delta.columnMapping.id": id, "delta.columnMapping.physicalName": physical});
    json!({"name": name, "type": data_type.into(), "nullable": true, "metadata": metadata})
}

fn fields(columns: &[Value]) -> Value {
    json!({"type": "struct", "fields": columns})
}

pub fn metadata(columns: &[Value], partitions: &[&str], configuration: &Value) -> Value {
    json!({"metaData": {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": fields(columns).to_string(),
        "partitionColumns": partitions,
        "configuration": configuration,
        "createdTime": 0,
    }})
}

pub fn protocol() -> Value {
    json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
}

fn features(names: &[&str]) -> Value {
    json!({"protocol": {
        "minReaderVersion": 3, "minWriterVersion": 7,
        "readerFeatures": names, "writerFeatures": names,
    }})
}

pub fn remove(path: &str) -> Value {
    json!({"remove": {"path": path, "deletionTimestamp": 0, "dataChange": true}})
}

impl Delta<'_> {
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        let path = self.home.path(self.name).join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        path
    }

    /// Writes a data file by COPY, and returns the action that adds it.
    pub async fn file(&self, name: &str, query: &str) -> Value {
        let path = self.path(name);
        let copy = format!("COPY ({query}) TO '{}' (FORMAT parquet)", path.display());
        show(&self.home.session, &copy).await;
        let path = name.replace('%', "%25").replace(' ', "%20");
        json!({"add": {
            "path": path, "partitionValues": {}, "dataChange": true, "modificationTime": 0,
            "size": fs::metadata(self.path(name)).expect("a file").len(),
        }})
    }

    /// Writes a commit.
    pub fn commit(&self, version: u64, actions: &[Value]) {
        let lines: Vec<String> = actions.iter().map(ToString::to_string).collect();
        let path = self.path(&format!("_delta_log/{version:020}.json"));
        fs::write(&path, lines.join("\n") + "\n").expect("a commit");
        let time = UNIX_EPOCH + Duration::from_secs(BEGIN_SECONDS + 60 * version);
        let file = File::options().write(true).open(path).expect("a commit");
        file.set_modified(time).expect("a time");
    }

    /// Writes rows of JSON as Parquet.
    fn parquet(&self, name: &str, schema: Schema, rows: &[Value]) {
        let lines: Vec<String> = rows.iter().map(ToString::to_string).collect();
        let (text, schema) = (lines.join("\n"), Arc::new(schema));
        let reader = ReaderBuilder::new(Arc::clone(&schema)).build(text.as_bytes());
        let batches: Vec<RecordBatch> =
            reader.expect("a reader").collect::<Result<_, _>>().expect("rows");
        let file = File::create(self.path(name)).expect("a file");
        let mut writer = ArrowWriter::try_new(file, schema, None).expect("a writer");
        batches.iter().for_each(|batch| writer.write(batch).expect("rows"));
        writer.close().expect("a file");
    }
}

/// The action with constants of partitions.
fn of_partition(mut add: Value, values: &Value) -> Value {
    add["add"]["partitionValues"] = values.clone();
    add
}

/// The action with statistics.
pub fn with_stats(mut add: Value, stats: &Value) -> Value {
    add["add"]["stats"] = stats.to_string().into();
    add
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_determines_files_columns_and_partitions() {
    let home = Home::new();
    let table = Delta { home: &home, name: "t" };
    let columns = [
        column("day", "date"),
        column("id", "long"),
        column("part", "string"),
        column("name", "string"),
    ];
    let old = table.file("old.parquet", "SELECT 99::BIGINT AS id, 'old' AS name").await;
    let odd = "part=a b%2Fc/1.parquet";
    let first = table.file(odd, "SELECT 1::BIGINT AS id, 'ann' AS name").await;
    let first = of_partition(first, &json!({"part": "a b/c", "day": "2024-05-01"}));
    let old = of_partition(old, &json!({"part": "old", "day": "2024-05-01"}));
    table.commit(0, &[protocol(), metadata(&columns, &["day", "part"], &json!({})), old, first]);
    // A file from before `name` was added, with a narrower type, and columns in another order.
    let second = table.file("2.parquet", "SELECT 'x' AS other, 2::INTEGER AS id").await;
    let second = of_partition(second, &json!({"part": null, "day": ""}));
    table.commit(1, &[remove("old.parquet"), second]);
    home.check(&[
        ("SELECT * FROM delta_scan('@/t') ORDER BY id", "2024-05-01 1 a b/c ann\n 2  "),
        ("SELECT name, day FROM delta_scan('@/t/') WHERE part = 'a b/c'", "ann 2024-05-01"),
        ("SELECT id FROM delta_scan('file://@/t') WHERE part IS NULL", "2"),
        ("SELECT id FROM delta_scan('@/t') WHERE day IS NOT NULL AND id < 5", "1"),
        ("SELECT count(*), max(id), min(day) FROM delta_scan('@/t')", "2 2 2024-05-01"),
        ("SELECT count(*) FROM delta_scan('@/t') WHERE part = 'none'", "0"),
        ("SELECT t.id FROM delta_scan('@/t') AS t WHERE t.part LIKE 'a%'", "1"),
        (
            "SELECT arrow_typeof(day), arrow_typeof(id), arrow_typeof(part), arrow_typeof(name) \
             FROM delta_scan('@/t') LIMIT 1",
            "Date32 Int64 Utf8View Utf8View",
        ),
        (
            "SELECT f LIKE '%a b%2Fc/1.parquet' FROM delta_scan('@/t', filename = 'f') \
             WHERE id = 1",
            "true",
        ),
        ("SELECT count(*) FROM delta_scan('@/t', version => 0)", "2"),
    ])
    .await;
    let plan = show(&home.session, &home.text("EXPLAIN SELECT id FROM delta_scan('@/t')")).await;
    assert!(plan.contains("parquet"), "{plan}");
    let shown = show(&home.session, &home.text("DESCRIBE SELECT * FROM delta_scan('@/t')")).await;
    let names: Vec<_> = shown.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["day", "id", "part", "name"], "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_see_the_newest_version_or_the_one_they_name() {
    let home = Home::new();
    let table = Delta { home: &home, name: "t" };
    let columns = [column("id", "integer")];
    table.commit(0, &[protocol(), metadata(&columns, &[], &json!({}))]);
    show(&home.session, &home.text("CREATE VIEW v AS SELECT id FROM delta_scan('@/t')")).await;
    check(&home.session, &[("SELECT count(*) FROM v", "0")]).await;
    for version in 1..=3_u64 {
        let name = format!("{version}.parquet");
        let add = table.file(&name, &format!("SELECT {version} AS id")).await;
        let stats = json!({"numRecords": 1, "minValues": {"id": version}});
        table.commit(version, &[with_stats(add, &stats)]);
        check(&home.session, &[("SELECT count(*) FROM v", &version.to_string())]).await;
    }
    home.check(&[
        ("SELECT max(id) FROM delta_scan('@/t', version = 2)", "2"),
        ("SELECT count(*) FROM delta_scan('@/t', version = 0)", "0"),
        ("SELECT max(id) FROM delta_scan('@/t', timestamp = '2026-01-31 12:01:30+00')", "1"),
        (
            "SELECT max(id) FROM delta_scan('@/t', \
             timestamp => TIMESTAMPTZ '2026-01-31T14:02:00+02:00')",
            "2",
        ),
        ("SELECT max(id) FROM delta_scan('@/t', timestamp = '2030-01-01T00:00:00Z')", "3"),
    ])
    .await;
    home.refuse(&[
        (
            "SELECT * FROM delta_scan('@/t', version = 9)",
            &["@/t has no version 9", "newest one is 3"],
        ),
        (
            "SELECT * FROM delta_scan('@/t', version = -1)",
            &["version is a number from 0 on, not -1"],
        ),
        ("SELECT * FROM delta_scan('@/t', timestamp = '2026-01-31')", &["a time with its zone"]),
        ("SELECT * FROM delta_scan('@/t', timestamp = '2020-01-01Z')", &["a time with its zone"]),
        (
            "SELECT * FROM delta_scan('@/t', timestamp = '2020-01-01 00:00:00Z')",
            &["no version of 2020"],
        ),
        (
            "SELECT * FROM delta_scan('@/t', version = 1, timestamp = '2026-01-31 12:00:00Z')",
            &["a version or a timestamp, not both"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_without_matching_rows_are_not_opened() {
    let home = Home::new();
    let table = Delta { home: &home, name: "t" };
    let columns = [
        column("id", "long"),
        column("v", "double"),
        column("at", "timestamp"),
        column("name", "string"),
    ];
    let query = "SELECT 1::BIGINT AS id, 'NaN'::DOUBLE AS v, \
                 TIMESTAMPTZ '2024-05-01 08:00:00.000700+00' AS at, 'abc' AS name";
    let near = with_stats(
        table.file("near.parquet", query).await,
        &json!({
            "numRecords": 1,
            "minValues": {"id": 1, "v": 1.5, "at": "2024-05-01T08:00:00.000Z", "name": "abc"},
            "maxValues": {"id": 1, "v": 1.5, "at": "2024-05-01T08:00:00.000Z", "name": "abc"},
            "nullCount": {"id": 0, "v": 0, "at": 0, "name": 0},
        }),
    );
    let far = json!({"add": {
        "path": "far.parquet", "partitionValues": {}, "size": 1000, "modificationTime": 0,
        "dataChange": true, "stats": json!({
            "numRecords": 7,
            "minValues": {"id": 100, "at": "2025-01-01T00:00:00.000Z", "name": "x"},
            "maxValues": {"id": 200, "at": "2025-01-02T00:00:00.000Z", "name": "y"},
            "nullCount": {"id": 0, "v": 7, "at": 0, "name": 0},
        }).to_string(),
    }});
    table.commit(0, &[protocol(), metadata(&columns, &[], &json!({})), near, far]);
    home.check(&[
        ("SELECT name FROM delta_scan('@/t') WHERE id < 50", "abc"),
        ("SELECT name FROM delta_scan('@/t') WHERE id IN (1, 2) AND v > 2", "abc"),
        ("SELECT id FROM delta_scan('@/t') WHERE name = 'abc'", "1"),
        (
            "SELECT id FROM delta_scan('@/t') WHERE at > '2024-05-01 08:00:00.000500+00' \
             AND at < '2024-06-01 00:00:00+00'",
            "1",
        ),
        ("SELECT count(*) FROM delta_scan('@/t') WHERE id > 500", "0"),
    ])
    .await;
    let refused = error(&home.session, &home.text("SELECT id FROM delta_scan('@/t')")).await;
    assert!(refused.contains("far.parquet"), "{refused}");
}

/// A set of rows as Delta stores it: a map of 64-bit numbers with one bitmap.
fn bitmap(rows: &[u16]) -> Vec<u8> {
    let last = u16::try_from(rows.len() - 1).expect("few rows");
    let mut bytes = 1_681_511_377_u32.to_le_bytes().to_vec();
    bytes.extend(1_u64.to_le_bytes());
    for word in [0_u32, 12_346, 1] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(0_u16.to_le_bytes());
    bytes.extend(last.to_le_bytes());
    bytes.extend(16_u32.to_le_bytes());
    rows.iter().for_each(|row| bytes.extend(row.to_le_bytes()));
    bytes
}

/// Bytes as a text of base 85, filled up to words.
fn z85(bytes: &[u8]) -> String {
    const LETTERS: &[u8] =
        b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
    let mut text = String::new();
    for word in bytes.chunks(4) {
        let mut filled = [0; 4];
        filled[..word.len()].copy_from_slice(word);
        let number = u32::from_be_bytes(filled);
        for power in (0..5).rev() {
            let digit = number / 85_u32.pow(power) % 85;
            text.push(char::from(LETTERS[usize::try_from(digit).expect("a digit")]));
        }
    }
    text
}

/// CRC-32 as in zip files.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_rows_are_left_out() {
    let home = Home::new();
    let table = Delta { home: &home, name: "t" };
    let configuration = json!({"delta.enableDeletionVectors": "true"});
    let metadata = metadata(&[column("id", "long")], &[], &configuration);
    let rows = "SELECT g AS id FROM generate_series(0, 99) AS g ORDER BY g";
    let stats = json!({
        "numRecords": 100, "minValues": {"id": 0}, "maxValues": {"id": 99},
        "nullCount": {"id": 0}, "tightBounds": false,
    });
    let mut one = with_stats(table.file("1.parquet", rows).await, &stats);
    let mut two = table.file("2.parquet", &rows.replace("g AS id", "g + 1000 AS id")).await;
    two["add"]["stats"] = r#"{"numRecords": 100}"#.into();
    table.commit(0, &[features(&["deletionVectors"]), metadata, one.clone(), two.clone()]);
    let inline = bitmap(&[0, 1, 50, 99]);
    let before = [remove("1.parquet"), remove("2.parquet")];
    one["add"]["deletionVector"] = json!({
        "storageType": "i", "pathOrInlineDv": z85(&inline), "sizeInBytes": inline.len(),
        "cardinality": 4,
    });
    let stored = bitmap(&[7]);
    let mut file = vec![1];
    file.extend(u32::try_from(stored.len()).expect("a length").to_be_bytes());
    file.extend(&stored);
    file.extend(crc32(&stored).to_be_bytes());
    let name = "deletion_vector_11111111-1111-1111-1111-111111111111.bin";
    fs::write(table.path(name), file).expect("a file");
    two["add"]["deletionVector"] = json!({
        "storageType": "u", "pathOrInlineDv": z85(&[0x11; 16]), "offset": 1,
        "sizeInBytes": stored.len(), "cardinality": 1,
    });
    table.commit(1, &[&before[..], &[one, two]].concat());
    let left: i64 = (0..100).sum::<i64>() - 150 + (1000..1100).sum::<i64>() - 1007;
    home.check(&[
        ("SELECT count(*) FROM delta_scan('@/t')", "195"),
        ("SELECT count(id), sum(id) FROM delta_scan('@/t')", &format!("195 {left}")),
        ("SELECT id FROM delta_scan('@/t') WHERE id IN (1, 2, 1007, 1008) ORDER BY id", "2\n1008"),
        ("SELECT min(id), max(id) FROM delta_scan('@/t') WHERE id < 500", "2 98"),
        ("SELECT count(*) FROM (SELECT id FROM delta_scan('@/t') LIMIT 97)", "97"),
        ("SELECT count(*) FROM delta_scan('@/t', version = 0)", "200"),
    ])
    .await;
    let joined = "SELECT count(*) FROM delta_scan('@/t') AS a \
                  JOIN delta_scan('@/t') AS b USING (id)";
    home.check(&[(joined, "195")]).await;
    fs::remove_file(table.path(name)).expect("removed");
    let refused = error(&home.session, &home.text("SELECT id FROM delta_scan('@/t')")).await;
    assert!(refused.contains(name), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_are_found_by_their_names_in_the_files() {
    let home = Home::new();
    let table = Delta { home: &home, name: "t" };
    let inner = fields(&[mapped("city", 4, "c-4", "string"), mapped("zip", 5, "c-5", "integer")]);
    let columns = [
        mapped("number", 1, "c-1", "long"),
        mapped("part", 2, "c-2", "string"),
        mapped("place", 3, "c-3", inner),
        // A removed column of the file had this name.
        mapped("old", 6, "c-6", "string"),
        mapped(
            "list",
            7,
            "c-7",
            json!({"type": "array", "containsNull": true,
                "elementType": fields(&[mapped("x", 8, "c-8", "long")])}),
        ),
    ];
    let of_mode = |mode: &str| {
        let configuration =
            json!({"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "8"});
        metadata(&columns, &["part"], &configuration)
    };
    let protocol = json!({"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}});
    let query = "SELECT 7::BIGINT AS \"c-1\", {'c-4': 'Oslo', 'c-5': 150} AS \"c-3\", \
                 'gone' AS old, [{'c-8': 5::BIGINT}] AS \"c-7\"";
    let add = table.file("1.parquet", query).await;
    let stats = json!({"numRecords": 1, "minValues": {"c-1": 7}, "maxValues": {"c-1": 7}});
    let add = with_stats(of_partition(add, &json!({"c-2": "p"})), &stats);
    table.commit(0, &[protocol.clone(), of_mode("name"), add]);
    home.check(&[
        ("SELECT number, part, old FROM delta_scan('@/t')", "7 p "),
        ("SELECT place.city, place.zip, list[1].x FROM delta_scan('@/t')", "Oslo 150 5"),
        ("SELECT number FROM delta_scan('@/t') WHERE place.city = 'Oslo' AND part = 'p'", "7"),
        ("SELECT count(*) FROM delta_scan('@/t') WHERE number = 7 AND old IS NULL", "1"),
        ("SELECT count(*) FROM delta_scan('@/t') WHERE number > 7", "0"),
    ])
    .await;
    // By numbers, whatever the names in the file are.
    let table = Delta { home: &home, name: "ids" };
    let numbered = |name: &str, id: u32, data_type: DataType| {
        let pairs = [("PARQUET:field_id".to_owned(), id.to_string())];
        Field::new(name, data_type, true).with_metadata(pairs.into())
    };
    let parts = vec![numbered("q", 5, DataType::Int32), numbered("r", 4, DataType::Utf8)];
    let schema = Schema::new(vec![
        numbered("c-6", 1, DataType::Int64),
        numbered("b", 3, DataType::Struct(parts.into())),
        numbered("number", 9, DataType::Utf8),
    ]);
    let row = json!({"c-6": 8, "b": {"q": 11, "r": "Bonn"}, "number": "no"});
    table.parquet("1.parquet", schema, &[row]);
    let size = fs::metadata(table.path("1.parquet")).expect("a file").len();
    let add = json!({"add": {
        "path": "1.parquet", "partitionValues": {"c-2": "p"}, "size": size,
        "modificationTime": 0, "dataChange": true,
    }});
    table.commit(0, &[protocol, of_mode("id"), add]);
    home.check(&[
        ("SELECT number, part, old, list FROM delta_scan('@/ids')", "8 p  "),
        ("SELECT place.zip, place.city FROM delta_scan('@/ids') WHERE number = 8", "11 Bonn"),
    ])
    .await;
}

/// The columns of a checkpoint.
fn checkpoint_schema() -> Schema {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let number = |name: &str| Field::new(name, DataType::Int64, true);
    let group = |name: &str, fields: Vec<Field>| {
        Field::new(name, DataType::Struct(Fields::from(fields)), true)
    };
    let map = |name: &str| {
        let pair = vec![Field::new("key", DataType::Utf8, false), text("value")];
        let pair = Field::new("key_value", DataType::Struct(Fields::from(pair)), false);
        Field::new(name, DataType::Map(Arc::new(pair), false), true)
    };
    let names = DataType::List(Arc::new(text("element")));
    Schema::new(vec![
        group(
            "add",
            vec![
                text("path"),
                map("partitionValues"),
                number("size"),
                number("modificationTime"),
                Field::new("dataChange", DataType::Boolean, true),
                text("stats"),
            ],
        ),
        group(
            "metaData",
            vec![
                text("id"),
                group("format", vec![text("provider"), map("options")]),
                text("schemaString"),
                Field::new("partitionColumns", names, true),
                map("configuration"),
                number("createdTime"),
            ],
        ),
        group(
            "protocol",
            vec![
                Field::new("minReaderVersion", DataType::Int32, true),
                Field::new("minWriterVersion", DataType::Int32, true),
            ],
        ),
    ])
}

/// A table `t` with a checkpoint of version 1 and a commit behind it, without older commits.
async fn with_checkpoint(home: &Home) {
    let table = Delta { home, name: "t" };
    let columns = [column("part", "integer"), column("id", "long")];
    let one = table.file("part=1/1.parquet", "SELECT 1::BIGINT AS id").await;
    let one = of_partition(one, &json!({"part": "1"}));
    let one = with_stats(one, &json!({"numRecords": 1, "minValues": {"id": 1}}));
    let two = table.file("part=2/2.parquet", "SELECT 2::BIGINT AS id").await;
    let two = of_partition(two, &json!({"part": "2"}));
    let rows = [protocol(), metadata(&columns, &["part"], &json!({})), one, two];
    let name = format!("_delta_log/{:020}.checkpoint.parquet", 1);
    table.parquet(&name, checkpoint_schema(), &rows);
    fs::write(table.path("_delta_log/_last_checkpoint"), r#"{"version": 1, "size": 4}"#)
        .expect("a file");
    table.commit(1, &[json!({"commitInfo": {"operation": "WRITE"}})]);
    let three = table.file("part=3/3.parquet", "SELECT 3::BIGINT AS id").await;
    let three = of_partition(three, &json!({"part": "3"}));
    table.commit(2, &[three, remove("part=2/2.parquet")]);
}

const QUERY: &str = "SELECT part, id FROM delta_scan('@/t') ORDER BY id";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoints_stand_for_the_commits_before_them() {
    let home = Home::new();
    with_checkpoint(&home).await;
    home.check(&[
        (QUERY, "1 1\n3 3"),
        ("SELECT id FROM delta_scan('@/t', version = 1) ORDER BY id", "1\n2"),
        ("SELECT id FROM delta_scan('@/t') WHERE part > 1", "3"),
    ])
    .await;
    home.refuse(&[(
        "SELECT * FROM delta_scan('@/t', version = 0)",
        &["no version 0, or not any more"],
    )])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_s3_are_read() {
    let server = Server::start();
    let home = Home::new();
    let endpoint = server.endpoint();
    let secret = format!("CREATE SECRET s (TYPE s3, ENDPOINT '{endpoint}', USE_SSL false)");
    show(&home.session, &secret).await;
    with_checkpoint(&home).await;
    let files = glob::glob(&home.text("@/t/**/*")).expect("a pattern");
    for file in files.map(|file| file.expect("a file")).filter(|file| file.is_file()) {
        let name = file.strip_prefix(home.directory.path()).expect("below").display().to_string();
        server.put(&format!("lake/x y/{name}"), fs::read(file).expect("a file"));
    }
    let query = QUERY.replace("@/", "s3://lake/x y/");
    check(&home.session, &[(&query, "1 1\n3 3")]).await;
    let requests = "SELECT misses FROM terrace.remote_files";
    let before = show(&home.session, requests).await;
    check(&home.session, &[(&query, "1 1\n3 3")]).await;
    let hint = "the hint of the last checkpoint, the commit and the checkpoint are cached";
    assert_eq!(show(&home.session, requests).await, before, "{hint}");
    let http = format!("http://{endpoint}/lake/x y/t");
    for (path, why) in [
        ("s3://lake/x y", "no Delta table at s3://lake/x y"),
        (http.as_str(), "HTTP has no lists of files"),
    ] {
        let text = format!("SELECT * FROM delta_scan('{path}')");
        let refused = error(&home.session, &text).await;
        assert!(refused.contains(why), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_is_named() {
    let home = Home::new().with(&[("empty/x.txt", "x"), ("torn/_delta_log/x.txt", "x")]);
    let table = Delta { home: &home, name: "new" };
    table.commit(0, &[features(&["quantumColumns"]), metadata(&[], &[], &json!({}))]);
    let table = Delta { home: &home, name: "variant" };
    let columns = [column("v", "variant")];
    table.commit(0, &[features(&["variantType"]), metadata(&columns, &[], &json!({}))]);
    let table = Delta { home: &home, name: "bad" };
    table.commit(0, &[protocol(), metadata(&[column("id", "long")], &[], &json!({}))]);
    home.write("bad/_delta_log/00000000000000000001.json", b"{\"add\": \n");
    home.refuse(&[
        (
            "SELECT * FROM delta_scan('@/nosuch')",
            &["no Delta table at @/nosuch", "no such directory"],
        ),
        ("SELECT * FROM delta_scan('@/empty')", &["no Delta table at @/empty", "_delta_log"]),
        ("SELECT * FROM delta_scan('@/torn')", &["no Delta table at @/torn", "read_parquet"]),
        ("SELECT * FROM delta_scan('@/new')", &["@/new", "quantumColumns", "DROP FEATURE"]),
        ("SELECT * FROM delta_scan('@/variant')", &["its column v has the type variant"]),
        ("SELECT * FROM delta_scan('@/bad')", &["@/bad", "00000000000000000001.json"]),
        ("SELECT * FROM delta_scan(['@/new', '@/bad'])", &["delta_scan takes one path"]),
        (
            "SELECT * FROM delta_scan('@/bad', union_by_name = true)",
            &["version, timestamp and filename"],
        ),
        ("SELECT * FROM delta_scan()", &["delta_scan takes a path"]),
    ])
    .await;
    let roles = "CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'b'; CREATE ROLE ada LOGIN";
    show(&home.session, roles).await;
    let ada = home.engine.session_of("ada").expect("a session");
    let refused = error(&ada, &home.text("SELECT * FROM delta_scan('@/bad')")).await;
    assert!(refused.contains("superuser"), "{refused}");
}
