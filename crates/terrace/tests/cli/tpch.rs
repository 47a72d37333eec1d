//! `terrace tpch` at small scales.

use serde_json::Value;

use crate::harness::{Home, json};

/// Arguments for answers that need no external package.
const TPCH: [&str; 3] = ["tpch", "--answers", "datafusion"];

fn run(home: &Home, arguments: &[&str]) -> (String, Value) {
    let file = home.path("report.json");
    let arguments = [&TPCH[..], &["--json", &file], arguments].concat();
    (home.ok(&arguments), json(&file))
}

#[test]
fn every_answer_is_right_and_the_report_has_its_shape() {
    let home = Home::new();
    let (out, report) = run(&home, &["--scale", "0.01", "--dram", "256MiB"]);
    assert!(out.contains("22 of 22 right"), "{out}");
    let mut keys: Vec<&String> = report.as_object().expect("object").keys().collect();
    keys.sort();
    assert_eq!(keys, ["config", "experiment", "machine", "rows", "summary"]);
    assert_eq!(report["experiment"], "tpch");
    assert!(report["machine"]["cpus"].as_u64().expect("cpus") > 0);
    assert_eq!(report["config"]["dram_bytes"], 256 << 20);
    assert_eq!(report["config"]["encoding"], "compact");
    assert!(out.contains("compact tables"), "{out}");
    let summary = &report["summary"];
    assert_eq!(summary["correct"], 22, "{out}");
    assert_eq!(summary["total"], 22);
    assert_eq!(summary["failed"], 0);
    assert!(summary["seconds"].as_f64().expect("seconds") > 0.0);
    assert!(summary["peak_rss_bytes"].as_u64().expect("bytes") > 0);
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 22);
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(row["query"], index + 1);
        assert!(row["seconds"].as_f64().expect("seconds") > 0.0);
        assert_eq!(row["correct"], true);
        assert!(row["error"].is_null());
        assert!(row["peak_dram_bytes"].as_u64().expect("bytes") <= 256 << 20);
        assert!(!row["tiers"].as_array().expect("tiers").is_empty());
    }
}

#[test]
fn tables_that_are_there_are_not_loaded_again() {
    let home = Home::new();
    let data = home.path("data");
    let arguments = ["--scale", "0.01", "--dram", "128MiB", "--data", &data, "--queries", "1,6"];
    let (out, report) = run(&home, &arguments);
    assert!(out.contains("2 of 2 right") && out.contains("loaded"), "{out}");
    assert!(report["summary"]["loaded_rows"].as_u64().expect("rows") > 80_000);
    let (out, report) = run(&home, &[&arguments[..], &["--repeat", "3"]].concat());
    assert!(out.contains("2 of 2 right") && !out.contains("loaded"), "{out}");
    assert_eq!(report["summary"]["loaded_rows"], 0);
    let other = ["tpch", "--scale", "0.02", "--data", &data, "--queries", "6"];
    home.run(&other).refused(1, &["scale 0.02", "--data"]);
}

#[test]
fn a_wrong_answer_fails_the_run_and_is_named() {
    let home = Home::new();
    let data = home.path("data");
    let arguments = ["--scale", "0.01", "--dram", "128MiB", "--data", &data, "--queries", "4"];
    run(&home, &arguments);
    // Orders keep their count and their keys; some get another priority.
    home.rows("UPDATE orders SET o_orderpriority = '1-URGENT' WHERE o_orderkey < 1000");
    let ran = home.run(&[&TPCH[..], &arguments[..], &["--allow-failures"]].concat());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("WRONG"), "{ran:?}");
    assert!(ran.out.contains("0 of 1 right") && ran.out.contains("1 wrong"), "{ran:?}");
}

#[test]
fn duckdb_judges_where_it_is_and_its_absence_is_said() {
    let home = Home::new();
    let arguments = ["tpch", "--scale", "0.01", "--dram", "128MiB", "--queries", "6"];
    let without = |more: &[&str]| {
        let mut command = home.command(&[&arguments[..], more].concat());
        command.env("PATH", home.path("nothing")).env("XDG_CACHE_HOME", home.path("cache"));
        crate::harness::Ran::of(command.output().expect("started"))
    };
    let ran = without(&[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("DataFusion's") && ran.out.contains("for want of DuckDB"), "{ran:?}");
    without(&["--answers", "duckdb"]).refused(1, &["python3"]);
}

#[test]
fn failed_queries_are_listed_and_fail_the_run_unless_allowed() {
    let home = Home::new();
    let file = home.path("report.json");
    let data = home.path("data");
    let arguments = ["--scale", "0.01", "--dram", "128MiB", "--data", &data, "--queries", "1,6"];
    run(&home, &arguments);
    damage(&format!("{data}/store.terrace"));
    let arguments = [&TPCH[..], &["--json", &file], &arguments[..]].concat();
    let ran = home.run(&arguments);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let ran = home.run(&[&arguments[..], &["--allow-failures"]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report = json(&file);
    assert_eq!(
        (&report["summary"]["correct"], &report["summary"]["failed"]),
        (&0.into(), &2.into())
    );
    for row in report["rows"].as_array().expect("rows") {
        let error = row["error"].as_str().expect("an error");
        assert_eq!(row["correct"], false);
        assert!(error.contains("checksum") && ran.out.contains(error), "{error}\n{ran:?}");
    }
}

/// Flips a bit in every 64 KiB of a file.
fn damage(path: &str) {
    let mut bytes = std::fs::read(path).expect("read");
    bytes.iter_mut().skip(4096).step_by(64 << 10).for_each(|byte| *byte ^= 1);
    std::fs::write(path, bytes).expect("written");
}

#[test]
fn memory_stays_within_the_budget_and_its_allowance() {
    let home = Home::new();
    let (out, report) = run(&home, &["--scale", "0.1", "--dram", "64MiB", "--allow-failures"]);
    let peak = report["summary"]["peak_rss_bytes"].as_u64().expect("bytes");
    assert!(peak <= (64 + 200) << 20, "{peak} bytes resident: {out}");
}

#[test]
fn kept_tables_are_found_again() {
    let home = Home::new();
    let temporary = home.write("tmp/x", "").parent().expect("directory").to_path_buf();
    let arguments = ["--scale", "0.01", "--dram", "128MiB", "--queries", "6", "--keep"];
    let mut command = home.command(&[&TPCH[..], &arguments[..]].concat());
    let ran = crate::harness::Ran::of(command.env("TMPDIR", &temporary).output().expect("started"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let kept = ran.err.split("kept in ").nth(1).expect("named").trim().to_string();
    let out =
        home.ok(&["sql", "--data", &kept, "--format", "csv", "-c", "SELECT count(*) FROM part"]);
    assert!(out.ends_with("\n2000\n"), "{out}");
}

#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    let home = Home::new();
    let temporary = home.write("tmp/x", "").parent().expect("directory").to_path_buf();
    let mut command = home.command(&["tpch", "--scale", "1", "--dram", "128MiB"]);
    let child = command.env("TMPDIR", &temporary).stderr(std::process::Stdio::piped()).spawn();
    let child = child.expect("started");
    let left = || std::fs::read_dir(&temporary).expect("listed").count();
    while left() < 2 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let pid = child.id().to_string();
    let signal = std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill");
    assert!(signal.success());
    let ran = crate::harness::Ran::of(child.wait_with_output().expect("ended"));
    ran.refused(130, &["interrupted"]);
    assert_eq!(left(), 1, "the database is still there");
}
