//! The pages of `docs/sql` show what the program prints.
//!
//! The statements of the blocks marked `sql` of a page run in one session, in order, and the block
//! marked `text` behind each is their output. `TERRACE_WRITE_PAGES=1` writes the outputs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::harness::{Home, Ran};

const FENCE: &str = "```";

/// Part of a page: lines of text, or statements.
enum Part {
    Text(String),
    Statements(String),
}

/// Splits a page into text and statements, without the outputs.
fn parts(page: &str) -> Vec<Part> {
    let mut parts = vec![Part::Text(String::new())];
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let block = |lines: &mut std::iter::Peekable<std::str::Lines<'_>>| {
            let body: Vec<_> = lines.by_ref().take_while(|line| *line != FENCE).collect();
            body.iter().map(|line| format!("{line}\n")).collect::<String>()
        };
        match line {
            "```sql" => {
                parts.push(Part::Statements(block(&mut lines)));
                lines.next_if(|line| line.is_empty());
                match lines.next_if(|line| *line == "```text") {
                    Some(_) => {
                        block(&mut lines);
                        parts.push(Part::Text(String::new()));
                    }
                    None => parts.push(Part::Text("\n".to_owned())),
                }
            }
            line => {
                let Some(Part::Text(text)) = parts.last_mut() else { panic!("text follows") };
                let _ = writeln!(text, "{line}");
            }
        }
    }
    parts
}

/// Runs the statements of all parts in one session and returns the output of each.
fn outputs(home: &Home, parts: &[Part]) -> Vec<String> {
    let mut statements = String::new();
    for part in parts {
        if let Part::Statements(text) = part {
            let _ = writeln!(statements, "{text}SELECT 'end' AS end_of_block;");
        }
    }
    let mut command = home.command(&["sql", "--dram", "64MiB"]);
    let directory = home.path("work");
    std::fs::create_dir_all(&directory).expect("a directory");
    command.current_dir(directory).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(statements.as_bytes()).expect("written");
    drop(input);
    let ran = Ran::of(child.wait_with_output().expect("ended"));
    let has_no_error = ran.err.lines().all(|line| line.starts_with("NOTICE: "));
    assert!(ran.code == Some(0) && has_no_error, "{}\n{}", ran.out, ran.err);
    let mut outputs: Vec<_> = ran.out.split("end_of_block\n------------\nend\n1 row\n").collect();
    assert_eq!(outputs.pop(), Some(""), "the last block has an end");
    outputs.into_iter().map(str::to_owned).collect()
}

/// Returns a page with the outputs that its statements have.
fn written(home: &Home, page: &str) -> String {
    let parts = parts(page);
    let mut outputs = outputs(home, &parts).into_iter();
    let mut text = String::new();
    for part in &parts {
        match part {
            Part::Text(lines) => text.push_str(lines),
            Part::Statements(statements) => {
                let output = outputs.next().expect("an output for each block");
                let _ = writeln!(text, "```sql\n{statements}```");
                let lines: String =
                    output.lines().map(|line| format!("{}\n", line.trim_end())).collect();
                if !lines.is_empty() {
                    let _ = writeln!(text, "\n```text\n{lines}```");
                }
            }
        }
    }
    text
}

fn check(name: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql").join(name);
    let page = std::fs::read_to_string(&path).expect("a page");
    let written = written(&Home::new(), &page);
    if std::env::var("TERRACE_WRITE_PAGES").is_ok() {
        std::fs::write(&path, &written).expect("written");
    } else {
        assert_eq!(page, written, "TERRACE_WRITE_PAGES=1 writes docs/sql/{name} again");
    }
}

#[test]
fn pages_of_the_sql_reference_show_what_is_printed() {
    for name in
        ["README.md", "types.md", "queries.md", "tables.md", "changes.md", "files.md", "help.md"]
    {
        check(name);
    }
}
