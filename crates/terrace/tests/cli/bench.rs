//! `terrace bench` and `terrace doctor`.

use crate::harness::{Home, Ran, json};

#[test]
fn experiments_are_listed() {
    let out = Home::new().ok(&["bench"]);
    for name in ["paged-scan", "tiers", "out-of-core", "clients"] {
        assert!(out.contains(name), "{name}: {out}");
    }
    assert!(out.contains("does a tier between DRAM and the store ever cost time?"), "{out}");
}

#[test]
fn an_experiment_shows_and_takes_only_its_own_options() {
    let home = Home::new();
    let help = home.ok(&["bench", "hash-index", "--help"]);
    assert!(help.contains("--pairs") && help.contains("--rounds"), "{help}");
    assert!(help.contains("--dram") && !help.contains("--objects"), "{help}");
    home.run(&["bench", "market", "--pairs", "5"]).refused(2, &["--pairs"]);
    home.run(&["bench", "region", "--warm-up", "1"]).refused(2, &["--warm-up"]);
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
    assert_eq!(report["config"]["encoding"], "plain");
    assert!(out.contains("plain tables") && out.contains("DataFusion as it comes"), "{out}");
    assert_eq!(report["rows"].as_array().expect("rows").len(), 3);
    assert!(report["summary"]["geometric_mean"].as_f64().expect("mean") > 0.0);
    assert_eq!(report["summary"]["failed"], 0, "{out}");
    let picture = std::fs::read_to_string(home.path("scan.svg")).expect("picture");
    assert!(picture.contains("Q13") && picture.contains("plain tables"));
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
    assert_eq!(report["config"]["encoding"], "compact");
    let picture = std::fs::read_to_string(home.path("tiers.svg")).expect("picture");
    assert!(picture.contains("compact tables"));
    let plain = ["bench", "tiers", "--dram", "64MiB", "--encoding", "plain"];
    let out = home.ok(&[&plain[..], &arguments].concat());
    assert!(out.contains("plain tables"), "{out}");
    assert_eq!(json(&file)["config"]["encoding"], "plain");
}

#[test]
fn segments_repeats_figures_over_tables_of_both_benchmarks() {
    let home = Home::new();
    let file = home.path("segments.json");
    let texts = home.path("texts");
    std::fs::create_dir_all(&texts).expect("made");
    let text = "SELECT ss_store_sk, count(*) FROM store_sales GROUP BY 1 ORDER BY 1 LIMIT 2";
    std::fs::write(format!("{texts}/7.sql"), text).expect("written");
    let arguments = ["--scale", "0.01", "--scale-max", "0.02", "--rounds", "2", "--queries", "1,6"];
    let kinds =
        ["--figures", "6,7a,7b", "--benchmarks", "tpch,tpcds", "--memories", "file,emu@1us"];
    let tpcds = ["--tpcds-queries", "7", "--queries-dir", &texts, "--json", &file];
    let out = home.ok(&[&["bench", "segments"], &arguments[..], &kinds, &tpcds].concat());
    assert!(out.contains("tpcds 0.02") && out.contains("figure 7b: separate over"), "{out}");
    let report = json(&file);
    // For each benchmark and memory: a footprint and four migrations at two scales, four visits
    // with queries at one.
    assert_eq!(report["rows"].as_array().expect("rows").len(), 2 * 2 * (2 * (1 + 4) + 4));
    let queries = report["summary"]["queries"].as_array().expect("changes");
    assert_eq!(queries.len(), 4);
    assert!(queries[3]["ratio"]["half_width"].is_f64(), "{queries:?}");
    assert!(report["summary"]["footprint"][0]["metadata_share"].as_f64() < Some(0.01));
    for picture in ["segments.svg", "segments.7a.svg", "segments.7b.svg"] {
        assert!(std::fs::read_to_string(home.path(picture)).is_ok(), "{picture}");
    }
    let small = ["--scale", "0.01", "--rounds", "1", "--queries", "6", "--figures", "5"];
    let out = home.ok(&[&["bench", "segments"], &small[..]].concat());
    assert!(out.contains("4KiB, retain off") && out.contains("best block"), "{out}");
}

/// Runs an experiment on a machine where DuckDB is not installed and cannot be.
fn run_without_duckdb(home: &Home, arguments: &[&str]) -> Ran {
    let mut command = home.command(arguments);
    command.env("PATH", home.path("nothing")).env("XDG_CACHE_HOME", home.path("cache"));
    Ran::of(command.output().expect("started"))
}

fn without_duckdb(home: &Home, arguments: &[&str]) -> String {
    let ran = run_without_duckdb(home, arguments);
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
    assert_eq!(report["config"]["encoding"], "compact");
    let limit = report["config"]["memory_limit"].as_str().expect("words");
    assert!(limit.contains("control group") && limit.contains("page cache"), "{limit}");
    assert!(out.contains(limit), "{out}");
    let totals = report["summary"]["totals"].as_array().expect("totals");
    let ours = totals.iter().filter(|total| total["engine"] == "terrace");
    for total in ours {
        assert_eq!(total["answered"], 2, "{total}\n{out}");
        assert!(total["peak_rss_bytes"].as_u64() > Some(0) && total["over_duckdb"].is_null());
        assert!(total["slowdown"].as_f64() > Some(0.0), "{total}");
    }
    assert!(std::fs::read_to_string(home.path("core.svg")).is_ok());
}

