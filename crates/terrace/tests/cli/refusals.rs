//! Invalid input is refused with one message that names the valid input.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::harness::Home;

#[test]
fn sizes_tiers_and_counts() {
    let home = Home::new();
    home.run(&["sql", "--dram", "lots", "-c", "SELECT 1"]).refused(2, &["--dram", "lots"]);
    home.run(&["sql", "--tier", "floppy:1GiB", "-c", "SELECT 1"]).refused(2, &["floppy", "emu:"]);
    home.run(&["sql", "--tier", "node7:1GiB", "-c", "SELECT 1"]).refused(1, &["node7"]);
    home.run(&["sql", "--threads", "0", "-c", "SELECT 1"]).refused(2, &["--threads"]);
    home.run(&["tpch", "--scale", "0"]).refused(2, &["--scale", "0.001"]);
    home.run(&["tpch", "--queries", "23"]).refused(2, &["1 to 22"]);
    home.run(&["bench", "nothing"]).refused(1, &["nothing", "paged-scan", "tiers"]);
}

#[test]
fn a_missing_script_stops_everything() {
    let home = Home::new();
    let data = home.path("data");
    let create = "CREATE TABLE t AS SELECT 1 AS a";
    let arguments = ["sql", "--data", &data, "-c", create, "-f", "/no/such.sql"];
    home.run(&arguments).refused(1, &["/no/such.sql"]);
    assert!(!std::path::Path::new(&data).exists(), "nothing was begun");
}

#[test]
fn a_second_process_on_the_same_directory() {
    let home = Home::new();
    let data = home.path("data");
    home.rows("CREATE TABLE t AS SELECT 1 AS a");
    let mut holder = home.command(&["sql", "--interactive", "--data", &data]);
    let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
    // Once it answers, it has opened the directory.
    holder.stdin.as_mut().expect("stdin").write_all(b"SELECT a FROM t;\n").expect("write");
    let mut line = String::new();
    let mut output = BufReader::new(holder.stdout.take().expect("stdout"));
    output.read_line(&mut line).expect("read");
    assert_eq!(line, "a\n");
    let ran = home.run(&["sql", "--data", &data, "-c", "SELECT a FROM t"]);
    ran.refused(1, &[&data, &holder.id().to_string()]);
    drop(holder.stdin.take());
    assert!(holder.wait().expect("ended").success());
    assert_eq!(home.rows("SELECT a FROM t")[0]["a"], 1);
}

#[test]
fn a_directory_of_something_else() {
    let home = Home::new();
    home.write("data/notes.txt", "mine");
    let data = home.path("data");
    home.run(&["sql", "--data", &data, "-c", "SELECT 1"]).refused(1, &[&data, "notes.txt"]);
    let home = Home::new();
    home.write("data/FORMAT", "terrace 999\n");
    let data = home.path("data");
    home.run(&["sql", "--data", &data, "-c", "SELECT 1"]).refused(1, &[&data, "999"]);
}

#[test]
fn a_budget_too_small_to_work_with() {
    Home::new().run(&["sql", "--dram", "4KiB", "-c", "SELECT 1"]).refused(1, &["4"]);
}

#[test]
fn a_file_with_foreign_data() {
    let home = Home::new();
    let backup = home.write("backup.tar", &"foreign data ".repeat(1000));
    let before = std::fs::read(&backup).expect("read");
    let tier = format!("file:{}:1GiB", backup.display());
    let data = home.path("data");
    for arguments in [vec!["sql"], vec!["sql", "--data", &data]] {
        let arguments = [&arguments[..], &["--tier", &tier, "-c", "SELECT 1"]].concat();
        home.run(&arguments).refused(1, &["backup.tar", "nothing was changed"]);
        assert!(std::fs::read(&backup).expect("read") == before, "it was changed");
    }
}
