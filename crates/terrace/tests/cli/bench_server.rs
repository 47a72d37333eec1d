//! `terrace bench server`, at a small scale.

use std::process::Command;

use serde_json::Value;
use terrace_testkit::needs;

use crate::harness::{Home, Ran};

/// Sizes with which a run ends within seconds.
const SMALL: [&str; 22] = [
    "--scale",
    "0.01",
    "--dram",
    "96MiB",
    "--limit",
    "512MiB",
    "--clients",
    "4",
    "--rounds",
    "1",
    "--queries",
    "3,18",
    "--load-seconds",
    "120",
    "--short-seconds",
    "1",
    "--wire-seconds",
    "1",
    "--wire-rows",
    "20000",
    "--seed",
    "7",
];

/// Runs the experiment on a machine where DuckDB is not installed and cannot be; `None` if the
/// client programs are missing.
fn run(arguments: &[&str]) -> Option<(Home, Ran)> {
    for program in ["psql", "pgbench", "stdbuf"] {
        let found = Command::new(program).arg("--version").output();
        needs::or_skip(program, found.map_err(|error| error.to_string()))?;
    }
    let home = Home::new();
    let broken = home.write("bin/python3", "#!/bin/sh\nexit 1\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&broken, mode).expect("a program");
    let path = format!("{}:{}", home.path("bin"), std::env::var("PATH").expect("a path"));
    let file = home.path("server.json");
    let mut command = home.command(&[&["bench", "server", "--json", &file], arguments].concat());
    command.env("PATH", path).env("XDG_CACHE_HOME", home.path("cache"));
    let ran = Ran::of(command.output().expect("started"));
    Some((home, ran))
}

fn report(home: &Home) -> Value {
    let text = std::fs::read_to_string(home.path("server.json")).expect("a report");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn server_counts_clients_and_compares_the_cost_of_the_protocol() {
    let Some((home, ran)) = run(&SMALL) else { return };
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("DuckDB is missing"), "{ran:?}");
    let report = report(&home);
    let of = |part: &str| -> Vec<Value> {
        let rows = report["rows"].as_array().expect("rows").iter();
        rows.filter(|row| row["part"] == part && row["engine"] != "PostgreSQL").cloned().collect()
    };
    let load = of("load");
    assert_eq!(load.len(), 1, "{load:?}");
    assert_eq!((&load[0]["finished"], &load[0]["asked"]), (&4.into(), &8.into()), "{load:?}");
    assert_eq!((&load[0]["failed"], &load[0]["wrong"]), (&0.into(), &0.into()), "{load:?}");
    assert!(load[0]["peak_bytes"].as_u64().is_none_or(|bytes| bytes < 512 << 20), "{load:?}");
    assert_eq!(load[0]["alive"], true);
    let priority = of("priority");
    assert_eq!(priority.len(), 3, "{priority:?}");
    assert!(priority.iter().all(|row| row["answered"].as_u64() >= Some(5)), "{priority:?}");
    assert!(priority[1]["load_answered"].as_u64() > Some(0), "{priority:?}");
    let wire = of("wire");
    // Three modes with one connection and with 32, and the rows by COPY and by Flight SQL.
    assert_eq!(wire.len(), 3 * 2 + 2, "{wire:?}");
    assert!(wire.iter().all(|row| row["rate"].as_f64() > Some(0.0)), "{wire:?}");
    for picture in ["server.svg", "server.wire.svg"] {
        assert!(std::fs::read_to_string(home.path(picture)).is_ok(), "{picture}");
    }
}

#[test]
fn an_unknown_part_is_refused_with_those_there_are() {
    let home = Home::new();
    home.run(&["bench", "server", "--part", "all"]).refused(2, &["load, priority and wire"]);
}
