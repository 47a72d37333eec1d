//! `terrace bench` and `terrace doctor`.

use crate::harness::{Home, json};

#[test]
fn experiments_are_listed() {
    let out = Home::new().ok(&["bench"]);
    assert!(out.contains("paged-scan") && out.contains("tiers"), "{out}");
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
