//! The statements that users of PostgreSQL and DuckDB type on their first day, through the prompt.

use std::io::Write;
use std::process::Stdio;

use crate::harness::{Home, Ran};

/// The session. A comment `-- refused: WORDS` stands before each statement that fails.
const STATEMENTS: &str = include_str!("everyday.sql");

const FILES: &[(&str, &str)] = &[
    ("a.csv", "id,name\n1,ann\n2,bob\n"),
    ("b.csv", "id,name\n3,cid\n"),
    ("semi.csv", "id;name\n1;ann\n"),
    ("nohead.csv", "1,ann\n2,bob\n"),
    ("t.tsv", "id\tname\n1\tann\n"),
    ("a.json", "{\"id\": 1, \"tags\": [\"p\", \"q\"], \"o\": {\"k\": 5}}\n"),
    ("a.ndjson", "{\"id\": 1, \"tags\": [\"p\", \"q\"], \"o\": {\"k\": 5}}\n"),
    ("arr.json", "[{\"id\": 1}, {\"id\": 2}]"),
    ("hive/year=2023/f.csv", "id\n1\n"),
    ("hive/year=2024/f.csv", "id\n1\n"),
    ("file.sql", "SELECT 1;\n"),
];

#[test]
fn everyday_statements_run_or_are_refused_in_one_sentence() {
    let home = Home::new();
    for (name, text) in FILES {
        home.write(name, text);
    }
    let mut command = home.command(&["sql", "--interactive", "--dram", "64MiB"]);
    command.current_dir(home.path(""));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut stdin = child.stdin.take().expect("stdin");
    // Comments between statements would be part of them, and of the history.
    let statements: String = STATEMENTS
        .lines()
        .filter(|line| !line.starts_with("--"))
        .map(|line| format!("{line}\n"))
        .collect();
    let writer = std::thread::spawn(move || stdin.write_all(statements.as_bytes()));
    let ran = Ran::of(child.wait_with_output().expect("ended"));
    writer.join().expect("joined").expect("written");
    let refused: Vec<&str> =
        STATEMENTS.lines().filter_map(|line| line.strip_prefix("-- refused: ")).collect();
    let errors: Vec<&str> =
        ran.err.lines().filter_map(|line| line.strip_prefix("error: ")).collect();
    for (error, words) in errors.iter().zip(&refused) {
        assert!(error.contains(words), "{error:?} has not {words:?}; all errors: {errors:#?}");
    }
    assert_eq!(errors.len(), refused.len(), "all errors: {errors:#?}");
    assert_eq!(ran.code, Some(0));
}
