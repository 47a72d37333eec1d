//! Memory that the process holds beyond what operators account for.

use crate::harness::{Home, lines};

/// A list of 96 MB held by the plan itself, as a column selects the element.
const LARGE_PLAN: &str = "SELECT consumer, held_bytes FROM terrace.consumers \
     WHERE consumer IN ('pool', 'unaccounted') \
     AND array_element(range(0, 12000000), CAST(held_bytes AS BIGINT) % 5 + 1) >= 0 \
     ORDER BY consumer";
const SMALL_PLAN: &str = "SELECT consumer, held_bytes FROM terrace.consumers \
     WHERE consumer IN ('pool', 'unaccounted') ORDER BY consumer";

#[test]
fn a_large_plan_pushes_cached_tables_out() {
    let home = Home::new();
    let statements = format!(
        "CREATE TABLE t WITH (encoding = 'plain') AS SELECT value AS a, value + 1 AS b \
         FROM generate_series(1, 8000000); SELECT sum(a), sum(b) FROM t; \
         {SMALL_PLAN}; {LARGE_PLAN}; SELECT count(DISTINCT b) FROM t; {SMALL_PLAN}"
    );
    let data = home.path("data");
    let out = home.ok(&[
        "sql",
        "--dram",
        "128MiB",
        "--data",
        &data,
        "--format",
        "ndjson",
        "-c",
        &statements,
    ]);
    let held: Vec<u64> =
        lines(&out).iter().filter_map(|row| row["held_bytes"].as_u64().map(|b| b >> 20)).collect();
    let [pool, unaccounted, squeezed, charged, _, after] = held[..] else {
        panic!("six rows: {out}")
    };
    assert!(pool > 90 && unaccounted == 0, "tables fill the budget: {held:?} MiB");
    assert!(charged > 50 && squeezed + charged <= 128, "the plan takes their place: {held:?} MiB");
    assert!(after < charged / 2, "it is given back after the query: {held:?} MiB");
}

#[test]
fn a_query_that_takes_the_process_beyond_its_limit_ends_and_no_other() {
    let home = Home::new();
    let large = "SELECT count(*), sum(x) FROM (SELECT unnest(range(0, 12000000)) AS x)";
    let limit = ["sql", "--dram", "64MiB", "--memory-limit", "300MiB"];
    let ran = home.run(&[&limit[..], &["-c", large]].concat());
    ran.refused(1, &["query 1", "300MiB", "--memory-limit", "no operator accounts for"]);
    // The session continues: at a prompt the next statement runs.
    let statements = format!("{large};\nSELECT 40 + 2 AS n;\n");
    let ran = crate::prompt::typed(&home, &[&limit[..], &["--interactive"]].concat(), &statements);
    assert!(ran.err.contains("--memory-limit") && ran.out.contains("42"), "{ran:?}");
    let large = "SELECT length(CAST(range(0, 3000000) AS VARCHAR)) AS l";
    let ran = home.run(&["sql", "--dram", "64MiB", "--memory-limit", "4GiB", "-c", large]);
    assert!(ran.code == Some(0) && ran.out.contains("25888890"), "{ran:?}");
}