/// The engine's tables have as many rows as before, but some values differ.
#[test]
fn an_answer_of_the_right_length_with_wrong_values_fails_comparisons_by_name() {
    let home = Home::new();
    let data = home.path("arena");
    let small = ["--scale", "0.01", "--rounds", "1", "--dram", "64MiB", "--data", &data];
    let out_of_core = [&["bench", "out-of-core", "--queries", "4"], &small[..]].concat();
    let out = without_duckdb(&home, &out_of_core);
    assert!(out.contains("all answers are the same") && out.contains("compact tables"), "{out}");
    let tables = format!("{data}/terrace");
    let change = "UPDATE orders SET o_orderpriority = '1-URGENT' WHERE o_orderkey < 1000; \
                  UPDATE lineitem SET l_discount = 0.05 WHERE l_orderkey < 9000";
    home.ok(&["sql", "--data", &tables, "-c", change]);
    run_without_duckdb(&home, &out_of_core).refused(1, &["query 4", "terrace", "DataFusion"]);
    let clients = [&["bench", "clients"], &small[..]].concat();
    run_without_duckdb(&home, &clients).refused(1, &["query", "not the answer of terrace"]);
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
    let behind = &heavy["behind_over_fair"];
    assert!(behind["low"].as_f64() < behind["ratio"].as_f64(), "{behind}");
    assert!(
        heavy["behind_answered"].as_u64() > Some(0) && report["config"]["encoding"] == "compact"
    );
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

/// Arguments of runs that end quickly, and of such runs over pages.
const BRIEF: [&str; 6] = ["--rounds", "1", "--seconds", "0.1", "--threads", "2"];
const SHORT: [&str; 8] = ["--rounds", "1", "--seconds", "0.1", "--warm-up", "0", "--threads", "2"];

#[test]
fn workloads_over_pages_write_table_report_pictures_and_samples() {
    let home = Home::new();
    let (file, csv) = (home.path("ycsb.json"), home.path("ycsb.csv"));
    let arguments = ["bench", "ycsb", "--mix", "b,f", "--tuples", "20000", "--dram", "8MiB"];
    let named = ["--tier", "emu:1MiB@0ns", "--policy", "adaptive", "--json", &file, "--csv", &csv];
    let out = home.ok(&[&arguments[..], &named, &SHORT].concat());
    assert!(out.contains("YCSB-B") && out.contains("mapped"), "{out}");
    let report = json(&file);
    assert_eq!(report["experiment"], "ycsb");
    assert_eq!(report["rows"].as_array().expect("rows").len(), 4, "two mixes, two placements");
    assert!(report["rows"][0]["per_second"].as_f64().expect("a figure") > 0.0);
    for picture in ["ycsb.svg", "ycsb.seconds.svg"] {
        assert!(std::fs::read_to_string(home.path(picture)).is_ok(), "{picture}");
    }
    let samples = std::fs::read_to_string(home.path("ycsb.3-0.csv")).expect("samples");
    assert!(samples.starts_with("end_seconds,") && samples.contains("emu_demoted"), "{samples}");
}

#[test]
fn tpcc_runs_where_dram_is_a_fraction_of_its_data() {
    let home = Home::new();
    let arguments = ["bench", "tpcc", "--warehouses", "1", "--dram", "32MiB"];
    let out = home.ok(&[&arguments[..], &["--placement", "mapped"], &SHORT].concat());
    assert!(out.contains("TPC-C, 1 warehouses"), "{out}");
}

#[test]
fn remote_memory_is_compared_with_none_and_priced() {
    let home = Home::new();
    let (file, config) = (home.path("n.json"), home.path("prices.toml"));
    std::fs::write(&config, "prices = { dram = 10, remote = 1 }\n").expect("written");
    let small = ["--workloads", "random-read", "--tuples", "40000", "--dram", "1MiB"];
    let sweep = [&["bench", "n-tier", "--json", &file], &small[..], &SHORT].concat();
    let out = home.ok(&sweep);
    assert!(out.contains("+250 ns") && out.contains("published"), "{out}");
    let report = json(&file);
    assert_eq!(report["rows"].as_array().expect("rows").len(), 10, "five sizes of two latencies");
    assert_eq!(report["summary"]["curves"].as_array().expect("curves").len(), 2);
    assert!(std::fs::read_to_string(home.path("n.remote.svg")).is_ok());
    let cost = [&["bench", "cost", "--config", &config, "--json", &file], &small[..], &SHORT];
    let out = home.ok(&cost.concat());
    assert!(out.contains("DRAM 10, remote 1"), "{out}");
    assert_eq!(json(&file)["summary"]["points"].as_array().expect("points").len(), 6);
}

#[test]
fn migration_is_measured_and_what_it_delays() {
    let home = Home::new();
    let (file, lab) = (home.path("m.json"), home.path("lab.json"));
    let out = home.ok(&["bench", "migration", "--json", &file]);
    assert!(out.contains("copy") && out.contains("the mover is"), "{out}");
    let report = json(&file);
    let machine = report["rows"][0].to_string();
    std::fs::write(&lab, machine).expect("written");
    let out = home.ok(&["bench", "migration", "--lab", &lab, "--json", &file]);
    assert!(out.contains("lab, 1 node") && out.contains("emulated"), "{out}");
    assert_eq!(json(&file)["rows"].as_array().expect("rows").len(), 2);
    assert!(std::fs::read_to_string(home.path("m.machines.svg")).is_ok());

    let small = ["bench", "background", "--tuples", "40000", "--dram", "1MiB", "--json", &file];
    let out = home.ok(&[&small[..], &SHORT].concat());
    assert!(out.contains("migrates") && out.contains("stays"), "{out}");
    let report = json(&file);
    assert_eq!(report["rows"].as_array().expect("rows").len(), 4, "both placements");
    let promoted = |at: usize| report["rows"][at]["promoted"].as_u64().expect("a count");
    assert_eq!([promoted(1), promoted(3)], [0, 0], "without migration");
}

#[test]
fn a_region_is_touched_in_every_way() {
    let home = Home::new();
    let file = home.path("r.json");
    let small = ["bench", "region", "--dram", "4MiB", "--json", &file];
    let out = home.ok(&[&small[..], &BRIEF].concat());
    assert!(out.contains("moved, immutable") && out.contains("of the device's"), "{out}");
    assert_eq!(json(&file)["rows"].as_array().expect("rows").len(), 6);
}

#[test]
fn small_objects_are_measured_in_every_way() {
    let home = Home::new();
    let file = home.path("o.json");
    let small = ["bench", "objects", "--objects", "20000", "--json", &file];
    let out = home.ok(&[&small[..], &BRIEF].concat());
    for part in ["an object of 32 B", "create, 32 B", "YCSB-A", "Facebook-F", "get of 16 KiB"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(out.contains("20000 objects; 10ms each"), "{out}");
    assert!(std::fs::read_to_string(home.path("o.breakdown.svg")).is_ok());
    let instead = ["--churn", "1", "--lasting", "--memory", "region", "--dram", "16MiB"];
    let out = home.ok(&[&small[..], &BRIEF, &instead].concat());
    for part in ["put, log synced", "objects restored", "churn: full", "16MiB in memory"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(!out.contains("YCSB-A"), "in place of the figures: {out}");
    let summary = &json(&file)["summary"];
    assert!(summary["churn"]["share_at_end"].as_f64().is_some_and(|part| part > 0.5), "{summary}");
    for picture in ["o.svg", "o.churn.svg", "o.larger.svg"] {
        assert!(std::fs::read_to_string(home.path(picture)).is_ok(), "{picture}");
    }
    let elsewhere = ["bench", "objects", "--memory", "disk"];
    home.run(&elsewhere).refused(2, &["disk", "dram", "region"]);
}

/// Checked before anything is measured, as that takes time.
#[test]
fn reports_that_cannot_be_written_are_refused_at_once() {
    let home = Home::new();
    let nowhere = home.path("no/such/directory/r.json");
    for run in [&["bench", "objects"][..], &["tpch"], &["bench", "region"]] {
        home.run(&[run, &["--json", &nowhere]].concat()).refused(1, &["no/such/directory"]);
    }
    let samples = ["bench", "random-read", "--csv", &nowhere];
    home.run(&samples).refused(1, &["no/such/directory"]);
    let kept = home.path("kept.json");
    std::fs::write(&kept, "what was there").expect("a file");
    home.run(&["bench", "n-tier", "--workloads", "tpch", "--json", &kept]).refused(1, &["tpch"]);
    assert_eq!(std::fs::read_to_string(&kept).expect("there"), "what was there");
    let new = home.path("new.json");
    home.run(&["bench", "n-tier", "--workloads", "tpch", "--json", &new]).refused(1, &["tpch"]);
    assert!(!std::path::Path::new(&new).exists(), "nothing is left of what failed");
}

#[test]
fn wrong_options_of_workloads_say_what_is_right() {
    let home = Home::new();
    let refused = |arguments: &[&str], code: i32, words: &[&str]| {
        home.run(&[&["bench"], arguments].concat()).refused(code, words);
    };
    refused(&["tpcc", "--policy", "lru"], 2, &["lru", "adaptive"]);
    refused(&["tpcc", "--placement", "here"], 2, &["here", "framed", "mapped"]);
    refused(&["ycsb", "--mix", "z"], 2, &["z", "a to f"]);
    refused(&["random-read", "--seconds", "-1"], 2, &["-1"]);
    refused(&["n-tier", "--workloads", "tpch"], 1, &["tpch", "random-read"]);
    refused(&["background", "--tier", "emu:1MiB"], 1, &["tiers of background are its own"]);
    refused(&["migration", "--lab", "/dev/null"], 1, &["/dev/null", "no report of the lab"]);
    refused(&["n-tier", "--tier", "emu:1MiB"], 1, &["remote tier is what varies"]);
}
