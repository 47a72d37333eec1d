//! `terrace tpcds` at a small scale, with queries written for the tests.

use crate::harness::{Home, Ran, json};

const QUERIES: [(&str, &str); 3] = [
    (
        "1.sql",
        "SELECT d_year, d_moy, count(*), avg(ss_net_profit) AS profit, sum(ss_quantity) / 7.0 \
         FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk \
         GROUP BY d_year, d_moy ORDER BY d_year DESC, profit LIMIT 20;",
    ),
    // The limit is inside a group of equal rows.
    ("q2.sql", "SELECT i_category, i_item_id FROM item ORDER BY i_category NULLS FIRST LIMIT 30"),
    (
        "query03.sql",
        "SELECT r_reason_desc, count(*) FROM reason \
         LEFT JOIN store_returns ON sr_reason_sk = r_reason_sk GROUP BY 1",
    ),
];

/// Creates a home with the test queries, and the arguments that run them without any package.
fn home() -> (Home, Vec<String>) {
    let home = Home::new();
    for (name, text) in QUERIES {
        home.write(&format!("queries/{name}"), text);
    }
    let words = ["tpcds", "--scale", "0.01", "--dram", "128MiB", "--answers", "datafusion"];
    let mut arguments: Vec<String> = words.map(String::from).into();
    for (option, name) in
        [("--queries-dir", "queries"), ("--data", "data"), ("--json", "report.json")]
    {
        arguments.extend([option.to_string(), home.path(name)]);
    }
    (home, arguments)
}

fn run(home: &Home, arguments: &[String], more: &[&str]) -> Ran {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    home.run(&[&arguments[..], more].concat())
}

#[test]
fn answers_are_compared_and_the_report_has_the_shape_of_tpch() {
    let (home, arguments) = home();
    let ran = run(&home, &arguments, &["--queries", "1,2,3"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("3 of 3 right") && ran.out.contains("DataFusion's"), "{ran:?}");
    let report = json(home.path("report.json"));
    assert_eq!(report["experiment"], "tpcds");
    assert_eq!(
        (&report["summary"]["correct"], &report["summary"]["total"]),
        (&3.into(), &3.into())
    );
    assert!(report["summary"]["loaded_rows"].as_u64().expect("rows") > 2_000_000);
    let rows = report["rows"].as_array().expect("rows");
    let numbers: Vec<u64> = rows.iter().filter_map(|row| row["query"].as_u64()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert!(rows.iter().all(|row| row["seconds"].as_f64() > Some(0.0) && row["error"].is_null()));
    // The tables exist now; a changed price makes the answer wrong, whatever is allowed.
    home.rows("UPDATE store_sales SET ss_net_profit = 0 WHERE ss_quantity = 7");
    let ran = run(&home, &arguments, &["--queries", "1", "--allow-failures"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("WRONG") && !ran.out.contains("loaded"), "{ran:?}");
    let other = run(&home, &arguments, &["--queries", "2", "--scale", "0.02"]);
    assert_eq!(other.code, Some(2), "an option twice: {other:?}");
}

#[test]
fn tables_of_another_scale_are_refused() {
    let (home, mut arguments) = home();
    let small = ["--queries", "2"];
    assert_eq!(run(&home, &arguments, &small).code, Some(0));
    arguments[2] = "0.5".into();
    run(&home, &arguments, &small).refused(1, &["scale 0.5", "--data"]);
}

#[test]
fn a_missing_text_is_named_before_anything_is_loaded() {
    let (home, arguments) = home();
    run(&home, &arguments, &["--queries", "1,7"]).refused(1, &["query 7", "query07.sql"]);
    home.write("queries/7.sql", "SELECT 1; SELECT 2");
    run(&home, &arguments, &["--queries", "7"]).refused(1, &["7.sql", "2 statements"]);
    run(&home, &arguments, &["--queries", "100"]).refused(2, &["1 to 99"]);
    assert!(!std::path::Path::new(&home.path("data")).exists());
}

#[test]
fn without_texts_and_package_one_message_says_what_would_be_right() {
    let home = Home::new();
    let mut command = home.command(&["tpcds", "--scale", "0.01", "--dram", "128MiB"]);
    let command =
        command.env("PATH", home.path("nothing")).env("XDG_CACHE_HOME", home.path("cache"));
    let ran = Ran::of(command.output().expect("started"));
    ran.refused(1, &["python3", "--queries-dir", "duckdb 1.5.5"]);
}
