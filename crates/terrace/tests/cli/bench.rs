//! `terrace bench` and `terrace doctor`.

use crate::harness::{Home, Ran, json};

#[test]
fn experiments_are_listed() {
    let out = Home::new().ok(&["bench"]);
    for name in ["paged-scan", "tiers", "out-of-core", "clients"] {
        assert!(out.contains(name), "{name}: {out}");
    }
}

#[test]
fn paged_scan_writes_table_report_and_picture() {
    let home = Home::new();
    let file = home.path("scan.json");
    let arguments = ["--scale", "0.01", "--rounds", "2", "--queries", "1,6,13", "--json", &file];
    let out = home.ok(&[&["bench", "paged-scan", "--dram", "512MiB"], &arguments[..]].concat());
    assert!(out.contains("geometric mean"), "{out}");
    let report = json(&file);
    assert_eq!(report["experiment"], "paged-scan");
    assert_eq!(report["rows"].as_array().expect("rows").len(), 3);
    assert!(report["summary"]["geometric_mean"].as_f64().expect("mean") > 0.0);
    assert_eq!(report["summary"]["failed"], 0, "{out}");
    let picture = std::fs::read_to_string(home.path("scan.svg")).expect("picture");
    assert!(picture.contains("Q13"));
}

#[test]
fn tiers_writes_table_report_and_picture() {
    let home = Home::new();
    let file = home.path("tiers.json");
    let arguments = ["--scale", "0.01", "--rounds", "1", "--queries", "6", "--json", &file];
    let out = home.ok(&[&["bench", "tiers"], &arguments[..]].concat());
    assert!(out.contains("64MiB"), "{out}");
    let report = json(&file);
    assert_eq!(report["experiment"], "tiers");
    assert_eq!(report["rows"].as_array().expect("rows").len(), 3);
    assert_eq!(report["summary"]["budgets"].as_array().expect("budgets").len(), 3);
    assert!(std::fs::read_to_string(home.path("tiers.svg")).is_ok());
}

/// An experiment on a machine where DuckDB is not and cannot be installed.
fn without_duckdb(home: &Home, arguments: &[&str]) -> String {
    let mut command = home.command(arguments);
    command.env("PATH", home.path("nothing")).env("XDG_CACHE_HOME", home.path("cache"));
    let ran = Ran::of(command.output().expect("started"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("DuckDB is missing"), "{ran:?}");
    ran.out
}

#[test]
fn out_of_core_compares_engines_at_each_budget_and_says_when_duckdb_is_missing() {
    let home = Home::new();
    let file = home.path("core.json");
    let arguments = ["--scale", "0.01", "--rounds", "1", "--queries", "1,6", "--json", &file];
    let out = without_duckdb(&home, &[&["bench", "out-of-core"], &arguments[..]].concat());
    assert!(out.contains("terrace") && out.contains("DataFusion"), "{out}");
    let report = json(&file);
    assert_eq!(report["experiment"], "out-of-core");
    assert_eq!(report["rows"].as_array().expect("rows").len(), 5 * 2 * 2);
    assert!(report["config"]["missing"].as_str().is_some_and(|text| text.contains("python3")));
    let totals = report["summary"]["totals"].as_array().expect("totals");
    let ours = totals.iter().filter(|total| total["engine"] == "terrace");
    for total in ours {
        assert_eq!(total["answered"], 2, "{total}\n{out}");
        assert!(total["peak_rss_bytes"].as_u64() > Some(0) && total["over_duckdb"].is_null());
        assert!(total["slowdown"].as_f64() > Some(0.0), "{total}");
    }
    assert!(std::fs::read_to_string(home.path("core.svg")).is_ok());
}

#[test]
fn clients_counts_answers_and_errors_and_says_when_duckdb_is_missing() {
    let home = Home::new();
    let file = home.path("clients.json");
    let arguments = ["--scale", "0.01", "--rounds", "1", "--dram", "256MiB", "--json", &file];
    let out = without_duckdb(&home, &[&["bench", "clients"], &arguments[..]].concat());
    assert!(out.contains("short beside 3 heavy"), "{out}");
    let report = json(&file);
    let heavy = &report["summary"]["engines"][0];
    assert_eq!(heavy["heavy_asked"], 24);
    assert_eq!(heavy["heavy_answered"], 24, "{out}");
    assert!(heavy["short_p95_over_idle"].as_f64() > Some(0.0));
    // The heavy clients alone, and three parts under each of three rules.
    assert_eq!(report["rows"].as_array().expect("rows").len(), 10);
    assert!(std::fs::read_to_string(home.path("clients.svg")).is_ok());
}

#[test]
fn the_doctor_says_what_it_found() {
    let home = Home::new();
    let file = home.path("doctor.json");
    let out = home.ok(&["doctor", "--json", &file]);
    for word in ["kernel", "io_uring", "dram"] {
        assert!(out.to_lowercase().contains(word), "{word}: {out}");
    }
    let report = json(&file);
    assert!(report.as_object().is_some_and(|object| !object.is_empty()));
}
