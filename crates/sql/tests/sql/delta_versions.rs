//! Tables of Delta Lake that change between statements, and those that are damaged.

use std::fs;

use serde_json::json;

use crate::common::show;
use crate::delta_tables::{Delta, column, metadata, protocol, remove, with_stats};
use crate::file_functions::Home;

/// The plan of a prepared statement knows the files of its planning; each run has its own plan.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_read_the_newest_version() {
    let home = Home::new();
    let table = Delta { home: &home, name: "t" };
    let one = table.file("1.parquet", "SELECT 1::BIGINT AS id").await;
    table.commit(0, &[protocol(), metadata(&[column("id", "long")], &[], &json!({})), one]);
    show(&home.session, &home.text("CREATE VIEW v AS SELECT id FROM delta_scan('@/t')")).await;
    show(&home.session, &home.text("PREPARE p AS SELECT id FROM delta_scan('@/t') ORDER BY id"))
        .await;
    show(&home.session, &home.text("PREPARE q AS SELECT id FROM v WHERE id > $1 ORDER BY id"))
        .await;
    show(
        &home.session,
        &home.text("PREPARE r AS SELECT count(*) FROM read_parquet('@/t/*.parquet')"),
    )
    .await;
    home.check(&[("EXECUTE p", "1"), ("EXECUTE q (0)", "1"), ("EXECUTE r", "1")]).await;
    let two = table.file("2.parquet", "SELECT 2::BIGINT AS id").await;
    table.commit(1, &[two]);
    home.check(&[("EXECUTE p", "1\n2"), ("EXECUTE q (0)", "1\n2"), ("EXECUTE r", "2")]).await;
    table.commit(2, &[remove("1.parquet")]);
    fs::remove_file(table.path("1.parquet")).expect("removed");
    home.check(&[("EXECUTE p", "2"), ("EXECUTE q (0)", "2"), ("EXECUTE r", "1")]).await;
}

/// The writer delta-rs rounds the bounds of decimals to doubles, and cuts them to 64 bits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rounded_bounds_leave_no_file_out() {
    let home = Home::new();
    let table = Delta { home: &home, name: "t" };
    let columns = [column("d", "decimal(18,5)"), column("e", "decimal(38,0)")];
    let digits = "12345678901234567890123456789012345678";
    let one =
        format!("SELECT 1234567890123.45678::DECIMAL(18,5) AS d, {digits}::DECIMAL(38,0) AS e");
    let one = table.file("1.parquet", &one).await;
    let bounds = json!({"d": 1_234_567_890_123.456_8, "e": i64::MAX});
    let stats = json!({"numRecords": 1, "minValues": bounds, "maxValues": bounds});
    let one = with_stats(one, &stats);
    table.commit(0, &[protocol(), metadata(&columns, &[], &json!({})), one]);
    home.check(&[
        ("SELECT count(*) FROM delta_scan('@/t') WHERE d = 1234567890123.45678", "1"),
        ("SELECT count(*) FROM delta_scan('@/t') WHERE d <= 1234567890123.45678", "1"),
        ("SELECT count(*) FROM delta_scan('@/t') WHERE e > 9223372036854775807", "1"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_named() {
    let home = Home::new();
    let columns = [column("id", "long")];
    let begin = [protocol(), metadata(&columns, &[], &json!({}))];
    for name in ["lost", "short", "foreign", "gap", "headless", "hint"] {
        let table = Delta { home: &home, name };
        let one = table.file("1.parquet", "SELECT 1::BIGINT AS id").await;
        let path = table.path("1.parquet");
        let length = fs::metadata(&path).expect("a file").len();
        match name {
            "headless" => table.commit(0, &[begin[0].clone(), one]),
            _ => table.commit(0, &[begin[0].clone(), begin[1].clone(), one]),
        }
        match name {
            "lost" => fs::remove_file(path).expect("removed"),
            "short" => fs::write(path, b"PAR1").expect("written"),
            "foreign" => {
                let noise = vec![7; usize::try_from(length).expect("small")];
                fs::write(path, noise).expect("written");
            }
            "gap" => table.commit(2, &[]),
            "hint" => {
                let hint = r#"{"version": 0, "size": 4}"#;
                fs::write(table.path("_delta_log/_last_checkpoint"), hint).expect("written");
            }
            _ => {}
        }
    }
    home.refuse(&[
        ("SELECT id FROM delta_scan('@/lost')", &["@/lost lacks its data file", "VACUUM"]),
        ("SELECT id FROM delta_scan('@/short')", &["short/1.parquet has 4 bytes", "the log says"]),
        ("SELECT id FROM delta_scan('@/foreign')", &["cannot read", "foreign/1.parquet: "]),
        ("SELECT id FROM delta_scan('@/gap')", &["commit 00000000000000000001.json", "restore it"]),
        ("SELECT id FROM delta_scan('@/headless')", &["is damaged", "protocol or metaData"]),
        ("SELECT id FROM delta_scan('@/hint')", &["its file _last_checkpoint names", "remove"]),
        ("SELECT id FROM delta_scan('@/gap/1.parquet')", &["it is a file", "read_parquet"]),
        ("SELECT id FROM delta_scan('@/gap/_delta_log')", &["it is within the one at", "/gap"]),
        ("SELECT id FROM read_parquet('@/gap')", &["say delta_scan('@/gap')"]),
        (
            "SELECT id FROM delta_scan('@/lost', timestamp = '1999-01-01 00:00:00Z')",
            &["no version of 1999-01-01 00:00:00Z", "is newer"],
        ),
    ])
    .await;
}
