//! Configuration files.

use crate::harness::{Home, lines};

const TIERS: &str = "SELECT tier, capacity_bytes FROM terrace.tiers";

fn tiers(home: &Home, arguments: &[&str]) -> Vec<(String, u64)> {
    let arguments = [&["sql", "--format", "ndjson", "-c", TIERS], arguments].concat();
    let rows = lines(&home.ok(&arguments));
    let tier = |row: &serde_json::Value| {
        let name = row["tier"].as_str().expect("tier").to_string();
        (name, row["capacity_bytes"].as_u64().expect("capacity"))
    };
    rows.iter().map(tier).collect()
}

#[test]
fn a_named_file_gives_options_and_the_command_line_wins() {
    let home = Home::new();
    let file = home.write("c.toml", "dram = \"96MiB\"\ntier = [\"emu:32MiB\"]\n");
    let file = file.to_string_lossy();
    let found = tiers(&home, &["--config", &file]);
    assert_eq!(found[0], ("dram".to_string(), 96 << 20));
    assert_eq!(found[1], ("emu".to_string(), 32 << 20));
    let found = tiers(&home, &["--config", &file, "--dram", "80MiB"]);
    assert_eq!(found[0], ("dram".to_string(), 80 << 20));
    assert_eq!(found[1], ("emu".to_string(), 32 << 20));
}

#[test]
fn the_file_of_the_user_is_read_where_there_is_one() {
    let home = Home::new();
    home.write("config/terrace/config.toml", "dram = \"72MiB\"\n");
    assert_eq!(tiers(&home, &[])[0], ("dram".to_string(), 72 << 20));
}

#[test]
fn wrong_files_are_refused() {
    let home = Home::new();
    let refused = |text: &str, words: &[&str]| {
        let file = home.write("c.toml", text);
        let file = file.to_string_lossy();
        home.run(&["sql", "--config", &file, "-c", "SELECT 1"]).refused(1, words);
    };
    refused("drum = \"1GiB\"\n", &["c.toml", "drum", "dram", "tier", "data", "threads"]);
    refused("dram = \"lots\"\n", &["c.toml", "lots"]);
    refused("tier = \"floppy:1GiB\"\n", &["c.toml", "floppy"]);
    refused("dram = \n", &["c.toml", "line 1"]);
    let missing = home.path("none.toml");
    home.run(&["sql", "--config", &missing, "-c", "SELECT 1"]).refused(1, &["none.toml"]);
}
